"""Hosts that stay for the next command: found again, never mixed up, and always ended."""

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odf.coordinator.context import Context, Settings
from odf.coordinator.engine_overview import RunningEngine, running_engines, stop_engines
from odf.limits import HOST_SILENCE_SECONDS
from odf.protocol import LEASE_SOCKET
from odf.runtimes.base import EngineHandle
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.container import ContainerRuntime, list_containers
from odf.runtimes.container_cli import ContainerCli, ContainerToolName
from odf.runtimes.lease import Lease, LeaseEndedError
from odf.runtimes.pool import EnginePool, PoolSettings
from odf.runtimes.process import Launch, ProcessRuntime
from odf.runtimes.processes import birth, is_seen
from odf.runtimes.warm import WarmHost, WarmHosts, fingerprint, running_hosts, stop_hosts
from odf.workspace.workspace import Workspace
from tests.conftest import PROJECT, until
from tests.runtimes.conftest import (
    SANDBOXES,
    make_runtime,
    one_input,
    tiny_command,
    transform_call,
)

MakeSlice = Callable[..., Path]
WITH_SANDBOX = ["process", *SANDBOXES]
LONG = 600.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "hosts"
    yield folder
    stop_hosts(folder, also_used=True)


def take(
    folder: Path, wanted: str = "same", *, runtime: str = "process", idle: float = LONG
) -> EngineHandle | None:
    def compose(place: Path, idle_seconds: float) -> Launch:
        made = make_runtime(runtime)
        assert isinstance(made, BubblewrapRuntime | ContainerRuntime | ProcessRuntime)
        return made.compose(place, idle_seconds=idle_seconds)

    return WarmHosts(folder, idle).take("tiny", wanted, compose)


def taken(folder: Path, wanted: str = "same", **options: object) -> EngineHandle:
    handle = take(folder, wanted, **options)  # type: ignore[arg-type]
    assert handle is not None
    return handle


def record(folder: Path) -> WarmHost:
    found = WarmHost.read(folder / "tiny")
    assert found is not None
    return found


@pytest.mark.parametrize("runtime", WITH_SANDBOX)
def test_the_next_command_finds_the_same_host(
    runtime: str, folder: Path, make_slice: MakeSlice, tmp_path: Path
) -> None:
    view = one_input(make_slice([0], ["a"]), 0, 0)
    results = []
    pids = []
    for number in (1, 2):
        with taken(folder, runtime=runtime) as handle:
            pids.append(handle.client.describe().pid)
            output = tmp_path / f"result-{number}"
            handle.client.execute_transform(transform_call("pass", output, view))
            results.append(output.read_bytes())
            assert not handle.has_ended
    assert results[0] == results[1]
    assert record(folder).lives
    # The host notices the end of a lease when it gets to it.
    until(lambda: [status.leases for status in running_hosts(folder)] == [0])
    [status] = running_hosts(folder)
    assert status.host.sandboxed is (runtime != "process")
    [stopped] = stop_hosts(folder)
    assert stopped == status.host
    assert not stopped.lives
    assert not Path(stopped.sockets).exists()
    assert [path.name for path in (folder / "tiny").iterdir()] == ["lock"]


def test_a_host_that_was_started_otherwise_makes_room(folder: Path) -> None:
    with taken(folder, "first") as first:
        pid = first.pid
    with taken(folder, "second") as second:
        assert second.pid != pid
    assert record(folder).fingerprint == "second"


def test_a_host_in_use_is_not_taken_from_its_user(folder: Path) -> None:
    with taken(folder, "first") as first:
        assert take(folder, "second") is None
        assert first.client.describe().engine == "tiny"
    assert record(folder).fingerprint == "first"


def test_two_commands_share_a_host(folder: Path) -> None:
    with taken(folder) as first, taken(folder) as second:
        assert first.pid == second.pid
        [status] = running_hosts(folder)
        assert status.leases == 2


def test_a_host_ends_when_nobody_uses_it(folder: Path) -> None:
    with taken(folder, idle=0.2):
        host = record(folder)
    until(lambda: not host.lives)
    assert not (Path(host.sockets) / "lease.sock").exists()
    assert running_hosts(folder) == ()
    with taken(folder) as handle:
        assert handle.pid != host.pid


def test_a_command_that_is_killed_takes_the_host_with_it(folder: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.runtimes.test_warm import taken\n"
        f"handle = taken(Path({str(folder)!r}))\n"
        "print('taken', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"taken\n"
        host = record(folder)
        assert host.lives
        child.send_signal(signal.SIGKILL)
    until(lambda: not host.lives)
    with taken(folder) as handle:
        assert handle.client.describe().pid != host.pid


def test_a_killed_host_is_noticed_and_replaced(folder: Path) -> None:
    with taken(folder) as handle:
        host = record(folder)
        os.killpg(host.pid, signal.SIGKILL)
        until(lambda: handle.has_ended)
    with taken(folder) as handle:
        assert handle.pid != host.pid
        assert handle.client.describe().engine == "tiny"
    assert not Path(host.sockets).exists()


@pytest.mark.container
@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_a_container_outlives_its_tool_only_till_the_next_command(
    runtime: Any, folder: Path
) -> None:
    """The attached tool stands for the container; when it is killed the container goes on."""
    of_others = warm_containers(runtime)
    with taken(folder, runtime=runtime):
        host = record(folder)
    os.kill(host.pid, signal.SIGKILL)
    until(lambda: not host.lives)
    lost = warm_containers(runtime) - of_others
    assert len(lost) == 1
    with taken(folder, runtime=runtime) as handle:
        assert handle.pid != host.pid
        until(lambda: not lost & warm_containers(runtime))
    [stopped] = stop_hosts(folder)
    assert not stopped.lives
    until(lambda: warm_containers(runtime) <= of_others)


@pytest.mark.container
@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_a_container_that_nobody_uses_ends(runtime: Any, folder: Path) -> None:
    of_others = warm_containers(runtime)
    with taken(folder, runtime=runtime, idle=0.2):
        host = record(folder)
    until(lambda: not host.lives)
    until(lambda: warm_containers(runtime) <= of_others)


def warm_containers(tool: ContainerToolName) -> set[str]:
    """The containers of this user that stay."""
    return {name for name in list_containers(ContainerCli(tool)) if name.startswith("odf-warm-")}


@pytest.mark.parametrize("runtime", WITH_SANDBOX)
def test_the_overview_has_each_engine_once(runtime: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = Settings(data_home=home, cache_home=home, config_home=home)
    with Context(Workspace.init(tmp_path / "workspace"), settings, command="status") as ctx:
        folder = ctx.workspace.hosts_dir
        try:
            with taken(folder, runtime=runtime):
                host = record(folder)
            until(lambda: [found.leases for found in running_hosts(folder)] == [0])
            [found] = overview_of(ctx, host)
            assert (found.engine, found.runtime, found.commands) == ("tiny", runtime, 0)
            assert found.place == (host.container or str(host.pid))
            assert found.answers
            hung = serving_process(host)
            os.kill(hung, signal.SIGSTOP)
            [found] = overview_of(ctx, host)
            assert (found.answers, found.commands) == (False, None)
        finally:
            stopped = stop_engines(ctx)
        assert [engine.place for engine in stopped.engines] == [found.place]
        assert stopped.used == ()


def test_engines_of_commands_that_run_are_not_stopped(tmp_path: Path) -> None:
    home = tmp_path / "home"
    settings = Settings(data_home=home, cache_home=home, config_home=home)
    with Context(Workspace.init(tmp_path / "workspace"), settings, command="stop") as ctx:
        folder = ctx.workspace.hosts_dir
        with taken(folder) as handle:
            done = stop_engines(ctx)
            assert done.engines == ()
            assert [(engine.engine, engine.commands) for engine in done.used] == [("tiny", 1)]
            assert handle.client.describe().engine == "tiny"
        assert len(stop_engines(ctx).engines) == 1
        assert stop_engines(ctx).engines == ()


def overview_of(ctx: Context, host: WarmHost) -> list[RunningEngine]:
    """What is said about a host, by whatever name; others may run containers here too."""
    names = (host.container, str(host.pid))
    return [one for one in running_engines(ctx) if one.engine == host.engine or one.place in names]


def test_where_nothing_can_be_kept_an_engine_ends_with_its_command(tmp_path: Path) -> None:
    """As in a workspace that can only be read; not even root can make a folder in a file."""
    (tmp_path / "file").write_text("")
    settings = PoolSettings(
        runtime="process", warm_folder=tmp_path / "file" / "hosts", idle_seconds=LONG
    )
    pool = EnginePool(settings, tmp_path / "run")
    try:
        client = pool.client("datafusion", dataset="mine", trusted=True)
        assert client.describe().engine == "datafusion"
        [pid] = pool.pids
    finally:
        pool.close()
    until(lambda: birth(pid) is None)


def test_a_process_that_got_the_number_of_a_dead_host_is_left_alone(folder: Path) -> None:
    with taken(folder):
        host = record(folder)
    stop_hosts(folder)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        place = folder / "tiny" / "host.json"
        text = {name: getattr(host, name) for name in host.__slots__} | {"pid": other.pid}
        place.write_text(json.dumps(text))
        with taken(folder) as handle:
            assert handle.pid != other.pid
        assert other.poll() is None


def test_a_copied_workspace_has_no_host_yet(folder: Path, tmp_path: Path) -> None:
    with taken(folder) as first:
        pass
    copy = tmp_path / "copy" / "hosts"
    shutil.copytree(folder, copy)
    try:
        assert running_hosts(copy) == ()
        with taken(copy) as second:
            assert second.pid != first.pid
        assert len(stop_hosts(copy)) == 1
        assert record(folder).lives
        with taken(folder) as again:
            assert again.pid == first.pid
    finally:
        stop_hosts(copy)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', '{"engine": null}'])
def test_a_record_that_says_nothing_is_swept_away(content: str, folder: Path) -> None:
    place = folder / "tiny"
    place.mkdir(parents=True)
    (place / "host.json").write_text(content)
    (place / "engine").mkdir()
    (place / "engine" / "left-behind").write_text("")
    with taken(folder):
        assert not (place / "engine" / "left-behind").exists()


def test_a_lease_is_not_given_by_a_host_that_ends(folder: Path) -> None:
    with taken(folder):
        host = record(folder)
        broken = Lease(Path(host.sockets))
        broken.take()
        # Closed without a word, as by a process that was killed.
        broken._socket.close()

        def refused() -> bool:
            with contextlib.closing(Lease(Path(host.sockets))) as late:
                try:
                    late.take()
                except LeaseEndedError:
                    return True
            return False

        until(refused)
        # Whoever comes meanwhile starts an engine of its own.
        assert take(folder) is None
        assert host.lives
    until(lambda: not host.lives)


@pytest.mark.parametrize("runtime", WITH_SANDBOX)
def test_a_host_that_hangs_is_replaced_soon(
    runtime: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What must not be waited for takes longer than any test may.
    for name in ("LEASE_ANSWER_SECONDS", "ENGINE_STOP_SECONDS"):
        monkeypatch.setattr(f"odf.runtimes.warm.{name}", LONG)
    with taken(folder, runtime=runtime):
        host = record(folder)
    hung = serving_process(host)
    os.kill(hung, signal.SIGSTOP)
    started = time.monotonic()
    [status] = running_hosts(folder)
    assert (status.host, status.leases, status.idle_seconds) == (host, None, None)
    with taken(folder, runtime=runtime) as handle:
        assert handle.client.describe().engine == "tiny"
        assert record(folder) != host
    assert not host.lives
    until(lambda: birth(hung) is None)
    assert not Path(host.sockets).exists()
    assert time.monotonic() - started < LONG


@pytest.mark.parametrize("runtime", WITH_SANDBOX)
def test_a_host_that_hangs_can_be_stopped(runtime: str, folder: Path) -> None:
    with taken(folder, runtime=runtime):
        host = record(folder)
    hung = serving_process(host)
    os.kill(hung, signal.SIGSTOP)
    assert stop_hosts(folder) == (host,)
    assert not host.lives
    until(lambda: birth(hung) is None)


def test_a_host_that_is_silent_but_works_is_left_alone(folder: Path) -> None:
    """What it works on is another command's, and this one starts an engine of its own."""
    with taken(folder) as first:
        host = record(folder)
        # The lease's socket belongs to a process that is busy and never looks at it.
        place = Path(host.sockets) / LEASE_SOCKET
        place.unlink()
        script = (
            "import socket, sys\n"
            "server = socket.socket(socket.AF_UNIX)\n"
            f"server.bind({str(place)!r})\n"
            "server.listen()\n"
            "print('serves', flush=True)\n"
            "while True: pass\n"
        )
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as busy:
            assert busy.stdout is not None
            assert busy.stdout.readline() == b"serves\n"
            assert take(folder) is None
            assert take(folder, "otherwise") is None
            assert host.lives
            assert first.client.describe().engine == "tiny"
            busy.kill()
        os.killpg(host.pid, signal.SIGKILL)


SLOW_TO_SAY_SO = """\
import contextlib, socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
print("serves", flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    pass
while True:
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError):
        connection.recv(99)
        connection.sendall(b'{"leases": 1, "idle_seconds": 0}\\n')
"""


def test_a_host_that_is_slow_to_say_that_it_is_used_is_not_stopped(folder: Path) -> None:
    with taken(folder) as first:
        host = record(folder)
        place = Path(host.sockets) / LEASE_SOCKET
        place.unlink()
        argv = [sys.executable, "-c", SLOW_TO_SAY_SO, str(place), str(2 * HOST_SILENCE_SECONDS)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as slow:
            assert slow.stdout is not None
            assert slow.stdout.readline() == b"serves\n"
            assert stop_hosts(folder) == ()
            assert first.client.describe().engine == "tiny"
            slow.kill()
        os.killpg(host.pid, signal.SIGKILL)


SLOW_LEASES = """\
import runpy, sys, threading
from odf.engines.host.lease import Leases
_, seconds, *sys.argv = sys.argv
serve = Leases.serve
Leases.serve = lambda leases: threading.Timer(float(seconds), serve, (leases,)).start()
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_host_that_has_just_come_up_may_be_busy_with_that(folder: Path) -> None:
    def compose(place: Path, idle_seconds: float) -> Launch:
        made = ProcessRuntime(tiny_command()).compose(place, idle_seconds=idle_seconds)
        start = made.argv.index("-I") + 1
        late = str(2 * HOST_SILENCE_SECONDS)
        return replace(made, argv=[sys.executable, "-c", SLOW_LEASES, late, *made.argv[start:]])

    handle = WarmHosts(folder, LONG).take("tiny", "same", compose)
    assert handle is not None
    with handle:
        assert record(folder).pid == handle.pid


def test_processes_are_seen_until_they_end() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert is_seen(os.getpid())
    assert not is_seen(ended.pid)
    assert not is_seen(0)


def serving_process(host: WarmHost) -> int:
    """The process that answers, as it is called outside of its sandbox."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(Path(host.sockets) / LEASE_SOCKET))
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("iII", found)[0]


@pytest.mark.container
@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_the_record_names_the_container(runtime: Any, folder: Path) -> None:
    with taken(folder, runtime=runtime):
        assert record(folder).container in warm_containers(runtime)


def test_what_decides_on_results_is_in_the_fingerprint() -> None:
    plain = fingerprint(tiny_command(), "auto")
    assert plain == fingerprint(tiny_command(), "auto")
    assert plain != fingerprint(tiny_command("--heap", "2"), "auto")
    assert plain != fingerprint(tiny_command(), "process")

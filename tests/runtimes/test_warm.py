"""Hosts that stay for the next command: found again, never mixed up, and always ended."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odf.runtimes.base import EngineHandle
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.container import ContainerRuntime, list_containers
from odf.runtimes.container_cli import ContainerCli, ContainerToolName
from odf.runtimes.lease import Lease, LeaseEndedError
from odf.runtimes.process import Launch, ProcessRuntime
from odf.runtimes.warm import WarmHost, WarmHosts, fingerprint, running_hosts, stop_hosts
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
    stop_hosts(folder)


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
        assert host.lives
    until(lambda: not host.lives)


def test_what_decides_on_results_is_in_the_fingerprint() -> None:
    plain = fingerprint(tiny_command(), "auto")
    assert plain == fingerprint(tiny_command(), "auto")
    assert plain != fingerprint(tiny_command("--heap", "2"), "auto")
    assert plain != fingerprint(tiny_command(), "process")

"""Engines that die, hang or never come up, and coordinators that are killed."""

import contextlib
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from odf.errors import EngineError, EngineUnavailableError
from odf.runtimes.base import EngineCommand
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.child import EngineProcess, SocketFolder, remove_left_sockets
from odf.runtimes.process import ProcessRuntime
from tests.conftest import PROJECT, until
from tests.runtimes.conftest import (
    SANDBOXES,
    make_runtime,
    one_input,
    tiny_command,
    transform_call,
)
from tests.runtimes.test_runtime_behaviour import CSV, ingest_call

MakeSlice = Callable[..., Path]
OTHER_PROCESS = ["process", *SANDBOXES]
# The first process of a container cannot kill itself; test_containers.py does it from outside.
CAN_KILL_ITSELF = OTHER_PROCESS[:2]


@pytest.mark.parametrize("name", CAN_KILL_ITSELF)
def test_an_engine_killed_in_the_middle(name: str, make_slice: MakeSlice, tmp_path: Path) -> None:
    view = one_input(make_slice([0], ["a"]), 0, 0)
    call = transform_call("kill", tmp_path / "result", view)
    with (
        make_runtime(name).start(tmp_path / "run") as engine,
        pytest.raises(EngineError, match="died while it derived derived") as caught,
    ):
        engine.client.execute_transform(call)
    log = tmp_path / "run" / "engine.stderr.txt"
    assert "killed by SIGKILL" in caught.value.message
    assert "about to die" in caught.value.message
    assert str(log) in str(caught.value.hint)
    assert caught.value.details["log"] == str(log)
    assert not (tmp_path / "result").exists()
    assert not (tmp_path / "run" / "engine" / "out").exists()


def test_an_engine_killed_while_it_ingests(tmp_path: Path) -> None:
    source = tmp_path / "kill.csv"
    source.write_text(CSV)
    with ProcessRuntime(tiny_command()).start(tmp_path / "run") as engine:
        with pytest.raises(EngineError, match="died while it ingested into rooted"):
            engine.client.ingest(ingest_call(tmp_path / "slice", source))
        # Every later call says so as well, at once.
        with pytest.raises(EngineError, match="killed by SIGKILL"):
            engine.client.describe()


def test_a_call_that_is_given_up_is_not_taken_for_the_end_of_the_engine(
    make_slice: MakeSlice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked how a living engine ended would wait much longer than this test."""
    monkeypatch.setattr("odf.runtimes.child.ENGINE_OBITUARY_SECONDS", 3600)
    view = one_input(make_slice([0], ["a"]), 0, 0)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    ends = queue.SimpleQueue[Callable[[], object]]()

    @contextmanager
    def running(end: Callable[[], object]) -> Iterator[None]:
        ends.put(end)
        yield

    # The engine ends before the thread does: a thread that waits for its end must not wait forever.
    with (
        ThreadPoolExecutor(1) as threads,
        ProcessRuntime(tiny_command()).start(tmp_path / "run") as engine,
    ):
        call = transform_call(f"wait {fifo}", tmp_path / "result", view)
        answer = threads.submit(engine.client.execute_transform, call, running)
        with fifo.open("wb"):  # Opens when the engine has come to the query.
            ends.get(timeout=10)()
            with pytest.raises(EngineError, match="while it derived derived: CANCELLED"):
                answer.result(60)
        child = next(it for it in engine._resources if isinstance(it, EngineProcess))
        assert not child.has_ended()
        call = transform_call("pass", tmp_path / "result", view)
        assert engine.client.execute_transform(call).slice_path == tmp_path / "result"


def test_many_calls_learn_of_one_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is killed once, while its number is the child's."""
    argv = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit('the last words')"]
    child = EngineProcess(argv, {}, tmp_path / "run", tmp_path / "socket", "the engine")
    kill, killed = os.killpg, []

    def watched_kill(group: int, number: int) -> None:
        killed.append((group, Path(f"/proc/{group}").exists()))
        kill(group, number)

    monkeypatch.setattr(os, "killpg", watched_kill)
    calls = 16
    begin = threading.Barrier(calls + 1)

    def call(_: int) -> str | None:
        begin.wait(60)
        found = child.obituary()
        return None if found is None else f"{found.status}: {found.last_lines[-1]}"

    with ThreadPoolExecutor(calls) as threads:
        answers = [threads.submit(call, number) for number in range(calls)]
        begin.wait(60)
        assert child._process.stdin is not None
        child._process.stdin.close()
        assert {answer.result() for answer in answers} == {"exit status 1: the last words"}
    child.close()
    assert killed == [(child.pid, True)]


@pytest.mark.parametrize("name", OTHER_PROCESS)
def test_closing_ends_the_engine_and_removes_its_folders(name: str, tmp_path: Path) -> None:
    engine = make_runtime(name).start(tmp_path / "run")
    child = next(it for it in engine._resources if isinstance(it, EngineProcess))
    sockets = next(it for it in engine._resources if isinstance(it, SocketFolder))
    assert sockets.path.stat().st_mode & 0o777 == 0o700
    engine.close()
    engine.close()
    assert child._process.returncode == 0
    assert not sockets.path.exists()
    assert sorted(path.name for path in (tmp_path / "run").iterdir() if path.is_file()) == [
        "engine.stderr.txt",
        "engine.stdout.txt",
    ]
    assert '"ready": true' in (tmp_path / "run" / "engine.stdout.txt").read_text()


def test_an_engine_that_cannot_be_made(tmp_path: Path) -> None:
    runtime = ProcessRuntime(tiny_command("--break-at-start"))
    with pytest.raises(EngineUnavailableError, match="cannot be made") as caught:
        runtime.start(tmp_path / "run")
    assert "exit status 1" in caught.value.message
    assert caught.value.exit_code == 9
    assert str(tmp_path / "run" / "engine.stderr.txt") in str(caught.value.hint)


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    runtime = ProcessRuntime(EngineCommand((str(tmp_path / "nothing"),)))
    with pytest.raises(EngineUnavailableError, match="nothing: No such file"):
        runtime.start(tmp_path / "run")


def test_an_engine_that_does_not_get_warm_answers_with_the_reason(
    make_slice: MakeSlice, tmp_path: Path
) -> None:
    view = one_input(make_slice([0], ["a"]), 0, 0)
    with ProcessRuntime(tiny_command("--cold", "no Java")).start(tmp_path / "run") as engine:
        assert engine.client.describe().engine == "tiny"
        with pytest.raises(EngineUnavailableError, match="did not start: no Java"):
            engine.client.execute_transform(transform_call("pass", tmp_path / "result", view))
        source = tmp_path / "source.csv"
        source.write_text(CSV)
        with pytest.raises(EngineUnavailableError, match="did not start: no Java") as caught:
            engine.client.ingest(ingest_call(tmp_path / "slice", source))
    assert str(tmp_path / "run" / "engine.stderr.txt") in str(caught.value.hint)


def test_one_that_never_serves_is_given_up(tmp_path: Path) -> None:
    sockets = SocketFolder(tmp_path)
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    child = EngineProcess(argv, {}, tmp_path / "run", sockets.socket, "the engine")
    with pytest.raises(EngineUnavailableError, match=r"did not come up within 0\.1 s"):
        child.wait_ready(0.1)
    child.close()


def test_one_that_has_ended_is_not_called_late(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import sys; sys.exit('nothing to serve')"]
    child = EngineProcess(argv, {}, tmp_path / "run", tmp_path / "socket", "the engine")
    until(child.has_ended)
    with pytest.raises(EngineUnavailableError, match=r"ended at its start .*nothing to serve"):
        child.wait_ready(0)
    child.close()


def test_what_ignores_its_lifeline_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odf.runtimes.child.ENGINE_STOP_SECONDS", 0.1)
    read, write = os.pipe()
    argv = [sys.executable, "-c", "import signal; print(1, flush=True); signal.pause()"]
    child = EngineProcess(argv, {}, tmp_path / "run", tmp_path / "socket", "the engine")
    os.close(read)
    os.close(write)
    child.close()
    assert child._process.returncode == -signal.SIGKILL


COORDINATOR = """
import sys
from pathlib import Path
sys.path.insert(0, {project!r})
from tests.runtimes.conftest import tiny_command
from odf.runtimes.{module} import {runtime}
handle = {runtime}(tiny_command()).start(Path(sys.argv[1]))
child = handle._resources[1]
print(child.pid, flush=True)
sys.stdin.read()
"""


def descendants(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += descendants(int(child))
    return found


@pytest.mark.parametrize(
    ("module", "runtime"),
    [
        ("process", "ProcessRuntime"),
        pytest.param("bubblewrap", "BubblewrapRuntime", marks=pytest.mark.sandbox),
    ],
)
def test_a_killed_coordinator_takes_its_engine_along(
    module: str, runtime: str, tmp_path: Path
) -> None:
    if module == "bubblewrap" and (reason := BubblewrapRuntime(tiny_command()).why_not()):
        pytest.skip(f"bubblewrap does not work here: {reason}")
    script = COORDINATOR.format(project=str(PROJECT), module=module, runtime=runtime)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as coordinator:
        assert coordinator.stdout is not None
        line = coordinator.stdout.readline()
        assert line, "the coordinator did not start"
        watched = {pid: os.pidfd_open(pid) for pid in descendants(int(line))}
        coordinator.kill()
        coordinator.wait()
        for pid, descriptor in watched.items():
            ended, _, _ = select.select([descriptor], [], [], 30)
            assert ended, f"process {pid} outlived its coordinator"
            os.close(descriptor)
    if module == "process":
        assert list(tmp_path.glob("odf-*")) == []


def test_socket_paths_are_short_enough(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    folder = SocketFolder(deep)
    assert len(os.fsencode(folder.socket)) <= 107
    assert folder.path.parent != deep
    folder.close()
    assert not folder.path.exists()


def test_sockets_go_where_the_user_wants_them_if_that_works(tmp_path: Path) -> None:
    folder = SocketFolder(tmp_path)
    assert folder.path.parent == tmp_path
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.close()
    # Not even root can make a folder there.
    folder = SocketFolder(Path("/proc/self"))
    assert folder.path.parent != Path("/proc/self")
    folder.close()


def test_sockets_of_one_that_hangs_are_not_waited_for(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    folder = tmp_path / f"odf-{ended.pid}-abcdefgh"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(str(folder / "engine.sock"))
        server.listen(0)
        for _ in range(3):  # more than it lets wait
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(str(folder / "engine.sock"))
        assert remove_left_sockets(tmp_path) == ()
        assert folder.is_dir()
    assert remove_left_sockets(tmp_path) == (folder,)

"""What an engine can see and do inside the sandbox."""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odf.errors import EngineUnavailableError
from odf.limits import SANDBOX_MAX_OPEN_FILES, SANDBOX_MAX_PROCESSES
from odf.protocol.calls import RawQueryCall
from odf.runtimes.base import EngineHandle, Runtime
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.pool import EnginePool, PoolSettings, archives_folder
from odf.runtimes.process import ProcessRuntime
from odf.runtimes.sandbox import SandboxLimits, SandboxMemory
from odf.runtimes.select import select_runtime
from tests.conftest import PROJECT
from tests.runtimes.conftest import (
    SANDBOXES,
    TINY,
    sql,
    tiny_command,
    working_container,
    working_sandbox,
)

sandbox = pytest.mark.sandbox
MEMORY = 8 << 30


@pytest.fixture(scope="module", params=SANDBOXES)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineHandle]:
    """A running engine in every sandbox that works here."""
    options: dict[str, Any] = {"tcp_port": 5544, "limits": SandboxLimits(MEMORY)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODF_SECRET_CANARY", "tweet")
        runtime: Runtime
        if request.param == "bubblewrap":
            runtime = working_sandbox(**options)
        else:
            runtime = working_container(request.param, **options)
        with runtime.start(tmp_path_factory.mktemp("run")) as handle:
            yield handle


def look(
    engine: EngineHandle,
    to: Path,
    *,
    read: tuple[object, ...] = (),
    write: tuple[object, ...] = (),
    connect: tuple[str, ...] = (),
    inputs: tuple[Path, ...] = (),
) -> Any:
    wishes = json.dumps(
        {"read": [str(p) for p in read], "write": [str(p) for p in write], "connect": connect}
    )
    engine.client.execute_raw_query(RawQueryCall(inputs, sql(f"look {wishes}"), to))
    return json.loads(pq.read_table(to)["answer"][0].as_py())


def test_there_is_no_network(engine: EngineHandle, tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        places = (f"127.0.0.1:{port}", f"{socket.gethostbyname(socket.gethostname())}:{port}")
        seen = look(engine, tmp_path / "r", connect=(*places, "192.0.2.1:80"))["connect"]
    assert "done" not in seen.values(), seen


def test_the_port_of_the_specification_answers_inside_only(
    engine: EngineHandle, tmp_path: Path
) -> None:
    seen = look(engine, tmp_path / "r", connect=("127.0.0.1:5544",))
    assert seen["connect"] == {"127.0.0.1:5544": "done"}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", 5544), timeout=2)


def test_other_files_do_not_exist(engine: EngineHandle, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    places = (
        secret,
        PROJECT / "pyproject.toml",
        "/etc/shadow",
        TINY.with_name("test_finish.py"),
    )
    seen = look(engine, tmp_path / "r", read=places)["read"]
    assert set(seen.values()) <= {"FileNotFoundError", "PermissionError"}, seen
    assert seen[str(secret)] == "FileNotFoundError"


def test_nothing_outside_its_folders_can_be_written(engine: EngineHandle, tmp_path: Path) -> None:
    import odf

    package = Path(odf.__file__)
    places = (
        package,
        package.parent / "new.py",
        "/new",
        "/usr/new",
        "/odf/in/new",
        "/etc/passwd",
        TINY,
    )
    seen = look(engine, tmp_path / "r", write=places)["write"]
    assert "done" not in seen.values(), seen
    assert not (package.parent / "new.py").exists()
    allowed = look(engine, tmp_path / "r2", write=("/odf/out/file", "/tmp/file"))["write"]
    assert allowed == {"/odf/out/file": "done", "/tmp/file": "done"}


def test_inputs_are_the_datasets_own_files_and_cannot_be_changed(
    engine: EngineHandle, tmp_path: Path
) -> None:
    exchange = engine.client._exchange
    source = tmp_path / "source"
    source.write_text("mine")
    with exchange.operation() as operation:
        inside = operation.add_input(source, "shown")
        linked = source.stat().st_nlink == 2
        seen = look(engine, tmp_path / "r", read=(inside,), write=(inside,))
    assert seen["read"][inside] == "done"
    assert seen["write"][inside] == "OSError"
    assert source.read_text() == "mine"
    assert linked or source.stat().st_dev != exchange.host_in.stat().st_dev


def test_the_environment_is_empty_but_for_a_short_list(
    engine: EngineHandle, tmp_path: Path
) -> None:
    seen = look(engine, tmp_path / "r")["environment"]
    assert set(seen) <= {
        *("HOME", "LANG", "LC_ALL", "PATH", "PWD", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP"),
        *("ARROW_DEFAULT_MEMORY_POOL", "TMPDIR", "TZ"),
        # What docker and podman tell everybody.
        *("HOSTNAME", "TERM", "container"),
    }


def test_privileges_and_limits(engine: EngineHandle, tmp_path: Path) -> None:
    seen = look(engine, tmp_path / "r")
    assert int(seen["capabilities"], 16) == 0
    assert seen["uid"] == (os.getuid() or 65534)
    if engine.runtime == "bubblewrap":
        assert seen["limits"]["DATA"] == MEMORY
    else:
        assert str(MEMORY) in seen["memory"].values(), seen["memory"]
        assert int(seen["processes"]) <= SANDBOX_MAX_PROCESSES
    assert seen["limits"]["CORE"] == 0
    assert 0 < seen["limits"]["NOFILE"] <= SANDBOX_MAX_OPEN_FILES


def test_a_plain_process_gets_no_environment_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODF_SECRET_CANARY", "tweet")
    with ProcessRuntime(tiny_command()).start(tmp_path / "run") as engine:
        seen = look(engine, tmp_path / "r")["environment"]
    assert "ODF_SECRET_CANARY" not in seen


def test_a_missing_sandbox_is_said_with_the_way_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "apt-get").touch(0o755)
    runtime = BubblewrapRuntime(tiny_command())
    assert runtime.why_not() == "bwrap is not installed"
    with pytest.raises(EngineUnavailableError, match="bwrap is not installed") as caught:
        runtime.start(tmp_path / "run")
    assert "apt-get install bubblewrap" in str(caught.value.hint)


def test_a_sandbox_that_is_found_but_does_not_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert BubblewrapRuntime(tiny_command()).why_not() == (
        "bwrap: setting up uid map: Permission denied"
    )
    with pytest.raises(EngineUnavailableError, match="uid map") as caught:
        select_runtime("auto", tiny_command(), trusted=False)
    assert "user namespaces" in str(caught.value.hint)
    assert "--allow-unsandboxed" in str(caught.value.hint)


@pytest.mark.sandbox
def test_a_sandbox_that_worked_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bwrap is not installed")
    working_sandbox()
    calls = tmp_path / "calls"
    wrapper = tmp_path / "bwrap"
    wrapper.write_text(f'#!/bin/sh\necho called >> {calls}\nexec {program} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    memory = SandboxMemory(tmp_path / "cache")
    assert memory.recall() is None
    assert BubblewrapRuntime(tiny_command(), memory=memory).why_not() is None
    tried = calls.read_text()
    assert BubblewrapRuntime(tiny_command(), memory=memory).why_not() is None
    assert calls.read_text() == tried
    assert memory.recall() is not None
    # Another program is another matter.
    wrapper.write_text("#!/bin/sh\nexit 1\n")
    assert memory.recall() is None
    assert BubblewrapRuntime(tiny_command(), memory=memory).why_not() is not None


@pytest.mark.parametrize("content", ["", "[]", '{"for": 1}', "{"])
def test_a_memory_that_says_nothing_is_none(content: str, tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    memory = SandboxMemory(tmp_path)
    (tmp_path / "sandbox.json").write_text(content)
    assert memory.recall() is None
    assert memory.forget()
    assert not memory.forget()


def test_a_sandbox_is_remembered_for_a_day_of_this_machine(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    memory = SandboxMemory(tmp_path)
    memory.keep(())
    path = tmp_path / "sandbox.json"
    kept = json.loads(path.read_text())
    for seconds, wanted in ((-90_000, None), (0, ()), (90_000, None)):
        path.write_text(json.dumps({**kept, "time": kept["time"] + seconds}))
        assert memory.recall() == wanted


def test_a_machine_that_does_not_say_when_it_started_remembers_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # where there is no bwrap to look at
    memory = SandboxMemory(tmp_path / "cache")
    memory.keep(())
    assert memory.recall() is None
    assert not memory.forget()


def test_a_sandbox_that_works_no_more_is_tried_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: no more namespaces' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = PoolSettings(runtime="bubblewrap", cache_home=tmp_path / "cache")
    memory = SandboxMemory(archives_folder(tmp_path / "cache"))
    memory.keep(())
    assert memory.recall() == ()
    pool = EnginePool(settings, run_dir=tmp_path / "run")
    try:
        with pytest.raises(EngineUnavailableError, match="no more namespaces") as caught:
            pool.client("datafusion", dataset="a", trusted=True)
        assert "does not work here" in caught.value.message
        assert "user namespaces" in str(caught.value.hint)
        assert memory.recall() is None
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("choice", "trusted", "allow", "expected"),
    [
        ("auto", True, False, "process"),
        ("auto", False, True, "process"),
        ("auto", False, False, None),
        ("process", True, False, "process"),
        ("process", False, False, None),
        ("bubblewrap", True, True, None),
    ],
)
def test_without_a_sandbox_only_own_queries_run(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    choice: Any,
    trusted: bool,
    allow: bool,
    expected: str | None,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    def select() -> str:
        selection = select_runtime(choice, tiny_command(), trusted=trusted, allow_unsandboxed=allow)
        return selection.runtime.name

    if expected is None:
        with pytest.raises(EngineUnavailableError, match="sandbox"):
            select()
    else:
        assert select() == expected


@sandbox
def test_a_sandbox_that_works_is_taken() -> None:
    working_sandbox()
    selection = select_runtime("auto", tiny_command(), trusted=True)
    assert (selection.runtime.name, selection.runtime.sandboxed) == ("bubblewrap", True)

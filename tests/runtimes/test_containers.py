"""Containers of docker and podman: what is left of them, who they belong to, engines of others."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.errors import EngineError, EngineUnavailableError
from odf.metadata.model import SqlQueryStep, TransformSql
from odf.protocol.calls import RawQueryCall
from odf.runtimes.base import ContainerProgram, EngineCommand, EngineHandle
from odf.runtimes.child import SocketFolder, remove_left_sockets
from odf.runtimes.container import (
    ContainerRuntime,
    container_name,
    list_containers,
    remove_leftovers,
)
from odf.runtimes.container_cli import ContainerCli, ContainerToolName
from odf.runtimes.foreign import chosen_image
from odf.runtimes.images import PYTHON_INSIDE, SPECS, image_name
from odf.runtimes.pool import EnginePool, PoolSettings
from odf.runtimes.select import RuntimeMemory, select_runtime
from odf.runtimes.tcp_engine import TcpContainerRuntime
from tests.conftest import PROJECT
from tests.runtimes.conftest import (
    container_command,
    one_input,
    tiny_command,
    transform_call,
    working_container,
    working_tcp_container,
)
from tests.runtimes.test_sandbox import look

MakeSlice = Callable[..., Path]
Containers = Callable[[], set[str]]
TOOLS = [pytest.param(name, marks=pytest.mark.container) for name in ("docker", "podman")]
DATAFUSION = TransformSql(
    "datafusion", queries=(SqlQueryStep(alias=None, query="SELECT k + 1 AS k FROM input"),)
)

pytestmark = pytest.mark.timeout(600)


def of_this_process(tool: ContainerToolName) -> set[str]:
    """Others may run tests on this machine too."""
    cli = ContainerCli(tool)
    if cli.program is None:
        return set()
    prefix = container_name().rpartition("-")[0]
    return {name for name in list_containers(cli) if name.startswith(prefix)}


@pytest.fixture
def own_containers(tool: ContainerToolName) -> Containers:
    """Lists the containers of this test: a pool that a whole run of tests shares has some too."""
    before = of_this_process(tool)
    return lambda: of_this_process(tool) - before


@pytest.mark.parametrize("tool", TOOLS)
def test_two_runs_at_once_see_nothing_of_each_other(
    tool: str, own_containers: Containers, make_slice: MakeSlice, tmp_path: Path
) -> None:
    runtime = working_container(tool)
    with (
        runtime.start(tmp_path / "run-1") as first,
        runtime.start(tmp_path / "run-2") as second,
    ):
        other = second.client._exchange
        with other.operation() as operation:
            secret = make_slice([0], ["secret"], name="secret")
            inside = operation.add_input(secret, "secret")
            (other.host_out / "left").write_text("by the other one")
            outside = str(other.host_in / Path(inside).parent.name / "secret")
            places = (inside, "/odf/out/left", outside, other.host_out / "left")
            seen = look(first, tmp_path / "r", read=places, write=("/odf/in/new", inside))
        assert set(seen["read"].values()) <= {"FileNotFoundError", "PermissionError"}, seen
        assert "done" not in seen["write"].values(), seen
        view = one_input(make_slice([0, 0], ["a", "b"]), 0, 1)
        outcomes = []

        def derive(engine: EngineHandle, name: str) -> None:
            call = transform_call("pass", tmp_path / name, view)
            outcomes.append(engine.client.execute_transform(call))

        threads = [
            threading.Thread(target=derive, args=(engine, name))
            for engine, name in ((first, "one"), (second, "two"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 2
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert own_containers() == set()


@pytest.mark.parametrize("tool", TOOLS)
def test_results_belong_to_the_caller(tool: str, make_slice: MakeSlice, tmp_path: Path) -> None:
    source = make_slice([0], ["a"])
    source.chmod(0o600)
    with working_container(tool).start(tmp_path / "run") as engine:
        call = transform_call("pass", tmp_path / "result", one_input(source, 0, 0))
        engine.client.execute_transform(call)
    found = (tmp_path / "result").stat()
    assert (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())
    # A file that only its owner may read was copied for the engine's user, not opened up.
    assert source.stat().st_mode & 0o777 == 0o600
    assert source.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_container_that_is_killed_is_an_engine_that_died(
    tool: str, own_containers: Containers, make_slice: MakeSlice, tmp_path: Path
) -> None:
    runtime = working_container(tool)
    view = one_input(make_slice([0], ["a"]), 0, 0)
    with runtime.start(tmp_path / "run") as engine:
        done = runtime.cli.call("kill", *own_containers())
        assert done.returncode == 0, done.stderr
        with pytest.raises(EngineError, match=r"died while it derived derived \(killed by SIGKILL"):
            engine.client.execute_transform(transform_call("pass", tmp_path / "result", view))
        assert engine.has_ended


COORDINATOR = """
import sys
from pathlib import Path
sys.path.insert(0, {project!r})
from tests.runtimes.conftest import container_command, working_tcp_container
from odf.runtimes.container import ContainerRuntime
if {tcp}:
    runtime = working_tcp_container({tool!r})
else:
    runtime = ContainerRuntime({tool!r}, container_command())
handle = runtime.start(Path(sys.argv[1]))
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("tcp", [False, True], ids=["ours", "of others"])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_killed_coordinator_leaves_no_container(tool: str, tcp: bool, tmp_path: Path) -> None:
    cli = working_container(tool).cli
    script = COORDINATOR.format(project=str(PROJECT), tool=tool, tcp=tcp)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as coordinator:
        assert coordinator.stdout is not None
        assert coordinator.stdout.readline() == "started\n"
        of_it = {name for name in list_containers(cli) if f"-{coordinator.pid}-" in name}
        assert len(of_it) == (2 if tcp else 1)
        coordinator.kill()
        coordinator.wait()
    for name in sorted(of_it):
        # Returns when it has ended; removing it is the tool's own business from there on.
        cli.call("wait", name)
    running = cli.call("ps", "--format", "{{.Names}}").stdout.decode().split()
    assert not of_it & set(running)
    # Whoever comes next clears away the socket, which a killed process cannot.
    assert all(not path.exists() for path in remove_left_sockets(tmp_path))
    assert list(tmp_path.glob("odf-*")) == []


@pytest.mark.parametrize("tool", TOOLS)
def test_containers_of_dead_processes_are_removed_and_others_stay(
    tool: str, tmp_path: Path
) -> None:
    runtime = working_container(tool)
    cli, image = runtime.cli, image_name(SPECS["datafusion"])
    namespace = container_name().split("-")[1]
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    orphan = f"odf-{namespace}-{gone.pid}-1-{'0' * 12}"
    elsewhere = f"odf-1-{gone.pid}-1-{'1' * 12}"
    alive = container_name()
    options = runtime.restrictions(tmp_path)
    try:
        for name in (orphan, elsewhere, alive):
            sleeper = ("--entrypoint", PYTHON_INSIDE, image, "-c", "import time; time.sleep(600)")
            done = cli.call("run", "--detach", "--name", name, *options, *sleeper)
            assert done.returncode == 0, done.stderr
        assert orphan in remove_leftovers(cli)
        left = set(list_containers(cli))
        assert {elsewhere, alive} <= left
        assert orphan not in left
    finally:
        cli.remove([orphan, elsewhere, alive])


@pytest.mark.parametrize("tool", TOOLS)
def test_engines_of_others_are_reached_by_their_port(
    tool: str, own_containers: Containers, tmp_path: Path
) -> None:
    runtime = working_tcp_container(tool)
    plain, output = tmp_path / "plain.parquet", tmp_path / "raw"
    pq.write_table(pa.table({"k": [1, 2, 3]}), plain)
    with runtime.start(tmp_path / "run") as engine:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 5544), timeout=2)
        outcome = engine.client.execute_raw_query(RawQueryCall((plain,), DATAFUSION, output))
        assert outcome.num_records == 3
        networks = [
            json.loads(runtime.cli.call("inspect", name).stdout)[0]["HostConfig"]["NetworkMode"]
            for name in own_containers()
        ]
    assert len(networks) == 2
    assert all(mode == "none" or mode.startswith("container:") for mode in networks), networks
    assert pq.read_table(output)["k"].to_pylist() == [2, 3, 4]
    assert own_containers() == set()


@pytest.mark.parametrize("tool", TOOLS)
def test_an_image_that_ends_at_once_is_told_with_its_words(
    tool: str, own_containers: Containers, tmp_path: Path
) -> None:
    working_container(tool)
    image = image_name(SPECS["datafusion"])
    argv = (PYTHON_INSIDE, "-c", "import sys; sys.exit('nothing to serve')")
    program = ContainerProgram(image, argv, port=5544)
    runtime: Any = TcpContainerRuntime(tool, EngineCommand((), container=program))  # type: ignore[arg-type]
    with pytest.raises(EngineUnavailableError, match=r"ended at its start") as caught:
        runtime.start(tmp_path / "run")
    # Whichever is noticed first: the engine's end, or that there is nothing to join any more.
    if "relay" not in caught.value.message:
        assert "nothing to serve" in caught.value.message
    assert "nothing to serve" in (tmp_path / "run" / "engine.stderr.txt").read_text()
    assert own_containers() == set()


@pytest.fixture
def of_others() -> Iterator[tuple[str, ContainerProgram]]:
    """An image under a name of its own, as if somebody else had made it."""
    for tool in ("docker", "podman"):
        cli = ContainerCli(tool)  # type: ignore[arg-type]
        image = image_name(SPECS["datafusion"])
        with contextlib.suppress(EngineUnavailableError):
            if cli.why_not() is None and cli.image(image) is not None:
                name = f"odf-test-others-{os.getpid()}:1"
                assert cli.call("tag", image, name).returncode == 0
                program = ContainerProgram(
                    name, port=5544, input_folder="/opt/engine/in", output_folder="/opt/engine/out"
                )
                yield tool, program
                cli.call("rmi", name)
                return
    pytest.skip("neither docker nor podman has the image of DataFusion")


@pytest.mark.container
def test_a_configured_engine_of_others_runs_and_is_pinned(
    of_others: tuple[Any, ContainerProgram], tmp_path: Path
) -> None:
    tool, program = of_others
    settings = PoolSettings(runtime=tool, images={"theirs": program})
    pool = EnginePool(settings, tmp_path / "run")
    pin = pool.pin("Theirs")
    name, _, digest = pin.partition("@sha256:")
    assert (name.rpartition("/")[2], len(digest)) == (program.image.partition(":")[0], 64)
    query = replace(DATAFUSION, engine="datafusion")
    plain = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"k": [1]}), plain)
    try:
        client = pool.client("theirs", dataset="mine", trusted=True, version=pin)
        outcome = client.execute_raw_query(RawQueryCall((plain,), query, tmp_path / "raw"))
        assert outcome.num_records == 1
    finally:
        pool.close()
    other = f"{name}@sha256:{'0' * 64}"
    with pytest.raises(EngineUnavailableError, match=f"wanted {other}") as caught:
        pool.client("theirs", dataset="mine", trusted=True, version=other)
    assert f"pull {other}" in str(caught.value.hint)


def test_an_engine_that_nobody_configured_is_told_with_how_to(tmp_path: Path) -> None:
    pool = EnginePool(PoolSettings(), tmp_path / "run")
    with pytest.raises(EngineUnavailableError, match="asks for engine 'Flink'") as caught:
        pool.client("Flink", dataset="mine", trusted=True)
    assert caught.value.exit_code == 9
    assert "images: {flink: {image: …, port: …}}" in str(caught.value.hint)


def test_an_engine_of_others_needs_containers(tmp_path: Path) -> None:
    images = {"flink": ContainerProgram("no-such-image-here:1", port=2884)}
    for runtime in ("bubblewrap", "process"):
        settings = PoolSettings(runtime=runtime, images=images)  # type: ignore[arg-type]
        with pytest.raises(EngineUnavailableError, match="needs docker or podman"):
            EnginePool(settings, tmp_path).client("flink", dataset="mine", trusted=True)


def fake_tool(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of the path, for programs that answer as docker and podman can."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    return folder


DOWN = "echo 'Cannot connect to the Docker daemon at unix:///x. Is it running?' >&2; exit 1"
NO_IMAGE = """
case "$1" in
  info) echo '{"SecurityOptions": []}' ;;
  *) echo 'Error: No such image: x' >&2; exit 1 ;;
esac"""
ROOTLESS = """echo '{"SecurityOptions": ["name=seccomp", "name=rootless"]}'"""
SOUND = f"""
echo "$*" >> "$0.calls"
case "$1" in
  info) echo '{{"SecurityOptions": []}}' ;;
  image) echo 'sha256:{"0" * 64} []' ;;
esac"""


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (DOWN, "Cannot connect to the Docker daemon"),
        (NO_IMAGE, "there is no image"),
        (ROOTLESS, "its daemon is rootless"),
        ("exit 3", "exit status 3"),
    ],
)
def test_a_tool_that_does_not_do_is_told_or_passed_over(tools: Path, script: str, why: str) -> None:
    fake_tool(tools, "docker", script)
    runtime = ContainerRuntime("docker", container_command())
    assert why in str(runtime.why_not())
    with pytest.raises(EngineUnavailableError, match=f"docker does not work here: {why}"):
        select_runtime("docker", container_command(), trusted=True)
    selection = select_runtime("auto", container_command(), trusted=True)
    assert selection.runtime.name == "process"
    assert f"docker: {why}" in selection.reason


def test_a_server_on_another_machine_is_not_used(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_tool(tools, "docker", SOUND)
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert "cannot be shared" in str(ContainerCli("docker").why_not())


def test_auto_takes_docker_first_and_remembers(tools: Path, tmp_path: Path) -> None:
    memory = RuntimeMemory(tmp_path / "cache")
    fake_tool(tools, "podman", SOUND)

    def select() -> str:
        selection = select_runtime("auto", container_command(), trusted=True, memory=memory)
        return selection.runtime.name

    assert select() == "podman"
    tried = len((tools / "podman.calls").read_text().splitlines())
    assert select() == "podman"
    # The second time only the image was looked for: no container was started for it.
    later = (tools / "podman.calls").read_text().splitlines()[tried:]
    assert [line.split()[0] for line in later] == ["image"]
    fake_tool(tools, "docker", SOUND)
    assert select() == "docker"
    # What was remembered and does not work any more is found out.
    fake_tool(tools, "docker", NO_IMAGE)
    assert select() == "podman"
    memory.forget()
    assert memory.recall(container_command()) is None


def test_an_engine_without_an_image_is_not_looked_for_in_containers(tools: Path) -> None:
    fake_tool(tools, "docker", SOUND)
    assert select_runtime("auto", tiny_command(), trusted=True).runtime.name == "process"
    assert not (tools / "docker.calls").exists()
    with pytest.raises(EngineUnavailableError, match="cannot be run from an image"):
        select_runtime("docker", tiny_command(), trusted=True)


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("name", "name"),
        ("name:tag", "name"),
        ("registry:5000/name", "registry:5000/name"),
        ("registry:5000/name:tag", "registry:5000/name"),
        ("ghcr.io/a/b@sha256:" + "1" * 64, "ghcr.io/a/b"),
    ],
)
def test_pins_name_the_image_without_its_tag(tools: Path, image: str, repository: str) -> None:
    fake_tool(tools, "docker", SOUND)
    chosen = chosen_image(ContainerProgram(image, port=1), "auto", None)
    assert chosen.pin == f"{repository}@sha256:{'0' * 64}"


def test_sockets_of_dead_processes_are_cleared_away(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    left = tmp_path / f"odf-{gone.pid}-abcd1234"
    left.mkdir()
    (left / "engine.sock").touch()
    other = tmp_path / "odf-something-else"
    other.mkdir()
    used = Path(tempfile.mkdtemp(prefix=f"odf-{gone.pid}-", dir=tmp_path))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(used / "engine.sock"))
        server.listen()
        mine = SocketFolder(tmp_path)
        assert sorted(path for path in tmp_path.iterdir()) == sorted([other, used, mine.path])
    mine.close()
    assert remove_left_sockets(tmp_path) == (used,)


HANGING_TOOL = """\
#!{python} -IS
# Answers like docker, and hears of no end while it is attached to a container.
import pathlib, re, signal, socket, sys
told = pathlib.Path({folder!r})
arguments = sys.argv[1:]
match arguments[0]:
    case "image":
        print("sha256:1 []")
    case "container":
        print("true")
    case "rm":
        with (told / "removed").open("a") as file:
            print(arguments[-1], file=file)
    case "run" if "--interactive" in arguments:
        (told / "relay").write_text(arguments[arguments.index("--name") + 1])
        [place] = re.findall('"source=([^"]*)","target=/odf/socket"', " ".join(arguments))
        server = socket.socket(socket.AF_UNIX)
        server.bind(place + "/engine.sock")
        server.listen()
        signal.pause()
    case "run":
        (told / "engine").write_text(arguments[arguments.index("--name") + 1])
        signal.pause()
"""


def test_containers_of_tools_that_have_to_be_killed_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "docker"
    tool.parent.mkdir()
    tool.write_text(HANGING_TOOL.format(python=sys.executable, folder=str(tmp_path)))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("odf.runtimes.child.ENGINE_STOP_SECONDS", 0.1)
    program = ContainerProgram("theirs", port=5544)
    runtime = TcpContainerRuntime("docker", EngineCommand((), container=program))
    runtime.start(tmp_path / "run").close()
    started = {(tmp_path / name).read_text() for name in ("relay", "engine")}
    assert set((tmp_path / "removed").read_text().split()) == started

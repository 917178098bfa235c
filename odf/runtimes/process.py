"""Engines as plain processes of this user: no sandbox, a Unix socket only.

For datasets of one's own, and for development. The engine gets a short environment and no open
files of the coordinator, but could do whatever the user can.
"""

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from odf.runtimes.base import Closeable, EngineCommand, EngineHandle
from odf.runtimes.child import EngineProcess, SocketFolder
from odf.runtimes.exchange import Exchange

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PATH": os.defpath,
    "TZ": "UTC",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_LOCAL_HOSTNAME": "localhost",
    # Gives memory back sooner than Arrow's default, and is as quick (docs/adr/0095).
    "ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
}
"""What every engine gets, in a sandbox or not: the same results on every machine."""


class ProcessRuntime:
    """Runs engines without a sandbox.

    Args:
        command: How the engine's host is started.
        socket_root: Where to make the socket's folder, for example the user's runtime folder.
    """

    name = "process"
    sandboxed = False

    def __init__(self, command: EngineCommand, *, socket_root: Path | None = None) -> None:
        self._command = command
        self._socket_root = socket_root

    def start(self, run_dir: Path) -> EngineHandle:
        """Start an engine; see `Runtime.start`."""
        return start(self.compose(run_dir), run_dir)

    def compose(self, run_dir: Path, *, idle_seconds: float | None = None) -> "Launch":
        """Make the folders of an engine, and the command that starts it.

        Args:
            run_dir: As `Runtime.start` takes it.
            idle_seconds: How long the engine stays without use after this process; None has it
                end with this process.
        """
        files = run_dir / "engine"
        exchange = Exchange(
            files / "in", files / "out", str(files / "in"), str(files / "out"), link=False
        )
        sockets = SocketFolder(self._socket_root)
        home = files / "out" / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        argv = [
            *self._command.argv,
            *("--socket", str(sockets.socket), "--in", exchange.engine_in),
            *("--out", exchange.engine_out),
        ]
        argv += idle_option(idle_seconds)
        folders = {"HOME": str(home), "TMPDIR": str(home)}
        environment = {**ENVIRONMENT, **folders, **self._command.environment}
        return Launch(self.name, False, argv, environment, exchange, sockets, "the engine")


@dataclass(frozen=True, slots=True)
class Launch:
    """An engine that is ready to be started.

    Attributes:
        runtime: Name of the runtime.
        sandboxed: Whether the engine will be kept from the network and from other files.
        argv: What to run.
        environment: All of its environment.
        exchange: The folders for its files.
        sockets: The folder for its sockets.
        what: What it is called in messages.
        guard: Makes what has to be ended right after the engine's process.
        container: The name of its container; None if it has none.
    """

    runtime: str
    sandboxed: bool
    argv: Sequence[str]
    environment: Mapping[str, str]
    exchange: Exchange
    sockets: SocketFolder
    what: str
    guard: Callable[[EngineProcess], Closeable] | None = None
    container: str | None = None


def start(launch: Launch, run_dir: Path) -> EngineHandle:
    """Start an engine that ends with this process.

    Raises:
        EngineUnavailableError: If it does not come up, or speaks another version.
    """
    sockets, exchange = launch.sockets, launch.exchange
    guards: tuple[Closeable, ...] = ()
    try:
        child = EngineProcess(launch.argv, launch.environment, run_dir, sockets.socket, launch.what)
        guards = () if launch.guard is None else (launch.guard(child),)
        return connect(
            child, exchange, sockets, launch.runtime, sandboxed=launch.sandboxed, guards=guards
        )
    except BaseException:
        for resource in (*guards, sockets, exchange):
            resource.close()
        raise


def load_what_is_needed_then() -> None:
    """Load what this side needs when an engine answers; it starts in a process of its own.

    That is gRPC to speak to it, and Arrow to look at what it made.
    """
    for module in ("odf.runtimes.client", "pyarrow.compute", "pyarrow.parquet"):
        importlib.import_module(module)


def idle_option(idle_seconds: float | None) -> list[str]:
    """Return the option that has a host outlive its starter, or none."""
    return [] if idle_seconds is None else ["--idle", str(idle_seconds)]


def connect(
    child: EngineProcess,
    exchange: Exchange,
    sockets: SocketFolder,
    runtime: str,
    *,
    sandboxed: bool,
    guards: tuple[Closeable, ...] = (),
) -> EngineHandle:
    """Wait for a started child and speak to it; end it if that does not work.

    Raises:
        EngineUnavailableError: If it does not come up, or speaks another version.
    """
    load_what_is_needed_then()
    from odf.runtimes.client import EngineClient, GrpcLink  # noqa: PLC0415

    link = None
    try:
        child.wait_ready()
        link = GrpcLink(sockets.socket, child)
        client = EngineClient(link, exchange)
        client.check_version()
    except BaseException:
        if link is not None:
            link.close()
        child.close()
        raise
    return EngineHandle(
        client,
        runtime,
        sandboxed=sandboxed,
        resources=(link, child, *guards, sockets, exchange),
        pid=child.pid,
        has_ended=child.has_ended,
    )

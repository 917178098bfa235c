"""Engines as plain processes of this user: no sandbox, a Unix socket only.

For datasets of one's own, and for development. The engine gets a short environment and no open
files of the coordinator, but could do whatever the user can.
"""

import os
from pathlib import Path

from odf.runtimes.base import EngineCommand, EngineHandle
from odf.runtimes.child import EngineProcess, SocketFolder
from odf.runtimes.client import EngineClient, GrpcLink
from odf.runtimes.exchange import Exchange

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PATH": os.defpath,
    "TZ": "UTC",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_LOCAL_HOSTNAME": "localhost",
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
        folders = {"HOME": str(home), "TMPDIR": str(home)}
        environment = {**ENVIRONMENT, **folders, **self._command.environment}
        try:
            child = EngineProcess(argv, environment, run_dir, sockets.socket, "the engine")
            return connect(child, exchange, sockets, self.name, sandboxed=False)
        except BaseException:
            sockets.close()
            exchange.close()
            raise


def connect(
    child: EngineProcess,
    exchange: Exchange,
    sockets: SocketFolder,
    runtime: str,
    *,
    sandboxed: bool,
) -> EngineHandle:
    """Wait for a started child and speak to it; end it if that does not work.

    Raises:
        EngineUnavailableError: If it does not come up, or speaks another version.
    """
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
        resources=(link, child, sockets, exchange),
        pid=child.pid,
        has_ended=child.has_ended,
    )

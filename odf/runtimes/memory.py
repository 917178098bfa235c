"""An engine in this very process, for tests: the real wire, no second process.

It is handed its servicer, since nothing on this side of the wire knows engines.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from odf.limits import MAX_ENGINE_MESSAGE
from odf.runtimes.base import EngineHandle
from odf.runtimes.child import SocketFolder
from odf.runtimes.client import EngineClient, GrpcLink
from odf.runtimes.exchange import Exchange

_THREADS = 4


class _Server:
    def __init__(self, server: grpc.Server) -> None:
        self._server = server

    def close(self) -> None:
        self._server.stop(grace=None).wait()


class MemoryRuntime:
    """Runs an engine in this process.

    Args:
        register: Adds the services of a host to a server, for example `EngineHost.register`.
    """

    name = "memory"
    sandboxed = False

    def __init__(self, register: Callable[[grpc.Server], None]) -> None:
        self._register = register

    def start(self, run_dir: Path) -> EngineHandle:
        """Serve the engine; see `Runtime.start`."""
        files = run_dir / "engine"
        exchange = Exchange(
            files / "in", files / "out", str(files / "in"), str(files / "out"), link=False
        )
        sockets = SocketFolder()
        server = grpc.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="engine"),
            options=[("grpc.max_receive_message_length", MAX_ENGINE_MESSAGE)],
        )
        self._register(server)
        server.add_insecure_port(f"unix:{sockets.socket}")
        server.start()
        link = GrpcLink(sockets.socket)
        resources = (link, _Server(server), sockets, exchange)
        handle = EngineHandle(
            EngineClient(link, exchange), self.name, sandboxed=False, resources=resources
        )
        try:
            handle.client.check_version()
        except BaseException:
            handle.close()
            raise
        return handle

"""A real HTTP server on loopback that does as badly as a test wants."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "HostileServer"

    def do_GET(self) -> None:
        self.server.requests.append((self.path, dict(self.headers.items())))
        route = self.path if self.path in self.server.routes else "*"
        behaviour = self.server.routes.get(route)
        if isinstance(behaviour, list):
            behaviour = behaviour.pop(0) if len(behaviour) > 1 else behaviour[0]
        if behaviour is None:
            self.answer(404, b"nothing here")
        else:
            behaviour(self)

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send a whole response; `_` in header names stands for `-`, "" leaves one out."""
        headers.setdefault("Content_Length", str(len(body)))
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if status != 304:
            self.wfile.write(body)

    def hang_up(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Stay silent."""


Behaviour = Callable[[Handler], None]


class HostileServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.routes: dict[str, Behaviour | list[Behaviour]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server_address[1]}{path}"

    @property
    def last_headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.requests[-1][1].items()}


def reply(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    """Make a behaviour that always answers the same."""
    return lambda handler: handler.answer(status, body, **headers)


def redirect(to: str, status: int = 302) -> Behaviour:
    return reply(status, Location=to)

"""A web server over a folder, and the stores that the behaviour suites run against."""

import functools
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from odf.store.http import HttpClient, HttpTiming


class Handler(SimpleHTTPRequestHandler):
    """A plain file server that keeps quiet."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes: without it 40 ms each

    def log_message(self, format, *args):  # noqa: A002 - the name is the library's
        pass


class QuietServer(ThreadingHTTPServer):
    """Clients that hang up are part of the tests, and no reason for a traceback."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class Server:
    """A server in a thread; `hits` counts requests by path."""

    def __init__(self, handler: Callable[..., SimpleHTTPRequestHandler]) -> None:
        self._server = QuietServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serve a folder, or answer with a handler class; returns the URL."""
    running: list[Server] = []

    def start(folder: Path | None = None, handler: type = Handler) -> str:
        factory = functools.partial(handler, directory=str(folder)) if folder else handler
        running.append(Server(factory))
        return running[-1].url

    yield start
    for server in running:
        server.close()


@pytest.fixture
def client() -> Iterator[HttpClient]:
    """A client that waits for nothing."""
    made = HttpClient(timing=HttpTiming(connect=5, read=5, sleep=lambda _: None))
    yield made
    made.close()

"""The engine comes up while data is still on its way, and only then."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from odf.coordinator.results import PullStatus
from odf.runtimes.client import EngineClient
from odf.runtimes.pool import EnginePool, PoolSettings
from tests.e2e.conftest import Person

pytestmark = pytest.mark.spark

MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: slow
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: Url, url: "%s"}
      read: {kind: Csv, header: true, schema: [event_time TIMESTAMP, v INT]}
      merge: {kind: Append}
"""
BODY = b"event_time,v\n2024-01-01T00:00:00Z,1\n"


class WatchedPool(EnginePool):
    """A pool that says when an engine was asked for."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(PoolSettings(allow_unsandboxed=True), run_dir=run_dir)
        self.asked = threading.Event()

    def client(
        self, engine: str, *, dataset: str, trusted: bool, version: str | None = None
    ) -> EngineClient:
        self.asked.set()
        return super().client(engine, dataset=dataset, trusted=trusted, version=version)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WatchedPool]:
    pool = WatchedPool(tmp_path / "engines")
    yield pool
    pool.close()


@pytest.fixture
def server(pool: WatchedPool) -> Iterator[str]:
    """Sends the end of the body only once an engine was asked for."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.headers.get("If-None-Match") == '"1"':
                self.send_response(304)
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.send_header("ETag", '"1"')
            self.end_headers()
            self.wfile.write(BODY[:20])
            self.wfile.flush()
            assert pool.asked.wait(60), "no engine was started while the data was on its way"
            self.wfile.write(BODY[20:])

        def log_message(self, *_: object) -> None: ...

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}/data.csv"
    served.shutdown()
    thread.join()
    served.server_close()


def test_the_engine_starts_before_the_download_ends(
    server: str, pool: WatchedPool, tmp_path: Path
) -> None:
    person = Person(tmp_path / "workspace", tmp_path / "home", pool)
    person.add(MANIFEST % server)
    assert not pool.asked.is_set()
    # Without an engine the server would never send the end of the body.
    assert dict(person.pull("slow").records) == {"+A": 1}
    pool.asked.clear()
    assert person.pull("slow").status is PullStatus.UP_TO_DATE
    assert not pool.asked.is_set()

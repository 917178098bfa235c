"""Servers that do not speak HTTP properly, TLS, and what is imported when."""

import ssl
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odf.errors import OdfError, TransportError
from odf.ingest.fetch import Fetched, fetch
from odf.metadata.model import FetchStepUrl, RequestHeader
from tests.ingest.fetch.hostile_server import HostileServer, redirect, reply


def raw(data):
    def behave(handler):
        handler.wfile.write(data)
        handler.hang_up()

    return behave


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n",
        b"SSH-2.0-server\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"A%d: b\r\n" % i for i in range(200)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a length\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
    ],
)
def test_garbage_is_a_transport_error(server, around, data):
    server.routes["/a"] = raw(data)
    with pytest.raises(TransportError, match=r"/a: .*\(after 4 attempts\)") as caught:
        fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert "object at 0x" not in caught.value.message
    assert around.leftovers == []


@pytest.mark.parametrize("length", [b"-1", b"abc", b""])
def test_lengths_that_are_none_count_as_missing(server, around, length):
    server.routes["/a"] = raw(b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\nab")
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert (got.path.read_bytes(), got.complete) == (b"ab", False)


HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            ["ETag", "Last-Modified", "Content-Range", "Location", "Content-Length", "Retry-After"]
        ),
        st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=30),
    )
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(status=st.sampled_from([200, 206, 301, 304, 416, 429, 500]), headers=HEADERS)
def test_any_headers_end_in_data_or_an_error(server, around, status, headers):
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    server.routes["*"] = raw(f"HTTP/1.1 {status} x\r\n{lines}\r\nab".encode("latin-1"))
    try:
        got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    except OdfError:
        return
    assert isinstance(got, Fetched)
    assert got.path.read_bytes() == b"ab"[: got.size]


@pytest.fixture
def tls_server(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    running = HostileServer()
    running.socket = context.wrap_socket(running.socket, server_side=True)
    with running:
        yield running


def https(server, path):
    return server.url(path).replace("http://", "https://")


def test_https_with_a_certificate_that_is_trusted(tls_server, around, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tls_server.routes["/a"] = reply(200, b"ab", ETag='"v"')
    got = fetch(FetchStepUrl(https(tls_server, "/a")), None, around.ctx())
    assert got.path.read_bytes() == b"ab"


def test_a_certificate_that_is_not_trusted_is_refused_at_once(tls_server, around):
    with pytest.raises(TransportError, match=r"/a: TLS failed: .*certificate") as caught:
        fetch(FetchStepUrl(https(tls_server, "/a")), None, around.ctx())
    assert "attempts" not in caught.value.message
    assert tls_server.requests == []


def test_a_redirect_out_of_https(tls_server, server, around, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tls_server.routes["/a"] = redirect(server.url("/b"))
    server.routes["/b"] = reply(200, b"ab", ETag='"v"')
    plain = FetchStepUrl(https(tls_server, "/a"))
    got = fetch(plain, None, around.ctx())
    assert "not encrypted" in got.warnings[0]
    asked = len(server.requests)
    secret = FetchStepUrl(plain.url, headers=(RequestHeader("Authorization", "x"),))
    with pytest.raises(TransportError, match="not encrypted, and the request has secret headers"):
        fetch(secret, None, around.ctx())
    assert len(server.requests) == asked


def test_local_files_are_looked_at_without_heavy_imports(around, write):
    write("d/a.csv")
    code = f"""
import sys
from pathlib import Path
from odf.clock import SystemClock
from odf.ingest.fetch import FetchContext, fetch
from odf.metadata.model import FetchStepFilesGlob, FetchStepUrl, Timestamp
root = Path({str(around.root)!r})
now = Timestamp(0)
ctx = FetchContext(root, root / "cache", SystemClock(), now, {{}}, print, True)
got = fetch(FetchStepFilesGlob("d/*.csv"), None, ctx)
fetch(FetchStepFilesGlob("d/*.csv"), got.source_state, ctx)
fetch(FetchStepUrl("file:d/a.csv"), None, ctx)
print([name for name in ("urllib3", "pyarrow", "grpc", "pyspark") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

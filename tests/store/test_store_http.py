"""Servers that fail, lie, drip and point elsewhere."""

import itertools
import socket
from http.server import BaseHTTPRequestHandler

import pytest

from odf.errors import AuthError, IntegrityError, NotFoundError, TransportError
from odf.store.http import HttpClient, HttpObjectStore, HttpTiming, _check_redirect, urlsplit

BODY = bytes(range(256)) * 2000


class Scripted(BaseHTTPRequestHandler):
    """Answers from a script: each test fills in `answer`."""

    protocol_version = "HTTP/1.1"
    seen: list[dict[str, str]]

    def log_message(self, format, *args):  # noqa: A002 - the name is the library's
        pass

    def do_GET(self):
        self.seen.append(dict(self.headers))
        self.answer(len(self.seen))

    def do_HEAD(self):
        self.do_GET()

    def answer(self, number):
        raise AssertionError(number)

    def reply(self, status, body=b"", length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def hang_up(self):
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def script(serve):
    """Make a server whose n-th answer is `answer(handler, n)`; returns its URL and handler."""

    def make(answer):
        handler = type("Handler", (Scripted,), {"answer": answer, "seen": []})
        return serve(handler=handler), handler

    return make


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, TransportError),
        (401, AuthError),
        (403, AuthError),
        (404, NotFoundError),
        (410, NotFoundError),
        (418, TransportError),
        (503, TransportError),
    ],
)
def test_statuses_become_errors(script, client, status, error):
    url, handler = script(lambda self, _: self.reply(status))
    store = HttpObjectStore(url, client)
    with pytest.raises(error, match=str(status)):
        store.get("a", 10)
    assert len(handler.seen) == (4 if status == 503 else 1)


def test_a_busy_server_is_asked_again(script, client):
    url, _ = script(lambda self, n: self.reply(503 if n < 3 else 200, b"ok" if n > 2 else b""))
    assert HttpObjectStore(url, client).get("a", 10) == b"ok"


def test_a_busy_server_is_asked_again_about_sizes(script, client):
    url, _ = script(lambda self, n: self.reply(503 if n < 3 else 200, b"ok" if n > 2 else b""))
    assert HttpObjectStore(url, client).size("a") == 2


def test_waits_longer_each_time(script):
    waits: list[float] = []
    client = HttpClient(timing=HttpTiming(sleep=waits.append))
    url, _ = script(lambda self, _: self.reply(503))
    with pytest.raises(TransportError, match="gave up after 4 attempts"):
        HttpObjectStore(url, client).get("a", 10)
    client.close()
    assert waits == [0.2, 0.4, 0.8]


def test_nobody_there(client):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TransportError, match="gave up"):
        HttpObjectStore(f"http://127.0.0.1:{port}/", client).get("a", 10)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_cut_transfer_goes_on_where_it_stopped(script, client, ranges):
    def answer(self, number):
        start = int(self.headers.get("Range", "bytes=0-")[6:-1]) if ranges else 0
        rest = BODY[start:]
        extra = {"Content_Range": f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"} if start else {}
        if number <= 6:
            self.reply(
                206 if start else 200,
                rest[: 70_000 * (1 if ranges else number)],
                len(rest),
                **extra,
            )
            self.hang_up()
        else:
            self.reply(206 if start else 200, rest, **extra)

    url, handler = script(answer)
    assert b"".join(HttpObjectStore(url, client).chunks("a", len(BODY))) == BODY
    assert len(handler.seen) == 7


def test_a_transfer_cut_again_at_the_same_byte_ends(script, client):
    def answer(self, _):
        self.reply(200, BODY[:1000], len(BODY))
        self.hang_up()

    url, handler = script(answer)
    with pytest.raises(TransportError, match="gave up after 4 attempts"):
        HttpObjectStore(url, client).get("a", len(BODY))
    assert len(handler.seen) == 4


def test_a_chunked_body_that_is_cut_is_noticed(script, client):
    def answer(self, _):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nhello\r\n5\r\nwo")
        self.hang_up()

    url, _ = script(answer)
    with pytest.raises(TransportError, match="gave up"):
        HttpObjectStore(url, client).get("a", 100)


def test_a_chunked_body_is_read(script, client):
    def answer(self, _):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n")

    url, _ = script(answer)
    assert HttpObjectStore(url, client).get("a", 6) == b"hello!"
    with pytest.raises(IntegrityError, match="5 bytes"):
        HttpObjectStore(url, client).get("a", 5)


def test_endless_bodies_are_stopped_before_they_are_read(script, client):
    url, _ = script(lambda self, _: self.reply(200, b"x", 2**50))
    with pytest.raises(IntegrityError, match="1000 bytes"):
        HttpObjectStore(url, client).get("a", 1000)


def test_endless_chunked_bodies_are_stopped(script, client):
    def answer(self, _):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
        except OSError:
            self.close_connection = True

    url, _ = script(answer)
    with pytest.raises(IntegrityError, match="100000 bytes"):
        list(HttpObjectStore(url, client).chunks("a", 100_000))


def test_a_server_that_drips_is_left(script):
    seconds = itertools.count(step=3000)
    client = HttpClient(timing=HttpTiming(monotonic=lambda: next(seconds), sleep=lambda _: None))
    url, _ = script(lambda self, _: self.reply(200, b"x" * 2_000_000))
    with pytest.raises(TransportError, match="too slow"):
        list(HttpObjectStore(url, client).chunks("a", 2_000_000))
    client.close()


def test_compressed_answers_are_refused(script, client):
    url, _ = script(lambda self, _: self.reply(200, b"x", Content_Encoding="gzip"))
    with pytest.raises(TransportError, match="compressed"):
        HttpObjectStore(url, client).get("a", 10)


def test_headers_stay_with_their_origin(script):
    other, elsewhere = script(lambda self, _: self.reply(200, b"there"))
    url, here = script(lambda self, _: self.reply(302, Location=other + "b"))
    client = HttpClient({"Authorization": "Bearer secret"})
    assert HttpObjectStore(url, client).get("a", 10) == b"there"
    client.close()
    assert here.seen[0]["Authorization"] == "Bearer secret"
    assert "Authorization" not in elsewhere.seen[0]


def test_redirect_loops_end(script, client):
    url, handler = script(lambda self, _: self.reply(302, Location="/again"))
    with pytest.raises(TransportError, match="more than 5 redirects"):
        HttpObjectStore(url, client).get("a", 10)
    assert len(handler.seen) == 6


@pytest.mark.parametrize(
    ("origin", "there", "reason"),
    [
        ("https://1.1.1.1/a", "http://1.1.1.1/a", "encrypted"),
        ("http://1.1.1.1/a", "file:///etc/passwd", "only http"),
        ("http://1.1.1.1/a", "ftp://1.1.1.1/", "only http"),
        ("http://1.1.1.1/a", "http://169.254.169.254/latest", "outside"),
        ("http://1.1.1.1/a", "http://127.0.0.1/", "outside"),
        ("http://1.1.1.1/a", "http://[::1]/", "outside"),
        ("http://1.1.1.1/a", "http://10.0.0.1:80/", "outside"),
        ("http://1.1.1.1/a", "http://2130706433/", "outside"),
        ("http://1.1.1.1/a", "http://1.1.1.1:99999/", "not a URL"),
    ],
)
def test_redirects_that_are_refused(origin, there, reason):
    with pytest.raises(TransportError, match=reason):
        _check_redirect(urlsplit(origin), urlsplit(origin), urlsplit(there))


@pytest.mark.parametrize(
    ("origin", "there"),
    [
        ("http://1.1.1.1/a", "https://1.1.1.1/a"),
        ("http://1.1.1.1/a", "http://8.8.8.8/"),
        ("http://127.0.0.1/a", "http://10.0.0.1/"),
    ],
)
def test_redirects_that_are_followed(origin, there):
    _check_redirect(urlsplit(origin), urlsplit(origin), urlsplit(there))


def port_without_listener() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def failure_of(url, client) -> TransportError:
    with pytest.raises(TransportError) as caught:
        HttpObjectStore(url, client).get("x", 10)
    return caught.value


def test_a_refused_connection_is_told_in_words(client):
    port = port_without_listener()
    error = failure_of(f"http://127.0.0.1:{port}/", client)
    assert error.message == (
        f"http://127.0.0.1:{port}/x: connection refused: nothing listens at 127.0.0.1, "
        f"port {port} (gave up after 4 attempts)"
    )
    assert error.hint == "check the address, or try again later"


def test_an_unknown_host_is_told_in_words(client):
    error = failure_of("http://no-such-host.invalid/", client)
    assert "there is no host no-such-host.invalid" in error.message
    assert "Errno" not in error.message
    assert "HTTPConnection" not in error.message


def test_a_server_that_says_nothing_is_told_in_words():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        client = HttpClient(timing=HttpTiming(connect=5, read=0.05, sleep=lambda _: None))
        error = failure_of(f"http://127.0.0.1:{port}/", client)
        client.close()
    assert f"no answer from 127.0.0.1, port {port}: timed out" in error.message


def test_what_arrived_is_only_said_to_be_kept_where_something_did(script, client):
    def cut(handler, number):
        if number == 1:
            handler.reply(200, b"12345", length=10)
        handler.hang_up()

    url, _ = script(cut)
    assert failure_of(url, client).hint == "try again later: what has arrived is kept"


def test_an_encrypted_connection_to_a_plain_server_is_told_in_words(script, client):
    url, _ = script(lambda handler, _: handler.reply(200))
    error = failure_of(url.replace("http:", "https:"), client)
    assert "no encrypted connection to 127.0.0.1" in error.message
    assert "_ssl.c" not in error.message


def test_a_length_of_thousands_of_digits_is_refused(script, client):
    url, _ = script(lambda handler, _: handler.reply(200, b"x", length="9" * 5000))
    store = HttpObjectStore(url, client)
    for ask in (lambda: store.get("x", 10), lambda: store.size("x")):
        with pytest.raises(TransportError, match="a length of 5000 digits"):
            ask()


@pytest.mark.parametrize("location", ["http://[x/", "http://a:99999999/", f"http://{'a' * 70}.x/"])
def test_redirects_to_what_is_no_url(script, client, location):
    url, _ = script(lambda handler, _: handler.reply(302, Location=location))
    with pytest.raises(TransportError):
        HttpObjectStore(url, client).get("x", 10)

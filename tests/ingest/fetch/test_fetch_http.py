import base64
import socket

import pytest

from odf import limits
from odf.errors import AuthError, BadInputError, NotFoundError, TransportError
from odf.ingest.fetch import Fetched, Unchanged, fetch
from odf.ingest.fetch.templates import Masker
from odf.ingest.fetch.transport import Request, get
from odf.ingest.fetch.zones import Zone
from odf.metadata.model import (
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    FetchStepUrl,
    RequestHeader,
    SourceCachingForever,
    SourceState,
)
from tests.ingest.fetch.hostile_server import HostileServer, redirect, reply

DATE = "Tue, 14 Nov 2023 22:13:20 GMT"
BODY = b"id,name\n1,a\n2,b\n"


def etag(value):
    return SourceState("default", "odf/etag", value)


def last_modified(value):
    return SourceState("default", "odf/last-modified", value)


def test_download(server, around):
    server.routes["/a.csv"] = reply(200, BODY, ETag='"v1"', Last_Modified=DATE)
    got = fetch(FetchStepUrl(server.url("/a.csv")), None, around.ctx())
    assert isinstance(got, Fetched)
    assert got.path.read_bytes() == BODY
    assert got.path.parent == around.root / ".odf/cache/fetch"
    assert (got.owned, got.size, got.complete, got.warnings) == (True, len(BODY), True, ())
    assert got.source_state == etag('"v1"')
    assert str(got.event_time) == "2023-11-14T22:13:20Z"
    got.check_unmodified()
    assert around.leftovers == [got.path.name]
    sent = server.last_headers
    assert sent["user-agent"].startswith("odf/")
    assert sent["accept-encoding"] == "identity"
    assert "if-none-match" not in sent


@pytest.mark.parametrize(
    ("state", "header", "value"),
    [
        (etag('W/"v1"'), "if-none-match", 'W/"v1"'),
        (etag("unquoted"), "if-none-match", "unquoted"),
        (last_modified("2023-11-14T22:13:20.987Z"), "if-modified-since", DATE),
    ],
)
def test_not_modified(server, around, state, header, value):
    server.routes["/a"] = reply(304, ETag="x")
    got = fetch(FetchStepUrl(server.url("/a")), state, around.ctx(is_first=False))
    assert isinstance(got, Unchanged)
    assert state.value in got.reason
    assert server.last_headers[header] == value
    assert around.leftovers == []


@pytest.mark.parametrize(
    ("state", "headers"),
    [
        (etag('"v1"'), {"ETag": '"v1"'}),
        (last_modified("2023-11-14T22:13:20Z"), {"Last_Modified": DATE}),
    ],
)
def test_servers_that_ignore_conditions_still_show_that_nothing_changed(
    server, around, state, headers
):
    server.routes["/a"] = reply(200, BODY, **headers)
    assert isinstance(fetch(FetchStepUrl(server.url("/a")), state, around.ctx()), Unchanged)
    assert around.leftovers == []


@pytest.mark.parametrize(
    "state",
    [
        etag("a\r\nX-Evil: 1"),
        etag(""),
        last_modified("yesterday"),
        SourceState("default", "odf/other", "x"),
    ],
)
def test_states_that_are_not_understood_are_told_of_and_ignored(server, around, state):
    server.routes["/a"] = reply(200, BODY, ETag='"v1"')
    got = fetch(FetchStepUrl(server.url("/a")), state, around.ctx())
    assert isinstance(got, Fetched)
    assert "is not understood" in got.warnings[0]
    assert not {"x-evil", "if-none-match", "if-modified-since"} & set(server.last_headers)


def test_a_304_that_nobody_asked_for_is_an_error(server, around):
    server.routes["/a"] = reply(304)
    with pytest.raises(TransportError, match="answered 304"):
        fetch(FetchStepUrl(server.url("/a")), None, around.ctx())


def test_last_modified_is_the_state_without_etag(server, around):
    server.routes["/a"] = reply(200, BODY, Last_Modified=DATE)
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert got.source_state == last_modified("2023-11-14T22:13:20Z")


@pytest.mark.parametrize("date", ["", "yesterday", "Tue, 99 Nov 2023 22:13:20 GMT"])
def test_a_source_without_state_is_told_of_at_first_only(server, around, date):
    server.routes["/a"] = reply(200, BODY, Last_Modified=date)
    step = FetchStepUrl(server.url("/a"))
    first = fetch(step, None, around.ctx())
    assert (first.source_state, first.event_time) == (None, None)
    assert "neither ETag nor Last-Modified" in first.warnings[0]
    again = fetch(step, None, around.ctx(is_first=False))
    assert isinstance(again, Fetched)
    assert again.warnings == ()


def test_an_endless_etag_is_not_kept(server, around):
    server.routes["/a"] = reply(200, BODY, ETag=f'"{"x" * 2000}"', Last_Modified=DATE)
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert got.source_state.kind == "odf/last-modified"
    assert "ETag of 2002 characters is not used" in got.warnings[0]


def test_event_time_from_system_and_path(server, around):
    server.routes["/2022-09-01/a%20b.csv"] = reply(200, BODY, Last_Modified=DATE)
    url = server.url("/2022-09-01/a%20b.csv")
    step = FetchStepUrl(url, event_time=EventTimeSourceFromSystemTime())
    assert str(fetch(step, None, around.ctx()).event_time) == "2024-06-01T12:00:00Z"
    step = FetchStepUrl(url, event_time=EventTimeSourceFromPath(r"(\d+-\d+-\d+)/a b"))
    assert str(fetch(step, None, around.ctx()).event_time) == "2022-09-01T00:00:00Z"


def test_cache_forever(server, around):
    step = FetchStepUrl(server.url("/a"), cache=SourceCachingForever())
    assert isinstance(fetch(step, None, around.ctx(is_first=False)), Unchanged)
    assert server.requests == []


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, NotFoundError),
        (401, AuthError),
        (403, AuthError),
        (400, TransportError),
        (410, TransportError),
    ],
)
def test_refusals_are_not_retried(server, around, status, kind):
    server.routes["/a"] = reply(status, b"<p>no\x1b[31m\nway</p>", Content_Type="text/html")
    with pytest.raises(kind, match=rf"/a: the server answered {status}: no .*way"):
        fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert (len(server.requests), around.slept, around.leftovers) == (1, [], [])


def test_a_busy_server_is_waited_for(server, around):
    server.routes["/a"] = [
        reply(503, Retry_After="7"),
        reply(429, Retry_After="Sat, 01 Jun 2024 12:00:09 GMT"),
        reply(500),
        reply(200, BODY, ETag='"v"'),
    ]
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert got.path.read_bytes() == BODY
    assert around.slept == [7.0, 9.0, 4.0]
    assert any("503" in line and "again in 7 s" in line for line in around.said)


def test_patience_ends(server, around):
    server.routes["/a"] = reply(502)
    with pytest.raises(TransportError, match=r"answered 502 \(after 4 attempts\)"):
        fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert (len(server.requests), around.slept) == (4, [1.0, 2.0, 4.0])


def test_a_long_wait_is_not_waited(server, around):
    server.routes["/a"] = reply(503, Retry_After="99999999999999999999")
    with pytest.raises(TransportError, match="wants us to wait"):
        fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert around.slept == []


def test_a_server_that_is_not_there(around):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/a"
        with pytest.raises(TransportError, match=r"no connection: connection refused \(after 4"):
            fetch(FetchStepUrl(url), None, around.ctx())


# --- bodies that break off -----------------------------------------------------------------------


def cut(body, *, length, **headers):
    def behave(handler):
        handler.answer(200, body, Content_Length=str(length), **headers)
        handler.hang_up()

    return behave


def ranged(body, **headers):
    """Answer with what is asked for, if the condition holds."""

    def behave(handler):
        wanted = handler.headers.get("Range")
        if wanted is None or handler.headers.get("If-Range") not in headers.values():
            handler.answer(200, body, **headers)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        span = f"bytes {start}-{len(body) - 1}/{len(body)}"
        handler.answer(206, body[start:], Content_Range=span, **headers)

    return behave


@pytest.mark.parametrize("headers", [{"ETag": '"v"'}, {"Last_Modified": DATE}])
def test_a_broken_body_is_taken_up_again(server, around, headers):
    server.routes["/a"] = [cut(BODY[:5], length=len(BODY), **headers), ranged(BODY, **headers)]
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert got.path.read_bytes() == BODY
    assert server.last_headers["range"] == "bytes=5-"
    assert got.source_state is not None
    assert "5 of 16 bytes came" in around.said[0]
    assert around.leftovers == [got.path.name]


def test_a_later_call_takes_it_up_again(server, around):
    server.routes["/a"] = cut(BODY[:5], length=len(BODY), ETag='"v"')
    step = FetchStepUrl(server.url("/a"))
    with pytest.raises(TransportError, match="5 of 16 bytes came"):
        fetch(step, None, around.ctx())
    assert [name[-5:] for name in around.leftovers] == [".json", ".part"]
    server.routes["/a"] = ranged(BODY, ETag='"v"')
    assert fetch(step, None, around.ctx()).path.read_bytes() == BODY
    assert server.last_headers["range"] == "bytes=5-"


def test_a_part_of_an_older_version_is_thrown_away(server, around):
    step = FetchStepUrl(server.url("/a"))
    server.routes["/a"] = cut(BODY[:5], length=len(BODY), ETag='"old"')
    with pytest.raises(TransportError):
        fetch(step, None, around.ctx())
    server.routes["/a"] = ranged(b"new", ETag='"new"')
    assert fetch(step, None, around.ctx()).path.read_bytes() == b"new"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"XXXXXXXXXXX", {"ETag": '"other"', "Content_Range": "bytes 5-15/16"}),
        (b"XXXXXXXXXXX", {"ETag": '"v"', "Content_Range": "bytes 4-15/16"}),
        (b"XXXXXXXXXXX", {"ETag": '"v"', "Content_Range": "bytes 5-15/17"}),
        (b"XXXXXXXXXXX", {"ETag": '"v"', "Content_Range": "bytes five"}),
        (b"XXXXXXXXXXX", {"ETag": '"v"'}),
        (b"XX", {"ETag": '"v"', "Content_Range": "bytes 5-6/16"}),
    ],
)
def test_lies_about_the_rest_are_not_believed(server, around, body, headers):
    server.routes["/a"] = [
        cut(BODY[:5], length=len(BODY), ETag='"v"'),
        reply(206, body, **headers),
        reply(200, BODY, ETag='"v"'),
    ]
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert got.path.read_bytes() == BODY
    assert got.size == len(BODY)


def test_the_rest_of_another_date_is_not_believed(server, around):
    later = "Wed, 15 Nov 2023 22:13:20 GMT"
    server.routes["/a"] = [
        cut(BODY[:5], length=len(BODY), Last_Modified=DATE),
        reply(206, b"X" * 11, Last_Modified=later, Content_Range="bytes 5-15/16"),
        reply(200, BODY, Last_Modified=later),
    ]
    assert fetch(FetchStepUrl(server.url("/a")), None, around.ctx()).path.read_bytes() == BODY


def test_a_range_that_is_refused_begins_anew(server, around):
    server.routes["/a"] = [
        cut(BODY[:5], length=len(BODY), ETag='"v"'),
        reply(416),
        reply(200, BODY, ETag='"v"'),
    ]
    assert fetch(FetchStepUrl(server.url("/a")), None, around.ctx()).path.read_bytes() == BODY
    assert "range" not in server.last_headers


@pytest.mark.parametrize("headers", [{"ETag": 'W/"v"'}, {}])
def test_without_a_strong_validator_it_begins_anew(server, around, headers):
    server.routes["/a"] = [cut(BODY[:5], length=len(BODY), **headers), reply(200, BODY, **headers)]
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert got.path.read_bytes() == BODY
    assert "range" not in server.last_headers


def test_a_206_that_nobody_asked_for_is_an_error(server, around):
    server.routes["/a"] = reply(206, BODY, Content_Range="bytes 0-15/99")
    with pytest.raises(TransportError, match="answered 206"):
        fetch(FetchStepUrl(server.url("/a")), None, around.ctx())


def test_a_chunked_body_needs_its_end(server, around):
    def chunked(end):
        def behave(handler):
            handler.answer(
                200, b"5\r\nid,na\r\n" + end, Content_Length="", Transfer_Encoding="chunked"
            )
            handler.hang_up()

        return behave

    server.routes["/a"] = [
        chunked(b""),
        chunked(b"3\r\nme"),
        chunked(b"zz\r\n"),
        chunked(b"0\r\n\r\n"),
    ]
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert (got.path.read_bytes(), got.complete, len(server.requests)) == (b"id,na", True, 4)
    broken = [line for line in around.said if "broke off" in line]
    assert ["broke off: the end is missing" in line for line in broken] == [True] * 3


def test_a_host_name_that_is_none(around):
    with pytest.raises(TransportError, match="the host name is none"):
        fetch(FetchStepUrl(f"http://{'a' * 64}.invalid/a.csv"), None, around.ctx())


def test_a_body_without_length_is_told_of(server, around):
    def behave(handler):
        handler.answer(200, BODY, Content_Length="", Connection="close", ETag='"v"')
        handler.hang_up()

    server.routes["/a"] = behave
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert (got.path.read_bytes(), got.complete) == (BODY, False)
    assert "gives no length" in got.warnings[0]


def test_size_limit_by_announcement_and_by_count(server, around):
    server.routes["/told"] = reply(200, BODY)
    server.routes["/untold"] = reply(
        200, b"10\r\n" + BODY + b"\r\n0\r\n\r\n", Content_Length="", Transfer_Encoding="chunked"
    )
    for path in ("/told", "/untold"):
        with pytest.raises(BadInputError, match="larger than the 15 bytes"):
            fetch(FetchStepUrl(server.url(path)), None, around.ctx(max_size=15))
        assert around.leftovers == []
        assert isinstance(
            fetch(FetchStepUrl(server.url(path)), None, around.ctx(max_size=16)), Fetched
        )
        for path_left in (around.root / ".odf/cache/fetch").iterdir():
            path_left.unlink()


def test_a_body_that_is_announced_too_large_is_not_begun(server, around):
    server.routes["/a"] = cut(b"abc", length=10**15, ETag='"v"')
    with pytest.raises(BadInputError, match="larger than"):
        fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert (len(server.requests), around.leftovers) == (1, [])


def test_unasked_compression_is_kept_and_told_of(server, around):
    server.routes["/a"] = reply(200, b"\x1f\x8b\x08", Content_Encoding="gzip", ETag='"v"')
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert got.path.read_bytes() == b"\x1f\x8b\x08"
    assert "content-encoding 'gzip'" in got.warnings[0]


def test_progress_is_reported(server, around):
    body = bytes(17 * 1024 * 1024)
    server.routes["/a"] = reply(200, body, ETag='"v"')
    assert fetch(FetchStepUrl(server.url("/a")), None, around.ctx()).size == len(body)
    assert "16.0 MiB of 17.0 MiB" in around.said[0]


def test_two_downloads_at_once_do_not_meet(server, around):
    step = FetchStepUrl(server.url("/a"))
    inner = []

    def behave(handler):
        if not inner:
            inner.append(None)
            inner[0] = fetch(step, None, around.ctx())
        handler.answer(200, BODY, ETag='"v"')

    server.routes["/a"] = behave
    outer = fetch(step, None, around.ctx())
    assert outer.path != inner[0].path
    assert outer.path.read_bytes() == inner[0].path.read_bytes() == BODY


# --- redirects -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(server, around, status):
    server.routes["/a"] = redirect("b/../c?d=1#e", status)
    server.routes["/c?d=1"] = reply(200, BODY, ETag='"v"')
    got = fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert (got.path.read_bytes(), got.warnings) == (BODY, ())


def test_conditions_go_along_with_redirects(server, around):
    server.routes["/a"] = redirect("/b")
    server.routes["/b"] = reply(304)
    assert isinstance(fetch(FetchStepUrl(server.url("/a")), etag('"v"'), around.ctx()), Unchanged)


def test_redirects_end(server, around):
    server.routes["/a"] = redirect("/a")
    with pytest.raises(TransportError, match="more than 10 redirects"):
        fetch(FetchStepUrl(server.url("/a")), None, around.ctx())
    assert len(server.requests) == limits.MAX_REDIRECTS + 1


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://h/x", "http://[", ""])
def test_redirects_lead_to_web_servers_only(server, around, to):
    server.routes["/a"] = redirect(to)
    with pytest.raises(TransportError, match="refused: a redirect"):
        fetch(FetchStepUrl(server.url("/a")), None, around.ctx())


def test_secrets_do_not_go_to_another_origin(server, around):
    secrets = {"KEY": "s3cret"}
    headers = (
        RequestHeader("X-Key", "${{ env.KEY }}"),
        RequestHeader("Authorization", "Bearer fixed"),
        RequestHeader("Accept", "text/csv"),
    )
    with HostileServer() as other:
        server.routes["/same"] = redirect("/here")
        server.routes["/here"] = redirect(other.url("/there"))
        other.routes["/there"] = reply(200, BODY, ETag='"v"')
        step = FetchStepUrl(server.url("/same"), headers=headers)
        fetch(step, None, around.ctx(environment=secrets))
        assert server.last_headers["x-key"] == "s3cret"
        assert server.last_headers["authorization"] == "Bearer fixed"
        assert other.last_headers["accept"] == "text/csv"
        assert not {"x-key", "authorization"} & set(other.last_headers)


def test_user_and_password_of_a_url(server, around):
    server.routes["/a"] = reply(404)
    url = server.url("/a").replace("http://", "http://me:${{ env.PW }}@")
    with pytest.raises(NotFoundError) as caught:
        fetch(FetchStepUrl(url), None, around.ctx(environment={"PW": "p%40ss"}))
    assert server.last_headers["authorization"] == f"Basic {base64.b64encode(b'me:p@ss').decode()}"
    assert "p%40ss" not in caught.value.message
    assert "me" not in caught.value.message.split("/a:")[0]


def through_proxy(server, around, step, **settings):
    """Fetch through the server as a proxy: names need not exist, and nothing else is reached."""
    proxy = server.url("").replace("http://", "http://user:p%20w@")
    return fetch(step, None, around.ctx(proxies={"HTTP_PROXY": proxy}, **settings))


def test_proxies_are_used(server, around):
    server.routes["http://data.example.org/a.csv"] = reply(200, BODY, ETag='"v"')
    got = through_proxy(server, around, FetchStepUrl("http://data.example.org/a.csv"))
    assert got.path.read_bytes() == BODY
    sent = server.last_headers
    assert sent["host"] == "data.example.org"
    assert sent["proxy-authorization"] == f"Basic {base64.b64encode(b'user:p w').decode()}"


def test_a_bad_proxy_is_named_without_its_password(around):
    with pytest.raises(TransportError, match="cannot use the proxy socks5://p:1") as caught:
        fetch(
            FetchStepUrl("http://a.example.org/"),
            None,
            around.ctx(proxies={"http_proxy": "socks5://me:pw@p:1"}),
        )
    assert "pw" not in caught.value.message


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("http://127.0.0.1:1/x", "this machine"),
        ("http://localhost/x", "this machine"),
        ("http://[::1]/x", "this machine"),
        ("http://2130706433/x", "this machine"),
        ("http://169.254.169.254/latest/meta-data", "a link-local address"),
        ("http://10.0.0.1/x", "a private network"),
        ("http://router/x", "a private network"),
    ],
)
def test_a_redirect_from_outside_does_not_lead_inside(server, around, to, words):
    server.routes["http://data.example.org/a"] = redirect(to)
    with pytest.raises(TransportError, match=f"from the internet to {words}"):
        through_proxy(server, around, FetchStepUrl("http://data.example.org/a"))
    assert len(server.requests) == 1


def test_a_name_that_turns_out_to_be_inside_gets_no_request(server, monkeypatch):
    # What the name says does not count, only the address that the connection has.
    def look_up(_host, port, *_rest, **_more):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    url = server.url("/a", host="data.example.org")
    request = Request(url, "a", (), Masker([]), floor=Zone.PUBLIC)
    with pytest.raises(TransportError, match="to this machine"), get(request):
        pass
    assert server.requests == []


# --- what a manifest or a variable may not do ----------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("Content-Length", "3", "cannot be set"),
        ("Host", "x", "cannot be set"),
        ("range", "bytes=0-", "cannot be set"),
        ("a b", "x", "cannot be set"),
        ("", "x", "cannot be set"),
        ("X-Key", "${{ env.KEY }}", "value of the header X-Key"),
        ("X-Key", "\u20ac", "value of the header X-Key"),
    ],
)
def test_headers_that_are_refused(server, around, name, value, message):
    step = FetchStepUrl(server.url("/a"), headers=(RequestHeader(name, value),))
    with pytest.raises(BadInputError, match=message) as caught:
        fetch(step, None, around.ctx(environment={"KEY": "s3cret\r\nX: y"}))
    assert "s3cret" not in caught.value.message
    assert server.requests == []


@pytest.mark.parametrize("url", ["http://", "http:///a", "http:a", "https://[x/"])
def test_urls_that_are_none(around, url):
    with pytest.raises(BadInputError, match="no URL of a web server"):
        fetch(FetchStepUrl(url), None, around.ctx())


def test_no_message_shows_a_secret(server, around):
    secret = "hush me/1"
    shown = "hush%20me%2F1"

    def behave(handler):
        if handler.path.startswith("/a"):
            redirect(f"/{shown}?k=hush%20me/1")(handler)
        else:
            text = f"no {secret} {shown} {handler.path}"
            handler.answer(500, text.encode(), Content_Type="text/plain")

    server.routes["*"] = behave
    step = FetchStepUrl(server.url("/a?key=${{ env.KEY }}"))
    with pytest.raises(TransportError) as caught:
        fetch(step, None, around.ctx(environment={"KEY": secret}))
    assert "key=hush%20me/1" in server.requests[0][0]
    for text in [caught.value.message, str(caught.value.details), *around.said, *around.leftovers]:
        assert "hush" not in text
    assert "/***" in caught.value.message


def test_a_full_disk_is_named(server, around):
    server.routes["/a"] = reply(200, BODY)
    (around.root / "cache").write_text("a file where the folder should be")
    with pytest.raises(TransportError, match=r"cannot write the download into .*/cache"):
        fetch(FetchStepUrl(server.url("/a")), None, around.ctx(cache_dir=around.root / "cache"))

"""`ftp://` sources against a real server."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odf.errors import AuthError, BadInputError, NotFoundError, TransportError
from odf.ingest.fetch import Fetched, Unchanged, fetch
from odf.metadata.model import (
    EventTimeSourceFromPath,
    FetchStepUrl,
    RequestHeader,
    SourceCachingForever,
    SourceState,
    Timestamp,
)
from tests.ingest.fetch.conftest import Around
from tests.ingest.fetch.ftp_server import AT, Ftp


@pytest.fixture
def ftp(tmp_path: Path) -> Iterator[Ftp]:
    server = Ftp(tmp_path / "ftp")
    yield server
    server.close()


def take(
    around: Around, url: str, state: SourceState | None = None, **more: Any
) -> Fetched | Unchanged:
    step = {key: more.pop(key) for key in ("event_time", "cache", "headers") if key in more}
    return fetch(FetchStepUrl(url, **step), state, around.ctx(**more))


def content(found: Fetched | Unchanged) -> bytes:
    assert isinstance(found, Fetched), found
    return found.path.read_bytes()


def test_a_file_is_downloaded_once_for_each_time(ftp: Ftp, around: Around) -> None:
    ftp.write("a b/c.csv", b"x\n1\n")
    found = take(around, ftp.url("a%20b/c.csv"))
    assert content(found) == b"x\n1\n"
    assert isinstance(found, Fetched)
    time = Timestamp.from_epoch_ms(AT * 1000)
    assert found.source_state == SourceState("default", "odf/last-modified", str(time))
    assert (found.event_time, found.complete, found.has_more) == (time, True, False)
    assert isinstance(take(around, ftp.url("a%20b/c.csv"), found.source_state), Unchanged)
    ftp.write("a b/c.csv", b"x\n2\n", AT + 1)
    assert content(take(around, ftp.url("a%20b/c.csv"), found.source_state)) == b"x\n2\n"


def test_names_are_utf_8(ftp: Ftp, around: Around) -> None:
    ftp.write("Grüße/Straße.csv", b"x\n")
    assert content(take(around, ftp.url("Gr%C3%BC%C3%9Fe/Stra%C3%9Fe.csv"))) == b"x\n"


def test_event_time_from_the_path_and_cache_forever(ftp: Ftp, around: Around) -> None:
    ftp.write("2024-02-03.csv", b"x\n")
    source = EventTimeSourceFromPath(r"(\d{4}-\d{2}-\d{2})")
    found = take(around, ftp.url("2024-02-03.csv"), event_time=source)
    assert isinstance(found, Fetched)
    assert str(found.event_time) == "2024-02-03T00:00:00Z"
    forever = take(around, ftp.url("2024-02-03.csv"), cache=SourceCachingForever(), is_first=False)
    assert isinstance(forever, Unchanged)


def test_a_broken_transfer_goes_on_where_it_stopped(ftp: Ftp, around: Around) -> None:
    body = os.urandom(500_000)
    ftp.write("big.bin", body)
    ftp.cut_after = [100_000, 250_000]
    assert content(take(around, ftp.url("big.bin"))) == body
    rests = [int(line.split()[1]) for line in ftp.asked if line.startswith("REST")]
    assert rests == [100_000, 350_000]
    assert around.slept == [1.0, 2.0]


def test_a_later_pull_goes_on_too(ftp: Ftp, around: Around) -> None:
    body = os.urandom(300_000)
    ftp.write("big.bin", body)
    ftp.cut_after = [100_000, 0, 0, 0]
    with pytest.raises(TransportError, match=r"after 4 attempts"):
        take(around, ftp.url("big.bin"))
    del ftp.asked[:]
    assert content(take(around, ftp.url("big.bin"))) == body
    assert "REST 100000" in ftp.asked


@pytest.mark.parametrize("forgotten", ["MDTM", "SIZE"])
def test_nothing_is_resumed_without_a_version(forgotten: str, ftp: Ftp, around: Around) -> None:
    ftp.forget(forgotten)
    body = os.urandom(300_000)
    ftp.write("big.bin", body)
    ftp.cut_after = [100_000]
    found = take(around, ftp.url("big.bin"))
    assert content(found) == body
    assert not [line for line in ftp.asked if line.startswith("REST")]
    assert isinstance(found, Fetched)
    assert found.complete is (forgotten == "MDTM")
    assert len(found.warnings) == 1


def test_a_file_that_changed_meanwhile_is_not_resumed(ftp: Ftp, around: Around) -> None:
    ftp.write("big.bin", b"a" * 300_000)
    ftp.cut_after = [100_000, 0, 0, 0]
    with pytest.raises(TransportError):
        take(around, ftp.url("big.bin"))
    ftp.write("big.bin", b"b" * 300_000, AT + 5)
    assert content(take(around, ftp.url("big.bin"))) == b"b" * 300_000


def test_credentials(ftp: Ftp, around: Around) -> None:
    ftp.write("c.csv", b"x\n")
    url = ftp.url("c.csv", "ann:${{ env.PASS }}@")
    assert content(take(around, url, environment={"PASS": "S3cr%20et%40"})) == b"x\n"
    with pytest.raises(AuthError) as refused:
        take(around, url, environment={"PASS": "wr0ng"})
    said = refused.value.message + "".join(around.said)
    assert "530" in said
    assert "wr0ng" not in said
    assert "ann" not in said


@pytest.fixture
def ftps(tmp_path: Path, certificate: Path) -> Iterator[Ftp]:
    server = Ftp(tmp_path / "ftps", certificate)
    yield server
    server.close()


def test_over_tls(
    ftps: Ftp, around: Around, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server takes neither passwords nor transfers in the clear."""
    body = os.urandom(300_000)
    ftps.write("c.bin", body)
    url = ftps.url("c.bin", "ann:S3cr%20et%40@").replace("ftp:", "ftps:")
    with pytest.raises(TransportError, match="TLS failed: CERTIFICATE_VERIFY_FAILED"):
        take(around, url)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert content(take(around, url)) == body
    with pytest.raises(AuthError, match="TLS required"):
        take(around, url.replace("ftps:", "ftp:"))


def test_a_server_without_tls(ftp: Ftp, around: Around) -> None:
    ftp.write("c.csv", b"x\n")
    with pytest.raises(TransportError, match=r"50\d .*AUTH"):
        take(around, ftp.url("c.csv", "ann:S3cr%20et%40@").replace("ftp:", "ftps:"))
    assert not [line for line in ftp.asked if line.startswith(("USER", "PASS"))]


def test_what_is_not_there(ftp: Ftp, around: Around) -> None:
    ftp.write("folder/c.csv", b"x\n")
    for name in ("none.csv", "none/c.csv", "folder/none.csv"):
        with pytest.raises(NotFoundError, match="550"):
            take(around, ftp.url(name))
    assert around.leftovers == []


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/",
        "ftp://127.0.0.1/a/",
        "ftp:///a.csv",
        "ftp://127.0.0.1/a%0D%0ADELE%20b",
        "ftp://u%0D%0A:p@127.0.0.1/a",
        "ftp://127.0.0.1:99999/a",
    ],
)
def test_urls_that_name_no_file(url: str, around: Around) -> None:
    with pytest.raises(BadInputError, match="names no file"):
        take(around, url)


def test_headers_make_no_sense(around: Around) -> None:
    with pytest.raises(BadInputError, match="ftp has no headers"):
        take(around, "ftp://127.0.0.1/a", headers=(RequestHeader("A", "b"),))


@pytest.mark.parametrize("unfit", ["no passive mode", "another address"])
def test_a_server_without_passive_transfers(
    unfit: str, ftp: Ftp, around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    ftp.write("c.csv", b"x\n")
    if unfit == "no passive mode":
        ftp.forget("PASV")
    else:  # as where a firewall lets nobody in to the ports that the server names
        monkeypatch.setattr("ftplib.FTP.makepasv", lambda _: ("127.0.0.1", 1))
    with pytest.raises(
        TransportError, match=r"50\d |no connection for the data: .*refused"
    ) as told:
        take(around, ftp.url("c.csv"))
    assert "transfers are passive" in (told.value.hint or "")
    assert "file:// URL" in (told.value.hint or "")
    assert not any(name.endswith(".data") for name in around.leftovers)


def test_too_large(ftp: Ftp, around: Around) -> None:
    ftp.write("c.csv", b"x" * 2000)
    with pytest.raises(BadInputError, match="larger than the 1000 bytes"):
        take(around, ftp.url("c.csv"), max_size=1000)
    ftp.forget("SIZE")
    with pytest.raises(BadInputError, match="larger than the 1000 bytes"):
        take(around, ftp.url("c.csv"), max_size=1000)


def test_nobody_there(around: Around) -> None:
    with pytest.raises(TransportError, match="refused"):
        take(around, "ftp://127.0.0.1:1/a.csv")
    with pytest.raises(TransportError, match="host name is not known"):
        take(around, "ftp://nowhere.invalid/a.csv")


@pytest.mark.parametrize(
    "says",
    [
        lambda _: b"",
        lambda _: b"\0\xff\n",
        lambda line: b"220 hi\r\n" if line is None else b"500 no\r\n",
        lambda line: b"220 hi\r\n" if line is None else b"999 what\r\n",
        lambda line: b"220 hi\r\n" if line is None else b"230 in\r\n",
        lambda _: b"x" * 20_000 + b"\r\n",
        lambda _: b"421 later\r\n",
    ],
)
def test_servers_that_make_no_sense(says: Callable[[bytes | None], bytes], around: Around) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def serve() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:
                    return
                with line:
                    heard: bytes | None = None
                    try:
                        while answer := says(heard):
                            line.sendall(answer)
                            heard = line.recv(4096)
                            if not heard:
                                break
                    except OSError:
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises((TransportError, AuthError)):
                take(around, f"ftp://127.0.0.1:{port}/a.csv")
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert around.leftovers == []


@pytest.mark.parametrize(
    ("url", "name", "value"),
    [
        ("ftp://data.example.org/a.csv", "ftp_proxy", "http://me:pw@proxy.example.org:3128"),
        ("ftp://data.example.org/a.csv", "ALL_PROXY", "proxy.example.org:3128"),
        ("ftps://data.example.org/a.csv", "FTPS_PROXY", "http://proxy.example.org:3128"),
        ("ftps://data.example.org/a.csv", "FTP_PROXY", "http://proxy.example.org:3128"),
    ],
)
def test_a_proxy_is_not_gone_around_in_silence(
    url: str, name: str, value: str, around: Around
) -> None:
    with pytest.raises(TransportError, match=r"http://proxy\.example\.org:3128 is conf") as caught:
        take(around, url, proxies={name: value})
    assert "data.example.org into NO_PROXY" in (caught.value.hint or "")
    assert "pw" not in caught.value.message


@pytest.mark.parametrize(
    "proxies",
    [
        {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"},
        {"FTP_PROXY": "http://127.0.0.1:9"},  # this machine is reached directly
    ],
)
def test_proxies_for_others_do_not_matter(
    proxies: dict[str, str], ftp: Ftp, around: Around
) -> None:
    ftp.write("a.csv", b"x\n")
    assert content(take(around, ftp.url("a.csv"), proxies=proxies)) == b"x\n"

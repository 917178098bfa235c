"""Objects and references behind plain HTTP, read only (sync-protocols.md §2).

Any web server over a dataset's folder will do. Nothing that it sends is believed: sizes are
bounded, redirects are followed only where they cannot leak or reach what they should not, and the
bytes are hashed by the caller. A transfer that is cut goes on where it stopped.
"""

import contextlib
import io
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn
from urllib.parse import SplitResult, urljoin, urlsplit

from odf import limits
from odf.errors import (
    AuthError,
    IntegrityError,
    NotFoundError,
    OdfError,
    TransportError,
    UsageError,
)
from odf.store.base import CHUNK_SIZE, check_key

if TYPE_CHECKING:
    import urllib3

_OK: Final = (200, 206)
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_WORTH_RETRYING: Final = (408, 425, 429, 500, 502, 503, 504)
_LENGTH_DIGITS: Final = 19
"""Digits of the largest length that a file can have (2**63 - 1)."""


@dataclass(frozen=True, slots=True)
class HttpTiming:
    """How patient a client is; tests are less so.

    Attributes:
        connect: Seconds to wait for a connection.
        read: Seconds to wait for the next byte.
        grace: Seconds before `min_speed` counts.
        min_speed: Bytes a second that a transfer must keep on average after that.
        sleep: How to wait between attempts.
        monotonic: A clock in seconds that never goes back.
    """

    connect: float = limits.HTTP_CONNECT_SECONDS
    read: float = limits.HTTP_READ_SECONDS
    grace: float = limits.HTTP_GRACE_SECONDS
    min_speed: int = limits.HTTP_MIN_SPEED
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic


class HttpClient:
    """GET and HEAD with bounds; one pool of connections for all stores of a remote.

    Args:
        headers: Sent with every request to the origin it was made for, and never to another.
        timing: How patient it is.
    """

    def __init__(
        self, headers: Mapping[str, str] | None = None, timing: HttpTiming | None = None
    ) -> None:
        self._headers = dict(headers or {})
        self.timing = timing or HttpTiming()
        self._pool: urllib3.PoolManager | None = None

    def close(self) -> None:
        """Close all connections; the client can be used again."""
        if self._pool is not None:
            self._pool.clear()
            self._pool = None

    def head(self, url: str) -> "Answer":
        """Ask about an object without its body.

        Raises:
            NotFoundError: It is not there.
            AuthError: Not allowed.
            TransportError: No usable answer after several attempts.
        """
        for attempt in range(limits.HTTP_ATTEMPTS):
            if attempt:
                self.pause(attempt - 1)
            try:
                with self.request("HEAD", url) as answer:
                    answer.raise_for_status()
                    return answer
            except _InterruptedTransferError as error:
                failure = error
        raise TransportError(f"{failure.message} (gave up after {limits.HTTP_ATTEMPTS} attempts)")

    @contextlib.contextmanager
    def request(self, method: str, url: str, start: int = 0) -> Iterator["Answer"]:
        """Send a request and follow its redirects; the body is still to be read.

        Args:
            method: `GET` or `HEAD`.
            url: What.
            start: The first byte wanted.

        Raises:
            TransportError: No answer, or a redirect that is not followed.
        """
        origin = urlsplit(url)
        at = url
        for _ in range(limits.HTTP_REDIRECTS + 1):
            here = urlsplit(at)
            headers = {"Accept-Encoding": "identity"}
            if _origin(here) == _origin(origin):
                headers |= self._headers
            if start:
                headers["Range"] = f"bytes={start}-"
            response = self._send(method, at, headers)
            try:
                location = response.headers.get("Location")
                if response.status not in _REDIRECTS or location is None:
                    yield Answer(url, response)
                    return
            finally:
                # After a body that was not read to its end the connection is of no more use.
                if not response.closed:
                    response.close()
                response.release_conn()
            try:
                at = urljoin(at, location)
                there = urlsplit(at)
            except ValueError as error:
                raise TransportError(f"{url}: redirects to what is no URL: {error}") from error
            _check_redirect(origin, here, there)
        raise TransportError(f"{url}: more than {limits.HTTP_REDIRECTS} redirects")

    def _send(
        self, method: str, url: str, headers: Mapping[str, str]
    ) -> "urllib3.BaseHTTPResponse":
        import urllib3  # noqa: PLC0415 - only needed by those who talk to a server

        if self._pool is None:
            self._pool = urllib3.PoolManager(
                timeout=urllib3.Timeout(connect=self.timing.connect, read=self.timing.read),
                retries=False,
            )
        try:
            return self._pool.request(
                method, url, headers=headers, preload_content=False, redirect=False
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise _InterruptedTransferError(f"{url}: {_reason(error, url)}") from error

    def pause(self, attempt: int) -> None:
        """Wait before the next attempt: 0.2 s, then twice as long each time."""
        self.timing.sleep(0.2 * 2**attempt)


class _InterruptedTransferError(TransportError):
    """A failure that another attempt may not see."""


def _reason(error: Exception, url: str) -> str:
    """Say in words what kept a server from being heard."""
    from urllib3 import exceptions  # noqa: PLC0415 - loaded already; here for its exceptions

    host, port = _host_and_port(url)
    server = f"{host}, port {port}"
    cause = error.__cause__
    if isinstance(error, exceptions.NameResolutionError):
        return f"there is no host {host}, or its address cannot be looked up now"
    if isinstance(error, exceptions.NewConnectionError):
        if isinstance(cause, ConnectionRefusedError):
            return f"connection refused: nothing listens at {server}"
        return f"no connection to {server}: {_plain(cause or error)}"
    if isinstance(error, exceptions.ConnectTimeoutError):
        return f"no connection to {server}: timed out"
    if isinstance(error, exceptions.TimeoutError):
        return f"no answer from {server}: timed out"
    if isinstance(error, exceptions.SSLError):
        return f"no encrypted connection to {server}: {_plain(error.args[0])}"
    if isinstance(error, exceptions.ProtocolError):
        return f"the connection to {server} broke off: {_plain(error.args[-1])}"
    return _plain(error)


def _plain(reason: object) -> str:
    """Return the words of an error without its number and the names of classes."""
    if isinstance(reason, ssl.SSLError) and reason.reason:
        words = reason.reason.lower().replace("_", " ")
        return str(getattr(reason, "verify_message", "")) or words
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason) or type(reason).__name__


def _host_and_port(url: str) -> tuple[str, int | None]:
    _, host, port = _origin(urlsplit(url))
    return host or "", port


class Answer:
    """A server's answer, its status not yet judged.

    Args:
        url: What was asked for.
        response: What came.
    """

    def __init__(self, url: str, response: "urllib3.BaseHTTPResponse") -> None:
        self._url = url
        self._response = response
        self.status: int = response.status

    @property
    def length(self) -> int | None:
        """Return the announced length of the body; None if unknown.

        Raises:
            TransportError: It is longer than anything can be.
        """
        text = self._response.headers.get("Content-Length", "")
        if not (text.isascii() and text.isdigit()):
            return None
        if len(text) > _LENGTH_DIGITS:
            raise TransportError(
                f"{self._url}: the server announces a length of {len(text)} digits, wanted at "
                f"most {_LENGTH_DIGITS}"
            )
        return int(text)

    def raise_for_status(self) -> None:
        """Raise unless the object is there.

        Raises:
            NotFoundError: 404 or 410.
            AuthError: 401 or 403.
            TransportError: Anything else.
        """
        if self.status in _OK:
            if self._response.headers.get("Content-Encoding", "identity") != "identity":
                raise TransportError(
                    f"{self._url}: the server sends compressed bytes although plain ones were asked"
                )
            return
        if self.status in (404, 410):
            raise NotFoundError(f"{self._url}: not there (HTTP {self.status})")
        if self.status in (401, 403):
            raise AuthError(f"{self._url}: not allowed (HTTP {self.status})")
        message = f"{self._url}: HTTP {self.status} {self._response.reason or ''}".rstrip()
        if self.status in _WORTH_RETRYING:
            raise _InterruptedTransferError(message)
        raise TransportError(message)

    def starts_at(self, start: int) -> bool:
        """Tell whether the body begins at the byte that was asked for, not at the first one."""
        return self.status == 206 and self._response.headers.get(  # noqa: PLR2004 - Partial Content
            "Content-Range", ""
        ).startswith(f"bytes {start}-")

    def pieces(self) -> Iterator[bytes]:
        """Read the body as it arrives, however slowly."""
        import urllib3  # noqa: PLC0415 - loaded already; here for its exceptions

        try:
            # read1 returns what is there: a server that drips cannot hide from the clock.
            while piece := self._response.read1(CHUNK_SIZE, decode_content=False):
                yield piece
            if self._response.length_remaining:
                raise _InterruptedTransferError(f"{self._url}: the transfer was cut")
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise _InterruptedTransferError(f"{self._url}: {_reason(error, self._url)}") from error


class HttpObjectStore:
    """Objects below a URL.

    Args:
        base: The URL that keys are appended to; ends with a slash.
        client: How to ask.
    """

    def __init__(self, base: str, client: HttpClient) -> None:
        self._base = with_slash(base)
        self._client = client

    @property
    def url(self) -> str:
        """The base URL."""
        return self._base

    def _url(self, key: str) -> str:
        return self._base + check_key(key)

    def has(self, key: str) -> bool:
        """See `ObjectStore.has`."""
        try:
            self._client.head(self._url(key))
        except NotFoundError:
            return False
        return True

    def size(self, key: str) -> int:
        """See `ObjectStore.size`.

        Raises:
            TransportError: The server does not say.
        """
        answer = self._client.head(self._url(key))
        if answer.length is None:
            raise TransportError(f"{self._url(key)}: the server does not tell the size")
        return answer.length

    def get(self, key: str, max_size: int) -> bytes:
        """See `ObjectStore.get`."""
        return b"".join(self.chunks(key, max_size))

    def chunks(self, key: str, max_size: int) -> Iterator[bytes]:
        """See `ObjectStore.chunks`; a transfer that is cut goes on where it stopped."""
        transfer = _Transfer(self._client, self._url(key), max_size)
        attempt = 0
        while True:
            before = transfer.received
            try:
                yield from transfer.run()
            except _InterruptedTransferError as error:
                # Attempts count only while nothing arrives: progress earns new patience.
                attempt = attempt + 1 if transfer.received == before else 1
                if attempt >= limits.HTTP_ATTEMPTS:
                    raise TransportError(
                        f"{error.message} (gave up after {attempt} attempts)",
                        hint="try again later: what has arrived is kept"
                        if transfer.received
                        else "check the address, or try again later",
                    ) from error
                self._client.pause(attempt - 1)
            else:
                return

    def open(self, key: str) -> BinaryIO:
        """See `ObjectStore.open`; the stream cannot seek."""
        return io.BufferedReader(_ChunkReader(self.chunks(key, 2**63)), CHUNK_SIZE)

    def put(self, key: str, data: bytes) -> None:
        """Refuse: plain HTTP is read only."""
        del data
        self._refuse(key)

    def put_chunks(self, key: str, chunks: Iterator[bytes]) -> None:
        """Refuse: plain HTTP is read only."""
        del chunks
        self._refuse(key)

    def put_many(self, items: Iterator[tuple[str, bytes]]) -> None:
        """Refuse: plain HTTP is read only."""
        for key, _ in items:
            self._refuse(key)

    def put_file(self, key: str, path: Path, *, move: bool = False) -> None:
        """Refuse: plain HTTP is read only."""
        del path, move
        self._refuse(key)

    def delete(self, key: str) -> None:
        """Refuse: plain HTTP is read only."""
        self._refuse(key)

    def keys(self) -> Iterator[str]:
        """Refuse: plain HTTP cannot list.

        Raises:
            UsageError: Always.
        """
        raise UsageError(f"{self._base}: a plain web server cannot list its objects")

    def local_path(self, key: str) -> Path | None:
        """See `ObjectStore.local_path`."""
        check_key(key)
        return None

    def _refuse(self, key: str) -> NoReturn:
        raise UsageError(
            f"{self._url(key)}: a plain web server can be read but not written",
            hint="push to a folder (file://) that the web server serves",
        )


class HttpReferenceStore:
    """References below a URL.

    Args:
        base: The URL that names are appended to; ends with a slash.
        client: How to ask.
    """

    def __init__(self, base: str, client: HttpClient) -> None:
        self._objects = HttpObjectStore(base, client)

    @property
    def url(self) -> str:
        """The base URL."""
        return self._objects.url

    def get(self, name: str) -> str | None:
        """See `ReferenceStore.get`."""
        try:
            data = self._objects.get(name, limits.MAX_REF_SIZE)
        except NotFoundError:
            return None
        return data.decode("utf-8", "replace").strip()

    def set(self, name: str, value: str, expected: str | None) -> None:
        """Refuse: plain HTTP is read only."""
        del expected
        self._objects.put(name, value.encode())

    def delete(self, name: str, expected: str) -> None:
        """Refuse: plain HTTP is read only."""
        del expected
        self._objects.delete(name)

    def names(self) -> tuple[str, ...]:
        """See `ReferenceStore.names`."""
        return ("head",) if self.get("head") is not None else ()


class _Transfer:
    """One object on its way, over as many requests as it takes.

    Objects never change under their name, so the parts of several answers fit together; if a
    server changes one all the same, the hash shows it.
    """

    def __init__(self, client: HttpClient, url: str, max_size: int) -> None:
        self._client = client
        self._url = url
        self._max_size = max_size
        self._started = client.timing.monotonic()
        self.received = 0

    def run(self) -> Iterator[bytes]:
        """Yield what is still missing."""
        with self._client.request("GET", self._url, self.received) as answer:
            if answer.status == 416 and self.received:  # noqa: PLR2004 - Range Not Satisfiable
                return  # all of it had arrived before the cut
            answer.raise_for_status()
            skip = 0 if answer.starts_at(self.received) else self.received
            if answer.length is not None and answer.length - skip > self._max_size - self.received:
                raise self._too_long()
            for piece in answer.pieces():
                skipped = min(skip, len(piece))
                skip -= skipped
                if rest := piece[skipped:]:
                    self.received += len(rest)
                    if self.received > self._max_size:
                        raise self._too_long()
                    yield rest
                self._check_speed()

    def _check_speed(self) -> None:
        timing = self._client.timing
        elapsed = timing.monotonic() - self._started
        if elapsed > timing.grace + self.received / timing.min_speed:
            raise TransportError(
                f"{self._url}: too slow: {self.received} bytes in {elapsed:.0f} s, wanted at "
                f"least {timing.min_speed} bytes a second"
            )

    def _too_long(self) -> OdfError:
        return IntegrityError(
            f"{self._url}: longer than the {self._max_size} bytes that were expected"
        )


class _ChunkReader(io.RawIOBase):
    """A stream over pieces."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def with_slash(url: str) -> str:
    """Return the URL with a slash at its end: names are appended to it."""
    return url if url.endswith("/") else url + "/"


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    default = {"http": 80, "https": 443}.get(url.scheme)
    try:
        return url.scheme, url.hostname, url.port or default
    except ValueError as error:
        raise TransportError(f"{url.geturl()}: not a URL: {error}") from error


def _check_redirect(origin: SplitResult, here: SplitResult, there: SplitResult) -> None:
    """Refuse redirects out of HTTP, out of encryption, or from outside into this network."""
    step = f"{here.geturl()}: redirects to {there.geturl()}"
    if there.scheme not in ("http", "https") or not there.hostname:
        raise TransportError(f"{step}: only http and https are followed")
    if here.scheme == "https" and there.scheme == "http":
        raise TransportError(f"{step}: an encrypted connection is not given up")
    if _origin(there) != _origin(origin) and _is_inside(there) and not _is_inside(origin):
        raise TransportError(f"{step}: an outside server may not point into this network")


def _is_inside(url: SplitResult) -> bool:
    """Tell whether a host is this machine or in a private network (all its addresses count)."""
    try:
        found = socket.getaddrinfo(url.hostname, None, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):  # a host that is unknown, or cannot be one
        return False  # the connection will fail by itself
    addresses = (ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found)
    return any(not address.is_global for address in addresses)

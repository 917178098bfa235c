"""One HTTP request, with its redirects (design §8).

Bounds: so many redirects, only to http and https, never further in than the last address (see
`zones`), no secrets to another origin. urllib3 is imported when the first request is made.
"""

from __future__ import annotations

import base64
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import IncompleteRead
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin

from odf import limits
from odf.errors import BadInputError, TransportError

from .proxies import proxy_for
from .templates import Masker
from .zones import Zone, zone_of_address, zone_of_host

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager
    from urllib3.connectionpool import HTTPConnectionPool
    from urllib3.util import Url

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAME_REQUEST = frozenset({307, 308})  # the others turn a POST request into a GET one
_PORTS = {"http": 80, "https": 443}
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization"})
_CHUNK = 1 << 20
_TAG = re.compile(r"<[^<>]*>")
_UNPRINTABLE = re.compile(r"[^ -~\u00a0-\uffff]")
_UNSEEMLY = re.compile(r"[\x00-\x20\x7f-\x9f]+")


class PassingFaultError(TransportError):
    """A fault that may be gone when the request is made again.

    Attributes:
        wait: Seconds that the server wants us to wait, if it says so.
    """

    wait: float | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a request.

    Attributes:
        name: Its name.
        value: Its value.
        secret: It must not go to another origin than the one it was meant for.
    """

    name: str
    value: str
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask for.

    Attributes:
        url: The URL, with everything that is secret in it.
        shown: The URL as messages may have it.
        headers: Headers to send.
        masker: Cleans what servers and the system say.
        proxies: Variables that name proxies.
        floor: The innermost zone that the first request may reach.
        body: What to send with it; None for a mere GET.
    """

    url: str
    shown: str
    headers: tuple[Header, ...]
    masker: Masker
    proxies: Mapping[str, str] = field(default_factory=dict)
    floor: Zone = Zone.LOOPBACK
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A response whose body is still to be read.

    Attributes:
        status: Its status code; not one of the redirects.
        headers: Its headers, names in lower case.
        shown: Where it came from, as messages may have it.
        warnings: What was odd on the way.
    """

    status: int
    headers: Mapping[str, str]
    shown: str
    warnings: tuple[str, ...]
    _response: BaseHTTPResponse
    _masker: Masker

    def chunks(self) -> Iterator[bytes]:
        """Read the body as it was sent, to its end.

        Raises:
            PassingFaultError: The connection broke, or fewer bytes came than were announced.
        """
        import urllib3  # noqa: PLC0415

        try:
            while chunk := self._response.read(_CHUNK, decode_content=False):
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as problem:
            # ValueError: the standard library on chunks of negative length.
            reason = _told(problem, self._masker)
            raise PassingFaultError(f"{self.shown}: the transfer broke off: {reason}") from None

    def excerpt(self) -> str:
        """Quote the beginning of a textual body on one line, for an error message."""
        kind = self.headers.get("content-type", "")
        if not kind.startswith("text/") and "json" not in kind:
            return ""
        try:
            text = next(self.chunks(), b"")[: 4 * limits.MAX_ERROR_EXCERPT].decode(errors="replace")
        except TransportError:
            return ""
        return _one_line(self._masker.clean(_TAG.sub(" ", text)))


@dataclass(frozen=True, slots=True)
class _Origin:
    scheme: str
    host: str
    port: int


@contextmanager
def get(request: Request) -> Iterator[Reply]:
    """Make a request, follow redirects, and hand out the response while it is open.

    It is a POST request if there is a body, and a GET request otherwise.

    Raises:
        BadInputError: The URL is none.
        PassingFaultError: The server could not be reached, this time.
        TransportError: It never will be: bad certificate, refused redirect, too many of them.
    """
    request = _with_credentials(request)
    url = _parse(request.url)
    if url is None:
        raise BadInputError(
            f"{request.shown}: this is no URL of a web server",
            reason="bad_url",
            hint="write it like https://example.org/data.csv",
        )
    warnings: list[str] = []
    shown, floor = request.shown, request.floor
    for _ in range(limits.MAX_REDIRECTS + 1):
        guard = _Guard(floor, shown)
        with _opened(request, url, guard, shown) as response:
            if response.status not in _REDIRECTS:
                headers = {name.lower(): value for name, value in response.headers.items()}
                yield Reply(
                    response.status, headers, shown, tuple(warnings), response, request.masker
                )
                return
            following = _following(response, url, request, shown)
        shown = request.masker.clean(str(following._replace(auth=None, query=None, fragment=None)))
        if _origin(following) != _origin(url):
            if url.scheme == "https" and following.scheme == "http":
                warnings.append(_downgrade(request, shown))
            request = replace(request, headers=tuple(h for h in request.headers if not h.secret))
        floor = guard.reached()
        url = following
    raise TransportError(
        f"{request.shown}: more than {limits.MAX_REDIRECTS} redirects",
        hint="put the final address into the manifest",
    )


def _downgrade(request: Request, shown: str) -> str:
    """Warn of a redirect out of encryption; with secrets it is refused."""
    if any(header.secret for header in request.headers):
        raise TransportError(
            f"{request.shown}: refused: it redirects to {shown}, which is not encrypted, and the "
            "request has secret headers",
            hint="ask the owner of the source for its address on https",
        )
    return f"{request.shown}: redirects to {shown}, which is not encrypted"


def shown_url(masked: str) -> str:
    """Drop user and password of a URL, for messages."""
    return re.sub(r"(?<=://)[^/?#]*@", "", masked)


@dataclass(slots=True)
class _Guard:
    """Looks at the other end of a connection before anything is sent over it."""

    floor: Zone
    shown: str
    zone: Zone | None = None

    def check_peer(self, address: str) -> None:
        self.check(zone_of_address(address))

    def check(self, zone: Zone) -> None:
        if zone < self.floor:
            raise TransportError(
                f"{self.shown}: refused: a redirect leads from {self.floor.words} to {zone.words}",
                hint="if that is meant, put the final address into the manifest",
            )
        self.zone = zone

    def reached(self) -> Zone:
        """Return the zone that was reached; without it no redirect is followed."""
        if self.zone is None:
            raise TransportError(f"{self.shown}: redirects, but its address is not known")
        return self.zone


@contextmanager
def _opened(request: Request, url: Url, guard: _Guard, shown: str) -> Iterator[BaseHTTPResponse]:
    """Send one request and close everything afterwards."""
    import urllib3  # noqa: PLC0415

    origin = _origin(url)
    proxy = proxy_for(origin.scheme, origin.host, origin.port, request.proxies)
    if proxy is not None or zone_of_host(origin.host) is Zone.LOOPBACK:
        guard.check(zone_of_host(origin.host))
    manager = _manager(proxy, guard, shown)
    try:
        response = manager.urlopen(
            "GET" if request.body is None else "POST",
            str(url),
            body=request.body,
            headers={header.name: header.value for header in request.headers},
            redirect=False,
            retries=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=limits.CONNECT_TIMEOUT, read=limits.READ_TIMEOUT),
        )
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as problem:
        message = f"{shown}: {_told(problem, request.masker)}"
        if isinstance(problem, urllib3.exceptions.SSLError):
            raise TransportError(message, hint="the certificate must be valid") from None
        raise PassingFaultError(message) from None
    else:
        try:
            yield response
        finally:
            response.close()
    finally:
        manager.clear()


def _manager(proxy: str | None, guard: _Guard, shown: str) -> PoolManager:
    """Make a pool manager whose connections show their other end to the guard."""
    import urllib3  # noqa: PLC0415

    if proxy is None:
        manager = urllib3.PoolManager()
        manager.pool_classes_by_scheme = _guarded_pools(guard)
        return manager
    parsed = _parse(proxy)
    if parsed is None:
        raise TransportError(
            f"{shown}: cannot use the proxy {shown_url(proxy)}",
            hint="a proxy is given like http://proxy.example.org:3128",
        )
    headers = None
    if parsed.auth:
        headers = urllib3.make_headers(proxy_basic_auth=unquote(parsed.auth))
    return urllib3.ProxyManager(str(parsed._replace(auth=None)), proxy_headers=headers)


def _guarded_pools(guard: _Guard) -> dict[str, type[HTTPConnectionPool]]:
    from urllib3.connection import HTTPConnection, HTTPSConnection  # noqa: PLC0415
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool  # noqa: PLC0415

    class GuardedConnection(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            _check(self, guard)

    class GuardedTlsConnection(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            _check(self, guard)

    class GuardedPool(HTTPConnectionPool):
        ConnectionCls = GuardedConnection

    class GuardedTlsPool(HTTPSConnectionPool):
        ConnectionCls = GuardedTlsConnection

    return {"http": GuardedPool, "https": GuardedTlsPool}


def _check(connection: object, guard: _Guard) -> None:
    """Check the address that a name turned out to have: only this one is not open to tricks."""
    sock: socket.socket | None = getattr(connection, "sock", None)
    if sock is not None:
        guard.check_peer(sock.getpeername()[0])


def _following(response: BaseHTTPResponse, url: Url, request: Request, shown: str) -> Url:
    """Find out where a redirect leads."""
    if request.body is not None and response.status not in _SAME_REQUEST:
        raise TransportError(
            f"{shown}: refused: a redirect ({response.status}) would drop what was asked",
            hint="put the final address into the manifest",
        )
    location = response.headers.get("location", "")
    with suppress(UnicodeError):
        # Headers are read as Latin-1, but servers write UTF-8.
        location = location.encode("latin-1").decode("utf-8")
    target = None
    with suppress(ValueError):
        target = _parse(urljoin(str(url), _UNSEEMLY.sub("", location))) if location else None
    if target is None:
        where = _one_line(request.masker.clean(location))
        raise TransportError(
            f"{shown}: refused: a redirect ({response.status}) leads to {where or 'nowhere'!r}, "
            "wanted http or https",
            hint="put the final address into the manifest",
        )
    return target._replace(auth=None, fragment=None)


def _parse(text: str) -> Url | None:
    """Parse a URL of a web server; None if it is not one."""
    from urllib3.exceptions import LocationParseError  # noqa: PLC0415
    from urllib3.util import parse_url  # noqa: PLC0415

    try:
        url = parse_url(text)
    except (LocationParseError, ValueError):
        return None
    return url if url.scheme in _PORTS and url.host else None


def _origin(url: Url) -> _Origin:
    scheme = url.scheme or ""
    return _Origin(scheme, (url.host or "").lower(), url.port or _PORTS[scheme])


def _with_credentials(request: Request) -> Request:
    """Mark headers with credentials as secret, and turn `user:password@` into such a header."""
    headers = tuple(
        replace(header, secret=header.secret or header.name.lower() in _CREDENTIALS)
        for header in request.headers
    )
    url = _parse(request.url)
    if url is not None and url.auth:
        pair = base64.b64encode(unquote(url.auth).encode()).decode()
        if not any(header.name.lower() == "authorization" for header in headers):
            headers = (*headers, Header("Authorization", f"Basic {pair}", secret=True))
    plain = request.url if url is None else str(url._replace(auth=None, fragment=None))
    return replace(request, url=plain, headers=headers)


def _told(problem: BaseException, masker: Masker) -> str:
    return _one_line(masker.clean(_reason(problem)))


def _one_line(text: str) -> str:
    """Make a text of a stranger fit to be shown: one line, no control characters, not long."""
    return " ".join(_UNPRINTABLE.sub(" ", text).split())[: limits.MAX_ERROR_EXCERPT]


def _reason(problem: BaseException) -> str:
    """Say in a few words what went wrong; the library's own texts have addresses of objects."""
    import urllib3.exceptions as kinds  # noqa: PLC0415

    match problem:
        case kinds.ProxyError():
            return f"the proxy failed: {_reason(problem.original_error)}"
        case kinds.NameResolutionError():
            return "the host name is not known"
        case kinds.IncompleteRead(partial=int(came), expected=int(missing)) if missing:
            return f"{came} of {came + missing} bytes came"
        case kinds.IncompleteRead():
            return "the end is missing"
        case kinds.NewConnectionError():
            return f"no connection: {_root(problem)}"
        case kinds.ConnectTimeoutError():
            return f"no connection within {limits.CONNECT_TIMEOUT:.0f} s"
        case kinds.ReadTimeoutError() | TimeoutError():
            return f"silence for {limits.READ_TIMEOUT:.0f} s"
        case kinds.SSLError():
            return f"TLS failed: {_root(problem)}"
        case kinds.ProtocolError(args=(_, BaseException() as inner)):
            return _reason(inner)
    return _root(problem)


def _root(problem: BaseException) -> str:
    """Return the system's words for the innermost cause."""
    while (inner := problem.__cause__ or problem.__context__) is not None:
        problem = inner
    if isinstance(problem, UnicodeError):
        return "the host name is none"  # a label of it is empty or too long
    if isinstance(problem, ValueError | IncompleteRead) and not isinstance(problem, OSError):
        return "the end is missing"  # a chunk whose length is none, or that is shorter
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror.lower() if problem.strerror[:1].isupper() else problem.strerror
    return str(problem) or type(problem).__name__

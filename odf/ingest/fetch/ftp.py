"""`ftp://` and `ftps://` sources (ingest.md §4).

The server is asked for size and modification time (`SIZE`, `MDTM`) where it knows them: an equal
time means that nothing is new, and both together let a broken transfer go on where it stopped. A
transfer whose size is not known ends like one that broke, so it is not taken for a snapshot.
"""

import contextlib
import ftplib
import hashlib
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NoReturn
from urllib.parse import unquote, urlsplit

from odf import limits
from odf.errors import AuthError, BadInputError, NotFoundError, TransportError
from odf.metadata.model import FetchStepUrl, SourceState, Timestamp

from .base import (
    FetchContext,
    Fetched,
    Unchanged,
    last_modified_state,
    modified_in,
    not_understood,
)
from .event_time import event_time
from .part_file import PartFile, Validators
from .proxies import proxy_for
from .retries import wait_out
from .templates import Expanded, Masker
from .transport import PassingFaultError, shown_url

_TIME: Final = re.compile(r"213 (\d{14})(?:\.(\d{1,9}))?\s*")
_CHUNK: Final = 1 << 20
_PROGRESS: Final = 16 * 1024 * 1024
_NO_FILE: Final = "550"
_ASK: Final = "try the URL with another program, or ask the owner of the server"
_PASSIVE: Final = (
    "transfers are passive: the server, and firewalls before it, have to take connections at ports "
    "that it names; where it only does active ones fetch the file by another program, and read it "
    "from a file:// URL"
)
_BYTES: Final = "latin-1"  # any byte can be read; names are given as the bytes of UTF-8


@dataclass(frozen=True, slots=True)
class _Job:
    """One fetch.

    Attributes:
        step: The fetch step.
        shown: The URL as messages may have it.
        host: The server.
        port: Its port.
        user: User name; empty for anybody.
        password: Password.
        folders: The folders on the way to the file.
        name: The file.
        secure: Over TLS.
        masker: Takes secrets out of what others say.
        state: The last source state, if it can be used.
        ctx: Where, when and with whose leave.
        warnings: What there is to tell.
    """

    step: FetchStepUrl
    shown: str
    host: str
    port: int
    user: str
    password: str
    folders: tuple[str, ...]
    name: str
    secure: bool
    masker: Masker
    state: SourceState | None
    ctx: FetchContext
    warnings: list[str]


def fetch_ftp(
    step: FetchStepUrl, url: Expanded, state: SourceState | None, ctx: FetchContext
) -> Fetched | Unchanged:
    """Download a file if it changed since the last state.

    Args:
        step: The fetch step.
        url: Its URL, expanded.
        state: The last source state.
        ctx: Where, when and with whose leave.

    Raises:
        NotFoundError: There is no such file.
        AuthError: The server does not accept the user.
        BadInputError: The URL names no file, or the file is larger than allowed.
        TransportError: The server cannot be reached, or the transfer failed.
    """
    job = _job(step, url, state, ctx)
    with PartFile(ctx.cache_dir, _key(job)) as part:
        for attempt in range(1, limits.MAX_FETCH_ATTEMPTS + 1):
            try:
                return _attempt(job, part)
            except PassingFaultError as fault:
                wait_out(fault, attempt, ctx)
    raise TransportError(f"{job.shown}: not fetched")  # `wait_out` raises the last fault


def _job(step: FetchStepUrl, url: Expanded, state: SourceState | None, ctx: FetchContext) -> _Job:
    shown = shown_url(url.masked)
    try:
        parts = urlsplit(url.text)
        port = parts.port or ftplib.FTP_PORT
    except ValueError:
        parts, port = urlsplit(""), 0
    path = parts.path.partition(";type=")[0].removeprefix("/")
    # Each segment is a step of its own: %2F at the beginning means the server's root.
    *folders, name = (unquote(segment) for segment in path.split("/"))
    texts = (*folders, name, unquote(parts.username or ""), unquote(parts.password or ""))
    if not parts.hostname or not name or any(c in text for text in texts for c in "\r\n\0"):
        raise BadInputError(
            f"{shown}: this URL names no file on a server",
            reason="bad_url",
            hint="write it like ftp://host/folder/file.csv",
        )
    if step.headers:
        refuse_headers(shown)
    _refuse_proxy(shown, parts.scheme.lower(), parts.hostname, port, ctx)
    warnings: list[str] = []
    if state is not None and modified_in(state) is None:
        warnings.append(not_understood(shown, state))
        state = None
    return _Job(
        step,
        shown,
        parts.hostname,
        port,
        texts[-2],
        texts[-1],
        tuple(folder for folder in folders if folder),
        name,
        parts.scheme.lower() == "ftps",
        Masker([*url.secrets, texts[-1]]),
        state,
        ctx,
        warnings,
    )


def refuse_headers(shown: str) -> NoReturn:
    """Refuse headers, which the protocol does not have.

    Raises:
        BadInputError: Always.
    """
    raise BadInputError(
        f"{shown}: ftp has no headers",
        reason="bad_header",
        hint="user and password go into the URL: ftp://user:password@host/file",
    )


def _refuse_proxy(shown: str, scheme: str, host: str, port: int, ctx: FetchContext) -> None:
    """Refuse to go around a proxy that somebody wants to be used.

    Proxies for ftp speak to it on behalf of others (by HTTP requests) or pass on connections to
    the ports of https only, and a transfer needs connections to ports that nobody knows before.
    """
    variables = {**ctx.environment, **ctx.proxies}
    proxy = proxy_for(scheme, host, port, variables) or proxy_for("ftp", host, port, variables)
    if proxy is not None:
        raise TransportError(
            f"{shown}: the proxy {shown_url(proxy)} is configured for it, and transfers by ftp "
            "through a proxy are not supported",
            hint=f"to connect directly put {host} into NO_PROXY; or fetch the file by another "
            "program, and read it from a file:// URL",
        )


def _attempt(job: _Job, part: PartFile) -> Fetched | Unchanged:
    with _connected(job) as ftp:
        found = Validators(None, _modified(ftp, job), _size(ftp, job))
        if found.length is not None and found.length > job.ctx.max_size:
            raise _too_large(job)
        modified = _time(found)
        if modified is not None and job.state is not None and modified == modified_in(job.state):
            part.restart(None)
            return Unchanged(f"{job.shown}: not modified since {modified}", tuple(job.warnings))
        known = part.validators
        if part.size and known is not None and known.precondition and known.agrees(found):
            job.ctx.report(f"{job.shown}: going on at {_mib(part.size)}")
        else:
            part.restart(found)
        _copy(ftp, job, part, found.length)
    return _fetched(job, part, found)


@contextlib.contextmanager
def _connected(job: _Job) -> Iterator[ftplib.FTP]:
    """Log in and go to the folder of the file; say what went wrong in our words."""
    ftp = ftplib.FTP(timeout=limits.CONNECT_TIMEOUT, encoding=_BYTES)  # noqa: S321 - the manifest asks for it
    if job.secure:
        context = ssl.create_default_context()
        ftp = ftplib.FTP_TLS(  # noqa: S321 - likewise
            context=context, timeout=limits.CONNECT_TIMEOUT, encoding=_BYTES
        )
    try:
        with _words(job):
            ftp.connect(job.host, job.port)
            if ftp.sock is not None:
                ftp.sock.settimeout(limits.READ_TIMEOUT)
            ftp.timeout = limits.READ_TIMEOUT
            _log_in(ftp, job)
            if isinstance(ftp, ftplib.FTP_TLS):
                ftp.prot_p()
            for folder in job.folders:
                ftp.cwd(_wire(folder))
            ftp.voidcmd("TYPE I")
            yield ftp
    finally:
        ftp.close()


def _log_in(ftp: ftplib.FTP, job: _Job) -> None:
    """Log in; over TLS that begins with encrypting the connection."""
    if isinstance(ftp, ftplib.FTP_TLS):
        ftp.auth()
    try:
        ftp.login(_wire(job.user), _wire(job.password))
    except ftplib.error_perm as problem:
        raise AuthError(
            _said(job, problem), hint="check user and password in the URL and their variables"
        ) from None


@contextlib.contextmanager
def _words(job: _Job) -> Iterator[None]:
    """Turn the errors of the library into ours."""
    try:
        yield
    except ftplib.error_temp as problem:
        raise PassingFaultError(_said(job, problem)) from None
    except ftplib.error_perm as problem:
        if str(problem).startswith(_NO_FILE):
            raise NotFoundError(
                _said(job, problem), hint="check the URL; is the source still published there?"
            ) from None
        raise TransportError(_said(job, problem), hint=_ASK) from None
    except ftplib.Error as problem:
        raise TransportError(_said(job, problem), hint=_ASK) from None
    except ssl.SSLError as problem:
        raise TransportError(
            f"{job.shown}: TLS failed: {problem.reason or problem}",
            hint="the certificate must be valid",
        ) from None
    except socket.gaierror:
        raise PassingFaultError(f"{job.shown}: the host name is not known") from None
    except TimeoutError:
        raise PassingFaultError(f"{job.shown}: the server is silent") from None
    except (OSError, EOFError) as problem:
        reason = getattr(problem, "strerror", None) or "the connection broke"
        raise PassingFaultError(f"{job.shown}: {reason.lower()}") from None


def _said(job: _Job, problem: ftplib.Error) -> str:
    said = str(problem).encode(_BYTES, "replace").decode(errors="replace")
    text = " ".join(job.masker.clean(said).split())
    printable = "".join(c for c in text if c.isprintable())
    return f"{job.shown}: the server answered {printable[: limits.MAX_ERROR_EXCERPT]}"


def _wire(text: str) -> str:
    return text.encode().decode(_BYTES)


def _size(ftp: ftplib.FTP, job: _Job) -> int | None:
    """Ask for the size; many servers do not tell."""
    with contextlib.suppress(ftplib.error_perm, ValueError):
        return ftp.size(_wire(job.name))
    return None


def _modified(ftp: ftplib.FTP, job: _Job) -> str | None:
    """Ask for the modification time, as the server writes it: in UTC, by the protocol."""
    with contextlib.suppress(ftplib.error_perm):
        answer = ftp.sendcmd(f"MDTM {_wire(job.name)}")
        return answer if _TIME.fullmatch(answer) else None
    return None


def _time(found: Validators) -> Timestamp | None:
    matched = _TIME.fullmatch(found.last_modified or "")
    if matched is None:
        return None
    try:
        moment = datetime.strptime(matched[1], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        milliseconds = int((matched[2] or "0").ljust(3, "0")[:3])
        return Timestamp.from_datetime(moment.replace(microsecond=milliseconds * 1000))
    except (ValueError, OverflowError, BadInputError):
        return None


def _copy(ftp: ftplib.FTP, job: _Job, part: PartFile, length: int | None) -> None:
    told = part.size
    if length is not None and part.size == length:
        return  # it broke behind the last byte
    with _opened(ftp, job, part.size) as data:
        while chunk := data.recv(_CHUNK):
            if part.size + len(chunk) > job.ctx.max_size:
                raise _too_large(job)
            part.write(chunk)
            if part.size - told >= _PROGRESS:
                told = part.size
                of = f" of {_mib(length)}" if length is not None else ""
                job.ctx.report(f"{job.shown}: {_mib(part.size)}{of}")
        if isinstance(data, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                data.unwrap()
    ftp.voidresp()
    if length is not None and part.size != length:
        fault = PassingFaultError(f"{job.shown}: {part.size} of {length} bytes came")
        if part.size > length:
            part.restart(None)
        raise fault


def _opened(ftp: ftplib.FTP, job: _Job, at: int) -> socket.socket:
    """Open the connection for the data, which the server waits for at a port that it names."""
    try:
        return ftp.ntransfercmd(f"RETR {_wire(job.name)}", at or None)[0]
    except ftplib.error_perm as problem:
        if str(problem).startswith(_NO_FILE):
            raise
        raise TransportError(_said(job, problem), hint=_PASSIVE) from None
    except ftplib.error_temp as problem:
        raise PassingFaultError(_said(job, problem), hint=_PASSIVE) from None
    except OSError as problem:
        reason = (problem.strerror or str(problem) or type(problem).__name__).lower()
        raise PassingFaultError(
            f"{job.shown}: no connection for the data: {reason}", hint=_PASSIVE
        ) from None


def _fetched(job: _Job, part: PartFile, found: Validators) -> Fetched:
    modified = _time(found)
    warnings = list(job.warnings)
    if modified is None and job.ctx.is_first:
        warnings.append(
            f"{job.shown}: the server gives no modification time, so every pull downloads it whole"
        )
    if found.length is None:
        warnings.append(
            f"{job.shown}: the server gives no size, so a broken connection could look like the "
            "end of the data"
        )
    time = event_time(
        job.step.event_time,
        paths=(job.name, "/".join((*job.folders, job.name))),
        shown=job.shown,
        modified=modified,
        ctx=job.ctx,
    )
    return Fetched(
        path=part.finish(),
        name=job.shown,
        owned=True,
        source_state=None if modified is None else last_modified_state(modified),
        event_time=time,
        has_more=False,
        size=part.size,
        warnings=tuple(warnings),
        complete=found.length is not None,
    )


def _too_large(job: _Job) -> BadInputError:
    return BadInputError(
        f"{job.shown}: larger than the {job.ctx.max_size} bytes that a download may have",
        reason="too_large",
        hint="fetch a part of it, or split it at the source",
    )


def _key(job: _Job) -> str:
    place: Sequence[str] = (job.host, str(job.port), job.user, *job.folders, job.name)
    return "ftp-" + hashlib.sha256("\0".join(place).encode()).hexdigest()[:32]


def _mib(size: int) -> str:
    return f"{size / (1024 * 1024):.1f} MiB"

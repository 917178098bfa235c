"""`http://` and `https://` sources (ingest.md §4).

What was seen last is asked for conditionally (ETag, or `Last-Modified` in the GMT form that
servers want); a passing fault is waited out; a body that broke off is taken up again where the
server vouches for its version. Compression in transit is not asked for: the bytes are data.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from odf import __version__, limits
from odf.errors import AuthError, BadInputError, NotFoundError, TransportError
from odf.metadata.model import FetchStepUrl, SourceState

from .base import (
    ETAG,
    FetchContext,
    Fetched,
    Unchanged,
    etag_state,
    last_modified_state,
    modified_in,
    not_understood,
)
from .event_time import event_time, format_http_date, parse_http_date
from .part_file import PartFile, Validators
from .retries import PASSING, passing, wait_out
from .templates import Expanded, Masker
from .transport import Header, PassingFaultError, Reply, Request, get, shown_url

_OK, _PARTIAL, _NOT_MODIFIED, _NOT_FOUND, _BAD_RANGE = 200, 206, 304, 404, 416
_FORBIDDEN = frozenset({401, 403})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_PROGRESS = 16 * 1024 * 1024
_FRAMING = "connection content-length expect host keep-alive te trailer transfer-encoding upgrade"
_CONDITIONS = "if-match if-modified-since if-none-match if-range if-unmodified-since range"
_OURS = frozenset([*_FRAMING.split(), *_CONDITIONS.split()])


@dataclass(slots=True)
class _Job:
    """One fetch: what is asked for, and what there is to tell."""

    step: FetchStepUrl
    url: Expanded
    shown: str
    request: Request
    state: SourceState | None
    ctx: FetchContext
    warnings: list[str]


def fetch_http(
    step: FetchStepUrl,
    url: Expanded,
    headers: Sequence[Expanded],
    state: SourceState | None,
    ctx: FetchContext,
) -> Fetched | Unchanged:
    """Download a source if it changed since the last state.

    Args:
        step: The fetch step.
        url: Its URL, expanded.
        headers: The values of its headers, expanded, in their order.
        state: The last source state.
        ctx: Where, when and with whose leave.

    Raises:
        NotFoundError: The server says that there is no such thing (404).
        AuthError: It wants credentials, or others (401, 403).
        BadInputError: URL or headers are not valid, or the body is larger than allowed.
        TransportError: The server cannot be reached, or what it does makes no sense.
    """
    job = _prepare(step, url, headers, state, ctx)
    with PartFile(ctx.cache_dir, _key(job.request)) as part:
        for attempt in range(1, limits.MAX_FETCH_ATTEMPTS + 1):
            try:
                return _attempt(job, part)
            except PassingFaultError as fault:
                wait_out(fault, attempt, ctx)
    raise TransportError(f"{job.shown}: not fetched")  # the last fault is raised by `wait_out`


def _prepare(
    step: FetchStepUrl,
    url: Expanded,
    headers: Sequence[Expanded],
    state: SourceState | None,
    ctx: FetchContext,
) -> _Job:
    secrets = [*url.secrets, *(secret for value in headers for secret in value.secrets)]
    shown = shown_url(url.masked)
    warnings: list[str] = []
    given = _headers(step, headers, shown)
    condition = _condition(state, shown, warnings)
    if not any(header.name.lower() == "user-agent" for header in given):
        given.append(Header("User-Agent", f"odf/{__version__}"))
    if condition is None:
        state = None
    else:
        given.append(condition)
    request = Request(
        url=url.text,
        shown=shown,
        headers=tuple(given),
        masker=Masker(secrets),
        proxies={**ctx.environment, **ctx.proxies},
    )
    return _Job(step, url, shown, request, state, ctx, warnings)


def _headers(step: FetchStepUrl, values: Sequence[Expanded], shown: str) -> list[Header]:
    """Check the headers of a manifest, which must not get past the framing of the request."""
    headers = []
    for declared, value in zip(step.headers or (), values, strict=True):
        check_header_name(declared.name, shown)
        if not _VALUE.fullmatch(value.text):
            raise BadInputError(
                f"{shown}: the value of the header {declared.name} has characters that a header "
                "cannot have",
                reason="bad_header",
                hint="a line feed at the end of a variable is a usual cause",
            )
        headers.append(Header(declared.name, value.text, secret="${{" in declared.value))
    return headers


def check_header_name(name: str, shown: str) -> None:
    """Refuse a header that a manifest cannot set.

    Raises:
        BadInputError: It is none, or belongs to the transfer itself.
    """
    if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
        raise BadInputError(
            f"{shown}: the header {name!r} cannot be set by a manifest",
            reason="bad_header",
            hint="leave it out: it belongs to the transfer itself",
        )


def _condition(state: SourceState | None, shown: str, warnings: list[str]) -> Header | None:
    """Turn a source state into a condition; one that is not understood is as good as none."""
    if state is None:
        return None
    if state.kind == ETAG and state.value and _VALUE.fullmatch(state.value):
        return Header("If-None-Match", state.value)
    if (modified := modified_in(state)) is not None:
        return Header("If-Modified-Since", format_http_date(modified))
    warnings.append(not_understood(shown, state))
    return None


def _attempt(job: _Job, part: PartFile) -> Fetched | Unchanged:
    """Ask once."""
    request, resuming = job.request, False
    if part.size and part.validators is not None and part.validators.precondition is not None:
        resuming = True
        request = Request(
            request.url,
            request.shown,
            (
                *request.headers,
                Header("Range", f"bytes={part.size}-"),
                Header("If-Range", part.validators.precondition),
            ),
            request.masker,
            request.proxies,
        )
    with get(request) as reply:
        match reply.status:
            case 200:
                return _take_whole(job, part, reply)
            case 206 if resuming:
                return _take_rest(job, part, reply)
            case 304 if job.state is not None:
                part.restart(None)
                return Unchanged(
                    f"{job.shown}: not modified since {job.state.value}", tuple(job.warnings)
                )
            case 416 if resuming:
                part.restart(None)
                raise _at_once(f"{job.shown}: the server cannot go on at {part.size} bytes")
            case _:
                raise _refusal(job, reply)


def _take_whole(job: _Job, part: PartFile, reply: Reply) -> Fetched | Unchanged:
    found = _validators(job, reply, _length(reply.headers.get("content-length")))
    if job.state is not None and _is_same(job.state, found):
        # A server that does not know conditional requests, or does not want to.
        part.restart(None)
        return Unchanged(f"{job.shown}: still {job.state.value}", tuple(job.warnings))
    _check_size(job, found.length)
    part.restart(found)
    _copy(job, part, reply)
    return _fetched(job, part, reply)


def _take_rest(job: _Job, part: PartFile, reply: Reply) -> Fetched:
    """Append the rest of a body, if the server means the same one."""
    spans = _CONTENT_RANGE.fullmatch(reply.headers.get("content-range", ""))
    total = _length(spans[3]) if spans else None
    known = part.validators
    found = _validators(job, reply, total)
    if spans is None or int(spans[1]) != part.size or known is None or not known.agrees(found):
        part.restart(None)
        raise _at_once(f"{job.shown}: the server went on with something else")
    _check_size(job, total)
    job.ctx.report(f"{job.shown}: going on at {_mib(part.size)}")
    _copy(job, part, reply)
    if total is not None and part.size != total:
        raise _at_once(f"{job.shown}: {part.size} of {total} bytes came")
    return _fetched(job, part, reply)


def _copy(job: _Job, part: PartFile, reply: Reply) -> None:
    job.ctx.changed()
    shown_at = part.size
    total = part.validators.length if part.validators else None
    for chunk in reply.chunks():
        _check_size(job, part.size + len(chunk))
        part.write(chunk)
        if part.size - shown_at >= _PROGRESS:
            shown_at = part.size
            of = f" of {_mib(total)}" if total is not None else ""
            job.ctx.report(f"{job.shown}: {_mib(part.size)}{of}")


def _fetched(job: _Job, part: PartFile, reply: Reply) -> Fetched:
    validators = part.validators or Validators(None, None, None)
    modified = parse_http_date(validators.last_modified)
    state = etag_state(validators.etag) if validators.etag else None
    if state is None and modified is not None:
        state = last_modified_state(modified)
    complete = validators.length is not None or "transfer-encoding" in reply.headers
    warnings = [*job.warnings, *reply.warnings, *_oddities(job, reply, state, complete=complete)]
    time = event_time(
        job.step.event_time,
        paths=(unquote(urlsplit(job.url.text).path),),
        shown=job.shown,
        modified=modified,
        ctx=job.ctx,
    )
    return Fetched(
        path=part.finish(),
        name=job.shown,
        owned=True,
        source_state=state,
        event_time=time,
        has_more=False,
        size=part.size,
        warnings=tuple(warnings),
        complete=complete,
    )


def _oddities(job: _Job, reply: Reply, state: SourceState | None, *, complete: bool) -> list[str]:
    warnings = []
    if state is None and job.ctx.is_first:
        warnings.append(
            f"{job.shown}: the server gives neither ETag nor Last-Modified, so every pull "
            "downloads it whole"
        )
    if not complete:
        warnings.append(
            f"{job.shown}: the server gives no length, so a broken connection would look like "
            "the end of the data"
        )
    coding = reply.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        warnings.append(
            f"{job.shown}: the server sent content-encoding {coding[:20]!r}, which was not asked "
            "for; the bytes are kept as sent: add a prepare step that decompresses them"
        )
    return warnings


def _validators(job: _Job, reply: Reply, length: int | None) -> Validators:
    etag = reply.headers.get("etag", "").strip() or None
    if etag is not None and (len(etag) > limits.MAX_VALIDATOR_SIZE or not _VALUE.fullmatch(etag)):
        job.warnings.append(f"{job.shown}: the ETag of {len(etag)} characters is not used")
        etag = None
    modified = reply.headers.get("last-modified")
    if parse_http_date(modified) is None:
        modified = None
    if "transfer-encoding" in reply.headers:
        length = None if reply.status == _OK else length
    return Validators(etag, modified, length)


def _is_same(state: SourceState, found: Validators) -> bool:
    if state.kind == ETAG:
        return found.etag is not None and found.etag == state.value
    modified = parse_http_date(found.last_modified)
    return modified is not None and modified == modified_in(state)


def _refusal(job: _Job, reply: Reply) -> Exception:
    """Turn a status that brings no data into an error."""
    said = reply.excerpt()
    message = f"{reply.shown}: the server answered {reply.status}" + (f": {said}" if said else "")
    if reply.status == _NOT_FOUND:
        return NotFoundError(message, hint="check the URL; is the source still published there?")
    if reply.status in _FORBIDDEN:
        return AuthError(message, hint="check the headers of the fetch step and their variables")
    details = {"status": reply.status}
    if reply.status in PASSING:
        return passing(reply, message, job.ctx)
    return TransportError(
        message, hint="open the URL in a browser, or ask its owner", details=details
    )


def _at_once(message: str) -> PassingFaultError:
    """Make a fault after which there is nothing to wait for."""
    fault = PassingFaultError(message)
    fault.wait = 0.0
    return fault


def _check_size(job: _Job, size: int | None) -> None:
    if size is not None and size > job.ctx.max_size:
        raise BadInputError(
            f"{job.shown}: larger than the {job.ctx.max_size} bytes that a download may have",
            reason="too_large",
            hint="fetch a part of it, or split it at the source",
        )


def _length(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None  # noqa: PLR2004


def _key(request: Request) -> str:
    """Name a download after everything that decides what comes."""
    asked = [request.url, *(f"{h.name}:{h.value}" for h in request.headers if h.secret)]
    return "url-" + hashlib.sha256("\0".join(asked).encode()).hexdigest()[:32]


def _mib(size: int) -> str:
    return f"{size / (1024 * 1024):.1f} MiB"

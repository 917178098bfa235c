"""The event time of rows that have none of their own (ingest.md §4, `eventTime`).

* nothing, or `fromMetadata`: when the source says it was modified last, for files the time in
  the file system, for HTTP the `Last-Modified` header, whether or not there is an ETag;
* `fromSystemTime`: the time of this iteration;
* `fromPath`: group 1 of a regular expression that is searched in the name.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

from odf.errors import BadInputError
from odf.metadata.model import (
    EventTimeSource,
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    Timestamp,
)

from .base import FetchContext
from .time_format import DEFAULT_FORMAT, compile_time, parse_time

_NANOS_PER_MILLI = 1_000_000


def event_time(
    source: EventTimeSource | None,
    *,
    paths: Sequence[str],
    shown: str,
    modified: Timestamp | None,
    ctx: FetchContext,
) -> Timestamp | None:
    """Find the event time of fetched data.

    Args:
        source: Where the manifest wants it from.
        paths: What `fromPath` is searched in; the first text that the pattern fits counts.
        shown: Name of the source for messages.
        modified: When the source was modified last, if it says so.
        ctx: Gives the system time.

    Returns:
        The time, or None if the source has no modification time: then the system time is taken.

    Raises:
        BadInputError: The path does not give a time.
    """
    match source:
        case EventTimeSourceFromSystemTime():
            return ctx.system_time
        case EventTimeSourceFromPath(pattern=pattern, timestamp_format=pattern_of_time):
            text = _first_group(pattern, paths, shown)
            try:
                return parse_time(text, pattern_of_time or DEFAULT_FORMAT)
            except BadInputError as problem:
                raise BadInputError(
                    f"eventTime of {shown}: {problem.message}",
                    reason=problem.reason,
                    hint=problem.hint,
                ) from None
        case _:
            return modified


def _first_group(pattern: str, paths: Sequence[str], shown: str) -> str:
    """Search a regular expression and return its group 1.

    The pattern comes with a manifest, so it may come from a stranger: it is run by Arrow's RE2,
    which takes linear time whatever the pattern is, and has the syntax that the live peers use.
    """
    import pyarrow as pa  # noqa: PLC0415 - only sources with `fromPath` pay for it
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        for path in paths:
            text = pa.array([path])
            if not pc.match_substring_regex(text, pattern=pattern)[0].as_py():
                continue
            whole = rf"^(?s:.*?)(?:{pattern})(?s:.*)$"
            group = pc.replace_substring_regex(text, pattern=whole, replacement=r"\1")[0].as_py()
            if group:
                return str(group)
            raise BadInputError(
                f"eventTime of {shown}: group 1 of the pattern {pattern!r} is empty there",
                reason="event_time",
                hint="check the pattern: group 1 has to hold the time",
            )
    except pa.ArrowInvalid as problem:
        raise _bad_pattern(pattern, problem) from None
    raise BadInputError(
        f"eventTime of {shown}: the pattern {pattern!r} fits nothing in it",
        reason="event_time",
        hint="check the pattern: it is searched in the path, and group 1 is the time",
    )


def check_event_time(source: EventTimeSource | None) -> None:
    """Look for what no path could give a time with.

    Raises:
        BadInputError: The pattern or the format of `fromPath` is none.
    """
    if not isinstance(source, EventTimeSourceFromPath):
        return
    import pyarrow as pa  # noqa: PLC0415 - only sources with `fromPath` pay for it
    import pyarrow.compute as pc  # noqa: PLC0415

    try:
        compile_time(source.timestamp_format or DEFAULT_FORMAT)
    except BadInputError as problem:
        raise BadInputError(
            f"eventTime: {problem.message}", reason=problem.reason, hint=problem.hint
        ) from None
    try:
        pc.replace_substring_regex(pa.array([""]), pattern=source.pattern, replacement=r"\1")
    except pa.ArrowInvalid as problem:
        raise _bad_pattern(source.pattern, problem) from None


def _bad_pattern(pattern: str, problem: Exception) -> BadInputError:
    without_group = "parenthesized" in str(problem)
    return BadInputError(
        f"eventTime: the pattern {pattern!r} "
        + ("has no group in parentheses" if without_group else f"is not valid: {problem}"),
        reason="event_time_pattern",
        hint="group 1 holds the time, for example ([0-9]{4}-[0-9]{2}-[0-9]{2}); "
        "look-around and back-references are not available",
    )


def file_time(mtime_ns: int) -> Timestamp:
    """Round a modification time to milliseconds, as source states have it (ingest.md §4)."""
    return Timestamp.from_epoch_ms((mtime_ns + _NANOS_PER_MILLI // 2) // _NANOS_PER_MILLI)


def parse_http_date(text: str | None) -> Timestamp | None:
    """Read a date of an HTTP header; None if it is missing or is no date."""
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return Timestamp.from_datetime(moment)
    except (ValueError, TypeError, OverflowError, BadInputError):
        return None


def format_http_date(time: Timestamp) -> str:
    """Write a date for an HTTP header: whole seconds, and GMT as the protocol wants it."""
    return format_datetime(time.to_datetime().replace(microsecond=0), usegmt=True)


def seconds_until(text: str, now: datetime) -> float | None:
    """Read `Retry-After`: a number of seconds, or a date."""
    if text.strip().isascii() and text.strip().isdigit():
        return float(text.strip()[:9])
    time = parse_http_date(text)
    return None if time is None else max(0.0, (time.to_datetime() - now).total_seconds())

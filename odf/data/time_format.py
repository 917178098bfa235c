"""Times in texts: patterns of Java's SimpleDateFormat and of strftime.

The specification asks for the Java form, the manifests in the wild have strftime (ingest.md §4):
a pattern with a `%` is strftime. Both become one regular expression over the fields below. Fields
that are left out are the first of their kind (January, the 1st, midnight), except the year, which
must be there; a time without a zone is UTC. Two-digit years are 1969 to 2068, as POSIX has it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from odf.errors import BadInputError
from odf.metadata.model import Timestamp

DEFAULT_FORMAT = "%Y-%m-%d"
"""What the reference takes where a manifest gives no format."""

_MONTHS = "january february march april may june july august september october november december"
_MONTH_NUMBERS = {
    form: number
    for number, name in enumerate(_MONTHS.split(), start=1)
    for form in (name, name[:3])
}
_MONTH = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_DAY = "|".join([*_DAYS.split(), *(name[:3] for name in _DAYS.split())])
_OFFSET = r"Z|[+-]\d\d(?::?\d\d)?"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOS = 1_000_000_000
_POSIX_PIVOT = 69
_NOON = 12
_HOURS = 24


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a pattern: a regular expression, and the field that its match gives, if any."""

    regex: str
    field: str | None = None


_YEARS = frozenset({"year", "short_year", "epoch"})


def compile_time(pattern: str) -> Callable[[str], Timestamp]:
    """Return how texts of one form are read; the result raises `BadInputError` as `parse_time`.

    Args:
        pattern: A SimpleDateFormat pattern, or a strftime one if it has a `%`.

    Raises:
        BadInputError: The pattern is not understood.
    """
    pieces = tuple(_strftime(pattern) if "%" in pattern else _java(pattern))
    regex = "".join(f"({piece.regex})" if piece.field else piece.regex for piece in pieces)
    compiled = re.compile(regex, re.IGNORECASE | re.ASCII)
    names = tuple(piece.field for piece in pieces if piece.field)
    if not _YEARS.intersection(names):
        raise _bad_pattern(
            pattern,
            "it has no year",
            "add yyyy or %Y; texts without a year can be read as STRING and converted in the "
            "preprocess query",
        )
    return lambda text: _read(text, pattern, compiled, names)


def parse_time(text: str, pattern: str) -> Timestamp:
    """Read a time.

    Args:
        text: The text, all of which must fit.
        pattern: A SimpleDateFormat pattern, or a strftime one if it has a `%`.

    Raises:
        BadInputError: The pattern is not understood, or the text does not fit it.
    """
    return compile_time(pattern)(text)


def _read(text: str, pattern: str, compiled: re.Pattern[str], names: tuple[str, ...]) -> Timestamp:
    match = compiled.fullmatch(text)
    if match is None:
        raise BadInputError(
            f"{text!r} does not fit the timestamp format {pattern!r}", reason="event_time"
        )
    fields = dict(zip(names, match.groups(), strict=True))
    try:
        return _assemble({name: value for name, value in fields.items() if value})
    except (ValueError, OverflowError) as problem:
        raise BadInputError(
            f"{text!r} is no time of the format {pattern!r}: {problem}", reason="event_time"
        ) from None


def _assemble(fields: dict[str, str]) -> Timestamp:
    """Put the fields together; `ValueError` if they make no time."""
    nanos = int(fields.get("fraction", "0").ljust(9, "0"))
    if "epoch" in fields:
        return Timestamp(int(fields["epoch"]) * _NANOS + nanos)
    day = datetime(_year(fields), _month(fields), int(fields.get("day", "1")), tzinfo=UTC)
    if "yday" in fields:
        # Counted from the first of January, and held against the year that was asked for.
        day = datetime(day.year, 1, 1, tzinfo=UTC) + timedelta(days=int(fields["yday"]) - 1)
        if day.year != _year(fields):
            raise ValueError("no such day in the year")
    moment = day.replace(
        hour=_hour(fields),
        minute=int(fields.get("minute", "0")),
        second=int(fields.get("second", "0")),
    )
    since = moment - _EPOCH - _offset(fields.get("offset", "Z"))
    return Timestamp((since.days * 86_400 + since.seconds) * _NANOS + nanos)


def _year(fields: dict[str, str]) -> int:
    if "year" in fields:
        return int(fields["year"])
    if "short_year" in fields:
        short = int(fields["short_year"])
        return short + (1900 if short >= _POSIX_PIVOT else 2000)
    raise ValueError("it has no year")


def _month(fields: dict[str, str]) -> int:
    if "month_name" in fields:
        return _MONTH_NUMBERS[fields["month_name"].lower()]
    return int(fields.get("month", "1"))


def _hour(fields: dict[str, str]) -> int:
    if "hour" in fields:
        return int(fields["hour"])
    if "hour_to_24" in fields:
        return int(fields["hour_to_24"]) % _HOURS
    half = int(fields.get("half_hour", "0"))
    if half > _NOON:
        raise ValueError("an hour of half a day goes up to 12")
    return half % _NOON + (_NOON if fields.get("half", "am").lower() == "pm" else 0)


def _offset(text: str) -> timedelta:
    if text.upper() in {"Z", "UTC", "GMT"}:
        return timedelta()
    digits = text[1:].replace(":", "")
    size = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or "0"))
    return -size if text[0] == "-" else size


# --- SimpleDateFormat -------------------------------------------------------------------------

_JAVA_NUMBERS = {
    "d": "day",
    "D": "yday",
    "H": "hour",
    "k": "hour_to_24",
    "K": "half_hour",
    "h": "half_hour",
    "m": "minute",
    "s": "second",
    "S": "fraction",
}
_JAVA_WIDTHS = {"D": 3, "S": 9}
_JAVA_HINTS = {"Y": "Y is the year of a week; use yyyy", "L": "use MM"}
_JAVA_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z'])", re.DOTALL)
_TEXT_FROM = 3  # letters from which a month is written as a name


def _java(pattern: str) -> Iterator[_Piece]:
    tokens = list(_JAVA_TOKEN.finditer(pattern))
    if sum(len(token[0]) for token in tokens) != len(pattern):
        raise _bad_pattern(pattern, "a quote is not closed")
    for token, following in zip(tokens, [*tokens[1:], None], strict=False):
        if token[2] is None:
            quoted = token[1]
            literal = token[3] if quoted is None else quoted.replace("''", "'") or "'"
            yield _Piece(re.escape(literal))
        else:
            adjacent = following is not None and _is_java_number(following)
            yield _java_field(pattern, token[2], len(token[0]), adjacent=adjacent)


def _is_java_number(token: re.Match[str]) -> bool:
    letter = token[2]
    if letter == "M":
        return len(token[0]) < _TEXT_FROM
    return letter is not None and (letter in "yu" or letter in _JAVA_NUMBERS)


def _java_field(pattern: str, letter: str, count: int, *, adjacent: bool) -> _Piece:
    """Translate one run of a letter; a number right before another has just as many digits."""
    if letter in "yu":
        return _Piece(r"\d\d", "short_year") if count == 2 else _Piece(r"\d{4}", "year")  # noqa: PLR2004
    if letter == "M":
        if count >= _TEXT_FROM:
            return _Piece(_MONTH, "month_name")
        return _Piece(rf"\d{{{count}}}" if adjacent else r"\d{1,2}", "month")
    if letter in _JAVA_NUMBERS:
        width = f"{{{count}}}" if adjacent else f"{{1,{_JAVA_WIDTHS.get(letter, 2)}}}"
        return _Piece(rf"\d{width}", _JAVA_NUMBERS[letter])
    match letter:
        case "a":
            return _Piece("am|pm", "half")
        case "E":
            return _Piece(f"(?:{_DAY})")
        case "X" | "Z" | "x":
            return _Piece(_OFFSET, "offset")
        case "z":
            return _Piece(f"UTC|GMT|{_OFFSET}", "offset")
    raise _bad_pattern(pattern, f"the letter {letter} is not known", _JAVA_HINTS.get(letter))


# --- strftime ---------------------------------------------------------------------------------

_STRFTIME_ALIASES = {"F": "%Y-%m-%d", "T": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y"}
_STRFTIME = {
    "Y": _Piece(r"\d{4}", "year"),
    "y": _Piece(r"\d\d", "short_year"),
    "m": _Piece(r"\d{1,2}", "month"),
    "b": _Piece(_MONTH, "month_name"),
    "B": _Piece(_MONTH, "month_name"),
    "h": _Piece(_MONTH, "month_name"),
    "d": _Piece(r"\d{1,2}", "day"),
    "e": _Piece(r" ?\d{1,2}", "day"),
    "j": _Piece(r"\d{1,3}", "yday"),
    "H": _Piece(r"\d{1,2}", "hour"),
    "k": _Piece(r" ?\d{1,2}", "hour"),
    "I": _Piece(r"\d{1,2}", "half_hour"),
    "l": _Piece(r" ?\d{1,2}", "half_hour"),
    "M": _Piece(r"\d{1,2}", "minute"),
    "S": _Piece(r"\d{1,2}", "second"),
    "f": _Piece(r"\d{1,9}", "fraction"),
    "3f": _Piece(r"\d{3}", "fraction"),
    "6f": _Piece(r"\d{6}", "fraction"),
    "9f": _Piece(r"\d{9}", "fraction"),
    "p": _Piece("am|pm", "half"),
    "P": _Piece("am|pm", "half"),
    "a": _Piece(f"(?:{_DAY})"),
    "A": _Piece(f"(?:{_DAY})"),
    "z": _Piece(_OFFSET, "offset"),
    ":z": _Piece(_OFFSET, "offset"),
    "Z": _Piece("UTC|GMT|Z", "offset"),
    "s": _Piece(r"-?\d{1,11}", "epoch"),
    "%": _Piece("%"),
    "n": _Piece(r"\s+"),
    "t": _Piece(r"\s+"),
}
_STRFTIME_TOKEN = re.compile(r"%[-_0]?(:z|\.?[369]?f|[A-Za-z%])|([^%])", re.DOTALL)


def _strftime(pattern: str) -> Iterator[_Piece]:
    tokens = list(_STRFTIME_TOKEN.finditer(pattern))
    if sum(len(token[0]) for token in tokens) != len(pattern):
        raise _bad_pattern(pattern, "a % is not followed by a letter")
    for token in tokens:
        directive, literal = token[1], token[2]
        if literal is not None:
            yield _Piece(re.escape(literal))
        elif directive in _STRFTIME_ALIASES:
            yield from _strftime(_STRFTIME_ALIASES[directive])
        elif directive.startswith("."):
            yield _Piece(r"\.")
            yield _STRFTIME[directive[1:]]
        elif directive in _STRFTIME:
            yield _STRFTIME[directive]
        else:
            raise _bad_pattern(pattern, f"%{directive} is not known")


def _bad_pattern(pattern: str, why: str, hint: str | None = None) -> BadInputError:
    return BadInputError(
        f"cannot read the timestamp format {pattern!r}: {why}",
        reason="timestamp_format",
        hint=hint or "write it like yyyy-MM-dd or %Y-%m-%d",
    )

"""What a text means in a typed field: the rules of the pinned Spark's CSV reader, text by text.

These functions are the reference for the quick conversions in `convert`, which must agree with
them, and a differential test asks Spark itself. They raise `ValueError` for a text that is not a
value of the type. Where this project deliberately takes less than Spark (design §7):

* blanks beside a number are refused (Spark's `DOUBLE` and `FLOAT` would cut them off);
* a timestamp that is only a time of day is refused: Spark would add today's date;
* named time zones (`Europe/Rome`) are refused: what they mean depends on the machine's tables.
"""

import math
import re
import struct
from collections.abc import Callable
from datetime import date
from typing import Final

_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?0*\d{1,10}))?")
_FLOAT: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEX_FLOAT: Final = re.compile(
    r"([+-]?)(0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_SPECIAL_FLOATS: Final = {
    "NaN": math.nan,
    "+NaN": math.nan,
    "-NaN": math.nan,
    "Inf": math.inf,
    "-Inf": -math.inf,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "-Infinity": -math.inf,
}
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

# What Spark trims from dates and times: blanks and control characters of ASCII.
_TRIMMED: Final = "".join(map(chr, range(0x21))) + "\x7f"
_DATE: Final = re.compile(
    r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL
)
_TIMESTAMP: Final = re.compile(
    r"([+-]?)([0-9]{4,6})"
    r"(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?)?"
    r")?)?",
    re.DOTALL,
)
_ONE_DIGIT_HOUR: Final = re.compile(r"([+-])([0-9]):")
_ONE_DIGIT_MINUTE: Final = re.compile(r"([+-])([0-9][0-9]):([0-9])$")
_OFFSET: Final = re.compile(
    r"([+-])(?:([0-9])|([0-9]{2})(?::?([0-9]{2}))?|([0-9]{2})([0-9]{2})([0-9]{2})"
    r"|([0-9]{2}):([0-9]{2}):([0-9]{2}))"
)
_TIME: Final = re.compile(r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{1,6}))?)?")

_BMP_END: Final = 0xFFFF
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1
_MICROS_PER_SECOND: Final = 1_000_000
_SECONDS_PER_DAY: Final = 86_400
_MAX_OFFSET: Final = 18 * 3600
_MAX_EXPONENT: Final = 1_000
_DAYS_PER_400_YEARS: Final = 146_097
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_FRACTION_DIGITS: Final = 6
_LARGEST_SINGLE: Final = float.fromhex("0x1.fffffep127")
_SINGLE_OVERFLOW: Final = 2**128 - 2**103

Parse = Callable[[str], object]


def integer(low: int, high: int) -> Callable[[str], int]:
    """Return the rule of an integer type with these bounds.

    Signs, leading zeros and the decimal digits of any script count, as in Java's `parseInt`.
    """

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text) or not _in_basic_plane(text):
            raise ValueError(text)
        value = int(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return parse


def double(text: str) -> float:
    """Parse a `DOUBLE` as Java does: `1e3`, `.5`, `1.5d`, `0x1p3`, `NaN`, `Inf`, `Infinity`."""
    special = _SPECIAL_FLOATS.get(text)
    if special is not None:
        return special
    if found := _FLOAT.fullmatch(text):
        return float(found[1])
    if found := _HEX_FLOAT.fullmatch(text):
        try:
            value = float.fromhex(found[2])
        except OverflowError:
            value = math.inf
        return -value if found[1] == "-" else value
    raise ValueError(text)


def single(text: str) -> float:
    """Parse a `FLOAT`: the texts of a `DOUBLE`, rounded once to 32 bits."""
    value = double(text)
    if math.isnan(value) or math.isinf(value) or value == 0:
        return value
    return _round_to_single(text, value)


def decimal(precision: int, scale: int) -> Callable[[str], int]:
    """Return the rule of `DECIMAL(precision, scale)`; the result is the unscaled number.

    Commas are dropped wherever they stand, more digits than the scale are rounded half away from
    zero, and a number with more digits than the precision is refused.
    """
    limit = 10**precision

    def parse(text: str) -> int:
        found = _DECIMAL.fullmatch(text.replace(",", ""))
        if not found or not (found[2] or found[3]) or not _in_basic_plane(text):
            raise ValueError(text)
        digits = int(found[2] + (found[3] or ""))
        exponent = int(found[4] or 0) - len(found[3] or "")
        if not _INT32_MIN <= -exponent <= _INT32_MAX:
            raise ValueError(text)
        unscaled = _shift(digits, exponent + scale, text)
        if unscaled >= limit:
            raise ValueError(text)
        return -unscaled if found[1] == "-" else unscaled

    return parse


def boolean(text: str) -> bool:
    """Parse a `BOOLEAN`: `true` or `false` in any case."""
    # Java compares letters by their upper case, to which a long s (U+017F) belongs too.
    word = text.upper()
    if word not in ("TRUE", "FALSE") or len(word) != len(text):
        raise ValueError(text)
    return word == "TRUE"


def days(text: str) -> int:
    """Parse a `DATE` into days since 1970: `2024-01-02`, `2024-1-2`, `2024-1`, `2024`.

    What follows a complete date after a blank or `T` is ignored.
    """
    found = _DATE.fullmatch(text.strip(_TRIMMED))
    if not found:
        raise ValueError(text)
    value = _days_of(found[1], found[2], found[3], found[4])
    if not _INT32_MIN <= value <= _INT32_MAX:
        raise ValueError(text)
    return value


def micros(text: str) -> int:
    """Parse a `TIMESTAMP` into microseconds since 1970 UTC; without an offset it is UTC.

    Digits after the sixth of a fraction are cut off.
    """
    found = _TIMESTAMP.fullmatch(text.strip(_TRIMMED))
    if not found:
        raise ValueError(text)
    day = _days_of(found[1], found[2], found[3], found[4])
    hour, minute, second = (int(found[n] or 0) for n in (5, 6, 7))
    in_day = _time_of_day(hour, minute, second, text)
    fraction = int((found[8] or "")[:_FRACTION_DIGITS].ljust(_FRACTION_DIGITS, "0"))
    offset = _offset(found[9].strip(_TRIMMED[:-1])) if found[9] else 0
    value = (day * _SECONDS_PER_DAY + in_day - offset) * _MICROS_PER_SECOND + fraction
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise ValueError(text)
    return value


def time_of_day(text: str) -> int:
    """Parse a `TIME` into microseconds since midnight: `03:04`, `3:4:5`, `03:04:05.123456`.

    Spark's reader has no such type; this is the grammar of the time in its timestamps.
    """
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(text)
    seconds = _time_of_day(int(found[1]), int(found[2]), int(found[3] or 0), text)
    fraction = int((found[4] or "").ljust(_FRACTION_DIGITS, "0"))
    return seconds * _MICROS_PER_SECOND + fraction


def uuid(text: str) -> bytes:
    """Parse a `UUID` in its canonical form of 36 characters."""
    if not _UUID.fullmatch(text):
        raise ValueError(text)
    return bytes.fromhex(text.replace("-", ""))


def _in_basic_plane(text: str) -> bool:
    """Tell whether every character is one Java `char`; Java reads digits char by char."""
    return all(ord(character) <= _BMP_END for character in text)


def _shift(digits: int, places: int, text: str) -> int:
    """Return `digits` times ten to the power of `places`, rounded half up."""
    if digits == 0:
        return 0
    if places >= 0:
        if places > _MAX_EXPONENT:
            raise ValueError(text)
        shifted: int = digits * 10**places
        return shifted
    if -places > len(str(digits)) + 1:
        return 0
    divisor: int = 10**-places
    quotient, rest = divmod(digits, divisor)
    return quotient + (1 if 2 * rest >= divisor else 0)


def _round_to_single(text: str, value: float) -> float:
    """Round the number in `text` to 32 bits; `value` is the same, rounded to 64 bits before.

    Rounding twice errs only if the first rounding fell exactly between two 32-bit numbers. Then
    the exact number decides.
    """
    from fractions import Fraction  # noqa: PLC0415  # rare

    found = _FLOAT.fullmatch(text)
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        exact = Fraction(found[1]) if found else Fraction(value)
        return math.copysign(_LARGEST_SINGLE if abs(exact) < _SINGLE_OVERFLOW else math.inf, value)
    if found is None or rounded == value:
        return rounded
    exact = Fraction(found[1])
    neighbours = {rounded, _next_single(rounded, 1), _next_single(rounded, -1)}
    return min(
        (n for n in neighbours if not math.isinf(n)),
        key=lambda n: (abs(Fraction(n) - exact), struct.unpack("<I", struct.pack("<f", n))[0] & 1),
    )


def _next_single(value: float, step: int) -> float:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    sign, magnitude = bits & 0x8000_0000, bits & 0x7FFF_FFFF
    moved = max(magnitude + step, 0)
    result: float = struct.unpack("<f", struct.pack("<I", sign | moved))[0]
    return result


def _days_of(sign: str, year: str, month: str | None, day: str | None) -> int:
    """Return the days since 1970 of a date of the proleptic Gregorian calendar, of any year."""
    number = -int(year) if sign == "-" else int(year)
    # Python's calendar ends at the year 9999; it repeats every 400 years.
    cycles, within = divmod(number, 400)
    ordinal = date(within + 400, int(month or 1), int(day or 1)).toordinal()
    return ordinal - _EPOCH_ORDINAL + (cycles - 1) * _DAYS_PER_400_YEARS


def _time_of_day(hour: int, minute: int, second: int, text: str) -> int:
    hours, sixty = 24, 60
    if hour >= hours or minute >= sixty or second >= sixty:
        raise ValueError(text)
    return hour * 3600 + minute * 60 + second


def _offset(zone: str) -> int:
    """Return the seconds east of UTC that a zone without a name stands for."""
    zone = _ONE_DIGIT_HOUR.sub(r"\g<1>0\2:", zone, count=1)
    zone = _ONE_DIGIT_MINUTE.sub(r"\1\2:0\3", zone, count=1)
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    for prefix in ("UTC", "GMT", "UT"):
        if zone.startswith(prefix):
            zone = zone[len(prefix) :]
            break
    found = _OFFSET.fullmatch(zone)
    if not found:
        raise ValueError(zone)
    hours = int(found[2] or found[3] or found[5] or found[8])
    minutes = int(found[4] or found[6] or found[9] or 0)
    seconds = int(found[7] or found[10] or 0)
    sixty = 60
    total = hours * 3600 + minutes * 60 + seconds
    if minutes >= sixty or seconds >= sixty or total > _MAX_OFFSET:
        raise ValueError(zone)
    return -total if found[1] == "-" else total

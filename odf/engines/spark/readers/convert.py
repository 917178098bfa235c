"""Columns of texts into typed columns: quick where a cheap look shows only plain forms.

Arrow's own casts are fast but take other texts than Spark's reader does (` 1`, `0x10`, `nan`,
`1` for true; spark-speed.md §A). So a cast is used only for columns whose bytes all belong to an
alphabet in which both agree, and whose texts Arrow then takes without complaint. Everything else
is converted one distinct text at a time by `texts`, which decides.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.spark.readers import texts
from odf.engines.spark.readers.time_formats import DEFAULT_FORMATS, TimeFormats

_INTEGER_BYTES: Final = b"0123456789-"
_FLOAT_BYTES: Final = b"0123456789-.eE+"
_DECIMAL_BYTES: Final = b"0123456789-."
_BOOLEAN_BYTES: Final = b"truefalsTRUEFALS"
_DATE_BYTES: Final = b"0123456789-"
_TIMESTAMP_BYTES: Final = b"0123456789-: T."
_ZONED_BYTES: Final = b"0123456789-: T.Z+"
_ZONED_PATTERN: Final = (
    r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"
)
_DATE_LENGTH: Final = len("2024-01-02")
_SECONDS_LENGTH: Final = len("2024-01-02T03:04:05")
_MICROS_LENGTH: Final = len("2024-01-02T03:04:05.123456")

_INTEGER_BOUNDS: Final = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.uint8(): (0, 2**8 - 1),
    pa.uint16(): (0, 2**16 - 1),
    pa.uint32(): (0, 2**32 - 1),
    pa.uint64(): (0, 2**64 - 1),
}


@dataclass(frozen=True, slots=True)
class Converted:
    """A typed column and what could not be converted.

    Attributes:
        values: The values; null where the text was null or bad.
        bad: Positions of the bad texts, ascending.
    """

    values: pa.Array
    bad: tuple[int, ...] = ()


Converter = Callable[[pa.Array], Converted]
"""Turns an array of texts into one of values."""


def converter(target: pa.DataType, times: TimeFormats = DEFAULT_FORMATS) -> Converter | None:
    """Return how texts become values of a type, or None if CSV cannot hold that type.

    Args:
        target: The type as read: timestamps in microseconds, UTC.
        times: How dates and timestamps are written.
    """
    if pa.types.is_string(target):
        return Converted
    if pa.types.is_integer(target):
        low, high = _INTEGER_BOUNDS[target]
        parse: texts.Parse = texts.integer(low, high)
        return partial(_convert, target, partial(_cast, target, _INTEGER_BYTES), parse)
    if pa.types.is_decimal(target):
        parse = _decimal_parser(target)
        return partial(_convert, target, partial(_cast_decimals, target), parse)
    simple: dict[pa.DataType, tuple[Callable[[pa.Array], pa.Array | None], texts.Parse]] = {
        pa.float32(): (partial(_cast, pa.float32(), _FLOAT_BYTES), texts.single),
        pa.float64(): (partial(_cast, pa.float64(), _FLOAT_BYTES), texts.double),
        pa.bool_(): (partial(_cast, pa.bool_(), _BOOLEAN_BYTES), texts.boolean),
        pa.date32(): (_never if times.date else _cast_dates, times.days()),
        pa.timestamp("us", "UTC"): (
            _never if times.timestamp else _cast_timestamps,
            times.micros(),
        ),
        pa.time64("us"): (_never, texts.time_of_day),
        pa.binary(16): (_never, texts.uuid),
    }
    found = simple.get(target)
    return partial(_convert, target, *found) if found else None


def convert_slowly(target: pa.DataType, column: pa.Array, parse: texts.Parse) -> Converted:
    """Convert each distinct text by its rule."""
    encoded = column.dictionary_encode()
    values: list[object] = []
    bad_codes: list[int] = []
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            values.append(parse(text))
        except ValueError:
            values.append(None)
            bad_codes.append(code)
    result = _array_of(values, target).take(encoded.indices)
    if not bad_codes:
        return Converted(result)
    is_bad = pc.is_in(encoded.indices, value_set=pa.array(bad_codes, encoded.indices.type))
    return Converted(result, tuple(pc.indices_nonzero(is_bad).to_pylist()))


def only_bytes(column: pa.Array, alphabet: bytes) -> bool:
    """Tell whether the texts of a column consist of these bytes only. Nulls do not matter."""
    _, offsets, data = column.buffers()
    if data is None or len(column) == 0:
        return True
    ends = memoryview(offsets).cast("i")
    start, end = ends[column.offset], ends[column.offset + len(column)]
    return not data[start:end].to_pybytes().translate(None, alphabet)


def _convert(
    target: pa.DataType,
    quickly: Callable[[pa.Array], pa.Array | None],
    parse: texts.Parse,
    column: pa.Array,
) -> Converted:
    result = quickly(column)
    return convert_slowly(target, column, parse) if result is None else Converted(result)


def _never(_column: pa.Array) -> None:
    return None


def _cast(target: pa.DataType, alphabet: bytes | None, column: pa.Array) -> pa.Array | None:
    if alphabet is not None and not only_bytes(column, alphabet):
        return None
    try:
        return column.cast(target)
    except pa.ArrowInvalid:
        return None


def _cast_decimals(target: pa.DataType, column: pa.Array) -> pa.Array | None:
    # Arrow lets texts of more digits than a decimal can hold wrap around in silence.
    longest = pc.max(pc.binary_length(column)).as_py()
    if longest is not None and longest > target.precision:
        return None
    return _cast(target, _DECIMAL_BYTES, column)


def _cast_dates(column: pa.Array) -> pa.Array | None:
    if not only_bytes(column, _DATE_BYTES) or not _lengths_within(column, {_DATE_LENGTH}):
        return None
    return _cast(pa.date32(), None, column)


def _cast_timestamps(column: pa.Array) -> pa.Array | None:
    utc = pa.timestamp("us", "UTC")
    plain = {_DATE_LENGTH, *range(_SECONDS_LENGTH, _MICROS_LENGTH + 1)}
    if _is_utc(column):
        return _cast(utc, None, column)
    if only_bytes(column, _TIMESTAMP_BYTES):
        if not _lengths_within(column, plain):
            return None
        naive = _cast(pa.timestamp("us"), None, column)
        return None if naive is None else naive.cast(utc)
    if not only_bytes(column, _ZONED_BYTES):
        return None
    if pc.all(pc.match_substring_regex(column, _ZONED_PATTERN)).as_py() is False:
        return None
    return _cast(utc, None, column)


def _is_utc(column: pa.Array) -> bool:
    """Tell whether all end with `Z` and are as long as with seconds and up to six more digits.

    Arrow then takes just what the pattern matches, whatever other bytes there are, in a tenth of
    the time of matching it.
    """
    with_fraction = range(_SECONDS_LENGTH + len(".1Z"), _MICROS_LENGTH + len("Z") + 1)
    allowed = {_SECONDS_LENGTH + len("Z"), *with_fraction}
    if not _lengths_within(column, allowed):
        return False
    return pc.all(pc.ends_with(column, "Z")).as_py() is not False


def _lengths_within(column: pa.Array, allowed: set[int]) -> bool:
    lengths = pc.binary_length(column)
    bounds = pc.min_max(lengths)
    shortest, longest = bounds["min"].as_py(), bounds["max"].as_py()
    if shortest is None or allowed.issuperset(range(shortest, longest + 1)):
        return True
    found = pc.unique(lengths).to_pylist()
    return all(length in allowed for length in found if length is not None)


def _decimal_parser(target: pa.DataType) -> texts.Parse:
    from decimal import Context, Decimal  # noqa: PLC0415  # only where a decimal is not plain

    parse = texts.decimal(target.precision, target.scale)
    exact = Context(prec=target.precision + target.scale + 1)
    return lambda text: Decimal(parse(text)).scaleb(-target.scale, exact)


def _array_of(values: list[object], target: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(target) or pa.types.is_time64(target):
        return pa.array(values, pa.int64()).cast(target)
    if pa.types.is_date32(target):
        return pa.array(values, pa.int32()).cast(target)
    return pa.array(values, target)

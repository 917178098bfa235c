"""Column types between DDL, Arrow and Spark, and what becomes of them in a slice (design §7).

The table itself is in `datatypes`, the grammar in `ddl`, the bridge to the chain's record of the
columns in `arrow_fields`; all are re-exported here, as this is the module that others import. Owns
also the one conversion that changes values: every timestamp of a slice has milliseconds and the
zone UTC, finer digits are cut towards the past.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.data.arrow_fields import arrow_schema_to_fields, fields_to_arrow_schema
from odf.data.datatypes import (
    BY_KIND,
    BY_NAME,
    TYPE_TABLE,
    Column,
    DataType,
    Kind,
    describe,
    describe_column,
    to_spark,
)
from odf.data.ddl import DdlError, parse_ddl
from odf.errors import BadInputError
from odf.limits import MAX_TYPE_DEPTH

__all__ = [
    "BY_KIND",
    "BY_NAME",
    "TIMESTAMP_MS_UTC",
    "TYPE_TABLE",
    "Column",
    "DataType",
    "DdlError",
    "Kind",
    "arrow_name",
    "arrow_schema",
    "arrow_schema_to_fields",
    "conform",
    "describe",
    "describe_column",
    "fields_to_arrow_schema",
    "from_arrow",
    "loses_digits",
    "parse_ddl",
    "slice_type",
    "to_arrow",
    "to_spark",
]

TIMESTAMP_MS_UTC: Final = pa.timestamp("ms", "UTC")
"""The type of every timestamp in a slice."""

_UNITS: Final = ("s", "ms", "us", "ns")
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_PER_MILLI: Final = {"us": 1_000, "ns": 1_000_000}
_UUID_BYTES: Final = 16
_DECIMAL_BITS: Final = 128


def to_arrow(dtype: DataType) -> pa.DataType:
    """Return the Arrow type of a declared type; timestamps keep their declared unit and zone.

    A UUID is 16 bytes that Parquet marks as such (`pa.uuid()`), a TIME counts microseconds.
    """
    match dtype.kind:
        case Kind.DECIMAL:
            return pa.decimal128(dtype.precision, dtype.scale)
        case Kind.TIMESTAMP:
            return pa.timestamp(_UNITS[dtype.precision // 3], dtype.timezone)
        case Kind.TIME:
            return pa.time64("us")
        case Kind.UUID:
            return pa.uuid()
        case Kind.FIXED_BINARY:
            return pa.binary(dtype.length)
        case Kind.ARRAY:
            return pa.list_(_arrow_field(dtype.element))
        case Kind.STRUCT:
            return pa.struct([_arrow_field(field) for field in dtype.fields])
        case kind:
            return pa.type_for_alias(BY_KIND[kind].arrow)


def _arrow_field(column: Column) -> pa.Field:
    return pa.field(column.name, to_arrow(column.type), column.nullable)


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the Arrow schema of declared columns."""
    return pa.schema([_arrow_field(column) for column in columns])


_FROM_ARROW: Final = {
    pa.type_for_alias(row.arrow): DataType(row.kind) for row in TYPE_TABLE if row.arrow
} | {
    pa.large_string(): DataType(Kind.STRING),
    pa.string_view(): DataType(Kind.STRING),
    pa.large_binary(): DataType(Kind.BINARY),
    pa.binary_view(): DataType(Kind.BINARY),
    pa.date64(): DataType(Kind.DATE),
    pa.uuid(): DataType(Kind.UUID),
}


def from_arrow(dtype: pa.DataType) -> DataType:
    """Return the declared type that an Arrow type corresponds to.

    Large, view and dictionary forms are the same declared type as the plain one.

    Raises:
        BadInputError: No declared type holds such values, for example durations or maps.
    """
    return _from_arrow(dtype, 0)


def _from_arrow(dtype: pa.DataType, depth: int) -> DataType:
    t = pa.types
    if depth > MAX_TYPE_DEPTH:
        raise BadInputError(f"a type is nested deeper than {MAX_TYPE_DEPTH} levels")
    if known := _FROM_ARROW.get(dtype):
        return known
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return _from_arrow(dtype.value_type, depth + 1)
    if t.is_decimal(dtype) and dtype.bit_width <= _DECIMAL_BITS:
        return DataType(Kind.DECIMAL, precision=dtype.precision, scale=dtype.scale)
    if t.is_timestamp(dtype):
        return DataType(Kind.TIMESTAMP, precision=_DIGITS[dtype.unit], timezone=dtype.tz)
    if t.is_time(dtype):
        return DataType(Kind.TIME, precision=_DIGITS["us"])
    if t.is_fixed_size_binary(dtype):
        return DataType(Kind.FIXED_BINARY, length=dtype.byte_width)
    if t.is_list(dtype) or t.is_large_list(dtype) or t.is_fixed_size_list(dtype):
        return DataType(Kind.ARRAY, fields=(_from_field(dtype.value_field, depth + 1),))
    if t.is_struct(dtype):
        return DataType(Kind.STRUCT, fields=tuple(_from_field(f, depth + 1) for f in dtype))
    raise BadInputError(
        f"no column type holds values of the Arrow type {dtype}", reason="unsupported_type"
    )


def _from_field(field: pa.Field, depth: int) -> Column:
    return Column(field.name, _from_arrow(field.type, depth), field.nullable)


def arrow_name(dtype: pa.DataType) -> str:
    """Return how messages write an Arrow type: `timestamp[ms, tz=UTC]`, `date32`, `uuid`."""
    if isinstance(dtype, pa.UuidType):
        return "uuid"
    plain = {pa.date32(): "date32", pa.date64(): "date64", pa.float32(): "float32"}
    return plain.get(dtype) or ("float64" if dtype == pa.float64() else str(dtype))


def slice_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type in which a slice stores values of an Arrow type (design §7).

    All timestamps, nested ones too, have milliseconds and UTC; a TIME has microseconds; text,
    bytes and lists have their plain forms. Parquet 1.0 as Arrow writes it has no 32-bit unsigned
    integers, so these get 64 bits. Other types stay as they are.
    """
    t = pa.types
    if t.is_uint32(dtype):
        return pa.int64()
    if t.is_timestamp(dtype):
        return TIMESTAMP_MS_UTC
    if t.is_time(dtype):
        return pa.time64("us")
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return slice_type(dtype.value_type)
    if t.is_large_string(dtype) or t.is_string_view(dtype):
        return pa.string()
    if t.is_large_binary(dtype) or t.is_binary_view(dtype):
        return pa.binary()
    if t.is_struct(dtype):
        return pa.struct([_slice_field(field) for field in dtype])
    if t.is_list(dtype) or t.is_large_list(dtype) or t.is_fixed_size_list(dtype):
        # The name that Parquet has for it, whatever a reader or an engine calls it.
        return pa.list_(_slice_field(dtype.value_field).with_name("element"))
    return dtype


def _slice_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, slice_type(field.type), field.nullable)


def loses_digits(array: pa.Array | pa.ChunkedArray) -> bool:
    """Tell whether timestamps have digits finer than milliseconds, which a slice cuts."""
    if not pa.types.is_timestamp(array.type) or array.type.unit not in _PER_MILLI:
        return False
    ticks = array.cast(pa.int64())
    # A plain number costs more here than the work itself: Arrow looks for NumPy each time.
    step = pa.scalar(_PER_MILLI[array.type.unit], pa.int64())
    whole = pc.multiply(pc.divide(ticks, step), step)
    return bool(pc.any(pc.not_equal(ticks, whole)).as_py())


def conform(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return a column in the type that a slice has for it, by the rules of design §7.

    Timestamps become milliseconds UTC, finer digits cut towards the past, those without zone taken
    as UTC. Every other change of type must keep each value exactly.

    Args:
        array: The column.
        target: A type that `slice_type` can return.

    Raises:
        BadInputError: A value does not fit into the target type.
    """
    if array.type == target:
        return array
    try:
        return _conform(array, target)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise BadInputError(
            f"values of type {arrow_name(array.type)} do not fit {arrow_name(target)}: {error}",
            reason="schema",
        ) from error


def _conform(array: pa.Array, target: pa.DataType) -> pa.Array:
    t = pa.types
    if array.type == target:
        return array
    if t.is_timestamp(array.type) and t.is_timestamp(target):
        return _to_millis(array).cast(target)
    if t.is_struct(array.type) and t.is_struct(target):
        if array.type.names != target.names:
            raise ValueError(f"fields {array.type.names}, wanted {target.names}")
        children = [_conform(array.field(i), f.type) for i, f in enumerate(target)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if t.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if t.is_list(target) and (t.is_list(array.type) or t.is_large_list(array.type)):
        return _conform_list(array, target)
    return array.cast(target)


def _conform_list(array: pa.Array, target: pa.DataType) -> pa.Array:
    offsets = array.offsets
    first = offsets[0].as_py() if len(offsets) else 0
    last = offsets[-1].as_py() if len(offsets) else 0
    values = _conform(array.values.slice(first, last - first), target.value_type)
    offsets = pc.subtract(offsets, first).cast(pa.int32())
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)


def _to_millis(array: pa.Array) -> pa.Array:
    """Return timestamps as milliseconds without zone; zones never change the instant."""
    unit = array.type.unit
    ticks = array.cast(pa.int64())
    if unit in _PER_MILLI:
        step = pa.scalar(_PER_MILLI[unit], pa.int64())
        millis = pc.divide(ticks, step)  # towards zero, so one too late before 1970
        late = pc.less(ticks, pc.multiply(millis, step)).cast(pa.int64())
        ticks = pc.subtract(millis, late)
    elif unit == "s":
        ticks = pc.multiply_checked(ticks, 1_000)
    return ticks.cast(pa.timestamp("ms"))

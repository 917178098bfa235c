"""Structures whose parts are never null, on their way out of Spark.

Where such a structure is itself null, Spark hands over nulls for its parts. Arrow and Parquet take
that for a contradiction, so something else has to stand there; nobody ever looks at it.
"""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def to_arrow_table(frame: "DataFrame") -> pa.Table:
    """Compute a frame and return it as a table of its exact types."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    if not any(has_required_parts(field.dataType) for field in frame.schema):
        return frame.toArrow()
    wanted: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
    loose = frame.to(_optional(frame.schema)).toArrow()
    batches = [sound_batch(batch, wanted) for batch in loose.to_batches()]
    return pa.Table.from_batches(batches, wanted)


def has_required_parts(dtype: "DataType") -> bool:
    """Tell whether a type has structures with parts that are never null.

    Files forget that about a type: Spark reads them with all parts nullable.
    """
    from pyspark.sql.types import ArrayType, StructType  # noqa: PLC0415

    if isinstance(dtype, ArrayType):
        return has_required_parts(dtype.elementType)
    if isinstance(dtype, StructType):
        return any(not part.nullable or has_required_parts(part.dataType) for part in dtype)
    return False


def _optional(dtype: Any) -> Any:
    """Return a type with all its parts nullable."""
    from pyspark.sql.types import ArrayType, StructField, StructType  # noqa: PLC0415

    if isinstance(dtype, ArrayType):
        return ArrayType(_optional(dtype.elementType), containsNull=True)
    if isinstance(dtype, StructType):
        return StructType(
            [StructField(part.name, _optional(part.dataType), nullable=True) for part in dtype]
        )
    return dtype


def sound(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return an array whose required parts are all there, also below structures that are null.

    Args:
        array: The values.
        wanted: Their type; theirs may differ in what may be null.
    """
    if not _requires(wanted):
        return array if array.type == wanted else array.cast(wanted)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(wanted):
        parts = [_part(array.field(number), field) for number, field in enumerate(wanted)]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=mask)
    first = array.offsets[0].as_py() if len(array) else 0
    last = array.offsets[-1].as_py() if len(array) else 0
    values = sound(array.values.slice(first, last - first), wanted.value_type)
    offsets = pc.subtract(array.offsets, first)
    return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=mask)


def sound_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in a schema that differs from its own only in what may be null."""
    arrays = [sound(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _requires(dtype: pa.DataType) -> bool:
    """Tell the same of a type of Arrow as `has_required_parts` does of one of Spark."""
    if pa.types.is_list(dtype):
        return _requires(dtype.value_type)
    if pa.types.is_struct(dtype):
        return any(not part.nullable or _requires(part.type) for part in dtype)
    return False


def _part(array: pa.Array, field: pa.Field) -> pa.Array:
    found = sound(array, field.type)
    if field.nullable or not found.null_count:
        return found
    filler = pa.array([_nothing(field.type)], field.type)
    rows = pa.arange(0, len(found))
    places = pc.if_else(found.is_null(), pa.scalar(len(found), pa.int64()), rows)
    return pa.concat_arrays([found, filler]).take(places)


def _nothing(dtype: pa.DataType) -> Any:
    """Return some value of a type, as Python has it."""
    t = pa.types
    if t.is_struct(dtype):
        return {field.name: _nothing(field.type) for field in dtype}
    if t.is_list(dtype):
        return []
    if t.is_string(dtype):
        return ""
    if t.is_binary(dtype):
        return b""
    # Arrow takes it for the zero of numbers, dates and times alike.
    return False if t.is_boolean(dtype) else 0

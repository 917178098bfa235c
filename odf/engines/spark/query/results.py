"""Frames in order, and the columns that results have when they are stored."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from odf.data.slices import check_type
from odf.data.types import slice_type
from odf.engines.host.engine import HIDDEN_BRANCH, HIDDEN_OFFSET
from odf.errors import BadInputError, InvalidQueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField

_ONE_PARTITION: Final = {
    # One split for each file, so that its rows stay in order.
    "spark.sql.files.maxPartitionBytes": str(1 << 60),
    "spark.sql.files.minPartitionNum": "1",
}


def in_order(frames: Sequence["DataFrame"]) -> "DataFrame":
    """Return the rows of frames one after the other, each frame in partitions of its own."""
    result = frames[0]
    for other in frames[1:]:
        result = result.unionAll(other)
    return result


def keep_order(spark: "SparkSession") -> None:
    """Have the session read each file in one partition."""
    for name, value in _ONE_PARTITION.items():
        spark.conf.set(name, value)


def sorted_by_all_columns(frame: "DataFrame") -> "DataFrame":
    """Return a frame in the one order that its values alone decide: column by column."""
    from pyspark.sql import functions  # noqa: PLC0415

    columns = [frame[position] for position in range(len(frame.columns))]
    return frame.sort(*[functions.asc_nulls_first(column) for column in columns])


def result_schema(frame: "DataFrame") -> pa.Schema:
    """Return the Arrow schema of a frame without computing anything.

    Raises:
        InvalidQueryError: A column has a type that a slice cannot hold.
    """
    return pa.schema([pa.field(field.name, _arrow_type(field)) for field in frame.schema])


def _arrow_type(field: "StructField") -> pa.DataType:
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415

    name = field.dataType.simpleString()
    problem: Exception | None = None
    try:
        found: pa.DataType = to_arrow_type(field.dataType, timezone="UTC")
        check_type(pa.field(field.name, slice_type(found)))
    except (PySparkException, BadInputError, ValueError) as error:
        problem = error
    if problem is not None or _holds_variant(field.dataType):
        raise InvalidQueryError(
            f"the column `{field.name}` of the result has the type {name.upper()}, which a slice "
            "cannot hold",
            hint="give it another type, for example with CAST or to_json",
        ) from problem
    return found


def _holds_variant(dtype: "DataType") -> bool:
    """Tell of a type that Arrow holds as two binaries, which say nothing to other readers."""
    from pyspark.sql.types import ArrayType, StructType, VariantType  # noqa: PLC0415

    if isinstance(dtype, ArrayType):
        return _holds_variant(dtype.elementType)
    if isinstance(dtype, StructType):
        return any(_holds_variant(field.dataType) for field in dtype)
    return isinstance(dtype, VariantType)


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a result as they are stored."""
    return pa.schema([pa.field(field.name, stored_type(field)) for field in schema])


def stored_type(field: pa.Field) -> pa.DataType:
    """Return the type with which a column is stored; hidden ones stay as they are."""
    return field.type if field.name in (HIDDEN_BRANCH, HIDDEN_OFFSET) else slice_type(field.type)

"""Frames in order, and the columns that results have when they are stored."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from odf.data.types import slice_type
from odf.engines.host.engine import HIDDEN_BRANCH, HIDDEN_OFFSET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    """Return the Arrow schema of a frame without computing anything."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
    return pa.schema([field.with_nullable(True) for field in schema])


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a result as they are stored."""
    return pa.schema([pa.field(field.name, stored_type(field)) for field in schema])


def stored_type(field: pa.Field) -> pa.DataType:
    """Return the type with which a column is stored; hidden ones stay as they are."""
    return field.type if field.name in (HIDDEN_BRANCH, HIDDEN_OFFSET) else slice_type(field.type)

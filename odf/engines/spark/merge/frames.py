"""New rows and history as Spark frames whose columns have numbers instead of names.

The names of users may be anything; `c0`, `c1`, … of `MergeLayout.columns` need no quoting and
clash with nothing. `c0` is the event time.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.types import from_arrow, to_spark
from odf.engines.spark.merge.layout import MergeColumn, MergeLayout, NewRows
from odf.engines.spark.parts import ROW_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW: Final = "r"
"""Name of the hidden row column in the frame of new rows."""

OFFSET: Final = "o"
"""Name of the offset in the frame of the history."""

OP: Final = "op"
"""Name of the operation in the frame of the history and in merged frames."""


def quoted(name: str) -> str:
    """Return a name as Spark SQL quotes it."""
    return "`" + name.replace("`", "``") + "`"


def names_of(layout: MergeLayout) -> list[str]:
    """Return the names of the layout's columns in the frames."""
    return [f"c{position}" for position in range(len(layout.columns))]


def spark_schema(schema: pa.Schema) -> str:
    """Return the DDL with which Spark reads files of a schema."""
    return ", ".join(f"{quoted(field.name)} {spark_type(field.type)}" for field in schema)


def spark_type(dtype: pa.DataType) -> str:
    """Return the Spark SQL type that holds values of an Arrow type."""
    if pa.types.is_timestamp(dtype) and dtype.tz is None:
        # Slices of others may lack the zone; without one it is UTC.
        return "TIMESTAMP_NTZ"
    return to_spark(from_arrow(dtype))


def read_parquet(spark: "SparkSession", paths: Sequence[str], schema: pa.Schema) -> "DataFrame":
    """Read files of one schema; without files it is an empty frame.

    Args:
        spark: The session.
        paths: The files. Their names are taken literally.
        schema: Their columns. Spark does not look for itself: that would be a job of its own.
    """
    if not paths:
        columns = ", ".join(
            f"CAST(NULL AS {spark_type(field.type)}) AS {quoted(field.name)}" for field in schema
        )
        return spark.sql(f"SELECT {columns} WHERE false")
    reader = spark.read.schema(spark_schema(schema)).option("__globPaths__", "false")
    return reader.parquet(*paths)


def new_frame(spark: "SparkSession", new: NewRows, layout: MergeLayout) -> "DataFrame":
    """Return the new rows: `c0`, `c1`, … with timestamps cut to milliseconds, and `r`.

    With them comes `op`, if they have it.
    """
    schema = new.parts.schema.append(pa.field(ROW_COLUMN, pa.int64()))
    frame = read_parquet(spark, new.parts.paths, schema)
    expressions = [
        f"{_new_value(column)} AS c{position}" for position, column in enumerate(layout.columns)
    ]
    if layout.has_op:
        expressions.append(f"CAST({quoted(layout.vocab.operation_type_column)} AS INT) AS {OP}")
    return frame.selectExpr(*expressions, f"{ROW_COLUMN} AS {ROW}")


def history_frame(
    spark: "SparkSession", paths: Sequence[str], layout: MergeLayout, positions: Sequence[int]
) -> "DataFrame":
    """Return rows of the slices: `o`, `op` and some of `c0`, `c1` and so on.

    Slices of different ages may have different columns and types of system columns; what a slice
    lacks is null.

    Args:
        spark: The session.
        paths: The slices.
        layout: The columns of the merge.
        positions: Which of them to read.
    """
    by_schema: dict[pa.Schema, list[str]] = {}
    for path in paths:
        schema = pq.read_schema(path).remove_metadata()
        by_schema.setdefault(_plain(schema), []).append(path)
    vocab = layout.vocab
    frames = []
    for schema, group in by_schema.items():
        values = [
            f"{_old_value(schema, layout.columns[position])} AS c{position}"
            for position in positions
        ]
        frame = read_parquet(spark, group, schema)
        frames.append(
            frame.selectExpr(
                f"CAST({quoted(vocab.offset_column)} AS BIGINT) AS {OFFSET}",
                f"CAST({quoted(vocab.operation_type_column)} AS INT) AS {OP}",
                *values,
            )
        )
    result = frames[0]
    for other in frames[1:]:
        result = result.unionAll(other)
    return result


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def _new_value(column: MergeColumn) -> str:
    stored = spark_type(column.field.type)
    if not column.in_new:
        return f"CAST(NULL AS {stored})"
    name = quoted(column.name)
    if pa.types.is_timestamp(column.field.type):
        return f"timestamp_millis(unix_millis(CAST({name} AS TIMESTAMP)))"
    return f"CAST({name} AS {stored})"


def _old_value(schema: pa.Schema, column: MergeColumn) -> str:
    if column.name not in schema.names:
        return f"CAST(NULL AS {spark_type(column.field.type)})"
    return _new_value(MergeColumn(column.name, column.field, True, True))

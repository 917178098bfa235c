"""The preprocess step of a root dataset: SQL over the view `input`.

A query that maps each row by itself keeps the order of the input. Any other result has no order
of its own, so it is put into the order of its values, column by column; what such a query computes
in order (`first`, floating sums) it computes over the input in one partition, in input order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.types import slice_type
from odf.engines.host.queries import RAW_INPUT
from odf.engines.spark.catalyst import translated_errors
from odf.engines.spark.collect import SMALL_ROWS, Collected, collect
from odf.engines.spark.merge.frames import quoted, read_parquet
from odf.engines.spark.merge.layout import NewRows
from odf.engines.spark.parts import ROW_COLUMN, Parts, PartWriter
from odf.engines.spark.query.results import (
    in_order,
    keep_order,
    result_schema,
    sorted_by_all_columns,
)
from odf.engines.spark.query.validate import Analysed, analyse_steps
from odf.errors import InvalidQueryError
from odf.metadata.model import TransformSql

_PARTITION_BITS: Final = 33
"""Where in Spark's `monotonically_increasing_id` the partition begins."""

_PLACE_MASK: Final = (1 << _PARTITION_BITS) - 1

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def preprocess(spark: "SparkSession", new: NewRows, query: TransformSql, scratch: Path) -> NewRows:
    """Run a preprocess query over rows that were read.

    Args:
        spark: The session.
        new: The rows.
        query: The query.
        scratch: Folder for its result; it must not exist yet.

    Raises:
        InvalidQueryError: The query is not allowed, or fails on these rows.
    """
    if query.engine.casefold() != "spark":
        raise InvalidQueryError(
            f"the preprocess query asks for the engine {query.engine!r}; this one is 'spark'"
        )
    keep_order(spark)
    analysed = _analyse(spark, new.parts, query, in_one=False)
    # Each part is a partition of its own, in order, and such a query keeps partitions as they are.
    result = analysed.frame
    if not analysed.stateless:
        if len(new.parts.paths) > 1:
            analysed = _analyse(spark, new.parts, query, in_one=True)
        result = sorted_by_all_columns(analysed.frame)
    schema = _part_schema(analysed.frame)
    stored = pa.schema([_stored(field) for field in schema])
    small = new.parts.rows <= SMALL_ROWS
    with translated_errors(
        "the preprocess query failed", "for values that do not fit use try_cast and the like"
    ):
        found = collect(result if small else _numbered(result), scratch / "spark", small=small)
    if small:
        return NewRows(_write(found, schema, scratch), stored, result_labels)
    parts = Parts(found.paths, schema, found.rows)
    return NewRows(parts, stored, _NumberedLabels(found.paths))


def _numbered(frame: "DataFrame") -> "DataFrame":
    """Add the hidden row column: the number of the partition, then the place in it."""
    from pyspark.sql import functions  # noqa: PLC0415

    return frame.select("*", functions.monotonically_increasing_id().alias(ROW_COLUMN))


@dataclass(frozen=True, slots=True)
class _NumberedLabels:
    """Says where rows stand in a result that lies in the files that Spark wrote."""

    paths: tuple[str, ...]

    def __call__(self, rows: Sequence[int]) -> list[str]:
        sizes = {_partition(path): pq.read_metadata(path).num_rows for path in self.paths}
        places = []
        for row in rows:
            partition = row >> _PARTITION_BITS
            before = sum(size for number, size in sizes.items() if number < partition)
            places.append(before + (row & _PLACE_MASK))
        return result_labels(places)


def _partition(path: str) -> int:
    """Return the number that is in the name of a file of Spark's: `part-00003-….parquet`."""
    return int(Path(path).name.split("-")[1])


def _analyse(spark: "SparkSession", parts: Parts, query: TransformSql, *, in_one: bool) -> Analysed:
    visible = [quoted(name) for name in parts.schema.names]
    frame = _input_frame(spark, parts)
    if in_one:
        frame = frame.repartition(1).sortWithinPartitions(ROW_COLUMN)
    frame.select(*visible).createOrReplaceTempView(RAW_INPUT)
    return analyse_steps(spark, query, [RAW_INPUT], incremental=False)


def _input_frame(spark: "SparkSession", parts: Parts) -> "DataFrame":
    """Return the parts, each a partition of its own, in order."""
    schema = parts.schema.append(pa.field(ROW_COLUMN, pa.int64()))
    if not parts.paths:
        return read_parquet(spark, [], schema)
    return in_order([read_parquet(spark, [path], schema) for path in parts.paths])


def _part_schema(frame: "DataFrame") -> pa.Schema:
    """Return the columns of the result; timestamps keep their digits until they are merged."""
    fields = []
    for field in result_schema(frame):
        is_timestamp = pa.types.is_timestamp(field.type)
        fields.append(field if is_timestamp else field.with_type(slice_type(field.type)))
    return pa.schema(fields)


def _stored(field: pa.Field) -> pa.Field:
    return pa.field(field.name, slice_type(field.type))


def _write(found: Collected, schema: pa.Schema, scratch: Path) -> Parts:
    scratch.mkdir(exist_ok=True)
    path = scratch / "part-000000.parquet"
    with_rows = schema.append(pa.field(ROW_COLUMN, pa.int64(), nullable=False))
    rows = 0
    with PartWriter(str(path), with_rows) as writer:
        for batch in found.batches(schema):
            ordinals = pa.arange(rows, rows + batch.num_rows)
            rows += batch.num_rows
            arrays = [*batch.columns, ordinals]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=with_rows))
    return Parts((str(path),), schema, rows)


def result_labels(rows: Sequence[int]) -> list[str]:
    """Say where rows stand that a preprocess query gave."""
    return [f"row {row + 1} of the preprocess query's result" for row in rows]

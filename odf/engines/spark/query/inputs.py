"""Inputs of transforms: slices of an interval, brought into one file that Spark reads in order.

Spark packs files into partitions by size and splits large ones, so that order is lost. One file
in one partition keeps it. Bringing the slices together also evens out their differences: columns
that were added later, unsigned system columns, timestamps of other units.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.engines.host.engine import InputView
from odf.engines.host.views import even_schema, fit_batch, view_schema
from odf.engines.spark.merge.frames import quoted, read_parquet
from odf.engines.spark.parts import PartWriter
from odf.metadata.model import DatasetVocabulary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class PreparedInput:
    """An input as one file.

    Attributes:
        alias: Name of its view.
        path: The file.
        schema: Its columns.
        rows: How many rows it has.
    """

    alias: str
    path: str
    schema: pa.Schema
    rows: int


def prepare_input(view: InputView, path: Path) -> PreparedInput:
    """Write the rows of an interval of offsets to one file.

    Args:
        view: The input.
        path: The file to make.
    """
    schema = view_schema(view)
    rows = 0
    with PartWriter(str(path), schema) as writer:
        for batch in _batches(view, schema):
            writer.write(batch)
            rows += batch.num_rows
    return PreparedInput(view.alias, str(path), schema, rows)


def prepare_empty(
    alias: str, schema: pa.Schema, vocab: DatasetVocabulary, path: Path
) -> PreparedInput:
    """Write a file without rows for an input of which only the columns matter.

    Args:
        alias: Name of the view.
        schema: Columns of the input's slices.
        vocab: Names of the system columns in them.
        path: The file to make.
    """
    even = even_schema(schema, vocab)
    with PartWriter(str(path), even):
        pass
    return PreparedInput(alias, str(path), even, 0)


def register(spark: "SparkSession", given: PreparedInput) -> None:
    """Make an input a view of the session."""
    read_parquet(spark, [given.path], given.schema).createOrReplaceTempView(quoted(given.alias))


def _batches(view: InputView, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if view.offset_start is None or view.offset_end is None:
        return
    for path in view.paths:
        with pq.ParquetFile(path, memory_map=True) as file:
            for batch in file.iter_batches():
                offsets = batch.column(view.vocab.offset_column).cast(pa.int64())
                inside = pc.and_(
                    pc.greater_equal(offsets, view.offset_start),
                    pc.less_equal(offsets, view.offset_end),
                )
                yield fit_batch(batch.filter(inside), schema)

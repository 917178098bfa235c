"""Ordered frames out of Spark: through memory if they are small, through files if they are not."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.data.types import conform
from odf.engines.spark.required import sound, to_arrow_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_ROWS: Final = 200_000
"""Up to so many rows a frame is taken through memory: less than a second, and a few 10 MB."""

_ROWS_PER_PARTITION: Final = 500_000


@dataclass(frozen=True, slots=True)
class Collected:
    """The rows of a frame, in order; they can be read more than once.

    Attributes:
        schema: The columns.
        table: The rows, if they are in memory.
        paths: Files with the rows, in order, if they are not.
    """

    schema: pa.Schema
    table: pa.Table | None
    paths: tuple[str, ...] = ()

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the rows.

        Args:
            schema: What the columns are to be; they are matched by position.
        """
        for table in self._tables(self.schema.names):
            for batch in table.to_batches():
                yield fit(batch, schema)

    def count(self, column: str, value: int) -> int:
        """Count the rows that have a value in a column of integers."""
        return sum(
            pc.sum(pc.equal(table.column(column), value)).as_py() or 0
            for table in self._tables([column])
        )

    @property
    def rows(self) -> int:
        """How many rows there are."""
        if self.table is not None:
            return int(self.table.num_rows)
        return sum(pq.read_metadata(path).num_rows for path in self.paths)

    def _tables(self, columns: list[str]) -> Iterator[pa.Table]:
        if self.table is not None:
            yield self.table.select(columns)
        for path in self.paths:
            with pq.ParquetFile(path, memory_map=True) as file:
                for group in range(file.num_row_groups):
                    yield file.read_row_group(group, columns=columns)


def set_parallelism(spark: "SparkSession", rows: int, cores: int) -> None:
    """Choose how many partitions the session's next shuffles have.

    This decides on speed only: every result of the engine is sorted by a total order.

    Args:
        spark: The session.
        rows: How many rows there are to work on, about.
        cores: How many tasks run at once.
    """
    partitions = 1 if rows <= SMALL_ROWS else max(cores, rows // _ROWS_PER_PARTITION)
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))


def collect(frame: "DataFrame", folder: Path, *, small: bool) -> Collected:
    """Compute a frame, keeping the order of its partitions and of the rows in them.

    Args:
        frame: The frame.
        folder: Where files go; it must not exist yet.
        small: Whether the rows are few enough for memory.
    """
    if small:
        table = to_arrow_table(frame)
        return Collected(table.schema, table)
    frame.write.option("compression", "lz4_raw").parquet(str(folder))
    # Spark numbers the files by partition, and leaves out empty ones.
    paths = tuple(str(path) for path in sorted(folder.glob("part-*.parquet")))
    schema = (
        pq.read_schema(paths[0]).remove_metadata() if paths else frame.limit(0).toArrow().schema
    )
    return Collected(schema, None, paths)


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give the columns of a batch the names and types of a schema, by position."""
    arrays = [
        _fit_column(array, field.type) for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fit_column(array: pa.Array, target: pa.DataType) -> pa.Array:
    if isinstance(target, pa.UuidType):
        return pa.ExtensionArray.from_storage(target, array.cast(target.storage_type))
    return sound(conform(array, target), target)

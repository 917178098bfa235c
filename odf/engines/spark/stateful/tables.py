"""Tables of a state in which each group has one row, and how they change."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.data.types import from_arrow
from odf.engines.spark.collect import Collected, collect
from odf.engines.spark.merge.frames import read_parquet
from odf.engines.spark.required import sound_batch
from odf.errors import BadInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POSITION: Final = "position"
"""Column of frames of such tables: which row of the file it is."""

NO_POSITIONS: Final = pa.array([], pa.int64())
"""What is left out of a table of which all rows stay."""

_ROWS_PER_GROUP: Final = 128 * 1024
_COMPRESSION: Final = "zstd"


@dataclass(frozen=True, slots=True)
class Computed:
    """Rows that Spark computed once and that can be used again.

    Attributes:
        frame: The rows, for Spark.
        collected: The rows, for Arrow.
    """

    frame: "DataFrame"
    collected: Collected

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.collected.rows


def compute(spark: "SparkSession", frame: "DataFrame", folder: Path, *, small: bool) -> Computed:
    """Compute a frame once.

    Args:
        spark: The session.
        frame: The frame.
        folder: Where files go; it must not exist yet.
        small: Whether the rows are few enough for memory.
    """
    found = collect(frame, folder, small=small)
    paths = list(found.paths)
    if found.table is not None:
        path = folder.with_suffix(".parquet")
        pq.write_table(found.table, path, compression="none", store_schema=False)
        paths = [str(path)]
    return Computed(read_parquet(spark, paths, found.schema), found)


def arrow_schema_of(frame: "DataFrame") -> pa.Schema:
    """Return the Arrow schema of a frame without computing anything."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
    return pa.schema([field.with_nullable(True) for field in schema])


def can_be_kept(frame: "DataFrame") -> bool:
    """Tell whether the columns of a frame have types that a table of a state can hold."""
    return column_not_kept(frame) is None


def column_not_kept(frame: "DataFrame") -> str | None:
    """Return the first column of a frame that a table of a state cannot hold, with its type.

    A text with a collation of its own is one: a table would forget by what it is compared.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415

    for field in frame.schema:
        name = field.dataType.simpleString()
        try:
            kept = "collate" not in name.casefold()
            from_arrow(to_arrow_type(field.dataType, timezone="UTC"))
        except (PySparkException, BadInputError):
            kept = False
        if not kept:
            return f"`{field.name}` {name.upper()}"
    return None


def read_table(spark: "SparkSession", path: Path) -> "DataFrame":
    """Return a table of a state with `POSITION` after its own columns."""
    schema = pq.read_schema(path).remove_metadata()
    frame = read_parquet(spark, [str(path)], schema)
    return frame.selectExpr("*", f"_metadata.row_index AS {POSITION}")


def equal_keys(left: str, right: str, keys: Sequence[str]) -> str:
    """Return the condition that two frames' keys are the same; null is a key like others."""
    return " AND ".join(f"{left}.{key} <=> {right}.{key}" for key in keys)


def rows_with_keys(table: "DataFrame", keys: "DataFrame", names: Sequence[str]) -> "DataFrame":
    """Return the rows of a table whose keys are among some.

    Args:
        table: The table.
        keys: The keys.
        names: Names of the key columns in both.
    """
    from pyspark.sql import functions  # noqa: PLC0415

    condition = functions.expr(equal_keys("t", "s", names))
    return table.alias("t").join(keys.alias("s"), condition, "left_semi")


def positions(found: Collected) -> pa.Array:
    """Return the positions that rows of `read_table` have."""
    name = found.schema.get_field_index(POSITION)
    chunks = [batch.column(name) for batch in found.batches(found.schema)]
    return pa.chunked_array(chunks, pa.int64()).combine_chunks()


def write_table(
    path: Path,
    schema: pa.Schema,
    old: Path | None,
    removed: pa.Array,
    added: Iterable[pa.RecordBatch],
) -> None:
    """Write a table anew with some rows gone and others added at its end.

    Args:
        path: The file to make.
        schema: Its columns.
        old: The table as it was, or None.
        removed: Positions of the rows that are left out.
        added: The new rows, in the columns of the schema; parts of them may be declared to be
            null, or never to be, in other ways.
    """
    with pq.ParquetWriter(path, schema, compression=_COMPRESSION) as writer:
        pending: list[pa.RecordBatch] = []
        count = 0
        for batch in _chain(_left(old, schema, removed), added):
            pending.append(sound_batch(batch, schema))
            count += batch.num_rows
            if count >= _ROWS_PER_GROUP:
                writer.write_table(pa.Table.from_batches(pending, schema))
                pending, count = [], 0
        if count:
            writer.write_table(pa.Table.from_batches(pending, schema))


def compress(source: Path, target: Path) -> Path:
    """Write the rows of a scratch file as they are to be kept."""
    schema = pq.read_schema(source)
    with pq.ParquetFile(source, memory_map=True) as file:
        batches = file.iter_batches(batch_size=_ROWS_PER_GROUP)
        write_table(target, schema, None, NO_POSITIONS, batches)
    return target


def _left(old: Path | None, schema: pa.Schema, removed: pa.Array) -> Iterator[pa.RecordBatch]:
    if old is None:
        return
    start = 0
    with pq.ParquetFile(old, memory_map=True) as file:
        for batch in file.iter_batches(batch_size=_ROWS_PER_GROUP, columns=schema.names):
            end = start + batch.num_rows
            here = removed.filter(pc.and_(pc.greater_equal(removed, start), pc.less(removed, end)))
            left = batch
            if len(here):
                left = batch.filter(pc.invert(pc.is_in(pa.arange(start, end), value_set=here)))
            yield left
            start = end


def _chain(*parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        for batch in part:
            if batch.num_rows:
                yield batch

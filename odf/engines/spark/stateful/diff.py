"""What changed between the rows that were given out and those that are right: -R, -C/+C, +A."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.spark.collect import Collected, collect, fit
from odf.engines.spark.stateful.order import sort_keys
from odf.engines.spark.stateful.tables import POSITION, equal_keys
from odf.metadata.model import OperationType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_OLD, _NEW = "o", "n"
_WAS, _IS = "was", "is_there"
_BATCH_ROWS: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Changes:
    """Groups whose row is another one than before, in the order of their keys.

    Attributes:
        found: For each of them the old row if it had one, the new one if it has one, its keys,
            and the position of the old row in the table that it comes from.
        keys: Names of the key columns.
        values: Names of the value columns.
    """

    found: Collected
    keys: tuple[str, ...]
    values: tuple[str, ...]

    def rows(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Return the changelog: a correction's two rows are neighbours.

        Args:
            schema: The columns of the result, the operation last.
        """
        for batch in self._batches():
            was, is_there = batch.column(_WAS), batch.column(_IS)
            old = self._side(batch, _OLD, was, is_there, OperationType.RETRACT)
            new = self._side(batch, _NEW, is_there, was, OperationType.APPEND)
            # Old rows have even places, new ones odd places.
            places = pa.concat_arrays([_places(was, 0), _places(is_there, 1)])
            both = pa.concat_batches([old, new.cast(old.schema)])
            yield fit(both.take(pc.sort_indices(places)), schema)

    def new_rows(self) -> Iterator[pa.RecordBatch]:
        """Return keys and values of the groups that have a row."""
        for batch in self._batches():
            there = batch.filter(batch.column(_IS))
            columns = [there.column(key) for key in self.keys]
            columns += [there.column(f"{_NEW}{value}") for value in self.values]
            yield pa.RecordBatch.from_arrays(columns, names=[*self.keys, *self.values])

    def old_positions(self) -> pa.Array:
        """Return the positions of the old rows."""
        found = [batch.column(POSITION).drop_null() for batch in self._batches()]
        return pa.chunked_array(found, pa.int64()).combine_chunks()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self.found.batches(self.found.schema):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(start, _BATCH_ROWS)

    def _side(
        self,
        batch: pa.RecordBatch,
        side: str,
        has_row: pa.Array,
        has_other: pa.Array,
        alone: OperationType,
    ) -> pa.RecordBatch:
        """Return the rows of one side; `alone` is their operation if the other has none."""
        pair = OperationType.CORRECT_FROM if side == _OLD else OperationType.CORRECT_TO
        operations = pc.if_else(
            has_other, pa.scalar(int(pair), pa.int32()), pa.scalar(int(alone), pa.int32())
        )
        columns = [batch.column(f"{side}{value}") for value in self.values]
        names = [*self.values, "op"]
        whole = pa.RecordBatch.from_arrays([*columns, operations], names=names)
        return whole.filter(has_row)


def find_changes(
    old: "DataFrame | None",
    new: "DataFrame",
    keys: Sequence[str],
    values: Sequence[str],
    folder: Path,
    *,
    small: bool,
) -> Changes:
    """Compare the rows of groups before and after.

    Args:
        old: Rows that were given out: keys, values, `POSITION`. A group has one at most. None
            if there are none.
        new: Rows that are right: keys, values. A group has one at most.
        keys: Names of the key columns.
        values: Names of the value columns.
        folder: Where files go; it must not exist yet.
        small: Whether the rows are few enough for memory.
    """
    found = _all_new(new, keys, values) if old is None else _compared(old, new, keys, values)
    in_order = found.repartition(1).sortWithinPartitions(*sort_keys(found, keys))
    return Changes(collect(in_order, folder, small=small), tuple(keys), tuple(values))


def comparable(column: str, dtype: "DataType") -> str:
    """Return SQL for a value such that two are equal if a slice would hold the same for both.

    Args:
        column: The column, as SQL names it.
        dtype: Its type.
    """
    from pyspark.sql.types import TimestampNTZType, TimestampType  # noqa: PLC0415

    if isinstance(dtype, TimestampType):
        return f"unix_millis({column})"
    if isinstance(dtype, TimestampNTZType):
        return f"date_trunc('MILLISECOND', {column})"
    text = dtype.simpleString()
    if any(name in text for name in ("double", "float", "timestamp", "map<")):
        # As a text 0.0 is not -0.0, and nan is nan.
        return f"to_json(struct({column} AS v))"
    return column


def _all_new(new: "DataFrame", keys: Sequence[str], values: Sequence[str]) -> "DataFrame":
    types = {field.name: field.dataType.simpleString() for field in new.schema}
    return new.selectExpr(
        f"false AS {_WAS}",
        f"true AS {_IS}",
        f"CAST(NULL AS BIGINT) AS {POSITION}",
        *keys,
        *[f"CAST(NULL AS {types[value]}) AS {_OLD}{value}" for value in values],
        *[f"{value} AS {_NEW}{value}" for value in values],
    )


def _compared(
    old: "DataFrame", new: "DataFrame", keys: Sequence[str], values: Sequence[str]
) -> "DataFrame":
    from pyspark.sql import functions  # noqa: PLC0415

    types = {field.name: field.dataType for field in new.schema}
    before = old.selectExpr("*", f"true AS {_WAS}").alias("o")
    after = new.selectExpr("*", f"true AS {_IS}").alias("n")
    same = " AND ".join(
        f"({comparable('o.' + value, types[value])} <=> {comparable('n.' + value, types[value])})"
        for value in values
    )
    both = f"o.{_WAS} IS NOT NULL AND n.{_IS} IS NOT NULL"
    return (
        before.join(after, functions.expr(equal_keys("o", "n", keys)), "full_outer")
        .where(f"NOT ({both} AND {same})")
        .selectExpr(
            f"o.{_WAS} IS NOT NULL AS {_WAS}",
            f"n.{_IS} IS NOT NULL AS {_IS}",
            f"o.{POSITION} AS {POSITION}",
            *[f"IF(n.{_IS} IS NULL, o.{key}, n.{key}) AS {key}" for key in keys],
            *[f"o.{value} AS {_OLD}{value}" for value in values],
            *[f"n.{value} AS {_NEW}{value}" for value in values],
        )
    )


def _places(mask: pa.Array, odd: int) -> pa.Array:
    """Return 2n or 2n + 1 for each n at which a mask is true."""
    found = pc.indices_nonzero(mask).cast(pa.int64())
    return pc.add(pc.multiply(found, 2), odd)

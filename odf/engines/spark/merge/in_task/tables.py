"""New rows and history as Arrow tables whose columns have numbers instead of names.

The names are those of `merge.frames`: `c0`, `c1`, … with `c0` the event time, `r` for the place
in the input, `o` for the offset, `op`. Columns have the types that slices store them in; what has
a type of its own only by annotation (UUID) has the type underneath.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.types import conform
from odf.engines.spark.collect import fit
from odf.engines.spark.merge.layout import MergeColumn, MergeLayout
from odf.engines.spark.parts import ROW_COLUMN

ROW: Final = "r"
"""Place of a new row in the input."""

OFFSET: Final = "o"
"""Offset of a row of the history."""

OP: Final = "op"
"""Operation of a row."""

_ROWS_AT_ONCE: Final = 1 << 18
"""Rows of small slices that are looked at together; every look has a price of its own."""

_ROWS_PER_GROUP: Final = 1 << 18


def column_name(position: int) -> str:
    """Return the name of a column of the layout."""
    return f"c{position}"


def plain_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type that values of a slice's type have in these tables."""
    return dtype.storage_type if isinstance(dtype, pa.BaseExtensionType) else dtype


def new_table(paths: Sequence[str], layout: MergeLayout) -> pa.Table:
    """Read the new rows: `c0`, `c1` and so on, `r`, and `op` if they have it.

    Args:
        paths: The parts, in row order.
        layout: The columns of the merge.
    """
    wanted = [column.name for column in layout.columns if column.in_new]
    if layout.has_op:
        wanted.append(layout.vocab.operation_type_column)
    tables = [
        pq.read_table(path, columns=[*wanted, ROW_COLUMN], use_threads=False) for path in paths
    ]
    rows = sum(table.num_rows for table in tables)
    columns = {
        column_name(position): _joined(
            [_value(table, column) for table in tables] if column.in_new else [],
            plain_type(column.field.type),
            rows,
        )
        for position, column in enumerate(layout.columns)
    }
    columns[ROW] = _joined([table.column(ROW_COLUMN) for table in tables], pa.int64(), rows)
    if layout.has_op:
        name = layout.vocab.operation_type_column
        columns[OP] = _joined(
            [table.column(name).cast(pa.int32()) for table in tables], pa.int32(), rows
        )
    return pa.table(columns)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some neighbouring rows of the history, not read yet."""

    groups: tuple[tuple[str, int], ...]
    layout: MergeLayout

    def read(self, positions: Sequence[int]) -> pa.Table:
        """Read the rows: `o`, `op` and some of `c0`, `c1` and so on.

        What a slice lacks is null.
        """
        return pa.concat_tables(
            _read_group(path, group, self.layout, positions) for path, group in self.groups
        )


def pieces(paths: Sequence[str], layout: MergeLayout) -> Iterator[Piece]:
    """Cut the history into pieces that are worth a look each, oldest first.

    Args:
        paths: The slices in chain order.
        layout: The columns of the merge.
    """
    groups: list[tuple[str, int]] = []
    rows = 0
    for path in paths:
        metadata = pq.read_metadata(path)
        for group in range(metadata.num_row_groups):
            groups.append((path, group))
            rows += metadata.row_group(group).num_rows
            if rows >= _ROWS_AT_ONCE:
                yield Piece(tuple(groups), layout)
                groups, rows = [], 0
    if groups:
        yield Piece(tuple(groups), layout)


def all_rows(paths: Sequence[str], layout: MergeLayout) -> pa.Table:
    """Read the whole history."""
    positions = range(len(layout.columns))
    return pa.concat_tables(
        [no_rows(layout, positions), *(piece.read(positions) for piece in pieces(paths, layout))]
    )


def no_rows(layout: MergeLayout, positions: Sequence[int]) -> pa.Table:
    """Return an empty table as `Piece.read` gives it."""
    fields = [pa.field(OFFSET, pa.int64()), pa.field(OP, pa.int32())]
    fields += [
        pa.field(column_name(at), plain_type(layout.columns[at].field.type)) for at in positions
    ]
    return pa.schema(fields).empty_table()


def _read_group(path: str, group: int, layout: MergeLayout, positions: Sequence[int]) -> pa.Table:
    vocab = layout.vocab
    with pq.ParquetFile(path, memory_map=True) as file:
        known = set(file.schema_arrow.names)
        columns = [layout.columns[at] for at in positions]
        names = [column.name for column in columns if column.name in known]
        table = file.read_row_group(
            group,
            columns=[vocab.offset_column, vocab.operation_type_column, *names],
            use_threads=False,
        )
    rows = table.num_rows
    found = {
        OFFSET: table.column(vocab.offset_column).cast(pa.int64()),
        OP: table.column(vocab.operation_type_column).cast(pa.int32()),
    }
    for at, column in zip(positions, columns, strict=True):
        values = [_value(table, column)] if column.name in known else []
        found[column_name(at)] = _joined(values, plain_type(column.field.type), rows)
    return pa.table(found)


def _value(table: pa.Table, column: MergeColumn) -> pa.ChunkedArray:
    target = plain_type(column.field.type)
    values = table.column(column.name)
    chunks = [conform(_storage(chunk), target) for chunk in values.chunks]
    return pa.chunked_array(chunks, target)


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _joined(values: Sequence[pa.ChunkedArray], dtype: pa.DataType, rows: int) -> pa.Array:
    """Return one array; nulls without values."""
    chunks = [chunk for value in values for chunk in value.chunks if len(chunk)]
    if not chunks:
        return pa.nulls(rows, dtype)
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def write_fold(path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write rows of the history into one file that is read as a slice is.

    Args:
        path: The Parquet file to make.
        schema: Its columns: offset, operation, event time, the others.
        batches: The rows; their columns are taken by position.

    Returns:
        How many rows there were.
    """
    rows = 0
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for batch in batches:
            rows += batch.num_rows
            writer.write_batch(fit(batch, schema), row_group_size=_ROWS_PER_GROUP)
    return rows

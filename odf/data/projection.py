"""Reads the rows of a dataset from its slices: the newest ones, or the state that they add up to.

A dataset is a log of changes; its state is what is left when every retraction and correction has
been applied (ODF "Representation of retractions and corrections"). Both readers touch only the
files, row groups and columns that they need.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.data.inspector import strip_metadata
from odf.data.parquet import batches, guarded, open_parquet
from odf.errors import BadInputError, IntegrityError
from odf.metadata.model import DatasetVocabulary, OperationType
from odf.metadata.timestamp import Timestamp

_PRESENT = pa.array([int(OperationType.APPEND), int(OperationType.CORRECT_TO)], pa.int64())


def read_tail(paths: Sequence[Path], n: int) -> pa.Table:
    """Return the last rows of a dataset in offset order.

    Args:
        paths: The slice files, newest last.
        n: How many rows at most.

    Returns:
        At most `n` rows under the newest schema; columns that older slices lack are null there.
        A table without columns if there are no slices.

    Raises:
        NotFoundError: A slice file is missing.
        IntegrityError: A slice file cannot be read, or slices do not fit together.
    """
    found: list[pa.Table] = []
    missing = max(n, 0)
    for path in reversed(paths):
        with guarded(path), open_parquet(path) as file:
            table = _tail_of(path, file, missing)
        found.append(table)
        missing -= table.num_rows
        if missing <= 0:
            break
    return put_together(found[::-1])


def _tail_of(path: Path, file: pq.ParquetFile, n: int) -> pa.Table:
    found: list[pa.RecordBatch] = []
    rows = 0
    for group in reversed(range(file.metadata.num_row_groups)):
        if rows >= n:
            break
        skip = max(0, file.metadata.row_group(group).num_rows - (n - rows))
        kept: list[pa.RecordBatch] = []
        for batch in batches(path, file, row_groups=[group]):
            kept.append(batch.slice(min(skip, batch.num_rows)))
            skip -= batch.num_rows - kept[-1].num_rows
        rows += sum(batch.num_rows for batch in kept)
        found = kept + found
    return pa.Table.from_batches(found, file.schema_arrow).replace_schema_metadata(None)


def current_state(
    paths: Sequence[Path],
    primary_key: Sequence[str],
    vocab: DatasetVocabulary,
    *,
    as_at: Timestamp | None = None,
    as_of: Timestamp | None = None,
) -> pa.Table:
    """Return the state of a changelog: of each key the newest row, unless it was retracted.

    Args:
        paths: The slice files, oldest first.
        primary_key: The columns that tell rows apart; null is a key like any other.
        vocab: The names of the system columns.
        as_at: Only what the dataset knew at this system time, inclusive.
        as_of: Only rows with an event time up to this, inclusive; rows without one count.

    Returns:
        The rows as they are in the slices, system columns included, in offset order. A table
        without columns if there are no slices.

    Raises:
        NotFoundError: A slice file is missing.
        IntegrityError: A slice file cannot be read, or slices do not fit together.
        BadInputError: A key column does not exist, or has a type that cannot be a key.
    """
    if not paths:
        return pa.table({})
    needed = [
        vocab.offset_column,
        vocab.operation_type_column,
        vocab.system_time_column,
        vocab.event_time_column,
    ]
    needed += [name for name in primary_key if name not in needed]
    keys = put_together(
        [_read(path, lambda t: _until(t, vocab, as_at, as_of), needed) for path in paths]
    )
    alive = _alive(keys, primary_key, vocab)
    state = put_together(
        [_read(path, lambda t: _having(t, vocab.offset_column, alive)) for path in paths]
    )
    return state.sort_by(vocab.offset_column)


def read_rows_with(path: Path, columns: Sequence[str], values: Iterable[int]) -> pa.Table:
    """Return the rows of a Parquet file whose first column has one of some values.

    Args:
        path: The file; it need not be a slice.
        columns: The columns that are wanted.
        values: Values of the first of them.

    Raises:
        NotFoundError: The file is missing.
        IntegrityError: It cannot be read.
        BadInputError: It lacks a column.
    """
    wanted = pa.array(sorted(values), pa.int64())
    return _read(path, lambda table: _having(table, columns[0], wanted), columns)


def _alive(keys: pa.Table, primary_key: Sequence[str], vocab: DatasetVocabulary) -> pa.Array:
    """Return the offsets of the rows that make up the state."""
    offset, op = vocab.offset_column, vocab.operation_type_column
    for index, field in enumerate(keys.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            keys = keys.set_column(index, field.name, keys[index].cast(field.type.storage_type))
    try:
        newest = keys.group_by(list(primary_key)).aggregate([(offset, "max")])[f"{offset}_max"]
    except pa.ArrowException as error:
        raise BadInputError(
            f"the columns {list(primary_key)} cannot be a key: {error}", reason="missing_key"
        ) from error
    keys = _having(keys, offset, newest.combine_chunks())
    present = pc.is_in(keys[op].cast(pa.int64()), value_set=_PRESENT)
    return keys.filter(present)[offset].combine_chunks()


def _read(
    path: Path,
    keep: Callable[[pa.Table], pa.Table],
    columns: Sequence[str] | None = None,
) -> pa.Table:
    with guarded(path), open_parquet(path) as file:
        schema = strip_metadata(file.schema_arrow)
        if columns is not None:
            _check_columns(path, schema, columns)
            schema = pa.schema([schema.field(name) for name in columns])
        kept = [
            keep(pa.Table.from_batches([batch]).select(schema.names))
            for batch in batches(path, file, columns=columns)
        ]
        return pa.concat_tables([schema.empty_table(), *kept])


def _check_columns(path: Path, schema: pa.Schema, columns: Sequence[str]) -> None:
    for name in columns:
        if schema.get_field_index(name) < 0:
            raise BadInputError(
                f"slice file {path.name} has no column {name!r}, it has {schema.names}",
                reason="missing_key",
            )


def _until(
    table: pa.Table,
    vocab: DatasetVocabulary,
    as_at: Timestamp | None,
    as_of: Timestamp | None,
) -> pa.Table:
    for bound, name in ((as_at, vocab.system_time_column), (as_of, vocab.event_time_column)):
        if bound is not None:
            millis = table[name].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
            table = table.filter(pc.less_equal(millis, bound.epoch_ms).fill_null(True))
    return table


def _having(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return table.filter(pc.is_in(table[column], value_set=values.cast(table[column].type)))


def put_together(tables: Sequence[pa.Table]) -> pa.Table:
    """Put tables one after the other under the newest one's order of columns."""
    if not tables:
        return pa.table({})
    names = dict.fromkeys(name for table in reversed(tables) for name in table.schema.names)
    try:
        return pa.concat_tables(tables, promote_options="permissive").select(list(names))
    except (pa.ArrowException, ValueError, LookupError) as error:
        raise IntegrityError(
            f"slices of one dataset do not fit together: {error}",
            hint="`odf verify` tells which slice breaks the recorded schema",
        ) from error

"""From an engine's rows to a slice file: system columns, types, pairs of corrections.

Done here once, so that every engine gives the same bytes of data for the same rows (design §7).
The order of the rows is the engine's, and final.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.data.slices import SliceWriter, slice_schema
from odf.data.types import conform, loses_digits
from odf.engines.host.engine import HIDDEN_BRANCH, HIDDEN_OFFSET, Rows, StartOver
from odf.errors import BadInputError
from odf.metadata.model import DatasetVocabulary, OperationType, Timestamp
from odf.protocol.calls import OperationCounts

_HIDDEN: Final = (HIDDEN_BRANCH, HIDDEN_OFFSET)
_OP_HINT: Final = "Pass {!r} of an input through unchanged, or leave it out."
_APPEND, _RETRACT, _FROM, _TO = (int(kind) for kind in OperationType)


@dataclass(frozen=True, slots=True)
class SliceOrder:
    """What a slice is made for.

    Attributes:
        vocab: Names of the system columns, all four filled.
        next_offset: Offset of the first row.
        system_time: System time of all rows; cut to the millisecond.
        path: Where the file goes. Written only if there are rows.
        from_query: Whether the rows are the result of a derivative's query. Otherwise they are
            merged source data, whose declared NOT NULL columns stay so.
    """

    vocab: DatasetVocabulary
    next_offset: int
    system_time: Timestamp
    path: Path
    from_query: bool


@dataclass(frozen=True, slots=True)
class FinishedSlice:
    """A slice as it was written.

    Attributes:
        schema: Its schema, also if there are no rows and therefore no file.
        counts: Its rows by operation.
    """

    schema: pa.Schema
    counts: OperationCounts


def finish(
    rows: Rows, order: SliceOrder, warn: Callable[[str], None] | None = None
) -> FinishedSlice:
    """Write a slice, or nothing if there are no rows.

    Args:
        rows: What the engine made.
        order: What it is for.
        warn: Is told once for each column whose timestamps had finer digits than a slice keeps.

    Raises:
        BadInputError: If these rows cannot be a slice.
    """
    try:
        return _finish(rows, order, warn)
    except StartOver as other:
        again = other.again
    return _finish(again(), order, warn)


def _finish(rows: Rows, order: SliceOrder, warn: Callable[[str], None] | None) -> FinishedSlice:
    shape = _Shape(rows.schema, order)
    counts = dict.fromkeys(OperationType, 0)
    offset = order.next_offset
    cut: set[str] = set()
    with SliceWriter(order.path, shape.schema) as writer:
        for batch in _settle_pairs(shape.with_operations(rows.batches), shape.op):
            if batch.num_rows == 0:
                continue
            if warn is not None:
                _warn_of_lost_digits(batch, cut, warn)
            finished = shape.finished(batch, offset)
            _count(finished.column(shape.op), counts)
            writer.write(finished)
            offset += batch.num_rows
    return FinishedSlice(shape.schema, OperationCounts(*counts.values()))


class _Shape:
    """The columns of a result and of the slice that it becomes."""

    def __init__(self, schema: pa.Schema, order: SliceOrder) -> None:
        self._order = order
        vocab = order.vocab
        self.op = vocab.operation_type_column
        _check_names(schema, vocab)
        data = [field for field in schema if field.name not in _HIDDEN]
        if order.from_query:
            # What an analyser concludes about nulls changes from version to version.
            data = [field.with_nullable(True) for field in data]
        self.schema = slice_schema(pa.schema(data), vocab)
        self._has_op = self.op in schema.names

    def with_operations(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give every batch a checked operation column of the slice's type."""
        for batch in batches:
            if not self._has_op:
                appended = pa.repeat(pa.scalar(_APPEND, pa.int32()), batch.num_rows)
                yield batch.append_column(self.op, appended)
                continue
            position = batch.schema.get_field_index(self.op)
            values = batch.column(position)
            lowest, highest = pc.min_max(values).values()
            if values.null_count or (
                batch.num_rows and not _APPEND <= lowest.as_py() <= highest.as_py() <= _TO
            ):
                wrong = "null" if values.null_count else f"{lowest} to {highest}"
                raise BadInputError(
                    f"the column {self.op!r} holds {wrong}; wanted {_APPEND} to {_TO}",
                    reason="system_column",
                    hint=_OP_HINT.format(self.op),
                )
            field = pa.field(self.op, pa.int32(), nullable=False)
            yield batch.set_column(position, field, values.cast(pa.int32()))

    def finished(self, batch: pa.RecordBatch, offset: int) -> pa.RecordBatch:
        """Put the columns into their order and types, and add those that are the host's."""
        vocab = self._order.vocab
        made = {
            vocab.offset_column: pa.arange(offset, offset + batch.num_rows),
            vocab.system_time_column: pa.repeat(
                pa.scalar(
                    self._order.system_time.epoch_ms,
                    self.schema.field(vocab.system_time_column).type,
                ),
                batch.num_rows,
            ),
        }
        columns = []
        for field in self.schema:
            column = made.get(field.name)
            if column is None:
                column = conform(batch.column(field.name), field.type)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _check_names(schema: pa.Schema, vocab: DatasetVocabulary) -> None:
    """Refuse what `slice_schema` would pass over: it knows system columns by their names only."""
    names = schema.names
    op, event_time = vocab.operation_type_column, vocab.event_time_column
    for name in (vocab.offset_column, vocab.system_time_column):
        if name in names:
            raise BadInputError(
                f"the column {name!r} conflicts with the system column of that name",
                reason="system_column",
                hint="Rename the column, or name the columns that are wanted instead of '*'.",
            )
    for name in (op, event_time):
        if names.count(name) > 1:
            raise BadInputError(f"there are two columns {name!r}", reason="schema")
    if event_time not in names:
        shown = ", ".join(repr(name) for name in names if name not in _HIDDEN)
        raise BadInputError(
            f"the result has no event time column {event_time!r}; it has {shown}",
            reason="event_time",
            hint=f"Select a column as {event_time!r}, or change the dataset's vocabulary.",
        )
    if op in names and not pa.types.is_integer(schema.field(op).type):
        raise BadInputError(
            f"the column {op!r} has the type {schema.field(op).type}; wanted an integer",
            reason="system_column",
            hint=_OP_HINT.format(op),
        )


def _settle_pairs(batches: Iterator[pa.RecordBatch], op: str) -> Iterator[pa.RecordBatch]:
    """Turn each half of a correction whose other half is missing into a row of its own.

    A `-C` stands directly before its `+C`. Where the engine knows from which input rows they
    came, these have to be neighbours as well: two halves that a filter left side by side may
    belong to different pairs. A lone `-C` becomes `-R`, a lone `+C` becomes `+A`.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        joined = batch if held is None else pa.concat_batches([held, batch])
        held = None
        last = joined.num_rows - 1
        settled = _settle(joined, op)
        if joined.column(op)[last].as_py() == _FROM:
            # Its other half may be the first row of the next batch.
            held = joined.slice(last)
            settled = settled.slice(0, last)
        yield settled
    if held is not None:
        yield _settle(held, op)


def _settle(batch: pa.RecordBatch, op: str) -> pa.RecordBatch:
    values = batch.column(op)
    if pc.max(values).as_py() < _FROM:
        return batch
    is_from, is_to = pc.equal(values, _FROM), pc.equal(values, _TO)
    rest = batch.num_rows - 1
    paired = pc.and_(is_from.slice(0, rest), is_to.slice(1))
    if HIDDEN_BRANCH in batch.schema.names:
        branch = batch.column(HIDDEN_BRANCH)
        paired = pc.and_(paired, pc.equal(branch.slice(0, rest), branch.slice(1)))
    if HIDDEN_OFFSET in batch.schema.names:
        origin = batch.column(HIDDEN_OFFSET)
        follows = pc.equal(pc.add(origin.slice(0, rest), 1), origin.slice(1))
        paired = pc.and_(paired, follows)
    paired = pc.fill_null(paired, fill_value=False)
    no = pa.array([False])
    has_next, has_previous = pa.concat_arrays([paired, no]), pa.concat_arrays([no, paired])
    lone_from = pc.and_not(is_from, has_next)
    lone_to = pc.and_not(is_to, has_previous)
    values = pc.if_else(lone_from, pa.scalar(_RETRACT, pa.int32()), values)
    values = pc.if_else(lone_to, pa.scalar(_APPEND, pa.int32()), values)
    position = batch.schema.get_field_index(op)
    return batch.set_column(position, batch.schema.field(position), values)


def _warn_of_lost_digits(
    batch: pa.RecordBatch, known: set[str], warn: Callable[[str], None]
) -> None:
    for name in batch.schema.names:
        if name not in known and loses_digits(batch.column(name)):
            known.add(name)
            warn(f"the column {name!r} has times finer than milliseconds: the rest is cut off")


def _count(operations: pa.Array, counts: dict[OperationType, int]) -> None:
    lowest, highest = (bound.as_py() for bound in pc.min_max(operations).values())
    if lowest == highest:
        counts[OperationType(lowest)] += len(operations)
        return
    for entry in pc.value_counts(operations).to_pylist():
        counts[OperationType(entry["values"])] += entry["counts"]

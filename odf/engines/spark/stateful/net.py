"""Current rows of an input: what is left when retractions have met the rows that they retract.

Rows that are retracted and retractions cancel each other, the oldest equal row first, whether
they come in one run or in several. Corrections are a retraction and a row.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.metadata.model import DatasetVocabulary, OperationType

_RETRACTING: Final = pa.array(
    [int(OperationType.RETRACT), int(OperationType.CORRECT_FROM)], pa.int32()
)
Batches = Callable[[], Iterator[pa.RecordBatch]]
"""Reads rows in offset order; can be called again."""


@dataclass(frozen=True, slots=True)
class Net:
    """Which rows are not current.

    Attributes:
        gone: Offsets of retractions and of the rows that they retract; None if there are none.
        retracted: How many rows were retracted.
        unmatched: How many retractions had no row to retract.
        dangling: Offsets of these retractions, which are among `gone`.
    """

    gone: pa.Array | None = None
    retracted: int = 0
    unmatched: int = 0
    dangling: pa.Array | None = None


def find_net(kept: Batches, new: Batches, vocab: DatasetVocabulary) -> Net:
    """Find the rows that are not current.

    Only rows with the event time of some retraction are looked at closely, so this costs little
    where few rows are retracted, and next to nothing where none is.

    Args:
        kept: The rows that were current after the last run.
        new: The rows since then, with their operations.
        vocab: Names of their system columns.
    """
    times = [
        batch.filter(is_retraction(batch, vocab)).column(vocab.event_time_column) for batch in new()
    ]
    if not any(len(found) for found in times):
        return Net()
    touched = pa.chunked_array(times).combine_chunks()
    ledger = _Ledger(vocab)
    for batches in (kept, new):
        for batch in batches():
            # Nulls are found too: a null in the set equals a null.
            same = pc.is_in(batch.column(vocab.event_time_column), value_set=touched)
            ledger.take(batch.filter(same))
    return ledger.net()


def is_retraction(batch: pa.RecordBatch, vocab: DatasetVocabulary) -> pa.Array:
    """Tell for each row whether it retracts another."""
    return pc.is_in(batch.column(vocab.operation_type_column), value_set=_RETRACTING)


def current(batch: pa.RecordBatch, net: Net, vocab: DatasetVocabulary) -> pa.RecordBatch:
    """Return the current rows of a batch, as rows that were appended.

    Args:
        batch: The rows.
        net: Which are not current.
        vocab: Names of their system columns.
    """
    if net.gone is not None:
        offsets = batch.column(vocab.offset_column)
        batch = batch.filter(pc.invert(pc.is_in(offsets, value_set=net.gone)))
    position = batch.schema.get_field_index(vocab.operation_type_column)
    appended = pa.repeat(pa.scalar(int(OperationType.APPEND), pa.int32()), batch.num_rows)
    return batch.set_column(position, batch.schema.field(position), appended)


class _Ledger:
    """Books rows and retractions in their order."""

    def __init__(self, vocab: DatasetVocabulary) -> None:
        self._vocab = vocab
        self._system = {
            vocab.offset_column,
            vocab.operation_type_column,
            vocab.system_time_column,
        }
        self._live: defaultdict[str, deque[int]] = defaultdict(deque)
        self._gone: list[int] = []
        self._retracted = 0
        self._dangling: list[int] = []

    def take(self, batch: pa.RecordBatch) -> None:
        values = batch.select([n for n in batch.schema.names if n not in self._system])
        offsets = batch.column(self._vocab.offset_column).to_pylist()
        retractions = is_retraction(batch, self._vocab).to_pylist()
        rows = zip(*(column.to_pylist() for column in values.columns), strict=True)
        for row, offset, retracts in zip(rows, offsets, retractions, strict=True):
            # The text tells 0.0 from -0.0, and finds nan equal to nan.
            key = repr(row)
            if not retracts:
                self._live[key].append(offset)
                continue
            self._gone.append(offset)
            if self._live[key]:
                self._gone.append(self._live[key].popleft())
                self._retracted += 1
            else:
                self._dangling.append(offset)

    def net(self) -> Net:
        dangling = pa.array(self._dangling, pa.int64())
        gone = pa.array(self._gone, pa.int64())
        return Net(gone, self._retracted, len(dangling), dangling)

"""The one Spark task that merges a small round, or folds a stretch of the history.

Runs in Spark's Python workers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.spark.merge.event_time import fill_value
from odf.engines.spark.merge.in_task.changes import Changed, snapshot, upsert
from odf.engines.spark.merge.in_task.keyed import names_of, one_per_key
from odf.engines.spark.merge.in_task.rows import append, changelog, ledger
from odf.engines.spark.merge.in_task.tables import (
    OFFSET,
    OP,
    all_rows,
    new_table,
    write_fold,
)
from odf.engines.spark.merge.layout import MergeLayout
from odf.metadata.model import (
    MergeStrategy,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    OperationType,
    Timestamp,
)


@dataclass(frozen=True, slots=True)
class MergeTask:
    """A merge.

    Attributes:
        strategy: How.
        keys: Positions of the key columns; none for an append.
        compared: Positions of the columns that tell whether a row changed, or was revised.
        layout: The columns.
        parts: The new rows.
        history: The slices in chain order.
        event_time: For rows that have none.
        output: The Arrow file to write.
    """

    strategy: MergeStrategy
    keys: tuple[int, ...]
    compared: tuple[int, ...]
    layout: MergeLayout
    parts: tuple[str, ...]
    history: tuple[str, ...]
    event_time: Timestamp
    output: str


@dataclass(frozen=True, slots=True)
class FoldTask:
    """A stretch of the history that becomes one file of the rows that still count.

    Attributes:
        layout: The columns of the dataset.
        keys: Positions of the key columns.
        history: The slices in chain order.
        first: Whether the first row of a key counts, rather than the last.
        drop_retracted: Whether nothing is before this stretch, so that a retracted key is gone.
        schema: Columns of the file.
        output: The Parquet file to write.
    """

    layout: MergeLayout
    keys: tuple[int, ...]
    history: tuple[str, ...]
    first: bool
    drop_retracted: bool
    schema: pa.Schema
    output: str


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What came of a task.

    Attributes:
        rows: How many rows were written.
        state_rows: Rows of the current state before a snapshot.
        revised: Keys of a ledger that came with other values than those first seen.
        lone: Halves of corrections whose other half is missing.
        null_keys: Whether the history has rows without a key, which Arrow's joins pass over; then
            nothing was written.
        known: Keys of new rows of a ledger that the history has.
    """

    rows: int = 0
    state_rows: int = 0
    revised: int = 0
    lone: int = 0
    null_keys: bool = False
    known: int = 0


def run_tasks(tasks: Iterator[MergeTask | FoldTask]) -> Iterator[TaskResult]:
    """Run the tasks of a partition."""
    pa.set_cpu_count(1)
    return (_merge(task) if isinstance(task, MergeTask) else _fold(task) for task in tasks)


def _merge(task: MergeTask) -> TaskResult:
    new = new_table(task.parts, task.layout)
    fill = fill_value(task.layout.event_time.field.type, task.event_time)
    match task.strategy:
        case MergeStrategyLedger():
            kept, revised, known = ledger(
                new, task.history, task.layout, task.keys, task.compared, fill
            )
            return _write(kept, task, TaskResult(revised=revised, known=known))
        case MergeStrategyChangelogStream():
            rows, lone = changelog(new, task.keys, fill)
            return _write(rows, task, TaskResult(lone=lone))
        case MergeStrategySnapshot():
            changes = snapshot(new, task.history, task.layout, task.keys, task.compared, fill)
            return _write_changes(changes, task)
        case MergeStrategyUpsertStream():
            changes = upsert(new, task.history, task.layout, task.keys, task.compared, fill)
            return _write_changes(changes, task)
    return _write(append(new, fill), task, TaskResult())


def _write_changes(changes: Changed | None, task: MergeTask) -> TaskResult:
    if changes is None:
        return TaskResult(null_keys=True)
    return _write(changes.rows, task, TaskResult(state_rows=changes.state_rows))


def _write(rows: pa.Table, task: MergeTask, result: TaskResult) -> TaskResult:
    wanted = rows.select([OP, *names_of(range(len(task.layout.columns)))])
    with pa.OSFile(task.output, "wb") as file, pa.ipc.new_file(file, wanted.schema) as writer:
        writer.write_table(wanted)
    return replace(result, rows=wanted.num_rows)


def _fold(task: FoldTask) -> TaskResult:
    rows = all_rows(task.history, task.layout)
    kept = one_per_key(rows, names_of(task.keys), OFFSET, first=task.first)
    if task.drop_retracted:
        kept = kept.filter(pc.not_equal(kept.column(OP), int(OperationType.RETRACT)))
    return TaskResult(write_fold(task.output, task.schema, kept.sort_by(OFFSET).to_batches()))

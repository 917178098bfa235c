"""Folds a stretch of the history into one file that merges read in its place.

The file has the shape of a slice, without the system time: offset, operation and the values of the
one row of each key that still counts. A merge finds the same in it as in the slices it stands for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from odf.data.types import slice_type
from odf.engines.host.engine import Folding
from odf.engines.spark.collect import collect
from odf.engines.spark.merge.frames import OFFSET, OP, history_frame, names_of
from odf.engines.spark.merge.in_task.tables import write_fold
from odf.engines.spark.merge.in_task.task import FoldTask
from odf.engines.spark.merge.layout import PRIMARY_KEY, MergeColumn, MergeLayout
from odf.engines.spark.merge.small import fold_in_task
from odf.metadata.model import DatasetVocabulary, OperationType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class FoldContext:
    """Where folding happens.

    Attributes:
        spark: The session to work in.
        vocab: Names of the system columns.
        schema: Schema of the slices so far.
        scratch: Folder for temporary files.
        task_bytes: Bytes that one task may hold.
    """

    spark: "SparkSession"
    vocab: DatasetVocabulary
    schema: pa.Schema
    scratch: Path
    task_bytes: int


def fold(
    context: FoldContext,
    paths: Sequence[str],
    wanted: Folding,
    primary_key: Sequence[str],
    *,
    keep_first: bool,
) -> None:
    """Write the file.

    Args:
        context: Where this happens.
        paths: The whole history in chain order.
        wanted: Which stretch of it, and where the file goes.
        primary_key: The key columns.
        keep_first: Whether the first row of a key counts, rather than the last.
    """
    layout = _layout(context.schema, context.vocab)
    keys = layout.positions(primary_key, PRIMARY_KEY)
    stretch = tuple(paths[wanted.first : wanted.first + wanted.count])
    task = FoldTask(
        layout,
        keys,
        stretch,
        first=keep_first,
        drop_retracted=wanted.first == 0 and not keep_first,
        schema=_file_schema(layout),
        output=wanted.output_path,
    )
    if fold_in_task(context.spark, task, context.task_bytes) is None:
        _fold_by_sql(context, task)


def _fold_by_sql(context: FoldContext, task: FoldTask) -> None:
    names = names_of(task.layout)
    rows = history_frame(context.spark, task.history, task.layout, range(len(names)))
    by_key = ", ".join(f"c{key}" for key in task.keys)
    order = OFFSET if task.first else f"{OFFSET} DESC"
    kept = rows.selectExpr(
        "*", f"row_number() OVER (PARTITION BY {by_key} ORDER BY {order}) AS n"
    ).where("n = 1")
    if task.drop_retracted:
        kept = kept.where(f"{OP} <> {int(OperationType.RETRACT)}")
    found = collect(
        kept.select(OFFSET, OP, *names).sort(OFFSET), context.scratch / "folded", small=False
    )
    write_fold(task.output, task.schema, found.batches(task.schema))


def _layout(schema: pa.Schema, vocab: DatasetVocabulary) -> MergeLayout:
    """Lay out all columns that the dataset has, whatever new rows have."""
    event_time = vocab.event_time_column
    system = {
        vocab.offset_column,
        vocab.operation_type_column,
        vocab.system_time_column,
        event_time,
    }
    fields = [schema.field(event_time), *(field for field in schema if field.name not in system)]
    stored = [field.with_type(slice_type(field.type)) for field in fields]
    return MergeLayout(tuple(MergeColumn(f.name, f, True, True) for f in stored), vocab)


def _file_schema(layout: MergeLayout) -> pa.Schema:
    vocab = layout.vocab
    return pa.schema(
        [
            pa.field(vocab.offset_column, pa.int64(), nullable=False),
            pa.field(vocab.operation_type_column, pa.int32(), nullable=False),
            *(column.field.with_nullable(True) for column in layout.columns),
        ]
    )

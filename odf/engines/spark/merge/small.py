"""Decides which rounds are merged inside one Spark task, and has that done."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.engines.spark.collect import Collected
from odf.engines.spark.merge.in_task.task import FoldTask, MergeTask, TaskResult, run_tasks
from odf.engines.spark.merge.layout import MergeLayout
from odf.metadata.model import MergeStrategy, MergeStrategySnapshot

_BYTES_PER_VALUE: Final = 8
"""What a value takes at least in memory, however well a dictionary hides it in a file."""

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odf.engines.spark.merge.context import MergeContext


def merge_in_task(
    merge: "MergeContext",
    strategy: MergeStrategy,
    keys: Sequence[int] = (),
    compared: Sequence[int] = (),
) -> tuple[Collected, TaskResult] | None:
    """Merge inside one Spark task if that is possible.

    Args:
        merge: The rows and where they go.
        strategy: How.
        keys: Positions of the key columns.
        compared: Positions of the columns that tell whether a row changed, or was revised.

    Returns:
        The rows as the strategies give them, and the counts; None if Spark's SQL has to do it.
    """
    layout = merge.layout
    whole = merge.history if isinstance(strategy, MergeStrategySnapshot) else ()
    if _size((*merge.new.parts.paths, *whole)) > merge.task_bytes or not comparable(
        layout, keys, compared
    ):
        return None
    output = merge.scratch / "merged.arrow"
    task = MergeTask(
        strategy,
        tuple(keys),
        tuple(compared),
        layout,
        merge.new.parts.paths,
        merge.history,
        merge.event_time,
        str(output),
    )
    result = _run(merge.spark, task)
    if result.null_keys:
        return None
    with pa.memory_map(str(output)) as file:
        table = pa.ipc.open_file(file).read_all()
    return Collected(table.schema, table), result


def fold_in_task(spark: "SparkSession", task: FoldTask, task_bytes: int) -> int | None:
    """Fold a stretch of the history inside one Spark task if that is possible.

    Args:
        spark: The session whose task does it.
        task: What to fold.
        task_bytes: Bytes that a task may hold.

    Returns:
        How many rows were written; None if Spark's SQL has to do it.
    """
    if _size(task.history) > task_bytes or not comparable(task.layout, task.keys, ()):
        return None
    return _run(spark, task).rows


def comparable(layout: MergeLayout, keys: Sequence[int], compared: Sequence[int]) -> bool:
    """Tell whether Arrow compares these columns as Spark does.

    Its joins tell apart what is equal among floating numbers, and it compares nothing nested.
    """
    key_types = [layout.columns[position].field.type for position in keys]
    types = [layout.columns[position].field.type for position in (*keys, *compared)]
    return not (
        any(pa.types.is_floating(dtype) for dtype in key_types)
        or any(pa.types.is_nested(dtype) or pa.types.is_dictionary(dtype) for dtype in types)
    )


def _run(spark: "SparkSession", task: MergeTask | FoldTask) -> TaskResult:
    # As readers have their tasks run: what Java needs for it is loaded already.
    results: list[TaskResult]
    results = spark.sparkContext.parallelize([task], 1).mapPartitions(run_tasks).collect()
    return results[0]


def _size(paths: Sequence[str]) -> int:
    """Return about how many bytes the rows of Parquet files take in memory."""
    size = 0
    for path in paths:
        metadata = pq.read_metadata(path)
        size += sum(
            max(
                metadata.row_group(group).total_byte_size,
                metadata.row_group(group).num_rows * metadata.num_columns * _BYTES_PER_VALUE,
            )
            for group in range(metadata.num_row_groups)
        )
    return size

"""One round of new data for a root dataset: read, preprocess, merge."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from odf.engines.host.engine import Folding, IngestedRows, IngestJob, Reporter
from odf.engines.spark.collect import SMALL_ROWS, set_parallelism
from odf.engines.spark.halves import read_result, rows_as_read
from odf.engines.spark.merge.append import append
from odf.engines.spark.merge.changelog import changelog
from odf.engines.spark.merge.checks import warn_of_cut_digits
from odf.engines.spark.merge.context import MergeContext
from odf.engines.spark.merge.fold import FoldContext, fold
from odf.engines.spark.merge.layout import NewRows, make_layout, without_columns
from odf.engines.spark.merge.ledger import ledger
from odf.engines.spark.merge.snapshot import RetractGuard, snapshot
from odf.engines.spark.merge.streamed import append_streamed
from odf.engines.spark.merge.upsert import upsert
from odf.engines.spark.preprocess import preprocess
from odf.engines.spark.readers.csv_stream import CsvStream
from odf.engines.spark.readers.quarantine import open_quarantine
from odf.engines.spark.readers.read import read_files, stream_files
from odf.limits import MERGE_TASK_BYTES
from odf.metadata.model import (
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
)
from odf.protocol.calls import IngestHalf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ingest(
    spark: "SparkSession",
    job: IngestJob,
    report: Reporter,
    *,
    cores: int,
    task_bytes: int = MERGE_TASK_BYTES,
) -> IngestedRows:
    """Read, preprocess and merge source files (see `Engine.ingest`).

    Args:
        spark: A session of its own.
        job: What to do.
        report: Is told how it goes.
        cores: How many tasks run at once.
        task_bytes: Bytes of rows that one task may merge without Spark's SQL.
    """
    job.scratch.mkdir(parents=True, exist_ok=True)
    report.progress("read")
    if _may_stream(job):
        files = stream_files(spark, job, job.scratch / "stream")
        if files is not None:
            read_first = partial(_ingest, spark, job, report, cores, task_bytes)
            return _append_streamed(job, report, files, read_first)
    return _ingest(spark, job, report, cores, task_bytes)


def _may_stream(job: IngestJob) -> bool:
    """Tell whether rows go into the slice as they are read, with nothing to know about others."""
    is_append = isinstance(job.merge, MergeStrategyAppend) and job.half is IngestHalf.WHOLE
    return is_append and job.preprocess is None and job.quarantine_path is None


def _append_streamed(
    job: IngestJob,
    report: Reporter,
    files: tuple[CsvStream, NewRows],
    read_first: Callable[[], IngestedRows],
) -> IngestedRows:
    stream, columns = files
    _tell(columns, report)
    return append_streamed(
        stream,
        make_layout(columns, job.vocab, job.dataset_schema),
        job.source_event_time or job.system_time,
        report,
        otherwise=lambda: read_first().rows,
    )


def _ingest(
    spark: "SparkSession", job: IngestJob, report: Reporter, cores: int, task_bytes: int
) -> IngestedRows:
    quarantine = open_quarantine(job)
    if job.half is IngestHalf.MERGE:
        new = read_result(job.files, job.scratch / "result")
    else:
        new = read_files(spark, job, quarantine)
        _tell(new, report)
    if quarantine is not None and job.quarantine_path is not None:
        quarantine.check(job, new)
        quarantine.write(job.quarantine_path)
    if job.half is IngestHalf.READ:
        return rows_as_read(new) if quarantine is None else quarantine.kept(rows_as_read(new), job)
    if job.preprocess is not None and new.parts.schema.names:
        report.progress("preprocess", new.parts.rows)
        set_parallelism(spark, new.parts.rows, cores)
        new = preprocess(spark, new, job.preprocess, job.scratch / "preprocessed")
    report.progress("merge", new.parts.rows)
    if not new.parts.schema.names and job.dataset_schema is not None:
        new = without_columns(new, job.dataset_schema, job.vocab)
    takes_op = isinstance(job.merge, MergeStrategyChangelogStream | MergeStrategyUpsertStream)
    layout = make_layout(new, job.vocab, job.dataset_schema, takes_op=takes_op)
    warn_of_cut_digits(new, layout, report)
    rows = new.parts.rows + sum(pq.read_metadata(path).num_rows for path in job.history_paths)
    set_parallelism(spark, rows, cores)
    merge = MergeContext(
        spark,
        new,
        layout,
        job.history_paths,
        job.source_event_time or job.system_time,
        job.scratch,
        small=rows <= SMALL_ROWS,
        task_bytes=task_bytes,
    )
    merged = _merge(merge, job, report)
    if job.folding is not None and job.dataset_schema is not None:
        _fold(merge, job, job.folding, job.dataset_schema)
    return merged if quarantine is None else quarantine.kept(merged, job)


def _tell(new: NewRows, report: Reporter) -> None:
    for note in new.notes:
        report.warning(note)


def _fold(merge: MergeContext, job: IngestJob, wanted: Folding, schema: pa.Schema) -> None:
    if not isinstance(
        job.merge, MergeStrategyLedger | MergeStrategySnapshot | MergeStrategyUpsertStream
    ):
        return
    context = FoldContext(merge.spark, job.vocab, schema, job.scratch, merge.task_bytes)
    is_ledger = isinstance(job.merge, MergeStrategyLedger)
    fold(context, job.history_paths, wanted, job.merge.primary_key, keep_first=is_ledger)


def _merge(merge: MergeContext, job: IngestJob, report: Reporter) -> IngestedRows:
    match job.merge:
        case MergeStrategyAppend():
            return append(merge)
        case MergeStrategyLedger():
            return ledger(merge, job.merge)
        case MergeStrategySnapshot():
            guard = RetractGuard(
                job.allow_retract, job.max_retract_share, job.min_rows_for_retract_guard
            )
            return snapshot(merge, job.merge, guard)
        case MergeStrategyChangelogStream():
            return changelog(merge, job.merge, report)
        case MergeStrategyUpsertStream():
            return upsert(merge, job.merge)

"""One round of new data for a root dataset: read, preprocess, merge."""

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from odf.engines.host.engine import IngestedRows, IngestJob, Reporter
from odf.engines.spark.collect import SMALL_ROWS, set_parallelism
from odf.engines.spark.halves import read_result, rows_as_read
from odf.engines.spark.merge.append import append
from odf.engines.spark.merge.changelog import changelog
from odf.engines.spark.merge.checks import warn_of_cut_digits
from odf.engines.spark.merge.context import MergeContext
from odf.engines.spark.merge.layout import make_layout, without_columns
from odf.engines.spark.merge.ledger import ledger
from odf.engines.spark.merge.snapshot import RetractGuard, snapshot
from odf.engines.spark.merge.upsert import upsert
from odf.engines.spark.preprocess import preprocess
from odf.engines.spark.readers.read import read_files
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


def ingest(spark: "SparkSession", job: IngestJob, report: Reporter, *, cores: int) -> IngestedRows:
    """Read, preprocess and merge source files (see `Engine.ingest`).

    Args:
        spark: A session of its own.
        job: What to do.
        report: Is told how it goes.
        cores: How many tasks run at once.
    """
    job.scratch.mkdir(parents=True, exist_ok=True)
    report.progress("read")
    if job.half is IngestHalf.MERGE:
        new = read_result(job.files, job.scratch / "result")
    else:
        new = read_files(spark, job)
    if job.half is IngestHalf.READ:
        return rows_as_read(new)
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
    )
    return _merge(merge, job, report)


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

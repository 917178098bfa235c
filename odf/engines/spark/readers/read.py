"""One way into all readers: source files into rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from odf.engines.host.engine import IngestJob, SourceFile
from odf.engines.spark.merge.layout import NewRows
from odf.engines.spark.parts import Parts
from odf.engines.spark.readers.csv import (
    ORDINAL_BITS,
    CsvSource,
    CutInsideQuotes,
    infer_types,
    open_csv,
    read_csv,
)
from odf.engines.spark.readers.csv_cut import RANGE_SIZE
from odf.engines.spark.readers.csv_end import EndsUnended, Unended
from odf.engines.spark.readers.csv_errors import row_lines
from odf.engines.spark.readers.csv_format import parse_format
from odf.engines.spark.readers.csv_stream import CsvStream
from odf.engines.spark.readers.json import JsonSource, UnfitPiece, open_json, read_json
from odf.engines.spark.readers.json_format import JsonStep, parse_json_format
from odf.engines.spark.readers.known import KnownColumns
from odf.engines.spark.readers.parquet import open_parquet, read_parquet_files
from odf.engines.spark.readers.quarantine import Quarantine
from odf.errors import BadInputError
from odf.metadata.model import (
    ReadStepCsv,
    ReadStepParquet,
)
from odf.protocol.calls import IngestHalf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ORDINAL_MASK: Final = (1 << ORDINAL_BITS) - 1
_NO_ENDS: Final[Mapping[int, Unended]] = {}


@dataclass(frozen=True, slots=True)
class _CsvLabels:
    """Says where a row of some CSV files is."""

    source: CsvSource

    def __call__(self, rows: Sequence[int]) -> list[str]:
        return row_lines(self.source, [(row >> ORDINAL_BITS, row & _ORDINAL_MASK) for row in rows])


def read_files(
    spark: "SparkSession", job: IngestJob, quarantine: Quarantine | None = None
) -> NewRows:
    """Read the source files of an ingest.

    Args:
        spark: The session whose tasks do it.
        job: The files, the read step and a scratch folder, in which `read` must not exist yet.
        quarantine: Takes the rows that cannot be read; without it they are an error.

    Raises:
        BadInputError: The files cannot be read as the step says.
    """
    _refuse_empty(job.files, allow_empty=job.allow_empty)
    folder = job.scratch / "read"
    folder.mkdir()
    match job.read:
        case ReadStepCsv():
            return _read_csv(spark, job, job.read, folder, quarantine)
        case ReadStepParquet():
            return _read_parquet(spark, job, job.read, folder, quarantine)
        case step:
            return _read_json(spark, job, step, folder, quarantine)


def stream_files(
    spark: "SparkSession", job: IngestJob, folder: Path
) -> tuple[CsvStream, NewRows] | None:
    """Prepare to read source files while their rows are written, where that is worth it.

    Args:
        spark: The session whose tasks do it.
        job: The files and the read step.
        folder: For temporary files; it must not exist yet.

    Returns:
        The rows to come, and their columns without any rows; None for what is too small to be
        read in several pieces at once, and for other formats than CSV.

    Raises:
        BadInputError: The files cannot be read as the step says.
    """
    if not isinstance(job.read, ReadStepCsv):
        return None
    if sum(Path(file.path).stat().st_size for file in job.files) <= RANGE_SIZE:
        return None
    _refuse_empty(job.files, allow_empty=job.allow_empty)
    folder.mkdir()
    try:
        source = _open_csv(spark, job, job.read, folder, tolerant=False)
    except CutInsideQuotes:
        return None
    stored = _stored(source)
    columns = NewRows(Parts((), stored, 0), stored, _CsvLabels(source), source.notes())
    return CsvStream(spark, source, folder / "parts"), columns


def _read_csv(
    spark: "SparkSession",
    job: IngestJob,
    step: ReadStepCsv,
    folder: Path,
    quarantine: Quarantine | None,
) -> NewRows:
    tolerant, cut_quoted, ends = quarantine is not None, True, _NO_ENDS
    while True:
        try:
            source = _open_csv(
                spark, job, step, folder, tolerant=tolerant, cut_quoted=cut_quoted, ends=ends
            )
            parts = read_csv(spark, source, folder, quarantine)
        except CutInsideQuotes:
            cut_quoted = False
        except EndsUnended as found:
            ends = found.ends
        else:
            return NewRows(parts, _stored(source), _CsvLabels(source), source.notes())
        folder /= "again"
        folder.mkdir()


def _open_csv(
    spark: "SparkSession",
    job: IngestJob,
    step: ReadStepCsv,
    folder: Path,
    *,
    tolerant: bool,
    cut_quoted: bool = True,
    ends: Mapping[int, Unended] = _NO_ENDS,
) -> CsvSource:
    form = parse_format(step)
    source = open_csv(job.files, form, folder, cut_quoted=cut_quoted, ends=ends)
    if form.infers:
        source = infer_types(spark, source, _known_columns(job), tolerant=tolerant)
    return source


def _stored(source: CsvSource) -> pa.Schema:
    return pa.schema(
        [pa.field(column.name, column.stored, column.nullable) for column in source.columns]
    )


def _read_json(
    spark: "SparkSession",
    job: IngestJob,
    step: JsonStep,
    folder: Path,
    quarantine: Quarantine | None,
) -> NewRows:
    try:
        source = _open_json(spark, job, step, folder, tolerant=quarantine is not None)
        parts = read_json(spark, source, folder, quarantine)
    except UnfitPiece:
        whole = folder / "whole"
        whole.mkdir()
        source = _open_json(
            spark, job, step, whole, tolerant=quarantine is not None, cut_documents=False
        )
        parts = read_json(spark, source, whole, quarantine)
    stored = [pa.field(column.name, column.stored, column.nullable) for column in source.columns]
    return NewRows(parts, pa.schema(stored), source.labels, source.notes())


def _open_json(
    spark: "SparkSession",
    job: IngestJob,
    step: JsonStep,
    folder: Path,
    *,
    tolerant: bool,
    cut_documents: bool = True,
) -> JsonSource:
    return open_json(
        spark,
        job.files,
        parse_json_format(step),
        folder,
        _known_columns(job),
        tolerant=tolerant,
        cut_documents=cut_documents,
    )


def _read_parquet(
    spark: "SparkSession",
    job: IngestJob,
    step: ReadStepParquet,
    folder: Path,
    quarantine: Quarantine | None,
) -> NewRows:
    source = open_parquet(job.files, step, _known_columns(job))
    parts = read_parquet_files(spark, source, folder, quarantine)
    stored = [pa.field(column.name, column.stored, column.nullable) for column in source.columns]
    return NewRows(parts, pa.schema(stored), source.labels)


def _known_columns(job: IngestJob) -> KnownColumns:
    """Return the columns of the dataset, if the files are to have the same."""
    if job.preprocess is not None or job.half is not IngestHalf.WHOLE:
        return KnownColumns()
    vocab = job.vocab
    system = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
    schema = job.dataset_schema
    return KnownColumns.of(schema, (*system, vocab.event_time_column))


def _refuse_empty(files: Sequence[SourceFile], *, allow_empty: bool) -> None:
    empty = [file.name for file in files if Path(file.path).stat().st_size == 0]
    if empty and not allow_empty:
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        raise BadInputError(
            f"{empty[0]}{more} has no content at all (0 bytes); nothing was ingested",
            reason="empty_source",
            hint="look at the source; if this is right, accept it with --allow-empty",
            details={"files": empty},
        )

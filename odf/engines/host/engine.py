"""What an engine has to provide; the host does all the rest once for all engines.

An engine turns files into rows and rows into rows. It knows neither gRPC nor offsets nor slice
files: the host hands it parsed requests, and `odf.engines.host.finish` turns its `Rows` into a
slice. Engines report what is wrong with the user's part of the work by raising
`odf.errors.InvalidQueryError` (SQL that cannot be accepted) or `odf.errors.BadInputError` (source
data that cannot be taken); every other exception is a defect of the engine and reaches the user
as an internal error with its traceback in the log.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from odf.metadata.model import (
    DatasetVocabulary,
    MergeStrategy,
    ReadStep,
    Timestamp,
    TransformSql,
)
from odf.protocol.calls import IngestHalf

HIDDEN_PREFIX: Final = "__odf_"
"""How names of columns begin that no user may have."""

HIDDEN_BRANCH: Final = "__odf_branch"
"""Int32 column an engine may add to its rows: the branch of the union, as written, from 0."""

HIDDEN_OFFSET: Final = "__odf_offset"
"""Int64 column an engine may add to its rows: the offset of the input row a row came from."""


@dataclass(frozen=True, slots=True)
class InputWatermark:
    """A watermark of an input, in milliseconds since 1970.

    Attributes:
        system_time_ms: System time of the block that set it, cut to the millisecond.
        event_time_ms: No row with an event time up to this one is still to come.
    """

    system_time_ms: int
    event_time_ms: int


@dataclass(frozen=True, slots=True)
class InputView:
    """One input of a transformation, as the query sees it.

    Attributes:
        alias: Name of the view, exactly as queries write it.
        paths: Slice files in chain order. Empty if the input has no new rows.
        schema_path: A slice or an empty Parquet file that has the input's schema. Always given,
            so that an idle input still resolves in queries.
        vocab: Names of the system columns in these files, all four filled.
        offset_start: First offset that belongs to the operation, or None if there are no rows.
        offset_end: Last offset that belongs to it, inclusive, or None if there are no rows.
        watermarks: Those of the blocks of the operation, in chain order; an input without new
            blocks may repeat its last one.
        has_retractions: Whether the input's rows, later ones too, can hold operations other than
            append; None if nobody said.
    """

    alias: str
    paths: tuple[str, ...]
    schema_path: str
    vocab: DatasetVocabulary
    offset_start: int | None
    offset_end: int | None
    watermarks: tuple[InputWatermark, ...] = ()
    has_retractions: bool | None = None


def log_nothing(line: str) -> None:
    """Take a line of the log and forget it."""


@dataclass(frozen=True, slots=True)
class TransformJob:
    """One step of a derivative dataset.

    Attributes:
        transform: The query, with `queries` filled.
        inputs: The views it may use, in the order of the transform.
        vocab: Names of the system columns of the result, all four filled.
        scratch: A folder for temporary files, removed afterwards.
        prev_checkpoint: State that the engine left in the last step, or None if there is none.
        new_checkpoint: Where the engine writes its new state, or None if nobody wants it. An
            engine whose query keeps no state writes no file.
        log: Takes lines for the person who looks at the engine's log, for example how many rows
            came late.
    """

    transform: TransformSql
    inputs: tuple[InputView, ...]
    vocab: DatasetVocabulary
    scratch: Path
    prev_checkpoint: Path | None = None
    new_checkpoint: Path | None = None
    log: Callable[[str], None] = log_nothing


@dataclass(frozen=True, slots=True)
class Rows:
    """A result in its final order.

    Attributes:
        schema: The schema of every batch. May end with `HIDDEN_BRANCH` and `HIDDEN_OFFSET`.
        batches: The rows, read once. Errors of the computation may appear while it is read, and
            `StartOver`.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class StartOver(Exception):  # noqa: N818  # nothing went wrong
    """Raised by `Rows.batches`: the rows so far do not count, others take their place.

    So an engine can give out rows as it reads them although it finds out only at the end whether
    they come in order.

    Args:
        again: Gives the rows that count.
    """

    def __init__(self, again: Callable[[], Rows]) -> None:
        super().__init__("the rows start over")
        self.again = again


@dataclass(frozen=True, slots=True)
class ValidatedInput:
    """An input that a query is checked against.

    Attributes:
        alias: Name of the view, exactly as queries write it.
        schema: Schema of the input's slices, or None if it was never pulled: then only what the
            parsed query shows can be checked.
        has_retractions: Whether the input's rows can hold operations other than append.
        vocab: Names of the system columns in the schema, all four filled; None if they are those
            of the result.
    """

    alias: str
    schema: pa.Schema | None
    has_retractions: bool
    vocab: DatasetVocabulary | None = None


@dataclass(frozen=True, slots=True)
class QueryValidation:
    """What is known about a query that was accepted.

    Attributes:
        query_class: Which kind of query it is, for example `stateless`.
        output_schema: Schema of its result without system columns that the host adds; None if
            some input has no schema yet.
        warnings: One line each, for the person who adds the dataset.
        description: The kind in words, with what is kept between runs; empty if there is nothing
            to add to `query_class`.
    """

    query_class: str
    output_schema: pa.Schema | None
    warnings: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class Migration:
    """Whether the state of a query goes on with another query.

    Attributes:
        reason: Why it does not, or None if the checkpoint, as it is, goes on.
        discarded: Rows that are given up if it does not, by the state's tables.
    """

    reason: str | None
    discarded: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A prepared file of source data.

    Attributes:
        path: Where the engine reads it.
        name: What the user calls it; used in messages.
    """

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class Folding:
    """A stretch of the history to write anew as one file of the rows that still count.

    Attributes:
        first: Place of its first slice in the history.
        count: How many slices it has.
        output_path: Where the file goes. It can take the place of those slices in later jobs.
    """

    first: int
    count: int
    output_path: str


@dataclass(frozen=True, slots=True)
class IngestJob:
    """One round of new data for a root dataset: read, preprocess, merge.

    Attributes:
        dataset_alias: For messages and job names.
        files: The source files, in the order in which they count.
        read: How to parse them.
        preprocess: SQL over the view `input`, or None.
        merge: How the rows meet those that are already there.
        vocab: Names of the system columns, all four filled.
        system_time: The system time of the new rows.
        source_event_time: Fills empty event times, if known.
        next_offset: Offset of the first new row.
        dataset_schema: Schema of the existing slices, or None before the first data.
        history_paths: All existing slices in chain order, or files that an earlier `folding` made
            of some of them; only for merges that need them.
        output_path: Where the host will put the slice; engines do not write there.
        scratch: A folder for the engine's temporary files, removed afterwards.
        allow_retract: Whether a snapshot may lose any number of rows.
        allow_empty: Whether files without any content are accepted.
        max_retract_share: Share of the current rows that a snapshot may retract, 0 to 1.
        min_rows_for_retract_guard: Size of the current state from which that share counts.
        half: Which part of it to do. A half that only reads gives the rows as they are read; one
            that only merges finds plain Parquet in `files`, whatever `read` says.
        folding: What to make of the history besides, or None.
        quarantine_path: Where the engine writes down rows that cannot be read, to go on without
            them; None to stop at the first of them.
    """

    dataset_alias: str
    files: tuple[SourceFile, ...]
    read: ReadStep
    preprocess: TransformSql | None
    merge: MergeStrategy
    vocab: DatasetVocabulary
    system_time: Timestamp
    source_event_time: Timestamp | None
    next_offset: int
    dataset_schema: pa.Schema | None
    history_paths: tuple[str, ...]
    output_path: str
    scratch: Path
    allow_retract: bool
    allow_empty: bool
    max_retract_share: float
    min_rows_for_retract_guard: int
    half: IngestHalf = IngestHalf.WHOLE
    folding: Folding | None = None
    quarantine_path: str | None = None


@dataclass(frozen=True, slots=True)
class IngestedRows:
    """The new rows of a root dataset.

    The counts are final when the engine hands this over; the rows may still be computed while
    they are read.

    Attributes:
        rows: `op` (int32) first, the event time column filled (timestamp or date), then the data
            columns; ordered as the merge strategy demands; no offset and no system time. Of a
            half that only reads: the rows of the files in their order.
        rows_read: Rows found in the files, after preprocessing; None if these are the rows.
        keys_revised_ignored: Rows of a ledger whose key is known with other values.
        rows_unchanged: Rows that are already there and are therefore not written again.
        keys_known: Keys of a ledger's new rows that the history has already.
        bad_rows: Rows that were set aside in the job's quarantine.
    """

    rows: Rows
    rows_read: int | None
    keys_revised_ignored: int = 0
    rows_unchanged: int = 0
    keys_known: int = 0
    bad_rows: int = 0


ORIGINS: Final = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("input", pa.int32(), nullable=False),
        pa.field("input_offset", pa.int64(), nullable=False),
    ]
)
"""Where rows come from: position in the result, position among the inputs, offset there."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a step makes its rows, and of which rows of its inputs.

    Attributes:
        how: The query in words.
        columns: For each column of the result the columns of inputs that it is computed from, as
            names of view and column.
        origins: Batches of the schema `ORIGINS`, in the order of the result; read once.
    """

    how: str
    columns: Mapping[str, tuple[tuple[str, str], ...]]
    origins: Iterator[pa.RecordBatch]


class Reporter(Protocol):
    """Where an engine tells what it is doing. May be called from any thread."""

    def progress(self, stage: str, rows: int | None = None) -> None:
        """Say which stage was reached, with the number of rows if it is known."""
        ...

    def warning(self, message: str) -> None:
        """Say something that the user should know although the work goes on. One line."""
        ...


class Engine(Protocol):
    """A query engine behind the host.

    The host calls up to `operations` of the methods that work at a time, each in a thread of its
    own, and `ingest` and `rest` only while nothing else runs. Making an engine has to be quick:
    what takes time belongs into `warm_up`, so that the host can answer who it is at once.
    """

    @property
    def name(self) -> str:
        """Name as it is written in `transform.engine`, for example `spark`."""
        ...

    @property
    def release(self) -> str:
        """What `transform.version` pins, for example `odf-spark/1.0.0`."""
        ...

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of what the engine is made of, by name."""
        ...

    @property
    def operations(self) -> int:
        """How many operations it can do at once here, 1 or more; known before it is warm."""
        ...

    def warm_up(self) -> None:
        """Start what takes time, for example a Java process.

        Called once, in a thread of its own, as soon as the host can be reached and before any of
        the methods below. What it raises is the answer to every later call.
        """
        ...

    def validate(
        self,
        transform: TransformSql,
        inputs: Sequence[ValidatedInput],
        vocab: DatasetVocabulary,
        *,
        preprocess: bool,
    ) -> QueryValidation:
        """Check a query without running it.

        Args:
            transform: The query, with `queries` filled.
            inputs: The views it may use.
            vocab: Names of the system columns of the result, all four filled.
            preprocess: Whether it is the preprocess step of a root dataset (its result is then
                merged) rather than the transform of a derivative one.

        Raises:
            InvalidQueryError: If it cannot be accepted.
        """
        ...

    def transform(self, job: TransformJob) -> Rows:
        """Run the query of a derivative dataset over the new rows of its inputs.

        Args:
            job: What to do. The new state is written by the time the rows are exhausted.

        Returns:
            The user's columns in the order of the query, the operation column among them if the
            query selects it or the engine makes operations, and hidden columns where the engine
            knows them.

        Raises:
            InvalidQueryError: If the query cannot be accepted.
            BadInputError: If the last state cannot be read or belongs to another query.
        """
        ...

    def migrate(
        self,
        transform: TransformSql,
        inputs: Sequence[ValidatedInput],
        vocab: DatasetVocabulary,
        checkpoint: Path,
    ) -> Migration:
        """Say whether the state of the last step goes on with a query.

        An engine gives out what is complete in the step that completes it. So there is nothing
        more to get out of a state that does not go on: what it holds is what is not complete.

        Args:
            transform: The query, with `queries` filled.
            inputs: The views it may use, all with their schemas.
            vocab: Names of the system columns of the result, all four filled.
            checkpoint: The state.

        Raises:
            InvalidQueryError: If the query cannot be accepted.
            BadInputError: If the state cannot be read.
        """
        ...

    def provenance(self, job: TransformJob) -> Provenance:
        """Run a step again to say where its rows come from; no state is written.

        Args:
            job: The step.

        Raises:
            InvalidQueryError: If that cannot be told for this kind of query.
            BadInputError: If the last state cannot be read or belongs to another query.
        """
        ...

    def raw_query(self, transform: TransformSql, input_paths: Sequence[str], scratch: Path) -> Rows:
        """Run a query over plain Parquet files, which form the view `input`.

        Raises:
            InvalidQueryError: If the query cannot be accepted.
        """
        ...

    def ingest(self, job: IngestJob, report: Reporter) -> IngestedRows:
        """Read, preprocess and merge source files.

        Raises:
            BadInputError: If the data cannot be taken; `reason` is one of bad_rows, missing_key,
                null_key, duplicate_key, retract_guard, empty_source, schema, event_time,
                system_column, csv, json, parquet, unsupported.
            InvalidQueryError: If the preprocess query cannot be accepted.
        """
        ...

    def rest(self) -> None:
        """Give back memory that is not in use: nobody has asked for anything for a while."""
        ...

    def close(self) -> None:
        """Release everything. Called once, at the end, even if a call has not come back by then."""
        ...

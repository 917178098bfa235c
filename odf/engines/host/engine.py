"""What an engine has to provide; the host does all the rest once for all engines.

An engine turns files into rows and rows into rows. It knows neither gRPC nor offsets nor slice
files: the host hands it parsed requests, and `odf.engines.host.finish` turns its `Rows` into a
slice. Engines report what is wrong with the user's part of the work by raising
`odf.errors.InvalidQueryError` (SQL that cannot be accepted) or `odf.errors.BadInputError` (source
data that cannot be taken); every other exception is a defect of the engine and reaches the user
as an internal error with its traceback in the log.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    """

    alias: str
    paths: tuple[str, ...]
    schema_path: str
    vocab: DatasetVocabulary
    offset_start: int | None
    offset_end: int | None


@dataclass(frozen=True, slots=True)
class Rows:
    """A result in its final order.

    Attributes:
        schema: The schema of every batch. May end with `HIDDEN_BRANCH` and `HIDDEN_OFFSET`.
        batches: The rows, read once. Errors of the computation may appear while it is read.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class ValidatedInput:
    """An input that a query is checked against.

    Attributes:
        alias: Name of the view, exactly as queries write it.
        schema: Schema of the input's slices, or None if it was never pulled: then only what the
            parsed query shows can be checked.
        has_retractions: Whether the input's rows can hold operations other than append.
    """

    alias: str
    schema: pa.Schema | None
    has_retractions: bool


@dataclass(frozen=True, slots=True)
class QueryValidation:
    """What is known about a query that was accepted.

    Attributes:
        query_class: Which kind of query it is, for example `stateless`.
        output_schema: Schema of its result without system columns that the host adds; None if
            some input has no schema yet.
        warnings: One line each, for the person who adds the dataset.
    """

    query_class: str
    output_schema: pa.Schema | None
    warnings: tuple[str, ...] = ()


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
        history_paths: All existing slices in chain order; only for merges that need them.
        output_path: Where the host will put the slice; engines do not write there.
        scratch: A folder for the engine's temporary files, removed afterwards.
        allow_retract: Whether a snapshot may lose any number of rows.
        allow_empty: Whether files without any content are accepted.
        max_retract_share: Share of the current rows that a snapshot may retract, 0 to 1.
        min_rows_for_retract_guard: Size of the current state from which that share counts.
        half: Which part of it to do. A half that only reads gives the rows as they are read; one
            that only merges finds plain Parquet in `files`, whatever `read` says.
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


@dataclass(frozen=True, slots=True)
class IngestedRows:
    """The new rows of a root dataset.

    The counts are final when the engine hands this over; the rows may still be computed while
    they are read.

    Attributes:
        rows: `op` (int32) first, the event time column filled (timestamp or date), then the data
            columns; ordered as the merge strategy demands; no offset and no system time. Of a
            half that only reads: the rows of the files in their order.
        rows_read: Rows found in the files, after preprocessing.
        keys_revised_ignored: Rows of a ledger whose key is known with other values.
        rows_unchanged: Rows that are already there and are therefore not written again.
    """

    rows: Rows
    rows_read: int
    keys_revised_ignored: int = 0
    rows_unchanged: int = 0


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

    The host calls one method at a time, never two. Making an engine has to be quick: what takes
    time belongs into `warm_up`, so that the host can answer who it is at once.
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

    def transform(
        self,
        transform: TransformSql,
        inputs: Sequence[InputView],
        vocab: DatasetVocabulary,
        scratch: Path,
    ) -> Rows:
        """Run the query of a derivative dataset over the new rows of its inputs.

        Args:
            transform: The query, with `queries` filled.
            inputs: The views it may use.
            vocab: Names of the system columns of the result, all four filled.
            scratch: A folder for temporary files, removed afterwards.

        Returns:
            The user's columns in the order of the query, the operation column among them if the
            query selects it, and hidden columns where the engine knows them.

        Raises:
            InvalidQueryError: If the query cannot be accepted.
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

    def close(self) -> None:
        """Release everything. Called once, at the end, even if a call has not come back by then."""
        ...

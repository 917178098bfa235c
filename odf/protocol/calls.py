"""What the coordinator asks of an engine, with paths of its own side.

`odf.runtimes.client` turns a call into a message, after it has shown the files to the engine, and
the answer into an outcome, after it has taken the files back.
"""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    DatasetVocabulary,
    MergeStrategy,
    OffsetInterval,
    ReadStep,
    Timestamp,
    TransformSql,
)

if TYPE_CHECKING:  # messages are made when an engine is called
    from odf.protocol.messages import Watermark


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """Who serves.

    Attributes:
        protocol_version: Version of the private service.
        engine: Name as written in `transform.engine`.
        release: What `transform.version` pins.
        versions: Versions of what it is made of, by name.
        pid: Its process id as it sees it.
        operations: How many operations it does at once; further ones wait for their turn.
    """

    protocol_version: int
    engine: str
    release: str
    versions: dict[str, str]
    pid: int
    operations: int = 1


@dataclass(frozen=True, slots=True)
class QueryInput:
    """An input that a query is checked against.

    Attributes:
        alias: Name of the view.
        schema: Arrow Schema FlatBuffer as in `SetDataSchema`; None if it was never pulled.
        has_retractions: Whether its rows can hold operations other than append.
        vocab: Names of its system columns, all four filled; None if they are those of the result.
    """

    alias: str
    schema: bytes | None
    has_retractions: bool = False
    vocab: DatasetVocabulary | None = None


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """A query that was accepted.

    Attributes:
        query_class: Which kind it is, for example `stateless`.
        output_schema: Arrow Schema FlatBuffer of its result; None if unknown.
        warnings: One line each.
        description: The kind in words, with what is kept between runs; may be empty.
    """

    query_class: str
    output_schema: bytes | None
    warnings: tuple[str, ...]
    description: str = ""


@dataclass(frozen=True, slots=True)
class DiscardedRows:
    """Rows of a state that does not go on.

    Attributes:
        table: Which of its tables, for example `input-0`: what was kept of the first input.
        rows: How many they are.
    """

    table: str
    rows: int


@dataclass(frozen=True, slots=True)
class MigrationOutcome:
    """Whether the state of a query goes on with another query.

    Attributes:
        kept: Whether the checkpoint, as it is, goes on.
        reason: Why it does not; empty if it does.
        discarded: What is given up if it does not.
    """

    kept: bool
    reason: str = ""
    discarded: tuple[DiscardedRows, ...] = ()


@dataclass(frozen=True, slots=True)
class CallFile:
    """A source file.

    Attributes:
        path: Where it is.
        name: What the user calls it.
    """

    path: Path
    name: str


class IngestHalf(Enum):
    """Which part of an ingest to do: it is cut in two where another engine preprocesses.

    `READ` writes the rows as they are read to plain Parquet and merges nothing; `MERGE` takes
    plain Parquet, the result of the preprocess query, and merges it.
    """

    WHOLE = 0
    READ = 1
    MERGE = 2


@dataclass(frozen=True, slots=True)
class Folding:
    """A stretch of the history that the engine is to write anew, as one file.

    Attributes:
        first: Place of its first file in the history.
        count: How many files it has.
        output: Where the new file goes. Must not exist.
    """

    first: int
    count: int
    output: Path


@dataclass(frozen=True, slots=True)
class IngestCall:
    """One round of new data for a root dataset.

    Attributes:
        dataset_alias: For messages.
        files: In the order in which they count.
        read: How to parse them.
        preprocess: SQL over the view `input`, or None.
        merge: How new rows meet those that are there.
        vocab: Names of the system columns.
        system_time: System time of the new rows.
        source_event_time: Fills empty event times, if known.
        next_offset: Offset of the first new row.
        dataset_schema: Arrow Schema FlatBuffer of `SetDataSchema`, None before the first data.
        history: Existing slices in chain order, or files that the engine made of some of them, for
            merges that need them.
        output: Where the new slice goes. Must not exist.
        allow_retract: Whether a snapshot may lose any number of rows.
        allow_empty: Whether files without any content are accepted.
        max_retract_share: Share of the current rows that a snapshot may retract.
        min_rows_for_retract_guard: Size of the current state from which that share counts.
        half: Which part of it to do.
        folding: What to make of the history besides, or None.
        quarantine: Where rows that cannot be read are set aside, which must not exist; None to stop
            at the first of them.
    """

    dataset_alias: str
    files: tuple[CallFile, ...]
    read: ReadStep
    preprocess: TransformSql | None
    merge: MergeStrategy
    vocab: DatasetVocabulary
    system_time: Timestamp
    source_event_time: Timestamp | None
    next_offset: int
    dataset_schema: bytes | None
    history: tuple[Path, ...]
    output: Path
    allow_retract: bool = False
    allow_empty: bool = False
    max_retract_share: float = 0.5
    min_rows_for_retract_guard: int = 20
    half: IngestHalf = IngestHalf.WHOLE
    folding: Folding | None = None
    quarantine: Path | None = None


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """Rows of a slice by operation."""

    append: int = 0
    retract: int = 0
    correct_from: int = 0
    correct_to: int = 0

    @property
    def total(self) -> int:
        """Number of rows."""
        return self.append + self.retract + self.correct_from + self.correct_to


@dataclass(frozen=True, slots=True)
class IngestOutcome:
    """What a round of new data gave.

    Attributes:
        slice_path: The new slice, or None if there is nothing new; of a half that only reads, the
            rows as plain Parquet, or None if there are none.
        counts: Its rows by operation.
        rows_read: Rows found in the files, after preprocessing.
        keys_revised_ignored: Rows of a ledger whose key is known with other values.
        rows_unchanged: Rows that are already there.
        schema: Arrow Schema FlatBuffer of the slice, as it would be if there are no rows.
        folded: The file that was asked for with `folding`, if it was made.
        keys_known: Keys of a ledger's new rows that were there already.
        bad_rows: Rows that could not be read and were set aside.
        quarantine: The file that has them; None if there are none.
    """

    slice_path: Path | None
    counts: OperationCounts
    rows_read: int
    keys_revised_ignored: int
    rows_unchanged: int
    schema: bytes
    folded: Path | None = None
    keys_known: int = 0
    bad_rows: int = 0
    quarantine: Path | None = None


@dataclass(frozen=True, slots=True)
class EngineProgress:
    """An engine tells what it is doing.

    Attributes:
        stage: In a word.
        rows: How many rows it has got there with, if known.
    """

    stage: str
    rows: int | None


@dataclass(frozen=True, slots=True)
class EngineWarning:
    """Something that the user should know although the work goes on.

    Attributes:
        message: One line.
    """

    message: str


EngineEvent = EngineProgress | EngineWarning


@dataclass(frozen=True, slots=True)
class TransformCallInput:
    """One input of a transformation.

    Attributes:
        dataset_id: Its identity.
        dataset_alias: Its name, for messages.
        query_alias: Name of the view.
        vocab: Names of its system columns.
        offset_interval: The rows that belong to the operation, or None if there are none.
        data: The slices that hold them, in chain order.
        schema_file: A slice or an empty Parquet file with its schema.
        explicit_watermarks: One for each data event with a watermark in the operation, in chain
            order; the coordinator repeats the last one of an idle input.
        has_retractions: Whether its rows, later ones too, can hold operations other than append;
            None if nobody knows. Told in `RETRACTIONS_HEADER`, the request has no place for it.
    """

    dataset_id: DatasetID
    dataset_alias: DatasetAlias
    query_alias: str
    vocab: DatasetVocabulary
    offset_interval: OffsetInterval | None
    data: tuple[Path, ...]
    schema_file: Path
    explicit_watermarks: "tuple[Watermark, ...]"
    has_retractions: bool | None = None


@dataclass(frozen=True, slots=True)
class TransformCall:
    """One step of a derivative dataset.

    Attributes:
        dataset_id: Its identity.
        dataset_alias: Its name, for messages.
        system_time: System time of the new rows.
        vocab: Names of the system columns.
        transform: The query, with `queries` filled.
        inputs: In the order of the transform.
        next_offset: Offset of the first new row.
        output: Where the new slice goes. Must not exist.
        prev_checkpoint: State of the last step, for engines that keep one.
        new_checkpoint: Where the new state goes. Must not exist. None if none is wanted.
    """

    dataset_id: DatasetID
    dataset_alias: DatasetAlias
    system_time: Timestamp
    vocab: DatasetVocabulary
    transform: TransformSql
    inputs: tuple[TransformCallInput, ...]
    next_offset: int
    output: Path
    prev_checkpoint: Path | None = None
    new_checkpoint: Path | None = None


@dataclass(frozen=True, slots=True)
class TransformOutcome:
    """What a step gave.

    Attributes:
        slice_path: The new slice, or None if there are no rows.
        offset_interval: Its offsets, inclusive; None exactly if there is no slice.
        watermark: The new watermark, or None if some input has none.
        checkpoint: The new state, or None if the engine keeps none.
    """

    slice_path: Path | None
    offset_interval: OffsetInterval | None
    watermark: Timestamp | None
    checkpoint: Path | None


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A column of an input.

    Attributes:
        input: Name of the view.
        column: Name of the column.
    """

    input: str
    column: str


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """What a column of a result is computed from.

    Attributes:
        column: Its name.
        sources: Columns of inputs; none for a constant.
    """

    column: str
    sources: tuple[InputColumn, ...]


@dataclass(frozen=True, slots=True)
class ProvenanceOutcome:
    """Where the rows of a step come from.

    Attributes:
        how: The query in words.
        columns: What its columns are computed from, in the order of the query.
        rows: A Parquet file with the columns `offset` (of the row), `input` (position among the
            inputs) and `input_offset`; several rows for a row that comes from several. None if
            the step has no rows.
    """

    how: str
    columns: tuple[ColumnOrigin, ...]
    rows: Path | None


@dataclass(frozen=True, slots=True)
class RawQueryCall:
    """A query over plain Parquet files, which form the view `input`.

    Attributes:
        inputs: The files, in their order.
        transform: The query, with `queries` filled.
        output: Where the result goes. Must not exist.
    """

    inputs: tuple[Path, ...]
    transform: TransformSql
    output: Path


@dataclass(frozen=True, slots=True)
class RawQueryOutcome:
    """The result of a raw query.

    Attributes:
        output: The file, or None if the engine wrote none because there are no rows.
        num_records: Its rows.
    """

    output: Path | None
    num_records: int

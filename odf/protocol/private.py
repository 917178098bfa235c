"""The messages of our hosts' private service, as types on both ends.

Each type has `to_proto` and `from_proto`; nothing else touches the generated classes of
`host.proto`. Parts of the model travel as their JSON form, schemas as Arrow Schema FlatBuffers.
"""

import json
from dataclasses import dataclass
from typing import Any, Self

from odf.errors import BadInputError, InvalidQueryError
from odf.metadata.json import from_json, to_json
from odf.metadata.model import (
    DatasetVocabulary,
    MergeStrategy,
    ReadStep,
    Timestamp,
    Transform,
    TransformSql,
)
from odf.protocol import host_pb2 as wire
from odf.protocol.calls import (
    ColumnOrigin,
    DiscardedRows,
    EngineDescription,
    EngineEvent,
    EngineProgress,
    EngineWarning,
    IngestHalf,
    InputColumn,
    MigrationOutcome,
    OperationCounts,
    QueryInput,
    QueryOutcome,
)
from odf.protocol.messages import from_bytes, to_bytes


@dataclass(frozen=True, slots=True)
class ValidateRequest:
    """Check a query. See `Engine.validate`."""

    transform: TransformSql
    inputs: tuple[QueryInput, ...]
    vocab: DatasetVocabulary
    preprocess: bool

    def to_proto(self) -> wire.ValidateQueryRequest:
        """Return the message."""
        return wire.ValidateQueryRequest(
            transform=to_bytes(self.transform),
            inputs=[_input_to_proto(view) for view in self.inputs],
            vocab=_vocab_to_proto(self.vocab),
            preprocess=self.preprocess,
        )

    @classmethod
    def from_proto(cls, message: wire.ValidateQueryRequest) -> Self:
        """Read the message."""
        return cls(
            transform=from_bytes(TransformSql, message.transform),
            inputs=tuple(_input_from_proto(view) for view in message.inputs),
            vocab=_vocab_from_proto(message.vocab),
            preprocess=message.preprocess,
        )


def validation_to_proto(outcome: QueryOutcome | InvalidQueryError) -> wire.ValidateQueryResponse:
    """Return the answer about a query, accepted or not."""
    if isinstance(outcome, InvalidQueryError):
        return wire.ValidateQueryResponse(
            valid=False, message=outcome.message, hint=outcome.hint or ""
        )
    return wire.ValidateQueryResponse(
        valid=True,
        query_class=outcome.query_class,
        output_schema=outcome.output_schema or b"",
        warnings=outcome.warnings,
        description=outcome.description,
    )


def validation_from_proto(message: wire.ValidateQueryResponse) -> QueryOutcome | InvalidQueryError:
    """Read the answer about a query."""
    if not message.valid:
        return InvalidQueryError(message.message, hint=message.hint or None)
    return QueryOutcome(
        message.query_class,
        message.output_schema or None,
        tuple(message.warnings),
        message.description,
    )


@dataclass(frozen=True, slots=True)
class MigrateRequest:
    """Ask whether a state goes on with a query; the path is the engine's. See `Engine.migrate`."""

    transform: TransformSql
    inputs: tuple[QueryInput, ...]
    vocab: DatasetVocabulary
    checkpoint_path: str

    def to_proto(self) -> wire.MigrateQueryRequest:
        """Return the message."""
        return wire.MigrateQueryRequest(
            transform=to_bytes(self.transform),
            inputs=[_input_to_proto(view) for view in self.inputs],
            vocab=_vocab_to_proto(self.vocab),
            checkpoint_path=self.checkpoint_path,
        )

    @classmethod
    def from_proto(cls, message: wire.MigrateQueryRequest) -> Self:
        """Read the message."""
        return cls(
            transform=from_bytes(TransformSql, message.transform),
            inputs=tuple(_input_from_proto(view) for view in message.inputs),
            vocab=_vocab_from_proto(message.vocab),
            checkpoint_path=message.checkpoint_path,
        )


MigrateAnswer = MigrationOutcome | InvalidQueryError | BadInputError


def migration_to_proto(answer: MigrateAnswer) -> wire.MigrateQueryResponse:
    """Return the answer about a state."""
    match answer:
        case MigrationOutcome():
            migration = wire.Migration(
                kept=answer.kept,
                reason=answer.reason,
                discarded=[
                    wire.DiscardedRows(table=lost.table, rows=lost.rows)
                    for lost in answer.discarded
                ],
            )
            return wire.MigrateQueryResponse(migration=migration)
        case InvalidQueryError():
            return wire.MigrateQueryResponse(invalid_query=_invalid_to_proto(answer))
        case BadInputError():
            return wire.MigrateQueryResponse(bad_input=_bad_to_proto(answer))


def migration_from_proto(message: wire.MigrateQueryResponse) -> MigrateAnswer | None:
    """Read the answer about a state; None if it is of no known kind."""
    match message.WhichOneof("answer"):
        case "migration":
            found = message.migration
            discarded = tuple(DiscardedRows(lost.table, lost.rows) for lost in found.discarded)
            return MigrationOutcome(found.kept, found.reason, discarded)
        case "invalid_query":
            return _invalid_from_proto(message.invalid_query)
        case "bad_input":
            return _bad_from_proto(message.bad_input)
    return None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a step makes its rows; which rows of the inputs they come from is in a file beside."""

    how: str
    columns: tuple[ColumnOrigin, ...]


ProvenanceAnswer = Explanation | InvalidQueryError | BadInputError


def provenance_to_proto(answer: ProvenanceAnswer) -> wire.DeriveProvenanceResponse:
    """Return the answer about the origin of rows."""
    match answer:
        case Explanation():
            columns = [
                wire.ColumnOrigin(
                    column=origin.column,
                    sources=[
                        wire.InputColumn(input=source.input, column=source.column)
                        for source in origin.sources
                    ],
                )
                for origin in answer.columns
            ]
            found = wire.Provenance(how=answer.how, columns=columns)
            return wire.DeriveProvenanceResponse(provenance=found)
        case InvalidQueryError():
            return wire.DeriveProvenanceResponse(invalid_query=_invalid_to_proto(answer))
        case BadInputError():
            return wire.DeriveProvenanceResponse(bad_input=_bad_to_proto(answer))


def provenance_from_proto(message: wire.DeriveProvenanceResponse) -> ProvenanceAnswer | None:
    """Read the answer about the origin of rows; None if it is of no known kind."""
    match message.WhichOneof("answer"):
        case "provenance":
            columns = tuple(
                ColumnOrigin(
                    origin.column,
                    tuple(InputColumn(source.input, source.column) for source in origin.sources),
                )
                for origin in message.provenance.columns
            )
            return Explanation(message.provenance.how, columns)
        case "invalid_query":
            return _invalid_from_proto(message.invalid_query)
        case "bad_input":
            return _bad_from_proto(message.bad_input)
    return None


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A source file: where the engine finds it, and what the user calls it."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class RequestFolding:
    """A stretch of the history to write anew; the path is the engine's."""

    first: int
    count: int
    output_path: str


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """One round of new data; paths are the engine's. See `odf.protocol.calls.IngestCall`."""

    dataset_alias: str
    files: tuple[RequestFile, ...]
    read: ReadStep
    preprocess: TransformSql | None
    merge: MergeStrategy
    vocab: DatasetVocabulary
    system_time: Timestamp
    source_event_time: Timestamp | None
    next_offset: int
    dataset_schema: bytes | None
    history_paths: tuple[str, ...]
    output_path: str
    scratch_path: str
    allow_retract: bool
    allow_empty: bool
    max_retract_share: float
    min_rows_for_retract_guard: int
    half: IngestHalf
    folding: RequestFolding | None = None
    quarantine_path: str | None = None

    def to_proto(self) -> wire.IngestRequest:
        """Return the message."""
        fallback = self.source_event_time
        return wire.IngestRequest(
            dataset_alias=self.dataset_alias,
            files=[wire.File(path=file.path, name=file.name) for file in self.files],
            read_json=_to_text(self.read),
            preprocess_json="" if self.preprocess is None else _to_text(self.preprocess),
            merge_json=_to_text(self.merge),
            vocab=_vocab_to_proto(self.vocab),
            system_time_ms=self.system_time.epoch_ms,
            source_event_time_ms=None if fallback is None else fallback.epoch_ms,
            next_offset=self.next_offset,
            dataset_schema=self.dataset_schema,
            history_paths=self.history_paths,
            output_path=self.output_path,
            scratch_path=self.scratch_path,
            allow_retract=self.allow_retract,
            allow_empty=self.allow_empty,
            max_retract_share=self.max_retract_share,
            min_rows_for_retract_guard=self.min_rows_for_retract_guard,
            half=wire.IngestHalf.Name(self.half.value),
            folding=_folding_to_proto(self.folding),
            quarantine_path=self.quarantine_path,
        )

    @classmethod
    def from_proto(cls, message: wire.IngestRequest) -> Self:
        """Read the message."""
        fallback = None
        if message.HasField("source_event_time_ms"):
            fallback = Timestamp.from_epoch_ms(message.source_event_time_ms)
        preprocess = message.preprocess_json
        return cls(
            dataset_alias=message.dataset_alias,
            files=tuple(RequestFile(file.path, file.name) for file in message.files),
            read=_from_text(message.read_json, ReadStep),
            preprocess=_from_text(preprocess, Transform) if preprocess else None,
            merge=_from_text(message.merge_json, MergeStrategy),
            vocab=_vocab_from_proto(message.vocab),
            system_time=Timestamp.from_epoch_ms(message.system_time_ms),
            source_event_time=fallback,
            next_offset=message.next_offset,
            dataset_schema=(message.dataset_schema if message.HasField("dataset_schema") else None),
            history_paths=tuple(message.history_paths),
            output_path=message.output_path,
            scratch_path=message.scratch_path,
            allow_retract=message.allow_retract,
            allow_empty=message.allow_empty,
            max_retract_share=message.max_retract_share,
            min_rows_for_retract_guard=message.min_rows_for_retract_guard,
            half=IngestHalf(message.half),
            folding=_folding_from_proto(message),
            quarantine_path=(
                message.quarantine_path if message.HasField("quarantine_path") else None
            ),
        )


def _folding_to_proto(folding: RequestFolding | None) -> wire.Folding | None:
    if folding is None:
        return None
    return wire.Folding(first=folding.first, count=folding.count, output_path=folding.output_path)


def _folding_from_proto(message: wire.IngestRequest) -> RequestFolding | None:
    if not message.HasField("folding"):
        return None
    folding = message.folding
    return RequestFolding(folding.first, folding.count, folding.output_path)


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What a round of new data gave. See `odf.protocol.calls.IngestOutcome`."""

    counts: OperationCounts
    rows_read: int
    keys_revised_ignored: int
    rows_unchanged: int
    schema: bytes
    keys_known: int = 0
    bad_rows: int = 0


@dataclass(frozen=True, slots=True)
class InternalFailure:
    """A defect of the engine, with its traceback."""

    message: str
    backtrace: str


IngestMessage = EngineEvent | IngestResult | BadInputError | InvalidQueryError | InternalFailure


def ingest_event_to_proto(event: IngestMessage) -> wire.IngestEvent:
    """Return one message of the stream that answers an ingest."""
    match event:
        case EngineProgress():
            return wire.IngestEvent(progress=wire.Progress(stage=event.stage, rows=event.rows))
        case EngineWarning():
            return wire.IngestEvent(warning=wire.Notice(message=event.message))
        case IngestResult():
            return wire.IngestEvent(result=_result_to_proto(event))
        case BadInputError():
            return wire.IngestEvent(bad_input=_bad_to_proto(event))
        case InvalidQueryError():
            return wire.IngestEvent(invalid_query=_invalid_to_proto(event))
        case InternalFailure():
            failure = wire.InternalError(message=event.message, backtrace=event.backtrace)
            return wire.IngestEvent(internal_error=failure)


def ingest_event_from_proto(message: wire.IngestEvent) -> IngestMessage | None:
    """Read one message of that stream; None if it is of no known kind."""
    match message.WhichOneof("event"):
        case "progress":
            rows = message.progress.rows if message.progress.HasField("rows") else None
            return EngineProgress(message.progress.stage, rows)
        case "warning":
            return EngineWarning(message.warning.message)
        case "result":
            return _result_from_proto(message.result)
        case "bad_input":
            return _bad_from_proto(message.bad_input)
        case "invalid_query":
            return _invalid_from_proto(message.invalid_query)
        case "internal_error":
            failure = message.internal_error
            return InternalFailure(failure.message, failure.backtrace)
    return None


def description_to_proto(description: EngineDescription) -> wire.Description:
    """Return the answer to `Describe`."""
    return wire.Description(
        protocol_version=description.protocol_version,
        engine=description.engine,
        release=description.release,
        versions=description.versions,
        pid=description.pid,
        operations=description.operations,
    )


def description_from_proto(message: wire.Description) -> EngineDescription:
    """Read the answer to `Describe`."""
    return EngineDescription(
        protocol_version=message.protocol_version,
        engine=message.engine,
        release=message.release,
        versions=dict(message.versions),
        pid=message.pid,
        operations=max(message.operations, 1),
    )


def _result_to_proto(result: IngestResult) -> wire.IngestResult:
    counts = result.counts
    return wire.IngestResult(
        num_records=counts.total,
        rows_read=result.rows_read,
        appended=counts.append,
        retracted=counts.retract,
        corrected_from=counts.correct_from,
        corrected_to=counts.correct_to,
        keys_revised_ignored=result.keys_revised_ignored,
        rows_unchanged=result.rows_unchanged,
        schema=result.schema,
        keys_known=result.keys_known,
        bad_rows=result.bad_rows,
    )


def _result_from_proto(message: wire.IngestResult) -> IngestResult:
    counts = OperationCounts(
        append=message.appended,
        retract=message.retracted,
        correct_from=message.corrected_from,
        correct_to=message.corrected_to,
    )
    return IngestResult(
        counts=counts,
        rows_read=message.rows_read,
        keys_revised_ignored=message.keys_revised_ignored,
        rows_unchanged=message.rows_unchanged,
        schema=message.schema,
        keys_known=message.keys_known,
        bad_rows=message.bad_rows,
    )


def _input_to_proto(view: QueryInput) -> wire.QueryInput:
    return wire.QueryInput(
        alias=view.alias,
        has_schema=view.schema is not None,
        arrow_schema=view.schema or b"",
        has_retractions=view.has_retractions,
        vocab=None if view.vocab is None else _vocab_to_proto(view.vocab),
    )


def _input_from_proto(view: wire.QueryInput) -> QueryInput:
    return QueryInput(
        alias=view.alias,
        schema=view.arrow_schema if view.has_schema else None,
        has_retractions=view.has_retractions,
        vocab=_vocab_from_proto(view.vocab) if view.HasField("vocab") else None,
    )


def _bad_to_proto(error: BadInputError) -> wire.BadInput:
    return wire.BadInput(
        reason=error.reason, message=error.message, hint=error.hint or "", problems=error.problems
    )


def _bad_from_proto(bad: wire.BadInput) -> BadInputError:
    return BadInputError(
        bad.message, reason=bad.reason, problems=tuple(bad.problems), hint=bad.hint or None
    )


def _invalid_to_proto(error: InvalidQueryError) -> wire.InvalidQuery:
    return wire.InvalidQuery(message=error.message, hint=error.hint or "")


def _invalid_from_proto(invalid: wire.InvalidQuery) -> InvalidQueryError:
    return InvalidQueryError(invalid.message, hint=invalid.hint or None)


def _vocab_to_proto(vocab: DatasetVocabulary) -> wire.Vocabulary:
    return wire.Vocabulary(
        offset=vocab.offset_column,
        operation_type=vocab.operation_type_column,
        system_time=vocab.system_time_column,
        event_time=vocab.event_time_column,
    )


def _vocab_from_proto(message: wire.Vocabulary) -> DatasetVocabulary:
    return DatasetVocabulary(
        offset_column=message.offset,
        operation_type_column=message.operation_type,
        system_time_column=message.system_time,
        event_time_column=message.event_time,
    )


def _to_text(value: object) -> str:
    return json.dumps(to_json(value), ensure_ascii=False)


def _from_text(text: str, kind: Any) -> Any:
    return from_json(kind, json.loads(text), source="request")

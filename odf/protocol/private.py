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
    EngineDescription,
    EngineEvent,
    EngineProgress,
    EngineWarning,
    IngestHalf,
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
            inputs=[
                wire.QueryInput(
                    alias=view.alias,
                    has_schema=view.schema is not None,
                    arrow_schema=view.schema or b"",
                    has_retractions=view.has_retractions,
                )
                for view in self.inputs
            ],
            vocab=_vocab_to_proto(self.vocab),
            preprocess=self.preprocess,
        )

    @classmethod
    def from_proto(cls, message: wire.ValidateQueryRequest) -> Self:
        """Read the message."""
        return cls(
            transform=from_bytes(TransformSql, message.transform),
            inputs=tuple(
                QueryInput(
                    alias=view.alias,
                    schema=view.arrow_schema if view.has_schema else None,
                    has_retractions=view.has_retractions,
                )
                for view in message.inputs
            ),
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
    )


def validation_from_proto(message: wire.ValidateQueryResponse) -> QueryOutcome | InvalidQueryError:
    """Read the answer about a query."""
    if not message.valid:
        return InvalidQueryError(message.message, hint=message.hint or None)
    return QueryOutcome(message.query_class, message.output_schema or None, tuple(message.warnings))


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A source file: where the engine finds it, and what the user calls it."""

    path: str
    name: str


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
        )


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What a round of new data gave. See `odf.protocol.calls.IngestOutcome`."""

    counts: OperationCounts
    rows_read: int
    keys_revised_ignored: int
    rows_unchanged: int
    schema: bytes


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
            bad = wire.BadInput(
                reason=event.reason,
                message=event.message,
                hint=event.hint or "",
                problems=event.problems,
            )
            return wire.IngestEvent(bad_input=bad)
        case InvalidQueryError():
            invalid = wire.InvalidQuery(message=event.message, hint=event.hint or "")
            return wire.IngestEvent(invalid_query=invalid)
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
            bad = message.bad_input
            return BadInputError(
                bad.message, reason=bad.reason, problems=tuple(bad.problems), hint=bad.hint or None
            )
        case "invalid_query":
            invalid = message.invalid_query
            return InvalidQueryError(invalid.message, hint=invalid.hint or None)
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
    )


def description_from_proto(message: wire.Description) -> EngineDescription:
    """Read the answer to `Describe`."""
    return EngineDescription(
        protocol_version=message.protocol_version,
        engine=message.engine,
        release=message.release,
        versions=dict(message.versions),
        pid=message.pid,
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
    )


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

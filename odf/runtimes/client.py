"""The coordinator's end of the wire: calls in, outcomes out, every failure an `OdfError`.

Calls have no deadline: how long a query takes is the user's business. What an engine sends is
never trusted: its files are taken through `Exchange`, its texts are made printable, and answers
that break the protocol are errors. Slices themselves are checked by who commits them.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

import grpc

from odf.errors import (
    BadInputError,
    EngineError,
    EngineUnavailableError,
    InvalidQueryError,
    OdfError,
)
from odf.limits import ENGINE_START_SECONDS, MAX_ENGINE_MESSAGE
from odf.metadata.model import DatasetVocabulary, OffsetInterval, TransformSql
from odf.protocol import (
    PROTOCOL_VERSION,
    engine_pb2,
    engine_pb2_grpc,
    host_pb2,
    host_pb2_grpc,
)
from odf.protocol.calls import (
    ColumnOrigin,
    DiscardedRows,
    EngineDescription,
    EngineEvent,
    EngineProgress,
    EngineWarning,
    IngestCall,
    IngestOutcome,
    InputColumn,
    MigrationOutcome,
    ProvenanceOutcome,
    QueryInput,
    QueryOutcome,
    RawQueryCall,
    RawQueryOutcome,
    TransformCall,
    TransformOutcome,
)
from odf.protocol.messages import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
    RawQueryResponseRoot,
    RawQueryResponseSuccess,
    TransformRequest,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
    TransformResponseRoot,
    TransformResponseSuccess,
    from_bytes,
    to_bytes,
)
from odf.protocol.private import (
    Explanation,
    IngestResult,
    InternalFailure,
    MigrateRequest,
    ValidateRequest,
    description_from_proto,
    ingest_event_from_proto,
    migration_from_proto,
    provenance_from_proto,
    validation_from_proto,
)
from odf.runtimes.child import Obituary
from odf.runtimes.exchange import Exchange, Operation
from odf.runtimes.requests import (
    CHECKPOINT,
    FOLDED,
    OUTPUT,
    QUARANTINE,
    headers,
    ingest_request,
    show_all,
    transform_request,
)
from odf.runtimes.text import printable

OnEvent = Callable[[EngineEvent], None]

Running = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""Told how to end a call, for as long as the call runs."""


class Link(Protocol):
    """A connection to an engine, and news of its end."""

    @property
    def channel(self) -> grpc.Channel:
        """The gRPC channel."""
        ...

    @property
    def log(self) -> Path | None:
        """The engine's log, if it has one of its own."""
        ...

    def obituary(self) -> Obituary | None:
        """Say how the engine ended, or None if it lives."""
        ...


class GrpcLink:
    """A connection over a Unix socket to a child process.

    Args:
        socket: Where the engine serves.
        mourner: Knows how the process behind it ended.
    """

    def __init__(self, socket: Path, mourner: "Mourner | None" = None) -> None:
        self._mourner = mourner
        self.channel = grpc.insecure_channel(
            f"unix:{socket}",
            options=[
                ("grpc.max_receive_message_length", MAX_ENGINE_MESSAGE),
                ("grpc.max_send_message_length", MAX_ENGINE_MESSAGE),
                ("grpc.enable_http_proxy", 0),
            ],
        )

    @property
    def log(self) -> Path | None:
        """The engine's log, if it has one of its own."""
        return None if self._mourner is None else self._mourner.log

    def obituary(self) -> Obituary | None:
        """Say how the engine ended, or None if it lives or nobody can know."""
        return None if self._mourner is None else self._mourner.obituary()

    def close(self) -> None:
        """Close the connection; running calls end."""
        self.channel.close()


class Mourner(Protocol):
    """Someone who knows how an engine ended."""

    @property
    def log(self) -> Path:
        """The engine's log."""
        ...

    def obituary(self) -> Obituary | None:
        """See `EngineProcess.obituary`."""
        ...


class EngineClient:
    """Speaks to one engine.

    Args:
        link: The connection.
        exchange: The folders that both sides see.
    """

    def __init__(self, link: Link, exchange: Exchange) -> None:
        self.versions: Mapping[str, str] = {}
        """What the engine is made of, as far as it was asked."""
        self._link = link
        self._exchange = exchange
        self._engine: Any = engine_pb2_grpc.EngineStub(link.channel)  # type: ignore[no-untyped-call]
        self._host: Any = host_pb2_grpc.HostStub(link.channel)  # type: ignore[no-untyped-call]

    def describe(self, seconds: float = ENGINE_START_SECONDS) -> EngineDescription:
        """Ask who serves; answered before the engine is warm.

        Args:
            seconds: How long the answer may take.

        Raises:
            EngineError: If nobody answers.
        """
        with self._speaking("it was asked who it is"):
            # The one call with a deadline: the answer depends on nothing that takes time.
            answer = self._host.Describe(host_pb2.DescribeRequest(), timeout=seconds)
        return description_from_proto(answer)

    def check_version(self, seconds: float = ENGINE_START_SECONDS) -> None:
        """Make sure that both ends ship together.

        Args:
            seconds: How long the engine may take to say who it is.

        Raises:
            EngineUnavailableError: If they do not.
        """
        try:
            found = self.describe(seconds)
        except EngineError as error:
            raise EngineUnavailableError(
                error.message, hint=error.hint, details=error.details
            ) from error
        self.versions = found.versions
        if found.protocol_version != PROTOCOL_VERSION:
            raise EngineUnavailableError(
                f"the engine {printable(found.release)} speaks version {found.protocol_version} of "
                f"the host protocol, wanted {PROTOCOL_VERSION}",
                hint="Install the engine and the coordinator from the same release.",
            )

    def validate_query(
        self,
        transform: TransformSql,
        inputs: Sequence[QueryInput],
        vocab: DatasetVocabulary,
        *,
        preprocess: bool = False,
    ) -> QueryOutcome:
        """Check a query without running it.

        Args:
            transform: The query, with `queries` filled.
            inputs: The views it may use.
            vocab: Names of the system columns of the result.
            preprocess: Whether it is the preprocess step of a root dataset.

        Raises:
            InvalidQueryError: If it cannot be accepted.
            EngineError: If the engine fails.
        """
        request = ValidateRequest(transform, tuple(inputs), vocab, preprocess)
        with self._speaking("it checked a query"):
            answer = self._host.ValidateQuery(request.to_proto())
        outcome = validation_from_proto(answer)
        if isinstance(outcome, InvalidQueryError):
            raise _printable_query_error(outcome)
        return QueryOutcome(
            printable(outcome.query_class),
            outcome.output_schema,
            tuple(printable(line) for line in outcome.warnings),
            printable(outcome.description),
        )

    def migrate_query(
        self,
        transform: TransformSql,
        inputs: Sequence[QueryInput],
        vocab: DatasetVocabulary,
        checkpoint: Path,
    ) -> MigrationOutcome:
        """Ask whether the state of the last step goes on with a query that was changed.

        If it does not, the next step starts without a state.

        Args:
            transform: The query that is to go on, with `queries` filled.
            inputs: The views it may use, all with their schemas.
            vocab: Names of the system columns of the result.
            checkpoint: The state.

        Raises:
            InvalidQueryError: If the query cannot be accepted.
            BadInputError: If the state cannot be read.
            EngineError: If the engine fails.
        """
        what = "it looked at the state of a query"
        with self._exchange.operation() as operation:
            path = operation.add_input(checkpoint, "prev-checkpoint")
            request = MigrateRequest(transform, tuple(inputs), vocab, path)
            with self._speaking(what):
                answer = migration_from_proto(self._host.MigrateQuery(request.to_proto()))
        if answer is None:
            raise _unanswered(what)
        if not isinstance(answer, MigrationOutcome):
            self._raise_failure(answer, what)
        discarded = tuple(
            DiscardedRows(printable(lost.table), lost.rows) for lost in answer.discarded
        )
        return MigrationOutcome(answer.kept, printable(answer.reason), discarded)

    def ingest(self, call: IngestCall, on_event: OnEvent | None = None) -> IngestOutcome:
        """Read, preprocess and merge source files into a slice.

        Args:
            call: What to do.
            on_event: Is told what the engine reports while it works.

        Raises:
            BadInputError: If the data cannot be taken.
            InvalidQueryError: If the preprocess query cannot be accepted.
            EngineError: If the engine fails, dies or breaks its contract.
        """
        what = f"it ingested into {call.dataset_alias}"
        with self._exchange.operation() as operation:
            message = ingest_request(call, operation).to_proto()
            result = None
            with self._speaking(what), _reading(self._host.Ingest(message)) as answers:
                for answer in answers:
                    event = ingest_event_from_proto(answer)
                    if isinstance(event, IngestResult):
                        result = event
                        break
                    if isinstance(event, EngineProgress | EngineWarning):
                        _report(on_event, event)
                    elif event is not None:
                        self._raise_failure(event, what)
            if result is None:
                raise _unanswered(what)
            taken = operation.take_output(OUTPUT, call.output)
            folding = call.folding
            if folding is not None and not operation.take_output(FOLDED, folding.output):
                folding = None
            set_aside = call.quarantine is not None and operation.take_output(
                QUARANTINE, call.quarantine
            )
        _check_presence(call.output, taken=taken, wanted=result.counts.total > 0, what=what)
        if call.quarantine is not None:
            _check_presence(call.quarantine, taken=set_aside, wanted=result.bad_rows > 0, what=what)
        return IngestOutcome(
            slice_path=call.output if taken else None,
            counts=result.counts,
            rows_read=result.rows_read,
            keys_revised_ignored=result.keys_revised_ignored,
            rows_unchanged=result.rows_unchanged,
            schema=result.schema,
            folded=None if folding is None else folding.output,
            keys_known=result.keys_known,
            bad_rows=result.bad_rows,
            quarantine=call.quarantine if set_aside else None,
        )

    def execute_transform(
        self, call: TransformCall, running: Running | None = None
    ) -> TransformOutcome:
        """Run one step of a derivative dataset.

        Args:
            call: The step.
            running: Told how to end the call from another thread, for as long as it runs.

        Raises:
            InvalidQueryError: If the query cannot be accepted.
            EngineError: If the engine fails, dies or breaks its contract.
        """
        what = f"it derived {call.dataset_alias}"
        with self._exchange.operation() as operation:
            request = transform_request(call, operation)
            message = engine_pb2.TransformRequest(flatbuffer=to_bytes(request))
            answers = self._engine.ExecuteTransform(message, metadata=headers(call))
            with contextlib.nullcontext() if running is None else running(answers.cancel):
                success = self._final_answer(answers, TransformResponseRoot, what)
            if not isinstance(success, TransformResponseSuccess):
                raise _unanswered(what)
            checkpoint = call.new_checkpoint
            if checkpoint is None or not operation.take_output(CHECKPOINT, checkpoint):
                checkpoint = None
            try:
                taken = _take_derived(call, operation, success.new_offset_interval, what)
            except EngineError:
                if checkpoint is not None:
                    checkpoint.unlink(missing_ok=True)
                raise
        return TransformOutcome(
            slice_path=call.output if taken else None,
            offset_interval=success.new_offset_interval,
            watermark=success.new_watermark,
            checkpoint=checkpoint,
        )

    def derive_provenance(self, call: TransformCall) -> ProvenanceOutcome:
        """Run a step again to learn where its rows come from.

        Args:
            call: The step; the origins of its rows are written to its output.

        Raises:
            InvalidQueryError: If that cannot be told for this kind of query.
            BadInputError: If the state before the step cannot be read.
            EngineError: If the engine fails, dies or breaks its contract.
        """
        what = f"it looked for the origins of {call.dataset_alias}"
        with self._exchange.operation() as operation:
            request = to_bytes(transform_request(call, operation))
            message = host_pb2.DeriveProvenanceRequest(transform_request=request)
            with self._speaking(what):
                answer = provenance_from_proto(
                    self._host.DeriveProvenance(message, metadata=headers(call))
                )
            if answer is None:
                raise _unanswered(what)
            if not isinstance(answer, Explanation):
                self._raise_failure(answer, what)
            taken = operation.take_output(OUTPUT, call.output)
        columns = tuple(
            ColumnOrigin(
                printable(origin.column),
                tuple(
                    InputColumn(printable(one.input), printable(one.column))
                    for one in origin.sources
                ),
            )
            for origin in answer.columns
        )
        rows = call.output if taken else None
        return ProvenanceOutcome(printable(answer.how), columns, rows)

    def send_transform(self, request: TransformRequest) -> None:
        """Send a request as it is, whatever its paths, and wait for the end of it.

        For checks of engines: what an engine makes of paths that nobody gave it.

        Raises:
            InvalidQueryError: If the query cannot be accepted.
            EngineError: If the engine fails, dies or breaks its contract.
        """
        what = f"it derived {request.dataset_alias}"
        message = engine_pb2.TransformRequest(flatbuffer=to_bytes(request))
        if self._final_answer(self._engine.ExecuteTransform(message), TransformResponseRoot, what):
            return
        raise _unanswered(what)

    def execute_raw_query(self, call: RawQueryCall) -> RawQueryOutcome:
        """Run a query over plain Parquet files.

        Raises:
            InvalidQueryError: If the query cannot be accepted.
            EngineError: If the engine fails, dies or breaks its contract.
        """
        what = "it ran a raw query"
        with self._exchange.operation() as operation:
            request = RawQueryRequest(
                input_data_paths=show_all(operation, call.inputs, "input"),
                transform=call.transform,
                output_data_path=operation.output(OUTPUT)[1],
            )
            message = engine_pb2.RawQueryRequest(flatbuffer=to_bytes(request))
            success = self._final_answer(
                self._engine.ExecuteRawQuery(message), RawQueryResponseRoot, what
            )
            if not isinstance(success, RawQueryResponseSuccess):
                raise _unanswered(what)
            taken = operation.take_output(OUTPUT, call.output)
        if success.num_records and not taken:
            raise _broken_contract(f"{what}, announced {success.num_records} rows and left no file")
        return RawQueryOutcome(call.output if taken else None, success.num_records)

    def _final_answer(
        self,
        call: Any,
        root: type[TransformResponseRoot] | type[RawQueryResponseRoot],
        what: str,
    ) -> object:
        """Read a stream of the engine service to its first answer that is not progress."""
        with self._speaking(what), _reading(call) as answers:
            for answer in answers:
                try:
                    value = from_bytes(root, answer.flatbuffer).value
                except OdfError as error:
                    raise _broken_contract(f"{what} and sent no message: {error}") from error
                match value:
                    case TransformResponseSuccess() | RawQueryResponseSuccess():
                        return value
                    case TransformResponseInvalidQuery() | RawQueryResponseInvalidQuery():
                        raise _printable_query_error(InvalidQueryError(value.message))
                    case TransformResponseInternalError() | RawQueryResponseInternalError():
                        failure = InternalFailure(value.message, value.backtrace or "")
                        self._raise_failure(failure, what)
        return None

    def _raise_failure(
        self, event: BadInputError | InvalidQueryError | InternalFailure, what: str
    ) -> NoReturn:
        match event:
            case BadInputError():
                raise BadInputError(
                    printable(event.message),
                    reason=printable(event.reason),
                    problems=tuple(printable(line) for line in event.problems),
                    hint=None if event.hint is None else printable(event.hint),
                )
            case InvalidQueryError():
                raise _printable_query_error(event)
            case InternalFailure():
                raise EngineError(
                    f"the engine failed while {what}: {printable(event.message)}",
                    hint=self._log_hint(),
                    details={"backtrace": printable(event.backtrace)},
                )

    @contextmanager
    def _speaking(self, what: str) -> Iterator[None]:
        """Turn failures of the connection into errors that say how the engine ended."""
        try:
            yield
        except grpc.RpcError as error:
            call: Any = error  # gRPC raises calls, but its types do not say so
            code = call.code()
            # A call that this side gave up says nothing about the engine.
            broken = code is grpc.StatusCode.UNAVAILABLE or (
                code is grpc.StatusCode.CANCELLED and not call.cancelled()
            )
            obituary = self._link.obituary() if broken else None
            if obituary is not None:
                raise _died(obituary, what) from error
            detail = printable(call.details() or "")
            if code is grpc.StatusCode.FAILED_PRECONDITION:
                raise EngineUnavailableError(detail, hint=self._log_hint()) from error
            raise EngineError(
                f"the engine failed while {what}: {code.name}: {detail}", hint=self._log_hint()
            ) from error

    def _log_hint(self) -> str | None:
        log = self._link.log
        return None if log is None else f"Its log: {log}"


def _take_derived(
    call: TransformCall, operation: Operation, interval: OffsetInterval | None, what: str
) -> bool:
    """Take the slice of a derivative and check that it is what the answer says."""
    taken = operation.take_output(OUTPUT, call.output)
    _check_presence(call.output, taken=taken, wanted=interval is not None, what=what)
    if interval is not None and not call.next_offset == interval.start <= interval.end:
        call.output.unlink(missing_ok=True)
        raise _broken_contract(
            f"{what} and answered with the offsets {interval.start} to {interval.end}; "
            f"wanted a start at {call.next_offset}"
        )
    return taken


@contextmanager
def _reading(call: Any) -> Iterator[Any]:
    """Cancel a call that was not read to its end, however that came."""
    try:
        yield call
    finally:
        call.cancel()


def _report(on_event: OnEvent | None, event: EngineEvent) -> None:
    if on_event is None:
        return
    match event:
        case EngineProgress():
            on_event(EngineProgress(printable(event.stage), event.rows))
        case EngineWarning():
            on_event(EngineWarning(printable(event.message)))


def _printable_query_error(error: InvalidQueryError) -> InvalidQueryError:
    hint = None if error.hint is None else printable(error.hint)
    return InvalidQueryError(printable(error.message), hint=hint)


def _unanswered(what: str) -> EngineError:
    return _broken_contract(f"{what} and ended without a result")


def _check_presence(output: Path, *, taken: bool, wanted: bool, what: str) -> None:
    """A slice exists exactly if the answer says that there are rows."""
    if taken == wanted:
        return
    output.unlink(missing_ok=True)
    said, found = ("rows", "no file") if wanted else ("no rows", "a file")
    raise _broken_contract(f"{what}, announced {said} and left {found}")


def _broken_contract(how: str) -> EngineError:
    return EngineError(
        f"the engine broke its contract: {how}",
        hint="Nothing was taken. Check where the engine comes from, and its log of this run.",
    )


def _died(obituary: Obituary, what: str) -> EngineError:
    words = f"; its last words: {obituary.last_lines[-1]}" if obituary.last_lines else ""
    return EngineError(
        f"the engine died while {what} ({obituary.status}){words}",
        hint=f"Its log: {obituary.log}",
        details={"log": str(obituary.log), "stderr": list(obituary.last_lines)},
    )

"""The gRPC services of a host, over one engine.

As many operations run at once as the engine says that it can do on this machine; what reads and
merges source files has it for itself. What an engine raises becomes the answer that the protocol
has for it; what nobody expected becomes an internal error, with its traceback on standard error,
which is the log.
"""

import os
import queue
import secrets
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import grpc
import pyarrow as pa

from odf.data.arrow_fields import arrow_schema_to_fields, fields_to_arrow_schema
from odf.engines.host.engine import (
    Engine,
    Folding,
    IngestedRows,
    IngestJob,
    InputView,
    InputWatermark,
    SourceFile,
    TransformJob,
    ValidatedInput,
)
from odf.engines.host.finish import FinishedSlice, SliceOrder, finish
from odf.engines.host.origins import write_origins
from odf.engines.host.plain import stored_schema, write_plain
from odf.engines.host.turns import Turns
from odf.errors import BadInputError, InvalidQueryError, OdfError
from odf.metadata.arrow_schema import decode_schema, encode_schema
from odf.metadata.model import OffsetInterval, Timestamp
from odf.protocol import (
    PROTOCOL_VERSION,
    RETRACTIONS_HEADER,
    engine_pb2,
    engine_pb2_grpc,
    host_pb2,
    host_pb2_grpc,
)
from odf.protocol.calls import (
    ColumnOrigin,
    DiscardedRows,
    EngineDescription,
    EngineProgress,
    EngineWarning,
    IngestHalf,
    InputColumn,
    MigrationOutcome,
    OperationCounts,
    QueryInput,
    QueryOutcome,
)
from odf.protocol.messages import (
    RawQueryRequest,
    RawQueryResponseInternalError,
    RawQueryResponseInvalidQuery,
    RawQueryResponseProgress,
    RawQueryResponseRoot,
    RawQueryResponseSuccess,
    TransformRequest,
    TransformRequestInput,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
    TransformResponseProgress,
    TransformResponseRoot,
    TransformResponseSuccess,
    from_bytes,
    to_bytes,
)
from odf.protocol.private import (
    Explanation,
    IngestMessage,
    IngestRequest,
    IngestResult,
    InternalFailure,
    MigrateRequest,
    RequestFolding,
    ValidateRequest,
    description_to_proto,
    ingest_event_to_proto,
    migration_to_proto,
    provenance_to_proto,
    validation_to_proto,
)

T = TypeVar("T")
Told = TypeVar("Told")
Invalid = TypeVar("Invalid")
Failed = TypeVar("Failed")


class EngineHost:
    """Serves one engine.

    Args:
        engine: It; its `warm_up` is called by `warm_up` here.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turns = Turns(engine.operations)
        self._warming = threading.Lock()
        self._warm = False
        self._cold_because: str | None = None

    def register(self, server: grpc.Server) -> None:
        """Add both services to a server."""
        engine_pb2_grpc.add_EngineServicer_to_server(  # type: ignore[no-untyped-call]
            _EngineServicer(self), server
        )
        host_pb2_grpc.add_HostServicer_to_server(  # type: ignore[no-untyped-call]
            _HostServicer(self), server
        )

    def warm_up(self) -> str | None:
        """Start what takes time, once; whoever comes while it runs waits for it.

        Returns:
            Why the engine did not start, or None if it did.
        """
        with self._warming:
            if not self._warm:
                self._warm = True
                try:
                    self._engine.warm_up()
                except Exception as error:  # noqa: BLE001  # the answer to every later call
                    traceback.print_exc()
                    told = _with_hint(error) if isinstance(error, OdfError) else str(error)
                    self._cold_because = told
            return self._cold_because

    def require_warm(self, context: grpc.ServicerContext) -> None:
        """Wait for a warm engine, or end the call with the reason why there is none."""
        if (reason := self.warm_up()) is not None:
            context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, f"the engine did not start: {reason}"
            )

    def rest(self) -> None:
        """Have the engine give back memory, unless it has work to do."""
        with self._turns.alone_if_idle() as idle:
            if self._warm and idle:
                try:
                    self._engine.rest()
                except Exception:  # noqa: BLE001  # the next operation tells whether it works
                    traceback.print_exc()

    def describe(self) -> EngineDescription:
        """Say who serves, without waiting for anything."""
        engine = self._engine
        return EngineDescription(
            PROTOCOL_VERSION,
            engine.name,
            engine.release,
            dict(engine.versions),
            os.getpid(),
            engine.operations,
        )

    @contextmanager
    def operation(self, *, alone: bool = False) -> Iterator[Engine]:
        """Wait for one's turn.

        Args:
            alone: Whether it needs the whole machine.
        """
        with self._turns.alone() if alone else self._turns.together():
            yield self._engine


class _EngineServicer(engine_pb2_grpc.EngineServicer):
    """The ODF service (engine-protocol.md §1)."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host

    def ExecuteTransform(  # noqa: N802  # the protocol's name
        self, message: engine_pb2.TransformRequest, context: grpc.ServicerContext
    ) -> Iterator[engine_pb2.TransformResponse]:
        request = _read(TransformRequest, message.flatbuffer, context)
        self._host.require_warm(context)
        answers = _answering(
            self._transform(request, _retractions_in(context)),
            TransformResponseInvalidQuery,
            TransformResponseInternalError,
        )
        for answer in answers:
            buffer = to_bytes(TransformResponseRoot(answer))
            yield engine_pb2.TransformResponse(flatbuffer=buffer)

    def ExecuteRawQuery(  # noqa: N802  # the protocol's name
        self, message: engine_pb2.RawQueryRequest, context: grpc.ServicerContext
    ) -> Iterator[engine_pb2.RawQueryResponse]:
        request = _read(RawQueryRequest, message.flatbuffer, context)
        self._host.require_warm(context)
        answers = _answering(
            self._raw_query(request), RawQueryResponseInvalidQuery, RawQueryResponseInternalError
        )
        for answer in answers:
            buffer = to_bytes(RawQueryResponseRoot(answer))
            yield engine_pb2.RawQueryResponse(flatbuffer=buffer)

    def _transform(
        self, request: TransformRequest, retractions: str
    ) -> Iterator[TransformResponseProgress | TransformResponseSuccess]:
        path = Path(request.new_data_path)
        order = SliceOrder(
            vocab=request.vocab,
            next_offset=request.next_offset,
            system_time=request.system_time,
            path=path,
            from_query=True,
        )
        with self._host.operation() as engine, _scratch_beside(path) as scratch:
            yield TransformResponseProgress()
            rows = engine.transform(_transform_job(request, scratch, retractions))
            yield TransformResponseProgress()
            finished = finish(rows, order)
        yield TransformResponseSuccess(
            _interval(request.next_offset, finished), _watermark(request.query_inputs)
        )

    def _raw_query(
        self, request: RawQueryRequest
    ) -> Iterator[RawQueryResponseProgress | RawQueryResponseSuccess]:
        path = Path(request.output_data_path)
        with self._host.operation() as engine, _scratch_beside(path) as scratch:
            yield RawQueryResponseProgress()
            rows = engine.raw_query(request.transform, request.input_data_paths, scratch)
            yield RawQueryResponseProgress()
            count = write_plain(rows, path, stored_schema(rows.schema))
        yield RawQueryResponseSuccess(count)


class _HostServicer(host_pb2_grpc.HostServicer):
    """Our private service (`host.proto`)."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host

    def Describe(  # noqa: N802  # the protocol's name
        self, _message: host_pb2.DescribeRequest, _context: grpc.ServicerContext
    ) -> host_pb2.Description:
        return description_to_proto(self._host.describe())

    def ValidateQuery(  # noqa: N802  # the protocol's name
        self, message: host_pb2.ValidateQueryRequest, context: grpc.ServicerContext
    ) -> host_pb2.ValidateQueryResponse:
        self._host.require_warm(context)
        try:
            request = ValidateRequest.from_proto(message)
            return validation_to_proto(self._validate(request))
        except InvalidQueryError as error:
            return validation_to_proto(error)
        except Exception as error:  # noqa: BLE001  # everything else is the engine's own fault
            context.abort(grpc.StatusCode.INTERNAL, _failure(error).message)

    def MigrateQuery(  # noqa: N802  # the protocol's name
        self, message: host_pb2.MigrateQueryRequest, context: grpc.ServicerContext
    ) -> host_pb2.MigrateQueryResponse:
        self._host.require_warm(context)
        try:
            return migration_to_proto(self._migrate(MigrateRequest.from_proto(message)))
        except (InvalidQueryError, BadInputError) as error:
            return migration_to_proto(error)
        except Exception as error:  # noqa: BLE001  # everything else is the engine's own fault
            context.abort(grpc.StatusCode.INTERNAL, _failure(error).message)

    def DeriveProvenance(  # noqa: N802  # the protocol's name
        self, message: host_pb2.DeriveProvenanceRequest, context: grpc.ServicerContext
    ) -> host_pb2.DeriveProvenanceResponse:
        request = _read(TransformRequest, message.transform_request, context)
        self._host.require_warm(context)
        try:
            return provenance_to_proto(self._provenance(request, _retractions_in(context)))
        except (InvalidQueryError, BadInputError) as error:
            return provenance_to_proto(error)
        except Exception as error:  # noqa: BLE001  # everything else is the engine's own fault
            context.abort(grpc.StatusCode.INTERNAL, _failure(error).message)

    def Ingest(  # noqa: N802  # the protocol's name
        self, message: host_pb2.IngestRequest, context: grpc.ServicerContext
    ) -> Iterator[host_pb2.IngestEvent]:
        self._host.require_warm(context)
        for event in _while_running(lambda tell: self._ingest(message, tell)):
            yield ingest_event_to_proto(event)

    def _provenance(self, request: TransformRequest, retractions: str) -> Explanation:
        path = Path(request.new_data_path)
        with self._host.operation() as engine, _scratch_beside(path) as scratch:
            job = replace(_transform_job(request, scratch, retractions), new_checkpoint=None)
            found = engine.provenance(job)
            write_origins(found.origins, request.next_offset, path)
        columns = tuple(
            ColumnOrigin(name, tuple(InputColumn(*source) for source in sources))
            for name, sources in found.columns.items()
        )
        return Explanation(found.how, columns)

    def _validate(self, request: ValidateRequest) -> QueryOutcome:
        inputs = [_validated_input(view) for view in request.inputs]
        with self._host.operation() as engine:
            found = engine.validate(
                request.transform, inputs, request.vocab, preprocess=request.preprocess
            )
        schema = None if found.output_schema is None else _schema_bytes(found.output_schema)
        return QueryOutcome(found.query_class, schema, tuple(found.warnings), found.description)

    def _migrate(self, request: MigrateRequest) -> MigrationOutcome:
        inputs = [_validated_input(view) for view in request.inputs]
        with self._host.operation() as engine:
            found = engine.migrate(
                request.transform, inputs, request.vocab, Path(request.checkpoint_path)
            )
        if found.reason is None:
            return MigrationOutcome(kept=True)
        for table, rows in found.discarded.items():
            _log(f"the state of the last query is given up: {rows} rows of {table}")
        discarded = tuple(DiscardedRows(name, rows) for name, rows in found.discarded.items())
        return MigrationOutcome(False, found.reason, discarded)

    def _ingest(
        self, message: host_pb2.IngestRequest, tell: Callable[[IngestMessage], None]
    ) -> IngestResult:
        job = _ingest_job(IngestRequest.from_proto(message))
        reporter = _Reporter(tell)
        order = SliceOrder(
            vocab=job.vocab,
            next_offset=job.next_offset,
            system_time=job.system_time,
            path=Path(job.output_path),
            from_query=False,
        )
        with self._host.operation(alone=True) as engine:
            made = engine.ingest(job, reporter)
            if job.half is IngestHalf.READ:
                return _read_half(made, order.path)
            finished = finish(made.rows, order, warn=reporter.warning)
        return IngestResult(
            counts=finished.counts,
            rows_read=finished.counts.total if made.rows_read is None else made.rows_read,
            keys_revised_ignored=made.keys_revised_ignored,
            rows_unchanged=made.rows_unchanged,
            schema=_schema_bytes(finished.schema),
            keys_known=made.keys_known,
            bad_rows=made.bad_rows,
        )


class _Reporter:
    """Sends what an engine reports to the other end, from whichever thread."""

    def __init__(self, tell: Callable[[IngestMessage], None]) -> None:
        self._tell = tell

    def progress(self, stage: str, rows: int | None = None) -> None:
        self._tell(EngineProgress(stage, rows))

    def warning(self, message: str) -> None:
        self._tell(EngineWarning(message))


def _while_running(
    work: Callable[[Callable[[IngestMessage], None]], IngestResult],
) -> Iterator[IngestMessage]:
    """Run work in a thread and give out what it tells, its result or its failure last."""
    told: queue.SimpleQueue[IngestMessage | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            told.put(work(told.put))
        except (InvalidQueryError, BadInputError) as error:
            told.put(error)
        except Exception as error:  # noqa: BLE001  # everything else is the engine's own fault
            told.put(_failure(error))
        finally:
            told.put(None)

    threading.Thread(target=run, daemon=True, name="ingest").start()
    while (event := told.get()) is not None:
        yield event


def _answering(
    work: Iterator[Told],
    invalid: Callable[[str], Invalid],
    failed: Callable[[str, str | None], Failed],
) -> Iterator[Told | Invalid | Failed]:
    """Give out what an operation tells; what it raises is the last answer.

    Progress is told when its turn has come and when its rows are computed, before they are written.
    """
    try:
        yield from work
    except (InvalidQueryError, BadInputError) as error:
        yield invalid(_with_hint(error))
    except Exception as error:  # noqa: BLE001  # everything else is the engine's own fault
        failure = _failure(error)
        yield failed(failure.message, failure.backtrace)


def _read(cls: type[T], data: bytes, context: grpc.ServicerContext) -> T:
    try:
        return from_bytes(cls, data)
    except OdfError as error:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a {cls.__name__}: {error}")


def _failure(error: Exception) -> InternalFailure:
    """Describe a defect, and leave it in the log."""
    trace = "".join(traceback.format_exception(error))
    sys.stderr.write(trace)
    sys.stderr.flush()
    return InternalFailure(f"{type(error).__name__}: {error}", trace)


def _with_hint(error: OdfError) -> str:
    """The public service has no place for hints of its own."""
    return error.message if error.hint is None else f"{error.message} ({error.hint})"


def _input_view(view: TransformRequestInput) -> InputView:
    interval = view.offset_interval
    if (interval is None) != (not view.data_paths):
        raise ValueError(
            f"input {view.query_alias!r}: {len(view.data_paths)} slices, but interval {interval}"
        )
    return InputView(
        alias=view.query_alias,
        paths=view.data_paths,
        schema_path=view.schema_file,
        vocab=view.vocab,
        offset_start=None if interval is None else interval.start,
        offset_end=None if interval is None else interval.end,
        watermarks=tuple(
            InputWatermark(mark.system_time.epoch_ms, mark.event_time.epoch_ms)
            for mark in view.explicit_watermarks
        ),
    )


def _validated_input(view: QueryInput) -> ValidatedInput:
    return ValidatedInput(
        alias=view.alias,
        schema=None if view.schema is None else _arrow_schema(view.schema),
        has_retractions=view.has_retractions,
        vocab=view.vocab,
    )


def _retractions_in(context: grpc.ServicerContext) -> str:
    """Return what the caller says about retractions of the inputs; empty if it says nothing."""
    found = dict(context.invocation_metadata()).get(RETRACTIONS_HEADER, "")
    return found if isinstance(found, str) else ""


def _transform_job(request: TransformRequest, scratch: Path, retractions: str) -> TransformJob:
    told = {"0": False, "1": True}
    views = [_input_view(view) for view in request.query_inputs]
    if len(retractions) == len(views):
        views = [
            replace(view, has_retractions=told.get(one))
            for view, one in zip(views, retractions, strict=True)
        ]
    previous, new = request.prev_checkpoint_path, request.new_checkpoint_path
    return TransformJob(
        transform=request.transform,
        inputs=tuple(views),
        vocab=request.vocab,
        scratch=scratch,
        prev_checkpoint=Path(previous) if previous else None,
        new_checkpoint=Path(new) if new else None,
        log=_log,
    )


def _log(line: str) -> None:
    """Leave a line on standard error, which is the log."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _ingest_job(request: IngestRequest) -> IngestJob:
    schema = request.dataset_schema
    return IngestJob(
        dataset_alias=request.dataset_alias,
        files=tuple(SourceFile(file.path, file.name) for file in request.files),
        read=request.read,
        preprocess=request.preprocess,
        merge=request.merge,
        vocab=request.vocab,
        system_time=request.system_time,
        source_event_time=request.source_event_time,
        next_offset=request.next_offset,
        dataset_schema=None if schema is None else _arrow_schema(schema),
        history_paths=request.history_paths,
        output_path=request.output_path,
        scratch=Path(request.scratch_path),
        allow_retract=request.allow_retract,
        allow_empty=request.allow_empty,
        max_retract_share=request.max_retract_share,
        min_rows_for_retract_guard=request.min_rows_for_retract_guard,
        half=request.half,
        folding=_folding(request.folding),
        quarantine_path=request.quarantine_path,
    )


def _folding(folding: RequestFolding | None) -> Folding | None:
    if folding is None:
        return None
    return Folding(folding.first, folding.count, folding.output_path)


def _interval(next_offset: int, finished: FinishedSlice) -> OffsetInterval | None:
    rows = finished.counts.total
    return OffsetInterval(next_offset, next_offset + rows - 1) if rows else None


def _watermark(inputs: Sequence[TransformRequestInput]) -> Timestamp | None:
    """Nothing before the watermark of the slowest input is still to come.

    The coordinator repeats the last watermark of an idle input, so an input without one has never
    had any, and the result cannot have one either.
    """
    reached = [
        max((mark.event_time for mark in view.explicit_watermarks), default=None) for view in inputs
    ]
    known = [mark for mark in reached if mark is not None]
    return min(known) if known and len(known) == len(reached) else None


@contextmanager
def _scratch_beside(path: Path) -> Iterator[Path]:
    """A folder for an engine's temporary files, gone afterwards."""
    folder = path.parent / f"scratch-{secrets.token_hex(8)}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read_half(made: IngestedRows, path: Path) -> IngestResult:
    """Write rows as they were read, with all digits, for another engine to go on with."""
    schema = made.rows.schema
    rows = write_plain(made.rows, path, schema)
    return IngestResult(
        counts=OperationCounts(append=rows),
        rows_read=rows if made.rows_read is None else made.rows_read,
        keys_revised_ignored=0,
        rows_unchanged=0,
        schema=_schema_bytes(schema),
        bad_rows=made.bad_rows,
    )


def _arrow_schema(data: bytes) -> pa.Schema:
    return fields_to_arrow_schema(decode_schema(data))


def _schema_bytes(schema: pa.Schema) -> bytes:
    return encode_schema(arrow_schema_to_fields(schema))

"""Messages: slots on the wire, round trips, and stubs that are current."""

import contextlib
import struct
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import odf.protocol
from odf.errors import BadInputError, InvalidQueryError, OdfError
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    DatasetVocabulary,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    OffsetInterval,
    ReadStepCsv,
    SqlQueryStep,
    Timestamp,
    TransformSql,
)
from odf.protocol import host_pb2
from odf.protocol.calls import (
    DiscardedRows,
    EngineDescription,
    EngineProgress,
    EngineWarning,
    IngestHalf,
    MigrationOutcome,
    OperationCounts,
    QueryInput,
    QueryOutcome,
)
from odf.protocol.generate import generate
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
    Watermark,
    from_bytes,
    to_bytes,
)
from odf.protocol.private import (
    IngestRequest,
    IngestResult,
    InternalFailure,
    MigrateRequest,
    RequestFile,
    RequestFolding,
    ValidateRequest,
    description_from_proto,
    description_to_proto,
    ingest_event_from_proto,
    ingest_event_to_proto,
    migration_from_proto,
    migration_to_proto,
    validation_from_proto,
    validation_to_proto,
)

TIME = Timestamp.parse("2024-01-31T12:00:00.123Z")
VOCAB = DatasetVocabulary("o", "p", "s", "e")
SQL = TransformSql(engine="tiny", queries=(SqlQueryStep(alias=None, query="select 1"),))
INPUT = TransformRequestInput(
    dataset_id=DatasetID(bytes(range(32))),
    dataset_alias=DatasetAlias.parse("alice/source"),
    query_alias="source",
    vocab=VOCAB,
    offset_interval=OffsetInterval(0, 0),
    data_paths=("/in/a", "/in/b"),
    schema_file="/in/a",
    explicit_watermarks=(Watermark(TIME, TIME),),
)
TRANSFORM = TransformRequest(
    dataset_id=DatasetID(bytes(32)),
    dataset_alias=DatasetAlias.parse("derived"),
    system_time=TIME,
    vocab=VOCAB,
    transform=SQL,
    query_inputs=(INPUT,),
    next_offset=17,
    prev_checkpoint_path=None,
    new_checkpoint_path="/out/checkpoint",
    new_data_path="/out/data",
)
INGEST = IngestRequest(
    dataset_alias="rooted",
    files=(RequestFile("/in/0", "prices.csv"),),
    read=ReadStepCsv(schema=("a INT",), header=True, separator=";"),
    preprocess=SQL,
    merge=MergeStrategySnapshot(primary_key=("a",)),
    vocab=VOCAB,
    system_time=TIME,
    source_event_time=TIME,
    next_offset=3,
    dataset_schema=b"schema",
    history_paths=("/in/h",),
    output_path="/out/data",
    scratch_path="/out/scratch",
    allow_retract=True,
    allow_empty=False,
    max_retract_share=0.25,
    min_rows_for_retract_guard=20,
    half=IngestHalf.MERGE,
    folding=RequestFolding(1, 2, "/out/folded"),
)


def slot(buffer: bytes, number: int) -> int:
    """Find a field of the root table by hand; 0 if it is absent."""
    (root,) = struct.unpack_from("<I", buffer)
    (back,) = struct.unpack_from("<i", buffer, root)
    vtable = root - back
    (size,) = struct.unpack_from("<H", buffer, vtable)
    position = 4 + 2 * number
    if position >= size:
        return 0
    (offset,) = struct.unpack_from("<H", buffer, vtable + position)
    return root + offset if offset else 0


def text(buffer: bytes, at: int) -> str:
    (relative,) = struct.unpack_from("<I", buffer, at)
    (length,) = struct.unpack_from("<I", buffer, at + relative)
    return buffer[at + relative + 4 :][:length].decode()


def test_slots_of_a_transform_request() -> None:
    """wire-format.md §a.2: unions take two slots, so paths are at 8 to 10."""
    buffer = to_bytes(TRANSFORM)
    assert text(buffer, slot(buffer, 1)) == "derived"
    assert buffer[slot(buffer, 4)] == 1
    assert struct.unpack_from("<Q", buffer, slot(buffer, 7)) == (17,)
    assert slot(buffer, 8) == 0
    assert text(buffer, slot(buffer, 9)) == "/out/checkpoint"
    assert text(buffer, slot(buffer, 10)) == "/out/data"


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        (1, TransformResponseProgress()),
        (2, TransformResponseSuccess(OffsetInterval(1, 2), TIME)),
        (2, TransformResponseSuccess()),
        (3, TransformResponseInvalidQuery("no")),
        (4, TransformResponseInternalError("no", None)),
    ],
)
def test_answers_to_transforms(tag: int, value: object) -> None:
    root = TransformResponseRoot(value)  # type: ignore[arg-type]
    buffer = to_bytes(root)
    assert buffer[slot(buffer, 0)] == tag
    assert from_bytes(TransformResponseRoot, buffer) == root


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        (1, RawQueryResponseProgress()),
        (2, RawQueryResponseSuccess(0)),
        (3, RawQueryResponseInvalidQuery("no")),
        (4, RawQueryResponseInternalError("no", "trace")),
    ],
)
def test_answers_to_raw_queries(tag: int, value: object) -> None:
    root = RawQueryResponseRoot(value)  # type: ignore[arg-type]
    buffer = to_bytes(root)
    assert buffer[slot(buffer, 0)] == tag
    assert from_bytes(RawQueryResponseRoot, buffer) == root


def test_requests_come_back() -> None:
    raw = RawQueryRequest(("/in/a",), SQL, "/out/data")
    assert from_bytes(RawQueryRequest, to_bytes(raw)) == raw
    assert from_bytes(TransformRequest, to_bytes(TRANSFORM)) == TRANSFORM


@given(st.binary(max_size=300))
def test_rubbish_is_an_error_of_ours(data: bytes) -> None:
    with contextlib.suppress(OdfError):
        from_bytes(TransformResponseRoot, data)


def test_ingest_requests_come_back() -> None:
    assert IngestRequest.from_proto(INGEST.to_proto()) == INGEST
    bare = replace(
        INGEST,
        preprocess=None,
        merge=MergeStrategyLedger(primary_key=("a", "b")),
        source_event_time=None,
        dataset_schema=None,
    )
    assert IngestRequest.from_proto(bare.to_proto()) == bare


def test_validation_comes_back() -> None:
    own = DatasetVocabulary("nr", "what", "noted", "at")
    inputs = (QueryInput("a", b"schema", True, own), QueryInput("b", None))
    request = ValidateRequest(SQL, inputs, VOCAB, True)
    assert ValidateRequest.from_proto(request.to_proto()) == request
    accepted = QueryOutcome("stateless", None, ("careful",), "keeps nothing")
    assert validation_from_proto(validation_to_proto(accepted)) == accepted
    refused = validation_from_proto(validation_to_proto(InvalidQueryError("no", hint="yes")))
    assert isinstance(refused, InvalidQueryError)
    assert (refused.message, refused.hint) == ("no", "yes")


@pytest.mark.parametrize(
    "answer",
    [
        MigrationOutcome(True),
        MigrationOutcome(False, "another query", (DiscardedRows("a", 0), DiscardedRows("b", 1))),
    ],
)
def test_migrations_come_back(answer: MigrationOutcome) -> None:
    request = MigrateRequest(SQL, (QueryInput("a", b"schema"),), VOCAB, "/in/checkpoint")
    assert MigrateRequest.from_proto(request.to_proto()) == request
    assert migration_from_proto(migration_to_proto(answer)) == answer


def test_refused_migrations_come_back() -> None:
    refused = migration_from_proto(migration_to_proto(InvalidQueryError("no", hint="yes")))
    assert isinstance(refused, InvalidQueryError)
    assert (refused.message, refused.hint) == ("no", "yes")
    damaged = migration_from_proto(migration_to_proto(BadInputError("bad", reason="checkpoint")))
    assert isinstance(damaged, BadInputError)
    assert (damaged.message, damaged.reason) == ("bad", "checkpoint")
    assert migration_from_proto(host_pb2.MigrateQueryResponse()) is None


@pytest.mark.parametrize(
    "event",
    [
        EngineProgress("reading", None),
        EngineProgress("reading", 0),
        EngineWarning("careful"),
        IngestResult(OperationCounts(1, 2, 3, 4), 5, 6, 7, b"schema"),
        InternalFailure("oh", "trace"),
    ],
)
def test_events_come_back(event: object) -> None:
    assert ingest_event_from_proto(ingest_event_to_proto(event)) == event  # type: ignore[arg-type]


def test_refusals_come_back() -> None:
    error = BadInputError("bad", reason="csv", problems=("one", "two"), hint="repair")
    back = ingest_event_from_proto(ingest_event_to_proto(error))
    assert isinstance(back, BadInputError)
    assert (back.message, back.reason, back.problems, back.hint) == (
        *("bad", "csv", ("one", "two"), "repair"),
    )
    assert back.details == error.details


def test_descriptions_come_back() -> None:
    description = EngineDescription(1, "spark", "odf-spark/1.0.0", {"java": "25"}, 4711, 2)
    assert description_from_proto(description_to_proto(description)) == description


def test_stubs_are_current(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools", reason="the gRPC compiler is a tool of developers")
    committed = Path(odf.protocol.__file__).parent
    made = {path.name: path.read_text() for path in generate(tmp_path)}
    ours = {name: (committed / name).read_text() for name in made}
    compiler = f"GRPC_GENERATED_VERSION = '{version('grpcio-tools')}'"
    if compiler not in ours["engine_pb2_grpc.py"]:
        # Another compiler writes other code for the same messages: compare these only.
        made, ours = _descriptors(made), _descriptors(ours)
    assert made == ours, "the stubs are stale: run `make stubs`"


def _descriptors(stubs: dict[str, str]) -> dict[str, str]:
    return {
        name: line
        for name, text in stubs.items()
        for line in text.splitlines()
        if "AddSerializedFile(" in line
    }

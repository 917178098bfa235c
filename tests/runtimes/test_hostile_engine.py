"""Engines that speak the service but not the truth."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from odf.errors import EngineError, EngineUnavailableError, InvalidQueryError
from odf.metadata.model import OffsetInterval
from odf.protocol import PROTOCOL_VERSION, engine_pb2, engine_pb2_grpc, host_pb2, host_pb2_grpc
from odf.protocol.calls import TransformCall
from odf.protocol.messages import (
    TransformRequest,
    TransformResponse,
    TransformResponseInternalError,
    TransformResponseInvalidQuery,
    TransformResponseProgress,
    TransformResponseRoot,
    TransformResponseSuccess,
    from_bytes,
    to_bytes,
)
from odf.runtimes.memory import MemoryRuntime
from odf.runtimes.text import printable
from tests.runtimes.conftest import one_input, transform_call
from tests.runtimes.test_runtime_behaviour import ingest_call

Answers = Callable[[TransformRequest], Iterator[bytes]]


class ScriptedEngine(engine_pb2_grpc.EngineServicer, host_pb2_grpc.HostServicer):
    """Answers every transform with the same script."""

    def __init__(self, script: Answers, version: int = PROTOCOL_VERSION) -> None:
        self.script = script
        self.version = version

    def register(self, server: grpc.Server) -> None:
        engine_pb2_grpc.add_EngineServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        host_pb2_grpc.add_HostServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    def Describe(self, _request: object, _context: object) -> host_pb2.Description:  # noqa: N802
        return host_pb2.Description(protocol_version=self.version, release="liar/\x1b[1m1")

    def ExecuteTransform(  # noqa: N802
        self, message: engine_pb2.TransformRequest, _context: object
    ) -> Iterator[engine_pb2.TransformResponse]:
        request = from_bytes(TransformRequest, message.flatbuffer)
        for answer in self.script(request):
            yield engine_pb2.TransformResponse(flatbuffer=answer)

    def Ingest(  # noqa: N802
        self, _request: object, _context: object
    ) -> Iterator[host_pb2.IngestEvent]:
        yield host_pb2.IngestEvent()
        yield host_pb2.IngestEvent(result=host_pb2.IngestResult(num_records=1, appended=1))


def say(*values: TransformResponse) -> Answers:
    return lambda _: iter([to_bytes(TransformResponseRoot(value)) for value in values])


def leaving_a_file(answers: Answers) -> Answers:
    def script(request: TransformRequest) -> Iterator[bytes]:
        Path(request.new_data_path).write_text("rows")
        return answers(request)

    return script


@pytest.fixture
def call(tmp_path: Path) -> TransformCall:
    source = tmp_path / "a"
    source.write_text("rows")
    return transform_call("pass", tmp_path / "result", one_input(source, 0, 0), next_offset=7)


def run(script: Answers, call: TransformCall, tmp_path: Path) -> object:
    with MemoryRuntime(ScriptedEngine(script).register).start(tmp_path / "run") as engine:
        return engine.client.execute_transform(call)


ROWS = TransformResponseSuccess(OffsetInterval(7, 8))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (say(), "ended without a result"),
        (say(TransformResponseProgress()), "ended without a result"),
        (lambda _: iter([b"rubbish"]), "sent no message"),
        (lambda _: iter([b""]), "sent no message"),
        (say(ROWS), "announced rows and left no file"),
        (leaving_a_file(say(TransformResponseSuccess())), "announced no rows and left a file"),
        (
            leaving_a_file(say(TransformResponseSuccess(OffsetInterval(6, 8)))),
            "offsets 6 to 8; wanted a start at 7",
        ),
        (
            leaving_a_file(say(TransformResponseSuccess(OffsetInterval(7, 6)))),
            "offsets 7 to 6; wanted a start at 7",
        ),
        (say(TransformResponseInternalError("oh\x07 no")), "oh\N{REPLACEMENT CHARACTER} no"),
    ],
)
def test_broken_contracts(
    script: Answers, message: str, call: TransformCall, tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match=message):
        run(script, call, tmp_path)
    assert not call.output.exists()


def test_progress_is_passed_over_and_the_first_answer_counts(
    call: TransformCall, tmp_path: Path
) -> None:
    invalid = TransformResponseInvalidQuery("no")
    script = leaving_a_file(say(TransformResponseProgress(), ROWS, invalid))
    run(script, call, tmp_path)
    assert call.output.read_text() == "rows"
    with pytest.raises(InvalidQueryError, match="no"):
        run(say(invalid, ROWS), replace(call, output=tmp_path / "second"), tmp_path)


def test_a_checkpoint_is_taken_where_one_is_wanted(call: TransformCall, tmp_path: Path) -> None:
    def script(request: TransformRequest) -> Iterator[bytes]:
        previous = Path(request.prev_checkpoint_path or "").read_text()
        Path(request.new_checkpoint_path).write_text(previous + ", new")
        return say(TransformResponseSuccess())(request)

    (tmp_path / "old").write_text("old")
    call = replace(call, prev_checkpoint=tmp_path / "old", new_checkpoint=tmp_path / "checkpoint")
    run(script, call, tmp_path)
    assert (tmp_path / "checkpoint").read_text() == "old, new"


def test_a_refused_slice_takes_its_checkpoint_along(call: TransformCall, tmp_path: Path) -> None:
    def script(request: TransformRequest) -> Iterator[bytes]:
        Path(request.new_checkpoint_path).write_text("new")
        Path(request.new_data_path).symlink_to("/etc/passwd")
        return say(ROWS)(request)

    call = replace(call, new_checkpoint=tmp_path / "checkpoint")
    with pytest.raises(EngineError, match="symbolic link"):
        run(script, call, tmp_path)
    assert not (tmp_path / "checkpoint").exists()
    assert not call.output.is_symlink()


def test_an_ingest_that_announces_rows_without_a_file(tmp_path: Path) -> None:
    with (
        MemoryRuntime(ScriptedEngine(say()).register).start(tmp_path / "run") as engine,
        pytest.raises(EngineError, match="announced rows and left no file"),
    ):
        engine.client.ingest(ingest_call(tmp_path / "slice"))


def test_another_version_is_refused(tmp_path: Path) -> None:
    servicer = ScriptedEngine(say(), version=PROTOCOL_VERSION + 1)
    with pytest.raises(EngineUnavailableError, match="speaks version") as caught:
        MemoryRuntime(servicer.register).start(tmp_path / "run")
    assert "\x1b" not in caught.value.message


def test_text_of_engines_cannot_steer_the_terminal() -> None:
    assert (
        printable("a\x1b[2Jb\u202ec\td\ne")
        == "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c\td\ne"
    )
    long = printable("x" * 100_000)
    assert len(long) < 10_000
    assert long.endswith(" …")

"""The services themselves, without a runtime: turns, refusals, odd requests."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from odf.engines.host.engine import Rows
from odf.engines.host.servicer import EngineHost
from odf.metadata.model import OffsetInterval
from odf.protocol import engine_pb2, engine_pb2_grpc
from odf.protocol.messages import (
    TransformRequest,
    TransformResponseInternalError,
    TransformResponseRoot,
    TransformResponseSuccess,
    from_bytes,
    to_bytes,
)
from odf.runtimes.child import SocketFolder
from tests.engines.host.tiny_engine import TinyEngine
from tests.protocol.test_protocol import INPUT, TRANSFORM


class CountingEngine(TinyEngine):
    """Notes how many of its calls ran at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.running = 0
        self.most = 0
        self.warmed = 0
        self.met = threading.Event()

    def warm_up(self) -> None:
        self.warmed += 1

    def transform(self, *_: object) -> Rows:  # type: ignore[override]
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running > 1:
            self.met.set()
        # Leaves the door open for a second one for a moment; none may come in.
        self.met.wait(0.05)
        self.running -= 1
        return Rows(pa.schema([("e", pa.date32())]), iter(()))


@pytest.fixture
def counting() -> CountingEngine:
    return CountingEngine()


@pytest.fixture
def stub(counting: CountingEngine) -> Iterator[engine_pb2_grpc.EngineStub]:
    sockets = SocketFolder()
    server = grpc.server(ThreadPoolExecutor(8))
    EngineHost(counting).register(server)
    server.add_insecure_port(f"unix:{sockets.socket}")
    server.start()
    with grpc.insecure_channel(f"unix:{sockets.socket}") as channel:
        yield engine_pb2_grpc.EngineStub(channel)
    server.stop(grace=None).wait()
    sockets.close()


def ask(stub: engine_pb2_grpc.EngineStub, request: TransformRequest) -> object:
    message = engine_pb2.TransformRequest(flatbuffer=to_bytes(request))
    (answer,) = list(stub.ExecuteTransform(message))
    return from_bytes(TransformResponseRoot, answer.flatbuffer).value


def test_one_operation_at_a_time(
    stub: engine_pb2_grpc.EngineStub, counting: CountingEngine, tmp_path: Path
) -> None:
    request = replace(TRANSFORM, new_data_path=str(tmp_path / "data"), query_inputs=(INPUT, INPUT))
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: ask(stub, request), range(4)))
    assert all(isinstance(answer, TransformResponseSuccess) for answer in answers)
    assert counting.most == 1
    assert counting.warmed == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "view",
    [replace(INPUT, offset_interval=None), replace(INPUT, data_paths=())],
    ids=["slices without interval", "interval without slices"],
)
def test_slices_and_interval_belong_together(
    stub: engine_pb2_grpc.EngineStub, view: object, tmp_path: Path
) -> None:
    request = replace(
        TRANSFORM,
        new_data_path=str(tmp_path / "data"),
        query_inputs=(view,),  # type: ignore[arg-type]
    )
    answer = ask(stub, request)
    assert isinstance(answer, TransformResponseInternalError)
    assert "input 'source'" in answer.message


def test_rubbish_is_refused(stub: engine_pb2_grpc.EngineStub) -> None:
    message = engine_pb2.TransformRequest(flatbuffer=b"rubbish")
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.ExecuteTransform(message))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert "not a TransformRequest" in caught.value.details()  # type: ignore[attr-defined]


def test_an_interval_that_starts_at_zero_survives_the_wire() -> None:
    """Scalars of zero are left out of the buffer (wire-format.md §b.2) and must come back."""
    assert INPUT.offset_interval == OffsetInterval(0, 0)
    back = from_bytes(TransformRequest, to_bytes(TRANSFORM))
    assert back.query_inputs[0].offset_interval == OffsetInterval(0, 0)

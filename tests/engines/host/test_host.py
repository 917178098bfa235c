"""The services themselves, without a runtime: turns, refusals, odd requests."""

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from odf.engines.host.engine import IngestedRows, Rows
from odf.engines.host.servicer import EngineHost
from odf.engines.host.turns import Turns
from odf.metadata.model import OffsetInterval
from odf.protocol import engine_pb2, engine_pb2_grpc
from odf.protocol.messages import (
    TransformRequest,
    TransformResponseInternalError,
    TransformResponseProgress,
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

    def __init__(self, operations: int) -> None:
        super().__init__()
        self.operations = operations
        self.most = 0
        self.warmed = 0
        self._running = 0
        self._counting = threading.Lock()
        self._met = threading.Event()

    def warm_up(self) -> None:
        self.warmed += 1

    def transform(self, *_: object) -> Rows:  # type: ignore[override]
        self._meet()
        return Rows(pa.schema([("e", pa.date32())]), iter(()))

    def ingest(self, *_: object) -> IngestedRows:  # type: ignore[override]
        self._meet()
        return IngestedRows(Rows(pa.schema([("e", pa.date32())]), iter(())), 0)

    def _meet(self) -> None:
        with self._counting:
            self._running += 1
            self.most = max(self.most, self._running)
            if self._running > self.operations:
                self._met.set()
        # Leaves the door open for one too many for a moment; none may come in.
        self._met.wait(0.05)
        with self._counting:
            self._running -= 1


@pytest.fixture(params=[1, 3])
def counting(request: pytest.FixtureRequest) -> CountingEngine:
    return CountingEngine(request.param)


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
    answers = [
        from_bytes(TransformResponseRoot, answer.flatbuffer).value
        for answer in stub.ExecuteTransform(message)
    ]
    # That its turn has come, and that its rows are computed, if it gets as far as that.
    progress = [TransformResponseProgress()] * (len(answers) - 1)
    assert answers[:-1] == progress
    if isinstance(answers[-1], TransformResponseSuccess):
        assert len(progress) == 2
    return answers[-1]


def test_no_more_operations_at_once_than_the_engine_can(
    stub: engine_pb2_grpc.EngineStub, counting: CountingEngine, tmp_path: Path
) -> None:
    request = replace(TRANSFORM, new_data_path=str(tmp_path / "data"), query_inputs=(INPUT, INPUT))
    with ThreadPoolExecutor(7) as threads:
        answers = list(threads.map(lambda _: ask(stub, request), range(7)))
    assert all(isinstance(answer, TransformResponseSuccess) for answer in answers)
    assert counting.most == counting.operations
    assert counting.warmed == 1
    assert list(tmp_path.iterdir()) == []


def test_turns() -> None:
    """Two fit together, a third waits; who wants to be alone is let in before who comes later."""
    turns, order = Turns(2), queue.SimpleQueue[str]()
    first_in, leave, third_asks = threading.Event(), threading.Event(), threading.Event()

    def together(name: str, entered: threading.Event) -> None:
        with turns.together():
            order.put(name)
            entered.set()
            leave.wait()

    def alone() -> None:
        third_asks.set()
        with turns.alone(), turns.alone_if_idle() as idle:
            order.put(f"alone, idle: {idle}")

    second_in = threading.Event()
    threads = [
        threading.Thread(target=together, args=("first", first_in)),
        threading.Thread(target=together, args=("second", second_in)),
    ]
    threads[0].start()
    assert first_in.wait(10)
    threads[1].start()
    assert second_in.wait(10)
    threads.append(threading.Thread(target=alone))
    threads[2].start()
    assert third_asks.wait(10)
    assert turns.wait_until_wanted_alone(10)
    threads.append(threading.Thread(target=together, args=("late", threading.Event())))
    threads[3].start()
    leave.set()
    for thread in threads:
        thread.join(10)
    assert [order.get() for _ in threads] == ["first", "second", "alone, idle: False", "late"]
    with turns.alone_if_idle() as idle:
        assert idle


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

"""A tiny real engine behind every runtime, and slices to feed it."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odf.data.slices import SliceWriter, slice_schema
from odf.engines.host.servicer import EngineHost
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    DEFAULT_VOCAB,
    OffsetInterval,
    SqlQueryStep,
    Timestamp,
    TransformSql,
)
from odf.protocol.calls import TransformCall, TransformCallInput
from odf.protocol.messages import Watermark
from odf.runtimes.base import ContainerProgram, EngineCommand, EngineHandle, Runtime
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.container import ContainerRuntime
from odf.runtimes.images import PYTHON_INSIDE, SPECS, image_name
from odf.runtimes.memory import MemoryRuntime
from odf.runtimes.process import ProcessRuntime
from odf.runtimes.tcp_engine import TcpContainerRuntime
from tests.engines.host import tiny_engine

TINY = Path(tiny_engine.__file__)
SYSTEM_TIME = Timestamp.parse("2024-01-31T12:00:00Z")
A = DatasetID(bytes(32))
B = DatasetID(bytes(range(32)))


def tiny_command(*arguments: str) -> EngineCommand:
    return EngineCommand((sys.executable, "-I", str(TINY), *arguments), read_only=(TINY,))


def sql(query: str) -> TransformSql:
    return TransformSql(engine="tiny", queries=(SqlQueryStep(alias=None, query=query),))


def working_sandbox(**options: object) -> BubblewrapRuntime:
    runtime = BubblewrapRuntime(tiny_command(), **options)  # type: ignore[arg-type]
    if (reason := runtime.why_not()) is not None:
        pytest.skip(f"bubblewrap does not work here: {reason}")
    return runtime


def container_program() -> ContainerProgram:
    """The tiny engine in the image of DataFusion, which has all that it needs."""
    image = image_name(SPECS["datafusion"])
    return ContainerProgram(image, (PYTHON_INSIDE, "-I", str(TINY)), mounts=(TINY,))


def container_command() -> EngineCommand:
    return replace(tiny_command(), container=container_program())


def working_container(name: Any, **options: Any) -> ContainerRuntime:
    runtime = ContainerRuntime(name, container_command(), **options)
    if (reason := runtime.why_not()) is not None:
        pytest.skip(f"{name} does not work here: {reason}")
    return runtime


def working_tcp_container(name: Any) -> TcpContainerRuntime:
    """The tiny engine as others see it: a port, no lifeline, folders that it was not told of."""
    program = container_program()
    serving = ("--socket", "/tmp/tiny/engine.sock", "--idle", "3600", "--tcp", "5544")
    folders = ("--in", "/opt/engine/in", "--out", "/opt/engine/out")
    program = replace(
        program,
        # Files of this machine are ours to show: an image of others has all that it needs.
        argv=(PYTHON_INSIDE, "-I", "-m", "odf.engines.datafusion", *serving, *folders),
        mounts=(),
        port=5544,
        input_folder="/opt/engine/in",
        output_folder="/opt/engine/out",
    )
    runtime = TcpContainerRuntime(name, EngineCommand((), container=program))
    if (reason := runtime.why_not()) is not None:
        pytest.skip(f"{name} does not work here: {reason}")
    return runtime


def make_runtime(name: str) -> Runtime:
    match name:
        case "memory":
            return MemoryRuntime(EngineHost(tiny_engine.TinyEngine()).register)
        case "process":
            return ProcessRuntime(tiny_command())
        case "docker" | "podman":
            return working_container(name)
        case _:
            return working_sandbox()


SANDBOXES = [
    pytest.param("bubblewrap", marks=pytest.mark.sandbox),
    pytest.param("docker", marks=pytest.mark.container),
    pytest.param("podman", marks=pytest.mark.container),
]
RUNTIMES = ["memory", "process", *SANDBOXES]


@pytest.fixture(scope="module", params=RUNTIMES)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineHandle]:
    """One running engine for all tests of a module, in each runtime."""
    with make_runtime(request.param).start(tmp_path_factory.mktemp("run")) as handle:
        yield handle


@pytest.fixture
def make_slice(tmp_path: Path) -> Callable[..., Path]:
    """Write a slice with the given operations and values; event times count up by a day."""

    def make(ops: list[int], values: list[str], *, start: int = 0, name: str = "a") -> Path:
        rows = len(ops)
        data = pa.schema([pa.field("event_time", pa.timestamp("ms", "UTC")), ("v", pa.string())])
        schema = slice_schema(data, DEFAULT_VOCAB)
        times = pa.array([86_400_000 * (start + i) for i in range(rows)], pa.int64())
        columns = [
            pa.array(range(start, start + rows), pa.int64()),
            pa.array(ops, pa.int32()),
            pa.repeat(pa.scalar(0, pa.timestamp("ms", "UTC")), rows),
            times.cast(pa.timestamp("ms", "UTC")),
            pa.array(values, pa.string()),
        ]
        path = tmp_path / f"{name}-{start}"
        with SliceWriter(path, schema) as writer:
            writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        return path

    return make


def one_input(path: Path, start: int, end: int, *, alias: str = "a") -> TransformCallInput:
    return TransformCallInput(
        dataset_id=A,
        dataset_alias=DatasetAlias.parse(alias),
        query_alias=alias,
        vocab=DEFAULT_VOCAB,
        offset_interval=OffsetInterval(start, end),
        data=(path,),
        schema_file=path,
        explicit_watermarks=(),
    )


def idle(view: TransformCallInput) -> TransformCallInput:
    return replace(view, offset_interval=None, data=())


def with_watermarks(view: TransformCallInput, *times: str) -> TransformCallInput:
    marks = tuple(Watermark(SYSTEM_TIME, Timestamp.parse(time)) for time in times)
    return replace(view, explicit_watermarks=marks)


def transform_call(
    query: str, output: Path, *views: TransformCallInput, next_offset: int = 0
) -> TransformCall:
    return TransformCall(
        dataset_id=B,
        dataset_alias=DatasetAlias.parse("derived"),
        system_time=SYSTEM_TIME,
        vocab=DEFAULT_VOCAB,
        transform=sql(query),
        inputs=views,
        next_offset=next_offset,
        output=output,
    )

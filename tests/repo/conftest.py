"""Datasets with real slices, and a web server over them."""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from odf.errors import OdfError
from odf.metadata.flatbuffers import decode_block, encode_block
from odf.metadata.identity import DatasetID
from odf.metadata.model import (
    AddData,
    Checkpoint,
    DatasetKind,
    DataSlice,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetInfo,
    Timestamp,
    UnknownEvent,
)
from odf.metadata.multiformats import Multihash
from odf.repo.dataset import CommitResult, Dataset
from odf.repo.layout import DatasetStores
from odf.repo.objects import StagedObject
from odf.store.http import HttpClient, HttpTiming

START = Timestamp.parse("2026-01-01T00:00:00Z")
NOW = Timestamp.parse("2026-06-01T00:00:00Z")
ID = DatasetID(bytes(range(32)))


class Maker:
    """Makes datasets and extends them, one block a minute.

    Args:
        scratch: Where files wait for their commit.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._files = 0
        self.now = NOW

    def seed(self, stores: DatasetStores, identity: DatasetID = ID) -> Dataset:
        """Make a root dataset of one block."""
        event = Seed(identity, DatasetKind.ROOT)
        return Dataset.create(stores, [event], system_time=START)

    def full(self, stores: DatasetStores, slices: int = 2) -> Dataset:
        """Make a root dataset with a schema and some slices of two rows."""
        dataset = self.seed(stores)
        for _ in range(slices):
            self.add_rows(dataset)
        return dataset

    def commit(
        self,
        dataset: Dataset,
        *events: MetadataEvent,
        objects: Sequence[StagedObject] = (),
        minutes: int = 1,
    ) -> CommitResult:
        """Commit events some minutes after the last block."""
        time = self.next_time(dataset, minutes)
        result = dataset.commit(
            events, expected_head=dataset.head(), system_time=time, objects=objects
        )
        # What is remembered is never anything else than what the chain says, in any suite.
        fresh = Dataset(dataset.stores)
        assert fresh.state() == fresh.state(use_cache=False) == dataset.state()
        return result

    def next_time(self, dataset: Dataset, minutes: int = 1) -> Timestamp:
        """Return the time of the next block."""
        last = dataset.state().system_time
        assert last is not None
        return Timestamp(last.epoch_ns + minutes * 60_000_000_000)

    def describe(self, dataset: Dataset, text: str) -> CommitResult:
        """Commit a block without any object."""
        return self.commit(dataset, SetInfo(description=text))

    def add_rows(
        self,
        dataset: Dataset,
        rows: Sequence[tuple[str, int]] = (("Oslo", 1), ("Rome", 2)),
        *,
        checkpoint: bytes | None = None,
    ) -> CommitResult:
        """Commit a slice, with the schema before it if it is the first one."""
        import pyarrow as pa

        state = dataset.state()
        start = state.next_offset
        table = pa.table(
            {
                "offset": pa.array(range(start, start + len(rows)), pa.int64()),
                "op": pa.array([0] * len(rows), pa.int32()),
                "system_time": pa.array([self.next_time(dataset).epoch_ms] * len(rows), MS),
                "event_time": pa.array([1_600_000_000_000] * len(rows), MS),
                "city": pa.array([city for city, _ in rows], pa.string()),
                "population": pa.array([count for _, count in rows], pa.int64()),
            },
            schema=self.schema(),
        )
        event, objects = self.proposal(dataset, table, checkpoint=checkpoint)
        events: list[MetadataEvent] = [event]
        if state.schema is None:
            events.insert(0, self.schema_event())
        return self.commit(dataset, *events, objects=objects)

    def proposal(
        self, dataset: Dataset, table: object, *, checkpoint: bytes | None = None
    ) -> tuple[AddData, list[StagedObject]]:
        """Write a slice and describe it, without committing it."""
        from odf.data.slices import SliceWriter, inspect_slice

        state = dataset.state()
        path = self.path()
        with SliceWriter(path, table.schema) as writer:  # type: ignore[attr-defined]
            writer.write(table)  # type: ignore[arg-type]
        info = inspect_slice(path, state.vocab)
        assert info.offset_start is not None
        assert info.offset_end is not None
        interval = OffsetInterval(info.offset_start, info.offset_end)
        objects = [StagedObject("data", path, info.physical_hash)]
        new_checkpoint = None
        if checkpoint is not None:
            objects.append(self.staged("checkpoint", checkpoint))
            new_checkpoint = Checkpoint(objects[-1].hash, len(checkpoint))
        event = AddData(
            prev_checkpoint=state.checkpoint.physical_hash if state.checkpoint else None,
            prev_offset=state.last_offset,
            new_data=DataSlice(info.logical_hash, info.physical_hash, interval, info.size),
            new_checkpoint=new_checkpoint,
            new_watermark=info.max_event_time,
        )
        return event, objects

    def add_unknown_event(self, dataset: Dataset) -> Dataset:
        """Append a block whose event has a tag that does not exist; return the dataset anew."""
        stores, old = dataset.stores, dataset.stores.refs.get("head")
        number = dataset.state().next_sequence_number
        known = encode_block(MetadataBlock(self.now, dataset.head(), number, SetInfo("x")))
        for place in range(len(known)):
            changed = bytes([*known[:place], 200, *known[place + 1 :]])
            try:
                event = decode_block(changed).event
            except OdfError:
                continue  # the byte is something else than the tag
            if isinstance(event, UnknownEvent) and event.tag == 200:
                at = str(Multihash.sha3_256(changed))
                stores.blocks.put(at, changed)
                stores.refs.set("head", at, old)
                return Dataset(stores)
        raise AssertionError("no byte is the tag")

    def staged(self, kind: str, data: bytes) -> StagedObject:
        """Write bytes that wait for their commit."""
        path = self.path()
        path.write_bytes(data)
        return StagedObject(kind, path, Multihash.sha3_256(data))  # type: ignore[arg-type]

    def path(self) -> Path:
        """Return a new path."""
        self._files += 1
        return self._scratch / f"file-{self._files}"

    def schema(self):
        """Return the columns of the slices."""
        import pyarrow as pa

        return pa.schema(
            [
                pa.field("offset", pa.int64(), nullable=False),
                pa.field("op", pa.int32(), nullable=False),
                pa.field("system_time", MS, nullable=False),
                pa.field("event_time", MS),
                pa.field("city", pa.string()),
                pa.field("population", pa.int64()),
            ]
        )

    def schema_event(self) -> SetDataSchema:
        """Return the event that declares these columns."""
        from odf.data.arrow_fields import arrow_schema_to_fields
        from odf.metadata.arrow_schema import encode_schema

        return SetDataSchema(encode_schema(arrow_schema_to_fields(self.schema())))


def _milliseconds():
    import pyarrow as pa

    return pa.timestamp("ms", "UTC")


MS = _milliseconds()


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    """A maker of datasets."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Maker(scratch)


@pytest.fixture
def local(tmp_path: Path) -> DatasetStores:
    """The stores of a dataset in a folder."""
    return DatasetStores.local(tmp_path / "dataset")


@pytest.fixture(params=["local", "memory"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> DatasetStores:
    """The stores of a dataset that can be written to."""
    if request.param == "local":
        return DatasetStores.local(tmp_path / "dataset")
    return DatasetStores.memory()


class _Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes: without it 40 ms each
    seen: list[str]

    def log_message(self, format, *args):  # noqa: A002 - the name is the library's
        pass

    def do_GET(self):
        self.seen.append(self.path)
        super().do_GET()


class _QuietServer(ThreadingHTTPServer):
    """Clients that hang up are part of the tests, and no reason for a traceback."""

    def handle_error(self, request, client_address):
        pass


@pytest.fixture
def serve() -> Iterator[Callable[[Path], tuple[str, list[str]]]]:
    """Serve a folder; returns its URL and the list of the paths that are asked for."""
    running: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def start(folder: Path) -> tuple[str, list[str]]:
        handler = type("Handler", (_Quiet,), {"seen": []})
        server = _QuietServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}/", handler.seen

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def client() -> Iterator[HttpClient]:
    """A client that waits for nothing."""
    made = HttpClient(timing=HttpTiming(connect=5, read=5, sleep=lambda _: None))
    yield made
    made.close()

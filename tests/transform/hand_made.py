"""Datasets made by hand, honest and forged, and a pool of tiny engines in this process."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.slices import SliceWriter, inspect_slice, slice_schema
from odf.engines.host.servicer import EngineHost
from odf.metadata.flatbuffers import block_hash, encode_block
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    AddData,
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetTransform,
    SourceState,
    SqlQueryStep,
    Timestamp,
    TransformInput,
    TransformSql,
)
from odf.metadata.multiformats import Multihash
from odf.protocol.releases import RELEASES
from odf.repo.accept import accept_slice, schema_event
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.runtimes.base import EngineHandle
from odf.runtimes.memory import MemoryRuntime
from odf.runtimes.pool import EnginePool, PoolSettings
from odf.workspace.keys import KeyStore
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.engines.host.tiny_engine import TinyEngine

START = Timestamp.parse("2025-12-01T00:00:00Z")
MS = pa.timestamp("ms", "UTC")


class TinyPool(EnginePool):
    """Gives everybody the tiny engine, or one like it, whatever they ask for."""

    def __init__(self, run_dir: Path, engine: TinyEngine | None = None) -> None:
        super().__init__(PoolSettings(), run_dir=run_dir)
        self._engine = engine

    def _start(self, _name: str, key: str, *_version: str | None, trusted: bool) -> EngineHandle:  # noqa: ARG002
        host = EngineHost(self._engine or TinyEngine())
        return MemoryRuntime(host.register).start(self._run_dir / key)


def day(number: int) -> Timestamp:
    """The beginning of a day of January 2025."""
    return Timestamp.parse(f"2025-01-{number:02}T00:00:00Z")


def sql(query: str) -> TransformSql:
    """A query for the tiny engine, which calls itself Spark here."""
    steps = (SqlQueryStep(alias=None, query=query),)
    return TransformSql(engine="spark", version=RELEASES["spark"], queries=steps)


def set_transform(*inputs: tuple[object, str], query: str = "pass") -> SetTransform:
    """A transform over datasets, each with the name that the query has for it."""
    return SetTransform(tuple(TransformInput(str(ref), alias) for ref, alias in inputs), sql(query))


def make_root(person: Person, name: str) -> DatasetHandle:
    """A root dataset of one's own, without any source."""
    identity = KeyStore(person.settings.data_home).generate()
    seed = Seed(identity, DatasetKind.ROOT)
    return person.workspace.create_dataset(DatasetAlias.parse(name), [seed], system_time=START)


def make_derivative(
    person: Person, name: str, *inputs: DatasetHandle, query: str = "pass"
) -> DatasetHandle:
    """A derivative dataset of one's own."""
    identity = KeyStore(person.settings.data_home).generate()
    transform = set_transform(*((one.id, str(one.alias)) for one in inputs), query=query)
    events = [Seed(identity, DatasetKind.DERIVATIVE), transform]
    return person.workspace.create_dataset(DatasetAlias.parse(name), events, system_time=START)


def write_slice(
    path: Path,
    columns: Mapping[str, Sequence[object]],
    *,
    start: int,
    system_time: Timestamp,
    event_time: Timestamp,
    ops: Sequence[int] = (),
) -> pa.Schema:
    """Write a slice of text columns; returns its schema."""
    rows = len(next(iter(columns.values())))
    data = pa.schema([pa.field("event_time", MS), *((name, pa.string()) for name in columns)])
    schema = slice_schema(data, _VOCAB)
    arrays = [
        pa.array(range(start, start + rows), pa.int64()),
        pa.array(ops or [0] * rows, pa.int32()),
        pa.array([system_time.epoch_ms] * rows, MS),
        pa.array([event_time.epoch_ms] * rows, MS),
        *(pa.array(values, pa.string()) for values in columns.values()),
    ]
    with SliceWriter(path, schema) as writer:
        writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return schema


def add_rows(
    handle: DatasetHandle,
    *names: str,
    watermark: Timestamp | None = None,
    ops: Sequence[int] = (),
    at: Timestamp = START,
    source_state: SourceState | None = None,
    **more: Sequence[object],
) -> Multihash:
    """Commit rows to a root dataset as a pull would; returns the new head.

    Args:
        handle: The dataset.
        names: Values of the column `name`.
        watermark: Also the event time of the rows.
        ops: Operations of the rows; all appended if not given.
        at: Time of the block.
        source_state: How far a source was read with them.
        more: Further columns.
    """
    dataset = handle.dataset
    state = dataset.state()
    path = handle.path / "waiting"
    write_slice(
        path,
        {"name": names, **more},
        start=state.next_offset,
        system_time=at,
        event_time=watermark or day(1),
        ops=ops,
    )
    accepted = accept_slice(path, state, at)
    data = AddData(
        prev_offset=state.last_offset,
        new_data=accepted.data,
        new_watermark=watermark or state.watermark,
        new_source_state=source_state,
    )
    before = [accepted.schema_event] if accepted.schema_event else []
    return dataset.commit(
        [*before, data], expected_head=state.head, system_time=at, objects=[accepted.staged]
    ).new_head


def add_watermark(handle: DatasetHandle, watermark: Timestamp) -> Multihash:
    """Commit a watermark without rows."""
    state = handle.dataset.state()
    event = AddData(prev_offset=state.last_offset, new_watermark=watermark)
    return handle.dataset.commit([event], expected_head=state.head, system_time=START).new_head


def executed(handle: DatasetHandle) -> list[ExecuteTransform]:
    """The steps of a derivative dataset, oldest first."""
    events = [block.event for _, block in handle.dataset.blocks()]
    return [event for event in reversed(events) if isinstance(event, ExecuteTransform)]


def forge(dataset: Dataset, *events: MetadataEvent, at: Timestamp = START) -> Multihash:
    """Append blocks that no rule was asked about, as a dishonest publisher would."""
    head = dataset.head()
    number = -1 if head is None else dataset.block(head).sequence_number
    for event in events:
        number += 1
        data = encode_block(MetadataBlock(at, head, number, event))
        new = block_hash(data)
        dataset.stores.blocks.put(str(new), data)
        dataset.stores.refs.set("head", str(new), str(head) if head else None)
        head = new
    assert head is not None
    return head


def forge_slice(
    dataset: Dataset, scratch: Path, *names: str, start: int = 0, at: Timestamp = START
) -> tuple[MetadataEvent, DataSlice]:
    """Place a sound slice in a dataset; returns the schema event and what describes the slice."""
    path = scratch / f"forged-{start}"
    write_slice(path, {"name": names}, start=start, system_time=at, event_time=day(1))
    info = inspect_slice(path, _VOCAB)
    assert info.offset_start is not None
    assert info.offset_end is not None
    data = DataSlice(
        info.logical_hash,
        info.physical_hash,
        OffsetInterval(info.offset_start, info.offset_end),
        info.size,
    )
    dataset.stores.data.put_file(str(info.physical_hash), path, move=True)
    schema = schema_event(info.schema, Dataset(DatasetStores.memory()).state())
    assert schema is not None
    return schema, data


def place_forged(
    person: Person,
    name: str,
    identity: DatasetID,
    *events: MetadataEvent,
    at: Timestamp = START,
) -> DatasetHandle:
    """Put a forged dataset right into a workspace, as an earlier release or a peer may have."""
    folder = person.workspace.datasets_dir / identity.multibase
    forge(Dataset(DatasetStores.local(folder)), *events, at=at)
    (folder / "info").mkdir(exist_ok=True)
    (folder / "info" / "alias").write_text(name)
    return person.workspace.resolve(name)


def replace_by_other_rows(handle: DatasetHandle) -> Path:
    """Replace the newest slice of a dataset by another valid one of the same shape."""
    event = next(
        block.event
        for _, block in handle.dataset.blocks()
        if isinstance(block.event, AddData | ExecuteTransform) and block.event.new_data
    )
    assert event.new_data is not None
    victim = handle.path / "data" / str(event.new_data.physical_hash)
    rows = pq.read_table(victim)
    place = rows.schema.get_field_index("name")
    other = [f"not {name}" for name in rows.column(place).to_pylist()]
    victim.unlink()
    with SliceWriter(victim, rows.schema) as writer:
        writer.write(rows.set_column(place, rows.schema.field(place), [other]))
    return victim


_VOCAB = Dataset(DatasetStores.memory()).state().vocab

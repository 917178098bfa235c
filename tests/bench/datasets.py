"""Workspaces and chains to measure on, made without an engine where that gives the same bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from odf.clock import SystemClock
from odf.coordinator.context import Context, Settings
from odf.coordinator.pull import PullRequest, pull
from odf.data.arrow_fields import arrow_schema_to_fields
from odf.data.slices import SliceWriter, slice_schema
from odf.data.types import TIMESTAMP_MS_UTC
from odf.metadata.arrow_schema import encode_schema
from odf.metadata.chain import EMPTY_STATE, ChainState, apply
from odf.metadata.flatbuffers import block_hash, encode_block
from odf.metadata.identity import DatasetID
from odf.metadata.model import (
    DEFAULT_VOCAB,
    AddData,
    DatasetKind,
    DataSlice,
    MetadataBlock,
    MetadataEvent,
    OffsetInterval,
    Seed,
    SetDataSchema,
    SetPollingSource,
    SourceState,
    Timestamp,
)
from odf.metadata.multiformats import ARROW0_SHA3_256, SHA3_256, Multihash
from odf.metadata.yaml import load_manifests
from odf.protocol.calls import IngestCall, IngestOutcome, OperationCounts
from odf.repo.accept import accept_slice
from odf.repo.dataset import Dataset
from odf.repo.layout import HEAD, DatasetStores
from odf.store.local import LocalObjectStore
from odf.workspace.workspace import Workspace
from tests.bench import data
from tests.bench.figure import BenchError
from tests.bench.workbench import Workbench

MOMENT = Timestamp.from_datetime(datetime(2026, 1, 1, tzinfo=UTC))
_ROOT = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch:
        kind: FilesGlob
        path: {path}
      read:
        kind: Csv
        header: true
        schema:
{schema}
{preprocess}      merge: {merge}
"""
_PREPROCESS = """\
      preprocess:
        kind: Sql
        engine: spark
        query: >
          {query}
"""
_QUERY = (
    "SELECT event_time, id, upper(city) AS city, amount * quantity AS total "
    "FROM {source} WHERE quantity > 500"
)
_DERIVATIVE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs:
{inputs}
      transform:
        kind: Sql
        engine: {engine}
        queries:
          - query: >
              {query}
"""


def root_manifest(
    name: str, path: str, *, merge: str = "{kind: Append}", preprocess: str | None = None
) -> str:
    """Return the manifest of a dataset over generated CSV files."""
    schema = "\n".join(f"          - {column}" for column in data.DDL)
    query = "" if preprocess is None else _PREPROCESS.format(query=preprocess)
    return _ROOT.format(name=name, path=path, schema=schema, merge=merge, preprocess=query)


def derivative_manifest(name: str, source: str, query: str | None = None) -> str:
    """Return the manifest of a derivative; by default a filter and two computed columns."""
    return derivative_of(name, [source], query or _QUERY.format(source=source))


def derivative_of(name: str, sources: Sequence[str], query: str, engine: str = "spark") -> str:
    """Return the manifest of a derivative of several datasets."""
    inputs = "\n".join(f"        - datasetRef: {source}" for source in sources)
    return _DERIVATIVE.format(name=name, inputs=inputs, query=query, engine=engine)


def new_workspace(bench: Workbench, root: Path, *manifests: str) -> Path:
    """Make a workspace with datasets that were never pulled, by the command line."""
    root.mkdir()
    bench.odf(root, "init", "-q")
    if manifests:
        (root / "datasets.yaml").write_text("---\n".join(manifests))
        bench.odf(root, "add", "-q", "datasets.yaml")
    return root


def add_datasets(bench: Workbench, root: Path, *manifests: str) -> None:
    """Add datasets; an engine that checks their queries stays."""
    (root / "more.yaml").write_text("---\n".join(manifests))
    bench.odf(root, "add", "-q", "more.yaml", warm=True)


def crowded_workspace(bench: Workbench) -> Path:
    """A workspace of many small datasets, all up to date."""
    count = bench.sizes.datasets

    def make() -> Path:
        names = [f"prices-{number:03}" for number in range(count)]
        manifests = [root_manifest(name, f"sources/{name}.csv") for name in names]
        root = new_workspace(bench, bench.place("crowded"), *manifests)
        (root / "sources").mkdir()
        for number, name in enumerate(names):
            data.write_csv(root / "sources" / f"{name}.csv", rows=10, seed=number)
        pull_all_without_engine(bench, Workspace.find(root))
        return root

    return bench.shared("crowded", make)


def pull_all_without_engine(bench: Workbench, workspace: Workspace) -> None:
    """Pull all datasets; the rows are read by Arrow, all else is what `odf pull` does."""
    home = bench.data_home
    settings = Settings(data_home=home, cache_home=home, config_home=home)
    engines: Any = _ArrowEngines()
    with Context(workspace, settings, command="pull", engines=engines) as context:
        report = pull(context, PullRequest(all=True))
    errors = [str(dataset.error) for dataset in report.datasets if dataset.error is not None]
    if errors:
        raise BenchError(f"{len(errors)} datasets could not be pulled: {errors[0]}")


class _ArrowEngines:
    """Stands where the engines of a command would."""

    def client(self, _engine: str, **_options: object) -> "_ArrowReader":
        """Return what reads."""
        return _ArrowReader()


class _ArrowReader:
    """Stands where an engine would, for appends of a small CSV."""

    def ingest(self, call: IngestCall, _on_event: object) -> IngestOutcome:
        """Write a slice of the file's rows."""
        rows = pa_csv.read_csv(call.files[0].path)
        at = pc.cast(rows.column("at"), TIMESTAMP_MS_UTC)
        rows = rows.set_column(1, "at", at)
        schema = write_slice(call.output, rows, call.next_offset, call.system_time)
        return IngestOutcome(
            slice_path=call.output,
            counts=OperationCounts(append=len(rows)),
            rows_read=len(rows),
            keys_revised_ignored=0,
            rows_unchanged=0,
            schema=encode_schema(arrow_schema_to_fields(schema)),
        )


def write_slice(path: Path, rows: pa.Table, next_offset: int, system_time: Timestamp) -> pa.Schema:
    """Write a slice of appended rows and return its schema."""
    schema = slice_schema(rows.schema, DEFAULT_VOCAB)
    count = len(rows)
    times = pa.repeat(pa.scalar(system_time.epoch_ms, TIMESTAMP_MS_UTC), count)
    system = [
        pa.array(range(next_offset, next_offset + count), pa.int64()),
        pa.repeat(pa.scalar(0, pa.int32()), count),
        times,
        times,
    ]
    columns = [*system, *(column.combine_chunks() for column in rows.columns)]
    with SliceWriter(path, schema) as writer:
        writer.write(pa.table(columns, schema=schema))
    return schema


@dataclass(frozen=True, slots=True)
class SlicedDataset:
    """A dataset with slices of some size.

    Attributes:
        root: Its workspace.
        name: Its name there.
        folder: The dataset's own folder.
        size: Bytes of all blocks and slices.
    """

    root: Path
    name: str
    folder: Path
    size: int

    @property
    def files(self) -> list[Path]:
        """All blocks and slices."""
        return sorted(p for kind in ("blocks", "data") for p in (self.folder / kind).iterdir())


def sliced_dataset(bench: Workbench) -> SlicedDataset:
    """A dataset with several slices of generated rows."""

    def make() -> SlicedDataset:
        name = "orders"
        manifest = root_manifest(name, "orders-*.csv")
        root = new_workspace(bench, bench.place("sliced"), manifest)
        handle = Workspace.find(root).resolve(name)
        rows = bench.sizes.slice_rows
        for number in range(bench.sizes.slices):
            path = bench.fresh("slice")
            state = handle.dataset.state()
            found = data.table(rows, bench.options.seed + number)
            now = Timestamp.from_datetime(SystemClock().now())
            write_slice(path, found, state.next_offset, now)
            _commit_slice(handle.dataset, path, state, now)
        made = SlicedDataset(root, name, handle.path, 0)
        return SlicedDataset(root, name, handle.path, sum(p.stat().st_size for p in made.files))

    return bench.shared("sliced", make)


def _commit_slice(dataset: Dataset, path: Path, state: ChainState, system_time: Timestamp) -> None:
    accepted = accept_slice(path, state, system_time)
    event = AddData(prev_offset=state.last_offset, new_data=accepted.data, new_watermark=MOMENT)
    schema: Sequence[MetadataEvent] = [accepted.schema_event] if accepted.schema_event else []
    dataset.commit(
        [*schema, event],
        expected_head=state.head,
        system_time=system_time,
        objects=[accepted.staged],
    )


def first_events() -> list[MetadataEvent]:
    """Return the events that a root dataset begins with, its schema included."""
    (snapshot,) = load_manifests(root_manifest("orders", "orders-*.csv"), "orders.yaml")
    source = next(e for e in snapshot.metadata if isinstance(e, SetPollingSource))
    seed = Seed(DatasetID(Multihash.sha3_256(b"bench").digest), DatasetKind.ROOT)
    schema = slice_schema(data.table(1, 1).schema, DEFAULT_VOCAB)
    recorded = SetDataSchema(schema=encode_schema(arrow_schema_to_fields(schema)))
    return [seed, source, recorded]


def data_event(number: int, physical_hash: Multihash | None = None, size: int = 4096) -> AddData:
    """Return the event of the `number`th slice of ten rows, counted from 0."""
    name = Multihash.sha3_256(b"slice %d" % number)
    first = number * 10
    return AddData(
        prev_offset=first - 1 if number else None,
        new_data=DataSlice(
            logical_hash=Multihash(ARROW0_SHA3_256, name.digest),
            physical_hash=physical_hash or Multihash(SHA3_256, name.digest),
            offset_interval=OffsetInterval(first, first + 9),
            size=size,
        ),
        new_watermark=Timestamp.from_epoch_ms(MOMENT.epoch_ms + number * 60_000),
        new_source_state=SourceState("default", "odf/etag", f'"{number:016x}"'),
    )


def chain_blocks(count: int) -> Iterator[tuple[MetadataBlock, Multihash, bytes]]:
    """Make a chain of a root dataset: its first events, then slices."""
    previous: Multihash | None = None
    beginning = first_events()
    for number in range(count):
        is_data = number >= len(beginning)
        event = data_event(number - len(beginning)) if is_data else beginning[number]
        block = MetadataBlock(MOMENT, previous, number, event)
        encoded = encode_block(block)
        previous = block_hash(encoded)
        yield block, previous, encoded


@dataclass(frozen=True, slots=True)
class LongChain:
    """A chain on disk, without its slices, and its state.

    Attributes:
        folder: The dataset's folder.
        state: What the chain says, from making it.
        paths: The block files, newest first, as a walk reads them.
        size: Their bytes.
    """

    folder: Path
    state: ChainState
    paths: Sequence[Path]
    size: int


def long_chain(bench: Workbench) -> LongChain:
    """A long chain of a root dataset."""

    def make() -> LongChain:
        folder = bench.place("chain")
        stores = DatasetStores.local(folder)
        state, sizes, names = EMPTY_STATE, 0, []
        encoded: list[tuple[str, bytes]] = []
        for block, at, found in chain_blocks(bench.sizes.chain):
            state = apply(state, block, at)
            encoded.append((str(at), found))
            names.append(str(at))
            sizes += len(found)
        LocalObjectStore(folder / "blocks", durable=False).put_many(iter(encoded))
        stores.refs.set(HEAD, str(state.head), None)
        paths = [folder / "blocks" / name for name in reversed(names)]
        return LongChain(folder, state, paths, sizes)

    return bench.shared("chain", make)

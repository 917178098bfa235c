"""Strangers' slices are read apart, one's own right here; a bomb among them harms nobody."""

import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from odf.coordinator.engines import transform_surroundings
from odf.coordinator.ingesting import ingest_surroundings
from odf.coordinator.pull import PullRequest, pull
from odf.coordinator.reading import slice_reader
from odf.coordinator.tail import tail
from odf.coordinator.verify import verify
from odf.data.apart import ReaderApart
from odf.data.parquet import MalformedSliceError, physical_hash
from odf.data.readers import OWN_READER
from odf.metadata.identity import DatasetID
from odf.metadata.model import DEFAULT_VOCAB, AddData, DatasetKind, DataSlice, OffsetInterval, Seed
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.transform.verify import replay
from odf.workspace.workspace import DatasetHandle
from tests.data.hostile_files import write_list_bomb
from tests.e2e.conftest import Person
from tests.transform.hand_made import (
    TinyPool,
    add_rows,
    day,
    forge_slice,
    make_derivative,
    make_root,
    place_forged,
    set_transform,
)

THEIRS = DatasetID(bytes(range(32)))


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    pool = TinyPool(tmp_path / "engines")
    yield Person(tmp_path / "workspace", tmp_path / "home", pool)
    pool.close()


def place_theirs(person: Person, scratch: Path, *names: str) -> DatasetHandle:
    """A stranger's root dataset, with a bomb in the place of a slice if no names are given."""
    store = Dataset(DatasetStores.local(person.workspace.datasets_dir / THEIRS.multibase))
    schema, data = forge_slice(store, scratch, *(names or ("bomb",)))
    if not names:
        bomb = write_list_bomb(scratch / "bomb")
        physical, size = physical_hash(bomb)
        store.stores.data.put_file(str(physical), bomb, move=True)
        data = DataSlice(data.logical_hash, physical, OffsetInterval(0, 0), size)
    seed = Seed(THEIRS, DatasetKind.ROOT)
    return place_forged(person, "theirs", THEIRS, seed, schema, AddData(new_data=data))


def test_a_bomb_is_a_finding(person: Person, tmp_path: Path) -> None:
    place_theirs(person, tmp_path)
    add_rows(make_root(person, "mine"), "one", watermark=day(1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with person.context("verify") as ctx:
        mine, theirs = verify(ctx, (), everything=True).datasets
        assert (mine.name, mine.valid) == ("mine", True)
        assert not theirs.valid
        [message] = [found.message for found in theirs.findings if found.severity == "error"]
        assert "the slice cannot be read" in message
        with pytest.raises(MalformedSliceError, match="cannot be read"):
            tail(ctx, "theirs", 10)
    taken_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert taken_kib < 100 * 1024


def test_strangers_data_is_verified_and_shown(person: Person, tmp_path: Path) -> None:
    theirs = place_theirs(person, tmp_path, "one", "two")
    ours = make_derivative(person, "ours", theirs)
    with person.context("verify") as ctx:
        [found] = verify(ctx, ("theirs",)).datasets
        assert (found.valid, found.complete, found.findings) == (True, True, ())
        table = tail(ctx, "theirs", 1).table
        assert table is not None
        assert table["name"].to_pylist() == ["two"]
    with person.context("pull") as ctx:
        [pulled] = pull(ctx, PullRequest(refs=("ours",))).datasets
        assert dict(pulled.records) == {"+A": 2}
        assert ctx.reader_of(ours)._child is not None
    with person.context("verify") as ctx:
        step = next(replay(ours, transform_surroundings(ctx, ours)))
        assert (step.differences, step.unchecked) == ((), None)
        assert ctx.reader_of(ours)._child is not None
        [found] = verify(ctx, ("ours",)).datasets
        assert (found.valid, found.complete, found.replayed) == (True, True, 1)


def test_one_s_own_is_read_right_here(person: Person) -> None:
    source = make_root(person, "source")
    add_rows(source, "one", "two", watermark=day(1))
    derived = make_derivative(person, "derived", source)
    person.pull("derived")
    with person.context("verify") as ctx:
        assert verify(ctx, (), everything=True).datasets[1].replayed == 1
        assert tail(ctx, "derived", 9).table is not None
        for handle in (source, derived):
            assert slice_reader(ctx, handle) is OWN_READER
        assert not (ctx.run_dir / "readers").exists()


def test_what_is_made_of_strangers_data_is_read_apart(person: Person, tmp_path: Path) -> None:
    theirs = place_theirs(person, tmp_path, "one")
    ours = make_derivative(person, "ours", theirs)
    lost = DatasetID(bytes(range(1, 33)))
    orphan = place_forged(
        person,
        "orphan",
        lost,
        Seed(lost, DatasetKind.DERIVATIVE),
        set_transform((DatasetID(bytes(range(2, 34))), "gone")),
    )
    further = make_derivative(person, "further", ours)
    with person.context("pull") as ctx:
        readers = {slice_reader(ctx, one) for one in (theirs, ours, further, orphan)}
        assert len(readers) == 4
        assert all(isinstance(one, ReaderApart) for one in readers)
        assert transform_surroundings(ctx, ours).reader is slice_reader(ctx, ours)
        assert ingest_surroundings(ctx, theirs).reader is slice_reader(ctx, theirs)


def test_readers_end_with_the_command(person: Person, tmp_path: Path) -> None:
    theirs = place_theirs(person, tmp_path, "one")
    with person.context("tail") as ctx:
        tail(ctx, "theirs", 1)
        child = ctx.reader_of(theirs)._child
        assert child is not None
        folder = ctx.run_dir / "readers"
        assert folder.is_dir()
    assert child._process.returncode is not None
    assert list(folder.iterdir()) == []


def test_few_readers_live_at_once(person: Person, tmp_path: Path) -> None:
    """However many datasets of others a command goes through."""
    theirs = place_theirs(person, tmp_path, "one")
    path = next((theirs.path / "data").iterdir())
    datasets = [make_derivative(person, f"d{number}", theirs) for number in range(6)]
    with person.context("verify") as ctx:
        readers = []
        for handle in datasets:
            readers.append(ctx.reader_of(handle))
            assert readers[-1].inspect(path, DEFAULT_VOCAB).num_records == 1
            assert sum(reader._child is not None for reader in readers) <= 4
        # One that had to go comes again.
        assert readers[0].inspect(path, DEFAULT_VOCAB).num_records == 1


def test_a_workspace_that_can_only_be_read(person: Person, tmp_path: Path) -> None:
    place_theirs(person, tmp_path, "one")
    source = make_root(person, "source")
    add_rows(source, "one", "two", watermark=day(1))
    make_derivative(person, "derived", source)
    person.pull("derived")
    runs = person.workspace.root / ".odf" / "run"
    shutil.rmtree(runs, ignore_errors=True)
    # Not even root can make folders in a file.
    runs.write_text("")
    with person.context("tail") as ctx:
        table = tail(ctx, "theirs", 1).table
        assert table is not None
        assert table["name"].to_pylist() == ["one"]
        seen = {found.name: found for found in verify(ctx, (), everything=True).datasets}
        assert (seen["theirs"].valid, seen["derived"].valid) == (True, True)
        assert seen["derived"].replayed == 1
        folder = ctx.run_dir
        assert folder.is_dir()
        assert not folder.is_relative_to(person.workspace.root)
    assert not folder.exists()

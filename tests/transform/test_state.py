"""State between the steps of a derivative dataset: carried, believed only if replayed, given up."""

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from odf.coordinator.results import VerifyFinding
from odf.errors import IntegrityError, OdfError
from odf.metadata.model import Checkpoint, DatasetKind, MetadataEvent, Seed, SetVocab, Timestamp
from odf.protocol.releases import RELEASES
from odf.repo.files import slice_paths
from odf.repo.objects import hash_file
from odf.workspace.keys import KeyStore
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.engines.host.tiny_engine import TinyEngine
from tests.transform.hand_made import (
    add_rows,
    add_watermark,
    day,
    executed,
    forge,
    make_derivative,
    make_root,
    place_forged,
    set_transform,
)

LATER = Timestamp.parse("2026-01-01T12:00:01Z")


def names(handle: DatasetHandle) -> list[str]:
    """The column `name` of all slices, oldest first."""
    tables = [pq.read_table(path) for path in slice_paths(handle.dataset)]
    return [name for table in tables for name in table.column("name").to_pylist()]


def count(handle: DatasetHandle, checkpoint: Checkpoint | None) -> int:
    """What the engine kept."""
    assert checkpoint is not None
    path = handle.path / "checkpoints" / str(checkpoint.physical_hash)
    assert hash_file(path) == (checkpoint.physical_hash, checkpoint.size)
    return int(path.read_text().split("\n")[1])


@pytest.fixture
def source(person: Person) -> DatasetHandle:
    return make_root(person, "source")


@pytest.fixture
def derived(person: Person, source: DatasetHandle) -> DatasetHandle:
    """A dataset with three steps, the last of a watermark only."""
    made = make_derivative(person, "derived", source, query="number")
    add_rows(source, "one", "two", watermark=day(1))
    person.pull("derived")
    add_rows(source, "three", watermark=day(2))
    person.pull("derived")
    add_watermark(source, day(3))
    person.pull("derived")
    return made


def findings(person: Person, name: str = "derived") -> list[VerifyFinding]:
    (report,) = person.verify(name).datasets
    assert report.valid == (not any(f.severity == "error" for f in report.findings))
    return list(report.findings)


def set_changed(handle: DatasetHandle, *events: MetadataEvent) -> None:
    head = handle.dataset.head()
    handle.dataset.commit(list(events), expected_head=head, system_time=LATER)


def test_state_goes_from_step_to_step(derived: DatasetHandle, person: Person) -> None:
    assert names(derived) == ["one 1", "two 2", "three 3"]
    steps = executed(derived)
    assert [count(derived, step.new_checkpoint) for step in steps] == [2, 3, 3]
    assert steps[0].prev_checkpoint is None
    for before, step in itertools.pairwise(steps):
        assert before.new_checkpoint is not None
        assert step.prev_checkpoint == before.new_checkpoint.physical_hash
    assert (steps[2].new_data, steps[2].new_watermark) == (None, day(3))
    assert len(list((derived.path / "checkpoints").iterdir())) == 2
    report = person.verify("derived").datasets[0]
    assert (report.valid, report.replayed, report.findings) == (True, 3, ())


def test_an_engine_without_state_records_none(person: Person, source: DatasetHandle) -> None:
    derived = make_derivative(person, "derived", source)
    add_rows(source, "one")
    person.pull("derived")
    assert [step.new_checkpoint for step in executed(derived)] == [None]


def test_a_step_without_rows_or_watermark_records_its_state(
    person: Person, source: DatasetHandle
) -> None:
    derived = make_derivative(person, "derived", source, query="number")
    add_rows(source, "one")
    person.pull("derived")
    assert count(derived, executed(derived)[-1].new_checkpoint) == 1


@pytest.mark.parametrize("damage", ["missing", "corrupt"])
def test_a_damaged_checkpoint_stops_before_the_engine(
    damage: str, derived: DatasetHandle, person: Person, source: DatasetHandle
) -> None:
    head = derived.dataset.head()
    checkpoint = executed(derived)[-1].new_checkpoint
    assert checkpoint is not None
    path = derived.path / "checkpoints" / str(checkpoint.physical_hash)
    if damage == "missing":
        path.unlink()
    else:
        path.write_text(path.read_text().replace("3", "7"))
    add_rows(source, "four", watermark=day(4))
    with pytest.raises(IntegrityError, match=f"checkpoints/.*{damage}") as refused:
        person.pull("derived")
    assert "odf verify" in (refused.value.hint or "")
    assert derived.dataset.head() == head
    assert any("the checkpoint is" in finding.message for finding in findings(person))


def test_a_changed_query_gives_up_the_state(
    derived: DatasetHandle, person: Person, source: DatasetHandle
) -> None:
    set_changed(derived, set_transform((source.id, "source"), query="pass"))
    add_rows(source, "four", watermark=day(4))
    (told,) = person.pull("derived").warnings
    assert told.startswith("the query was changed and goes on without what was kept: it is of numb")
    assert told.endswith("given up: 7 rows of input-0")
    assert executed(derived)[-1].new_checkpoint is None
    set_changed(derived, set_transform((source.id, "source"), query="number"))
    add_rows(source, "five", watermark=day(5))
    person.pull("derived")
    assert names(derived)[3:] == ["four", "five 1"]
    assert findings(person) == []


def test_what_changes_nothing_for_the_query_keeps_the_state(
    derived: DatasetHandle, person: Person, source: DatasetHandle
) -> None:
    set_changed(derived, set_transform((source.id, "other name"), query="number"))
    add_rows(source, "four", watermark=day(4), size=["wide"])
    person.pull("derived")
    assert names(derived)[3:] == ["four 4"]
    assert findings(person) == []


def test_another_vocabulary_of_an_input_gives_up_the_state(
    derived: DatasetHandle, person: Person, source: DatasetHandle
) -> None:
    # Ours refuse that, others may not.
    forge(source.dataset, SetVocab(system_time_column="written"))
    add_watermark(source, day(4))
    person.pull("derived")
    assert count(derived, executed(derived)[-1].new_checkpoint) == 0
    assert findings(person) == []


def test_an_input_that_comes_and_goes(
    derived: DatasetHandle, person: Person, source: DatasetHandle
) -> None:
    other = make_root(person, "other")
    add_rows(other, "a", "b", watermark=day(1))
    both = ((other.id, "other"), (source.id, "source"))
    set_changed(derived, set_transform(*both, query="number"))
    add_rows(source, "four", watermark=day(4))
    person.pull("derived")
    assert names(derived)[3:] == ["a 4", "b 5", "four 6"]
    set_changed(derived, set_transform(both[0], query="number"))
    add_rows(other, "c", watermark=day(5))
    person.pull("derived")
    assert names(derived)[6:] == ["c 7"]
    assert [len(step.query_inputs) for step in executed(derived)] == [1, 1, 1, 2, 1]
    assert findings(person) == []


class CrashError(Exception):
    """Something ended the process."""


@pytest.mark.parametrize("after", ["engine", "objects", "block"])
def test_a_crash_between_two_steps_changes_nothing(
    after: str, person: Person, source: DatasetHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same chain comes of it, with the state counted once."""
    derived = make_derivative(person, "derived", source, query="number")
    add_rows(source, "one", watermark=day(1))
    person.pull("derived")
    add_rows(source, "two", watermark=day(2))
    before = person.root / "before"
    shutil.copytree(derived.path, before)
    undisturbed = person.pull("derived").new_head
    shutil.rmtree(derived.path)
    before.rename(derived.path)
    assert len(executed(derived)) == 1
    crash = _crashing(derived, after)
    with monkeypatch.context() as patched:
        crash(patched)
        with pytest.raises((CrashError, OdfError)):
            person.pull("derived")
    assert person.pull("derived").new_head == undisturbed
    assert names(derived) == ["one 1", "two 2"]
    assert [count(derived, step.new_checkpoint) for step in executed(derived)] == [1, 2]
    assert findings(person) == []


def _crashing(handle: DatasetHandle, after: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what makes a commit end early: real stores, one of whose calls does not come back."""
    stores = handle.dataset.stores
    place, method = {
        "engine": (stores.data, "put_file"),
        "objects": (stores.blocks, "put"),
        "block": (stores.refs, "set"),
    }[after]

    def crash(*_: object, **__: object) -> None:
        raise CrashError(after)

    return lambda patched: patched.setattr(type(place), method, crash)


@pytest.mark.parametrize("pinned", [True, False])
def test_a_forged_state_is_found(
    pinned: bool,
    person: Person,
    source: DatasetHandle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A publisher forges a checkpoint and goes on from there, as an honest engine does."""
    if pinned:  # to the release that runs: then the bytes of its state are known too
        monkeypatch.setattr(TinyEngine, "release", RELEASES["spark"])
    add_rows(source, "one", "two", watermark=day(1))
    derived = make_derivative(person, "derived", source, query="number")
    person.pull("derived")
    (step,) = executed(derived)
    assert step.new_checkpoint is not None
    true = derived.path / "checkpoints" / str(step.new_checkpoint.physical_hash)
    forged = tmp_path / "forged"
    forged.write_text(true.read_text().replace("\n2", "\n9"))
    fake = replace(step, new_checkpoint=Checkpoint(*hash_file(forged)))
    identity = KeyStore(person.settings.data_home).generate()
    transform = set_transform((source.id, "source"), query="number")
    schema = derived.dataset.state().schema
    assert schema is not None
    events = (Seed(identity, DatasetKind.DERIVATIVE), transform, schema, fake)
    at = derived.dataset.state().system_time
    assert at is not None
    forgery = place_forged(person, "forgery", identity, *events, at=at)
    shutil.copytree(derived.path / "data", forgery.path / "data", dirs_exist_ok=True)
    (forgery.path / "checkpoints").mkdir(exist_ok=True)
    assert fake.new_checkpoint is not None
    shutil.copy(forged, forgery.path / "checkpoints" / str(fake.new_checkpoint.physical_hash))
    first = findings(person, "forgery")
    assert [one.message.split(": recorded")[0] for one in first if one.severity == "error"] == (
        ["not reproducible: checkpoint"] if pinned else []
    )
    add_rows(source, "three", watermark=day(2))
    person.pull("forgery")
    assert names(forgery)[2:] == ["three 10"]
    messages = [one.message for one in findings(person, "forgery") if one.severity == "error"]
    assert any("logical hash of the rows: recorded" in message for message in messages)
    assert any("checkpoint: recorded" in message for message in messages) == pinned


def test_steps_after_one_that_cannot_be_replayed_are_left_open(
    derived: DatasetHandle, person: Person, source: DatasetHandle
) -> None:
    """Without its state nothing can be said about a step."""
    first = executed(derived)[0]
    other = make_root(person, "other")
    add_rows(other, "a", watermark=day(1))
    set_changed(derived, set_transform((source.id, "source"), (other.id, "other"), query="number"))
    add_rows(source, "four", watermark=day(4))
    person.pull("derived")
    set_changed(derived, set_transform((source.id, "source"), query="number"))
    add_rows(source, "five", watermark=day(5))
    person.pull("derived")
    assert first.new_checkpoint is not None
    shutil.rmtree(other.path)
    found = findings(person)
    assert [one.severity for one in found] == ["unchecked", "unchecked"]
    assert "an input is not in this workspace" in found[0].message
    assert "the state before it could not be made again" in found[1].message

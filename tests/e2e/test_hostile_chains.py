"""Chains that no honest tool writes, found in a workspace or in a repository; without Spark."""

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from odf.coordinator.pull import PullRequest, pull
from odf.coordinator.results import PulledDataset, PullStatus, VerifiedDataset
from odf.coordinator.verify import verify
from odf.errors import IntegrityError, InvalidQueryError, OdfError
from odf.metadata.identity import DatasetID
from odf.metadata.model import (
    AddData,
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    Seed,
    SetInfo,
)
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.e2e.forging import commit_forged_slice
from tests.repo.conftest import Maker
from tests.transform.hand_made import (
    START,
    TinyPool,
    add_rows,
    day,
    executed,
    forge,
    forge_slice,
    make_derivative,
    make_root,
    place_forged,
    set_transform,
)

THEIRS = DatasetID(bytes(range(32)))
OTHERS = DatasetID(bytes(range(1, 33)))


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    """Somebody whose engine is tiny, and with a sound pair of datasets that must go on working."""
    pool = TinyPool(tmp_path / "engines")
    somebody = Person(tmp_path / "workspace", tmp_path / "home", pool)
    add_rows(make_root(somebody, "sound-source"), "one", "two", watermark=day(1))
    make_derivative(somebody, "sound", somebody.workspace.resolve("sound-source"))
    yield somebody
    pool.close()


@pytest.fixture
def repository(tmp_path: Path) -> Dataset:
    """A dataset in somebody else's folder."""
    return Dataset(DatasetStores.local(tmp_path / "repository", cached=False))


def pull_all(person: Person) -> dict[str, PulledDataset]:
    with person.context("pull") as ctx:
        return {found.name: found for found in pull(ctx, PullRequest(all=True)).datasets}


def verify_all(person: Person) -> dict[str, VerifiedDataset]:
    with person.context("verify") as ctx:
        return {found.name: found for found in verify(ctx, (), everything=True).datasets}


def assert_others_go_on(person: Person) -> tuple[PulledDataset, VerifiedDataset]:
    """Pull and verify everything; return what became of the dataset `theirs`."""
    pulled, verified = pull_all(person), verify_all(person)
    assert pulled["sound"].status is PullStatus.UPDATED
    assert dict(pulled["sound"].records) == {"+A": 2}
    for name in ("sound-source", "sound"):
        assert (verified[name].valid, verified[name].complete) == (True, True)
    assert verified["sound"].replayed == 1
    return pulled["theirs"], verified["theirs"]


def errors(found: VerifiedDataset) -> list[str]:
    return [one.message for one in found.findings if one.severity == "error"]


def source_of(person: Person) -> DatasetHandle:
    return person.workspace.resolve("sound-source")


def first_step(source: DatasetHandle, **other: object) -> ExecuteTransformInput:
    """What an honest first step records about its input."""
    head = source.dataset.head()
    step = ExecuteTransformInput(source.id, new_block_hash=head, new_offset=1)
    return replace(step, **other)


def test_a_derivative_with_rows_from_nowhere(
    person: Person, repository: Dataset, tmp_path: Path
) -> None:
    """`AddData` in a derivative dataset: no replay would ever see its rows."""
    schema, data = forge_slice(repository, tmp_path, "made up", "invented")
    source = source_of(person)
    forge(
        repository,
        Seed(THEIRS, DatasetKind.DERIVATIVE),
        set_transform((source.id, "source")),
        schema,
        AddData(new_data=data, new_watermark=day(1)),
    )
    person.pull(str(tmp_path / "repository"), as_name="theirs")
    _, verified = assert_others_go_on(person)
    assert not verified.valid
    (said,) = errors(verified)
    assert "block 3 (AddData) breaks the rule event-fits-kind" in said


def test_a_root_with_derived_rows(person: Person, repository: Dataset, tmp_path: Path) -> None:
    schema, data = forge_slice(repository, tmp_path, "one", "two")
    source = source_of(person)
    step = ExecuteTransform((first_step(source),), new_data=data, new_watermark=day(1))
    transform = set_transform((source.id, "source"))
    forge(repository, Seed(THEIRS, DatasetKind.ROOT), transform, schema, step)
    person.pull(str(tmp_path / "repository"), as_name="theirs")
    _, verified = assert_others_go_on(person)
    assert not verified.valid
    assert any(
        "block 3 (ExecuteTransform) breaks the rule event-fits-kind" in said
        for said in errors(verified)
    )


def test_a_derivative_that_begins_in_the_middle_of_its_input(
    person: Person, repository: Dataset, tmp_path: Path
) -> None:
    """Rows of the input that nobody derived anything from: a replay of the step would agree."""
    source = source_of(person)
    first = source.dataset.head()
    last = add_rows(source, "three", watermark=day(2))
    schema, data = forge_slice(repository, tmp_path, "three")
    skipped = ExecuteTransformInput(source.id, first, last, prev_offset=1, new_offset=2)
    forge(
        repository,
        Seed(THEIRS, DatasetKind.DERIVATIVE),
        set_transform((source.id, "source")),
        schema,
        ExecuteTransform((skipped,), new_data=data, new_watermark=day(2)),
    )
    person.pull(str(tmp_path / "repository"), as_name="theirs")
    verified = verify_all(person)["theirs"]
    assert not verified.valid
    (said,) = errors(verified)
    assert "block 3 (ExecuteTransform) breaks the rule input-first" in said


@pytest.mark.parametrize("inputs", [0, 2], ids=["none", "one too many"])
def test_a_step_with_another_number_of_inputs(inputs: int, person: Person, tmp_path: Path) -> None:
    source = source_of(person)
    recorded = (first_step(source), ExecuteTransformInput(OTHERS))[:inputs]
    handle = place_forged(
        person,
        "theirs",
        THEIRS,
        Seed(THEIRS, DatasetKind.DERIVATIVE),
        set_transform((source.id, "source")),
    )
    schema, data = forge_slice(handle.dataset, tmp_path, "one", "two")
    forge(handle.dataset, schema, ExecuteTransform(recorded, new_data=data, new_watermark=day(1)))
    pulled, verified = assert_others_go_on(person)
    assert pulled.error is None or pulled.error.kind != "internal"
    assert not verified.valid
    assert any("breaks the rule transform-inputs" in said for said in errors(verified))


@pytest.mark.parametrize("recursive", [False, True])
def test_a_dataset_that_names_itself(person: Person, *, recursive: bool) -> None:
    place_forged(
        person,
        "theirs",
        THEIRS,
        Seed(THEIRS, DatasetKind.DERIVATIVE),
        set_transform((THEIRS, "me")),
    )
    pulled, verified = assert_others_go_on(person)
    assert pulled.status in {PullStatus.UP_TO_DATE, PullStatus.FAILED}
    assert not verified.valid
    assert any("breaks the rule transform-not-self" in said for said in errors(verified))
    if recursive:
        assert len(person.verify("theirs", recursive=True).datasets) == 1


def test_datasets_that_name_each_other(person: Person) -> None:
    for name, own, other in (("theirs", THEIRS, OTHERS), ("others", OTHERS, THEIRS)):
        place_forged(
            person,
            name,
            own,
            Seed(own, DatasetKind.DERIVATIVE),
            set_transform((other, "other"), (source_of(person).id, "source")),
        )
    pulled, verified = assert_others_go_on(person)
    assert (pulled.status, pulled.blocks) == (PullStatus.UP_TO_DATE, 0)
    assert verified.valid  # nothing is derived yet, and each chain by itself may be so
    report = person.verify("theirs", recursive=True)
    assert {found.name for found in report.datasets} == {"theirs", "others", "sound-source"}


def test_a_chain_of_a_later_version(person: Person, tmp_path: Path) -> None:
    """An event that nobody here knows, then a transform whose input is a name, then a step."""
    handle = place_forged(
        person,
        "theirs",
        THEIRS,
        Seed(THEIRS, DatasetKind.DERIVATIVE),
        SetInfo(description="from the future"),
    )
    maker = Maker(tmp_path)
    maker.now = START
    dataset = maker.add_unknown_event(handle.dataset)
    schema, data = forge_slice(dataset, tmp_path, "one", "two")
    forge(
        dataset,
        set_transform(("some.alias", "x")),
        schema,
        ExecuteTransform((first_step(source_of(person)),), new_data=data, new_watermark=day(1)),
    )
    before = dataset.head()
    pulled, verified = assert_others_go_on(person)
    assert pulled.status is not PullStatus.UPDATED
    assert pulled.error is None or pulled.error.kind != "internal"
    assert person.workspace.resolve("theirs").dataset.head() == before
    assert (verified.valid, verified.complete, verified.replayed) == (True, False, 0)
    assert {one.severity for one in verified.findings} == {"unchecked"}
    assert any("cannot be run again" in one.message for one in verified.findings)


@pytest.mark.parametrize("name", ["config", "alias"])
@pytest.mark.parametrize("damage", ["garbage", "folder"])
def test_a_dataset_whose_record_cannot_be_read(name: str, damage: str, person: Person) -> None:
    handle = make_root(person, "theirs")
    record = handle.path / "info" / name
    if damage == "garbage":
        record.write_bytes(b"\xff{: [")
    else:
        record.unlink(missing_ok=True)
        record.mkdir()
    pulled, verified = pull_all(person), verify_all(person)
    assert pulled["sound"].status is PullStatus.UPDATED
    assert verified["sound"].valid
    assert len(pulled) == len(verified) == 3
    if name == "config":  # whether it is pulled from elsewhere cannot be told: not touched
        assert pulled["theirs"].status is PullStatus.FAILED
        assert isinstance(pulled["theirs"].error, OdfError)
        assert "config" in pulled["theirs"].error.message
    damaged = next(found for found in verified.values() if not found.name.startswith("sound"))
    assert damaged.valid


def test_a_chain_whose_block_is_gone(person: Person) -> None:
    handle = make_root(person, "theirs")
    head = handle.dataset.head()
    shutil.rmtree(handle.path / "info")
    (handle.path / "blocks" / str(head)).unlink()
    person.workspace = type(person.workspace).find(person.root)  # nothing remembered
    pulled, verified = pull_all(person), verify_all(person)
    assert pulled["sound"].status is PullStatus.UPDATED
    assert verified["sound"].valid
    (damaged,) = (found for name, found in verified.items() if not name.startswith("sound"))
    assert not damaged.valid
    (failed,) = (found for name, found in pulled.items() if not name.startswith("sound"))
    assert failed.status is PullStatus.FAILED
    assert isinstance(failed.error, IntegrityError)


def test_an_engine_that_fails_does_not_hide_a_forgery(person: Person, tmp_path: Path) -> None:
    """A forger could add a step that no engine can run, so that nobody hears of the first one."""
    person.pull("sound")
    handle = person.workspace.resolve("sound")
    lie = commit_forged_slice(handle, tmp_path)
    state = handle.dataset.state()
    assert state.system_time is not None
    source, now = source_of(person), state.system_time
    forge(handle.dataset, set_transform((source.id, "sound-source"), query="no-event-time"), at=now)
    add_rows(source, "three", watermark=day(2))
    schema, data = forge_slice(handle.dataset, tmp_path, "three", start=2, at=now)
    assert schema == state.schema
    (last,) = executed(handle)[-1].query_inputs
    read = ExecuteTransformInput(
        source.id,
        last.new_block_hash,
        source.dataset.head(),
        prev_offset=last.new_offset,
        new_offset=2,
    )
    step = ExecuteTransform((read,), prev_offset=1, new_data=data, new_watermark=day(2))
    forge(handle.dataset, step, at=now)
    verified = verify_all(person)["sound"]
    assert not verified.valid
    assert isinstance(verified.error, InvalidQueryError)
    found = [one for one in verified.findings if one.severity == "error"]
    assert [one.block for one in found] == [lie]
    assert "logical hash" in found[0].message


@pytest.mark.parametrize("seed", range(3))
def test_inputs_are_visited_once_however_they_are_tangled(seed: int, person: Person) -> None:
    """Many chains that name each other at random: an end is found, and quickly."""
    ids = [DatasetID(bytes([number, *range(31)])) for number in range(40)]
    draw = random.Random(seed)
    for number, own in enumerate(ids):
        others = draw.sample(ids, 6)
        inputs = [(other, f"x{place}") for place, other in enumerate(others)]
        place_forged(
            person,
            "theirs" if number == 0 else f"d{number}",
            own,
            Seed(own, DatasetKind.DERIVATIVE),
            set_transform(*inputs),
        )
    assert_others_go_on(person)

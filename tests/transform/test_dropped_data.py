"""Data of derivatives that was dropped: gone, said so, and made again row for row."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from odf.coordinator.drop_data import drop_data
from odf.coordinator.push import push
from odf.coordinator.results import DroppedDataset, PullStatus
from odf.coordinator.tail import tail
from odf.errors import BadInputError, ConflictError, EngineUnavailableError, IntegrityError
from odf.metadata.model import (
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    Seed,
    Timestamp,
)
from odf.repo.dropped import DataDroppedError, missing_slices, restore_slice
from odf.repo.files import slice_paths
from odf.repo.objects import StagedObject, hash_file
from odf.transform.plan import DivergedInputError
from odf.workspace.keys import KeyStore
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.transform.hand_made import (
    add_rows,
    day,
    forge_slice,
    make_derivative,
    make_root,
    place_forged,
    set_transform,
)


@pytest.fixture
def chain(person: Person) -> tuple[DatasetHandle, DatasetHandle, DatasetHandle]:
    """A root, a derivative of it, and a derivative of that."""
    source = make_root(person, "source")
    first = make_derivative(person, "first", source)
    second = make_derivative(person, "second", first)
    for number in (1, 2):
        add_rows(source, f"row {number}", watermark=day(number))
        person.pull("first")
        person.pull("second")
    return source, first, second


def slices(handle: DatasetHandle) -> list[str]:
    return sorted(path.name for path in (handle.path / "data").iterdir())


def take_newest_away(handle: DatasetHandle) -> None:
    """Take the newest block away from a dataset, as a reset does."""
    head = handle.dataset.head()
    assert head is not None
    below = handle.dataset.block(head).prev_block_hash
    handle.dataset.stores.refs.set("head", str(below), str(head))


def drop(person: Person, *names: str, force: bool = False) -> tuple[DroppedDataset, ...]:
    with person.context("drop-data") as ctx:
        return drop_data(ctx, names, force=force)


def last_rows(person: Person, name: str) -> list[str]:
    with person.context("tail") as ctx:
        table = tail(ctx, name, 10).table
    assert table is not None
    return table.column("name").to_pylist()


def test_what_is_dropped_is_gone_and_verify_says_why(
    person: Person, chain: tuple[DatasetHandle, ...]
) -> None:
    first = chain[1]
    before, head = slices(first), first.dataset.head()
    (freed,) = drop(person, "first")
    assert (freed.name, freed.slices) == ("first", 2)
    assert freed.size > 0
    assert slices(first) == []
    assert first.dataset.head() == head
    with person.context("verify") as ctx:
        from odf.coordinator.verify import verify

        (found,) = verify(ctx, ("first",), integrity_only=True).datasets
    assert (found.valid, found.complete) == (True, False)
    assert [finding.message for finding in found.findings] == ["its data was dropped"] * 2
    assert {finding.severity for finding in found.findings} == {"unchecked"}
    assert sorted(finding.object or "" for finding in found.findings) == [
        f"data/{name}" for name in before
    ]


def test_what_is_lost_without_having_been_dropped_is_damage(
    person: Person, chain: tuple[DatasetHandle, ...]
) -> None:
    first = chain[1]
    drop(person, "first")
    person.pull("first")
    add_rows(chain[0], "row 3", watermark=day(3))
    person.pull("first")
    newest = slice_paths(first.dataset)[-1]
    newest.unlink()
    (found,) = person.verify("first", integrity_only=True).datasets
    assert not found.valid
    assert any("is missing" in finding.message for finding in found.findings)
    with pytest.raises(IntegrityError, match="is missing") as caught:
        slice_paths(first.dataset)
    assert not isinstance(caught.value, DataDroppedError)


def test_reading_makes_it_again(person: Person, chain: tuple[DatasetHandle, ...]) -> None:
    first = chain[1]
    before = {path.name: path.read_bytes() for path in slice_paths(first.dataset)}
    drop(person, "first")
    assert last_rows(person, "first") == ["row 1", "row 2"]
    assert {path.name: path.read_bytes() for path in slice_paths(first.dataset)} == before
    assert missing_slices(first.dataset) == []
    assert person.verify("first").datasets[0].complete


def test_pulling_makes_it_again_inputs_first(
    person: Person, chain: tuple[DatasetHandle, ...]
) -> None:
    source, first, second = chain
    kept = {handle.alias: slices(handle) for handle in (first, second)}
    drop(person, "first", "second")
    add_rows(source, "row 3", watermark=day(3))
    result = person.pull("second")
    # Its input was not pulled, so nothing is new for it, but its data is back.
    assert result.status is PullStatus.UP_TO_DATE
    assert result.reason == "2 dropped slices were made again; its inputs have nothing new"
    assert slices(first) == kept[first.alias]
    assert slices(second) == kept[second.alias]
    person.pull("first")
    assert dict(person.pull("second").records) == {"+A": 1}


def test_dropped_data_is_not_pushed(
    person: Person, chain: tuple[DatasetHandle, ...], tmp_path: Path
) -> None:
    assert chain
    drop(person, "first")
    with person.context("push") as ctx:
        (sent,) = push(ctx, ("first",), f"{tmp_path}/elsewhere/").datasets
    assert isinstance(sent.error, DataDroppedError)
    assert "odf pull first" in (sent.error.hint or "")
    assert not (tmp_path / "elsewhere" / "refs").exists()
    person.pull("first")
    with person.context("push") as ctx:
        (sent,) = push(ctx, ("first",), f"{tmp_path}/elsewhere/").datasets
    assert sent.status is PullStatus.UPDATED


def test_a_file_of_other_bytes_with_the_same_rows_serves_reading_only(
    person: Person, chain: tuple[DatasetHandle, ...], tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    first = chain[1]
    data = [
        block.event.new_data
        for _, block in first.dataset.blocks()
        if getattr(block.event, "new_data", None) is not None
    ]
    originals = {
        one.physical_hash: pq.read_table(path)
        for one, path in zip(reversed(data), slice_paths(first.dataset), strict=True)
    }
    drop(person, "first")
    for number, one in enumerate(data):
        other = tmp_path / f"other-{number}"
        pq.write_table(originals[one.physical_hash], other, compression="gzip")
        restore_slice(first.dataset, one, StagedObject("data", other, hash_file(other)[0]))
    assert slices(first) == []
    assert last_rows(person, "first") == ["row 1", "row 2"]
    assert slices(first) == []
    add_rows(chain[0], "row 3", watermark=day(3))
    person.pull("first")
    assert dict(person.pull("second").records) == {"+A": 1}
    (found,) = person.verify("first", integrity_only=True).datasets
    assert (found.valid, found.complete) == (True, False)
    # A file that was damaged since is not read.
    rebuilt = next((first.path / "info").glob("rebuilt-*"))
    pq.write_table(originals[data[0].physical_hash].slice(0, 0), rebuilt)
    with pytest.raises(IntegrityError, match="the rebuilt slice is corrupt"):
        slice_paths(first.dataset)


def test_a_pull_from_elsewhere_makes_it_again_if_it_can(
    person: Person, chain: tuple[DatasetHandle, ...], tmp_path: Path
) -> None:
    source, first, _ = chain
    origin = f"{tmp_path}/elsewhere/"
    with person.context("push") as ctx:
        push(ctx, ("first",), origin)
    person.workspace.remove_dataset(first.id)
    person.pull(origin, as_name="first")
    first = person.workspace.resolve("first")
    before = slices(first)
    drop(person, "first")
    assert person.pull("first").warnings == ()
    assert slices(first) == before
    drop(person, "first")
    person.workspace.remove_dataset(source.id)
    result = person.pull("first")
    assert result.status is PullStatus.UP_TO_DATE
    assert "its data could not be made again" in result.warnings[0]


def test_a_root_dataset_keeps_its_data(person: Person, chain: tuple[DatasetHandle, ...]) -> None:
    before = slices(chain[0]), slices(chain[1])
    with pytest.raises(BadInputError, match="source is a root dataset"):
        drop(person, "first", "source")
    assert (slices(chain[0]), slices(chain[1])) == before


def test_data_that_could_not_be_made_again_is_kept(
    person: Person, chain: tuple[DatasetHandle, ...]
) -> None:
    source, first, _ = chain
    before = slices(first)
    person.workspace.remove_dataset(source.id)
    with pytest.raises(ConflictError, match="is not in this workspace"):
        drop(person, "first")
    assert slices(first) == before


def test_data_whose_input_became_another_one_is_kept(
    person: Person, chain: tuple[DatasetHandle, ...]
) -> None:
    source, first, _ = chain
    before = slices(first)
    take_newest_away(source)
    with pytest.raises(DivergedInputError, match="input source no longer has block"):
        drop(person, "first")
    assert slices(first) == before


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        ({"version": "odf-spark/0.9.0"}, "pinned to engine release odf-spark/0.9.0"),
        ({"engine": "flink", "version": None}, "asks for engine 'flink'"),
    ],
    ids=["another release", "no such engine"],
)
def test_data_whose_engine_is_not_here_is_kept_unless_forced(
    transform: dict[str, str | None],
    said: str,
    person: Person,
    chain: tuple[DatasetHandle, ...],
    tmp_path: Path,
) -> None:
    """Made elsewhere, with an engine that is not here; then set to one that is."""
    source = chain[0]
    identity = KeyStore(person.settings.data_home).generate()
    schema, data = forge_slice(source.dataset, tmp_path, "row 1")
    ours = set_transform((source.id, "source"))
    theirs = replace(ours, transform=replace(ours.transform, **transform))
    read = ExecuteTransformInput(dataset_id=source.id, new_block_hash=source.dataset.head())
    step = ExecuteTransform(query_inputs=(read,), new_data=data)
    events = (Seed(identity, DatasetKind.DERIVATIVE), theirs, schema, step, ours)
    made = place_forged(person, "made-elsewhere", identity, *events)
    shutil.copytree(source.path / "data", made.path / "data", dirs_exist_ok=True)
    before = slices(made)
    with pytest.raises(EngineUnavailableError, match=said) as caught:
        drop(person, "first", "made-elsewhere")
    assert caught.value.exit_code == 9
    assert "odf drop-data --force made-elsewhere" in (caught.value.hint or "")
    assert slices(made) == before
    assert len(slices(chain[1])) == 2
    assert drop(person, "made-elsewhere", force=True)[0].slices == 1


def test_an_engine_that_made_no_rows_is_not_asked_for(
    person: Person, chain: tuple[DatasetHandle, ...]
) -> None:
    first = chain[1]
    ours = first.dataset.state().transform
    assert ours is not None
    other = replace(ours, transform=replace(ours.transform, version="odf-spark/0.9.0"))
    head = first.dataset.head()
    first.dataset.commit(
        [other], expected_head=head, system_time=Timestamp.parse("2026-02-01T00:00:00Z")
    )
    assert drop(person, "first")[0].slices == 2


def test_dropped_data_of_a_history_that_is_given_up_is_not_missed(
    person: Person, chain: tuple[DatasetHandle, ...]
) -> None:
    source = chain[0]
    drop(person, "first")
    take_newest_away(source)
    with pytest.raises(DivergedInputError, match="could not be made again"):
        person.pull("first")
    assert person.pull("first", reset_diverged=True).status is PullStatus.UPDATED
    assert last_rows(person, "first") == ["row 1"]


def test_other_rows_than_the_recorded_ones_are_not_taken(
    person: Person, chain: tuple[DatasetHandle, ...]
) -> None:
    from tests.transform.hand_made import replace_by_other_rows

    source, first, _ = chain
    drop(person, "first")
    replace_by_other_rows(source)
    with pytest.raises(IntegrityError):
        last_rows(person, "first")
    assert len(slices(first)) <= 1


@pytest.mark.parametrize("content", ["", "{", "[]", '{"slices": 1}', '{"slices": ["x"]}'])
def test_a_damaged_list_of_what_was_dropped_makes_it_damage(
    content: str, person: Person, chain: tuple[DatasetHandle, ...]
) -> None:
    first = chain[1]
    drop(person, "first")
    record = first.path / "info" / "dropped-data"
    assert len(json.loads(record.read_text())["slices"]) == 2
    record.write_text(content)
    assert not person.verify("first", integrity_only=True).datasets[0].valid

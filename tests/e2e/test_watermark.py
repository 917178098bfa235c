"""Watermarks: set by hand, held back by a lag, and what late data does to them."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from odf.coordinator.pull import PullRequest, pull
from odf.coordinator.results import PullStatus
from odf.errors import ConflictError, UsageError
from odf.metadata.model import AddData, Timestamp
from odf.workspace.repositories import RemoteAliases
from odf.workspace.workspace import Workspace
from tests.e2e.conftest import Person
from tests.e2e.test_bad_input import refused
from tests.e2e.test_real_series import root_manifest
from tests.transform.hand_made import TinyPool, day, make_derivative

GLOB = "{kind: FilesGlob, path: 'data/*.csv'}"


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    """Somebody with an empty workspace, whose engine is tiny."""
    pool = TinyPool(tmp_path / "engines")
    somebody = Person(tmp_path / "workspace", tmp_path / "home", pool)
    (somebody.root / "data").mkdir()
    yield somebody
    pool.close()


def write(person: Person, name: str, *days: int) -> None:
    """Write a file with one row a day."""
    rows = "".join(f"{day(number)},{number},name {number}\n" for number in days)
    (person.root / "data" / name).write_text("event_time,id,name\n" + rows)


def with_days(person: Person, *days: int, name: str = "log") -> None:
    person.add(root_manifest(name, merge="{kind: Append}", fetch=GLOB))
    write(person, "1.csv", *days)
    person.pull(name)


def last_add_data(person: Person, name: str = "log") -> AddData:
    found = person.workspace.resolve(name).dataset.state().last_add_data
    assert found is not None
    return found


def test_only_the_watermark_is_written(person: Person) -> None:
    with_days(person, 1, 2)
    before = last_add_data(person)
    write(person, "2.csv", 3)  # not fetched
    result = person.pull("log", set_watermark=day(9))
    assert (result.status, result.blocks, dict(result.records)) == (PullStatus.UPDATED, 1, {})
    assert result.watermark == day(9)
    event = last_add_data(person)
    assert event == AddData(
        prev_offset=1, new_watermark=day(9), new_source_state=before.new_source_state
    )
    assert event.new_source_state is not None
    # The source goes on where it was, and the watermark does not go back.
    assert dict(person.pull("log").records) == {"+A": 1}
    assert last_add_data(person).new_watermark == day(9)
    assert person.verify("log").datasets[0].valid


@pytest.mark.parametrize("again", [9, 8, 1])
def test_the_same_or_an_earlier_time_is_up_to_date(again: int, person: Person) -> None:
    with_days(person, 1, 2)
    head = person.pull("log", set_watermark=day(9)).new_head
    result = person.pull("log", set_watermark=day(again))
    assert (result.status, result.new_head, result.blocks) == (PullStatus.UP_TO_DATE, head, 0)
    assert str(day(9)) in (result.reason or "")


def test_a_dataset_without_data_or_source(person: Person) -> None:
    content = {"name": "bare", "kind": "Root", "metadata": []}
    person.add(json.dumps({"kind": "DatasetSnapshot", "version": 1, "content": content}))
    assert person.pull("bare", set_watermark=day(3)).watermark == day(3)
    assert person.verify("bare").datasets[0].valid


def test_nanoseconds_and_the_future(person: Person) -> None:
    with_days(person, 1)
    fine = Timestamp.parse("2025-06-01T00:00:00.123456789+02:00")
    assert person.pull("log", set_watermark=fine).watermark == fine
    future = Timestamp.from_datetime(person.clock.at + timedelta(days=1))
    [warning] = person.pull("log", set_watermark=future).warnings
    assert "in the future" in warning


def test_what_has_no_watermark_of_its_own(person: Person) -> None:
    with_days(person, 1, 2)
    make_derivative(person, "derived", person.workspace.resolve("log"))
    with refused(person, UsageError, "derived is derived from others", 2):
        person.pull("derived", set_watermark=day(9))
    person.workspace.resolve("log").remember(RemoteAliases(("https://example.org/x",)))
    with refused(person, ConflictError, r"pulled from https://example\.org/x", 5):
        person.pull("log", set_watermark=day(9))


@pytest.mark.parametrize(
    "request_",
    [
        PullRequest(refs=("log", "other"), set_watermark=day(1)),
        PullRequest(refs=("%",), set_watermark=day(1)),
        PullRequest(all=True, set_watermark=day(1)),
        PullRequest(refs=("log",), recursive=True, set_watermark=day(1)),
        PullRequest(refs=("log",), force=True, set_watermark=day(1)),
        PullRequest(refs=("https://example.org/x",), set_watermark=day(1)),
    ],
    ids=["two", "pattern", "all", "recursive", "force", "url"],
)
def test_exactly_one_dataset_of_this_workspace(request_: PullRequest, person: Person) -> None:
    for name in ("log", "other"):
        person.add(root_manifest(name, merge="{kind: Append}"))
    with (
        refused(person, UsageError, "exactly one dataset|not a dataset of this workspace", 2),
        person.context() as ctx,
    ):
        pull(ctx, request_)


def test_a_watermark_moves_what_is_derived(person: Person) -> None:
    """Joins and windows close when all inputs say that they are complete."""
    with_days(person, 1, 2)
    make_derivative(person, "derived", person.workspace.resolve("log"))
    assert person.pull("derived").watermark == day(2)
    person.pull("log", set_watermark=day(9))
    result = person.pull("derived")
    assert (result.status, result.watermark, dict(result.records)) == (
        PullStatus.UPDATED,
        day(9),
        {},
    )


def test_a_lag_holds_the_watermark_back(person: Person) -> None:
    person.add(root_manifest("log", merge="{kind: Append}", fetch=GLOB))
    config = person.root / ".odf" / "config.yaml"
    config.write_text("ingest:\n  log:\n    watermarkLag: 2d\n")
    person.workspace = Workspace.find(person.root)
    write(person, "1.csv", 1, 5)
    assert person.pull("log").watermark == day(3)
    write(person, "2.csv", 4)  # late, though not behind the watermark
    result = person.pull("log")
    assert (dict(result.records), result.watermark) == ({"+A": 1}, day(3))
    config.write_text("ingest:\n  log:\n    watermarkLag: 4d\n")
    person.workspace = Workspace.find(person.root)
    write(person, "3.csv", 6)  # a longer lag does not take it back
    assert person.pull("log").watermark == day(3)
    assert person.verify("log").datasets[0].valid


def test_late_data_is_taken_in_and_leaves_the_watermark_alone(person: Person) -> None:
    with_days(person, 5, 6)
    write(person, "2.csv", 1, 2)
    result = person.pull("log")
    assert (dict(result.records), result.watermark) == ({"+A": 2}, day(6))
    assert person.verify("log").datasets[0].valid


def test_a_source_that_is_only_carried_is_no_other_source(person: Person) -> None:
    """Between the change of a source and its first pull somebody sets the watermark."""
    with_days(person, 1, 2)
    other = person.root / "others"
    other.mkdir()
    (other / "1.csv").write_text(f"event_time,id,name\n{day(1)},1,x\n{day(7)},2,x\n{day(8)},3,x\n")
    person.update(
        root_manifest(
            "log", merge="{kind: Append}", fetch="{kind: FilesGlob, path: 'others/*.csv'}"
        )
    )
    person.pull("log", set_watermark=day(3))
    # `1.csv` is the name of the last file of the source before, too.
    assert dict(person.pull("log").records) == {"+A": 3}

"""Pulls of root datasets with an engine in memory: what is committed, kept, told and refused."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from odf import limits
from odf.coordinator.pull import PullRequest, pull
from odf.coordinator.results import PulledDataset, PullStatus
from odf.errors import BadInputError, EngineError, IntegrityError, OdfError, TransportError
from odf.metadata.model import Timestamp
from odf.runtimes.pool import EnginePool, PoolSettings
from tests.e2e.conftest import Person
from tests.e2e.test_real_series import root_manifest
from tests.ingest.fetch.chains import run_chain
from tests.ingest.fetch.hostile_server import Handler, HostileServer, reply
from tests.transform.hand_made import TinyPool, day, make_derivative, replace_by_other_rows

GLOB = "{kind: FilesGlob, path: 'data/*.csv'}"
LEDGER = "{kind: Ledger, primaryKey: [id]}"
SNAPSHOT = "{kind: Snapshot, primaryKey: [id]}"


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    """Somebody with an empty workspace, whose engine is tiny."""
    pool = TinyPool(tmp_path / "engines")
    somebody = Person(tmp_path / "workspace", tmp_path / "home", pool)
    (somebody.root / "data").mkdir()
    yield somebody
    pool.close()


def write(person: Person, name: str, *days: int) -> None:
    """Write a file with one row a day; the tiny engine takes the rows behind the known ones."""
    rows = "".join(f"{day(number)},{number},name {number}\n" for number in days)
    (person.root / name).write_text("event_time,id,name\n" + rows)


def tried(person: Person, name: str) -> PulledDataset:
    """Pull a dataset and return the result, failed or not."""
    with person.context("pull") as ctx:
        return pull(ctx, PullRequest(refs=(name,))).datasets[0]


def test_each_file_is_a_commit(person: Person) -> None:
    person.add(root_manifest("log", merge="{kind: Append}", fetch=GLOB))
    for number in (1, 2, 3):
        write(person, f"data/{number}.csv", number, number + 10)
    result = person.pull("log")
    assert (dict(result.records), result.blocks) == ({"+A": 6}, 4)
    assert result.watermark == day(13)
    assert person.workspace.resolve("log").dataset.state().num_slices == 3
    assert person.verify("log").datasets[0].valid


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("bad.csv", BadInputError, "2 rows of bad.csv cannot be read"),
        ("defect.csv", EngineError, "the reader has a defect"),
    ],
)
def test_files_before_one_that_fails_are_kept_and_told(
    name: str, error: type[OdfError], said: str, person: Person
) -> None:
    person.add(
        root_manifest("log", merge="{kind: Append}", fetch="{kind: FilesGlob, path: '*.csv'}")
    )
    write(person, "a.csv", 1, 2)
    write(person, "b.csv", 3)
    (person.root / name).write_text("x\n")
    write(person, "z.csv", 4)
    result = tried(person, "log")
    assert result.status is PullStatus.FAILED
    assert isinstance(result.error, error)
    assert said in result.error.message
    assert (result.blocks, dict(result.records), result.watermark) == (3, {"+A": 3}, day(3))
    dataset = person.workspace.resolve("log").dataset
    assert result.new_head == dataset.head() != result.old_head
    assert dataset.state().num_records == 3
    assert "read under" in " ".join(result.warnings)
    again = tried(person, "log")
    assert (again.status, again.blocks, dict(again.records)) == (PullStatus.FAILED, 0, {})
    assert again.old_head == again.new_head == result.new_head
    (person.root / name).unlink()
    assert dict(person.pull("log").records) == {"+A": 1}


def test_an_older_snapshot_does_not_undo_a_newer_one(person: Person) -> None:
    person.add(root_manifest("table", merge=SNAPSHOT, fetch=GLOB))
    write(person, "data/b.csv", 1)
    person.pull("table")
    head = person.workspace.resolve("table").dataset.head()
    write(person, "data/a.csv", 1, 2)
    with person.context("pull") as ctx:
        result = pull(ctx, PullRequest(refs=("table",), take_late=True)).datasets[0]
    assert result.status is PullStatus.UP_TO_DATE
    assert "an older snapshot would undo the newer one" in result.warnings[0]
    assert person.workspace.resolve("table").dataset.head() == head


def test_messages_as_a_snapshot_are_warned_of(person: Person) -> None:
    fetch = "{kind: Mqtt, host: localhost, port: 1883, topics: [{path: a}]}"
    (added,) = person.add(root_manifest("table", merge=SNAPSHOT, fetch=fetch)).added
    assert any("count as the whole snapshot" in said for said in added.warnings)
    (added,) = person.add(root_manifest("log", merge=LEDGER, fetch=fetch)).added
    assert not any("whole snapshot" in said for said in added.warnings)


def test_downloads_of_a_pull_that_was_killed_are_removed(person: Person) -> None:
    person.add(root_manifest("source", merge=LEDGER))
    write(person, "source.csv", 1)
    person.pull("source")
    handle = person.workspace.resolve("source")
    folder = person.workspace.cache_dir / "fetch" / handle.id.multibase
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("fetched-x.data", "kept.part"):
        (folder / name).write_text("half a gigabyte")
    assert person.pull("source").status is PullStatus.UP_TO_DATE
    assert [path.name for path in folder.iterdir()] == ["kept.part"]


@pytest.mark.parametrize("merge", [LEDGER, SNAPSHOT])
def test_a_history_that_was_replaced_is_not_read(merge: str, person: Person) -> None:
    """By another valid Parquet file: rows would be compared with what never was."""
    person.add(root_manifest("source", merge=merge))
    write(person, "source.csv", 1, 2)
    person.pull("source")
    handle = person.workspace.resolve("source")
    victim = replace_by_other_rows(handle)
    head = handle.dataset.head()
    blocks = sorted(path.name for path in (handle.path / "blocks").iterdir())
    write(person, "source.csv", 1, 2, 3)
    with pytest.raises(IntegrityError, match=f"source: data/{victim.name}.*corrupt") as refused:
        person.pull("source")
    assert refused.value.exit_code == 7
    assert handle.dataset.head() == head
    assert sorted(path.name for path in (handle.path / "blocks").iterdir()) == blocks
    assert [path.name for path in (handle.path / "data").iterdir()] == [victim.name]


def test_up_to_date_starts_no_engine(person: Person, tmp_path: Path) -> None:
    """With a pool of its own that could start real ones, for roots of all kinds and derivatives."""
    person.add(root_manifest("log", merge="{kind: Append}", fetch=GLOB))
    person.add(root_manifest("source", merge=SNAPSHOT))
    write(person, "data/1.csv", 1)
    write(person, "source.csv", 1, 2)
    resolve = person.workspace.resolve
    make_derivative(person, "derived", resolve("log"), resolve("source"))
    for name in ("log", "source", "derived"):
        assert person.pull(name).status is PullStatus.UPDATED
    assert list(person.engines.descriptions) == ["spark"]
    person.clock.at += timedelta(days=1)
    person.engines = EnginePool(PoolSettings(), run_dir=tmp_path / "none")
    with person.context("pull") as ctx:
        report = pull(ctx, PullRequest(all=True))
    assert [found.status for found in report.datasets] == [PullStatus.UP_TO_DATE] * 3
    assert all(found.reason for found in report.datasets)
    assert (person.engines.descriptions, person.engines.pids) == ({}, ())
    assert not (tmp_path / "none").exists()


def test_a_source_that_is_touched_but_the_same(person: Person) -> None:
    """Its new time is taken note of; no rows, and nothing more the time after."""
    person.add(root_manifest("source", merge=SNAPSHOT))
    write(person, "source.csv", 1, 2)
    person.pull("source")
    at = (person.root / "source.csv").stat().st_mtime + 100
    os.utime(person.root / "source.csv", (at, at))
    result = person.pull("source")
    assert dict(result.records) == {}
    assert result.blocks <= 1
    assert person.pull("source").status is PullStatus.UP_TO_DATE


def test_a_clock_that_goes_back(person: Person) -> None:
    person.add(root_manifest("log", merge="{kind: Append}", fetch=GLOB))
    write(person, "data/1.csv", 1)
    person.pull("log")
    dataset = person.workspace.resolve("log").dataset
    last = dataset.state().system_time
    person.clock.at -= timedelta(days=2)
    write(person, "data/2.csv", 2)
    assert dict(person.pull("log").records) == {"+A": 1}
    assert dataset.state().system_time == Timestamp.from_epoch_ms(last.epoch_ms + 1)
    person.clock.at += timedelta(days=2)
    assert person.verify("log").datasets[0].valid


def test_a_body_without_an_end_is_no_snapshot(person: Person) -> None:
    """What a cut connection left out would count as removed; a log only misses it for now."""

    def behave(handler: Handler) -> None:
        body = f"event_time,id,name\n{day(1)},1,name 1\n".encode()
        handler.answer(200, body, Content_Length="", Connection="close", ETag='"v"')
        handler.hang_up()

    with HostileServer() as server:
        server.routes["/a.csv"] = behave
        fetch = f"{{kind: Url, url: '{server.url('/a.csv')}'}}"
        person.add(root_manifest("state", merge=SNAPSHOT, fetch=fetch))
        person.add(root_manifest("log", merge="{kind: Append}", fetch=fetch))
        head = person.workspace.resolve("state").dataset.head()
        with pytest.raises(TransportError, match="did not say how long the data is"):
            person.pull("state")
        assert person.workspace.resolve("state").dataset.head() == head
        assert dict(person.pull("log").records) == {"+A": 1}
        assert not list((person.workspace.cache_dir / "fetch").rglob("*.data"))


def test_no_body_is_asked_for_twice(person: Person) -> None:
    """With `cache: forever`, also when the source changes or is touched."""
    with HostileServer() as server:
        body = f"event_time,id,name\n{day(1)},1,name 1\n".encode()
        server.routes["/a.csv"] = reply(200, body)
        fetch = f"{{kind: Url, url: '{server.url('/a.csv')}', cache: {{kind: Forever}}}}"
        person.add(root_manifest("log", merge="{kind: Append}", fetch=fetch))
        assert dict(person.pull("log").records) == {"+A": 1}
        again = person.pull("log")
        assert again.status is PullStatus.UP_TO_DATE
        assert "cache: forever" in (again.reason or "")
        assert len(server.requests) == 1


def test_a_state_without_rows_is_committed_without_an_engine(
    person: Person, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("eth_abi", reason="the extra `ethereum` is not installed")
    monkeypatch.setattr(limits, "ETHEREUM_QUIET_BLOCKS", 10)
    person.engines = EnginePool(PoolSettings(), run_dir=tmp_path / "none")
    with run_chain() as chain:
        fetch = f"{{kind: EthereumLogs, nodeUrl: '{chain.url}', filter: block_number > 0}}"
        person.add(root_manifest("logs", merge="{kind: Append}", fetch=fetch))
        chain.mine(20)
        result = person.pull("logs")
        assert (result.status, result.blocks, dict(result.records)) == (PullStatus.UPDATED, 1, {})
        state = person.workspace.resolve("logs").dataset.state()
        known = state.source_state("default")
        assert known is not None
        assert known.value.startswith("20@")
        assert person.pull("logs").status is PullStatus.UP_TO_DATE
        assert not (tmp_path / "none").exists()
        assert not list((person.workspace.cache_dir / "fetch").rglob("*.data"))

"""Pushing files and streams into root datasets, through a real engine."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from odf.coordinator.ingest import IngestRequest, ingest
from odf.coordinator.results import IngestReport, PullStatus
from odf.errors import (
    BadInputError,
    ConflictError,
    LockedError,
    NotFoundError,
    UsageError,
)
from odf.metadata.input_formats import InputFormat
from odf.metadata.model import AddData, SourceState, Timestamp
from odf.repo.files import slice_paths
from odf.workspace.repositories import RemoteAliases
from tests.e2e.conftest import Person
from tests.e2e.test_bad_input import derivative, refused
from tests.e2e.test_real_series import root_manifest

pytestmark = pytest.mark.spark

CSV_READ = {"kind": "Csv", "header": True, "schema": ["id BIGINT", "city STRING"]}
APPEND = {"kind": "Append"}
LEDGER = {"kind": "Ledger", "primaryKey": ["id"]}
_HOLD = """
import sys
from pathlib import Path
from odf.workspace.workspace import Workspace

folder = sys.argv[1]
[handle] = [one for one in Workspace.find(Path(folder)).datasets() if str(one.path) == folder]
with handle.dataset.lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def push_source(
    name: str = "desk",
    read: Mapping[str, object] | None = None,
    merge: Mapping[str, object] | None = None,
    preprocess: str | None = None,
) -> dict[str, object]:
    """A push source as a manifest has it."""
    source: dict[str, object] = {
        "kind": "AddPushSource",
        "sourceName": name,
        "read": read or CSV_READ,
        "merge": merge or APPEND,
    }
    if preprocess is not None:
        source["preprocess"] = {"kind": "Sql", "engine": "spark", "query": preprocess}
    return source


def push_manifest(name: str, *sources: dict[str, object]) -> str:
    """The manifest of a root dataset that is pushed into."""
    content = {"name": name, "kind": "Root", "metadata": [*(sources or (push_source(),))]}
    return json.dumps({"kind": "DatasetSnapshot", "version": 1, "content": content})


def rows_of(person: Person, name: str, *columns: str) -> list[dict[str, object]]:
    """All rows of a dataset in the order of their offsets."""
    dataset = person.workspace.resolve(name).dataset
    return [
        row
        for path in slice_paths(dataset)
        for row in pq.read_table(path, columns=list(columns) or None).to_pylist()
    ]


def write(person: Person, name: str, text: str) -> Path:
    path = person.root / name
    path.write_text(text)
    return path


def tried(person: Person, *files: Path, ref: str = "log") -> IngestReport:
    """Push, and return what became of each file, failed or not."""
    with person.context("ingest") as ctx:
        return ingest(ctx, IngestRequest(ref, tuple(map(str, files))), io.BytesIO())


def test_each_file_is_a_commit_in_the_order_given(person: Person) -> None:
    person.add(push_manifest("log"))
    late = write(person, "b.csv", "id,city\n1,Rome\n2,Oslo\n")
    early = write(person, "a.csv", "id,city\n3,Lima\n")
    report = person.ingest("log", late, early, event_time=Timestamp.parse("2025-03-01T00:00:00Z"))
    assert [(file.status, file.blocks, dict(file.records)) for file in report.files] == [
        (PullStatus.UPDATED, 2, {"+A": 2}),
        (PullStatus.UPDATED, 1, {"+A": 1}),
    ]
    assert report.files[-1].head == report.new_head != report.old_head
    assert [row["id"] for row in rows_of(person, "log")] == [1, 2, 3]
    assert {str(row["event_time"]) for row in rows_of(person, "log")} == {
        "2025-03-01 00:00:00+00:00"
    }
    assert str(report.watermark) == "2025-03-01T00:00:00Z"
    # Append takes a file as often as it is pushed.
    assert dict(person.ingest("log", early).files[0].records) == {"+A": 1}
    assert person.verify("log").datasets[0].valid


def test_rows_without_an_event_time_get_the_system_time(person: Person) -> None:
    person.add(push_manifest("log"))
    person.ingest("log", write(person, "a.csv", "id,city\n3,Lima\n"))
    [row] = rows_of(person, "log")
    assert row["event_time"] == row["system_time"]


def test_sources_of_one_dataset_read_preprocess_and_merge_in_their_own_way(
    person: Person,
) -> None:
    events = push_source(
        "events",
        read={"kind": "NdJson", "schema": ["key BIGINT", "town STRING"]},
        merge=LEDGER,
        preprocess="select key as id, upper(town) as city from input",
    )
    person.add(push_manifest("log", push_source("desk"), events))
    desk = write(person, "desk.csv", "id,city\n1,Rome\n")
    ndjson = write(person, "events.ndjson", '{"key": 1, "town": "a"}\n{"key": 2, "town": "b"}\n')
    person.ingest("log", desk, source_name="desk")
    report = person.ingest("log", ndjson, source_name="events")
    assert report.source == "events"
    assert dict(report.files[0].records) == {"+A": 1}
    assert rows_of(person, "log", "id", "city") == [
        {"id": 1, "city": "Rome"},
        {"id": 2, "city": "B"},
    ]
    again = person.ingest("log", ndjson, source_name="events").files[0]
    assert (again.status, again.reason) == (
        PullStatus.UP_TO_DATE,
        "all of its rows are there already",
    )
    with refused(person, UsageError, "2 push sources: desk, events", 2) as caught:
        person.ingest("log", desk)
    assert "--source-name" in (caught.value.hint or "")
    with refused(person, NotFoundError, "no push source 'desc'", 4) as unknown:
        person.ingest("log", desk, source_name="desc")
    assert "desk, events" in (unknown.value.hint or "")


def test_states_of_sources_are_carried_each_its_own(person: Person) -> None:
    """Other implementations write states of push sources; they are never lost or mixed up."""
    person.add(push_manifest("log", push_source("a"), push_source("b", merge=LEDGER)))
    dataset = person.workspace.resolve("log").dataset
    states = [SourceState(name, "odf/etag", f'"{name}"') for name in ("a", "b")]
    for state in states:
        event = AddData(new_source_state=state)
        dataset.commit(
            [event], expected_head=dataset.head(), system_time=dataset.state().system_time
        )
    file = write(person, "x.csv", "id,city\n1,Rome\n")
    for source, carried in (("a", states[0]), ("b", states[1]), ("a", states[0])):
        write(person, "x.csv", f"id,city\n{dataset.state().next_offset},Rome\n")
        person.ingest("log", file, source_name=source)
        last = dataset.state().last_add_data
        assert last is not None
        assert last.new_source_state == carried
        assert set(dataset.state().source_states) == set(states)
    # Nothing new through another source than the last is no reason for a block.
    head = dataset.head()
    assert person.ingest("log", file, source_name="b").files[0].status is PullStatus.UP_TO_DATE
    assert dataset.head() == head


def test_standard_input_and_other_pipes(person: Person) -> None:
    person.add(push_manifest("log"))
    report = person.ingest("log", "-", stdin=b"id,city\n1,Rome\n2,Oslo\n")
    assert dict(report.files[0].records) == {"+A": 2}
    pipe = person.root / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("id,city\n3,Lima\n",))
    writer.start()
    assert dict(person.ingest("log", pipe).files[0].records) == {"+A": 1}
    writer.join()
    assert [row["id"] for row in rows_of(person, "log")] == [1, 2, 3]
    left = list((person.root / ".odf" / "run").rglob("spool-*"))
    assert left == []


def test_standard_input_that_is_wrong_is_called_so(person: Person) -> None:
    person.add(push_manifest("log"))
    with refused(person, BadInputError, "standard input:2: column `id`", 1):
        person.ingest("log", "-", stdin=b"id,city\none,Rome\n")


@pytest.mark.parametrize(
    ("wanted", "content"),
    [
        (InputFormat.NDJSON, b'{"id": 1, "city": "Rome"}\n'),
        (InputFormat.JSON, b'[{"id": 1, "city": "Rome"}]'),
        (InputFormat.CSV, b"id,city\n1,Rome\n"),
    ],
)
def test_rows_in_another_format(wanted: InputFormat, content: bytes, person: Person) -> None:
    person.add(push_manifest("log"))
    person.ingest("log", "-", stdin=content, input_format=wanted)
    assert rows_of(person, "log", "id", "city") == [{"id": 1, "city": "Rome"}]


def test_parquet_in_place_of_csv(person: Person) -> None:
    import pyarrow as pa

    person.add(push_manifest("log"))
    path = person.root / "x.parquet"
    pq.write_table(pa.table({"id": [1], "city": ["Rome"]}), path)
    person.ingest("log", path, input_format=InputFormat.PARQUET)
    assert rows_of(person, "log", "id", "city") == [{"id": 1, "city": "Rome"}]


def test_files_before_one_that_fails_stay_and_those_behind_it_wait(person: Person) -> None:
    person.add(push_manifest("log"))
    good = write(person, "a.csv", "id,city\n1,Rome\n")
    bad = write(person, "b.csv", "id,city\ntwo,Oslo\n")
    later = write(person, "c.csv", "id,city\n3,Lima\n")
    report = tried(person, good, bad, later)
    assert [file.status.value for file in report.files] == ["updated", "failed", "skipped"]
    assert isinstance(report.files[1].error, BadInputError)
    assert "b.csv:2" in report.files[1].error.message
    assert [row["id"] for row in rows_of(person, "log")] == [1]
    write(person, "b.csv", "id,city\n2,Oslo\n")
    person.ingest("log", bad, later)
    assert [row["id"] for row in rows_of(person, "log")] == [1, 2, 3]


def test_a_file_or_dataset_that_is_not_there(person: Person) -> None:
    person.add(push_manifest("log"))
    here = write(person, "a.csv", "id,city\n1,Rome\n")
    with refused(person, NotFoundError, r"nothing\.csv: there is no such file", 4):
        person.ingest("log", here, "nothing.csv")
    with refused(person, BadInputError, "is a folder", 1):
        person.ingest("log", here, person.root)
    with refused(person, NotFoundError, "lag", 4):
        person.ingest("lag", here)
    with refused(person, UsageError, "nothing to ingest", 2):
        person.ingest("log")
    with refused(person, UsageError, "more than once", 2):
        person.ingest("log", "-", "-")


def test_snapshots_are_pushed_as_they_are_polled(person: Person) -> None:
    snapshot = {"kind": "Snapshot", "primaryKey": ["id"]}
    person.add(push_manifest("log", push_source(merge=snapshot)))
    rows = "".join(f"{number},town {number}\n" for number in range(30))
    person.ingest("log", "-", stdin=f"id,city\n{rows}".encode())
    with refused(person, BadInputError, "29", 1):
        person.ingest("log", "-", stdin=b"id,city\n0,Rome\n")
    with refused(person, BadInputError, "no content at all", 1):
        person.ingest("log", "-", stdin=b"")
    report = person.ingest("log", "-", stdin=b"id,city\n0,Rome\n", allow_retract=True)
    assert dict(report.files[0].records) == {"-R": 29, "-C": 1, "+C": 1}


def test_what_takes_no_pushes(person: Person) -> None:
    person.add(root_manifest("polled", merge="{kind: Append}", schema=["id BIGINT"]))
    person.add(derivative("select id from polled", inputs="polled"))
    person.add(push_manifest("theirs"))
    file = write(person, "a.csv", "id,city\n1,Rome\n")
    with refused(person, UsageError, "polling source and takes no pushes", 2) as polled:
        person.ingest("polled", file)
    assert "AddPushSource" in (polled.value.hint or "")
    assert "odf pull polled" in (polled.value.hint or "")
    with refused(person, UsageError, "derived from others", 2) as derived:
        person.ingest("derived", file)
    assert "odf pull derived" in (derived.value.hint or "")
    person.workspace.resolve("theirs").remember(RemoteAliases(("https://example.org/x",)))
    with refused(person, ConflictError, r"pulled from https://example\.org/x", 5):
        person.ingest("theirs", file)


def test_a_dataset_without_any_source(person: Person) -> None:
    content = {"name": "bare", "kind": "Root", "metadata": []}
    person.add(json.dumps({"kind": "DatasetSnapshot", "version": 1, "content": content}))
    with refused(person, UsageError, "bare has no push source", 2) as caught:
        person.ingest("bare", write(person, "a.csv", "id\n1\n"))
    assert "odf add --update" in (caught.value.hint or "")


def test_a_dataset_that_somebody_else_writes_to(person: Person) -> None:
    person.add(push_manifest("log"))
    file = write(person, "a.csv", "id,city\n1,Rome\n")
    folder = str(person.workspace.resolve("log").path)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with refused(person, LockedError, None, 8):
            person.ingest("log", file)
        other.communicate()
    assert dict(person.ingest("log", file).files[0].records) == {"+A": 1}


def test_a_pull_of_a_dataset_that_is_pushed_into(person: Person) -> None:
    person.add(push_manifest("log"))
    result = person.pull("log")
    assert result.status is PullStatus.UP_TO_DATE
    assert "odf ingest log" in (result.reason or "")

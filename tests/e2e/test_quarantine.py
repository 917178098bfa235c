"""Bad rows set aside while the others are committed, through the whole path."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from odf.coordinator.pull import PullRequest, pull
from odf.coordinator.results import PullStatus
from odf.errors import BadInputError
from odf.repo.update import SetAside
from tests.e2e.conftest import Person
from tests.e2e.test_bad_input import refused
from tests.e2e.test_push import push_manifest, rows_of, write
from tests.e2e.test_real_series import root_manifest

pytestmark = pytest.mark.spark

TYPED = ["id BIGINT", "city STRING", "size INT"]
SNAPSHOT = "{kind: Snapshot, primaryKey: [id]}"


def entries(aside: Sequence[SetAside]) -> list[dict[str, Any]]:
    """What stands in the files of rows that were set aside."""
    return [json.loads(line) for one in aside for line in one.path.read_text().splitlines()]


def test_bad_rows_stop_a_pull_unless_they_are_set_aside(person: Person) -> None:
    person.add(root_manifest("towns", merge="{kind: Append}", schema=TYPED))
    write(person, "source.csv", "id,city,size\n1,Rome,1\ntwo,Oslo,2\n3,Lima,big\n4,Bern,4\n")
    with refused(person, BadInputError, r"source\.csv:3: column `id`: 'two'", 1):
        person.pull("towns")
    result = person.pull("towns", quarantine=True)
    assert dict(result.records) == {"+A": 2}
    [aside] = result.set_aside
    assert aside.rows == 2
    assert "source.csv" in aside.file
    assert aside.path.is_relative_to(person.root / ".odf" / "quarantine" / "towns")
    names = ("line", "column", "value", "wanted", "raw")
    assert [tuple(entry[name] for name in names) for entry in entries([aside])] == [
        (3, "id", "two", "BIGINT", "two,Oslo,2"),
        (4, "size", "big", "INT", "3,Lima,big"),
    ]
    [warning] = [text for text in result.warnings if "set aside" in text]
    assert "2 rows cannot be read and are set aside" in warning
    assert str(aside.path) in warning
    # The source is read; what was set aside waits for a person, not for the next pull.
    assert person.pull("towns", quarantine=True).status is PullStatus.UP_TO_DATE
    assert person.verify("towns").datasets[0].valid


def test_good_files_leave_nothing_behind(person: Person) -> None:
    person.add(root_manifest("towns", merge="{kind: Append}", schema=TYPED))
    write(person, "source.csv", "id,city,size\n1,Rome,1\n")
    result = person.pull("towns", quarantine=True)
    assert (dict(result.records), result.set_aside) == ({"+A": 1}, ())
    assert not (person.root / ".odf" / "quarantine").exists()


def test_each_file_of_a_pull_has_a_file_of_its_own(person: Person) -> None:
    (person.root / "in").mkdir()
    for name in "ab":
        write(person, f"in/{name}.csv", f"id,city,size\n1,Rome,1\n{name},x,1\n")
    fetch = "{kind: FilesGlob, path: 'in/*.csv'}"
    person.add(root_manifest("towns", merge="{kind: Append}", schema=TYPED, fetch=fetch))
    result = person.pull("towns", quarantine=True)
    assert [one.rows for one in result.set_aside] == [1, 1]
    assert len({one.path for one in result.set_aside}) == 2
    assert [entry["value"] for entry in entries(result.set_aside)] == ["a", "b"]


def test_pushed_rows_too(person: Person) -> None:
    person.add(push_manifest("log"))
    report = person.ingest("log", "-", stdin=b"id,city\nx,Rome\n2,Oslo\n", quarantine=True)
    [file] = report.files
    assert (dict(file.records), [one.rows for one in file.set_aside]) == ({"+A": 1}, [1])
    assert entries(file.set_aside)[0]["file"] == "standard input"
    assert [row["id"] for row in rows_of(person, "log")] == [2]
    [file] = person.ingest("log", "-", stdin=b"id,city\nx,Rome\n", quarantine=True).files
    assert (file.reason, file.blocks) == ("nothing else in it is new", 0)
    assert [one.rows for one in file.set_aside] == [1]


def test_a_snapshot_keeps_what_it_has_under_keys_of_bad_rows(person: Person) -> None:
    person.add(root_manifest("towns", merge=SNAPSHOT, schema=TYPED))
    write(person, "source.csv", "id,city,size\n1,Rome,1\n2,Oslo,2\n3,Lima,3\n")
    person.pull("towns")
    write(person, "source.csv", "id,city,size\n1,Rome,much\n2,Oslo,9\n")
    result = person.pull("towns", quarantine=True)
    assert dict(result.records) == {"-R": 1, "-C": 1, "+C": 1}
    assert [(row["op"], row["id"]) for row in rows_of(person, "towns")][3:] == [
        (2, 2),
        (3, 2),
        (1, 3),
    ]
    write(person, "source.csv", "id,city,size\n,Rome,much\n2,Oslo,9\n")
    with refused(person, BadInputError, "cannot be set aside under a snapshot", 1):
        person.pull("towns", quarantine=True)
    assert person.verify("towns").datasets[0].valid


def test_with_a_preprocess_query_of_another_engine(person: Person) -> None:
    """The ingest is cut in two there; rows are set aside in the first half."""
    manifest = root_manifest(
        "towns", merge="{kind: Append}", schema=TYPED, preprocess="select id, city from input"
    ).replace("engine: spark", "engine: datafusion")
    person.add(manifest)
    write(person, "source.csv", "id,city,size\n1,Rome,1\n2,Oslo,x\n")
    result = person.pull("towns", quarantine=True)
    assert (dict(result.records), [one.rows for one in result.set_aside]) == ({"+A": 1}, [1])


def test_what_the_command_line_says(person: Person) -> None:
    from odf.cli.plain import to_plain
    from odf.cli.updates import details

    person.add(root_manifest("towns", merge="{kind: Append}", schema=TYPED))
    write(person, "source.csv", "id,city,size\n1,Rome,1\nx,Oslo,2\n")
    with person.context("pull") as ctx:
        report = pull(ctx, PullRequest(refs=("towns",), quarantine=True))
    assert "1 row set aside" in details(report.datasets[0])
    document: Any = to_plain(report.datasets[0])
    [aside] = document["set_aside"]
    assert aside["rows"] == 1
    assert Path(aside["path"]).is_file()

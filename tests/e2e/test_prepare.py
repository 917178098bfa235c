"""Archives and commands on the way from a source to committed rows."""

import gzip
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from odf.coordinator.add import ManifestText, add_manifests
from odf.coordinator.consent import Grants
from odf.coordinator.results import PullStatus
from odf.errors import BadInputError
from tests.e2e.conftest import Person
from tests.e2e.test_real_series import counts, expected, publish

pytestmark = pytest.mark.spark

SNAPSHOT = "{kind: Snapshot, primaryKey: [id]}"


def manifest(name: str, file: str, prepare: str, merge: str = "{kind: Append}") -> str:
    return f"""
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: Url, url: 'file://{file}'}}
      prepare: {prepare}
      read: {{kind: Csv, header: true}}
      merge: {merge}
"""


def add(person: Person, text: str) -> None:
    with person.context("add") as ctx:
        add_manifests(ctx, [ManifestText("manifest.yaml", text)], Grants(commands=True))


def cache_of(person: Person) -> list[Path]:
    cache = person.workspace.cache_dir / "fetch"
    return [path for path in cache.rglob("*") if path.name.startswith("prepared-")]


def rows_of(person: Person, name: str) -> Mapping[str, list[object]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from odf.repo.files import slice_paths

    dataset = person.workspace.resolve(name).dataset
    table: pa.Table = pa.concat_tables([pq.read_table(path) for path in slice_paths(dataset)])
    return table.to_pydict()


def test_compressed_snapshot_series(person: Person, real_data: Callable[[str], Path]) -> None:
    folder = real_data("a4")
    facts = expected(folder)
    prepare = "[{kind: Decompress, format: Gzip}]"
    add(person, manifest("runways", "runways.csv.gz", prepare, SNAPSHOT))
    for number, step in enumerate(facts["transitions"]):
        publish(person, folder / step["to"], 1_700_000_000 + number, "runways.csv.gz")
        result = person.pull("runways")
        wanted = counts(step["inserted"], step["removed"], step["changed"])
        assert dict(result.records) == wanted, step["to"]
    assert person.pull("runways").status is PullStatus.UP_TO_DATE
    assert person.verify("runways").datasets[0].valid
    assert cache_of(person) == []
    assert (person.root / "runways.csv.gz").exists()


@pytest.mark.parametrize(
    ("file", "prepare"),
    [
        ("countries.csv.gz", "[{kind: Decompress, format: Gzip}]"),
        ("countries.zip", "[{kind: Decompress, format: Zip}]"),
        ("two-members.zip", "[{kind: Decompress, format: Zip, subPath: 'countries.*'}]"),
        (
            "countries.csv.bz2",
            "[{kind: Pipe, command: [bzip2, -dc]}, {kind: Pipe, command: [cat]}]",
        ),
    ],
)
def test_odd_packings_hold_the_same_table(
    file: str, prepare: str, person: Person, real_data: Callable[[str], Path]
) -> None:
    import csv

    folder = real_data("f1")
    shutil.copy(folder / file, person.root)
    add(person, manifest("countries", file, prepare))
    assert dict(person.pull("countries").records) == {"+A": 249}
    found = rows_of(person, "countries")
    with (folder / "canonical" / f"{file}.utf8.csv").open(encoding="utf-8", newline="") as stream:
        wanted = list(csv.DictReader(stream))
    for column in wanted[0]:
        assert [value or "" for value in found[column]] == [row[column] for row in wanted]


def test_a_command_reshapes_the_source(person: Person) -> None:
    source = json.dumps({"items": [{"id": n, "name": f"n{n}"} for n in range(5)]})
    (person.root / "items.json").write_text(source)
    command = ["jq", "-r", '["id", "name"], (.items[] | [.id, .name]) | @csv']
    prepare = json.dumps([{"kind": "Pipe", "command": command}])
    add(person, manifest("items", "items.json", prepare))
    assert dict(person.pull("items").records) == {"+A": 5}
    assert rows_of(person, "items")["name"] == ["n0", "n1", "n2", "n3", "n4"]


def test_nothing_is_committed_when_preparing_fails(person: Person) -> None:
    add(person, manifest("cut", "cut.csv.gz", "[{kind: Decompress, format: Gzip}]"))
    source = person.root / "cut.csv.gz"
    whole = gzip.compress(b"id\n" + b"\n".join(b"%d" % n for n in range(9999)))
    source.write_bytes(whole[:-20])
    before = person.workspace.resolve("cut").dataset.head()
    with pytest.raises(BadInputError, match=r"cut\.csv\.gz: prepare\[0\] .*ends in the middle"):
        person.pull("cut")
    assert person.workspace.resolve("cut").dataset.head() == before
    assert cache_of(person) == []
    source.write_bytes(whole)
    assert dict(person.pull("cut").records) == {"+A": 9999}


def test_an_archive_of_nothing_is_an_empty_file(person: Person) -> None:
    add(person, manifest("none", "none.gz", "[{kind: Decompress, format: Gzip}]"))
    (person.root / "none.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(BadInputError, match="no content at all") as refused:
        person.pull("none")
    assert "--allow-empty" in (refused.value.hint or "")

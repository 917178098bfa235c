"""Every format through the whole path: from a file to committed, verified rows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odf.coordinator.results import PullStatus
from odf.errors import BadInputError
from tests.e2e.conftest import Person
from tests.e2e.test_real_series import counts, expected, publish

pytestmark = pytest.mark.spark

Find = Callable[[str], Path]


def manifest(name: str, read: dict[str, Any], merge: dict[str, Any], **more: Any) -> str:
    source = {
        "kind": "SetPollingSource",
        "fetch": {"kind": "Url", "url": "file://source"},
        "read": read,
        "merge": merge,
        **more,
    }
    content = {"name": name, "kind": "Root", "metadata": [source]}
    return json.dumps({"kind": "DatasetSnapshot", "version": 1, "content": content})


def test_json_snapshot_series(person: Person, real_data: Find) -> None:
    folder = real_data("a3-snapshot-kev-json")
    person.add(
        manifest(
            "kev",
            {"kind": "Json", "subPath": "vulnerabilities"},
            {"kind": "Snapshot", "primaryKey": ["cveID"]},
        )
    )
    for number, step in enumerate(expected(folder)["transitions"]):
        publish(person, folder / step["to"], 1_700_000_000 + number, "source")
        wanted = counts(step["inserted"], step["removed"], step["changed"])
        assert dict(person.pull("kev").records) == wanted
    assert person.pull("kev").status is PullStatus.UP_TO_DATE
    assert person.verify("kev").datasets[0].valid


@pytest.mark.parametrize(
    ("data", "file", "read", "rows"),
    [
        ("d1", "usgs-all-week.ndjson", {"kind": "NdJson"}, 1707),
        ("d1", "usgs-all-week.geojson", {"kind": "GeoJson"}, 1707),
        ("d1", "github_events.json", {"kind": "Json"}, 30),
        ("c1", "ne_110m_admin_0_countries.ndgeojson", {"kind": "NdGeoJson"}, 177),
        ("c1", "ne_110m_admin_0_countries.zip", {"kind": "EsriShapefile"}, 177),
        ("e1", "nested_lists.snappy.parquet", {"kind": "Parquet"}, 3),
        ("e1", "alltypes_plain.snappy.parquet", {"kind": "Parquet"}, 2),
        (
            "f1",
            "istat-comuni.csv",
            {"kind": "Csv", "header": True, "separator": ";", "encoding": "cp1252"},
            7904,
        ),
    ],
)
def test_files_of_every_kind(
    data: str, file: str, read: dict[str, Any], rows: int, person: Person, real_data: Find
) -> None:
    person.add(manifest("data", read, {"kind": "Append"}))
    publish(person, real_data(data) / file, 1_700_000_000, "source")
    assert dict(person.pull("data").records) == {"+A": rows}
    assert person.verify("data").datasets[0].valid


def test_streams_of_changes(person: Person) -> None:
    columns = ["op INT", "k STRING", "v INT"]
    source = person.root / "source"
    for kind in ("ChangelogStream", "UpsertStream"):
        name = kind.lower()
        merge = {"kind": kind, "primaryKey": ["k"]}
        person.add(manifest(name, {"kind": "NdJson", "schema": columns}, merge))
    source.write_text('{"op":0,"k":"b","v":1}\n{"op":0,"k":"a","v":1}\n{"op":1,"k":"b","v":1}\n')
    assert dict(person.pull("changelogstream").records) == {"+A": 2, "-R": 1}
    assert dict(person.pull("upsertstream").records) == {"+A": 1}
    source.write_text('{"op":3,"k":"a","v":2}\n{"op":0,"k":"c","v":1}\n')
    assert dict(person.pull("upsertstream").records) == {"-C": 1, "+C": 1, "+A": 1}
    assert dict(person.pull("changelogstream").records) == {"+A": 2}
    assert person.verify("upsertstream").datasets[0].valid
    assert person.verify("changelogstream").datasets[0].valid


def test_bad_rows_reach_the_person(person: Person) -> None:
    person.add(manifest("data", {"kind": "NdJson", "schema": ["a INT"]}, {"kind": "Append"}))
    (person.root / "source").write_text('{"a":1}\n{"a":"x"}\n')
    with pytest.raises(BadInputError, match="source:2: column `a`: 'x' is not an INT"):
        person.pull("data")
    assert person.workspace.resolve("data").dataset.state().last_offset is None

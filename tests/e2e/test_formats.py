"""Every format through the whole path: from a file to committed, verified rows."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odf.coordinator.results import PullStatus
from odf.errors import BadInputError
from odf.metadata.schema_evolution import schema_fields
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
        ("d1", "github_events.ndjson", {"kind": "NdJson"}, 30),
        ("d1", "elasticoffee.ndjson", {"kind": "NdJson"}, 1368),
        ("c1", "ne_110m_admin_0_countries.geojson", {"kind": "GeoJson"}, 177),
        ("c1", "ne_110m_admin_0_countries.ndgeojson", {"kind": "NdGeoJson"}, 177),
        ("c1", "ne_110m_admin_0_countries.zip", {"kind": "EsriShapefile"}, 177),
        ("e1", "nested_lists.snappy.parquet", {"kind": "Parquet"}, 3),
        ("e1", "alltypes_plain.snappy.parquet", {"kind": "Parquet"}, 2),
        ("e1", "geoparquet-example.parquet", {"kind": "Parquet"}, 5),
        ("e1", "flights-200k.parquet", {"kind": "Parquet"}, 231_083),
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


@pytest.mark.parametrize("strategy", ["Append", "Ledger", "Snapshot", "UpsertStream"])
def test_nested_columns_go_on_with_the_second_pull(strategy: str, person: Person) -> None:
    schema = ["id INT", "tags ARRAY<STRING>", "more ARRAY<ARRAY<DATE>>", "s STRUCT<x ARRAY<INT>>"]
    key = {} if strategy == "Append" else {"primaryKey": ["id"]}
    person.add(manifest("pools", {"kind": "NdJson", "schema": schema}, {"kind": strategy, **key}))
    source = person.root / "source"
    for number in (1, 2):
        row = {"id": number, "tags": ["a", None], "more": [["2020-01-01"]], "s": {"x": [number]}}
        source.write_text(json.dumps({**row, "id": 0}) + "\n" + json.dumps(row))
        os.utime(source, (1_700_000_000 + number,) * 2)
        assert person.pull("pools", allow_retract=True).status is PullStatus.UPDATED
    assert person.verify("pools").datasets[0].valid


def test_bad_rows_reach_the_person(person: Person) -> None:
    person.add(manifest("data", {"kind": "NdJson", "schema": ["a INT"]}, {"kind": "Append"}))
    (person.root / "source").write_text('{"a":1}\n{"a":"x"}\n')
    with pytest.raises(BadInputError, match="source:2: column `a`: 'x' is not an INT"):
        person.pull("data")
    assert person.workspace.resolve("data").dataset.state().last_offset is None


def test_a_json_array_on_each_line_is_refused(person: Person, real_data: Find) -> None:
    person.add(manifest("phones", {"kind": "NdJson"}, {"kind": "Append"}))
    publish(
        person, real_data("d1") / "amazon_cellphones.array-lines.ndjson", 1_700_000_000, "source"
    )
    with pytest.raises(BadInputError, match="source:1: wanted an object, got an array") as refused:
        person.pull("phones")
    assert "Pipe" in (refused.value.hint or "")
    assert person.workspace.resolve("phones").dataset.state().last_offset is None


def test_earthquakes_by_day_and_network(person: Person, real_data: Find) -> None:
    """Epoch milliseconds, nulls and numbers come out as an independent computation has them."""
    import csv

    from tests.e2e.test_push import rows_of

    folder = real_data("d1")
    query = "select timestamp_millis(cast(time as bigint)) as event_time, net, mag, felt from input"
    preprocess = {"kind": "Sql", "engine": "spark", "query": query}
    source = manifest("quakes", {"kind": "NdJson"}, {"kind": "Append"}, preprocess=preprocess)
    person.add(source)
    publish(person, folder / "usgs-all-week.ndjson", 1_700_000_000, "source")
    assert dict(person.pull("quakes").records) == {"+A": 1707}
    found: dict[tuple[str, str], list[Any]] = {}
    for row in rows_of(person, "quakes", "event_time", "net", "mag", "felt"):
        group = found.setdefault((str(row["event_time"])[:10], str(row["net"])), [0, None, 0])
        group[0] += 1
        group[1] = max(value for value in (group[1], row["mag"]) if value is not None)
        group[2] += row["felt"] is None
    with (folder / "expected_quakes_by_day_net.csv").open() as stream:
        wanted = {
            (row["day_utc"], row["net"]): [
                int(row["n"]),
                float(row["max_mag"]),
                int(row["felt_null"]),
            ]
            for row in csv.DictReader(stream)
        }
    assert {key: [n, float(mag), nulls] for key, (n, mag, nulls) in found.items()} == wanted


def test_coffee_by_day(person: Person, real_data: Find) -> None:
    from tests.e2e.test_push import rows_of

    folder = real_data("d1")
    about = expected(folder)["elasticoffee"]
    preprocess = {
        "kind": "Sql",
        "engine": "spark",
        "query": "select cast(`@timestamp` as timestamp) as event_time, quantity from input",
    }
    person.add(manifest("coffee", {"kind": "NdJson"}, {"kind": "Append"}, preprocess=preprocess))
    publish(person, folder / "elasticoffee.ndjson", 1_700_000_000, "source")
    result = person.pull("coffee")
    assert str(result.watermark) == about["max_ts"]
    by_day: dict[str, int] = {}
    for row in rows_of(person, "coffee", "event_time", "quantity"):
        day = str(row["event_time"])[:10]
        by_day[day] = by_day.get(day, 0) + int(str(row["quantity"]))
    assert by_day == about["by_day"]


@pytest.mark.parametrize(
    ("file", "prepare"),
    [
        ("istat-comuni.csv", None),
        ("brussels-hotels.csv", None),
        ("italy-notes-bom.csv", None),
        ("nrc-events.txt", None),
        ("ks-1033.csv", None),
        ("geopandas-commits.csv", None),
        ("countries.utf16le-bom.tsv", None),
        ("mac-newlines.csv", None),
        ("chinese.csv.gz", {"kind": "Decompress", "format": "Gzip"}),
    ],
)
def test_odd_csv_files_equal_their_canonical_form(
    file: str, prepare: dict[str, Any] | None, person: Person, real_data: Find
) -> None:
    """The other packings are in `test_prepare`."""
    import csv
    import io

    from tests.e2e.test_push import rows_of

    folder = real_data("f1")
    about = expected(folder)[file]
    read = {"kind": "Csv", "header": True, "separator": about["delimiter"]}
    if not about["encoding"].startswith("utf-8"):
        read["encoding"] = about["encoding"]
    more = {"prepare": [prepare]} if prepare else {}
    person.add(manifest("odd", read, {"kind": "Append"}, **more))
    publish(person, folder / file, 1_700_000_000, "source")
    assert dict(person.pull("odd").records) == {"+A": about["rows"]}
    # In the canonical forms a record ends with a line feed; a carriage return is a character.
    text = (folder / about["canonical"]).read_bytes().decode().replace("\r", "\x01")
    header, *records = csv.reader(io.StringIO(text, newline=""))
    names = [name.replace("\x01", "\r") or f"column_{n}" for n, name in enumerate(header, 1)]
    found = [[row[name] or "" for name in names] for row in rows_of(person, "odd")]
    assert found == [[cell.replace("\x01", "\r") for cell in record] for record in records]
    assert person.verify("odd").datasets[0].valid


def test_a_structured_schema_is_read_by_as_well_as_ddl(person: Person) -> None:
    """The form of later releases: types are those that it says, and null only where it says so."""
    fields = [
        {"name": "id", "type": {"kind": "Int64"}},
        {"name": "day", "type": {"kind": "Option", "inner": {"kind": "Date"}}},
    ]
    content = {"csv": "id,day\n1,2024-01-31\n2,\n", "json": '{"id": 1, "day": "2024-01-31"}\n'}
    for name, kind in (("csv", {"kind": "Csv", "header": True}), ("json", {"kind": "NdJson"})):
        person.add(manifest(name, {**kind, "schema": {"fields": fields}}, {"kind": "Append"}))
        (person.root / "source").write_text(content[name])
        person.pull(name)
        schema = person.workspace.resolve(name).dataset.state().schema
        assert schema is not None
        found = {one.name: (str(one.type), one.nullable) for one in schema_fields(schema)}
        assert found["id"] == ("Int(64)", False)
        assert found["day"] == ("Date(day)", True)
    (person.root / "source").write_text('{"day": "2024-02-01"}\n')
    with pytest.raises(BadInputError, match="`id`: null in a column that is NOT NULL"):
        person.pull("json")

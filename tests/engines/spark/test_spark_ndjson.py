"""Files with one JSON object a line: into rows, and what is said about those that are bad."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from odf.engines.host.engine import SourceFile
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.readers.json import open_json, read_json
from odf.engines.spark.readers.json_format import parse_json_format
from odf.engines.spark.readers.known import KnownColumns
from odf.errors import BadInputError
from odf.metadata.model import MergeStrategyLedger, MergeStrategySnapshot, ReadStepNdJson
from tests.engines.spark.spark_ingestor import Ingestor, sql

pytestmark = pytest.mark.spark

Make = Callable[..., Ingestor]


def ndjson(*schema: str, **options: Any) -> ReadStepNdJson:
    return ReadStepNdJson(schema=schema or None, **options)


def values(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_columns_are_taken_by_name(ingestor: Make) -> None:
    found = ingestor(read=ndjson("b STRING", "a INT")).text(
        '{"a": 1, "b": "x", "extra": {"c": 1}}\n\n  \r\n{"b": null}\r\n{"a": "3", "A": 9}'
    )
    assert values(found.rows, "a", "b") == [(1, "x"), (None, None), (3, None)]
    assert list(found.rows[0])[4:] == ["b", "a"]


def test_every_type(ingestor: Make) -> None:
    read = ndjson(
        "i TINYINT", "u BIGINT UNSIGNED", "d DOUBLE", "f FLOAT", "n DECIMAL(20,4)", "t BOOLEAN",
        "day DATE", "at TIMESTAMP", "clock TIME", "id UUID", "s STRING",
    )  # fmt: skip
    row = {
        "i": 1.0, "u": 2**64 - 1, "d": 3, "f": 1.5, "n": 12345678901234.5678, "t": True,
        "day": "2024-01-02", "at": "2024-01-02T03:04:05+01:00", "clock": "12:30",
        "id": "00112233-4455-6677-8899-aabbccddeeff", "s": "é\u2028😀",
    }  # fmt: skip
    texts = {
        "i": "-7", "u": "7", "d": "1e3", "f": "NaN", "n": "0.00005", "t": "FALSE",
        "day": "2024-1-2", "at": "2024-01-02", "clock": "1:2:3", "id": row["id"], "s": 1.50,
    }  # fmt: skip
    lines = json.dumps(row).replace("12345678901234.568", "12345678901234.5678")
    (first, second) = ingestor(read=read).text(f"{lines}\n{json.dumps(texts)}\n").rows
    assert values([first], "i", "u", "d", "f", "n", "t", "day") == [
        (1, 2**64 - 1, 3.0, 1.5, Decimal("12345678901234.5678"), True, date(2024, 1, 2))
    ]
    assert first["at"] == datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC)
    assert (str(first["clock"]), str(first["id"]), first["s"]) == ("12:30:00", row["id"], row["s"])
    assert values([second], "i", "u", "d", "n", "t", "s") == [
        (-7, 7, 1000.0, Decimal("0.0001"), False, "1.5")
    ]


def test_a_text_column_takes_what_is_there(ingestor: Make) -> None:
    found = ingestor(read=ndjson("s STRING")).text(
        '{"s":1.50}\n{"s":-0.0}\n{"s":12345678901234567890123}\n{"s":true}\n'
        '{"s":{"b":[1, 2.50,1e2],"a":"\\u00e9"}}\n{"s":[]}\n{"s":""}\n'
    )
    assert [row["s"] for row in found.rows] == [
        "1.50", "-0.0", "12345678901234567890123", "true",
        '{"a":"é","b":[1,2.5,100.0]}', "[]", "",
    ]  # fmt: skip


def test_nested_columns(ingestor: Make) -> None:
    read = ndjson("tags ARRAY<STRING>", "who STRUCT<id BIGINT, at TIMESTAMP, n ARRAY<INT>>")
    line = '{"tags":["a",null,3],"who":{"at":"1969-12-31T23:59:59.9999Z","id":"7","x":1}}\n'
    with pytest.raises(BadInputError, match="key column `tags` is ARRAY<STRING>; a key cannot"):
        ingestor(read=read, merge=MergeStrategyLedger(("tags",))).text(line)
    read = ndjson("k INT", *(read.schema or ()))
    dataset = ingestor(read=read, merge=MergeStrategySnapshot(("k",)))
    line = '{"k":1,' + line[1:]
    (row,) = dataset.text(line).rows
    assert row["tags"] == ["a", None, "3"]
    assert row["who"] == {
        "id": 7, "at": datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), "n": None,
    }  # fmt: skip
    assert dataset.text(line).rows == []
    found = dataset.text(line.replace('"7"', "8"))
    assert [row["op"] for row in found.rows] == [2, 3]
    assert [row["who"]["id"] for row in found.rows] == [7, 8]


def test_of_duplicate_keys_the_last_one_wins(ingestor: Make) -> None:
    found = ingestor(read=ndjson("a INT")).text('{"a":1,"a":"x","a":2}\n')
    assert [row["a"] for row in found.rows] == [2]


def test_encodings_and_time_formats(ingestor: Make) -> None:
    read = ndjson(
        "s STRING", "d DATE", "t TIMESTAMP", encoding="latin-1",
        date_format="dd/MM/yyyy", timestamp_format="%d.%m.%Y %H:%M",
    )  # fmt: skip
    found = ingestor(read=read).data(
        '{"s":"café","d":"31/01/2024","t":"01.02.2024 03:04"}'.encode("latin-1")
    )
    assert values(found.rows, "s", "d", "t") == [
        ("café", date(2024, 1, 31), datetime(2024, 2, 1, 3, 4, tzinfo=UTC))
    ]
    with pytest.raises(BadInputError, match="`d`: '2024-01-31' is not a DATE"):
        ingestor(read=read).text('{"d":"2024-01-31"}')
    found = ingestor(read=ndjson("a INT")).data(b'\xef\xbb\xbf{"a":1}\n')
    assert [row["a"] for row in found.rows] == [1]


def test_bad_values_are_named_by_line_and_path(ingestor: Make) -> None:
    read = ndjson("n INT", "w STRUCT<xs ARRAY<DOUBLE>> NOT NULL", "d DATE")
    good = '{"n":1,"w":{"xs":[1]}}'
    with pytest.raises(BadInputError) as found:
        ingestor(read=read).data(
            b"\n".join(
                [
                    good.encode(),
                    b'{"n":1.5,"w":{}}',
                    b"",
                    b'{"n":"x","w":{"xs":[1,true]}}',
                    b'{"n":true}',
                    b'{"n":1 "w"}',
                    b'{"n":\xff}',
                    b"[1,2]",
                    b'{"w":[],"d":1517966773840}',
                    b'{"w":{},"n":3000000000}',
                    b'{"w":{},"n":NaN}',
                    good.encode(),
                ]
            )
        )
    assert found.value.reason == "bad_rows"
    assert found.value.problems == (
        "data.csv:2: column `n`: 1.5 is not an INT",
        "data.csv:4: column `n`: 'x' is not an INT",
        "data.csv:4: column `w.xs[1]`: true is not a DOUBLE",
        "data.csv:5: column `n`: true is not an INT",
        "data.csv:5: column `w`: null in a column that is NOT NULL",
        "data.csv:6: not JSON: Expecting ',' delimiter (column 8)",
        "data.csv:7: not utf-8",
        "data.csv:8: wanted an object, got an array",
        "data.csv:9: column `w`: wanted an object, got an array",
        "data.csv:9: column `d`: 1517966773840 is not a DATE",
    )
    assert found.value.details["count"] == 12
    assert "bad values" in found.value.message


def test_an_array_on_each_line_is_refused(ingestor: Make, real_data: Callable[[str], Path]) -> None:
    path = real_data("d1") / "amazon_cellphones.array-lines.ndjson"
    with pytest.raises(BadInputError, match=r"ndjson:1: wanted an object, got an array") as found:
        ingestor(read=ndjson("asin STRING")).files([SourceFile(str(path), path.name)])
    assert "array on each line" in (found.value.hint or "")
    assert found.value.details["count"] == 793


def test_inferred_types(ingestor: Make) -> None:
    found = ingestor(read=ndjson()).text(
        '{"z":1,"b":true,"i":1,"f":1,"mix":1,"o":{"y":1,"x":[1]},"none":null,"e":[],"big":1}\n'
        '{"a":"t","f":1.5,"mix":"t","o":{"x":[2.5,null]},"none":null,"eo":{},"big":1e30}\n'
        '{"mix2":{"q":1}}\n{"mix2":[3]}\n'
    )
    types = {f.name: str(f.type) for f in found.schema if f.name not in
             ("offset", "op", "system_time", "event_time")}  # fmt: skip
    assert list(types) == [
        "a", "b", "big", "e", "eo", "f", "i", "mix", "mix2", "none", "o", "z",
    ]  # fmt: skip
    assert types == {
        "a": "string", "b": "bool", "big": "double", "e": "list<element: string>",
        "eo": "string", "f": "double", "i": "int64", "mix": "string", "mix2": "string",
        "none": "string", "o": "struct<x: list<element: double>, y: int64>", "z": "int64",
    }  # fmt: skip
    assert [row["mix2"] for row in found.rows] == [None, None, '{"q":1}', "[3]"]
    assert [row["mix"] for row in found.rows] == ["1", "t", None, None]


def test_inferred_columns_keep_the_types_of_the_dataset(ingestor: Make) -> None:
    dataset = ingestor(read=ndjson(), merge=MergeStrategySnapshot(("k",)))
    dataset.text('{"k":1,"v":1.5,"s":"x","w":{"a":1}}\n{"k":2,"v":2}\n')
    assert dataset.text('{"k":1,"v":1.5,"s":"x","w":{"a":1}}\n{"k":2,"v":2}\n').rows == []
    found = dataset.text('{"k":1,"v":2,"s":3}\n{"k":2,"v":2}\n')
    assert values(found.rows, "op", "k", "v", "s", "w") == [
        (2, 1, 1.5, "x", {"a": 1}),
        (3, 1, 2.0, "3", None),
    ]
    with pytest.raises(
        BadInputError, match="`v` is DOUBLE in the dataset, the new data has STRING"
    ):
        dataset.text('{"k":1,"v":"no"}\n{"k":2,"v":2}\n')


def test_a_system_column_among_the_members(ingestor: Make) -> None:
    with pytest.raises(BadInputError, match="system column `op`"):
        ingestor(read=ndjson()).text('{"op":1}\n')
    (row,) = (
        ingestor(read=ndjson(), preprocess=sql("SELECT op AS kind FROM input"))
        .text('{"op":1}\n')
        .rows
    )
    assert row["kind"] == 1


def test_ranges_give_the_same_as_one(engine: SparkEngine, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("\n\n".join(json.dumps({"i": i, "f": i / 2}) for i in range(3000)))
    files = [SourceFile(str(path), "data")]
    with engine._runtime.operation() as spark:
        for declared in (("i BIGINT", "f DOUBLE"), ()):
            form = parse_json_format(ndjson(*declared))
            source = open_json(spark, files, form, tmp_path, KnownColumns(), range_size=999)
            assert len(source.ranges) > 20
            parts = read_json(spark, source, tmp_path)
            found = [v for table in parts.tables() for v in table.column("i").to_pylist()]
            assert found == list(range(3000))
            rows = [v for table in parts.tables(["__odf_row"]) for v in table.column(0).to_pylist()]
            assert rows == sorted(set(rows))
            assert source.labels([rows[0], rows[2999], rows[1500]]) == [
                "data:1", "data:5999", "data:3001",
            ]  # fmt: skip
        path.write_text(path.read_text().replace('"i": 2500', '"i": 2500.5'))
        source = open_json(
            spark, files, parse_json_format(ndjson("i INT")), tmp_path, KnownColumns(),
            range_size=999,
        )  # fmt: skip
        with pytest.raises(BadInputError, match=r"data:5001: column `i`: 2500\.5 is not an INT"):
            read_json(spark, source, tmp_path)


def test_earthquakes(ingestor: Make, real_data: Callable[[str], Path]) -> None:
    folder = real_data("d1")
    wanted = json.loads((folder / "expected.json").read_text())["earthquakes"]
    path = folder / "usgs-all-week.ndjson"
    found = ingestor(read=ndjson(), merge=MergeStrategyLedger(("id",))).files(
        [SourceFile(str(path), path.name)]
    )
    assert len(found.rows) == wanted["features"]
    for name, count in wanted["null_counts"].items():
        assert sum(row[name] is None for row in found.rows) == count, name
    times = [row["time"] for row in found.rows]
    assert (min(times), max(times)) == (wanted["min_time_ms"], wanted["max_time_ms"])


def test_github_events(ingestor: Make, real_data: Callable[[str], Path]) -> None:
    folder = real_data("d1")
    wanted = json.loads((folder / "expected.json").read_text())["github_events"]
    path = folder / "github_events.ndjson"
    source = [SourceFile(str(path), path.name)]
    found = ingestor(read=ndjson(), merge=MergeStrategyLedger(("id",))).files(source)
    assert len(found.rows) == wanted["rows"]
    assert [n for n in found.rows[0] if n in wanted["keys"]] == sorted(wanted["keys"])
    assert sum(row["org"] is not None for row in found.rows) == wanted["rows_with_org"]
    (commits,) = {str(f.type) for f in found.schema.field("payload").type if f.name == "commits"}
    assert commits == "list<element: string>"
    read = ndjson("id STRING", "created_at TIMESTAMP", "payload STRING", "repo STRUCT<name STRING>")
    found = ingestor(read=read, merge=MergeStrategyLedger(("id",))).files(source)
    originals = {e["id"]: e for e in map(json.loads, path.read_text().splitlines())}
    for row in found.rows:
        event = originals[row["id"]]
        assert json.loads(row["payload"]) == event["payload"]
        assert row["repo"]["name"] == event["repo"]["name"]
        assert row["created_at"] == datetime.fromisoformat(event["created_at"])


def test_coffee_without_a_last_line_end(ingestor: Make, real_data: Callable[[str], Path]) -> None:
    path = real_data("d1") / "elasticoffee.ndjson"
    read = ndjson('"@timestamp" TIMESTAMP', "beverage STRING", "quantity INT")
    found = ingestor(
        read=read,
        preprocess=sql("SELECT `@timestamp` AS event_time, beverage, quantity FROM input"),
    ).files([SourceFile(str(path), path.name)])
    assert len(found.rows) == 1368
    assert sum(row["quantity"] for row in found.rows) == 1368
    days = [row["event_time"].date().isoformat() for row in found.rows]
    assert {day: days.count(day) for day in set(days)} == {
        "2018-02-27": 5, "2018-02-28": 632, "2018-03-01": 731,
    }  # fmt: skip

"""Files that a newcomer gives by mistake: what is said, what to do next, and nothing changed."""

import gzip
import http.server
import io
import json
import re
import threading
import zipfile
from collections.abc import Callable
from datetime import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.coordinator.results import PullStatus
from odf.errors import BadInputError, OdfError
from tests.e2e.conftest import Person
from tests.e2e.test_bad_input import refused
from tests.e2e.test_formats import manifest

pytestmark = pytest.mark.spark

APPEND = {"kind": "Append"}
NAMED: dict[str, Any] = {"kind": "Csv", "header": True}
TYPED: dict[str, Any] = {**NAMED, "schema": ["id BIGINT", "name STRING", "size DOUBLE"]}
LINES: dict[str, Any] = {"kind": "NdJson"}
DOCUMENT: dict[str, Any] = {"kind": "Json"}
GEO: dict[str, Any] = {"kind": "GeoJson"}
PARQUET: dict[str, Any] = {"kind": "Parquet"}
SHAPES: dict[str, Any] = {"kind": "EsriShapefile"}
ASIDE = "--on-bad-rows quarantine"


def zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return packed.getvalue()


def parquet(names: list[str] | None = None, *values: pa.Array, **columns: pa.Array) -> bytes:
    written = io.BytesIO()
    table = pa.table(columns) if names is None else pa.table(list(values), names=names)
    pq.write_table(table, written)
    return written.getvalue()


CSV = b"id,name,size\n1,a,2\n"
TABLE = parquet(id=pa.array([1, 2]), name=pa.array(["a", "b"]))
TWICE = parquet(["id", "id"], pa.array([1, 2]), pa.array(["a", "b"]))
LEDGER = {"kind": "Ledger", "primaryKey": ["id"]}


@pytest.mark.parametrize(
    ("read", "data", "said", "hint"),
    [
        (TYPED, b"id;name;size\n1;a;2\n", r"wanted the 3 columns .* got 1", "separated by ';'"),
        (TYPED, b"id\tname\tsize\n1\ta\t2\n", "wanted the 3 columns", r"separated by '\\t'"),
        ({**TYPED, "header": False}, b"1;a;2\n", "wanted 3 fields, got 1", "separated by ';'"),
        ({**TYPED, "header": False}, CSV, "`id`: 'id' is not a BIGINT", "header: true"),
        (TYPED, b"Report\n\nid,name,size\n1,a,2\n", "got 1 in the header", r"tail, -n, '\+2'"),
        (NAMED, b"Report\n\nid,name,size\n1,a,2\n", "wanted 1 fields, got 3", "tail, -n"),
        (NAMED, b"id,n,x\n1,2\n", r"source:2: wanted 3 fields, got 2", ASIDE),
        (NAMED, b"id,n\n1,2,3\n", r"source:2: wanted 2 fields, got 3", "`separator`"),
        (TYPED, CSV + b"2,\xe9,1\n", "source:3: not utf-8", r"`encoding`.*" + ASIDE),
        ({**TYPED, "encoding": "ascii"}, CSV + b"2,\xe9,1\n", "3: not ascii", "encoding: ascii`"),
        (NAMED, "id,né\n1,2\n".encode("latin-1"), "source:1: the header is not utf-8", "latin-1"),
        (NAMED, CSV.decode().encode("utf-16"), "header is not utf-8", "encoding: utf-16`"),
        (NAMED, CSV.decode().encode("utf-16-le"), "the header is no text", "utf-16-le"),
        (NAMED, CSV.decode().encode("utf-16-be"), "the header is no text", "utf-16-be"),
        ({**NAMED, "encoding": "utf-16"}, CSV, "is not utf-16", "utf-16-le or utf-16-be"),
        (NAMED, bytes(range(256)) * 4, "the header is no text", "no text at all"),
        (NAMED, b"id,Id\n1,2\n", "the columns `id` and `Id`, which are the same", "by position"),
        (TYPED, b'id,name,size\n1,"a\nb",2\n2,"c,3\n', "source:4: the quote .* never", "quote"),
        (TYPED, b"id,name,size\nx,a,2\n", "column `id`: 'x' is not a BIGINT", ASIDE),
        (TYPED, b'id,name,size\n1,a,"1,5"\n', "'1,5' is not", r"replace\(`size`, ',', '.'\)"),
        (TYPED, b'id,name,size\n1,a,"1,500"\n', "is not a DOUBLE", r"replace\(`size`, ',', ''\)"),
        (TYPED, b"id,name,size\n1,a,N/A\n", "'N/A' is not a DOUBLE", "nullValue: 'N/A'"),
        ({**NAMED, "schema": ["d DATE"]}, b"d\n31/12/2024\n", "is not a DATE", "dateFormat"),
        ({**NAMED, "schema": ["t TIMESTAMP"]}, b"t\n1 May\n", "not a TIMESTAMP", "timestampFormat"),
        ({**NAMED, "schema": ["t TIMESTAMP"]}, b"t\n2024-07-01 10:00 Europe/Rome\n", "not a",
         r"to_utc_timestamp\(left\(`t`, 16\), 'Europe/Rome'\)"),
        ({**NAMED, "schema": ["i INT NOT NULL", "j INT"]}, b"i,j\n,1\n", "null in", "NOT NULL"),
        (NAMED, b"<!DOCTYPE html>\n<p>a, b\n", "wanted 1 fields", "web page"),
        (TYPED, b"<html>\n<p>a, b\n", "wanted the 3 columns", "web page"),
        (TYPED, b'[{"id": 1}]', "wanted the 3 columns", "read step Json"),
        (NAMED, gzip.compress(CSV * 9, mtime=0), "not utf-8|no text", "format: Gzip"),
        (NAMED, zipped({"a.csv": CSV}), "not utf-8|no text", "format: Zip"),
        (NAMED, zipped({"[Content_Types].xml": b"<x/>"}), "not utf-8|no text", "save it as CSV"),
        (TYPED, TABLE, "not utf-8|no text|wanted the 3", "read step Parquet"),
        (DOCUMENT, b'{"meta": 1, "rows": [{"a": 1}]}', "it is an object", "subPath: rows"),
        ({**DOCUMENT, "subPath": "a"}, b'{"a": {"b": []}}', "it is an object", "subPath: a.b"),
        (DOCUMENT, b'{"a": 1}\n{"a": 2}\n', "it is an object", "read step NdJson"),
        ({**DOCUMENT, "subPath": "x.y"}, b'{"z": []}', "`x.y` is not found: .* has `z`", "subPath"),
        (DOCUMENT, b"a,b\n1,2\n", "it begins with 'a'", "does not seem to be JSON"),
        (DOCUMENT, b"<html></html>", "it begins with '<'", "web page"),
        (DOCUMENT, b'[{"a": 1},]', "not JSON at line 1", "one JSON document"),
        (DOCUMENT, b'[{"a": 1},\n{"a"', "not JSON at line 2", "one JSON document"),
        (DOCUMENT, b"[1, 2]", "element 1: wanted an object, got a number", "each element"),
        (DOCUMENT, b'[{"a": "\xe9"}]', "element 1: not utf-8", r"`encoding`.*" + ASIDE),
        (DOCUMENT, gzip.compress(b"[]", mtime=0), "no JSON", "format: Gzip"),
        (LINES, b'[\n{"a": 1},\n{"a": 2}\n]\n', "source:1: not JSON", "read step Json"),
        (LINES, b"[1, 2]\n[3, 4]\n", "wanted an object, got an array", "Pipe step"),
        (LINES, b"a,b\n1,2\n", "source:1: not JSON", "does not seem to be JSON"),
        (LINES, b'{"a": 1}\n{"a": \n', "source:2: not JSON", ASIDE),
        ({**LINES, "schema": ["a INT"]}, b'{"a": "x"}\n', "'x' is not an INT", ASIDE),
        (GEO, b'{"type": "FeatureCollection"}', "`features` is not found", "FeatureCollection"),
        (GEO, b'{"type": "Point", "coordinates": [1, 2]}', 'its `type` is "Point"', "NdGeoJson"),
        ({"kind": "NdGeoJson"}, b'{"type": "FeatureCollection"}', "GeoJSON Feature", "GeoJson"),
        (SHAPES, zipped({"a.shp": b"", "a.shx": b""}), "has no .dbf", "the .dbf and the .shx"),
        (SHAPES, zipped({"a.dbf": b""}), "found 0", "the .dbf and the .shx"),
        (SHAPES, zipped({"a.shp": b"", "b.shp": b""}), "found 2; .* a.shp, b.shp", "subPath"),
        (SHAPES, zipped({"a.shp": b"x" * 99, "a.dbf": b"y"}), "damaged or cut off", "unzip -t"),
        (SHAPES, b"x", "zip archive", "with .shp, .dbf"),
        (PARQUET, TABLE[:-9], "cannot be read as Parquet", "file is whole"),
        (PARQUET, b"{}", "cannot be read as Parquet", "read step Json"),
        (PARQUET, TABLE[:4] + b"\xff" * 60 + TABLE[64:], "cannot be read", "file is whole"),
        (PARQUET, parquet(d=pa.array([1], pa.duration("s"))), r"duration\[s\]", "without this one"),
        (PARQUET, parquet(d=pa.array([{"a": [{"b": 1}]}])), "no logical hash", "turn the column"),
        (PARQUET, TWICE, "source has 2 columns with the name `id`", "without this one"),
        ({**PARQUET, "schema": ["id INT"]}, TWICE, "2 columns with the name `id`", "a name for"),
        ({**PARQUET, "schema": ["x INT"]}, TABLE, "no column `x`; it has `id`, `name`", "by name"),
        ({**PARQUET, "schema": ["name INT"]}, TABLE, "row 1: column `name`: 'a' is not", ASIDE),
    ],
)  # fmt: skip
def test_a_file_that_is_not_what_the_read_step_says(
    read: dict[str, Any], data: bytes, said: str, hint: str, person: Person
) -> None:
    person.add(manifest("data", read, APPEND))
    (person.root / "source").write_bytes(data)
    with refused(person, BadInputError, None, 1) as caught:
        person.pull("data")
    check(caught.value, said, hint)


def check(error: OdfError, said: str, hint: str) -> None:
    assert re.search(said, error.message), error.message
    assert re.search(hint, error.hint or "", re.DOTALL), error.hint
    assert error.message.isprintable(), error.message
    assert "Traceback" not in error.message


GZIP = {"kind": "Decompress", "format": "Gzip"}
ZIP = {"kind": "Decompress", "format": "Zip"}
TWO = zipped({"a.csv": CSV, "b.csv": CSV})


@pytest.mark.parametrize(
    ("step", "data", "said", "hint"),
    [
        (GZIP, gzip.compress(CSV * 99, mtime=0)[:-12], "ends in the middle", "gzip -t"),
        (GZIP, CSV, "no gzip data: it begins with 69 64", "leave the step out"),
        (GZIP, TWO, "no gzip data", "format: Zip"),
        (ZIP, CSV, "not a zip file", "leave the step out"),
        (ZIP, gzip.compress(CSV, mtime=0), "not a zip file", "format: Gzip"),
        (ZIP, TWO[:-30], "damaged or cut off", "unzip -t"),
        (ZIP, TWO, "has 2 members; wanted one", "subPath"),
        (ZIP, zipped({}), "has no members", "unzip -t"),
        ({**ZIP, "subPath": "c.csv"}, TWO, "no member matches subPath 'c.csv'", "glob"),
        ({**ZIP, "subPath": "*.csv"}, TWO, r"matches 2 members; wanted one", "subPath"),
    ],
)
def test_a_file_that_cannot_be_unpacked(
    step: dict[str, Any], data: bytes, said: str, hint: str, person: Person
) -> None:
    person.add(manifest("data", NAMED, APPEND, prepare=[step]))
    (person.root / "source").write_bytes(data)
    with refused(person, BadInputError, None, 1) as caught:
        person.pull("data")
    check(caught.value, said, hint)


def of(*schema: str) -> dict[str, Any]:
    return {**NAMED, "schema": list(schema)}


@pytest.mark.parametrize(
    ("read", "said", "hint"),
    [
        ({**NAMED, "separator": "||"}, r"separator is '\|\|': wanted one ASCII", r"\\t"),
        ({**NAMED, "separator": "¦"}, "separator is '¦': wanted one ASCII", "sed"),
        ({**NAMED, "separator": "\n"}, "that ends no line", "Pipe"),
        ({**NAMED, "separator": '"'}, "is the quote", "a character of its own"),
        ({**NAMED, "separator": ";", "escape": ";"}, "or the escape character", "of its own"),
        ({**NAMED, "quote": "''"}, "quote is \"''\"", "one|tab"),
        ({**NAMED, "encoding": "utf-9"}, "CSV encoding 'utf-9' is not known", "latin-1"),
        ({**NAMED, "encoding": "hex"}, "CSV encoding 'hex' is not known", "latin-1"),
        ({**LINES, "encoding": "utf-9"}, "JSON encoding 'utf-9' is not known", "latin-1"),
        ({**DOCUMENT, "subPath": "a..b"}, r"subPath 'a\.\.b' has an empty name", r"a\.b\.c"),
        ({**NAMED, "dateFormat": "qq"}, "dateFormat: .* the letter q is not known", "yyyy-MM-dd"),
        ({**LINES, "timestampFormat": "%Q"}, "timestampFormat: .* %Q is not known", "%Y-%m-%d"),
        ({**NAMED, "dateFormat": "dd/MM"}, "dateFormat: .* has no year", "yyyy"),
        ({**NAMED, "timestampFormat": "%H:%M"}, "timestampFormat: .* has no year", "preprocess"),
        (of("a ARRAY<INT>"), "`a`: a CSV field cannot hold ARRAY<INT>", "STRING"),
        (of("a BINARY"), "`a`: a CSV field cannot hold BINARY", "STRING"),
        ({**LINES, "schema": ["a BINARY"]}, "`a`: JSON cannot hold a BINARY", "unhex"),
        (
            {**LINES, "schema": ["a STRUCT<b ARRAY<UUID>>"]},
            "`a`: JSON cannot hold a UUID inside an ARRAY or STRUCT",
            "unhex",
        ),
        ({**GEO, "schema": ["a BINARY"]}, "`a`: JSON cannot hold a BINARY", "unhex"),
        (of("offset INT"), "`offset` has the name of the system column `offset`", "SetVocab"),
        (of("OP INT"), "`OP` has the name of the system column `op`", "another name"),
        (of("event_time STRING"), "`event_time` is STRING; .* a DATE or a TIMESTAMP", "preprocess"),
        (of("Event_Time DATE"), "`Event_Time`; the event time column is `event_time`", "case"),
    ],
)
def test_a_read_step_that_can_never_work_is_refused_when_it_is_added(
    read: dict[str, Any], said: str, hint: str, person: Person
) -> None:
    with refused(person, BadInputError, None, 1) as caught:
        person.add(manifest("data", read, APPEND))
    check(caught.value, said, hint)
    assert "data" in caught.value.message
    assert not list((person.root / ".odf" / "datasets").iterdir())


def test_a_schema_beside_inferred_types_is_warned_of(person: Person) -> None:
    read = {**of("a INT"), "inferSchema": True}
    [added] = person.add(manifest("data", read, APPEND)).added
    assert any("inferSchema does nothing beside a schema" in text for text in added.warnings)


@pytest.mark.parametrize(
    ("schema", "said", "hint"),
    [
        ("id BIGINT,, n INT", "position 11: wanted the name of a column", r"name TYPE"),
        ("id", "wanted the type of column 'id'", "name TYPE"),
        ("id BIGGINT", "unknown type 'BIGGINT'", "BIGINT"),
        ("id INT, id INT", "'id' twice", "own name"),
        ("a DECIMAL", "wanted DECIMAL", r"DECIMAL\(18, 2\)"),
    ],
)
def test_a_schema_that_is_none(schema: str, said: str, hint: str, person: Person) -> None:
    with refused(person, BadInputError, None, 1) as caught:
        person.add(manifest("data", {**NAMED, "schema": [schema]}, APPEND))
    check(caught.value, said, hint)


@pytest.mark.parametrize(
    ("read", "data", "warning"),
    [
        (NAMED, b"id;name\n1;a\n", "one column, 'id;name': should `separator` be ';'"),
        (TYPED, b"size,id,name\n1,1,1\n", "in another order (size, id, name); .* by position"),
        ({**LINES, "schema": ["Id INT"]}, b'{"id": 1}\n', "no row has `Id`.* the rows have `id`"),
    ],
)
def test_what_can_be_read_but_is_odd_is_told(
    read: dict[str, Any], data: bytes, warning: str, person: Person
) -> None:
    person.add(manifest("data", read, APPEND))
    (person.root / "source").write_bytes(data)
    result = person.pull("data")
    assert result.status is PullStatus.UPDATED
    pattern = warning.replace("(", r"\(").replace(")", r"\)")
    assert [text for text in result.warnings if re.search(pattern, text)], result.warnings


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (NAMED, b"id,name\n1,a;b\n"),
        (NAMED, b"id\n1\n"),
        (TYPED, CSV),
        (TYPED, b"key,label,weight\n1,a,2\n"),
        ({**LINES, "schema": ["id INT", "x INT"]}, b'{"id": 1}\n{"x": null}\n'),
        ({**LINES, "schema": ["id INT"]}, b""),
    ],
)
def test_nothing_is_told_of_what_is_right(
    read: dict[str, Any], data: bytes, person: Person
) -> None:
    person.add(manifest("data", read, APPEND))
    (person.root / "source").write_bytes(data)
    assert person.pull("data", allow_empty=True).warnings == ()


def test_a_member_with_a_wicked_name_is_read_and_not_written(
    person: Person, tmp_path: Path
) -> None:
    person.add(manifest("data", NAMED, APPEND, prepare=[ZIP]))
    (person.root / "source").write_bytes(zipped({"../../wicked.csv": CSV}))
    assert dict(person.pull("data").records) == {"+A": 1}
    assert list(tmp_path.rglob("wicked.csv")) == []


def test_a_shapefile_without_index_is_read(
    person: Person, real_data: Callable[[str], Path]
) -> None:
    with zipfile.ZipFile(real_data("c1") / "ne_110m_admin_0_countries.zip") as archive:
        members = {n: archive.read(n) for n in archive.namelist() if not n.endswith(".shx")}
    person.add(manifest("data", SHAPES, APPEND))
    (person.root / "source").write_bytes(zipped(members))
    assert dict(person.pull("data").records) == {"+A": 177}


@pytest.mark.parametrize("is_nested", [False, True])
def test_times_finer_than_microseconds_are_no_times(person: Person, *, is_nested: bool) -> None:
    times = pa.array([1_000, 1_999, None], pa.time64("ns"))
    column = pa.array([{"t": t} for t in times], pa.struct([("t", times.type)]))
    person.add(manifest("data", PARQUET, APPEND))
    (person.root / "source").write_bytes(parquet(t=column if is_nested else times))
    with refused(person, BadInputError, "row 2: column `t`", 1) as caught:
        person.pull("data")
    check(caught.value, "1 bad value", "STRING")
    result = person.pull("data", quarantine=True)
    assert dict(result.records) == {"+A": 2}
    (path,) = (person.root / ".odf" / "datasets").glob("*/data/*")
    found = pq.read_table(path).column("t").to_pylist()
    assert found == (
        [{"t": time(0, 0, 0, 1)}, {"t": None}] if is_nested else [time(0, 0, 0, 1), None]
    )


def test_a_folder_is_no_file(person: Person) -> None:
    person.add(manifest("data", NAMED, APPEND))
    (person.root / "source").mkdir()
    with refused(person, BadInputError, "source is a folder, wanted a file", 1) as caught:
        person.pull("data")
    assert "FilesGlob" in (caught.value.hint or "")


def test_the_key_of_a_file_with_another_separator(person: Person) -> None:
    person.add(manifest("data", NAMED, LEDGER))
    (person.root / "source").write_bytes(b"id;name\n1;a\n")
    with refused(person, BadInputError, "`id` is not in the data; it has `id;name`", 1):
        person.pull("data")


def test_json_of_what_was_said(person: Person) -> None:
    """Messages name files as the manifest does, not as they lie on this machine."""
    person.add(manifest("data", DOCUMENT, APPEND))
    (person.root / "source").write_text(json.dumps({"a": 1}))
    with refused(person, BadInputError, r"^source: the root is not an array", 1) as caught:
        person.pull("data")
    assert str(person.root) not in caught.value.message


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers with some bytes, and nothing that would tell a version of them from another."""

    data = b"id,name,size\n"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.data)))
        self.end_headers()
        self.wfile.write(self.data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name
        pass


def test_a_header_alone_is_told_from_what_is_known(person: Person) -> None:
    class Mine(Answer):
        pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/towns.csv"
        person.add(manifest("towns", NAMED, LEDGER, fetch={"kind": "Url", "url": url}))
        pulled = person.pull("towns")
        wanted = (PullStatus.UP_TO_DATE, "what the source has is no rows")
        assert (pulled.status, pulled.reason) == wanted
        Mine.data = CSV
        assert person.pull("towns").status is PullStatus.UPDATED
        assert person.pull("towns").reason == "the source has nothing new"
        server.shutdown()

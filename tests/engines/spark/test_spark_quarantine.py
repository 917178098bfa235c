"""Bad rows set aside: which, what is written of them, and what becomes of the others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.data.read_options import encoding_name
from odf.engines.host.engine import SourceFile
from odf.engines.spark.readers import csv as csv_reader
from odf.engines.spark.readers import json as json_reader
from odf.engines.spark.readers import quarantine as quarantine_module
from odf.errors import BadInputError
from odf.limits import MAX_UNENDED_RECORD
from odf.metadata.model import (
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
    SqlQueryStep,
    TransformSql,
)
from tests.engines.spark.spark_ingestor import Ingestor, Round

Make = Callable[..., Ingestor]

pytestmark = pytest.mark.spark

SCHEMA = ("id BIGINT", "city STRING", "day DATE NOT NULL")
CSV = ReadStepCsv(schema=SCHEMA, header=True)
SNAPSHOT = MergeStrategySnapshot(("id",))


class Aside:
    """An ingestor whose bad rows are set aside."""

    def __init__(self, dataset: Ingestor) -> None:
        self.dataset = dataset
        self.rounds = 0

    @property
    def path(self) -> Path:
        return self.dataset.folder / f"aside-{self.rounds}.ndjson"

    def text(self, *texts: str) -> Round:
        self.rounds += 1
        return self.dataset.text(*texts, quarantine_path=str(self.path))

    def data(self, *data: bytes) -> Round:
        self.rounds += 1
        return self.dataset.data(*data, quarantine_path=str(self.path))

    def files(self, files: list[SourceFile]) -> Round:
        self.rounds += 1
        return self.dataset.files(files, quarantine_path=str(self.path))

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]


@pytest.fixture
def aside(ingestor: Make) -> Callable[..., Aside]:
    return lambda **options: Aside(ingestor(**options))


def test_bad_rows_of_csv(aside: Callable[..., Aside]) -> None:
    dataset = aside(read=CSV)
    found = dataset.text(
        "id,city,day\n"
        "1,Rome,2024-01-01\n"
        'two,"Os\nlo",2024-13-01\n'
        "3,Lima\n"
        "\n"
        "4,Bern,\n"
        "5,Kyiv,2024-01-05\n"
    )
    assert [row["id"] for row in found.rows] == [1, 5]
    assert (found.ingested.bad_rows, found.ingested.rows_read) == (3, 2)
    assert dataset.entries == [
        {
            "file": "data.csv",
            "line": 3,
            "column": "id",
            "value": "two",
            "wanted": "BIGINT",
            "problem": "column `id`: 'two' is not a BIGINT",
            "also": [
                {
                    "column": "day",
                    "value": "2024-13-01",
                    "wanted": "DATE",
                    "problem": "column `day`: '2024-13-01' is not a DATE",
                }
            ],
            "raw": 'two,"Os\nlo",2024-13-01',
        },
        {
            "file": "data.csv",
            "line": 5,
            "column": None,
            "value": 2,
            "wanted": "3 fields",
            "problem": "wanted 3 fields, got 2",
            "also": [],
            "raw": "3,Lima",
        },
        {
            "file": "data.csv",
            "line": 7,
            "column": "day",
            "value": None,
            "wanted": "DATE",
            "problem": "column `day`: null in a column that is NOT NULL",
            "also": [],
            "raw": "4,Bern,",
        },
    ]


def test_no_bad_rows_make_no_file(aside: Callable[..., Aside]) -> None:
    dataset = aside(read=CSV)
    assert dataset.text("id,city,day\n1,Rome,2024-01-01\n").ingested.bad_rows == 0
    assert not dataset.path.exists()


def test_rows_of_several_files_and_ranges_in_their_order(
    aside: Callable[..., Aside], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = csv_reader.open_csv
    monkeypatch.setattr(
        "odf.engines.spark.readers.read.open_csv",
        lambda *args, **options: original(*args, **options, range_size=40),
    )
    dataset = aside(read=ReadStepCsv(schema=("id BIGINT",)))
    lines = [f"{n}" if n % 7 else f"bad {n}" for n in range(100)]
    found = dataset.text("\n".join(lines) + "\n", "x\n1\n")
    assert [row["id"] for row in found.rows] == [*(n for n in range(100) if n % 7), 1]
    places = [(entry["file"], entry["line"], entry["value"]) for entry in dataset.entries]
    assert places == [
        *(("data-0.csv", n + 1, f"bad {n}") for n in range(0, 100, 7)),
        ("data-1.csv", 1, "x"),
    ]


UNCLOSED = b'id,city,day\n1,Rome,2024-01-01\nx,Oslo,soon\n2,"Os\nlo","2024-01-01\n3,Lima,\n'


@pytest.mark.parametrize("range_size", [20, 1 << 20])
def test_the_row_of_a_quote_that_is_never_closed(
    range_size: int, aside: Callable[..., Aside], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = csv_reader.open_csv
    monkeypatch.setattr(
        "odf.engines.spark.readers.read.open_csv",
        lambda *args, **options: original(*args, **options, range_size=range_size),
    )
    dataset = aside(read=CSV)
    found = dataset.data(UNCLOSED, b"id,city,day\n7,Bern,2024-01-07\n")
    assert [row["id"] for row in found.rows] == [1, 7]
    assert found.ingested.bad_rows == 2
    first, end = dataset.entries
    assert (first["line"], first["raw"]) == (3, "x,Oslo,soon")
    assert (end["file"], end["line"], end["column"]) == ("data-0.csv", 4, None)
    assert end["raw"] == '2,"Os\nlo","2024-01-01\n3,Lima,\n'
    said = "a quote is opened and never closed: the rest of the file, 3 lines, counts as this row"
    assert end["problem"] == said
    assert f"data-0.csv:4: {said}" in found.warnings
    with pytest.raises(BadInputError, match=r"data\.csv:4: the quote .* never closed") as caught:
        dataset.dataset.data(UNCLOSED.replace(b"x,Oslo,soon\n", b""))
    assert "quote: ''" in (caught.value.hint or "")
    assert "--on-bad-rows quarantine sets aside the rest" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("read", "data", "rows", "raw"),
    [
        (ReadStepCsv(header=True, infer_schema=True), b'n,t\n1,a\n2,"b\n', [1], '2,"b\n'),
        (ReadStepCsv(header=True, infer_schema=True), b'n,t\r1,a\r2,"b', [1], '2,"b'),
        (ReadStepCsv(schema=("n INT", "t STRING")), b'1,"a\n2,b\n', [], '1,"a\n2,b\n'),
        (
            ReadStepCsv(schema=("n INT", "t STRING"), encoding="cp1252"),
            b'1,a\n\xe9,"\x81\xe9',
            [1],
            'é,"\\x81é',
        ),
        (
            ReadStepCsv(schema=("n INT", "t STRING")),
            b'1,a\n\xff,b\n3,"\xff',
            [1],
            '3,"\\xff',
        ),
        (ReadStepCsv(schema=("n INT", "t STRING"), escape="\\"), b"1,a\n2,b\\", [1], "2,b\\"),
        (
            ReadStepCsv(schema=("n INT", "t STRING"), encoding="utf-16"),
            '1,a\n2,"é'.encode("utf-16"),
            [1],
            '2,"é',
        ),
    ],
)
def test_ends_of_files_of_every_kind(
    read: ReadStep, data: bytes, rows: list[int], raw: str, aside: Callable[..., Aside]
) -> None:
    dataset = aside(read=read)
    assert [row["n"] for row in dataset.data(data).rows] == rows
    assert dataset.entries[-1]["raw"] == raw


def test_a_whole_file_behind_a_quote_is_an_error_still(aside: Callable[..., Aside]) -> None:
    dataset = aside(read=CSV)
    rest = b"2,Oslo,2024-01-01\n" * (MAX_UNENDED_RECORD // 18 + 1)
    with pytest.raises(BadInputError, match=r"data\.csv:2: the quote .* never closed") as caught:
        dataset.data(b'id,city,day\n1,"Rome,2024-01-01\n' + rest)
    assert str(MAX_UNENDED_RECORD) in (caught.value.hint or "")
    assert not dataset.path.exists()


def test_under_a_snapshot_nobody_knows_which_keys_a_quote_swallowed(
    aside: Callable[..., Aside],
) -> None:
    dataset = aside(read=CSV, merge=SNAPSHOT)
    with pytest.raises(BadInputError, match=r"the key of data\.csv:3 cannot be read"):
        dataset.data(b'id,city,day\n1,Rome,2024-01-01\n2,"Oslo,2024-01-01\n3,Lima,\n')


@pytest.mark.parametrize(
    ("encoding", "good", "bad"),
    [
        (None, "Košice", b"Ko\xc5"),
        ("utf-8", "Košice", b"\xed\xa0\x80\xff"),
        ("cp1252", "Zürich", b"Z\x81rich"),
        ("ascii", "Bern", "é".encode()),
        ("shift_jis", "東京", b"\xa0"),
        ("gb18030", "北京", b"\xff\xff"),
        ("iso2022_jp", "東京", b"\xe9"),
    ],
)
@pytest.mark.parametrize("range_size", [30, 1 << 20])
def test_rows_with_bytes_that_are_no_text(
    encoding: str | None,
    good: str,
    bad: bytes,
    range_size: int,
    aside: Callable[..., Aside],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = csv_reader.open_csv
    monkeypatch.setattr(
        "odf.engines.spark.readers.read.open_csv",
        lambda *args, **options: original(*args, **options, range_size=range_size),
    )
    name = encoding or "utf-8"
    town = good.encode(name)
    dataset = aside(read=ReadStepCsv(schema=SCHEMA, header=True, encoding=encoding))
    content = b"\n".join(
        [
            b"id,city,day",
            b"1," + town + b",2024-01-01",
            b'2,"a\n' + bad + b'",soon',
            b"3," + town + b",2024-01-03",
            b"4," + bad,
            b"5,x,2024-01-05" + bad,
            b"6," + town + b",2024-01-06",
            b"",
        ]
    )
    found = dataset.data(content)
    assert [(row["id"], row["city"]) for row in found.rows] == [(1, good), (3, good), (6, good)]
    shown = "".join(f"\\x{byte:02x}" if byte > 0x7F else chr(byte) for byte in bad)
    if name == "utf-8":
        shown = bad.decode(errors="backslashreplace")
    entries = dataset.entries
    assert [(e["line"], e["column"], e["raw"]) for e in entries] == [
        (3, "city", f'2,"a\n{shown}",soon'),
        (6, None, f"4,{shown}"),
        (7, "day", f"5,x,2024-01-05{shown}"),
    ]
    assert entries[0]["value"] == f"a\n{shown}"
    assert entries[0]["wanted"] == encoding_name(encoding, "CSV")
    assert [other["column"] for other in entries[0]["also"]] == ["day"]
    with pytest.raises(BadInputError, match=r"data\.csv:(3|4): not ") as caught:
        dataset.dataset.data(content)
    assert "--on-bad-rows quarantine" in (caught.value.hint or "")


def test_types_are_found_without_rows_that_are_no_text(aside: Callable[..., Aside]) -> None:
    dataset = aside(read=ReadStepCsv(header=True, infer_schema=True))
    found = dataset.data(b"id,n\n1,2\n\xff3,4\n5,\xff\n6,7\n")
    assert [(row["id"], row["n"]) for row in found.rows] == [(1, 2), (6, 7)]
    assert [entry["raw"] for entry in dataset.entries] == ["\\xff3,4", "5,\\xff"]


def test_under_a_snapshot_a_key_that_is_no_text_is_none(aside: Callable[..., Aside]) -> None:
    read = ReadStepCsv(schema=("id STRING", "city STRING"), header=True)
    dataset = aside(read=read, merge=SNAPSHOT)
    dataset.data(b"id,city\n1,Rome\n2,Oslo\n")
    found = dataset.data(b"id,city\n1,R\xf4me\n3,Bern\n")
    assert [(row["op"], row["id"]) for row in found.rows] == [(1, "2"), (0, "3")]
    with pytest.raises(BadInputError, match=r"the key of data\.csv:3 cannot be read"):
        dataset.data(b"id,city\n1,Rome\n\xf4,Oslo\n")


def test_columns_are_inferred_without_records_that_cannot_be_read(
    aside: Callable[..., Aside],
) -> None:
    dataset = aside(read=ReadStepCsv(header=True, infer_schema=True))
    found = dataset.text("id,n\n1,2\n3\n4,5\n")
    assert [(row["id"], row["n"]) for row in found.rows] == [(1, 2), (4, 5)]
    assert [entry["raw"] for entry in dataset.entries] == ["3"]
    lines = aside(read=ReadStepNdJson())
    found = lines.text('{"id": 1}\nnot json\n[2]\n{"id": 3}\n')
    assert [row["id"] for row in found.rows] == [1, 3]
    assert [(entry["line"], entry["raw"]) for entry in lines.entries] == [
        (2, "not json"),
        (3, "[2]"),
    ]


@pytest.mark.parametrize("range_size", [16, 1 << 20])
def test_bad_rows_of_json_lines(
    range_size: int, aside: Callable[..., Aside], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = json_reader.open_json
    monkeypatch.setattr(
        "odf.engines.spark.readers.read.open_json",
        lambda *args, **options: original(*args, **options, range_size=range_size),
    )
    dataset = aside(read=ReadStepNdJson(schema=("id BIGINT", "tags ARRAY<INT>")))
    found = dataset.text(
        '{"id": 1, "tags": [1]}\n'
        '{"id": "x", "tags": [1, "y"]}\n'
        "\n"
        "[1, 2]\n"
        '{"id": 2.5}\r\n'
        '{"id": 6}\n'
    )
    assert [row["id"] for row in found.rows] == [1, 6]
    entries = dataset.entries
    assert [(e["line"], e["column"], e["wanted"]) for e in entries] == [
        (2, "id", "BIGINT"),
        (4, None, None),
        (5, "id", "BIGINT"),
    ]
    assert entries[0]["value"] == "x"
    assert entries[0]["also"][0]["problem"] == "column `tags[1]`: 'y' is not an INT"
    assert [entry["raw"] for entry in entries[1:]] == ["[1, 2]", '{"id": 2.5}']
    assert entries[1]["problem"] == "wanted an object, got an array"


def test_bad_elements_of_documents(aside: Callable[..., Aside]) -> None:
    dataset = aside(read=ReadStepJson(sub_path="rows", schema=("id BIGINT",)))
    found = dataset.text('{"rows": [{"id": 1}, {"id": "x"}, 7, {"id": 4}]}')
    assert [row["id"] for row in found.rows] == [1, 4]
    assert [(e["element"], e["raw"]) for e in dataset.entries] == [(2, '{"id":"x"}'), (3, "7")]
    with pytest.raises(BadInputError, match="not JSON"):
        dataset.text('{"rows": [{"id": 1}, {"id"')
    content = b'{"rows": [{"id": 1}, {"id": 2, "x": "\xe9"}, {"id": 4}]}'
    assert [row["id"] for row in dataset.data(content).rows] == [1, 4]
    (entry,) = dataset.entries
    assert (entry["element"], entry["problem"]) == (2, "not utf-8")
    assert entry["raw"] == '{"id": 2, "x": "\\xe9"}'
    with pytest.raises(BadInputError, match="not utf-8"):
        dataset.data(content.replace(b"rows", b"\xe9ows"))
    features = aside(read=ReadStepGeoJson(schema=("id BIGINT", "geometry STRING")))
    found = features.text(
        '{"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {"id": "x"},'
        ' "geometry": null}, {"type": "Feature", "properties": {"id": 2}, "geometry": null}]}'
    )
    assert [row["id"] for row in found.rows] == [2]
    assert [entry["feature"] for entry in features.entries] == [1]


def test_bad_elements_in_later_pieces_of_a_document(
    aside: Callable[..., Aside], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = json_reader.open_json
    opened = []

    def small(*args: Any, **options: Any) -> json_reader.JsonSource:
        opened.append(original(*args, **options, range_size=100))
        return opened[-1]

    monkeypatch.setattr("odf.engines.spark.readers.read.open_json", small)
    rows: list[dict[str, Any]] = [{"id": n if n % 7 else f"bad {n}"} for n in range(100)]
    rows[50] = {"id": None}
    dataset = aside(read=ReadStepJson(schema=("id BIGINT",)))
    found = dataset.text(json.dumps(rows), json.dumps(rows[:20]))
    assert [len(source.ranges) for source in opened] == [16]
    numbers = [n for n in range(100) if n % 7]
    assert [row["id"] for row in found.rows] == [
        *(None if n == 50 else n for n in numbers),
        *(n for n in numbers if n < 20),
    ]
    assert [(entry["file"], entry["element"]) for entry in dataset.entries] == [
        *(("data-0.csv", n + 1) for n in range(0, 100, 7)),
        *(("data-1.csv", n + 1) for n in range(0, 20, 7)),
    ]
    with pytest.raises(BadInputError, match=r"data-0\.csv: element 1: .*") as caught:
        dataset.dataset.text(json.dumps(rows), "[]")
    assert [problem.split(":")[1] for problem in caught.value.problems][:3] == [
        " element 1",
        " element 8",
        " element 15",
    ]
    ledger = aside(read=ReadStepJson(schema=("id BIGINT",)), merge=MergeStrategyLedger(("id",)))
    with pytest.raises(BadInputError, match=r"element 51: key column `id` is null"):
        ledger.text(json.dumps(rows))


def test_bad_rows_of_parquet(aside: Callable[..., Aside]) -> None:
    dataset = aside(read=ReadStepParquet(schema=("id BIGINT", "n INT NOT NULL")))
    path = dataset.dataset.folder / "x.parquet"
    table = pa.table({"id": ["1", "x", "3", "4"], "n": pa.array([1, 2, None, 2**40])})
    pq.write_table(table, path, row_group_size=3)
    found = dataset.files([SourceFile(str(path), "x.parquet")])
    assert [row["id"] for row in found.rows] == [1]
    assert [(e["row"], e["column"], e["value"], e["raw"]) for e in dataset.entries] == [
        (2, "id", "x", None),
        (3, "n", None, None),
        (4, "n", 2**40, None),
    ]


def test_labels_of_rows_behind_bad_ones_are_right(aside: Callable[..., Aside]) -> None:
    """Where a good row is, is told by its place among all rows."""
    ledger = MergeStrategyLedger(("id",))
    with pytest.raises(BadInputError, match=r"data\.csv:4: key column `id` is null"):
        aside(read=CSV, merge=ledger).text(
            "id,city,day\nx,a,2024-01-01\ny,b,2024-01-01\n,c,2024-01-01\n"
        )
    with pytest.raises(BadInputError, match=r"data\.csv:3: key column `id` is null"):
        aside(read=ReadStepNdJson(schema=("id BIGINT",)), merge=ledger).text(
            '{"id": "x"}\n{"id": 1}\n{"id": null}\n'
        )


def test_under_a_snapshot_the_rows_of_bad_keys_stay(aside: Callable[..., Aside]) -> None:
    dataset = aside(read=CSV, merge=SNAPSHOT)
    rows = "".join(f"{n},town {n},2024-01-01\n" for n in range(1, 5))
    assert dataset.text("id,city,day\n" + rows).ops == (4, 0, 0, 0)
    # 1 cannot be read, 2 is changed, 3 is gone, 5 was never there and cannot be read.
    found = dataset.text("id,city,day\n1,x,soon\n2,y,2024-01-01\n4,town 4,2024-01-01\n5,z,soon\n")
    assert [(row["op"], row["id"]) for row in found.rows] == [(2, 2), (3, 2), (1, 3)]
    assert found.ingested.bad_rows == 2
    # Once it can be read again it is compared with what stayed.
    found = dataset.text("id,city,day\n1,town 1,2024-01-01\n2,y,2024-01-01\n4,town 4,2024-01-01\n")
    assert found.rows == []


def test_a_row_without_a_readable_key_stops_a_snapshot(aside: Callable[..., Aside]) -> None:
    dataset = aside(read=CSV, merge=SNAPSHOT)
    dataset.text("id,city,day\n1,a,2024-01-01\n")
    for bad in ("x,b,2024-01-01", ",b,soon", "2,b"):
        with pytest.raises(BadInputError, match=r"the key of data\.csv:3 cannot be read") as caught:
            dataset.text(f"id,city,day\n1,a,2024-01-01\n{bad}\n")
        assert caught.value.reason == "bad_rows"


def test_a_key_that_is_good_once_and_bad_once_stops_a_snapshot(
    aside: Callable[..., Aside],
) -> None:
    with pytest.raises(BadInputError, match="a good row has the key `id` = 1 of one of them"):
        aside(read=CSV, merge=SNAPSHOT).text("id,city,day\n1,a,2024-01-01\n1,b,soon\n")


def test_a_preprocess_query_hides_the_keys_of_bad_rows(aside: Callable[..., Aside]) -> None:
    query = TransformSql("spark", queries=(SqlQueryStep(query="select id, city from input"),))
    text = "id,city,day\n1,a,2024-01-01\n2,b,soon\n"
    with pytest.raises(BadInputError, match="the preprocess query makes the keys"):
        aside(read=CSV, merge=SNAPSHOT, preprocess=query).text(text)
    found = aside(read=CSV, preprocess=query).text(text)
    assert (len(found.rows), found.ingested.bad_rows) == (1, 1)


@pytest.mark.parametrize(
    "key",
    ["day DATE", "at TIMESTAMP", "n DECIMAL(10,2)", "s STRING", "b BOOLEAN", "u UUID"],
)
def test_keys_of_every_type_are_found_again(key: str, aside: Callable[..., Aside]) -> None:
    values = {
        "day": ("2024-01-01", "2024-01-02"),
        "at": ("2024-01-01T00:00:00.123Z", "2024-01-02T00:00:00.456Z"),
        "n": ("1.50", "2.25"),
        "s": ("é", "NULL"),
        "b": ("true", "false"),
        "u": ("0c3dc5fd-9b93-4b9e-8f0c-2d0a9d9e0b11", "0c3dc5fd-9b93-4b9e-8f0c-2d0a9d9e0b12"),
    }[key.split(maxsplit=1)[0]]
    read = ReadStepCsv(schema=(key, "v INT"))
    dataset = aside(read=read, merge=MergeStrategySnapshot((key.split(maxsplit=1)[0],)))
    dataset.text("".join(f"{value},1\n" for value in values))
    found = dataset.text(f"{values[0]},x\n{values[1]},1\n")
    assert found.rows == []
    assert found.ingested.bad_rows == 1


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (ReadStepCsv(schema=("id BIGINT",)), "x\n" * 20),
        (ReadStepNdJson(schema=("id BIGINT",)), '{"id": "x"}\n' * 20),
    ],
)
def test_too_many_bad_rows_are_an_error(
    read: ReadStep, text: str, aside: Callable[..., Aside], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tasks say is trusted; the bound itself is far away."""
    dataset = aside(read=read)
    taken = quarantine_module.Quarantine.take

    def full(self: quarantine_module.Quarantine, cleaned: Any) -> int:
        ranges = list(cleaned)
        assert [one.bad for one in ranges] == [20]
        ranges[0].too_many = True
        return taken(self, ranges)

    monkeypatch.setattr(quarantine_module.Quarantine, "take", full)
    with pytest.raises(BadInputError, match="more than 100000 rows"):
        dataset.text(text)

"""CSV as it is found: encodings, line ends, forms of times, and types that nobody declared."""

import bz2
import csv as python_csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.engines.host.engine import SourceFile
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.readers.csv import infer_types, open_csv, read_csv
from odf.engines.spark.readers.csv_format import parse_format
from odf.engines.spark.readers.csv_infer import _sorter, inferred
from odf.engines.spark.readers.known import KnownColumns
from odf.engines.spark.readers.time_formats import TimeFormats
from odf.errors import BadInputError
from odf.metadata.model import MergeStrategySnapshot, ReadStepCsv
from tests.engines.spark.spark_ingestor import Ingestor

Make = Callable[..., Ingestor]

SYSTEM = ("offset", "op", "system_time", "event_time")
ODD = (
    "istat-comuni.csv", "brussels-hotels.csv", "italy-notes-bom.csv", "nrc-events.txt",
    "ks-1033.csv", "geopandas-commits.csv", "countries.utf16le-bom.tsv", "countries.csv.gz",
    "countries.zip", "countries.csv.bz2", "mac-newlines.csv", "chinese.csv.gz",
)  # fmt: skip
PLAIN_ENCODINGS = {"utf-8", "utf-8-sig"}


def unpacked(path: Path) -> bytes:
    """Return what a prepare step would hand over."""
    data = path.read_bytes()
    match path.suffix:
        case ".gz":
            return gzip.decompress(data)
        case ".bz2":
            return bz2.decompress(data)
        case ".zip":
            with zipfile.ZipFile(path) as archive:
                return archive.read(archive.namelist()[0])
    return data


@pytest.mark.spark
@pytest.mark.parametrize("name", ODD)
def test_odd_files_equal_their_canonical_form(
    name: str, ingestor: Make, real_data: Callable[[str], Path]
) -> None:
    folder = real_data("f1")
    about = json.loads((folder / "expected.json").read_text())[name]
    encoding = about["encoding"]
    read = ReadStepCsv(
        header=True,
        separator=about["delimiter"],
        encoding=None if encoding in PLAIN_ENCODINGS else encoding,
    )
    # In the canonical forms a record ends with a line feed; a carriage return is a character.
    text = (folder / about["canonical"]).read_bytes().decode().replace("\r", "\x01")
    records = python_csv.reader(io.StringIO(text, newline=""))
    (header, *wanted) = [[cell.replace("\x01", "\r") for cell in record] for record in records]
    found = ingestor(read=read).data(unpacked(folder / name))
    columns = [column for column in found.rows[0] if column not in SYSTEM]
    assert columns == [name or f"column_{n}" for n, name in enumerate(header, 1)]
    got = [[row[column] or "" for column in columns] for row in found.rows]
    assert len(got) == about["rows"]
    assert got == wanted


@pytest.mark.spark
def test_lines_that_end_with_a_carriage_return_only(ingestor: Make) -> None:
    dataset = ingestor(read=ReadStepCsv(schema=("a INT", "b STRING"), header=True))
    found = dataset.data(b'a,b\r1,x\r2,"y\rz"\r\r3,')
    assert [(row["a"], row["b"]) for row in found.rows] == [(1, "x"), (2, "y\rz"), (3, None)]
    with pytest.raises(BadInputError, match=r"data\.csv:4: column `a`: 'q' is not an INT"):
        dataset.data(b"a,b\r1,x\r2,y\rq,z\r")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-16", "é,😀"), ("utf-16-le", "\ufeffé,😀"), ("utf-32", "é,😀"), ("cp1252", "€,é"),
        ("ISO-8859-1", "é,ü"), ("shift_jis", "日,本"), ("gb18030", "中,😀"), ("koi8-r", "д,ж"),
    ],
)  # fmt: skip
def test_encodings_by_name(encoding: str, text: str, ingestor: Make) -> None:
    read = ReadStepCsv(schema=("a STRING", "b STRING"), encoding=encoding)
    (row,) = ingestor(read=read).data(f"{text}\n".encode(encoding)).rows
    assert f"{row['a']},{row['b']}" == text.removeprefix("\ufeff")


@pytest.mark.spark
def test_a_file_in_another_encoding_is_refused(ingestor: Make) -> None:
    with pytest.raises(BadInputError, match=r"data\.csv is not utf-16") as caught:
        ingestor(read=ReadStepCsv(encoding="utf-16")).data(b"\xff\xfea\x00,")
    assert "utf-16-le or utf-16-be" in (caught.value.hint or "")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("formats", "day", "moment"),
    [
        (("dd-MM-yy", "M/d/yyyy H:mm:ss"), "01-10-17", "10/1/2017 3:04:05"),
        (("%d-%m-%y", "%m/%d/%Y %H:%M:%S"), "01-10-17", "10/01/2017 03:04:05"),
        (
            ("rfc3339", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"),
            "2017-10-01",
            "2017-10-01T05:04:05.000+02:00",
        ),
        ((None, "%s"), "2017-10-01", "1506827045"),
    ],
)
def test_forms_of_times(
    formats: tuple[str | None, str], day: str, moment: str, ingestor: Make
) -> None:
    read = ReadStepCsv(
        schema=("d DATE", "t TIMESTAMP"), date_format=formats[0], timestamp_format=formats[1]
    )
    dataset = ingestor(read=read)
    rows = dataset.text(f"{day},{moment}\n,\n").rows
    assert [(row["d"], row["t"]) for row in rows] == [
        (date(2017, 10, 1), datetime(2017, 10, 1, 3, 4, 5, tzinfo=UTC)),
        (None, None),
    ]
    with pytest.raises(BadInputError, match=r"data\.csv:1: column `t`: 'never' is not a TIMESTAMP"):
        dataset.text(f"{day},never\n")


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (("1", "-20", "0"), "BIGINT"), (("1", "9223372036854775808"), "STRING"),
        (("01", "2"), "STRING"), (("1", "2.5", ".5", "3.", "1e3"), "DOUBLE"),
        (("00.5",), "STRING"), (("+1",), "STRING"), (("NaN",), "STRING"), (("1,5",), "STRING"),
        (("true", "FALSE"), "BOOLEAN"), (("true", "1"), "STRING"),
        (("2024-02-29",), "DATE"), (("2023-02-29",), "STRING"), (("2024-1-2",), "STRING"),
        (("2024-01-02T03:04:05Z", "2024-01-02 03:04:05.123"), "TIMESTAMP"),
        (("2024-01-02", "2024-01-02 03:04:05"), "STRING"), ((), "STRING"), (("",), "STRING"),
        ((" 1",), "STRING"), (("a",), "STRING"),
    ],
)  # fmt: skip
def test_types_that_are_inferred(texts: tuple[str, ...], wanted: str) -> None:
    sort_of = _sorter(TimeFormats())
    (column,) = inferred(["c"], [[sort_of(text)] for text in texts])
    assert column.type.kind.value == wanted


@given(number=st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_that_python_writes_are_numbers(number: float) -> None:
    (column,) = inferred(["c"], [[_sorter(TimeFormats())(repr(number))]])
    assert column.type.kind.value == ("BIGINT" if isinstance(number, int) else "DOUBLE")


@pytest.mark.spark
def test_inferring_looks_at_everything(engine: SparkEngine, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("i,f,s\n" + "".join(f"{i},{i},{i}\n" for i in range(2000)) + ",2.5,x\n")
    form = parse_format(ReadStepCsv(header=True, infer_schema=True))
    source = open_csv([SourceFile(str(path), "data")], form, tmp_path, range_size=500)
    assert len(source.ranges) > 20
    with engine._runtime.operation() as spark:
        source = infer_types(spark, source, KnownColumns())
        assert [column.described for column in source.columns] == ["BIGINT", "DOUBLE", "STRING"]
        parts = read_csv(spark, source, tmp_path)
    (*_, last) = [row for table in parts.tables() for row in table.to_pylist()]
    assert last == {"i": None, "f": 2.5, "s": "x"}


@pytest.mark.spark
def test_inferred_types_stay_those_of_the_dataset(ingestor: Make) -> None:
    read = ReadStepCsv(header=True, infer_schema=True, date_format="dd/MM/yyyy")
    dataset = ingestor(read=read, merge=MergeStrategySnapshot(("k",)))
    dataset.text("k,v,w,d\n1,1.5,2024-01-02 00:00:00,31/12/2024\n2,,,\n")
    kinds = {name: str(dataset.schema.field(name).type) for name in ("k", "v", "w", "d")}  # type: ignore[union-attr]
    assert kinds == {
        "k": "int64", "v": "double", "w": "timestamp[ms, tz=UTC]", "d": "date32[day]",
    }  # fmt: skip
    found = dataset.text("k,v,w,d\n1,2,,\n2,,,\n")
    values: list[tuple[Any, ...]] = [
        (row["op"], row["v"], row["w"], row["d"]) for row in found.rows
    ]
    assert values[1] == (3, 2.0, None, None)
    with pytest.raises(
        BadInputError, match="`v` is DOUBLE in the dataset, the new data has STRING"
    ):
        dataset.text("k,v,w,d\n1,x,,\n2,,,\n")
    dataset = ingestor(read=ReadStepCsv(header=True, infer_schema=True))
    with pytest.raises(BadInputError, match=r"data\.csv:3: wanted 2 fields, got 1"):
        dataset.text("a,b\n1,2\n3\n")

"""CSV files into rows, and what is said about files that cannot be taken."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from odf.engines.host.engine import SourceFile
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.readers.csv import open_csv, read_csv
from odf.engines.spark.readers.csv_format import parse_format
from odf.errors import BadInputError
from odf.metadata.model import MergeStrategyLedger, ReadStepCsv
from tests.engines.spark.spark_ingestor import SOURCE_TIME, Ingestor

pytestmark = pytest.mark.spark

Make = Callable[..., Ingestor]


def csv(*schema: str, header: bool = True, **options: Any) -> ReadStepCsv:
    return ReadStepCsv(schema=schema or None, header=header, **options)


def values(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_typed_columns_and_system_columns(ingestor: Make) -> None:
    read = csv("id INT NOT NULL", "name STRING", "price DECIMAL(6,2)", "ok BOOLEAN", "day DATE")
    found = ingestor(read=read).text(
        'Id,Name,Price,Ok,Day\n1,a,1.5,true,2024-01-02\n+2,,1e1,FALSE,2024-1-3\n3,"",,,\n'
    )
    (first, second, third) = found.rows
    assert first["event_time"] == SOURCE_TIME.to_datetime()
    assert list(first) == [
        "offset", "op", "system_time", "event_time", "id", "name", "price", "ok", "day",
    ]  # fmt: skip
    assert str(first["price"]) == "1.50"
    assert first["day"] == date(2024, 1, 2)
    assert values([first, second, third], "id", "name", "ok") == [
        (1, "a", True),
        (2, None, False),
        (3, "", None),
    ]
    assert not found.schema.field("id").nullable
    assert found.schema.field("name").nullable
    assert found.ingested.rows_read == 3


def test_quotes_line_ends_and_byte_order_mark(ingestor: Make) -> None:
    found = ingestor(read=csv("a STRING", "b STRING")).data(
        b'\xef\xbb\xbfa,b\r\n"x ""y"" \\n", z \r\n"line\none","2,3"\r\n\r\n"last",end'
    )
    assert values(found.rows, "a", "b") == [
        ('x "y" \\n', " z "),
        ("line\none", "2,3"),
        ("last", "end"),
    ]


def test_null_value_adds_to_the_empty_field(ingestor: Make) -> None:
    found = ingestor(read=csv("a STRING", "b INT", null_value="NA")).text(
        'a,b\nNA,NA\n,\n"NA",1\n"",2\nNA ,3\n'
    )
    assert values(found.rows, "a", "b") == [
        (None, None),
        (None, None),
        ("NA", 1),
        ("", 2),
        ("NA ", 3),
    ]


def test_no_schema_gives_texts(ingestor: Make) -> None:
    found = ingestor(read=csv()).text("First Name,x.y\n1,2\n")
    assert values(found.rows, "First Name", "x.y") == [("1", "2")]
    found = ingestor(read=csv()).text("a,,c\n1,2,3\n")
    assert values(found.rows, "a", "column_2", "c") == [("1", "2", "3")]
    found = ingestor(read=csv(header=False)).text("1,\n,4\n")
    assert values(found.rows, "column_1", "column_2") == [("1", None), (None, "4")]


def test_separator_quote_and_escape(ingestor: Make) -> None:
    found = ingestor(read=csv("a STRING", "b STRING", header=False, separator="\t")).text("1,5\t\n")
    assert values(found.rows, "a", "b") == [("1,5", None)]
    found = ingestor(read=csv("a STRING", "b STRING", header=False, quote="")).text(
        '"1,2"\n3"",4\n'
    )
    assert values(found.rows, "a", "b") == [('"1', '2"'), ('3""', "4")]
    found = ingestor(read=csv("a STRING", "b STRING", header=False, escape="\\")).text(
        '"say \\"hi\\"",x\\\\y\n'
    )
    assert values(found.rows, "a", "b") == [('say "hi"', "x\\y")]
    found = ingestor(read=csv("a STRING", header=False, quote="'")).text("'it''s'\n")
    assert values(found.rows, "a") == [("it's",)]


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "cp1252"])
def test_encodings(encoding: str, ingestor: Make) -> None:
    found = ingestor(read=csv("a STRING", encoding=encoding)).data("a\ncafé\n".encode(encoding))
    assert values(found.rows, "a") == [("café",)]


def test_timestamps_are_utc_milliseconds_cut_towards_the_past(ingestor: Make) -> None:
    found = ingestor(read=csv("event_time TIMESTAMP", "t TIMESTAMP(9)", "u TIMESTAMP")).text(
        "event_time,t,u\n"
        "2024-01-02T03:04:05+01:00,1969-12-31 23:59:59.9999,2024-01-01\n"
        ",2024-01-02 00:00:00.001,\n"
    )
    assert values(found.rows, "event_time", "t") == [
        (SOURCE_TIME.to_datetime(), datetime(2024, 1, 2, 0, 0, 0, 1000, UTC)),
        (
            datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
        ),
    ]
    assert len(found.warnings) == 1
    assert "`t`" in found.warnings[0]


def test_uuid_time_and_unsigned_columns(ingestor: Make) -> None:
    read = csv("u UUID", "t TIME", "n BIGINT UNSIGNED", "s SMALLINT UNSIGNED")
    text = "u,t,n,s\n00112233-4455-6677-8899-aabbccddeeff,12:30,18446744073709551615,65535\n"
    found = ingestor(read=read).text(text)
    (row,) = found.rows
    assert row["u"] == UUID("00112233-4455-6677-8899-aabbccddeeff")
    assert str(row["t"]) == "12:30:00"
    assert (row["n"], row["s"]) == (2**64 - 1, 65535)
    dataset = ingestor(read=read, merge=MergeStrategyLedger(("n",)))
    dataset.text(text)
    assert dataset.text(text).rows == []


def problems(caught: pytest.ExceptionInfo[BadInputError]) -> tuple[str, ...]:
    assert caught.value.reason == "bad_rows"
    return caught.value.problems


def test_bad_values_are_named_by_line_and_column(ingestor: Make) -> None:
    dataset = ingestor(read=csv("a STRING", "n INT", "d DATE NOT NULL"))
    with pytest.raises(BadInputError, match=r"data\.csv:4: column `n`: 'x' is not an INT") as found:
        dataset.text(
            'a,n,d\n"two\nlines",1,2024-01-01\nb,x,2024-01-01\n\nc,2\nd,3,\ne,4,2024-13-01\n'
        )
    assert problems(found) == (
        "data.csv:4: column `n`: 'x' is not an INT",
        "data.csv:6: wanted 3 fields, got 2",
        "data.csv:7: column `d`: null in a column that is NOT NULL",
        "data.csv:8: column `d`: '2024-13-01' is not a DATE",
    )
    assert "1 bad value in `n`, 2 bad values in `d`" in found.value.message
    assert dataset.history == []


def test_only_the_first_ten_are_named_and_all_are_counted(ingestor: Make) -> None:
    with pytest.raises(BadInputError) as found:
        ingestor(read=csv("n INT")).text("n\n" + "".join(f"x{i}\n" for i in range(50)))
    assert len(problems(found)) == 10
    assert problems(found)[9] == "data.csv:11: column `n`: 'x9' is not an INT"
    assert "50 bad values in `n`" in found.value.message


def test_lines_are_right_in_later_ranges_and_files(engine: SparkEngine, tmp_path: Path) -> None:
    for name in ("one", "two"):
        lines = [f"{i},{i}" for i in range(100)]
        if name == "two":
            lines[80] = "80,oops"
        (tmp_path / name).write_text("a,b\r\n" + "\r\n".join(lines) + "\r\n")
    form = parse_format(csv("a INT", "b INT"))
    files = [SourceFile(str(tmp_path / name), name) for name in ("one", "two")]
    source = open_csv(files, form, tmp_path, range_size=64)
    assert len(source.ranges) > 10
    with (
        engine._runtime.operation() as spark,
        pytest.raises(BadInputError, match="two:82: column `b`: 'oops' is not an INT"),
    ):
        read_csv(spark, source, tmp_path)


def test_ranges_keep_the_order(engine: SparkEngine, tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("a\n" + "".join(f"{i}\n" for i in range(5000)))
    form = parse_format(csv("a BIGINT"))
    source = open_csv([SourceFile(str(path), "data")], form, tmp_path, range_size=1000)
    with engine._runtime.operation() as spark:
        parts = read_csv(spark, source, tmp_path)
    assert len(parts.paths) > 20
    assert parts.rows == 5000
    found = [v for table in parts.tables() for v in table.column("a").to_pylist()]
    assert found == list(range(5000))
    ordinals = [v for table in parts.tables(["__odf_row"]) for v in table.column(0).to_pylist()]
    assert ordinals == sorted(set(ordinals))


def test_long_fields_are_read(ingestor: Make) -> None:
    text = "x" * 3_000_000
    found = ingestor(read=csv("a STRING", "b INT")).text(f'a,b\n{text},1\n"{text}\n",2\n')
    assert [len(row["a"]) for row in found.rows] == [3_000_000, 3_000_001]


def test_an_escape_character_at_the_end(ingestor: Make) -> None:
    for quote, hint in (("", "check `escape`"), (None, "quote: ''")):
        read = csv("a STRING", "b STRING", escape="\\", quote=quote)
        with pytest.raises(
            BadInputError, match=r"data\.csv:2: the file ends with the esc"
        ) as found:
            ingestor(read=read).text("a,b\n1,2\\")
        assert hint in (found.value.hint or "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a,b\n1,2\n"x,3\n4,5\n', r"data\.csv:3: the quote .* is never closed"),
        (b"a,b\n1,2\n3,\xff\n", r"data\.csv:3: not utf-8"),
        (b"a\xff,b\n1,2\n", r"data\.csv:1: the header is not utf-8"),
    ],
)
def test_files_that_are_broken(content: bytes, message: str, ingestor: Make) -> None:
    with pytest.raises(BadInputError, match=message):
        ingestor(read=csv("a STRING", "b STRING")).data(content)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (csv("a INT"), "a,b\n1,2\n", "wanted the 1 columns of the schema"),
        (csv(), "a,b,A\n1,2,3\n", "`a` and `A`"),
        (csv(), "column_2,\n1,2\n", "`column_2` and `column_2`, which are the same name"),
        (csv("a ARRAY<INT>"), "a\n1\n", "cannot hold ARRAY<INT>"),
        (csv("a INT", separator=";;"), "a\n1\n", "separator is ';;'"),
        (csv("a INT", encoding="klingon"), "a\n1\n", "'klingon' is not known"),
        (csv("a DATE", date_format="qq"), "a\n1\n", "read.dateFormat: cannot read the"),
        (csv("__odf_row INT"), "a\n1\n", "keeps for itself"),
        (csv("op INT"), "op\n1\n", "system column `op`"),
        (csv("Offset INT"), "a\n1\n", "system column `offset`"),
        (csv("event_time STRING"), "a\n1\n", "has to be a DATE or a TIMESTAMP, it is STRING"),
        (csv("Event_Time DATE"), "a\n2024-01-01\n", "the event time column is `event_time`"),
    ],
)
def test_refusals(read: Any, text: str, message: str, ingestor: Make) -> None:
    with pytest.raises(BadInputError) as caught:
        ingestor(read=read).text(text)
    assert message in caught.value.message


def test_a_file_of_no_bytes(ingestor: Make) -> None:
    dataset = ingestor(read=csv("a INT"))
    with pytest.raises(BadInputError, match=r"data\.csv has no content at all") as caught:
        dataset.data(b"")
    assert caught.value.reason == "empty_source"
    assert "--allow-empty" in (caught.value.hint or "")
    assert dataset.data(b"", allow_empty=True).rows == []
    found = ingestor(read=csv()).data(b"", allow_empty=True)
    assert found.rows == []
    assert found.schema.names == ["offset", "op", "system_time", "event_time"]


def test_several_files_are_one_batch_in_their_order(ingestor: Make) -> None:
    found = ingestor(read=csv("a INT")).text("a\n3\n1\n", "a\n2\n")
    assert [row["a"] for row in found.rows] == [3, 1, 2]

"""Arrow reads the values, Python's csv says where records are: both have to see the same ones."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odf.data.ddl import parse_ddl
from odf.engines.spark.readers.csv_end import unended_record
from odf.engines.spark.readers.csv_format import parse_format, typed_columns
from odf.engines.spark.readers.csv_scan import ends_escaped, scan, unclosed_quote_line
from odf.engines.spark.readers.csv_task import (
    UNCLOSED,
    CsvRange,
    CsvTask,
    RangeResult,
    text_batches,
)
from odf.metadata.model import ReadStepCsv

SCHEMA = ("a STRING", "b STRING")
PIECES = ["a", ",", ",", "\n", "\r\n", "\r", " ", "é", "\\", "\0", '"', '"', '""', "'", "\u2028"]


@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=25),
    quote=st.sampled_from([None, "", "'"]),
    escape=st.sampled_from([None, "\\"]),
)
@example(pieces=["a", ",", '"', "\n", "a"], quote=None, escape=None)
@example(pieces=["\\", "\r\n", "a", ",", "a"], quote=None, escape="\\")
def test_both_walks_see_the_same_records(
    pieces: list[str], quote: str | None, escape: str | None
) -> None:
    data = "".join(pieces).encode()
    form = parse_format(ReadStepCsv(schema=SCHEMA, quote=quote, escape=escape))
    columns = typed_columns(parse_ddl(SCHEMA))
    result = RangeResult(0)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        piece = CsvRange(0, 0, file.name, 0, len(data), has_quotes=True)
        task = CsvTask(piece, form, columns, "", 0, tolerant=True)
        rows = sum(batch.num_rows for batch in text_batches(task, 1 << 20, result))
    records = list(scan(data, 1, form, 2))
    if result.failure == UNCLOSED and ends_escaped(data, form):
        return
    if result.failure == UNCLOSED:
        line = unclosed_quote_line(data, 1, form)
        assert 1 <= line <= len("".join(pieces).splitlines()) + 1
        return
    assert result.failure is None
    assert [record.row for record in records if record.row is not None] == list(range(rows))
    assert sum(record.row is None for record in records) == result.ragged
    lines = [record.line for record in records]
    assert lines == sorted(set(lines))
    # The text of a record is all of it: read by itself it is the same record.
    for record in records:
        (again,) = scan(record.text.encode(), 1, form, 2)
        assert (again.fields, again.text) == (record.fields, record.text)


@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=25),
    quote=st.sampled_from([None, "'"]),
    escape=st.sampled_from([None, "\\"]),
    start=st.integers(0, 3),
)
@example(pieces=["a", "\r", "\n", '"', "\r", "\n"], quote=None, escape=None, start=2)
def test_what_is_before_the_last_record_is_read_as_without_it(
    pieces: list[str], quote: str | None, escape: str | None, start: int
) -> None:
    """Both walks see the same records there, and what is left out is the last one of them."""
    data = (" \n" * start + "".join(pieces)).encode()
    form = parse_format(ReadStepCsv(schema=SCHEMA, quote=quote, escape=escape))
    records = list(scan(data[2 * start :], 1 + start, form, 2))
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        end = unended_record(file.name, 2 * start, form)
        assert end is not None
        before, rest = data[2 * start : end.start], data[end.start :]
        assert list(scan(before, 1 + start, form, 2)) == records[:-1]
        if records:
            assert end.line == records[-1].line
        assert end.text.encode() == rest
        result = RangeResult(0)
        piece = CsvRange(0, 0, file.name, 2 * start, end.start, has_quotes=True)
        task = CsvTask(piece, form, typed_columns(parse_ddl(SCHEMA)), "", 0, tolerant=True)
        rows = sum(batch.num_rows for batch in text_batches(task, 1 << 20, result))
    assert result.failure is None
    assert rows == sum(record.row is not None for record in records[:-1])


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        ("1,x\\\n\ntext,y\n", ["1,x\\\n", "text,y"]),
        ("1,x\\\r\n2,y", ["1,x\\\r", "2,y"]),
        ("1,x\\\\\r\n2,y\r", ["1,x\\\\", "2,y"]),
        ("1,x\\\r\r2,y\n", ["1,x\\\r", "2,y"]),
        ("1,x\\\n", ["1,x\\\n"]),
        ("1,x\\\r", ["1,x\\\r"]),
    ],
)
def test_an_escaped_line_end_belongs_to_its_record(data: str, texts: list[str]) -> None:
    form = parse_format(ReadStepCsv(schema=SCHEMA, escape="\\"))
    assert [record.text for record in scan(data.encode(), 1, form, 2)] == texts


def test_the_line_on_which_a_quote_opens() -> None:
    form = parse_format(ReadStepCsv(schema=SCHEMA))
    for text, line in (
        ('"a\n', 1),
        ('1,2\n3,"b\nc\n', 2),
        ('1,2\n"x\ny","b ""\n\nc\n', 3),
        ('1,2\r\n3,"b\r\n', 2),
        ('1,2\r3,4\r"', 3),
    ):
        assert unclosed_quote_line(text.encode(), 1, form) == line, text

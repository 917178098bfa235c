"""Whatever a CSV file holds: each record is a row or is set aside, and none is both or neither."""

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from hypothesis import example, given
from hypothesis import strategies as st

from odf.data.ddl import parse_ddl
from odf.engines.spark.readers.csv_format import parse_format, typed_columns
from odf.engines.spark.readers.csv_mend import Mending, read_mended
from odf.engines.spark.readers.csv_quarantine import CsvCleaning, clean_ranges
from odf.engines.spark.readers.csv_task import ENCODING, CsvRange, CsvTask, read_ranges
from odf.engines.spark.readers.quarantine import Cleaned
from odf.metadata.model import ReadStepCsv

NUMBERS = st.integers(-5, 5).map(str)
TEXTS = st.text(st.sampled_from('ab",\n é'), max_size=5)
RECORDS = st.lists(
    st.one_of(
        st.tuples(NUMBERS, TEXTS),
        st.tuples(st.sampled_from(["x", "1.5", " 1"]), TEXTS),
        st.tuples(NUMBERS),
        st.tuples(NUMBERS, TEXTS, TEXTS),
    ),
    max_size=12,
)


def is_good(record: tuple[str, ...]) -> bool:
    return len(record) == 2 and record[0].lstrip("-").isdigit()


def clean(
    data: bytes, escape: str | None = None
) -> tuple[Cleaned, list[dict[str, Any]], list[dict[str, Any]]]:
    """Set bad rows of a file aside; return what came of it, the good rows and the entries."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "x.csv").write_bytes(data)
        schema = ("n INT", "t STRING")
        form = parse_format(ReadStepCsv(schema=schema, escape=escape))
        piece = CsvRange(0, 0, str(folder / "x.csv"), 0, len(data), has_quotes=True)
        part, aside = folder / "part", folder / "aside"
        task = CsvTask(piece, form, typed_columns(parse_ddl(schema)), str(part), 0)
        [result] = read_ranges(iter([task]))
        if result.failure == ENCODING:
            [(task, result)] = read_mended(iter([Mending(task, str(folder / "copy"))]))
        assert result.failure is None
        [cleaned] = clean_ranges(iter([CsvCleaning(task, "x.csv", str(aside), (0,), piece)]))
        rows = pq.read_table(part).to_pylist()
        return cleaned, rows, [json.loads(line) for line in aside.read_text().splitlines()]


@given(
    records=st.lists(
        st.tuples(
            st.sampled_from([b"1", b"22", b"x", b"\xff"]),
            st.lists(
                st.sampled_from(
                    [b"a", b"\n", b"<quote>", b"\xc3", b"\xc3\xa9", b"\x80", b"\\\x8f"]
                ),
                max_size=5,
            ),
            st.sampled_from([b'"', b'"\x81']),
            st.booleans(),
        ),
        max_size=12,
    ),
    escape=st.sampled_from([None, "\\"]),
)
# Without the quote or the escape between them these bytes are a character.
@example(records=[(b"1", [b"x", b"\xc3"], b'"\x81', False)], escape=None)
@example(records=[(b"1", [b"x", b"\xc3", b"\\\x8f"], b'"', False)], escape="\\")
def test_records_with_bytes_that_are_no_text_are_set_aside(
    records: list[tuple[bytes, list[bytes], bytes, bool]], escape: str | None
) -> None:
    quote = b'\\"' if escape else b'""'
    lines = [
        number
        + b',"'
        + b"".join(text).replace(b"<quote>", quote)
        + end
        + (b",more" if is_long else b"")
        for number, text, end, is_long in records
    ]
    cleaned, rows, entries = clean(b"".join(line + b"\n" for line in lines), escape)
    good: list[bytes] = []
    bad: list[bytes] = []
    for (number, *_, is_long), line in zip(records, lines, strict=True):
        is_text = line.decode(errors="replace").encode() == line
        (good if is_text and number.isdigit() and not is_long else bad).append(line)
    wanted = [
        next(
            csv.reader(
                io.StringIO(line.decode(), newline=""), escapechar=escape, doublequote=not escape
            )
        )
        for line in good
    ]
    assert [[str(row["n"]), row["t"]] for row in rows] == wanted
    assert (cleaned.rows, cleaned.bad) == (len(good), len(bad))
    assert [entry["raw"] for entry in entries] == [
        line.decode(errors="backslashreplace") for line in bad
    ]
    assert not any("\xc1" in str(entry["value"]) for entry in entries)


@given(records=RECORDS, blank=st.booleans())
def test_each_record_is_a_row_or_set_aside(records: list[tuple[str, ...]], *, blank: bool) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for record in records:
        writer.writerow(record)
        text.write("\n" if blank else "")
    data = text.getvalue().encode()
    cleaned, rows, entries = clean(data)
    good = [record for record in records if is_good(record)]
    bad = [record for record in records if not is_good(record)]
    assert [(str(row["n"]), row["t"]) for row in rows] == good
    assert (cleaned.rows, cleaned.bad) == (len(good), len(bad))
    assert [tuple(next(csv.reader(io.StringIO(e["raw"], newline="")))) for e in entries] == bad
    # Lines ascend, and each is where its record begins.
    lines = data.decode().split("\n")
    for entry, record in zip(entries, bad, strict=True):
        assert lines[entry["line"] - 1].startswith(f'"{record[0]}"')

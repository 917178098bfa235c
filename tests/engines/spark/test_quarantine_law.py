"""Whatever a CSV file holds: each record is a row or is set aside, and none is both or neither."""

import csv
import io
import json
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from odf.data.ddl import parse_ddl
from odf.engines.spark.readers.csv_format import parse_format, typed_columns
from odf.engines.spark.readers.csv_quarantine import CsvCleaning, clean_ranges
from odf.engines.spark.readers.csv_task import CsvRange, CsvTask
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


@given(records=RECORDS, blank=st.booleans())
def test_each_record_is_a_row_or_set_aside(records: list[tuple[str, ...]], *, blank: bool) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for record in records:
        writer.writerow(record)
        text.write("\n" if blank else "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = text.getvalue().encode()
        (folder / "x.csv").write_bytes(data)
        schema = ("n INT", "t STRING")
        form = parse_format(ReadStepCsv(schema=schema))
        piece = CsvRange(0, 0, str(folder / "x.csv"), 0, len(data), has_quotes=True)
        part, aside = folder / "part", folder / "aside"
        task = CsvTask(piece, form, typed_columns(parse_ddl(schema)), str(part), 0)
        [cleaned] = clean_ranges(iter([CsvCleaning(task, "x.csv", str(aside), (0,))]))
        rows = pq.read_table(part).to_pylist()
        entries = [json.loads(line) for line in aside.read_text().splitlines()]
    good = [record for record in records if is_good(record)]
    bad = [record for record in records if not is_good(record)]
    assert [(str(row["n"]), row["t"]) for row in rows] == good
    assert (cleaned.rows, cleaned.bad) == (len(good), len(bad))
    assert [tuple(next(csv.reader(io.StringIO(e["raw"], newline="")))) for e in entries] == bad
    # Lines ascend, and each is where its record begins.
    lines = data.decode().split("\n")
    for entry, record in zip(entries, bad, strict=True):
        assert lines[entry["line"] - 1].startswith(f'"{record[0]}"')

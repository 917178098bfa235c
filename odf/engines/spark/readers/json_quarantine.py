"""A second look at a range of a JSON file with bad records; runs in Spark's Python workers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odf.engines.spark.parts import PartWriter
from odf.engines.spark.readers.encodings import shown_bytes
from odf.engines.spark.readers.json_format import JsonColumn, JsonFormat
from odf.engines.spark.readers.json_records import Record
from odf.engines.spark.readers.json_task import (
    JsonRange,
    JsonTask,
    batches_of,
    lines_of,
    part_schema,
    records_of,
    row_of,
)
from odf.engines.spark.readers.json_text import compact
from odf.engines.spark.readers.json_values import ColumnReader
from odf.engines.spark.readers.quarantine import AsideWriter, Cleaned, Fault, leave_out
from odf.limits import MAX_SET_ASIDE_ROWS


@dataclass(frozen=True, slots=True)
class JsonCleaning:
    """A range with bad records.

    Attributes:
        task: The range, and the part for the good rows.
        columns: The columns.
        name: What the user calls the file.
        first: The line on which the range begins, or how many elements are before it.
        aside: The file for the bad rows.
        keys: Positions of the columns whose values are kept.
    """

    task: JsonTask
    columns: tuple[JsonColumn, ...]
    name: str
    first: int
    aside: str
    keys: tuple[int, ...]

    def place(self, record: Record) -> tuple[dict[str, object], str]:
        """Say where a record is, for machines and in words."""
        number = self.first + record.position
        if self.task.form.lines:
            return {"file": self.name, "line": number}, f"{self.name}:{number}"
        kind = "feature" if self.task.form.geo else "element"
        return {"file": self.name, kind: number}, f"{self.name}: {kind} {number}"


def clean_ranges(cleanings: Iterator[JsonCleaning]) -> Iterator[Cleaned]:
    """Clean the ranges of a partition."""
    pa.set_cpu_count(1)
    return (_clean(cleaning) for cleaning in cleanings)


def _clean(cleaning: JsonCleaning) -> Cleaned:
    task = cleaning.task
    cleaned = Cleaned(task.range.index)
    schema = part_schema(cleaning.columns)
    readers = [ColumnReader(column, task.form.times) for column in cleaning.columns]
    seen = 0
    with PartWriter(task.output, schema) as writer, AsideWriter(cleaning.aside) as aside:
        texts = _Texts(task.range, task.form)
        for records in batches_of(records_of(task.range, task.form)):
            batch = _Batch(cleaning, records, task.first_ordinal + seen)
            seen += len(records)
            good = batch.set_aside(readers, texts, aside, cleaned)
            cleaned.rows += good.num_rows
            writer.write(pa.RecordBatch.from_arrays(good.columns, schema=schema))
            if cleaned.bad > MAX_SET_ASIDE_ROWS:
                cleaned.too_many = True
                break
    return cleaned


class _Batch:
    """Some records, tried column by column."""

    def __init__(
        self,
        cleaning: JsonCleaning,
        records: list[Record],
        first: int,
    ) -> None:
        self._cleaning = cleaning
        self._records = records
        self._first = first
        self._faults: dict[int, list[Fault]] = {}

    def set_aside(
        self,
        readers: Sequence[ColumnReader],
        texts: "_Texts",
        aside: AsideWriter,
        cleaned: Cleaned,
    ) -> pa.RecordBatch:
        """Write down the bad records, and return the others."""
        rows = [self._row(place) for place in range(len(self._records))]
        arrays = [self._column(reader, rows) for reader in readers]
        ordinals = pa.arange(self._first, self._first + len(rows))
        schema = part_schema(self._cleaning.columns)
        # Bad rows may have nulls where there must be none; they do not stay.
        loose = pa.schema([field.with_nullable(True) for field in schema])
        batch = pa.RecordBatch.from_arrays([*arrays, ordinals], schema=loose)
        if not self._faults:
            return batch
        bad = sorted(self._faults)
        labels = []
        for place in bad:
            record = self._records[place]
            where, label = self._cleaning.place(record)
            aside.write(where, self._faults[place], texts.of(record))
            labels.append(label)
        cleaned.bad += len(bad)
        names = [self._cleaning.columns[position].name for position in self._cleaning.keys]
        cleaned.add_keys(pa.Table.from_batches([batch]).select(names).take(bad), labels)
        return leave_out(batch, bad)

    def _row(self, place: int) -> dict[str, object]:
        """Return the values of a record; none if it is no row at all."""
        row = row_of(self._records[place], self._cleaning.task.form)
        if isinstance(row, str):
            self._faults[place] = [Fault(row)]
            return {}
        return row

    def _column(self, reader: ColumnReader, rows: list[dict[str, object]]) -> pa.Array:
        column = reader.column
        array, bad = reader.read([row.get(column.name) for row in rows])
        for value in bad:
            faults = self._faults.setdefault(value.row, [])
            if faults and faults[0].column is None:
                continue  # the record is no row, so it lacks all columns
            found = rows[value.row].get(column.name)
            faults.append(Fault(f"column {value.said}", column.name, found, column.described))
        return array


class _Texts:
    """The texts of records, asked for in their order."""

    def __init__(self, piece: JsonRange, form: JsonFormat) -> None:
        self._lines = enumerate(lines_of(piece)) if form.lines else None
        self._encoding = form.encoding

    def of(self, record: Record) -> str | None:
        """Return the text of a record: as it is in a file of lines, else as JSON again."""
        if self._lines is not None:
            for number, line in self._lines:
                if number == record.position:
                    text = line.decode(errors="surrogateescape").rstrip("\r")
                    return shown_bytes(text, self._encoding)
        if record.text is not None:
            return record.text
        try:
            return compact(record.value)
        except (TypeError, RecursionError):
            return None

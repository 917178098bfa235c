"""A second look at a range of a CSV file that holds bad rows; runs in Spark's Python workers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.spark.parts import PartWriter
from odf.engines.spark.readers.convert import Converted, converter
from odf.engines.spark.readers.csv_errors import describe_cell, load_range
from odf.engines.spark.readers.csv_format import CsvColumn
from odf.engines.spark.readers.csv_scan import Scanned, scan
from odf.engines.spark.readers.csv_task import (
    BadCell,
    CsvRange,
    CsvTask,
    RangeResult,
    part_schema,
    read_as_it_takes,
    text_batches,
)
from odf.engines.spark.readers.quarantine import AsideWriter, Cleaned, Fault, leave_out
from odf.limits import MAX_SET_ASIDE_ROWS

_Bad = dict[int, list[BadCell]]
_Undecodable = dict[int, Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class CsvCleaning:
    """A range with bad rows.

    Attributes:
        task: The range, and the part for the good rows.
        name: What the user calls the file.
        aside: The file for the bad rows.
        keys: Positions of the columns whose values are kept.
        origin: The range as it is in the file; the task may read a copy without the bytes that
            are not in the file's encoding.
    """

    task: CsvTask
    name: str
    aside: str
    keys: tuple[int, ...]
    origin: CsvRange

    def scan(self) -> Iterator[Scanned]:
        """Pass by all records, as they are in the file."""
        data, first_line = load_range(self.origin)
        return scan(data, first_line, self.task.form, len(self.task.columns))


def clean_ranges(cleanings: Iterator[CsvCleaning]) -> Iterator[Cleaned]:
    """Clean the ranges of a partition."""
    pa.set_cpu_count(1)
    return (_clean(cleaning) for cleaning in cleanings)


def _clean(cleaning: CsvCleaning) -> Cleaned:
    undecodable = _find_undecodable(cleaning)
    if len(undecodable) > MAX_SET_ASIDE_ROWS:
        return Cleaned(cleaning.task.range.index, too_many=True)
    bad, keys, cleaned = read_as_it_takes(
        replace(cleaning.task, tolerant=True), partial(_write_good, cleaning, undecodable), _cannot
    )
    if cleaned.too_many:
        return cleaned
    labels = _write_aside(cleaning, bad, cleaned)
    if keys:
        cleaned.add_keys(pa.concat_tables(keys), labels)
    return cleaned


def _find_undecodable(cleaning: CsvCleaning) -> _Undecodable:
    """Find rows with bytes that are not in the encoding of the file; no more than are set aside."""
    if cleaning.origin == cleaning.task.range:
        return {}
    found = (
        (record.row, record.undecodable)
        for record in cleaning.scan()
        if record.undecodable and record.row is not None
    )
    return dict(islice(found, MAX_SET_ASIDE_ROWS + 1))


def _cannot(_task: CsvTask, failure: str) -> tuple[_Bad, list[pa.Table], Cleaned]:
    # The same bytes could be read a moment ago.
    raise ValueError(f"a file changed while it was read: {failure}")


def _write_good(
    cleaning: CsvCleaning, undecodable: _Undecodable, task: CsvTask, block_size: int
) -> tuple[_Bad, list[pa.Table], Cleaned]:
    """Write the good rows; return the bad cells by row, and the keys of the bad rows."""
    schema = part_schema(task.columns)
    names = [task.columns[position].name for position in cleaning.keys]
    result = RangeResult(task.range.index)
    cleaned = Cleaned(task.range.index)
    bad: _Bad = {}
    keys: list[pa.Table] = []
    with PartWriter(task.output, schema) as writer:
        for texts in text_batches(task, block_size, result):
            first = result.rows
            batch, here = _converted(task, texts, first, schema)
            result.rows += texts.num_rows
            for row in undecodable:
                if first <= row < result.rows:
                    here.setdefault(row, [])
            if here:
                bad |= here
                rows = sorted(here)
                places = [row - first for row in rows]
                found = pa.Table.from_batches([batch]).select(names).take(places)
                keys.append(_without(found, cleaning.keys, rows, undecodable))
                batch = leave_out(batch, places)
            cleaned.rows += batch.num_rows
            writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
            if len(bad) + result.ragged > MAX_SET_ASIDE_ROWS:
                cleaned.too_many = True
                break
    return bad, keys, cleaned


def _without(
    keys: pa.Table, positions: Sequence[int], rows: Sequence[int], undecodable: _Undecodable
) -> pa.Table:
    """Return key columns of rows with null in the place of what is not in the encoding."""
    for number, position in enumerate(positions):
        known = pa.array([position not in undecodable.get(row, ()) for row in rows])
        column = pc.if_else(known, keys.column(number), None)
        keys = keys.set_column(number, keys.schema.field(number).with_nullable(True), column)
    return keys


def _converted(
    task: CsvTask, texts: pa.RecordBatch, first: int, schema: pa.Schema
) -> tuple[pa.RecordBatch, _Bad]:
    arrays = []
    bad: _Bad = {}
    for position, column in enumerate(task.columns):
        values = texts.column(position)
        found = _convert(task, column, values)
        arrays.append(found.values)
        rows = list(found.bad)
        if not column.nullable and values.null_count:
            rows += pc.indices_nonzero(values.is_null()).to_pylist()
        for row in rows:
            cell = BadCell(first + row, position, values[row].as_py())
            bad.setdefault(first + row, []).append(cell)
    start = task.first_ordinal + first
    arrays.append(pa.arange(start, start + texts.num_rows))
    # Bad rows may have nulls where there must be none; they do not stay.
    loose = pa.schema([field.with_nullable(True) for field in schema])
    return pa.RecordBatch.from_arrays(arrays, schema=loose), bad


def _convert(task: CsvTask, column: CsvColumn, values: pa.Array) -> Converted:
    found = converter(column.type, task.form.times)
    if found is None:
        raise TypeError(f"no conversion from text to {column.type}")
    return found(values)


def _write_aside(cleaning: CsvCleaning, bad: _Bad, cleaned: Cleaned) -> list[str]:
    """Write down the bad rows; return where those are that have all their fields, in order."""
    task = cleaning.task
    width = len(task.columns)
    labels = []
    with AsideWriter(cleaning.aside) as aside:
        for record in cleaning.scan():
            where = {"file": cleaning.name, "line": record.line}
            label = f"{cleaning.name}:{record.line}"
            if record.row is None:
                faults = [_ragged(record, width)]
                cleaned.without_key = cleaned.without_key or label
            elif record.row in bad:
                faults = _faults(task, record, bad[record.row])
                labels.append(label)
            else:
                continue
            cleaned.bad += 1
            aside.write(where, faults, record.text)
    return labels


def _ragged(record: Scanned, width: int) -> Fault:
    said = f"wanted {width} fields, got {record.fields}"
    return Fault(said, value=record.fields, wanted=f"{width} fields")


def _faults(task: CsvTask, record: Scanned, cells: Sequence[BadCell]) -> list[Fault]:
    """Say what is wrong with a record, from left to right."""
    found = {
        cell.column: Fault(
            describe_cell(task.columns[cell.column], cell),
            task.columns[cell.column].name,
            cell.text,
            task.columns[cell.column].described,
        )
        for cell in cells
    }
    for position, text in record.undecodable.items():
        name, encoding = task.columns[position].name, task.form.encoding
        found[position] = Fault(f"column `{name}`: not {encoding}", name, text, encoding)
    return [found[position] for position in sorted(found)]

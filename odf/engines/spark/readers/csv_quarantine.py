"""A second look at a range of a CSV file that holds bad rows; runs in Spark's Python workers."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.spark.parts import PartWriter
from odf.engines.spark.readers.convert import Converted, converter
from odf.engines.spark.readers.csv_errors import describe_cell, load_range
from odf.engines.spark.readers.csv_format import CsvColumn
from odf.engines.spark.readers.csv_scan import Scanned, scan
from odf.engines.spark.readers.csv_task import (
    BadCell,
    CsvTask,
    RangeResult,
    part_schema,
    text_batches,
    with_large_enough_blocks,
)
from odf.engines.spark.readers.quarantine import AsideWriter, Cleaned, Fault, leave_out
from odf.limits import MAX_SET_ASIDE_ROWS

_Bad = dict[int, list[BadCell]]


@dataclass(frozen=True, slots=True)
class CsvCleaning:
    """A range with bad rows.

    Attributes:
        task: The range, and the part for the good rows.
        name: What the user calls the file.
        aside: The file for the bad rows.
        keys: Positions of the columns whose values are kept.
    """

    task: CsvTask
    name: str
    aside: str
    keys: tuple[int, ...]


def clean_ranges(cleanings: Iterator[CsvCleaning]) -> Iterator[Cleaned]:
    """Clean the ranges of a partition."""
    pa.set_cpu_count(1)
    return (_clean(cleaning) for cleaning in cleanings)


def _clean(cleaning: CsvCleaning) -> Cleaned:
    task = cleaning.task
    bad, keys, cleaned = with_large_enough_blocks(
        task, lambda size: _write_good(cleaning, size), _cannot
    )
    if cleaned.too_many:
        return cleaned
    labels = _write_aside(cleaning, bad, cleaned)
    if keys:
        cleaned.add_keys(pa.concat_tables(keys), labels)
    return cleaned


def _cannot(_task: CsvTask, failure: str) -> tuple[_Bad, list[pa.Table], Cleaned]:
    # The same bytes could be read a moment ago.
    raise ValueError(f"a file changed while it was read: {failure}")


def _write_good(cleaning: CsvCleaning, block_size: int) -> tuple[_Bad, list[pa.Table], Cleaned]:
    """Write the good rows; return the bad cells by row, and the keys of the bad rows."""
    task = cleaning.task
    schema = part_schema(task.columns)
    names = [task.columns[position].name for position in cleaning.keys]
    result = RangeResult(task.range.index)
    cleaned = Cleaned(task.range.index)
    bad: _Bad = {}
    keys: list[pa.Table] = []
    with PartWriter(task.output, schema) as writer:
        for texts in text_batches(task, block_size, result):
            batch, here = _converted(task, texts, result.rows, schema)
            result.rows += texts.num_rows
            if here:
                bad |= here
                first = result.rows - texts.num_rows
                places = [row - first for row in sorted(here)]
                keys.append(pa.Table.from_batches([batch]).select(names).take(places))
                batch = leave_out(batch, places)
            cleaned.rows += batch.num_rows
            writer.write(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
            if len(bad) + result.ragged > MAX_SET_ASIDE_ROWS:
                cleaned.too_many = True
                break
    return bad, keys, cleaned


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
    data, first_line = load_range(task.range)
    width = len(task.columns)
    labels = []
    with AsideWriter(cleaning.aside) as aside:
        for record in scan(data, first_line, task.form, width):
            where = {"file": cleaning.name, "line": record.line}
            label = f"{cleaning.name}:{record.line}"
            if record.row is None:
                faults = [_ragged(record, width)]
                cleaned.without_key = cleaned.without_key or label
            elif record.row in bad:
                faults = [_fault(task.columns[c.column], c) for c in bad[record.row]]
                labels.append(label)
            else:
                continue
            cleaned.bad += 1
            aside.write(where, faults, record.text)
    return labels


def _ragged(record: Scanned, width: int) -> Fault:
    said = f"wanted {width} fields, got {record.fields}"
    return Fault(said, value=record.fields, wanted=f"{width} fields")


def _fault(column: CsvColumn, cell: BadCell) -> Fault:
    return Fault(describe_cell(column, cell), column.name, cell.text, column.described)

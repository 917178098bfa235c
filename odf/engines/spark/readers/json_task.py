"""What one Spark task does: read records of a JSON file, and look at them or write a part.

Runs in Spark's Python workers, so it imports as little as it can.
"""

import io
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from odf.engines.spark.parts import ROW_COLUMN, PartWriter
from odf.engines.spark.readers.csv_task import MAX_PROBLEMS
from odf.engines.spark.readers.json_format import GEOMETRY, JsonColumn, JsonFormat
from odf.engines.spark.readers.json_infer import Seen
from odf.engines.spark.readers.json_records import (
    DocumentError,
    Record,
    document_records,
    element_records,
    line_records,
)
from odf.engines.spark.readers.json_text import compact, kind_of
from odf.engines.spark.readers.json_values import ColumnReader
from odf.engines.spark.readers.shapefile_records import shapefile_records
from odf.errors import BadInputError

_BATCH_ROWS: Final = 8192
_BATCH_SIZE: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class JsonRange:
    """A piece of a file: some of its lines, some elements of its array, or all of it.

    Attributes:
        index: Position among all ranges of all files; decides on the order of rows.
        file: Which of the files it belongs to.
        path: Where the file is, in UTF-8.
        start: Its first byte.
        end: The byte after it.
        elements: Whether it is some elements of an array, with commas between them.
    """

    index: int
    file: int
    path: str
    start: int
    end: int
    elements: bool = False


@dataclass(frozen=True, slots=True)
class JsonTask:
    """A range, how to read it, and where the rows go.

    Attributes:
        range: What to read.
        form: How it is written.
        columns: The columns; None to find out what there is.
        output: The part file to write, if there are columns.
        first_ordinal: Value of the hidden row column for the first row.
    """

    range: JsonRange
    form: JsonFormat
    columns: tuple[JsonColumn, ...] | None
    output: str = ""
    first_ordinal: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a record.

    Attributes:
        position: Where it is (see `Record`).
        said: What is wrong.
    """

    position: int
    said: str


@dataclass(slots=True)
class JsonResult:
    """What came of a range.

    Attributes:
        index: Which one.
        rows: Rows that were read.
        records: Records that were looked at, be they rows or not.
        problems: The first bad records and values.
        bad: How many there are of them.
        failure: Why the document could not be read, and what to do about it.
        seen: What the objects have, if that was asked.
        members: Names of columns that some row has, and of all members of the first row.
    """

    index: int
    rows: int = 0
    records: int = 0
    problems: list[Problem] = field(default_factory=list)
    bad: int = 0
    failure: tuple[str, str | None] | None = None
    seen: Seen | None = None
    members: set[str] = field(default_factory=set)

    @property
    def is_good(self) -> bool:
        """Whether every value of every record was taken."""
        return not self.bad and self.failure is None

    def note(self, position: int, said: str) -> None:
        """Remember something that is wrong."""
        self.bad += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(position, said))


def run_tasks(tasks: Iterator[JsonTask]) -> Iterator[JsonResult]:
    """Do the tasks of a partition."""
    # Other tasks run on the other processors.
    pa.set_cpu_count(1)
    return (run_task(task) for task in tasks)


def run_task(task: JsonTask) -> JsonResult:
    """Read a range: find out what it has, or write its part."""
    result = JsonResult(task.range.index)
    try:
        if task.columns is None:
            result.seen = _look(task, result)
        else:
            _write(task, task.columns, result)
    except (DocumentError, BadInputError) as error:
        result.failure = (error.message, error.hint)
    return result


def part_schema(columns: tuple[JsonColumn, ...]) -> pa.Schema:
    """Return the schema of the parts: the columns and the hidden row column."""
    fields = [pa.field(column.name, column.type, column.nullable) for column in columns]
    return pa.schema([*fields, pa.field(ROW_COLUMN, pa.int64(), nullable=False)])


def row_positions(piece: JsonRange, form: JsonFormat, rows: set[int]) -> dict[int, int]:
    """Return where some rows of a range are (see `Record`), by their position among its rows."""
    if not form.lines:
        return {row: row + 1 for row in rows}
    found = {}
    for row, record in enumerate(records_of(piece, form)):
        if row in rows:
            found[row] = record.position
    return found


def _look(task: JsonTask, result: JsonResult) -> Seen:
    seen = Seen()
    for record in records_of(task.range, task.form):
        result.records += 1
        row = row_of(record, task.form)
        if isinstance(row, str):
            result.note(record.position, row)
        else:
            seen.add_row(row)
    return seen


def _write(task: JsonTask, columns: tuple[JsonColumn, ...], result: JsonResult) -> None:
    readers = [ColumnReader(column, task.form.times) for column in columns]
    schema = part_schema(columns)
    with PartWriter(task.output, schema) as writer:
        for batch in batches_of(records_of(task.range, task.form)):
            arrays = _convert(batch, task.form, readers, result)
            result.records += len(batch)
            count = len(arrays[0])
            first = task.first_ordinal + result.rows
            result.rows += count
            if result.is_good:
                ordinals = pa.arange(first, first + count)
                writer.write(pa.RecordBatch.from_arrays([*arrays, ordinals], schema=schema))


def _convert(
    batch: list[Record], form: JsonFormat, readers: list[ColumnReader], result: JsonResult
) -> list[pa.Array]:
    """Return the columns of the records that are rows; note what is bad, in the order of rows."""
    positions, rows, problems = [], [], []
    for record in batch:
        row = row_of(record, form)
        if isinstance(row, str):
            problems.append((record.position, row))
        else:
            positions.append(record.position)
            rows.append(row)
    if rows and not result.members:
        result.members.update(rows[0])
    arrays = []
    for reader in readers:
        name = reader.column.name
        if name not in result.members and any(name in row for row in rows):
            result.members.add(name)
        array, bad = reader.read([row.get(name) for row in rows])
        arrays.append(array)
        problems += [(positions[value.row], f"column {value.said}") for value in bad]
    for position, said in sorted(problems, key=lambda problem: problem[0]):
        result.note(position, said)
    return arrays


_Row = dict[str, object]


def batches_of(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Gather records into batches that are worth the making of arrays."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += record.size
        if len(batch) >= _BATCH_ROWS or size >= _BATCH_SIZE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def row_of(record: Record, form: JsonFormat) -> _Row | str:
    """Return the values of a row by column, or what is wrong with the record."""
    if record.problem is not None:
        return record.problem
    if not isinstance(record.value, dict):
        return f"wanted an object, got {kind_of(record.value)}"
    if not form.geo:
        return record.value
    try:
        return _feature_problem(record.value) or _of_feature(record.value)
    except RecursionError:
        return "the geometry is nested too deeply"


def records_of(piece: JsonRange, form: JsonFormat) -> Iterator[Record]:
    """Read the records of a range, whatever their format."""
    if form.lines:
        yield from line_records(lines_of(piece), form.encoding)
        return
    if form.shapes:
        yield from shapefile_records(piece.path, form.path[0] if form.path else None)
        return
    with Path(piece.path).open("rb") as opened:
        opened.seek(piece.start)
        data = io.BytesIO(opened.read(piece.end - piece.start)) if piece.elements else opened
        with io.TextIOWrapper(data, encoding="utf-8", errors="surrogateescape", newline="") as text:
            if piece.elements:
                yield from element_records(text, form.encoding)
            else:
                yield from document_records(text, form.path, form.collection, form.encoding)


def lines_of(piece: JsonRange) -> Iterator[bytes]:
    """Return the lines of a range, without their line feeds."""
    with (
        Path(piece.path).open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        start = piece.start
        while start < piece.end:
            line_end = data.find(b"\n", start, piece.end)
            end = piece.end if line_end < 0 else line_end
            yield data[start:end]
            start = end + 1


def _feature_problem(value: _Row) -> str | None:
    if value.get("type") != "Feature":
        got = value.get("type")
        shown = repr(got) if isinstance(got, str) else kind_of(got)
        return f"wanted a GeoJSON Feature, got `type` {shown}"
    properties, geometry = value.get("properties"), value.get("geometry")
    if properties is not None and not isinstance(properties, dict):
        return f"`properties` of a Feature is {kind_of(properties)}, wanted an object"
    if geometry is not None and not isinstance(geometry, dict):
        return f"`geometry` of a Feature is {kind_of(geometry)}, wanted an object"
    if isinstance(properties, dict) and GEOMETRY in properties:
        return "a property has the name `geometry`, which is the geometry's column"
    return None


def _of_feature(value: _Row) -> _Row:
    properties, geometry = value.get("properties"), value.get("geometry")
    row = dict(properties) if isinstance(properties, dict) else {}
    row[GEOMETRY] = None if geometry is None else compact(geometry)
    return row

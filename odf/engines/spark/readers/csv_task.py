"""What one Spark task does: parse a range of a CSV file and write a part.

Runs in Spark's Python workers, so it imports as little as it can.
"""

import codecs
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from odf.data.types import conform
from odf.engines.spark.parts import ROW_COLUMN, PartWriter, StreamedPartWriter
from odf.engines.spark.readers.convert import Converter, converter
from odf.engines.spark.readers.csv_format import CsvColumn, CsvFormat
from odf.engines.spark.readers.csv_turns import Turns
from odf.engines.spark.readers.time_formats import TimeFormats

MAX_PROBLEMS: Final = 10
"""How many bad rows are named; more help nobody."""

UNCLOSED: Final = "quote"
"""The failure of a range that ends inside quotes."""

ENCODING: Final = "encoding"
"""The failure of a range with bytes that are not in the encoding of its file."""

STOPPED: Final = "stopped"
"""The failure of a range that was not read, since nobody waits for it."""

_BLOCK_SIZE: Final = 1 << 20
_LARGEST_BLOCK: Final = (1 << 31) - 1
_SENTINEL: Final = "\x00odf-end\x00"
_BAD_ENCODING: Final = "invalid UTF8 data"
_RAGGED: Final = "Expected "
_STRADDLING: Final = "straddling object"

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class CsvRange:
    """A piece of a file that can be read by itself: it begins and ends between records.

    Attributes:
        index: Position among all ranges of all files; decides on the order of rows.
        file: Which of the files it belongs to.
        path: Where the file is, in UTF-8.
        start: Its first byte.
        end: The byte after it.
        has_quotes: Whether fields in it may be quoted or escaped, and so hold line ends.
        goes_on: Whether there is more of the file behind it; then it ends with a line feed.
    """

    index: int
    file: int
    path: str
    start: int
    end: int
    has_quotes: bool
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class CsvTask:
    """A range, how to read it, and where the rows go.

    Attributes:
        range: What to read.
        form: How it is written.
        columns: The columns, as many as each record must have fields.
        output: The part file to write.
        first_ordinal: Value of the hidden row column for the first row.
        turns: When to read, if the part is taken while others are still written. Then it has the
            types of a slice and no hidden column.
        tolerant: Whether records with a wrong number of fields are counted and passed by. The
            text has to be good then; the first one is an error else.
    """

    range: CsvRange
    form: CsvFormat
    columns: tuple[CsvColumn, ...]
    output: str
    first_ordinal: int
    turns: Turns | None = None
    tolerant: bool = False

    @property
    def streamed(self) -> bool:
        """Whether the part is taken while others are still written."""
        return self.turns is not None


@dataclass(frozen=True, slots=True)
class BadCell:
    """A field that is not a value of its column.

    Attributes:
        row: Position among the records of the range that have the right number of fields.
        column: Position of the column.
        text: What stands there, or None for null in a column that is not nullable.
    """

    row: int
    column: int
    text: str | None


@dataclass(slots=True)
class RangeResult:
    """What came of a range.

    Attributes:
        index: Which one.
        rows: Rows that were read.
        ragged: Records with too many or too few fields.
        bad_cells: The first bad fields, by row and column.
        bad_counts: All bad fields by column position.
        failure: Why the range could not be parsed at all: `ENCODING`, `UNCLOSED`, or a message.
        cut: Positions of the columns whose times had finer digits than a slice keeps; only of a
            part that is streamed.
    """

    index: int
    rows: int = 0
    ragged: int = 0
    bad_cells: list[BadCell] = field(default_factory=list)
    bad_counts: dict[int, int] = field(default_factory=dict)
    failure: str | None = None
    cut: set[int] = field(default_factory=set)

    @property
    def is_good(self) -> bool:
        """Whether every field of every record was taken."""
        return not (self.ragged or self.bad_counts or self.failure)


def read_ranges(tasks: Iterator[CsvTask]) -> Iterator[RangeResult]:
    """Read the ranges of a partition."""
    # Other tasks run on the other processors.
    pa.set_cpu_count(1)
    for task in tasks:
        yield read_range(task) if task.turns is None else _read_in_turn(task, task.turns)


def _read_in_turn(task: CsvTask, turns: Turns) -> RangeResult:
    turns.wait(task.range.index)
    if turns.is_stopped:
        return RangeResult(task.range.index, failure=STOPPED)
    result = read_range(task)
    if result.failure is not None:
        turns.give_up()
    return result


def read_range(task: CsvTask) -> RangeResult:
    """Read a range and write its part, or find what is wrong with it."""
    return read_as_it_takes(task, _read, _broken)


def _broken(task: CsvTask, failure: str) -> RangeResult:
    return RangeResult(task.range.index, failure=failure)


def read_as_it_takes(
    task: CsvTask,
    read: Callable[[CsvTask, int], _Found],
    broken: Callable[[CsvTask, str], _Found],
) -> _Found:
    """Read a range, and anew with larger blocks or more patience if that did not do.

    Args:
        task: The range.
        read: Reads it, given the size of a block.
        broken: Says that it cannot be parsed at all, and why.
    """
    # Arrow looks at fields without quotes and escapes: bytes around one may make a character there.
    if task.range.has_quotes and not is_utf8(task.range):
        return broken(task, ENCODING)
    block_size = _BLOCK_SIZE
    while True:
        try:
            return read(task, block_size)
        except pa.ArrowInvalid as error:
            message = str(error)
        if _STRADDLING in message and block_size < _LARGEST_BLOCK:
            block_size = min(block_size * 16, _LARGEST_BLOCK)
        elif _BAD_ENCODING in message or (_RAGGED in message and not is_utf8(task.range)):
            return broken(task, ENCODING)
        elif _RAGGED in message and not task.tolerant:
            task = replace(task, tolerant=True)
        else:
            return broken(task, message)


def is_utf8(piece: CsvRange) -> bool:
    """Tell whether all bytes of a range are characters."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    left = piece.end - piece.start
    with Path(piece.path).open("rb") as file:
        file.seek(piece.start)
        try:
            while data := file.read(min(left, _BLOCK_SIZE)):
                left -= len(data)
                # To look for high bytes takes half the time, and most files have none.
                if not data.isascii() or decoder.getstate()[0]:
                    decoder.decode(data)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def part_schema(columns: tuple[CsvColumn, ...]) -> pa.Schema:
    """Return the schema of the parts: the columns and the hidden row column."""
    fields = [pa.field(column.name, column.type, column.nullable) for column in columns]
    return pa.schema([*fields, pa.field(ROW_COLUMN, pa.int64(), nullable=False)])


def streamed_schema(columns: tuple[CsvColumn, ...]) -> pa.Schema:
    """Return the schema of parts that are streamed: times are cut to what a slice keeps."""
    return pa.schema(
        [
            pa.field(
                column.name,
                column.stored if pa.types.is_timestamp(column.type) else column.type,
                column.nullable,
            )
            for column in columns
        ]
    )


def _read(task: CsvTask, block_size: int) -> RangeResult:
    result = RangeResult(task.range.index)
    schema = streamed_schema(task.columns) if task.streamed else part_schema(task.columns)
    converters = [_converter_of(column, task.form.times) for column in task.columns]
    with (StreamedPartWriter if task.streamed else PartWriter)(task.output, schema) as writer:
        for texts in text_batches(task, block_size, result):
            arrays = []
            for position, convert in enumerate(converters):
                column = texts.column(position)
                converted = convert(column)
                arrays.append(_kept(task, position, converted.values, result))
                _note_bad(result, position, column, converted.bad)
                if not task.columns[position].nullable and column.null_count:
                    nulls = pc.indices_nonzero(column.is_null()).to_pylist()
                    _note_bad(result, position, column, nulls)
            if not task.streamed:
                first = task.first_ordinal + result.rows
                arrays.append(pa.arange(first, first + texts.num_rows))
            result.rows += texts.num_rows
            if result.is_good:
                writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
    result.bad_cells.sort(key=lambda bad: (bad.row, bad.column))
    del result.bad_cells[MAX_PROBLEMS:]
    return result


def _kept(task: CsvTask, position: int, values: pa.Array, result: RangeResult) -> pa.Array:
    """Return values as the part holds them."""
    if not task.streamed or not pa.types.is_timestamp(values.type):
        return values
    stored = task.columns[position].stored
    try:
        return values.cast(stored)
    except pa.ArrowInvalid:
        # It would lose digits, which is told once.
        result.cut.add(position)
        return conform(values, stored)


def text_batches(task: CsvTask, block_size: int, result: RangeResult) -> Iterator[pa.RecordBatch]:
    """Yield the fields as texts; null is where an unquoted field is empty or the null value."""
    names = [str(position) for position in range(len(task.columns))]
    piece = task.range
    if piece.end == piece.start:
        return
    with pa.OSFile(piece.path) as file:
        data = file.get_stream(piece.start, piece.end - piece.start)
        source = _WithSentinel(data, task) if piece.has_quotes else data
        batches = _open(source, task, names, block_size, result)
        yield from _without_sentinel(batches, result) if piece.has_quotes else batches


def _open(
    source: object, task: CsvTask, names: list[str], block_size: int, result: RangeResult
) -> Iterator[pa.RecordBatch]:
    def skip(_row: object) -> str:
        result.ragged += 1
        return "skip"

    form = task.form
    nulls = [""] if form.null_value is None else ["", form.null_value]
    reader = pyarrow.csv.open_csv(
        source,
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False, column_names=names, block_size=block_size
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=form.separator,
            quote_char=form.quote or False,
            double_quote=form.escape is None,
            escape_char=form.escape or False,
            newlines_in_values=isinstance(source, _WithSentinel),
            # It is given texts, so it must not be called for what is none.
            invalid_row_handler=skip if task.tolerant else None,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=nulls,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    yield from reader


class _WithSentinel:
    """A file that ends with one more record.

    Arrow takes a quoted field that is never closed for one that ends with the file, and with it
    all records that it swallowed. If the record appended here does not come out whole, the file
    ended inside a field. Behind a range that others follow it has no line end before it, so that
    it does not come out whole either if the last line feed there is escaped.
    """

    closed = False

    def __init__(self, data: pa.NativeFile, task: CsvTask) -> None:
        record = task.form.separator.join([_SENTINEL] * len(task.columns)) + "\n"
        if not task.range.goes_on:
            record = "\n" + record
        self._pieces = [data, pa.BufferReader(record.encode())]

    def read(self, size: int) -> bytes:
        while self._pieces:
            found: bytes = self._pieces[0].read(size)
            if found:
                return found
            self._pieces.pop(0)
        return b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self._pieces = []


def _without_sentinel(
    batches: Iterator[pa.RecordBatch], result: RangeResult
) -> Iterator[pa.RecordBatch]:
    held: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        if held is not None:
            yield held
        held = batch
    last = held.slice(held.num_rows - 1).to_pylist()[0] if held is not None else {}
    if held is None or set(last.values()) != {_SENTINEL}:
        result.failure = UNCLOSED
        return
    yield held.slice(0, held.num_rows - 1)


def _converter_of(column: CsvColumn, times: TimeFormats) -> Converter:
    found = converter(column.type, times)
    if found is None:
        raise TypeError(f"no conversion from text to {column.type}")
    return found


def _note_bad(result: RangeResult, position: int, column: pa.Array, bad: Sequence[int]) -> None:
    if not bad:
        return
    result.bad_counts[position] = result.bad_counts.get(position, 0) + len(bad)
    result.bad_cells += [
        BadCell(result.rows + row, position, column[row].as_py()) for row in bad[:MAX_PROBLEMS]
    ]

"""Walking through a CSV file record by record, for headers and for line numbers.

This is the slow way, used for the first record of a file, and to say where things are once it is
known that something is wrong. `csv_task` reads the values.
"""

import csv
import io
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odf.engines.spark.readers.csv_format import CsvFormat
from odf.errors import BadInputError
from odf.limits import MAX_CSV_HEADER_SIZE

if TYPE_CHECKING:
    from _csv import Reader


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """The first record of a file.

    Attributes:
        fields: Its fields as texts; empty if the file has no record.
        end: Position of the byte after it.
    """

    fields: tuple[str, ...]
    end: int


def first_record(data: memoryview, start: int, form: CsvFormat, name: str) -> FirstRecord:
    """Read the first record that is not a blank line.

    Args:
        data: The whole file, in UTF-8.
        start: Where the text begins, after a byte order mark.
        form: How the file is written.
        name: Name of the file for messages.

    Raises:
        BadInputError: It is not UTF-8, or longer than any header can be.
    """
    lines = _Lines(bytes(data[start : start + MAX_CSV_HEADER_SIZE]))
    try:
        for record in _reader(lines, form):
            if record:
                return FirstRecord(tuple(record), start + lines.position)
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"{name}:1: the header is not {form.encoding}: {error.reason}", reason="csv"
        ) from None
    except csv.Error as error:
        raise BadInputError(f"{name}:1: the header cannot be read: {error}", reason="csv") from None
    return FirstRecord((), start + lines.position)


@dataclass(frozen=True, slots=True)
class Located:
    """Where something is in a file.

    Attributes:
        row: Position among the records of the range that have the right number of fields, or
            None if this record has not.
        line: Line on which the record begins, from 1.
        fields: How many fields it has.
    """

    row: int | None
    line: int
    fields: int


def locate(
    data: bytes, first_line: int, form: CsvFormat, width: int, rows: Collection[int], ragged: int
) -> Iterator[Located]:
    """Find the lines of some records, in file order.

    Args:
        data: The bytes of a range, in UTF-8.
        first_line: The line on which they begin.
        form: How the file is written.
        width: The right number of fields.
        rows: Which of the records with that number to find.
        ragged: How many of the others to find.
    """
    wanted = set(rows)
    csv.field_size_limit(sys.maxsize)
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace", newline="")
    reader = _reader(text, form)
    row = -1
    before = 0
    for record in reader:
        line, before = first_line + before, reader.line_num
        if not record:
            continue
        if len(record) != width:
            if ragged > 0:
                ragged -= 1
                yield Located(None, line, len(record))
        else:
            row += 1
            if row in wanted:
                wanted.discard(row)
                yield Located(row, line, width)
        if not wanted and ragged <= 0:
            return


@dataclass(frozen=True, slots=True)
class Scanned:
    """A record as it is passed by.

    Attributes:
        row: Position among the records of the range that have the right number of fields, or
            None if this record has not.
        line: Line on which it begins, from 1.
        fields: How many fields it has.
        text: The text of the record, without its line end.
    """

    row: int | None
    line: int
    fields: int
    text: str


def scan(data: bytes, first_line: int, form: CsvFormat, width: int) -> Iterator[Scanned]:
    """Pass by all records of a range.

    Args:
        data: The bytes of a range, in UTF-8.
        first_line: The line on which they begin.
        form: How the file is written.
        width: The right number of fields.
    """
    csv.field_size_limit(sys.maxsize)
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace", newline="")
    taken: list[str] = []
    reader = _reader(_noted(text, taken), form)
    row = -1
    before = 0
    for record in reader:
        line, before = first_line + before, reader.line_num
        whole = "".join(taken).rstrip("\r\n")
        taken.clear()
        if not record:
            continue
        is_row = len(record) == width
        row += is_row
        yield Scanned(row if is_row else None, line, len(record), whole)


def _noted(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    for line in lines:
        taken.append(line)
        yield line


def last_record_line(data: bytes, first_line: int, form: CsvFormat) -> int:
    """Return the line on which the last record begins; there an unclosed quote is."""
    csv.field_size_limit(sys.maxsize)
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace", newline="")
    reader = _reader(text, form)
    line = before = 0
    for _record in reader:
        line, before = before, reader.line_num
    return first_line + line


def count_lines(data: bytes) -> int:
    """Count the line ends: LF, CRLF, and CR alone."""
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def undecodable_line(data: bytes, first_line: int) -> int | None:
    """Return the line of the first byte that is not UTF-8, or None if all are."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return first_line + count_lines(data[: error.start])
    return None


class _Lines:
    """Physical lines of some bytes, with the position up to which they were taken."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        start = self.position
        if start >= len(self._data):
            raise StopIteration
        self.position = _line_end(self._data, start)
        return self._data[start : self.position].decode()


def _line_end(data: bytes, start: int) -> int:
    line_feed = data.find(b"\n", start)
    carriage_return = data.find(b"\r", start, line_feed if line_feed >= 0 else len(data))
    if carriage_return < 0:
        return line_feed + 1 if line_feed >= 0 else len(data)
    return carriage_return + (2 if data[carriage_return + 1 : carriage_return + 2] == b"\n" else 1)


def _reader(lines: Iterator[str] | io.TextIOWrapper, form: CsvFormat) -> "Reader":
    return csv.reader(
        lines,
        delimiter=form.separator,
        quotechar=form.quote,
        quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE,
        doublequote=form.escape is None,
        escapechar=form.escape,
        strict=False,
    )

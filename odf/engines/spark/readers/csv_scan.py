"""Walking through a CSV file record by record, for headers and for line numbers.

This is the slow way, used for the first record of a file, and to say where things are once it is
known that something is wrong. `csv_task` reads the values.
"""

import csv
import io
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odf.engines.spark.readers.csv_format import CsvFormat
from odf.engines.spark.readers.encodings import is_unicode, shown_bytes
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


class UnreadableHeaderError(BadInputError):
    """The first record of a file cannot be read.

    Args:
        message: Why not.
        hint: What to do next.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, reason="csv", hint=hint)


def first_record(data: memoryview, start: int, form: CsvFormat, name: str) -> FirstRecord:
    """Read the first record that is not a blank line.

    Args:
        data: The whole file, in UTF-8.
        start: Where the text begins, after a byte order mark.
        form: How the file is written.
        name: Name of the file for messages.

    Raises:
        UnreadableHeaderError: It is not UTF-8, or no text at all.
    """
    # A record that holds no names is one among others, to be refused or set aside with them.
    errors = "strict" if form.header else "replace"
    lines = _Lines(bytes(data[start : start + MAX_CSV_HEADER_SIZE]), errors)
    try:
        for record in _reader(lines, form):
            if not record:
                continue
            if form.header and any("\0" in name for name in record):
                raise UnreadableHeaderError(f"{name}:1: the header is no text: it has zero bytes")
            return FirstRecord(tuple(record), start + lines.position)
    except UnicodeDecodeError as error:
        raise UnreadableHeaderError(
            f"{name}:1: the header is not {form.encoding}: {error.reason}"
        ) from None
    except csv.Error as error:
        raise UnreadableHeaderError(f"{name}:1: the header cannot be read: {error}") from None
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
    reader = _reader(_text(data), form)
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
        text: The text of the record, without the line end behind it; bytes that are not in the
            file's encoding are written with backslash escapes.
        undecodable: Fields that hold such bytes, by position, with their texts.
    """

    row: int | None
    line: int
    fields: int
    text: str
    undecodable: Mapping[int, str]


def scan(data: bytes, first_line: int, form: CsvFormat, width: int) -> Iterator[Scanned]:
    """Pass by all records of a range.

    Args:
        data: The bytes of a range, in UTF-8.
        first_line: The line on which they begin.
        form: How the file is written.
        width: The right number of fields.
    """
    taken: list[str] = []
    reader = _reader(_noted(_text(data), taken), form)
    row = -1
    before = 0
    for record in reader:
        line, before = first_line + before, reader.line_num
        whole = _without_line_end("".join(taken), form)
        taken.clear()
        if not record:
            continue
        is_row = len(record) == width
        row += is_row
        undecodable: dict[int, str] = {}
        if not is_unicode(whole):
            undecodable = {
                position: shown_bytes(field, form.encoding)
                for position, field in enumerate(record)
                if not is_unicode(field)
            }
            whole = shown_bytes(whole, form.encoding)
        yield Scanned(row if is_row else None, line, len(record), whole, undecodable)


def records_of(lines: Iterator[str], form: CsvFormat) -> Iterator[list[str]]:
    """Yield the records in some lines; blank lines are records without fields.

    Args:
        lines: The lines, with their ends; no more are taken than a record has.
        form: How the file is written.
    """
    csv.field_size_limit(sys.maxsize)
    return _reader(lines, form)


def _noted(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    for line in lines:
        taken.append(line)
        yield line


def _without_line_end(text: str, form: CsvFormat) -> str:
    """Take the line end behind a record away; one that is escaped belongs to its last field."""
    for end in "\n\r":
        if text.endswith(end):
            before = text[:-1]
            if ends_escaped(before.encode(errors="surrogateescape"), form):
                break
            text = before
    return text


def ends_escaped(data: bytes, form: CsvFormat) -> bool:
    """Tell whether some bytes end with an escape character that escapes nothing."""
    if form.escape is None:
        return False
    return (len(data) - len(data.rstrip(form.escape.encode()))) % 2 == 1


def unclosed_quote_line(data: bytes, first_line: int, form: CsvFormat) -> int:
    """Return the line on which the last field begins, where that is a quoted one without end."""
    reader = _reader(_text(data), form)
    last: list[str] = []
    for record in reader:
        last = record or last
    rest = last[-1].encode(errors="surrogateescape") if last else b""
    return first_line + count_lines(data) - count_lines(rest)


def _text(data: bytes) -> io.TextIOWrapper:
    csv.field_size_limit(sys.maxsize)
    return io.TextIOWrapper(
        io.BytesIO(data), encoding="utf-8", errors="surrogateescape", newline=""
    )


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

    def __init__(self, data: bytes, errors: str) -> None:
        self._data = data
        self._errors = errors
        self.position = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        start = self.position
        if start >= len(self._data):
            raise StopIteration
        self.position = _line_end(self._data, start)
        return self._data[start : self.position].decode(errors=self._errors)


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

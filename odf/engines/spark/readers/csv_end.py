"""A CSV file whose last record never ends: a quote in it is opened and not closed.

The records before it are what they are without it, which is proven when they are read without it.
What comes behind the quote cannot be told apart from the field, so all of it is set aside as one.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from odf.engines.spark.readers.csv_format import CsvFormat
from odf.engines.spark.readers.csv_scan import count_lines, ends_escaped, records_of
from odf.engines.spark.readers.encodings import shown_bytes
from odf.engines.spark.readers.quarantine import AsideWriter, Cleaned, Fault
from odf.limits import MAX_UNENDED_RECORD


@dataclass(frozen=True, slots=True)
class Unended:
    """The end of a file from where its last record begins.

    Attributes:
        start: The first byte of the record; the file ends behind the last one.
        line: The line on which it begins.
        lines: How many lines it has.
        text: It, with bytes that are no text as escapes.
        escaped: The file ends with an escape character that escapes nothing, and no quote is open.
    """

    start: int
    line: int
    lines: int
    text: str
    escaped: bool

    @property
    def problem(self) -> str:
        """What is wrong, in words."""
        if self.escaped:
            return "the file ends with the escape character, and nothing behind it"
        return (
            f"a quote is opened and never closed: the rest of the file, {self.lines} "
            f"line{'s' if self.lines != 1 else ''}, counts as this row"
        )


class EndsUnended(Exception):  # noqa: N818  # the file is read again without its end
    """Files end with a record that never ends, so they have to be opened anew, without it.

    Args:
        ends: The records by position of the file.
    """

    def __init__(self, ends: Mapping[int, Unended]) -> None:
        super().__init__(ends)
        self.ends = ends


def unended_record(path: str, start: int, form: CsvFormat) -> Unended | None:
    """Find the last record of a file.

    Args:
        path: The file, in UTF-8.
        start: Where a record begins.
        form: How the file is written.

    Returns:
        None if it is too long to be one.
    """
    with Path(path).open("rb") as file:
        before = _lines_before(file, start)
        text = io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="")
        lines = _Bounded(text, start)
        last, line = start, before + 1
        try:
            for record in records_of(lines, form):
                if record:
                    last, line = lines.first, before + lines.first_line
                lines.begin()
        except (_TooLongError, csv.Error):
            return None
        text.detach()
        file.seek(last)
        data = file.read()
    if len(data) > MAX_UNENDED_RECORD:
        return None
    whole = data.decode(errors="surrogateescape")
    count = count_lines(data) + (not data.endswith((b"\n", b"\r")))
    return Unended(last, line, count, shown_bytes(whole, form.encoding), ends_escaped(data, form))


def set_end_aside(name: str, end: Unended, path: str, index: int) -> Cleaned:
    """Write down the end of a file as one bad row.

    Args:
        name: What the user calls the file.
        end: The end.
        path: The file for bad rows to make.
        index: Its number.
    """
    with AsideWriter(path) as aside:
        aside.write({"file": name, "line": end.line}, [Fault(end.problem)], end.text)
    return Cleaned(index, bad=1, without_key=f"{name}:{end.line}")


class _TooLongError(Exception):
    """One record has more bytes than are set aside."""


class _Bounded:
    """The lines of a file, with the place where the record begins that they are read for."""

    def __init__(self, lines: io.TextIOWrapper, start: int) -> None:
        self._lines = lines
        self._position = start
        self._line = 0
        self.first = start
        self.first_line = 1

    def begin(self) -> None:
        """Note that the next line begins a record."""
        self.first, self.first_line = self._position, self._line + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._lines.readline(MAX_UNENDED_RECORD + 1)
        if not line:
            raise StopIteration
        self._position += len(line.encode(errors="surrogateescape"))
        self._line += 1
        if self._position - self.first > MAX_UNENDED_RECORD:
            raise _TooLongError
        return line


def _lines_before(file: io.BufferedReader, start: int) -> int:
    """Count the lines before a place, and leave the file there."""
    count = 0
    left = start
    while data := file.read(min(left, 1 << 20)):
        left -= len(data)
        # A CR LF is not torn apart: the place is behind a record, and pieces are counted whole.
        if data.endswith(b"\r") and left:
            data += file.read(1)
            left -= 1
        count += count_lines(data)
    return count

"""Where a CSV file can be cut into ranges that tasks read side by side.

Inside quotes and behind an escape character a line end need not end a record, which cannot be told
without reading from the start. So it is guessed, from quotes that come in pairs; whoever reads a
range proves the guess.
"""

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odf.engines.spark.readers.csv_format import CsvFormat

RANGE_SIZE: Final = 16 * 1024 * 1024
"""Bytes of a file that one task reads; enough to be worth a task, small enough to share out."""

_LONGEST_LOOK: Final = 1 << 20
"""Bytes in which the end of a record is looked for; a wrong guess costs time only."""


def cut_file(
    path: str, start: int, size: int, form: CsvFormat, range_size: int, *, cut_quoted: bool
) -> list[tuple[int, int, bool]]:
    """Cut a file where records seem to end.

    Args:
        path: The file, in UTF-8.
        start: The byte behind the header.
        size: The byte behind the last one that is read.
        form: How it is written.
        range_size: How many bytes a range has, about.
        cut_quoted: Whether to cut files with quotes or escapes.

    Returns:
        Start and end of each range, and whether there are quotes or escapes in it.
    """
    if start >= size:
        return []
    with (
        Path(path).open("rb") as opened,
        mmap.mmap(opened.fileno(), size, access=mmap.ACCESS_READ) as data,
    ):
        marks = _Marks((form.quote or "").encode(), (form.escape or "").encode())
        is_special = _holds(data, start, marks.all)
        if is_special and not cut_quoted:
            return [(start, size, True)]
        ranges = []
        while start < size:
            if is_special:
                end = _record_end(data, start, start + range_size - 1, marks)
            else:
                end = _line_end(data, start + range_size - 1)
            has_quotes = is_special and any(data.find(one, start, end) >= 0 for one in marks.all)
            ranges.append((start, end, has_quotes))
            _let_go(data, start, end)
            start = end
        return ranges


@dataclass(frozen=True, slots=True)
class _Marks:
    """The characters by which a line end need not end a record; empty ones are not used."""

    quote: bytes
    escape: bytes

    @property
    def all(self) -> tuple[bytes, ...]:
        return tuple(one for one in (self.quote, self.escape) if one)

    def opened(self, text: bytes) -> int:
        """Count quotes that are not escaped."""
        if not self.quote:
            return 0
        if self.escape and self.escape in text:
            # From the left, so that pairs of escapes are found as they were meant.
            text = text.replace(self.escape * 2, b"").replace(self.escape + self.quote, b"")
        return text.count(self.quote)

    def line_end(self, data: mmap.mmap, at: int) -> int:
        """Return the place behind the first line end from here on that is not escaped."""
        end = _line_end(data, at)
        while self.escape and end < len(data):
            escapes = end - 1
            while data[escapes - 1 : escapes] == self.escape:
                escapes -= 1
            if (end - 1 - escapes) % 2 == 0:
                break
            end = _line_end(data, end)
        return end


def _holds(data: mmap.mmap, start: int, wanted: Sequence[bytes]) -> bool:
    """Tell whether one of some single bytes is in a file, from a place on."""
    for at in range(start, len(data), RANGE_SIZE):
        if any(data.find(byte, at, at + RANGE_SIZE) >= 0 for byte in wanted):
            return True
        _let_go(data, at, at + RANGE_SIZE)
    return False


def _let_go(data: mmap.mmap, start: int, end: int) -> None:
    """Give back the memory of pages that were looked at; else a large file would fill it."""
    first = start - start % mmap.PAGESIZE
    data.madvise(mmap.MADV_DONTNEED, first, min(end, len(data)) - first)


def _record_end(data: mmap.mmap, start: int, at: int, marks: _Marks) -> int:
    """Return where a record seems to end, at some place or behind it.

    Args:
        data: The file.
        start: Where a record begins.
        at: The place.
        marks: Quotes that are opened before a record's end are closed.
    """
    first = marks.line_end(data, at)
    end, quotes = first, marks.opened(data[start:first])
    while quotes % 2 and end < len(data):
        if end - at > _LONGEST_LOOK:
            # Rather a lone quote in a field without quotes than such a long field.
            return first
        before, end = end, marks.line_end(data, end)
        quotes += marks.opened(data[before:end])
    return end


def _line_end(data: mmap.mmap, at: int) -> int:
    """Return the place behind the first line end from here on."""
    found = data.find(b"\n", at)
    return len(data) if found < 0 else found + 1

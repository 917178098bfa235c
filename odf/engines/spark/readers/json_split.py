"""Where a large JSON document can be cut, so that tasks read its array side by side.

The bytes are scanned for strings and brackets, a chunk at a time, with what Python does quickly to
bytes. Nothing relies on the scan being right: a document is JSON if what is around the array's
elements is, and each piece between two commas is a list of values; the one is checked here, the
other by the tasks. Where either is not, the document is read in one piece, which finds the words.
"""

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from odf.engines.spark.readers.json_records import (
    DocumentError,
    array_offset,
    document_records,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK: Final = 128 * 1024
_MOST_LEVELS: Final = 256
"""Levels of brackets inside one chunk after which a scan is given up; it takes time for each."""

_TO_BRACES: Final = bytes.maketrans(b"[]", b"{}")
_UNWANTED: Final = bytes(byte for byte in range(256) if byte not in b'"[]{}')
_TOKEN: Final = re.compile(rb'["\[\]{},]')


@dataclass(frozen=True, slots=True)
class Split:
    """An array and where it can be cut.

    Attributes:
        start: The byte behind its `[`.
        cuts: Places of commas between elements, ascending.
        end: Place of its `]`.
    """

    start: int
    cuts: tuple[int, ...]
    end: int

    def pieces(self) -> list[tuple[int, int]]:
        """Return start and end of each piece; the commas between them are left out."""
        starts = [self.start, *(cut + 1 for cut in self.cuts)]
        return list(zip(starts, [*self.cuts, self.end], strict=True))


def split_document(
    path: Path, start: int, names: tuple[str, ...], collection: str | None, range_size: int
) -> Split | None:
    """Find out where a document can be cut.

    Args:
        path: The file, in UTF-8.
        start: Where the document begins, behind a byte order mark.
        names: Of the members that lead to the array.
        collection: What the member `type` of the root has to be, if that matters.
        range_size: How many bytes a piece has at least.

    Returns:
        None if the document has to be read in one piece: it is not worth a cut, or not as it
        should be.
    """
    try:
        with path.open("rb") as file, _text(file, start) as text:
            first = start + array_offset(text, names)
        with path.open("rb") as file:
            split = _Scan(file, first, range_size).run()
        if split is None or not split.cuts:
            return None
        with (
            path.open("rb") as file,
            _text(io.BufferedReader(_Frame(file, start, split)), 0) as text,
        ):
            for _ in document_records(text, names, collection):
                return None
    except DocumentError:
        return None
    return split


def _text(file: IO[bytes], start: int) -> io.TextIOWrapper:
    if start:
        file.seek(start)
    return io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="")


class _Frame(io.RawIOBase):
    """A document without the elements of its array.

    Args:
        file: The document.
        start: Where it begins.
        split: Where the array is.
    """

    def __init__(self, file: IO[bytes], start: int, split: Split) -> None:
        self._file = file
        self._split = split
        file.seek(start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        if self._file.tell() == self._split.start:
            self._file.seek(self._split.end)
        if self._file.tell() < self._split.start:
            view = view[: self._split.start - self._file.tell()]
        piece = self._file.read(len(view))
        view[: len(piece)] = piece
        return len(piece)


class _Scan:
    """A walk over the bytes of an array.

    Args:
        file: The document.
        start: The byte behind the array's `[`.
        range_size: How many bytes a piece has at least.
    """

    def __init__(self, file: IO[bytes], start: int, range_size: int) -> None:
        self._file = file
        self._start = start
        self._range_size = range_size
        self._position = start
        self._target = start + range_size
        self._depth = 1
        self._in_string = False
        self._cuts: list[int] = []

    def run(self) -> Split | None:
        """Walk to the end of the array; None if that is not found."""
        self._file.seek(self._start)
        while chunk := self._next():
            lowest = self._depths(chunk)
            if lowest is None:
                return None
            is_wanted = self._target < self._position + len(chunk)
            if lowest.lowest <= 0 or (is_wanted and lowest.lowest <= 1):
                end = self._look_closely(chunk)
                if end is not None:
                    return Split(self._start, tuple(self._cuts), end)
            self._depth = lowest.after
            self._in_string = lowest.in_string
            self._position += len(chunk)
        return None

    def _next(self) -> bytes:
        """Read on, without cutting an escape sequence; escapes are made harmless."""
        chunk = self._file.read(_CHUNK)
        while (len(chunk) - len(chunk.rstrip(b"\\"))) % 2:
            more = self._file.read(1)
            if not more:
                break
            chunk += more
        # From the left, so that pairs of backslashes are found as they were meant.
        return chunk.replace(b"\\\\", b"__").replace(b'\\"', b"__") if b"\\" in chunk else chunk

    def _depths(self, chunk: bytes) -> "_Depths | None":
        """Find out how deep it goes in a chunk; None if that takes too long."""
        segments = chunk.translate(_TO_BRACES, _UNWANTED).split(b'"')
        outside = b"".join(segments[self._in_string :: 2])
        in_string = self._in_string ^ (len(segments) % 2 == 0)
        for _ in range(_MOST_LEVELS):
            shorter = outside.replace(b"{}", b"")
            if len(shorter) == len(outside):
                closed = outside.count(b"}")
                lowest = self._depth - closed
                return _Depths(lowest, lowest + outside.count(b"{"), in_string)
            outside = shorter
        return None

    def _look_closely(self, chunk: bytes) -> int | None:
        """Note where a chunk can be cut; return where the array ends, if it does."""
        depth, in_string = self._depth, self._in_string
        for found in _TOKEN.finditer(chunk):
            token = found[0]
            if token == b'"':
                in_string = not in_string
            elif in_string:
                continue
            elif token == b",":
                place = self._position + found.start()
                if depth == 1 and place >= self._target:
                    self._cuts.append(place)
                    self._target = place + 1 + self._range_size
            elif token in b"{[":
                depth += 1
            else:
                depth -= 1
                if not depth:
                    return self._position + found.start()
        return None


@dataclass(frozen=True, slots=True)
class _Depths:
    """What a chunk does to the depth of brackets.

    Attributes:
        lowest: The lowest depth in it.
        after: The depth behind it.
        in_string: Whether it ends inside a string.
    """

    lowest: int
    after: int
    in_string: bool

"""Ranges of CSV files with bytes that are not in the file's encoding; runs in Spark's workers.

Only rows that are set aside need this. Where a record ends is known whatever its texts are: the
characters that cut a file are ASCII, and no decoder swallows one of them with a bad byte. So a copy
of the range is made that can be read, and the rows with such bytes are known by their place.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from odf.engines.spark.readers.csv_errors import load_range
from odf.engines.spark.readers.csv_infer import CsvSeen, look_at
from odf.engines.spark.readers.csv_scan import scan
from odf.engines.spark.readers.csv_task import CsvRange, CsvTask, RangeResult, read_range

_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Mending:
    """A range with bytes that are not in its encoding.

    Attributes:
        task: The range as it is.
        copy: The file to make for a copy without such bytes.
    """

    task: CsvTask
    copy: str

    def mended(self, size: int) -> CsvTask:
        """Return the same task for the copy, which has so many bytes."""
        return replace(self.task, range=replace(self.task.range, path=self.copy, start=0, end=size))


def read_mended(mendings: Iterator[Mending]) -> Iterator[tuple[CsvTask, RangeResult]]:
    """Read ranges with a replacement character in the place of each bad byte.

    All records stay, with as many fields as they have.

    Returns:
        The tasks that read the copies, and what came of them.
    """
    pa.set_cpu_count(1)
    for mending in mendings:
        task = mending.mended(_copy(mending.task.range, mending.copy))
        yield task, read_range(task)


def _copy(piece: CsvRange, target: str) -> int:
    """Copy a range with replacement characters for bad bytes; return the size of the copy."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    left = piece.end - piece.start
    with Path(piece.path).open("rb") as file, Path(target).open("wb") as copy:
        file.seek(piece.start)
        while data := file.read(min(left, _PIECE)):
            left -= len(data)
            copy.write(decoder.decode(data, final=not left).encode())
        return copy.tell()


def look_at_mended(mendings: Iterator[Mending]) -> Iterator[CsvSeen]:
    """Find out what the columns of ranges hold in records without bad bytes."""
    pa.set_cpu_count(1)
    for mending in mendings:
        task = mending.task
        data, line = load_range(task.range)
        with Path(mending.copy).open("w", encoding="utf-8", newline="") as copy:
            for record in scan(data, line, task.form, len(task.columns)):
                if not record.undecodable:
                    copy.write(record.text + "\n")
            size = copy.tell()
        yield look_at(mending.mended(size))

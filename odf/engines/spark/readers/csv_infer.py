"""Which types the columns of CSV files have where `inferSchema` asks for it.

All fields of all files are looked at, by forms that are stricter than those of `texts`: what is
found is a type whose values give the same texts back, so nothing is lost by having it. The forms
are the live peer's, except that numbers with leading zeros are codes and stay texts.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import pyarrow as pa

from odf.data.datatypes import Column, DataType, Kind
from odf.engines.spark.readers import texts
from odf.engines.spark.readers.csv_task import (
    CsvTask,
    RangeResult,
    read_as_it_takes,
    text_batches,
)
from odf.engines.spark.readers.time_formats import TimeFormats

_INTEGER: Final = 1
_NUMBER: Final = 2
_BOOLEAN: Final = 4
_DATE: Final = 8
_TIMESTAMP: Final = 16
_TEXT: Final = 32

_TYPES: Final = {
    _INTEGER: DataType(Kind.INT64),
    _NUMBER: DataType(Kind.FLOAT64),
    _INTEGER | _NUMBER: DataType(Kind.FLOAT64),
    _BOOLEAN: DataType(Kind.BOOLEAN),
    _DATE: DataType(Kind.DATE),
    _TIMESTAMP: DataType(Kind.TIMESTAMP, precision=3, timezone="UTC"),
}

_INTEGER_FORM: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER_FORM: Final = re.compile(
    r"-?(?:(?:0|[1-9][0-9]*)?\.[0-9]+|(?:0|[1-9][0-9]*)\.[0-9]*|(?:0|[1-9][0-9]*)(?=[eE]))"
    r"(?:[eE][-+]?[0-9]+)?"
)
_BOOLEAN_FORM: Final = re.compile(r"(?:true|false)", re.IGNORECASE | re.ASCII)
_DATE_FORM: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP_FORM: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_INT64: Final = range(-(2**63), 2**63)


@dataclass(slots=True)
class CsvSeen:
    """What the columns of a range hold.

    Attributes:
        result: What is wrong with the range.
        sorts: Bits of the sorts of texts by column.
    """

    result: RangeResult
    sorts: list[int] = field(default_factory=list)


def look_at_ranges(tasks: Iterator[CsvTask]) -> Iterator[CsvSeen]:
    """Find out what the columns of the ranges of a partition hold."""
    pa.set_cpu_count(1)
    return (look_at(task) for task in tasks)


def inferred(names: Sequence[str], seen: Sequence[Sequence[int]]) -> tuple[Column, ...]:
    """Return the columns of files.

    A column of integers is BIGINT, of these and other numbers DOUBLE, of `true` and `false`
    BOOLEAN, of days DATE, of moments TIMESTAMP. Anything else, and nothing at all, is STRING.

    Args:
        names: Names of the columns.
        seen: Bits of the sorts of texts by column, of each range.
    """
    types = [_TYPES.get(sorts, DataType(Kind.STRING)) for sorts in _joined(names, seen)]
    return tuple(Column(name, dtype) for name, dtype in zip(names, types, strict=True))


def without_values(names: Sequence[str], seen: Sequence[Sequence[int]]) -> list[str]:
    """Return the names of columns in which every field is null."""
    found = _joined(names, seen)
    return [name for name, sorts in zip(names, found, strict=True) if not sorts]


def _joined(names: Sequence[str], seen: Sequence[Sequence[int]]) -> list[int]:
    found = [0] * len(names)
    for sorts in seen:
        found = [one | other for one, other in zip(found, sorts, strict=True)]
    return found


def look_at(task: CsvTask) -> CsvSeen:
    """Find out what the columns of a range hold."""
    sort_of = _sorter(task.form.times)
    return read_as_it_takes(task, partial(_look_in, sort_of), _broken)


def _broken(task: CsvTask, failure: str) -> CsvSeen:
    return CsvSeen(RangeResult(task.range.index, failure=failure), [0] * len(task.columns))


def _look_in(sort_of: Callable[[str], int], task: CsvTask, block_size: int) -> CsvSeen:
    seen = CsvSeen(RangeResult(task.range.index), [0] * len(task.columns))
    for batch in text_batches(task, block_size, seen.result):
        for position, column in enumerate(batch.columns):
            if not seen.sorts[position] & _TEXT:
                seen.sorts[position] |= _sorts(column, sort_of)
        seen.result.rows += batch.num_rows
    return seen


def _sorts(column: pa.Array, sort_of: Callable[[str], int]) -> int:
    if column.null_count == len(column):
        return 0
    found = 0
    for text in column.unique().to_pylist():
        if text is not None:
            found |= sort_of(text)
            if found & _TEXT:
                break
    return found


def _sorter(times: TimeFormats) -> Callable[[str], int]:
    days, micros = times.days(), times.micros()

    def sort_of(text: str) -> int:
        if times.date is not None and _reads(days, text):
            return _DATE
        if times.timestamp is not None and _reads(micros, text):
            return _TIMESTAMP
        if _INTEGER_FORM.fullmatch(text):
            return _INTEGER if int(text) in _INT64 else _TEXT
        if _NUMBER_FORM.fullmatch(text):
            return _NUMBER
        if _BOOLEAN_FORM.fullmatch(text):
            return _BOOLEAN
        if times.date is None and _DATE_FORM.fullmatch(text) and _reads(texts.days, text):
            return _DATE
        is_moment = times.timestamp is None and _TIMESTAMP_FORM.fullmatch(text)
        return _TIMESTAMP if is_moment and _reads(texts.micros, text) else _TEXT

    return sort_of


def _reads(parse: texts.Parse, text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True

"""Reads files of JSON objects with Spark: finds the columns if need be, collects the parts.

Lines are cut into ranges that tasks read side by side. A document is read by one task, element by
element: where an element begins is known only once everything before it was read.
"""

import codecs
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from odf.data.datatypes import Column
from odf.engines.host.engine import HIDDEN_PREFIX, SourceFile
from odf.engines.spark.parts import Parts
from odf.engines.spark.readers.csv import ORDINAL_BITS, RANGE_SIZE
from odf.engines.spark.readers.csv_task import MAX_PROBLEMS
from odf.engines.spark.readers.encodings import as_utf8
from odf.engines.spark.readers.json_format import (
    JsonColumn,
    JsonFormat,
    json_columns,
)
from odf.engines.spark.readers.json_infer import Seen, inferred_columns
from odf.engines.spark.readers.json_quarantine import JsonCleaning, clean_ranges
from odf.engines.spark.readers.json_task import (
    JsonRange,
    JsonResult,
    JsonTask,
    part_schema,
    row_positions,
    run_tasks,
)
from odf.engines.spark.readers.known import KnownColumns
from odf.engines.spark.readers.quarantine import Quarantine
from odf.errors import BadInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ORDINAL_MASK: Final = (1 << ORDINAL_BITS) - 1
_ARRAY_LINE: Final = "wanted an object, got an array"


@dataclass(frozen=True, slots=True)
class JsonSource:
    """What is to be read, kept to say where in the files a row came from.

    Attributes:
        names: What the user calls the files.
        ranges: The pieces of all of them, in order.
        form: How they are written.
        columns: The columns.
    """

    names: tuple[str, ...]
    ranges: tuple[JsonRange, ...]
    form: JsonFormat
    columns: tuple[JsonColumn, ...]

    def labels(self, rows: Sequence[int]) -> list[str]:
        """Say where rows are, given their values of the hidden row column."""
        wanted: dict[int, set[int]] = {}
        for row in rows:
            wanted.setdefault(row >> ORDINAL_BITS, set()).add(row & _ORDINAL_MASK)
        found = {}
        for index, within in wanted.items():
            piece = self.ranges[index]
            first = _first_line(piece) if self.form.lines else 0
            for row, position in row_positions(piece, self.form, within).items():
                found[index, row] = self._place(piece, first, position)
        return [found[row >> ORDINAL_BITS, row & _ORDINAL_MASK] for row in rows]

    def problems(self, result: JsonResult) -> list[str]:
        """Say what is wrong with a range."""
        piece = self.ranges[result.index]
        if result.failure is not None:
            return [f"{self.names[piece.file]}: {result.failure[0]}"]
        first = _first_line(piece) if self.form.lines else 0
        return [
            f"{self._place(piece, first, problem.position)}: {problem.said}"
            for problem in result.problems
        ]

    def _place(self, piece: JsonRange, first_line: int, position: int) -> str:
        name = self.names[piece.file]
        if self.form.lines:
            return f"{name}:{first_line + position}"
        return f"{name}: {'feature' if self.form.geo else 'element'} {position}"


def open_json(
    spark: "SparkSession",
    files: Sequence[SourceFile],
    form: JsonFormat,
    scratch: Path,
    known: KnownColumns,
    *,
    range_size: int = RANGE_SIZE,
    tolerant: bool = False,
) -> JsonSource:
    """Look at the files: where they can be cut, and which columns they have.

    Args:
        spark: The session whose tasks find columns that are not declared.
        files: The files in the order in which they count. Empty ones have no rows.
        form: How they are written.
        scratch: Folder for copies of files that are not in UTF-8.
        known: Columns that the dataset has already; used for those that are not declared.
        range_size: How many bytes a range has, about.
        tolerant: Records that cannot be read are passed over while columns are looked for.

    Raises:
        BadInputError: A file cannot be read while columns are looked for, or a column cannot be.
    """
    ranges: list[JsonRange] = []
    for number, file in enumerate(files):
        path = as_utf8(file, form.encoding, scratch / f"json-{number}.utf8", "JSON")
        for start, end in _cut(path, range_size if form.lines else None):
            ranges.append(JsonRange(len(ranges), number, path, start, end))
    source = JsonSource(tuple(file.name for file in files), tuple(ranges), form, ())
    columns = form.columns
    if columns is None:
        columns = _infer(spark, source, known, tolerant=tolerant)
    _check_not_hidden([column.name for column in columns])
    return replace(source, columns=json_columns(columns))


def read_json(
    spark: "SparkSession", source: JsonSource, scratch: Path, quarantine: Quarantine | None = None
) -> Parts:
    """Read all ranges into parts.

    Args:
        spark: The session whose tasks do it.
        source: What to read.
        scratch: Folder for the parts.
        quarantine: Takes bad records and values; without it they are an error.

    Raises:
        BadInputError: Some record or value is bad; then nothing of the files is to be used.
    """
    ranges = source.ranges if source.columns else ()
    tasks = [
        JsonTask(
            piece,
            source.form,
            source.columns,
            str(scratch / f"part-{piece.index:06}.parquet"),
            piece.index << ORDINAL_BITS,
        )
        for piece in ranges
    ]
    results = _run(spark, source, tasks, tolerant=quarantine is not None)
    rows = sum(result.rows for result in results if result.is_good)
    bad = [tasks[result.index] for result in results if not result.is_good]
    if bad and quarantine is not None:
        rows += _set_aside(spark, source, bad, quarantine)
    schema = part_schema(source.columns)
    return Parts(
        paths=tuple(task.output for task in tasks),
        schema=schema.remove(len(schema) - 1),
        rows=rows,
    )


def _set_aside(
    spark: "SparkSession", source: JsonSource, tasks: Sequence[JsonTask], quarantine: Quarantine
) -> int:
    """Read ranges anew without their bad rows; return how many good ones there are."""
    keys = quarantine.key_positions([column.name for column in source.columns])
    cleanings = [
        JsonCleaning(
            task,
            source.columns,
            source.names[task.range.file],
            _first_line(task.range) if source.form.lines else 0,
            quarantine.place(task.range.index),
            keys,
        )
        for task in tasks
    ]
    spread = spark.sparkContext.parallelize(cleanings, len(cleanings))
    return quarantine.take(
        sorted(spread.mapPartitions(clean_ranges).collect(), key=lambda one: one.index)
    )


def _infer(
    spark: "SparkSession", source: JsonSource, known: KnownColumns, *, tolerant: bool
) -> tuple[Column, ...]:
    tasks = [JsonTask(piece, source.form, None) for piece in source.ranges]
    seen = Seen()
    for result in _run(spark, source, tasks, tolerant=tolerant):
        if result.seen is not None:
            seen.join(result.seen)
    return inferred_columns(seen, known)


def _run(
    spark: "SparkSession", source: JsonSource, tasks: Sequence[JsonTask], *, tolerant: bool
) -> list[JsonResult]:
    if not tasks:
        return []
    spread = spark.sparkContext.parallelize(tasks, len(tasks))
    results = sorted(spread.mapPartitions(run_tasks).collect(), key=lambda result: result.index)
    if any(result.failure if tolerant else not result.is_good for result in results):
        _refuse(source, results)
    return results


def _refuse(source: JsonSource, results: Sequence[JsonResult]) -> NoReturn:
    problems: list[str] = []
    for result in results:
        if not result.is_good and len(problems) < MAX_PROBLEMS:
            problems += source.problems(result)
    problems = problems[:MAX_PROBLEMS]
    failures = [result.failure for result in results if result.failure is not None]
    bad = sum(result.bad for result in results)
    if failures:
        raise BadInputError(
            f"{problems[0]}; nothing was ingested",
            reason="json",
            problems=problems,
            hint=failures[0][1],
        )
    raise BadInputError(
        f"{problems[0]} ({bad} bad value{'s' if bad > 1 else ''} or record"
        f"{'s' if bad > 1 else ''}); nothing was ingested",
        reason="bad_rows",
        problems=problems,
        hint=_hint(problems[0]),
        details={"count": bad},
    )


def _hint(first: str) -> str:
    if first.endswith(_ARRAY_LINE):
        return (
            "each line has to be one JSON object with the names of the columns; a file with an "
            "array on each line can be converted by a Pipe step, a file that is one array is "
            "read by the read step Json"
        )
    return (
        "correct the file or the schema; a column with mixed values can be read as STRING and "
        "converted in the preprocess query"
    )


def _cut(path: str, range_size: int | None) -> list[tuple[int, int]]:
    """Return start and end of each range of a file; one range if no size is given."""
    size = Path(path).stat().st_size
    if not size:
        return []
    with (
        Path(path).open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        bom = len(codecs.BOM_UTF8)
        start = bom if data[:bom] == codecs.BOM_UTF8 else 0
        if range_size is None:
            return [(start, size)]
        ranges = []
        while start < size:
            line_end = data.find(b"\n", start + range_size - 1)
            end = size if line_end < 0 else line_end + 1
            ranges.append((start, end))
            start = end
        return ranges


def _first_line(piece: JsonRange) -> int:
    with Path(piece.path).open("rb") as file:
        return 1 + file.read(piece.start).count(b"\n")


def _check_not_hidden(names: Sequence[str]) -> None:
    for name in names:
        if name.casefold().startswith(HIDDEN_PREFIX):
            raise BadInputError(
                f"the column `{name}` has a name that the engine keeps for itself",
                reason="system_column",
                hint="declare the columns that are wanted in `schema`, without this one",
            )

"""Reads files of JSON objects with Spark: finds the columns if need be, collects the parts.

Lines are cut into ranges that tasks read side by side, and so is the array of a document, between
elements. A document that is not as it should be is read by one task, element by element.
"""

import codecs
import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from odf.data.datatypes import Column
from odf.engines.host.engine import HIDDEN_PREFIX, SourceFile
from odf.engines.spark.parts import Parts
from odf.engines.spark.readers.csv import ORDINAL_BITS
from odf.engines.spark.readers.csv_cut import RANGE_SIZE
from odf.engines.spark.readers.csv_task import MAX_PROBLEMS
from odf.engines.spark.readers.encodings import as_utf8
from odf.engines.spark.readers.hints import SET_ASIDE, TYPES, encoding_hint
from odf.engines.spark.readers.json_format import (
    JsonColumn,
    JsonFormat,
    json_columns,
)
from odf.engines.spark.readers.json_infer import Seen, inferred_columns
from odf.engines.spark.readers.json_quarantine import JsonCleaning, clean_ranges
from odf.engines.spark.readers.json_split import split_document
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
from odf.engines.spark.readers.shapefile_records import projection
from odf.engines.spark.readers.sniff import looks_like
from odf.errors import BadInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ORDINAL_MASK: Final = (1 << ORDINAL_BITS) - 1
_ARRAY_LINE: Final = "wanted an object, got an array"
_MOST_NAMES: Final = 8
_NOT_JSON: Final = re.compile(r": (not JSON: |wanted a)")
_NOT_TEXT: Final = re.compile(r": not [a-z0-9_-]+$")


@dataclass(frozen=True, slots=True)
class JsonSource:
    """What is to be read, kept to say where in the files a row came from.

    Attributes:
        names: What the user calls the files.
        ranges: The pieces of all of them, in order.
        form: How they are written.
        columns: The columns.
        members: Names of declared columns that some row has, and of members of the first row;
            known once they were read.
        elements: How many elements of a document are before each range that begins within one,
            by index; known once they were read.
    """

    names: tuple[str, ...]
    ranges: tuple[JsonRange, ...]
    form: JsonFormat
    columns: tuple[JsonColumn, ...]
    members: set[str] = field(default_factory=set)
    elements: dict[int, int] = field(default_factory=dict)

    def labels(self, rows: Sequence[int]) -> list[str]:
        """Say where rows are, given their values of the hidden row column."""
        wanted: dict[int, set[int]] = {}
        for row in rows:
            wanted.setdefault(row >> ORDINAL_BITS, set()).add(row & _ORDINAL_MASK)
        found = {}
        for index, within in wanted.items():
            piece = self.ranges[index]
            first = self.first(piece)
            for row, position in row_positions(piece, self.form, within).items():
                found[index, row] = self._place(piece, first, position)
        return [found[row >> ORDINAL_BITS, row & _ORDINAL_MASK] for row in rows]

    def problems(self, result: JsonResult) -> list[str]:
        """Say what is wrong with a range."""
        piece = self.ranges[result.index]
        if result.failure is not None:
            return [f"{self.names[piece.file]}: {result.failure[0]}"]
        first = self.first(piece)
        return [
            f"{self._place(piece, first, problem.position)}: {problem.said}"
            for problem in result.problems
        ]

    def first(self, piece: JsonRange) -> int:
        """Return the line on which a range begins, or how many elements are before it."""
        return _first_line(piece) if self.form.lines else self.elements.get(piece.index, 0)

    def count_elements(self, results: Sequence[JsonResult]) -> None:
        """Take note of how many elements each range has; all are given, in order."""
        before = 0
        for piece, result in zip(self.ranges, results, strict=True):
            if piece.index and self.ranges[piece.index - 1].file != piece.file:
                before = 0
            self.elements[piece.index] = before
            before += result.records

    def notes(self) -> tuple[str, ...]:
        """Say what about the files makes one wonder, though they can be read."""
        return (*self._planes(), *self._absent())

    def _planes(self) -> Iterator[str]:
        """Say which coordinates are no degrees, which whoever reads GeoJSON takes them for."""
        for piece in self.ranges if self.form.shapes else ():
            plane = projection(piece.path, self.form.path[0] if self.form.path else None)
            if plane is not None:
                yield (
                    f"{self.names[piece.file]}: its coordinates are in {plane!r}, not in degrees "
                    "of longitude and latitude; `geometry` has them as they are"
                )

    def _absent(self) -> tuple[str, ...]:
        """Say which declared columns no row has, though there are rows."""
        if self.form.columns is None or not self.members:
            return ()
        absent = [c.name for c in self.columns if c.name not in self.members]
        if not absent:
            return ()
        note = (
            f"{self.names[0]}: no row has {_listed(absent)}, which the schema declares; the rows "
            f"have {_listed(sorted(self.members))} (names are compared with their case)"
        )
        return (note,)

    def _place(self, piece: JsonRange, first: int, position: int) -> str:
        name = self.names[piece.file]
        if self.form.lines:
            return f"{name}:{first + position}"
        return f"{name}: {'feature' if self.form.geo else 'element'} {first + position}"


class UnfitPiece(Exception):  # noqa: N818  # it is found out what is wrong in another way
    """A piece of a document is not JSON, so the document has to be read in one piece."""


def open_json(
    spark: "SparkSession",
    files: Sequence[SourceFile],
    form: JsonFormat,
    scratch: Path,
    known: KnownColumns,
    *,
    range_size: int = RANGE_SIZE,
    tolerant: bool = False,
    cut_documents: bool = True,
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
        cut_documents: Whether to cut documents, too.

    Raises:
        BadInputError: A file cannot be read while columns are looked for, or a column cannot be.
        UnfitPiece: The files have to be opened anew, with documents in one piece.
    """
    ranges: list[JsonRange] = []
    for number, file in enumerate(files):
        path = as_utf8(file, form.encoding, scratch / f"json-{number}.utf8", "JSON")
        for start, end, is_piece in _cut(path, form, range_size, cut_documents=cut_documents):
            ranges.append(JsonRange(len(ranges), number, path, start, end, is_piece))
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
        UnfitPiece: The files have to be opened anew, with documents in one piece.
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
    for result in results:
        source.members.update(result.members)
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
            source.first(task.range),
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
    if any(result.failure and source.ranges[result.index].elements for result in results):
        raise UnfitPiece
    source.count_elements(results)
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
    first = next(source.ranges[result.index] for result in results if not result.is_good)
    if failures:
        raise BadInputError(
            f"{problems[0]}; nothing was ingested",
            reason="shapefile" if source.form.shapes else "json",
            problems=problems,
            hint=looks_like(first.path, _kind(source.form)) or failures[0][1],
        )
    raise BadInputError(
        f"{problems[0]} ({bad} bad value{'s' if bad > 1 else ''} or record"
        f"{'s' if bad > 1 else ''}); nothing was ingested",
        reason="bad_rows",
        problems=problems,
        hint=looks_like(first.path, _kind(source.form)) or _hint(source.form, problems[0]),
        details={"count": bad},
    )


def _kind(form: JsonFormat) -> str:
    if form.shapes:
        return "Shapefile"
    return "JSON lines" if form.lines else "JSON"


def _hint(form: JsonFormat, first: str) -> str:
    """Say what to do, given the first thing that is wrong."""
    if first.endswith(_ARRAY_LINE) and form.lines:
        return (
            "each line has to be one JSON object with the names of the columns; a file with an "
            "array on each line can be converted by a Pipe step, a file that is one array is "
            "read by the read step Json"
        )
    if first.endswith("'FeatureCollection'"):
        return "a FeatureCollection is read by the read step GeoJson"
    if _NOT_TEXT.search(first):
        return f"{encoding_hint(form.encoding)}; {SET_ASIDE}"
    if _NOT_JSON.search(first):
        what = "line" if form.lines else "element"
        kind = "GeoJSON Feature" if form.geo else "JSON object with the names of the columns"
        return f"each {what} has to be one {kind}; {SET_ASIDE}"
    return f"{TYPES}; {SET_ASIDE}"


def _cut(
    path: str, form: JsonFormat, range_size: int, *, cut_documents: bool
) -> list[tuple[int, int, bool]]:
    """Return start and end of each range of a file, and whether it is a piece of an array."""
    size = Path(path).stat().st_size
    if not size:
        return []
    with Path(path).open("rb") as file:
        bom = codecs.BOM_UTF8
        start = len(bom) if file.read(len(bom)) == bom else 0
    if form.lines:
        return [(*piece, False) for piece in _cut_lines(path, start, size, range_size)]
    if cut_documents and not form.shapes and size > range_size:
        split = split_document(Path(path), start, form.path, form.collection, range_size)
        if split is not None:
            return [(*piece, True) for piece in split.pieces()]
    return [(start, size, False)]


def _cut_lines(path: str, start: int, size: int, range_size: int) -> list[tuple[int, int]]:
    with (
        Path(path).open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
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


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_MOST_NAMES])
    return f"{shown}, …" if len(names) > _MOST_NAMES else shown


def _check_not_hidden(names: Sequence[str]) -> None:
    for name in names:
        if name.casefold().startswith(HIDDEN_PREFIX):
            raise BadInputError(
                f"the column `{name}` has a name that the engine keeps for itself",
                reason="system_column",
                hint="declare the columns that are wanted in `schema`, without this one",
            )

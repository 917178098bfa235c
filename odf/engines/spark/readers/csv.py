"""Reads CSV files with Spark: cuts them into ranges, has tasks parse these, collects the parts.

The values never pass the JVM: a task maps its range of the file, parses it with Arrow and writes
a part (spark-speed.md §A). Inside quotes a line end need not end a record, so files with quotes
are cut where it seems to, and every task proves that its range ends with a record. If one does not,
the file is read in one piece.
"""

import codecs
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.engines.host.engine import HIDDEN_PREFIX, SourceFile
from odf.engines.spark.parts import Parts
from odf.engines.spark.readers.csv_cut import RANGE_SIZE, cut_file
from odf.engines.spark.readers.csv_end import (
    EndsUnended,
    Unended,
    set_end_aside,
    unended_record,
)
from odf.engines.spark.readers.csv_errors import refuse_bad_rows
from odf.engines.spark.readers.csv_format import (
    CsvColumn,
    CsvFormat,
    text_columns,
    typed_columns,
)
from odf.engines.spark.readers.csv_hints import (
    SEPARATORS,
    names_in_another_order,
    separator_hint,
)
from odf.engines.spark.readers.csv_infer import inferred, look_at_ranges, without_values
from odf.engines.spark.readers.csv_mend import Mending, look_at_mended, read_mended
from odf.engines.spark.readers.csv_quarantine import CsvCleaning, clean_ranges
from odf.engines.spark.readers.csv_scan import UnreadableHeaderError, first_record
from odf.engines.spark.readers.csv_task import (
    ENCODING,
    UNCLOSED,
    CsvRange,
    CsvTask,
    RangeResult,
    part_schema,
    read_ranges,
)
from odf.engines.spark.readers.encodings import as_utf8
from odf.engines.spark.readers.hints import encoding_hint
from odf.engines.spark.readers.known import KnownColumns
from odf.engines.spark.readers.quarantine import Cleaned, Quarantine
from odf.engines.spark.readers.sniff import looks_like
from odf.errors import BadInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDINAL_BITS: Final = 40
"""Rows that a range can have, as a power of two."""

_BOM: Final = codecs.BOM_UTF8
_NO_ENDS: Final[Mapping[int, Unended]] = {}


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file that was looked at.

    Attributes:
        name: What the user calls it.
        path: Where it is in UTF-8.
        data_start: The byte after the header.
        size: Its size in bytes.
        first: Fields of the first record, none if there is no record.
        unended: What is behind its last byte, and not read.
    """

    name: str
    path: str
    data_start: int
    size: int
    first: tuple[str, ...]
    unended: Unended | None = None


@dataclass(frozen=True, slots=True)
class CsvSource:
    """What is to be read, kept to say where in the files a row came from.

    Attributes:
        files: The files.
        ranges: The pieces of all of them, in order.
        form: How they are written.
        columns: The columns.
        scratch: Folder for copies.
    """

    files: tuple[CsvFile, ...]
    ranges: tuple[CsvRange, ...]
    form: CsvFormat
    columns: tuple[CsvColumn, ...]
    scratch: Path

    def notes(self) -> tuple[str, ...]:
        """Say what about the files makes one wonder, though they can be read."""
        doubts = (_doubt(file, self.form, self.columns) for file in self.files)
        ends = (
            f"{file.name}:{file.unended.line}: {file.unended.problem}"
            for file in self.files
            if file.unended is not None
        )
        return (*(doubt for doubt in doubts if doubt), *ends)


class CutInsideQuotes(Exception):  # noqa: N818  # nothing is wrong with the file
    """A range ends inside quotes, so the file has to be read in one piece."""


def open_csv(
    files: Sequence[SourceFile],
    form: CsvFormat,
    scratch: Path,
    *,
    range_size: int = RANGE_SIZE,
    cut_quoted: bool = True,
    ends: Mapping[int, Unended] = _NO_ENDS,
) -> CsvSource:
    """Look at the files: headers, columns, where they can be cut.

    Args:
        files: The files in the order in which they count. Empty ones have no rows.
        form: How they are written.
        scratch: Folder for copies of files that are not in UTF-8.
        range_size: How many bytes a range has, about.
        cut_quoted: Whether to cut files with quotes; `check_cuts` tells if that went well.
        ends: Ends of files, by position, that are not to be read.

    Raises:
        BadInputError: The header does not fit the declared columns, or names a column twice.
    """
    looked = tuple(
        _look_at(file, form, scratch / f"csv-{number}.utf8") for number, file in enumerate(files)
    )
    looked = tuple(
        replace(file, size=ends[number].start, unended=ends[number]) if number in ends else file
        for number, file in enumerate(looked)
    )
    columns = _columns(looked, form)
    _check_not_hidden(columns)
    ranges: list[CsvRange] = []
    for number, file in enumerate(looked):
        _check_width(file, form, columns)
        for start, end, has_quotes in cut_file(
            file.path, file.data_start, file.size, form, range_size, cut_quoted=cut_quoted
        ):
            goes_on = end < file.size
            ranges.append(CsvRange(len(ranges), number, file.path, start, end, has_quotes, goes_on))
    return CsvSource(looked, tuple(ranges), form, columns, scratch)


def read_csv(
    spark: "SparkSession", source: CsvSource, scratch: Path, quarantine: Quarantine | None = None
) -> Parts:
    """Read all ranges into parts.

    Args:
        spark: The session whose tasks do it.
        source: What to read.
        scratch: Folder for the parts.
        quarantine: Takes bad fields and records; without it they are an error.

    Raises:
        BadInputError: Some field or record is bad; then nothing of the files is to be used.
        CutInsideQuotes: The files have to be opened anew, without cuts.
        EndsUnended: They have to be opened anew, without their ends; only with a quarantine.
    """
    tasks = [
        CsvTask(
            piece,
            source.form,
            source.columns,
            str(scratch / f"part-{piece.index:06}.parquet"),
            piece.index << ORDINAL_BITS,
        )
        for piece in source.ranges
    ]
    results: list[RangeResult] = []
    if tasks:
        spread = spark.sparkContext.parallelize(tasks, len(tasks))
        results = sorted(spread.mapPartitions(read_ranges).collect(), key=lambda r: r.index)
    check_cuts(source, results)
    if quarantine is not None and any(result.failure == ENCODING for result in results):
        _mend(spark, source, tasks, results)
        check_cuts(source, results)
    if quarantine is not None:
        _check_ends(source, results)
    bad = [result for result in results if not result.is_good or _is_mended(source, tasks, result)]
    rows = sum(result.rows for result in results) - sum(result.rows for result in bad)
    if bad and (quarantine is None or any(result.failure for result in bad)):
        refuse_bad_rows(source, results)
    elif bad and quarantine is not None:
        rows += _set_aside(spark, source, [tasks[result.index] for result in bad], quarantine)
    if quarantine is not None:
        quarantine.take(_ends_set_aside(source, quarantine))
    schema = part_schema(source.columns)
    return Parts(
        paths=tuple(task.output for task in tasks),
        schema=schema.remove(len(schema) - 1),
        rows=rows,
    )


def _mend(
    spark: "SparkSession", source: CsvSource, tasks: list[CsvTask], results: list[RangeResult]
) -> None:
    """Have ranges with bytes that are no text read from copies that can be read."""
    mendings = _mendings(source, tasks, results)
    spread = spark.sparkContext.parallelize(mendings, len(mendings))
    for task, result in spread.mapPartitions(read_mended).collect():
        tasks[result.index], results[result.index] = task, result


def _mendings(
    source: CsvSource, tasks: Sequence[CsvTask], results: Sequence[RangeResult]
) -> list[Mending]:
    return [
        Mending(tasks[result.index], str(source.scratch / f"mended-{result.index}.csv"))
        for result in results
        if result.failure == ENCODING
    ]


def _check_ends(source: CsvSource, results: Sequence[RangeResult]) -> None:
    """Look for files that can be read but for their last record.

    Raises:
        EndsUnended: There are some.
    """
    found = {number: file.unended for number, file in enumerate(source.files) if file.unended}
    known = len(found)
    for result in results:
        piece = source.ranges[result.index]
        if result.failure == UNCLOSED and piece.file not in found:
            end = unended_record(piece.path, piece.start, source.form)
            if end is not None:
                found[piece.file] = end
    if len(found) > known:
        raise EndsUnended(found)


def _ends_set_aside(source: CsvSource, quarantine: Quarantine) -> Iterator[Cleaned]:
    for number, file in enumerate(source.files):
        if file.unended is not None:
            index = len(source.ranges) + number
            yield set_end_aside(file.name, file.unended, quarantine.place(index), index)


def _is_mended(source: CsvSource, tasks: Sequence[CsvTask], result: RangeResult) -> bool:
    return tasks[result.index].range != source.ranges[result.index]


def _set_aside(
    spark: "SparkSession", source: CsvSource, tasks: Sequence[CsvTask], quarantine: Quarantine
) -> int:
    """Read ranges anew without their bad rows; return how many good ones there are."""
    keys = quarantine.key_positions([column.name for column in source.columns])
    cleanings = [
        CsvCleaning(
            task,
            source.files[task.range.file].name,
            quarantine.place(task.range.index),
            keys,
            origin=source.ranges[task.range.index],
        )
        for task in tasks
    ]
    spread = spark.sparkContext.parallelize(cleanings, len(cleanings))
    return quarantine.take(
        sorted(spread.mapPartitions(clean_ranges).collect(), key=lambda one: one.index)
    )


def infer_types(
    spark: "SparkSession", source: CsvSource, known: KnownColumns, *, tolerant: bool = False
) -> CsvSource:
    """Find out the types of columns by looking at all their fields.

    Args:
        spark: The session whose tasks do it.
        source: The files, with columns of texts.
        known: Columns that the dataset has already.
        tolerant: Records with a wrong number of fields are passed over.

    Raises:
        BadInputError: Some record is bad.
        CutInsideQuotes: The files have to be opened anew, without cuts.
        EndsUnended: They have to be opened anew, without their ends; only if tolerant.
    """
    tasks = [CsvTask(piece, source.form, source.columns, "", 0) for piece in source.ranges]
    if not tasks:
        names = [column.name for column in source.columns]
        return replace(source, columns=typed_columns(known.widened(inferred(names, ()), names)))
    spread = spark.sparkContext.parallelize(tasks, len(tasks))
    seen = sorted(spread.mapPartitions(look_at_ranges).collect(), key=lambda s: s.result.index)
    if tolerant and (mendings := _mendings(source, tasks, [one.result for one in seen])):
        spread = spark.sparkContext.parallelize(mendings, len(mendings))
        for one in spread.mapPartitions(look_at_mended).collect():
            seen[one.result.index] = one
    check_cuts(source, [one.result for one in seen])
    if tolerant:
        _check_ends(source, [one.result for one in seen])
    if any(one.result.failure if tolerant else not one.result.is_good for one in seen):
        refuse_bad_rows(source, [one.result for one in seen])
    names = [column.name for column in source.columns]
    sorts = [one.sorts for one in seen]
    columns = known.widened(inferred(names, sorts), without_values(names, sorts))
    return replace(source, columns=typed_columns(columns))


def check_cuts(source: CsvSource, results: Sequence[RangeResult]) -> None:
    """Make sure that every range but the last of its file ends with a record.

    The first range begins with a record. If it ends with one then the second begins with one, and
    so on.

    Raises:
        CutInsideQuotes: One does, so what was read of the ranges means nothing.
    """
    for result in results:
        if result.failure == UNCLOSED and _is_cut(source, source.ranges[result.index].file):
            raise CutInsideQuotes


def _is_cut(source: CsvSource, file: int) -> bool:
    """Tell whether a file is read in several pieces some of which have quotes."""
    size = source.files[file].size
    return any(
        piece.file == file and piece.has_quotes and piece.end < size for piece in source.ranges
    )


def _look_at(file: SourceFile, form: CsvFormat, copy: Path) -> CsvFile:
    path = as_utf8(file, form.encoding, copy, "CSV")
    size = Path(path).stat().st_size
    if size == 0:
        return CsvFile(file.name, path, 0, 0, ())
    with (
        Path(path).open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        start = len(_BOM) if data[: len(_BOM)] == _BOM else 0
        with memoryview(data) as view:
            try:
                first = first_record(view, start, form, file.name)
            except UnreadableHeaderError as error:
                hint = looks_like(path, "CSV") or encoding_hint(form.encoding)
                raise UnreadableHeaderError(error.message, hint) from None
        data_start = first.end if form.header else start
        return CsvFile(file.name, path, data_start, size, first.fields)


def _columns(files: Sequence[CsvFile], form: CsvFormat) -> tuple[CsvColumn, ...]:
    if form.columns is not None:
        return typed_columns(form.columns)
    with_rows = [file for file in files if file.first]
    if not with_rows:
        return ()
    first = with_rows[0]
    if not form.header:
        return text_columns(tuple(f"column_{n}" for n in range(1, len(first.first) + 1)))
    names = tuple(name or f"column_{n}" for n, name in enumerate(first.first, 1))
    _check_names(first.name, names)
    for other in with_rows[1:]:
        if other.first != first.first:
            raise BadInputError(
                f"{other.name} has other columns than {first.name}: wanted "
                f"{_listed(first.first)}, got {_listed(other.first)}",
                reason="csv",
                hint="declare the columns in `schema`; they are then matched by position",
            )
    return text_columns(names)


def _check_names(file: str, names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if name.casefold() in seen:
            raise BadInputError(
                f"{file}:1: the header has the columns `{seen[name.casefold()]}` and `{name}`, "
                "which are the same name",
                reason="csv",
                hint="declare the columns in `schema`; they are then matched by position",
            )
        seen[name.casefold()] = name


def _check_not_hidden(columns: Sequence[CsvColumn]) -> None:
    for column in columns:
        if column.name.casefold().startswith(HIDDEN_PREFIX):
            raise BadInputError(
                f"the column `{column.name}` has a name that the engine keeps for itself",
                reason="system_column",
                hint="declare the columns in `schema` under other names",
            )


def _check_width(file: CsvFile, form: CsvFormat, columns: Sequence[CsvColumn]) -> None:
    if form.header and file.first and len(file.first) != len(columns):
        raise BadInputError(
            f"{file.name}:1: wanted the {len(columns)} columns of the schema "
            f"({_listed([column.name for column in columns])}), got {len(file.first)} in the "
            f"header ({_listed(file.first)})",
            reason="csv",
            hint=looks_like(file.path, "CSV")
            or separator_hint(file, form, len(columns))
            or "check `schema` and `separator`; lines before the header are taken away by a Pipe "
            "step, for example with command: [tail, -n, '+2']",
        )


def _doubt(file: CsvFile, form: CsvFormat, columns: Sequence[CsvColumn]) -> str | None:
    if not form.header:
        return None
    if names_in_another_order(file, columns):
        return (
            f"{file.name}: the header has the columns of the schema in another order "
            f"({_listed(file.first)}); the schema names fields by position"
        )
    separators = [one for one in SEPARATORS if one in "".join(file.first)]
    if len(file.first) == 1 and form.columns is None and separators:
        return (
            f"{file.name}: the header is one column, {_listed(file.first)!r}: should `separator` "
            f"be {separators[0]!r}?"
        )
    return None


def _listed(names: Sequence[str]) -> str:
    most = 12
    shown = ", ".join(names[:most])
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)
    return shown if len(names) <= most else f"{shown}, …"

"""Reads CSV files with Spark: cuts them into ranges, has tasks parse these, collects the parts.

The values never pass the JVM: a task maps its range of the file, parses it with Arrow and writes
a part (spark-speed.md §A). Only a file without quotes can be cut, because inside quotes a line
end need not end a record.
"""

import codecs
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.engines.host.engine import HIDDEN_PREFIX, SourceFile
from odf.engines.spark.parts import Parts
from odf.engines.spark.readers.csv_errors import refuse_bad_rows
from odf.engines.spark.readers.csv_format import (
    CsvColumn,
    CsvFormat,
    text_columns,
    typed_columns,
)
from odf.engines.spark.readers.csv_infer import inferred, look_at_ranges, without_values
from odf.engines.spark.readers.csv_scan import first_record
from odf.engines.spark.readers.csv_task import (
    CsvRange,
    CsvTask,
    RangeResult,
    part_schema,
    read_ranges,
)
from odf.engines.spark.readers.encodings import as_utf8
from odf.engines.spark.readers.known import KnownColumns
from odf.errors import BadInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANGE_SIZE: Final = 16 * 1024 * 1024
"""Bytes of a file that one task reads; enough to be worth a task, small enough to share out."""

ORDINAL_BITS: Final = 40
"""Rows that a range can have, as a power of two."""

_BOM: Final = codecs.BOM_UTF8


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file that was looked at.

    Attributes:
        name: What the user calls it.
        path: Where it is in UTF-8.
        data_start: The byte after the header.
        size: Its size in bytes.
        first: Fields of the first record, none if there is no record.
    """

    name: str
    path: str
    data_start: int
    size: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CsvSource:
    """What is to be read, kept to say where in the files a row came from.

    Attributes:
        files: The files.
        ranges: The pieces of all of them, in order.
        form: How they are written.
        columns: The columns.
    """

    files: tuple[CsvFile, ...]
    ranges: tuple[CsvRange, ...]
    form: CsvFormat
    columns: tuple[CsvColumn, ...]


def open_csv(
    files: Sequence[SourceFile], form: CsvFormat, scratch: Path, *, range_size: int = RANGE_SIZE
) -> CsvSource:
    """Look at the files: headers, columns, where they can be cut.

    Args:
        files: The files in the order in which they count. Empty ones have no rows.
        form: How they are written.
        scratch: Folder for copies of files that are not in UTF-8.
        range_size: How many bytes a range has, about.

    Raises:
        BadInputError: The header does not fit the declared columns, or names a column twice.
    """
    looked = tuple(
        _look_at(file, form, scratch / f"csv-{number}.utf8") for number, file in enumerate(files)
    )
    columns = _columns(looked, form)
    _check_not_hidden(columns)
    ranges: list[CsvRange] = []
    for number, file in enumerate(looked):
        _check_width(file, form, columns)
        for start, end, has_quotes in _cut(file, form, range_size):
            ranges.append(CsvRange(len(ranges), number, file.path, start, end, has_quotes))
    return CsvSource(looked, tuple(ranges), form, columns)


def read_csv(spark: "SparkSession", source: CsvSource, scratch: Path) -> Parts:
    """Read all ranges into parts.

    Args:
        spark: The session whose tasks do it.
        source: What to read.
        scratch: Folder for the parts.

    Raises:
        BadInputError: Some field or record is bad; then nothing of the files is to be used.
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
    if not all(result.is_good for result in results):
        refuse_bad_rows(source, results)
    schema = part_schema(source.columns)
    return Parts(
        paths=tuple(task.output for task in tasks),
        schema=schema.remove(len(schema) - 1),
        rows=sum(result.rows for result in results),
    )


def infer_types(spark: "SparkSession", source: CsvSource, known: KnownColumns) -> CsvSource:
    """Find out the types of columns by looking at all their fields.

    Args:
        spark: The session whose tasks do it.
        source: The files, with columns of texts.
        known: Columns that the dataset has already.

    Raises:
        BadInputError: Some record is bad.
    """
    tasks = [CsvTask(piece, source.form, source.columns, "", 0) for piece in source.ranges]
    if not tasks:
        return source
    spread = spark.sparkContext.parallelize(tasks, len(tasks))
    seen = sorted(spread.mapPartitions(look_at_ranges).collect(), key=lambda s: s.result.index)
    if not all(one.result.is_good for one in seen):
        refuse_bad_rows(source, [one.result for one in seen])
    names = [column.name for column in source.columns]
    sorts = [one.sorts for one in seen]
    columns = known.widened(inferred(names, sorts), without_values(names, sorts))
    return replace(source, columns=typed_columns(columns))


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
            first = first_record(view, start, form, file.name)
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
            hint="check `schema` and `separator`",
        )


def _listed(names: Sequence[str]) -> str:
    most = 12
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, …"


def _cut(file: CsvFile, form: CsvFormat, range_size: int) -> list[tuple[int, int, bool]]:
    """Return start, end and whether there are quotes of each range of a file."""
    if file.data_start >= file.size:
        return []
    with (
        Path(file.path).open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        special = [c.encode() for c in (form.quote, form.escape) if c]
        if any(data.find(c, file.data_start) >= 0 for c in special):
            return [(file.data_start, file.size, True)]
        ranges = []
        start = file.data_start
        while start < file.size:
            line_end = data.find(b"\n", start + range_size - 1)
            end = file.size if line_end < 0 else line_end + 1
            ranges.append((start, end, False))
            start = end
        return ranges

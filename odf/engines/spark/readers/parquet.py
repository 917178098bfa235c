"""Reads Parquet files with Spark: each task takes a row group and casts its columns.

Without a schema the columns are those of the file; with one they are selected from it by name and
cast. A text is read by the rules that CSV has (`convert`); every other cast has to keep each value
exactly, except that timestamps are cut to microseconds here and to milliseconds by the merge.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.data.datatypes import Column, DataType, Kind, describe
from odf.data.read_options import describe_type
from odf.data.read_schema import declared_columns
from odf.data.types import arrow_name, conform, from_arrow, slice_type, to_arrow
from odf.engines.host.engine import HIDDEN_PREFIX, SourceFile
from odf.engines.spark.parts import ROW_COLUMN, Parts, PartWriter
from odf.engines.spark.readers.convert import converter
from odf.engines.spark.readers.csv_task import MAX_PROBLEMS
from odf.engines.spark.readers.hints import SET_ASIDE
from odf.engines.spark.readers.known import KnownColumns
from odf.engines.spark.readers.quarantine import (
    AsideWriter,
    Cleaned,
    Fault,
    Quarantine,
    leave_out,
)
from odf.engines.spark.readers.sniff import looks_like
from odf.errors import BadInputError
from odf.limits import MAX_SET_ASIDE_ROWS
from odf.metadata.model import ReadStepParquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MICROS: Final = pa.timestamp("us", "UTC")
_NANOS_PER_MICRO: Final = 1_000
_BATCH_ROWS: Final = 65_536
_STRING: Final = DataType(Kind.STRING)
_DAMAGED: Final = "check that the file is whole, and that it is Parquet"
_LONGEST_VALUE: Final = 80


@dataclass(frozen=True, slots=True)
class ParquetColumn:
    """A column as it is read.

    Attributes:
        name: Its name.
        type: The Arrow type that its values are read into.
        stored: The Arrow type that it has in a slice.
        nullable: Whether null is allowed.
        described: Its type for messages.
    """

    name: str
    type: pa.DataType
    stored: pa.DataType
    nullable: bool
    described: str


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """What is to be read, kept to say where in the files a row came from.

    Attributes:
        names: What the user calls the files.
        columns: The columns.
        groups: File, row group and number of its first row in all files, in order.
        first_rows: Number of the first row of each file in all files.
        paths: The files.
    """

    names: tuple[str, ...]
    columns: tuple[ParquetColumn, ...]
    groups: tuple[tuple[int, int, int], ...]
    first_rows: tuple[int, ...]
    paths: tuple[str, ...]

    def labels(self, rows: Sequence[int]) -> list[str]:
        """Say where rows are, given their values of the hidden row column."""
        found = []
        for row in rows:
            number = max(n for n, first in enumerate(self.first_rows) if first <= row)
            found.append(f"{self.names[number]}: row {row - self.first_rows[number] + 1}")
        return found


@dataclass(frozen=True, slots=True)
class _Task:
    """A row group to read.

    Attributes:
        path: The file.
        group: Which of its row groups.
        columns: The columns.
        output: The part file to write.
        first_row: Value of the hidden row column for the first row.
        aside: Where bad rows go; None if they are an error.
    """

    path: str
    group: int
    columns: tuple[ParquetColumn, ...]
    output: str
    first_row: int
    aside: "_Aside | None" = None


@dataclass(frozen=True, slots=True)
class _Aside:
    """Where the bad rows of a row group go.

    Attributes:
        index: Which of all row groups it is.
        name: What the user calls the file.
        first_row: Number of the first row of the file in all files.
        path: The file for the bad rows.
        keys: Positions of the columns whose values are kept.
    """

    index: int
    name: str
    first_row: int
    path: str
    keys: tuple[int, ...]


@dataclass(slots=True)
class _Result:
    """What came of a row group: its first bad values as row and words, and how many there are."""

    first_row: int
    rows: int = 0
    bad: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)
    failure: str | None = None
    keeps_faults: bool = False
    faults: dict[int, list[Fault]] = field(default_factory=dict)
    cleaned: Cleaned | None = None


def open_parquet(
    files: Sequence[SourceFile], step: ReadStepParquet, known: KnownColumns
) -> ParquetSource:
    """Look at the footers: which columns there are, and how many rows.

    Args:
        files: The files in the order in which they count. Empty ones have no rows.
        step: The declared columns, if any.
        known: Columns that the dataset has already; used for those that hold nothing but nulls.

    Raises:
        BadInputError: A file is not Parquet, or has not the columns that are declared or that
            the first file has.
    """
    declared = declared_columns(step)
    with_content = [file for file in files if Path(file.path).stat().st_size]
    groups: list[tuple[int, int, int]] = []
    first_rows = []
    columns: tuple[ParquetColumn, ...] = ()
    total = 0
    for number, file in enumerate(with_content):
        metadata, schema = _footer(file)
        found = (
            _of_file(file, schema, known) if declared is None else _selected(file, schema, declared)
        )
        if number and [(c.name, c.type) for c in found] != [(c.name, c.type) for c in columns]:
            raise BadInputError(
                f"{file.name} has other columns than {with_content[0].name}: wanted "
                f"{_listed(columns)}, got {_listed(found)}",
                reason="parquet",
                hint="declare the columns in `schema`; they are then selected by name",
            )
        columns = columns or found
        first_rows.append(total)
        for group in range(metadata.num_row_groups):
            groups.append((number, group, total))
            total += metadata.row_group(group).num_rows
    return ParquetSource(
        tuple(file.name for file in with_content),
        columns,
        tuple(groups),
        tuple(first_rows),
        tuple(file.path for file in with_content),
    )


def read_parquet_files(
    spark: "SparkSession",
    source: ParquetSource,
    scratch: Path,
    quarantine: Quarantine | None = None,
) -> Parts:
    """Read all row groups into parts.

    Args:
        spark: The session whose tasks do it.
        source: What to read.
        scratch: Folder for the parts.
        quarantine: Takes rows with values that do not fit; without it they are an error.

    Raises:
        BadInputError: Some value does not fit its column; then nothing is to be used.
    """
    tasks = [
        _Task(
            source.paths[number],
            group,
            source.columns,
            str(scratch / f"part-{index:06}.parquet"),
            first_row,
            None if quarantine is None else _aside(source, index, quarantine),
        )
        for index, (number, group, first_row) in enumerate(source.groups)
    ]
    results: list[_Result] = []
    if tasks:
        spread = spark.sparkContext.parallelize(tasks, len(tasks))
        results = sorted(spread.mapPartitions(_run).collect(), key=lambda r: r.first_row)
    if any(result.failure or (result.bad and quarantine is None) for result in results):
        _refuse(source, results)
    if quarantine is not None:
        quarantine.take(result.cleaned for result in results if result.cleaned is not None)
    schema = pa.schema([pa.field(c.name, c.type, c.nullable) for c in source.columns])
    return Parts(tuple(t.output for t in tasks), schema, sum(r.rows for r in results))


def _aside(source: ParquetSource, index: int, quarantine: Quarantine) -> "_Aside":
    number, _, _ = source.groups[index]
    keys = quarantine.key_positions([column.name for column in source.columns])
    first = source.first_rows[number]
    return _Aside(index, source.names[number], first, quarantine.place(index), keys)


def _footer(file: SourceFile) -> tuple[pq.FileMetaData, pa.Schema]:
    try:
        metadata = pq.read_metadata(file.path)
        return metadata, metadata.schema.to_arrow_schema().remove_metadata()
    except (pa.ArrowException, OSError) as error:
        raise BadInputError(
            f"{file.name} cannot be read as Parquet: {_one_line(error)}",
            reason="parquet",
            hint=looks_like(file.path, "Parquet") or _DAMAGED,
        ) from None


def _of_file(file: SourceFile, schema: pa.Schema, known: KnownColumns) -> tuple[ParquetColumn, ...]:
    found = []
    for part in schema:
        _check_not_hidden(part.name)
        _check_once(file, schema, part.name)
        if pa.types.is_null(part.type):
            # What wrote the file knew no type, as no row has a value.
            found.append(_column(Column(part.name, known.types.get(part.name, _STRING))))
            continue
        try:
            described = describe(from_arrow(part.type))
        except BadInputError as error:
            raise BadInputError(
                f"{file.name}: column `{part.name}`: {error.message}",
                reason="schema",
                hint="declare the columns that are wanted in `schema`, without this one; flat "
                "values can be read as STRING",
            ) from None
        stored = slice_type(part.type)
        target = _MICROS if pa.types.is_timestamp(part.type) else stored
        found.append(ParquetColumn(part.name, target, stored, True, described))
    return tuple(found)


def _selected(
    file: SourceFile, schema: pa.Schema, declared: Sequence[Column]
) -> tuple[ParquetColumn, ...]:
    found = []
    for column in declared:
        _check_not_hidden(column.name)
        if column.name not in schema.names:
            raise BadInputError(
                f"{file.name} has no column `{column.name}`; it has "
                f"{', '.join(f'`{name}`' for name in schema.names)}",
                reason="parquet",
                hint="columns of `schema` are selected by name, with its case",
            )
        _check_once(file, schema, column.name)
        found.append(_column(column))
    return tuple(found)


def _check_once(file: SourceFile, schema: pa.Schema, name: str) -> None:
    count = schema.names.count(name)
    if count > 1:
        raise BadInputError(
            f"{file.name} has {count} columns with the name `{name}`",
            reason="parquet",
            hint="declare the columns that are wanted in `schema`, without this one, or have the "
            "file written with a name for each",
        )


def _column(column: Column) -> ParquetColumn:
    stored = slice_type(to_arrow(column.type))
    target = _MICROS if pa.types.is_timestamp(stored) else stored
    if isinstance(target, pa.UuidType):
        target = pa.binary(16)
    return ParquetColumn(column.name, target, stored, column.nullable, describe_type(column.type))


def _check_not_hidden(name: str) -> None:
    if name.casefold().startswith(HIDDEN_PREFIX):
        raise BadInputError(
            f"the column `{name}` has a name that the engine keeps for itself",
            reason="system_column",
            hint="declare the columns that are wanted in `schema`, without this one",
        )


def _listed(columns: Sequence[ParquetColumn]) -> str:
    return ", ".join(f"{column.name} {column.described}" for column in columns)


def _run(tasks: Iterator[_Task]) -> Iterator[_Result]:
    # Other tasks run on the other processors.
    pa.set_cpu_count(1)
    return (_read(task) for task in tasks)


def _read(task: _Task) -> _Result:
    result = _Result(task.first_row, keeps_faults=task.aside is not None)
    read = 0
    fields = [pa.field(c.name, c.type, c.nullable) for c in task.columns]
    schema = pa.schema([*fields, pa.field(ROW_COLUMN, pa.int64(), nullable=False)])
    try:
        with (
            PartWriter(task.output, schema) as writer,
            pq.ParquetFile(task.path, memory_map=True) as file,
        ):
            names = [column.name for column in task.columns]
            batches = file.iter_batches(_BATCH_ROWS, row_groups=[task.group], columns=names)
            for batch in batches:
                first = task.first_row + read
                arrays = [_convert(batch.column(c.name), c, first, result) for c in task.columns]
                read += batch.num_rows
                arrays.append(pa.arange(first, first + batch.num_rows))
                if result.faults and task.aside is not None:
                    arrays = _set_aside(task.aside, task.columns, arrays, result)
                result.rows += len(arrays[-1])
                if task.aside is not None or not result.bad:
                    writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
    except (pa.ArrowException, OSError) as error:
        result.failure = _one_line(error)
    return result


def _set_aside(
    aside: _Aside, columns: Sequence[ParquetColumn], arrays: list[pa.Array], result: _Result
) -> list[pa.Array]:
    """Write down the bad rows of a batch; return its columns without them."""
    names = [*(column.name for column in columns), ROW_COLUMN]
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    first = arrays[-1][0].as_py()
    bad = sorted(row - first for row in result.faults)
    cleaned = result.cleaned or Cleaned(aside.index)
    labels = []
    with AsideWriter(aside.path, goes_on=result.cleaned is not None) as writer:
        for place in bad:
            number = first + place - aside.first_row + 1
            where = {"file": aside.name, "row": number}
            labels.append(f"{aside.name}: row {number}")
            writer.write(where, result.faults[first + place], None)
    result.faults.clear()
    cleaned.bad += len(bad)
    cleaned.too_many = cleaned.bad > MAX_SET_ASIDE_ROWS
    keys = pa.Table.from_batches([batch]).select([names[position] for position in aside.keys])
    cleaned.add_keys(keys.take(bad), labels)
    result.cleaned = cleaned
    return list(leave_out(batch, bad).columns)


def _convert(values: pa.Array, column: ParquetColumn, first_row: int, result: _Result) -> pa.Array:
    """Cast a column; note what does not fit."""
    values = _plain(values)
    try:
        found = _cast(values, column.type)
    except (pa.ArrowException, BadInputError, ValueError):
        found, bad = _cast_one_by_one(values, column)
        article = "an" if column.described[0] in "AEI" else "a"
        for row in bad:
            value = _value(values[row])
            shown = repr(value)
            shown = shown if len(shown) <= _LONGEST_VALUE else shown[:_LONGEST_VALUE] + "…"
            said = f"{shown} is not {article} {column.described}"
            _note(result, first_row + row, said, column, value)
        return found
    if not column.nullable and found.null_count:
        for row in pc.indices_nonzero(found.is_null()).to_pylist():
            _note(result, first_row + row, "null in a column that is NOT NULL", column, None)
    return found


def _value(scalar: pa.Scalar) -> object:
    """Return a value as Python knows it, or else in words: it has no nanoseconds of a day."""
    try:
        return scalar.as_py()
    except ValueError:
        pass
    try:
        return scalar.cast(pa.string()).as_py()
    except pa.ArrowException:
        return f"a {arrow_name(scalar.type)}"


def _one_line(error: Exception) -> str:
    words = " ".join(str(error).split())
    return "".join(c if c.isprintable() else "?" for c in words)


def _note(result: _Result, row: int, said: str, column: ParquetColumn, value: object) -> None:
    result.bad += 1
    if result.keeps_faults:
        fault = Fault(f"column `{column.name}`: {said}", column.name, value, column.described)
        result.faults.setdefault(row, []).append(fault)
    result.problems.append((row, f"column `{column.name}`: {said}"))
    result.problems = sorted(result.problems, key=lambda problem: problem[0])[:MAX_PROBLEMS]


def _plain(values: pa.Array) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return values


def _cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    t = pa.types
    source = values.type
    if source == target:
        return values
    if t.is_null(source):
        return pa.nulls(len(values), target)
    if t.is_timestamp(source) and target == _MICROS:
        return _to_micros(values)
    if (t.is_string(source) or t.is_large_string(source)) and not t.is_nested(target):
        convert = converter(target)
        if convert is not None:
            converted = convert(values.cast(pa.string()))
            if converted.bad:
                raise ValueError(converted.bad)
            return converted.values
    if t.is_nested(target):
        return conform(values, target)
    if t.is_temporal(target) and not t.is_temporal(source):
        # Arrow would take a number for ticks, of whatever unit the target has.
        raise ValueError(f"{source} is no {target}")
    return values.cast(target)


def _to_micros(values: pa.Array) -> pa.Array:
    """Return timestamps as microseconds UTC; finer digits are cut towards the past."""
    if values.type.unit != "ns":
        return values.cast(pa.timestamp("us", values.type.tz)).cast(_MICROS)
    ticks = values.cast(pa.int64())
    micros = pc.divide(ticks, _NANOS_PER_MICRO)
    late = pc.less(ticks, pc.multiply(micros, _NANOS_PER_MICRO)).cast(pa.int64())
    return pc.subtract(micros, late).cast(_MICROS)


def _cast_one_by_one(values: pa.Array, column: ParquetColumn) -> tuple[pa.Array, list[int]]:
    found, bad = [], []
    for row in range(len(values)):
        one = values.slice(row, 1)
        try:
            found.append(_cast(one, column.type))
        except (pa.ArrowException, BadInputError, ValueError):
            bad.append(row)
            found.append(pa.nulls(1, column.type))
    return pa.concat_arrays(found), bad


def _refuse(source: ParquetSource, results: Sequence[_Result]) -> NoReturn:
    for result in results:
        if result.failure is not None:
            (label,) = source.labels([result.first_row])
            raise BadInputError(
                f"{label.rpartition(':')[0]} cannot be read: {result.failure}; nothing was "
                "ingested",
                reason="parquet",
                hint=_DAMAGED,
            )
    found = [problem for result in results for problem in result.problems][:MAX_PROBLEMS]
    labels = source.labels([row for row, _ in found])
    problems = [f"{label}: {said}" for label, (_, said) in zip(labels, found, strict=True)]
    bad = sum(result.bad for result in results)
    raise BadInputError(
        f"{problems[0]} ({bad} bad value{'s' if bad > 1 else ''}); nothing was ingested",
        reason="bad_rows",
        problems=problems,
        hint="correct the file or the schema; a column can be declared as STRING and converted in "
        f"the preprocess query; {SET_ASIDE}",
        details={"count": bad},
    )

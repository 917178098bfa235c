"""Says which rows of CSV files are bad: file, line, column, value."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from odf.engines.spark.readers.csv_format import CsvColumn
from odf.engines.spark.readers.csv_hints import hint_for
from odf.engines.spark.readers.csv_scan import (
    count_lines,
    ends_escaped,
    locate,
    unclosed_quote_line,
    undecodable_line,
)
from odf.engines.spark.readers.csv_task import (
    ENCODING,
    MAX_PROBLEMS,
    UNCLOSED,
    BadCell,
    CsvRange,
    RangeResult,
)
from odf.errors import BadInputError

if TYPE_CHECKING:
    from odf.engines.spark.readers.csv import CsvSource

_LONGEST_VALUE: Final = 80


def refuse_bad_rows(source: "CsvSource", results: Sequence[RangeResult]) -> NoReturn:
    """Raise the error about everything that is wrong in some files.

    Args:
        source: What was read.
        results: What came of each range, in order.

    Raises:
        BadInputError: Always.
    """
    problems: list[str] = []
    told = list(_up_to_failures(source, results))
    for result in told:
        if result.is_good:
            continue
        piece = source.ranges[result.index]
        for problem in _problems(source, piece, result):
            problems.append(problem)
            if len(problems) == MAX_PROBLEMS:
                break
        if len(problems) == MAX_PROBLEMS:
            break
    counts = _count(source, told)
    raise BadInputError(
        f"{problems[0]} ({counts}); nothing was ingested",
        reason="bad_rows",
        problems=problems,
        hint=hint_for(source, told),
        details={"counts": counts},
    )


def _up_to_failures(source: "CsvSource", results: Sequence[RangeResult]) -> Iterator[RangeResult]:
    """Leave out what came of a file behind the first range that could not be parsed.

    Nothing proves that such a range ends with a record, so the next one may begin inside of one.
    """
    failed: set[int] = set()
    for result in results:
        file = source.ranges[result.index].file
        if file in failed:
            continue
        if result.failure:
            failed.add(file)
        yield result


def row_lines(source: "CsvSource", rows: Sequence[tuple[int, int]]) -> list[str]:
    """Return `FILE:LINE` of some rows.

    Args:
        source: What was read.
        rows: Index of the range and position of the row in it.
    """
    found: dict[tuple[int, int], str] = {}
    for index in {index for index, _ in rows}:
        piece = source.ranges[index]
        data, first_line = load_range(piece)
        wanted = [row for i, row in rows if i == index]
        for at in locate(data, first_line, source.form, len(source.columns), wanted, 0):
            if at.row is not None:
                found[index, at.row] = f"{source.files[piece.file].name}:{at.line}"
    return [found[row] for row in rows]


def _problems(source: "CsvSource", piece: CsvRange, result: RangeResult) -> Iterator[str]:
    name = source.files[piece.file].name
    data, first_line = load_range(piece)
    if result.failure == ENCODING:
        line = undecodable_line(data, first_line)
        yield f"{name}:{line}: not {source.form.encoding}"
        return
    if result.failure == UNCLOSED and ends_escaped(data, source.form):
        line = first_line + count_lines(data)
        yield f"{name}:{line}: the file ends with the escape character, and nothing behind it"
        return
    if result.failure == UNCLOSED:
        line = unclosed_quote_line(data, first_line, source.form)
        yield f"{name}:{line}: the quote that is opened here is never closed"
        return
    if result.failure:
        yield f"{name}: cannot be read as CSV: {result.failure}"
        return
    cells: dict[int, list[BadCell]] = {}
    for cell in result.bad_cells:
        cells.setdefault(cell.row, []).append(cell)
    width = len(source.columns)
    for at in locate(data, first_line, source.form, width, cells, min(result.ragged, MAX_PROBLEMS)):
        if at.row is None:
            yield f"{name}:{at.line}: wanted {width} fields, got {at.fields}"
            continue
        for cell in cells[at.row]:
            yield f"{name}:{at.line}: {describe_cell(source.columns[cell.column], cell)}"


def describe_cell(column: CsvColumn, cell: BadCell) -> str:
    """Say what is wrong with a field."""
    if cell.text is None:
        return f"column `{column.name}`: null in a column that is NOT NULL"
    text = cell.text if len(cell.text) <= _LONGEST_VALUE else cell.text[:_LONGEST_VALUE] + "…"
    article = "an" if column.described[0] in "AEI" else "a"
    return f"column `{column.name}`: {text!r} is not {article} {column.described}"


def _count(source: "CsvSource", results: Sequence[RangeResult]) -> str:
    by_column: dict[int, int] = {}
    for result in results:
        for position, count in result.bad_counts.items():
            by_column[position] = by_column.get(position, 0) + count
    ragged = sum(result.ragged for result in results)
    said = [
        f"{count} bad value{'s' if count > 1 else ''} in `{source.columns[position].name}`"
        for position, count in sorted(by_column.items())
    ]
    if ragged:
        said.append(f"{ragged} record{'s' if ragged > 1 else ''} with a wrong number of fields")
    broken = sum(result.failure is not None for result in results)
    if broken:
        said.append("the rest of the file was not looked at")
    return ", ".join(said)


def load_range(piece: CsvRange) -> tuple[bytes, int]:
    """Return the bytes of a range and the line on which it begins."""
    with Path(piece.path).open("rb") as file:
        before = file.read(piece.start)
        return file.read(piece.end - piece.start), 1 + count_lines(before)

"""What to do next about a CSV file that cannot be read: guesses from the first thing wrong."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from odf.engines.spark.readers.csv_format import CsvColumn, CsvFormat
from odf.engines.spark.readers.csv_task import ENCODING, UNCLOSED, BadCell, RangeResult
from odf.engines.spark.readers.hints import SET_ASIDE, TYPES, encoding_hint
from odf.engines.spark.readers.sniff import looks_like
from odf.limits import MAX_UNENDED_RECORD

if TYPE_CHECKING:
    from odf.engines.spark.readers.csv import CsvFile, CsvSource

SEPARATORS: Final = ";\t|,:"
"""Characters that are usual between fields, the likeliest first."""

_DECIMAL_COMMA: Final = re.compile(r"[-+]?[0-9.' ]*,[0-9]+")
_THOUSANDS: Final = re.compile(r"[-+]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")
_ZONE: Final = re.compile(r"[ \[]*\b([A-Z][A-Za-z]+/[A-Za-z_/]+)\]?$")
_ABSENT: Final = frozenset({"null", "none", "na", "n/a", "nan", "-", "--", ".", "?", "\\n", "#n/a"})


def hint_for(source: "CsvSource", results: Sequence[RangeResult]) -> str:
    """Say what to do about the first thing that is wrong with what was read.

    Args:
        source: What was read.
        results: What came of it; not all of it is good.
    """
    first = next(result for result in results if not result.is_good)
    file = source.files[source.ranges[first.index].file]
    if first.failure == UNCLOSED:
        return _unclosed(source.form)
    if found := looks_like(file.path, "CSV"):
        return found
    if first.failure == ENCODING:
        return f"{encoding_hint(source.form.encoding)}; {SET_ASIDE}"
    if first.failure:
        return "check `separator`, `quote` and `encoding` of the read step"
    if first.bad_cells:
        cell = first.bad_cells[0]
        if not source.form.header and first.index == 0 and _is_header(source.columns, cell):
            return "the first line seems to hold names: set `header: true` in the read step"
        return f"{_value(source.columns[cell.column], cell, source.form)}; {SET_ASIDE}"
    return f"{_ragged(file, source.form, len(source.columns))}; {SET_ASIDE}"


def separator_hint(file: "CsvFile", form: CsvFormat, width: int) -> str | None:
    """Guess the separator from the first record of a file, if another one gives all columns."""
    line = form.separator.join(file.first)
    for separator in SEPARATORS:
        if separator != form.separator and len(line.split(separator)) == width > 1:
            return f"the fields seem to be separated by {separator!r}: set `separator` so"
    return None


def names_in_another_order(file: "CsvFile", columns: Sequence[CsvColumn]) -> bool:
    """Tell whether a header has the names of the declared columns, but elsewhere."""
    found = [name.casefold().strip() for name in file.first]
    declared = [column.name.casefold() for column in columns]
    return found != declared and sorted(found) == sorted(declared)


def _unclosed(form: CsvFormat) -> str:
    if form.quote is None:
        return "correct the end of the file, or check `escape` of the read step"
    return (
        f"close it in the file, or if {form.quote} is an ordinary character there, turn quoting "
        "off with `quote: ''` in the read step; --on-bad-rows quarantine sets aside the rest of "
        f"the file from that row on, if that is not more than {MAX_UNENDED_RECORD} bytes"
    )


def _is_header(columns: Sequence[CsvColumn], cell: BadCell) -> bool:
    name = columns[cell.column].name
    return cell.row == 0 and (cell.text or "").strip().casefold() == name.casefold()


def _ragged(file: "CsvFile", form: CsvFormat, width: int) -> str:
    if guess := separator_hint(file, form, width):
        return guess
    if form.header and len(file.first) == 1:
        return (
            "line 1 is taken for the header: set `separator`, or take away lines before the header "
            "by a Pipe step, for example with command: [tail, -n, '+2']"
        )
    return "correct the file, or check `separator` and `quote` of the read step and `schema`"


def _value(column: CsvColumn, cell: BadCell, form: CsvFormat) -> str:
    """Say what to do about a field that is no value of its column."""
    text = (cell.text or "").strip()
    if cell.text is None:
        return "correct the file, or declare the column without NOT NULL"
    if text.casefold() in _ABSENT:
        return f"if {cell.text!r} means that there is no value, set `nullValue: {cell.text!r}`"
    if pa.types.is_date(column.type) and form.times.date is None:
        return "name how dates are written in `dateFormat`, for example dd/MM/yyyy"
    if pa.types.is_timestamp(column.type) and (zone := _ZONE.search(text)):
        return (
            "names of time zones are not read, as what they mean changes: read the column as "
            "STRING, and convert it in the preprocess query: "
            f"to_utc_timestamp(left(`{column.name}`, {zone.start()}), '{zone[1]}')"
        )
    if pa.types.is_timestamp(column.type) and form.times.timestamp is None:
        return "name how times are written in `timestampFormat`, for example dd/MM/yyyy HH:mm:ss"
    is_number = pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
    if (is_number or pa.types.is_integer(column.type)) and _THOUSANDS.fullmatch(text):
        return _converted(column, f"replace(`{column.name}`, ',', '')")
    if is_number and _DECIMAL_COMMA.fullmatch(text):
        return _converted(column, f"replace(`{column.name}`, ',', '.')")
    return TYPES


def _converted(column: CsvColumn, expression: str) -> str:
    return (
        "read the column as STRING and convert it in the preprocess query: "
        f"cast({expression} as {column.described})"
    )

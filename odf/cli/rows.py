"""Rows of data, for people and as JSON: every Arrow type, exactly.

People see `NULL` for a missing value, and text as it is unless that could be taken for something
else. JSON has null, numbers where JSON has them, and text for the rest: times RFC 3339 in UTC,
decimals in full, `NaN` and infinities by name, binary as base16.
"""

import datetime as dt
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from odf.cli.output import Cell, Column, Output
from odf.cli.tables import natural_width
from odf.errors import OdfError
from odf.metadata.model import OperationType, Timestamp

NULL: Final = "NULL"
OPERATIONS: Final[dict[object, str]] = {op.value: op.sign for op in OperationType}
_OPERATION_STYLES: Final = {"+A": "green", "-R": "red", "-C": "yellow", "+C": "yellow"}
_NANOS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
_FRACTION: Final = re.compile(r"\.\d+Z$")
_MILLIS_PER_DAY: Final = 86_400_000

_Convert = Callable[[Any], object]


def columns_to_json(table: pa.Table) -> list[dict[str, object]]:
    """Describe the columns: name, Arrow type, and whether they may be null."""
    return [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in table.schema
    ]


def rows_to_json(table: pa.Table, operation_column: str) -> list[dict[str, object]]:
    """Turn rows into JSON objects.

    Args:
        table: The rows.
        operation_column: The column of operations, which become `+A`, `-R`, `-C`, `+C`.
    """
    columns = _values(table, operation_column)
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def print_rows(
    output: Output, table: pa.Table, operation_column: str, system_time_column: str = ""
) -> None:
    """Print rows as a table.

    On a terminal that is too narrow times lose their fractions of seconds, then the system time
    goes, then texts are cut with `…`, then columns go from the right; what is not shown is named
    below the table. Numbers and times are never cut.

    Args:
        output: Where to print.
        table: The rows.
        operation_column: The column of operations.
        system_time_column: The column that is missed least.
    """
    columns = [
        Column(
            field.name,
            align="right" if _is_number(field.type) else "left",
            shrink=not (_is_number(field.type) or pa.types.is_timestamp(field.type)),
            drop=place,
            drop_first=field.name == system_time_column,
        )
        for place, field in enumerate(table.schema)
    ]
    cells = [
        [_cell(value, field.name == operation_column) for value in values]
        for field, values in zip(table.schema, _values(table, operation_column), strict=True)
    ]
    if natural_width(columns, _rows(cells)) > output.width:
        cells = [
            [_to_the_second(cell) for cell in column]
            if pa.types.is_timestamp(field.type)
            else column
            for field, column in zip(table.schema, cells, strict=True)
        ]
    output.table(columns, _rows(cells))


def _rows(columns: Sequence[Sequence[str | Cell]]) -> list[tuple[str | Cell, ...]]:
    return list(zip(*columns, strict=True))


def _to_the_second(cell: str | Cell) -> str | Cell:
    """Cut the fraction of a second off a time; times outside RFC 3339 stay as they are."""
    return _FRACTION.sub("Z", cell) if isinstance(cell, str) else cell


def _values(table: pa.Table, operation_column: str) -> list[list[object]]:
    """Return the values of each column, ready for JSON."""
    return [
        [
            OPERATIONS.get(value, value) if field.name == operation_column else value
            for value in _column_values(table.column(place), field.type)
        ]
        for place, field in enumerate(table.schema)
    ]


def _column_values(column: pa.ChunkedArray, type_: pa.DataType) -> list[object]:
    storage, convert = _converter(type_)
    if storage is not None:
        column = column.cast(storage)
    return [None if value is None else convert(value) for value in column.to_pylist()]


def _converter(type_: pa.DataType) -> tuple[pa.DataType | None, _Convert]:
    """Return what to cast a column to first, and what makes its values ready for JSON.

    Times are taken as integers: Python's own times end at the microsecond and the year 9999.
    """
    if pa.types.is_timestamp(type_):
        return pa.int64(), lambda value: _timestamp(value, type_.unit)
    if pa.types.is_time(type_):
        integer = pa.int32() if type_.bit_width == 32 else pa.int64()  # noqa: PLR2004
        return integer, lambda value: _time_of_day(value * _NANOS[type_.unit])
    if pa.types.is_duration(type_):
        return pa.int64(), lambda value: f"{value} {type_.unit}"
    if pa.types.is_date32(type_):
        return pa.int32(), _date
    if pa.types.is_date64(type_):
        return pa.int64(), lambda value: _date(value // _MILLIS_PER_DAY)
    if pa.types.is_float32(type_):
        return None, lambda value: _plain(_shortest_float(value))
    return None, _plain


def _plain(value: Any) -> object:  # noqa: C901 - one line for each Python type
    """Turn what Arrow hands out into what JSON knows."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return value
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime):
        return str(Timestamp.from_datetime(value if value.tzinfo else value.replace(tzinfo=dt.UTC)))
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


def _timestamp(value: int, unit: str) -> str:
    try:
        return str(Timestamp(value * _NANOS[unit]))
    except OdfError:  # outside the years that RFC 3339 can write
        return f"{value} {unit} since 1970"


def _shortest_float(value: float) -> float:
    """Return the number with the fewest digits that is the same 32-bit float."""
    exact = struct.pack("f", value)
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if struct.pack("f", short) == exact:
            return short
    return value


def _date(days: int) -> str:
    try:
        return (dt.date(1970, 1, 1) + dt.timedelta(days=days)).isoformat()
    except OverflowError:
        return f"{days} days since 1970"


def _time_of_day(nanos: int) -> str:
    seconds, fraction = divmod(nanos, _NANOS["s"])
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{clock}.{fraction:09}".rstrip("0") if fraction else clock


def _cell(value: object, is_operation: bool) -> str | Cell:
    """Show one value to a person."""
    if value is None:
        return Cell(NULL, "dim")
    if isinstance(value, str):
        if is_operation:
            return Cell(value, _OPERATION_STYLES.get(value, ""))
        ambiguous = value in ("", NULL) or value[0] == '"' or value != value.strip()
        return json.dumps(value, ensure_ascii=False) if ambiguous else value
    return json.dumps(value, ensure_ascii=False)


def _is_number(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )

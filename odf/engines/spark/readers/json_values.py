"""JSON values into typed columns, with the path of every value that does not fit.

A text in a typed column is read by the rules that CSV has (`texts`), so that the same text means
the same in every format. A column of texts takes numbers as they are written, and everything else
as compact JSON.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Final

import pyarrow as pa

from odf.data.datatypes import Column, DataType, Kind
from odf.data.read_options import describe_type
from odf.engines.spark.readers import texts
from odf.engines.spark.readers.convert import Converter, converter
from odf.engines.spark.readers.json_format import JsonColumn
from odf.engines.spark.readers.json_text import Written, as_written, kind_of
from odf.engines.spark.readers.time_formats import TimeFormats

_LONGEST_VALUE: Final = 80
_MICROS_PER_MILLI: Final = 1_000
_INTEGERS: Final = {
    Kind.INT8: (-(2**7), 2**7 - 1),
    Kind.INT16: (-(2**15), 2**15 - 1),
    Kind.INT32: (-(2**31), 2**31 - 1),
    Kind.INT64: (-(2**63), 2**63 - 1),
    Kind.UINT8: (0, 2**8 - 1),
    Kind.UINT16: (0, 2**16 - 1),
    Kind.UINT32: (0, 2**32 - 1),
    Kind.UINT64: (0, 2**64 - 1),
}
_MAX_INTEGER_DIGITS: Final = 40

_Reader = Callable[[object, str], object]


class BadValueError(Exception):
    """A value does not fit its type.

    Args:
        path: Where it is in the record, for example `tags[2].name`.
        said: What is wrong with it.
    """

    def __init__(self, path: str, said: str) -> None:
        super().__init__(said)
        self.path = path
        self.said = said


@dataclass(frozen=True, slots=True)
class BadValue:
    """A value that does not fit.

    Attributes:
        row: Position in the batch.
        said: What and where it is in the record, in words.
    """

    row: int
    said: str


class ColumnReader:
    """Makes the array of a column.

    Args:
        column: The column.
        times: How dates and timestamps are written.
    """

    def __init__(self, column: JsonColumn, times: TimeFormats) -> None:
        self.column = column
        self._plain = _PLAIN.get(column.declared.kind)
        self._texts = None if column.declared.kind is Kind.STRING else _text_reader(column, times)
        self._one = _reader(column.declared, times, nested=False)

    def read(self, values: list[object]) -> tuple[pa.Array, list[BadValue]]:
        """Return the values as an array, null where one is bad, and those."""
        array = self._quickly(values)
        if array is None:
            return self._slowly(values)
        if self.column.nullable or not array.null_count:
            return array, []
        nulls = [row for row, value in enumerate(values) if value is None]
        return array, [BadValue(row, self._null()) for row in nulls]

    def _quickly(self, values: list[object]) -> pa.Array | None:
        kinds = {type(value) for value in values} - {type(None)}
        if self._plain is not None and kinds <= self._plain:
            try:
                if Written in kinds or self.column.declared.kind is Kind.FLOAT64:
                    return pa.array([None if v is None else float(v) for v in values], pa.float64())  # type: ignore[arg-type]
                return pa.array(values, self.column.type)
            except (pa.ArrowInvalid, OverflowError, UnicodeError):
                return None
        if self._texts is not None and kinds == {str}:
            try:
                converted = self._texts(pa.array(values, pa.string()))
            except UnicodeError:
                return None
            return None if converted.bad else converted.values
        return None

    def _slowly(self, values: list[object]) -> tuple[pa.Array, list[BadValue]]:
        found: list[object] = []
        bad: list[BadValue] = []
        for row, value in enumerate(values):
            result = None
            if value is None:
                if not self.column.nullable:
                    bad.append(BadValue(row, self._null()))
            else:
                try:
                    result = self._one(value, self.column.name)
                except BadValueError as error:
                    bad.append(BadValue(row, f"`{error.path}`: {error.said}"))
            found.append(result)
        return pa.array(found, self.column.type), bad

    def _null(self) -> str:
        return f"`{self.column.name}`: null in a column that is NOT NULL"


_PLAIN: Final[dict[Kind, frozenset[type]]] = {
    Kind.STRING: frozenset({str}),
    Kind.BOOLEAN: frozenset({bool}),
    Kind.FLOAT64: frozenset({int, Written}),
    **{kind: frozenset({int}) for kind in _INTEGERS},
}
"""What Python has for the values that need no look at each."""


def _text_reader(column: JsonColumn, times: TimeFormats) -> Converter | None:
    nested = column.declared.kind in (Kind.ARRAY, Kind.STRUCT)
    return None if nested else converter(column.type, times)


def _reader(declared: DataType, times: TimeFormats, *, nested: bool) -> _Reader:
    match declared.kind:
        case Kind.ARRAY:
            return _array_reader(declared.element, times)
        case Kind.STRUCT:
            return _struct_reader(declared.fields, times)
        case Kind.STRING:
            return _read_text
    return _scalar_reader(declared, times, nested=nested)


def _array_reader(element: Column, times: TimeFormats) -> _Reader:
    one = _reader(element.type, times, nested=True)

    def read(value: object, path: str) -> object:
        if not isinstance(value, list):
            raise BadValueError(path, f"wanted an array, got {kind_of(value)}")
        found = []
        for position, part in enumerate(value):
            if part is None and not element.nullable:
                raise BadValueError(f"{path}[{position}]", "null in an array without nulls")
            found.append(None if part is None else one(part, f"{path}[{position}]"))
        return found

    return read


def _struct_reader(fields: tuple[Column, ...], times: TimeFormats) -> _Reader:
    readers = [(field, _reader(field.type, times, nested=True)) for field in fields]

    def read(value: object, path: str) -> object:
        if not isinstance(value, dict):
            raise BadValueError(path, f"wanted an object, got {kind_of(value)}")
        found = {}
        for field, one in readers:
            part = value.get(field.name)
            if part is None and not field.nullable:
                raise BadValueError(f"{path}.{field.name}", "null in a field that is NOT NULL")
            found[field.name] = None if part is None else one(part, f"{path}.{field.name}")
        return found

    return read


def _read_text(value: object, path: str) -> str:
    try:
        text = as_written(value)
        text.encode()
    except UnicodeError:
        raise BadValueError(path, "it is not Unicode text") from None
    except RecursionError:
        raise BadValueError(path, "it is nested too deeply") from None
    return text


def _scalar_reader(declared: DataType, times: TimeFormats, *, nested: bool) -> _Reader:
    described = describe_type(declared)
    article = "an" if described[0] in "AEI" else "a"
    parse = _parser(declared, times, nested=nested)
    takes_numbers = declared.kind in _INTEGERS or declared.kind in _NUMBERS

    def read(value: object, path: str) -> object:
        if declared.kind is Kind.BOOLEAN and isinstance(value, bool):
            return value
        is_number = isinstance(value, Written) or type(value) is int
        if takes_numbers if is_number else isinstance(value, str):
            try:
                return parse(_integral(value) if declared.kind in _INTEGERS else str(value))
            except (ValueError, ArithmeticError):
                pass
        raise BadValueError(path, f"{_shown(value)} is not {article} {described}")

    return read


_NUMBERS: Final = (Kind.FLOAT32, Kind.FLOAT64, Kind.DECIMAL)


def _integral(value: object) -> str:
    """Return a number as a text without fraction if it has none: `1.0` and `1e3` are integers."""
    if not isinstance(value, Written):
        return str(value)
    number = Decimal(value)
    if number.adjusted() > _MAX_INTEGER_DIGITS or number != number.to_integral_value():
        raise ValueError(value)
    return str(int(number))


def _parser(declared: DataType, times: TimeFormats, *, nested: bool) -> texts.Parse:
    match declared.kind:
        case Kind.FLOAT32:
            return texts.single
        case Kind.FLOAT64:
            return texts.double
        case Kind.BOOLEAN:
            return texts.boolean
        case Kind.DATE:
            return times.days()
        case Kind.TIME:
            return texts.time_of_day
        case Kind.UUID:
            return texts.uuid
        case Kind.DECIMAL:
            return _decimals(declared)
        case Kind.TIMESTAMP:
            micros = times.micros()
            return (lambda text: micros(text) // _MICROS_PER_MILLI) if nested else micros
    return texts.integer(*_INTEGERS[declared.kind])


def _decimals(declared: DataType) -> texts.Parse:
    parse = texts.decimal(declared.precision, declared.scale)
    exact = Context(prec=declared.precision + declared.scale + 1)
    return lambda text: Decimal(parse(text)).scaleb(-declared.scale, exact)


def _shown(value: object) -> str:
    if isinstance(value, str) and not isinstance(value, Written):
        return _short(value)
    text = as_written(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _short(text: str) -> str:
    return repr(text) if len(text) <= _LONGEST_VALUE else repr(text[:_LONGEST_VALUE]) + "…"

"""FlatBuffers → objects of the model: a reader for each table, made once from its declaration.

A chain of a hundred thousand blocks is read when its state has to be rebuilt, so what the
declaration says is asked when a reader is made, not for every value.
"""

import datetime as dt
import struct
from collections.abc import Callable
from dataclasses import fields
from functools import cache, lru_cache
from typing import Any, Final, TypeVar

from odf.errors import OdfError
from odf.limits import MAX_BLOCK_SIZE
from odf.metadata.buffers import BufferReader, MalformedBufferError, TableReader
from odf.metadata.declare import (
    AnyType,
    BoolType,
    BytesType,
    EnumType,
    Field,
    ListType,
    NameType,
    NumberType,
    Table,
    TableType,
    TextType,
    TimestampType,
    UnionType,
    table_of,
)
from odf.metadata.timestamp import NANOS_PER_SECOND, Timestamp

NEWEST_KNOWN_ODF: Final = "0.39"
"""The newest version of the specification whose events are modelled."""

TIMESTAMP: Final = struct.Struct("<iHxxII")
"""The struct of a time: year, day of the year, second of the day, nanosecond."""

SECONDS_PER_DAY: Final = 86_400
EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()

_T = TypeVar("_T")
_FieldReader = Callable[[TableReader], Any]
_ItemReader = Callable[[TableReader, int], Any]


class NotUnderstoodError(MalformedBufferError):
    """A well-formed buffer with something that a later version of ODF could have added."""


def decode_table(cls: type[_T], data: bytes) -> _T:
    """Read a plain finished buffer whose root is a table of the model.

    Args:
        cls: The table.
        data: The whole buffer.

    Raises:
        MalformedBufferError: If the bytes are not one, or hold what this release does not know.
    """
    declared: type = cls
    found: _T = table_reader(declared)(BufferReader(data, MAX_BLOCK_SIZE).root())
    return found


@cache  # one for each class of the model
def table_reader(cls: type) -> _FieldReader:
    """Return what reads a table."""
    readers = field_readers(cls)
    if not readers:
        return lambda _table: cls()

    def read(table: TableReader) -> Any:
        return cls(*[reader(table) for reader in readers])

    def read_by_name(table: TableReader) -> Any:
        return cls(**{name: reader(table) for name, reader in named})

    declared = fields(cls)
    named = list(zip((field.name for field in declared), readers, strict=True))
    return read_by_name if any(field.kw_only for field in declared) else read


@cache
def field_readers(cls: type) -> tuple[_FieldReader, ...]:
    """Return what reads the fields of a table, in the order of their declaration."""
    spec = table_of(cls)
    return tuple(_field_reader(spec, field) for field in spec.fields)


def _field_reader(spec: Table, field: Field) -> _FieldReader:
    read = _value_reader(spec, field)
    if field.optional or isinstance(field.type, NumberType | BoolType | EnumType):
        return read  # numbers have a default

    def required(table: TableReader) -> Any:
        value = read(table)
        if value is None:
            raise MalformedBufferError(f"{spec.name}.{field.key} is missing")
        return value

    return required


def _value_reader(spec: Table, field: Field) -> _FieldReader:
    slot = field.slot
    match field.type:
        case NumberType(scalar):
            return _number_reader(slot, scalar.code, None if field.optional else 0)
        case EnumType(cls, scalar):
            number = _number_reader(slot, scalar.code, None if field.optional else 0)
            return _enum_reader(spec, field, cls, number)
        case BoolType():
            absent = None if field.optional else False
            return lambda table: absent if (flag := table.byte(slot)) is None else bool(flag)
        case TimestampType():
            return _timestamp_reader(spec, field)
        case ListType(item):
            return _list_reader(slot, _item_reader(spec, field, item))
        case UnionType() as kind:
            return _union_reader(spec, field, kind, slot)
        case kind:
            return _offset_reader(slot, _item_reader(spec, field, kind))


def _number_reader(slot: int, code: str, absent: int | None) -> _FieldReader:
    packed = struct.Struct("<" + code)
    size, unpack = packed.size, packed.unpack_from

    def read(table: TableReader) -> int | None:
        at = table.place(slot, size)
        return absent if at is None else unpack(table.buffer.data, at)[0]

    return read


def _enum_reader(
    spec: Table, field: Field, cls: Callable[[int], Any], number: _FieldReader
) -> _FieldReader:
    def read(table: TableReader) -> Any:
        value = number(table)
        if value is None:
            return None
        try:
            return cls(value)
        except ValueError:
            raise NotUnderstoodError(
                f"{spec.name}.{field.key} has the value {value}, which ODF {NEWEST_KNOWN_ODF} "
                "does not have"
            ) from None

    return read


def _offset_reader(slot: int, item: _ItemReader) -> _FieldReader:
    def read(table: TableReader) -> Any:
        at = table.offset(slot)
        return None if at is None else item(table, at)

    return read


def _list_reader(slot: int, item: _ItemReader) -> _FieldReader:
    def read(table: TableReader) -> Any:
        places = table.vector(slot)
        return None if places is None else tuple([item(table, at) for at in places])

    return read


def _item_reader(spec: Table, field: Field, kind: AnyType) -> _ItemReader:
    match kind:
        case TextType():
            return lambda table, at: table.buffer.text(at)
        case NameType(name_cls):
            parse = _parser(spec, field, name_cls.parse)
            return lambda table, at: parse(table.buffer.text(at))
        case BytesType(None):
            return lambda table, at: table.buffer.blob(at)
        case BytesType(value_cls) if value_cls is not None:
            parse = _parser(spec, field, value_cls.from_bytes)
            return lambda table, at: parse(table.buffer.blob(at))
        case TableType(cls):
            return _table_item_reader(cls)
        case UnionType():
            return _union_item_reader(spec, field, kind)
        case _:

            def refuse(_table: TableReader, _at: int) -> Any:
                raise MalformedBufferError(f"{spec.name}.{field.key} is a list of inline values")

            return refuse


def _parser(spec: Table, field: Field, parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        try:
            return parse(value)
        except OdfError as error:
            raise NotUnderstoodError(f"{spec.name}.{field.key}: {error.message}") from error

    return read


def _table_item_reader(cls: type) -> _ItemReader:
    # Asked for at the first use: types may hold themselves.
    def read(table: TableReader, at: int) -> Any:
        return table_reader(cls)(table.buffer.table(at, table.depth + 1))

    return read


def _union_item_reader(spec: Table, field: Field, kind: UnionType) -> _ItemReader:
    union = _union_reader(spec, field, kind, 0)

    def read(table: TableReader, at: int) -> Any:
        value = union(table.buffer.table(at, table.depth + 1))
        if value is None:
            raise MalformedBufferError(f"{spec.name}.{field.key} has an empty element")
        return value

    return read


def _union_reader(spec: Table, field: Field, kind: UnionType, slot: int) -> _FieldReader:
    members = kind.members

    def read(table: TableReader) -> Any:
        tag = table.byte(slot)
        if not tag:
            return None
        if tag > len(members):
            raise NotUnderstoodError(
                f"{spec.name}.{field.key} has variant {tag} of {kind.name}, this release knows "
                f"{len(members)} (ODF {NEWEST_KNOWN_ODF}); a later ODF version has it"
            )
        child = table.table(slot + 1)
        if child is None:
            raise MalformedBufferError(f"{spec.name}.{field.key} has a variant without a value")
        return table_reader(members[tag - 1])(child)

    return read


def _timestamp_reader(spec: Table, field: Field) -> _FieldReader:
    size, slot, unpack = TIMESTAMP.size, field.slot, TIMESTAMP.unpack_from

    def read(table: TableReader) -> Timestamp | None:
        at = table.place(slot, size)
        if at is None:
            return None
        year, ordinal, seconds, nanos = unpack(table.buffer.data, at)
        first, last = _days_of(year)
        day = first + ordinal - 1
        if not (first <= day <= last and seconds < SECONDS_PER_DAY and nanos < NANOS_PER_SECOND):
            raise MalformedBufferError(
                f"{spec.name}.{field.key} is not a time: year {year}, day {ordinal}, "
                f"second {seconds}, nanosecond {nanos}"
            )
        return Timestamp(((day - EPOCH_DAY) * SECONDS_PER_DAY + seconds) * NANOS_PER_SECOND + nanos)

    return read


@lru_cache(maxsize=512)
def _days_of(year: int) -> tuple[int, int]:
    """Return the numbers of the first and the last day of a year; none for one out of range."""
    try:
        return dt.date(year, 1, 1).toordinal(), dt.date(year, 12, 31).toordinal()
    except (ValueError, OverflowError):
        return 0, -1

"""The Arrow `Schema` flatbuffer of `SetDataSchema` ⇄ plain fields, without pyarrow.

Written in the order in which arrow-rs writes it, so that equal schemas are equal bytes in every
implementation (wire-format.md §b.7); read whoever wrote it.
"""

from dataclasses import dataclass
from typing import Final, TypeVar

from odf.errors import BadInputError
from odf.limits import MAX_BLOCK_SIZE, MAX_FLATBUFFER_DEPTH
from odf.metadata.buffers import (
    BufferReader,
    BufferWriter,
    MalformedBufferError,
    TableReader,
    TableWriter,
)
from odf.metadata.declare import INT16, INT32, INT64, Scalar

_T = TypeVar("_T")
_TIME_UNITS: Final = ("s", "ms", "us", "ns")
_DATE_UNITS: Final = ("day", "ms")
_INTERVAL_UNITS: Final = ("year_month", "day_time", "month_day_nano")
_UNION_MODES: Final = ("sparse", "dense")
_FLOAT_WIDTHS: Final = (16, 32, 64)

_KINDS: Final = (
    "Null",
    "Int",
    "FloatingPoint",
    "Binary",
    "Utf8",
    "Bool",
    "Decimal",
    "Date",
    "Time",
    "Timestamp",
    "Interval",
    "List",
    "Struct",
    "Union",
    "FixedSizeBinary",
    "FixedSizeList",
    "Map",
    "Duration",
    "LargeBinary",
    "LargeUtf8",
    "LargeList",
    "RunEndEncoded",
    "BinaryView",
    "Utf8View",
    "ListView",
    "LargeListView",
)
"""Variants of Arrow's `Type` union; the tag is the place in this list, from 1."""

_CHILDREN_FIRST: Final = frozenset({"Int", "FloatingPoint"})
"""arrow-rs writes the empty children of these before the type table, of all others behind it."""

_NESTED: Final = frozenset(
    {
        "List",
        "Struct",
        "Union",
        "FixedSizeList",
        "Map",
        "LargeList",
        "RunEndEncoded",
        "ListView",
        "LargeListView",
    }
)


class ArrowSchemaError(BadInputError):
    """A schema that Arrow's format cannot say."""


@dataclass(frozen=True, slots=True)
class ArrowType:
    """An Arrow logical type; only the parameters of its kind are set.

    Attributes:
        kind: Name in Arrow's `Type` union, for example `Int` or `Timestamp`.
        bit_width: Of `Int`, `FloatingPoint`, `Decimal` and `Time`.
        signed: Of `Int`.
        precision: Digits of `Decimal`.
        scale: Digits behind the point of `Decimal`.
        unit: `s`, `ms`, `us`, `ns` of `Time`, `Timestamp`, `Duration`; `day`, `ms` of `Date`;
            `year_month`, `day_time`, `month_day_nano` of `Interval`.
        timezone: Of `Timestamp`; `None` for local times.
        size: Bytes of `FixedSizeBinary`, items of `FixedSizeList`.
        keys_sorted: Of `Map`.
        mode: `sparse` or `dense` of `Union`.
    """

    kind: str
    bit_width: int | None = None
    signed: bool | None = None
    precision: int | None = None
    scale: int | None = None
    unit: str | None = None
    timezone: str | None = None
    size: int | None = None
    keys_sorted: bool | None = None
    mode: str | None = None

    def __str__(self) -> str:
        """Name the type for people, for example `Timestamp(ms, UTC)`."""
        parts: list[str] = []
        if self.bit_width is not None:
            parts.append(str(self.bit_width))
        if self.signed is False:
            parts.append("unsigned")
        parts += [str(p) for p in (self.precision, self.scale) if p is not None]
        parts += [p for p in (self.unit, self.timezone, self.mode) if p is not None]
        if self.size is not None:
            parts.append(str(self.size))
        return f"{self.kind}({', '.join(parts)})" if parts else self.kind


@dataclass(frozen=True, slots=True)
class ArrowDictionary:
    """How a column is dictionary encoded; its `type` is that of the values."""

    id: int
    bit_width: int = 32
    signed: bool = True
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class ArrowField:
    """A column, or a field of a nested one.

    Attributes:
        name: Its name.
        type: Its logical type.
        nullable: Whether it may hold nulls.
        children: Fields of a nested type.
        metadata: Free pairs of key and value.
        dictionary: Set if the column is dictionary encoded.
    """

    name: str
    type: ArrowType
    nullable: bool = True
    children: tuple["ArrowField", ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    dictionary: ArrowDictionary | None = None


def encode_schema(
    fields: tuple[ArrowField, ...], metadata: tuple[tuple[str, str], ...] = ()
) -> bytes:
    """Write a bare Arrow `Schema` flatbuffer.

    Args:
        fields: The columns.
        metadata: Free pairs of the schema itself.

    Raises:
        ArrowSchemaError: If a type lacks a parameter or does not exist.
    """
    out = BufferWriter()
    columns = out.vector([_write_field(out, field, 1) for field in fields])
    pairs = _write_pairs(out, metadata) if metadata else None
    schema = out.start()
    schema.offset(1, columns)
    if pairs is not None:
        schema.offset(2, pairs)
    return out.finish(schema.end())


def _write_field(out: BufferWriter, field: ArrowField, depth: int) -> int:
    kind = field.type.kind
    if kind not in _KINDS or depth >= MAX_FLATBUFFER_DEPTH:
        raise ArrowSchemaError(f"column {field.name!r}: no Arrow type {kind} at depth {depth}")
    pairs = _write_pairs(out, field.metadata) if field.metadata else None
    name = out.text(_utf8(field.name))
    children: int | None = None
    if kind in _CHILDREN_FIRST:
        children = out.vector([])
    items = [_write_field(out, child, depth + 1) for child in field.children]
    type_table = _write_type(out, field)
    if children is None:
        children = out.vector(items)
    dictionary = _write_dictionary(out, field.dictionary) if field.dictionary else None
    table = out.start()
    table.offset(0, name)
    if dictionary is not None:
        table.offset(4, dictionary)
    table.byte(2, _KINDS.index(kind) + 1)
    if field.nullable:
        table.byte(1, 1)
    table.offset(5, children)
    table.offset(3, type_table)
    if pairs is not None:
        table.offset(6, pairs)
    return table.end()


def _write_type(out: BufferWriter, field: ArrowField) -> int:  # noqa: C901, PLR0912 - one branch a type
    kind = field.type
    # Strings and vectors must be written before the table that refers to them.
    timezone = out.text(_utf8(kind.timezone or "")) if kind.kind == "Timestamp" else 0
    table = out.start()
    match kind.kind:
        case "Int":
            if _need(field, kind.signed, "signed"):
                table.byte(1, 1)
            table.scalar(0, INT32, _need(field, kind.bit_width, "bit_width"))
        case "FloatingPoint":
            _enum(table, 0, _index(field, _FLOAT_WIDTHS, kind.bit_width), 0)
        case "Decimal":
            table.scalar(0, INT32, _need(field, kind.precision, "precision"))
            _plain(table, 1, _need(field, kind.scale, "scale"), 0)
            _plain(table, 2, kind.bit_width or 128, 128)
        case "Date":
            _enum(table, 0, _index(field, _DATE_UNITS, kind.unit), 1)
        case "Time":
            _plain(table, 1, _need(field, kind.bit_width, "bit_width"), 32)
            _enum(table, 0, _index(field, _TIME_UNITS, kind.unit), 1)
        case "Timestamp":
            _enum(table, 0, _index(field, _TIME_UNITS, kind.unit), 0)
            if kind.timezone:
                table.offset(1, timezone)
        case "Duration":
            _enum(table, 0, _index(field, _TIME_UNITS, kind.unit), 1)
        case "Interval":
            _enum(table, 0, _index(field, _INTERVAL_UNITS, kind.unit), 0)
        case "FixedSizeBinary" | "FixedSizeList":
            _plain(table, 0, _need(field, kind.size, "size"), 0)
        case "Map":
            if kind.keys_sorted:
                table.byte(0, 1)
        case "Union":
            raise ArrowSchemaError(f"column {field.name!r}: unions are not written")
    return table.end()


def _need(field: ArrowField, value: int | None, what: str) -> int:
    if value is None:
        raise ArrowSchemaError(f"column {field.name!r}: {field.type.kind} without its {what}")
    return value


def _index(field: ArrowField, known: tuple[object, ...], value: object) -> int:
    if value not in known:
        raise ArrowSchemaError(
            f"column {field.name!r}: {field.type.kind} of {value}, wanted one of {known}"
        )
    return known.index(value)


def _plain(table: TableWriter, slot: int, value: int, default: int) -> None:
    if value != default:
        table.scalar(slot, INT32, value)


def _enum(table: TableWriter, slot: int, value: int, default: int) -> None:
    if value != default:
        table.scalar(slot, INT16, value)


def _write_dictionary(out: BufferWriter, dictionary: ArrowDictionary) -> int:
    index = out.start()
    if dictionary.signed:
        index.byte(1, 1)
    index.scalar(0, INT32, dictionary.bit_width)
    index_type = index.end()
    table = out.start()
    if dictionary.id:
        table.scalar(0, INT64, dictionary.id)
    table.offset(1, index_type)
    if dictionary.ordered:
        table.byte(2, 1)
    return table.end()


def _write_pairs(out: BufferWriter, pairs: tuple[tuple[str, str], ...]) -> int:
    written: list[int] = []
    for key, value in pairs:
        at = (out.text(_utf8(key)), out.text(_utf8(value)))
        table = out.start()
        table.offset(0, at[0])
        table.offset(1, at[1])
        written.append(table.end())
    return out.vector(written)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ArrowSchemaError(f"a name is not Unicode text: {text!r}") from error


def decode_schema(data: bytes) -> tuple[ArrowField, ...]:
    """Read the columns of a bare Arrow `Schema` flatbuffer.

    Raises:
        MalformedBufferError: If the bytes are not one.
    """
    schema = BufferReader(data, MAX_BLOCK_SIZE).root()
    columns = schema.vector(1)
    if columns is None:
        raise MalformedBufferError("an Arrow schema without its list of fields")
    return tuple(_read_field(schema.buffer.table(at, schema.depth + 1)) for at in columns)


def schema_metadata(data: bytes) -> tuple[tuple[str, str], ...]:
    """Read the free pairs of a bare Arrow `Schema` flatbuffer.

    Raises:
        MalformedBufferError: If the bytes are not one.
    """
    return _read_pairs(BufferReader(data, MAX_BLOCK_SIZE).root(), 2)


def _read_field(table: TableReader) -> ArrowField:
    tag = table.byte(2) or 0
    if not 0 < tag <= len(_KINDS):
        raise MalformedBufferError(f"an Arrow field of unknown type {tag}")
    kind = _KINDS[tag - 1]
    type_table = table.table(3)
    if type_table is None:
        raise MalformedBufferError(f"an Arrow field of type {kind} without its parameters")
    children = table.vector(5) or []
    if children and kind not in _NESTED:
        raise MalformedBufferError(f"an Arrow field of type {kind} with children")
    dictionary = table.table(4)
    return ArrowField(
        name=table.text(0) or "",
        type=_read_type(kind, type_table),
        nullable=bool(table.byte(1)),
        children=tuple(_read_field(table.buffer.table(at, table.depth + 1)) for at in children),
        metadata=_read_pairs(table, 6),
        dictionary=None if dictionary is None else _read_dictionary(dictionary),
    )


def _read_type(kind: str, table: TableReader) -> ArrowType:  # noqa: C901 - one branch a type
    match kind:
        case "Int":
            width = _number(table, 0, INT32, 0)
            return ArrowType(kind, bit_width=width, signed=bool(table.byte(1)))
        case "FloatingPoint":
            return ArrowType(kind, bit_width=_pick(table, 0, _FLOAT_WIDTHS, 0))
        case "Decimal":
            return ArrowType(
                kind,
                bit_width=_number(table, 2, INT32, 128),
                precision=_number(table, 0, INT32, 0),
                scale=_number(table, 1, INT32, 0),
            )
        case "Date":
            return ArrowType(kind, unit=_pick(table, 0, _DATE_UNITS, 1))
        case "Time":
            width = _number(table, 1, INT32, 32)
            return ArrowType(kind, bit_width=width, unit=_pick(table, 0, _TIME_UNITS, 1))
        case "Timestamp":
            zone = table.text(1) or None
            return ArrowType(kind, unit=_pick(table, 0, _TIME_UNITS, 0), timezone=zone)
        case "Duration":
            return ArrowType(kind, unit=_pick(table, 0, _TIME_UNITS, 1))
        case "Interval":
            return ArrowType(kind, unit=_pick(table, 0, _INTERVAL_UNITS, 0))
        case "FixedSizeBinary" | "FixedSizeList":
            return ArrowType(kind, size=_number(table, 0, INT32, 0))
        case "Map":
            return ArrowType(kind, keys_sorted=bool(table.byte(0)))
        case "Union":
            return ArrowType(kind, mode=_pick(table, 0, _UNION_MODES, 0))
        case _:
            return ArrowType(kind)


def _number(table: TableReader, slot: int, scalar: Scalar, default: int) -> int:
    value = table.scalar(slot, scalar)
    return default if value is None else value


def _pick(table: TableReader, slot: int, known: tuple[_T, ...], default: int) -> _T:
    value = _number(table, slot, INT16, default)
    if not 0 <= value < len(known):
        raise MalformedBufferError(f"an Arrow type with the unknown parameter {value}")
    return known[value]


def _read_dictionary(table: TableReader) -> ArrowDictionary:
    index = table.table(1)
    return ArrowDictionary(
        id=_number(table, 0, INT64, 0),
        bit_width=32 if index is None else _number(index, 0, INT32, 0),
        signed=True if index is None else bool(index.byte(1)),
        ordered=bool(table.byte(2)),
    )


def _read_pairs(table: TableReader, slot: int) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for at in table.vector(slot) or []:
        pair = table.buffer.table(at, table.depth + 1)
        pairs.append((pair.text(0) or "", pair.text(1) or ""))
    return tuple(pairs)

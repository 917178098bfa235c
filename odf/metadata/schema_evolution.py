"""How the schema of a dataset may change: columns may be added if old rows can lack them.

See chain-rules.md §3. Everything is compared as Arrow fields, whichever form a chain has.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from odf.metadata.arrow_schema import ArrowField, ArrowType, decode_schema
from odf.metadata.data_types import (
    DataField,
    DataType,
    DataTypeBinary,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    TimeUnitEnum,
)
from odf.metadata.model import SetDataSchema

_PLAIN: Final = {
    "DataTypeBool": ArrowType("Bool"),
    "DataTypeFloat16": ArrowType("FloatingPoint", bit_width=16),
    "DataTypeFloat32": ArrowType("FloatingPoint", bit_width=32),
    "DataTypeFloat64": ArrowType("FloatingPoint", bit_width=64),
    "DataTypeInt8": ArrowType("Int", bit_width=8, signed=True),
    "DataTypeInt16": ArrowType("Int", bit_width=16, signed=True),
    "DataTypeInt32": ArrowType("Int", bit_width=32, signed=True),
    "DataTypeInt64": ArrowType("Int", bit_width=64, signed=True),
    "DataTypeUInt8": ArrowType("Int", bit_width=8, signed=False),
    "DataTypeUInt16": ArrowType("Int", bit_width=16, signed=False),
    "DataTypeUInt32": ArrowType("Int", bit_width=32, signed=False),
    "DataTypeUInt64": ArrowType("Int", bit_width=64, signed=False),
    "DataTypeNull": ArrowType("Null"),
    "DataTypeString": ArrowType("Utf8"),
}

_SAME_KIND: Final = {
    "LargeUtf8": "Utf8",
    "Utf8View": "Utf8",
    "LargeBinary": "Binary",
    "BinaryView": "Binary",
    "LargeList": "List",
    "ListView": "List",
    "LargeListView": "List",
}
"""Encodings of one logical type."""

_UNITS: Final = {
    TimeUnitEnum.SECOND: "s",
    TimeUnitEnum.MILLISECOND: "ms",
    TimeUnitEnum.MICROSECOND: "us",
    TimeUnitEnum.NANOSECOND: "ns",
}
_TIME64_UNITS: Final = frozenset({TimeUnitEnum.MICROSECOND, TimeUnitEnum.NANOSECOND})
_DECIMAL128_DIGITS: Final = 38


def schema_fields(event: SetDataSchema) -> tuple[ArrowField, ...]:
    """Return the columns that a `SetDataSchema` declares, in whichever form it has them.

    Raises:
        MalformedBufferError: If its Arrow schema cannot be read.
    """
    if event.schema is not None:
        return decode_schema(event.schema)
    if event.data_schema is not None:
        return tuple(_field(field) for field in event.data_schema.fields)
    return ()


def schema_differences(
    old: tuple[ArrowField, ...],
    new: tuple[ArrowField, ...],
    *,
    ignore_nullability: bool = False,
    same_layout: bool = False,
) -> tuple[str, ...]:
    """Say in words what makes `new` no valid successor of `old`.

    Added nullable columns, another order of columns and other metadata are fine. Encodings of one
    type (`Utf8`, `LargeUtf8`, `Utf8View`, dictionaries) count as that type.

    Args:
        old: The schema so far.
        new: The schema that would follow.
        ignore_nullability: Whether columns may become nullable or not nullable.
        same_layout: Whether what was there has to keep its place, as in files: added columns
            come behind, and structs stay as they are.

    Returns:
        One line for each difference, naming the column; empty if `new` may follow.
    """
    return tuple(_Comparison(not ignore_nullability, same_layout).columns(old, new, ""))


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A way to compare fields; see `schema_differences`."""

    nullability: bool
    layout: bool

    def columns(
        self, old: tuple[ArrowField, ...], new: tuple[ArrowField, ...], path: str
    ) -> list[str]:
        """Compare all columns, or all fields of the struct that a path ends in."""
        found = [*_doubles(old, path, " in the schema so far"), *_doubles(new, path, "")]
        if found:
            return found
        by_name = {field.name: field for field in new}
        for field in old:
            other = by_name.pop(field.name, None)
            if other is None:
                found.append(f"column {path}{field.name} ({field.type}) is gone")
            else:
                found += self.field(field, other, f"{path}{field.name}")
        found += self._added(old, tuple(by_name.values()), path)
        names, got = [field.name for field in old], [field.name for field in new]
        if self.layout and not found and got[: len(names)] != names:
            found.append(
                f"the columns are in another order: {', '.join(f'{path}{name}' for name in got)}; "
                f"they were {', '.join(f'{path}{name}' for name in names)}"
            )
        return found

    def _added(
        self, old: tuple[ArrowField, ...], added: tuple[ArrowField, ...], path: str
    ) -> Iterator[str]:
        folded = {field.name.casefold(): field.name for field in old}
        for field in added:
            if (other := folded.get(field.name.casefold())) is not None:
                yield f"column {path}{field.name} differs from {path}{other} by case only"
            elif not field.nullable:
                yield (
                    f"new column {path}{field.name} ({field.type}) is NOT NULL, and older rows "
                    "lack it"
                )
            elif path and self.layout:
                yield f"new column {path}{field.name} ({field.type}) is inside of another"

    def field(self, old: ArrowField, new: ArrowField, path: str) -> list[str]:
        """Compare two fields, whatever their names."""
        if _logical(old) != _logical(new):
            return [f"column {path} was {old.type} and is {new.type}"]
        found: list[str] = []
        if old.nullable != new.nullable and self.nullability:
            states = ("NOT NULL", "nullable")
            found.append(f"column {path} was {states[old.nullable]} and is {states[new.nullable]}")
        if old.type.kind == "Struct":
            return found + self.columns(old.children, new.children, f"{path}.")
        # The names of the fields inside lists and maps carry no meaning.
        if len(old.children) != len(new.children):
            return [*found, f"column {path} has other inner fields"]
        for before, after in zip(old.children, new.children, strict=True):
            found += self.field(before, after, f"{path}.{before.name}")
        return found


def _doubles(fields: tuple[ArrowField, ...], path: str, where: str) -> Iterator[str]:
    for name, count in Counter(field.name for field in fields).items():
        if count > 1:
            yield f"there are {count} columns {path}{name}{where}"


def _logical(field: ArrowField) -> ArrowType:
    kind = field.type
    return ArrowType(_SAME_KIND[kind.kind]) if kind.kind in _SAME_KIND else kind


def _field(field: DataField) -> ArrowField:
    return _named(field.name, field.type)


def _named(name: str, kind: DataType) -> ArrowField:
    nullable = isinstance(kind, DataTypeOption)
    inner = kind.inner if isinstance(kind, DataTypeOption) else kind
    arrow, children = _arrow(inner)
    return ArrowField(name, arrow, nullable, children)


def _arrow(kind: DataType) -> tuple[ArrowType, tuple[ArrowField, ...]]:  # noqa: C901, PLR0912 - one a type
    match kind:
        case DataTypeBinary(None):
            return ArrowType("Binary"), ()
        case DataTypeBinary(size):
            return ArrowType("FixedSizeBinary", size=size), ()
        case DataTypeDate():
            return ArrowType("Date", unit="day"), ()
        case DataTypeDecimal(precision, scale):
            width = 128 if precision <= _DECIMAL128_DIGITS else 256
            return ArrowType("Decimal", bit_width=width, precision=precision, scale=scale), ()
        case DataTypeDuration(unit):
            return ArrowType("Duration", unit=_unit(unit)), ()
        case DataTypeTime(unit):
            width = 64 if unit in _TIME64_UNITS else 32
            return ArrowType("Time", bit_width=width, unit=_unit(unit)), ()
        case DataTypeTimestamp(unit, timezone):
            return ArrowType("Timestamp", unit=_unit(unit), timezone=timezone), ()
        case DataTypeList(item, None):
            return ArrowType("List"), (_named("item", item),)
        case DataTypeList(item, size):
            return ArrowType("FixedSizeList", size=size), (_named("item", item),)
        case DataTypeMap(key, value, keys_sorted):
            entries = (_named("keys", key), _named("values", value))
            inner = ArrowField("entries", ArrowType("Struct"), nullable=False, children=entries)
            return ArrowType("Map", keys_sorted=bool(keys_sorted)), (inner,)
        case DataTypeStruct(fields):
            return ArrowType("Struct"), tuple(_field(field) for field in fields)
        case DataTypeOption(option):
            return _arrow(option)
        case _:
            return _PLAIN[type(kind).__name__], ()


def _unit(unit: TimeUnitEnum | None) -> str:
    # Without a unit times are in the unit that slices have.
    return "ms" if unit is None else _UNITS[unit]

"""Structured schemas of ODF 0.37 and later (wire-format.md §a.7).

0.34.1 says the schema of data as an Arrow flatbuffer and that of sources as DDL. These tables are
here so that chains of newer releases can be read and kept.
"""

from dataclasses import dataclass
from typing import Annotated

from odf.metadata.declare import INT16, At, Int32, UInt32, UInt64, Variants, WireEnum


class TimeUnitEnum(WireEnum):
    """Resolution of times and durations."""

    SECOND = 0
    MILLISECOND = 1
    MICROSECOND = 2
    NANOSECOND = 3


TimeUnit = Annotated[TimeUnitEnum, INT16]


@dataclass(frozen=True, slots=True)
class ExtraAttributes:
    """Free attributes of a table.

    Attributes:
        attributes: One JSON object, compact, keys sorted; in YAML and JSON it is the object.
    """

    attributes: Annotated[str, At(0, since="0.37", aliases=("entries",))]


@dataclass(frozen=True, slots=True)
class DataTypeBinary:
    """Bytes, of one length if `fixed_length` says so."""

    fixed_length: Annotated[UInt64 | None, At(0)] = None


@dataclass(frozen=True, slots=True)
class DataTypeBool:
    """True or false."""


@dataclass(frozen=True, slots=True)
class DataTypeDate:
    """A day."""


@dataclass(frozen=True, slots=True)
class DataTypeDecimal:
    """A decimal number of `precision` digits, `scale` of them behind the point."""

    precision: Annotated[UInt32, At(0)]
    scale: Annotated[Int32, At(1)]


@dataclass(frozen=True, slots=True)
class DataTypeDuration:
    """A length of time."""

    unit: Annotated[TimeUnit | None, At(0)] = None


@dataclass(frozen=True, slots=True)
class DataTypeFloat16:
    """A float of 16 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeFloat32:
    """A float of 32 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeFloat64:
    """A float of 64 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt8:
    """A signed integer of 8 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt16:
    """A signed integer of 16 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt32:
    """A signed integer of 32 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeInt64:
    """A signed integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt8:
    """An unsigned integer of 8 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt16:
    """An unsigned integer of 16 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt32:
    """An unsigned integer of 32 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeUInt64:
    """An unsigned integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class DataTypeList:
    """A list, of one length if `fixed_length` says so."""

    item_type: Annotated["DataType", At(0)]
    fixed_length: Annotated[UInt64 | None, At(2)] = None


@dataclass(frozen=True, slots=True)
class DataTypeMap:
    """A map of keys to values."""

    key_type: Annotated["DataType", At(0)]
    value_type: Annotated["DataType", At(2)]
    keys_sorted: Annotated[bool | None, At(4)] = None


@dataclass(frozen=True, slots=True)
class DataTypeNull:
    """Nothing but nulls."""


@dataclass(frozen=True, slots=True)
class DataTypeOption:
    """Marks a type as nullable."""

    inner: Annotated["DataType", At(0)]


@dataclass(frozen=True, slots=True)
class DataTypeStruct:
    """Named fields."""

    fields: Annotated[tuple["DataField", ...], At(0)]


@dataclass(frozen=True, slots=True)
class DataTypeTime:
    """A time of day."""

    unit: Annotated[TimeUnit | None, At(0)] = None


@dataclass(frozen=True, slots=True)
class DataTypeTimestamp:
    """A point in time."""

    unit: Annotated[TimeUnit | None, At(0)] = None
    timezone: Annotated[str | None, At(1)] = None


@dataclass(frozen=True, slots=True)
class DataTypeString:
    """Text."""


DataType = Annotated[
    DataTypeBinary
    | DataTypeBool
    | DataTypeDate
    | DataTypeDecimal
    | DataTypeDuration
    | DataTypeFloat16
    | DataTypeFloat32
    | DataTypeFloat64
    | DataTypeInt8
    | DataTypeInt16
    | DataTypeInt32
    | DataTypeInt64
    | DataTypeUInt8
    | DataTypeUInt16
    | DataTypeUInt32
    | DataTypeUInt64
    | DataTypeList
    | DataTypeMap
    | DataTypeNull
    | DataTypeOption
    | DataTypeStruct
    | DataTypeTime
    | DataTypeTimestamp
    | DataTypeString,
    Variants("DataType"),
]


@dataclass(frozen=True, slots=True)
class DataField:
    """A column, or a field of a struct."""

    name: Annotated[str, At(0)]
    type: Annotated[DataType, At(1)]
    extra: Annotated[ExtraAttributes | None, At(3)] = None


@dataclass(frozen=True, slots=True)
class DataSchema:
    """The columns of a table."""

    fields: Annotated[tuple[DataField, ...], At(0)]
    extra: Annotated[ExtraAttributes | None, At(1)] = None

"""The columns that a read step declares, in whichever form it has them (ingest.md §6).

DDL is the form of the specification; manifests and chains of ODF 0.38 and later may have a
structured schema in its place. There a column may only be null where its type says so.
"""

from typing import Final

from odf.data.datatypes import Column, DataType, Kind
from odf.data.ddl import check_names, parse_ddl
from odf.errors import BadInputError
from odf.limits import MAX_TYPE_DEPTH
from odf.metadata import data_types as structured
from odf.metadata.data_types import DataField, DataSchema, TimeUnitEnum
from odf.metadata.model import ReadStep

_SCALARS: Final[dict[type[object], Kind]] = {
    structured.DataTypeBool: Kind.BOOLEAN,
    structured.DataTypeDate: Kind.DATE,
    structured.DataTypeFloat32: Kind.FLOAT32,
    structured.DataTypeFloat64: Kind.FLOAT64,
    structured.DataTypeInt8: Kind.INT8,
    structured.DataTypeInt16: Kind.INT16,
    structured.DataTypeInt32: Kind.INT32,
    structured.DataTypeInt64: Kind.INT64,
    structured.DataTypeUInt8: Kind.UINT8,
    structured.DataTypeUInt16: Kind.UINT16,
    structured.DataTypeUInt32: Kind.UINT32,
    structured.DataTypeUInt64: Kind.UINT64,
    structured.DataTypeString: Kind.STRING,
}
_DIGITS: Final = {
    TimeUnitEnum.SECOND: 0,
    TimeUnitEnum.MILLISECOND: 3,
    TimeUnitEnum.MICROSECOND: 6,
    TimeUnitEnum.NANOSECOND: 9,
}
_TIME_DIGITS: Final = 6
_MAX_DECIMAL_DIGITS: Final = 38


def declared_columns(step: ReadStep) -> tuple[Column, ...] | None:
    """Return the columns that a read step declares; None if it declares none.

    Raises:
        BadInputError: They cannot be read, two names are equal or differ by case only, or a type
            is one that slices cannot hold.
    """
    if step.schema:
        return parse_ddl(step.schema)
    if step.data_schema is not None and step.data_schema.fields:
        return _columns_of(step.data_schema)
    return None


def _columns_of(schema: DataSchema) -> tuple[Column, ...]:
    columns = tuple(_column(field, (field.name,)) for field in schema.fields)
    check_names(columns)
    return columns


def _column(field: DataField, path: tuple[str, ...]) -> Column:
    if not field.name:
        raise _bad(path, "it has no name")
    inner, nullable = _unwrapped(field.type)
    return Column(field.name, _type(inner, path), nullable)


def _unwrapped(dtype: object) -> tuple[object, bool]:
    nullable = False
    while isinstance(dtype, structured.DataTypeOption):
        dtype, nullable = dtype.inner, True
    return dtype, nullable


def _type(dtype: object, path: tuple[str, ...]) -> DataType:
    if len(path) > MAX_TYPE_DEPTH:
        raise _bad(path[:1], f"types are nested deeper than {MAX_TYPE_DEPTH} levels")
    if (kind := _SCALARS.get(type(dtype))) is not None:
        return DataType(kind)
    match dtype:
        case structured.DataTypeList(item_type=item, fixed_length=None):
            inner, nullable = _unwrapped(item)
            element = Column("item", _type(inner, (*path, "item")), nullable)
            return DataType(Kind.ARRAY, fields=(element,))
        case structured.DataTypeStruct(fields=fields) if fields:
            columns = tuple(_column(field, (*path, field.name)) for field in fields)
            check_names(columns, f"column {'.'.join(path)}")
            return DataType(Kind.STRUCT, fields=columns)
    return _with_parameters(dtype, path)


def _with_parameters(dtype: object, path: tuple[str, ...]) -> DataType:
    match dtype:
        case structured.DataTypeBinary(fixed_length=None):
            return DataType(Kind.BINARY)
        case structured.DataTypeBinary(fixed_length=int(length)):
            return DataType(Kind.FIXED_BINARY, length=length)
        case structured.DataTypeDecimal(precision=precision, scale=scale):
            if not 0 < precision <= _MAX_DECIMAL_DIGITS or not 0 <= scale <= precision:
                raise _bad(path, f"no decimal has {precision} digits, {scale} behind the point")
            return DataType(Kind.DECIMAL, precision=precision, scale=scale)
        case structured.DataTypeTime():
            return DataType(Kind.TIME, precision=_TIME_DIGITS)
        case structured.DataTypeTimestamp(unit=unit):
            # Whatever zone is meant to be shown, readers keep times in UTC.
            digits = _DIGITS[TimeUnitEnum.MILLISECOND if unit is None else unit]
            return DataType(Kind.TIMESTAMP, precision=digits, timezone="UTC")
    name = type(dtype).__name__.removeprefix("DataType")
    raise _bad(path, f"{name} is a type that no source can be read into")


def _bad(path: tuple[str, ...], what: str) -> BadInputError:
    return BadInputError(
        f"column {'.'.join(path)}: {what}",
        reason="schema",
        hint="declare the columns as DDL in `ddlSchema`, for example [id BIGINT, name STRING]",
    )

"""The bridge between pyarrow schemas and the plain fields of `odf.metadata.arrow_schema`.

The chain records a dataset's columns as an Arrow schema; `odf.metadata` reads and writes those
bytes without pyarrow, this module says what they are as pyarrow types.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from odf.errors import BadInputError
from odf.limits import MAX_TYPE_DEPTH
from odf.metadata.arrow_schema import ArrowDictionary, ArrowField, ArrowType

_EXTENSION_NAME: Final = "ARROW:extension:name"
_EXTENSION_METADATA: Final = "ARROW:extension:metadata"
_UUID: Final = "arrow.uuid"
_UUID_BYTES: Final = 16

# Types without parameters: pyarrow's id against the name in Arrow's format.
_SIMPLE: Final = {
    "Null": pa.null(),
    "Bool": pa.bool_(),
    "Utf8": pa.string(),
    "LargeUtf8": pa.large_string(),
    "Utf8View": pa.string_view(),
    "Binary": pa.binary(),
    "LargeBinary": pa.large_binary(),
    "BinaryView": pa.binary_view(),
}
_SIMPLE_NAMES: Final = {dtype: kind for kind, dtype in _SIMPLE.items()}

_LISTS: Final[dict[str, Callable[[pa.Field], pa.DataType]]] = {
    "List": pa.list_,
    "LargeList": pa.large_list,
    "ListView": pa.list_view,
    "LargeListView": pa.large_list_view,
}
_DECIMALS: Final = {
    32: pa.decimal32,
    64: pa.decimal64,
    128: pa.decimal128,
    256: pa.decimal256,
}


def arrow_schema_to_fields(schema: pa.Schema) -> tuple[ArrowField, ...]:
    """Return the columns of a pyarrow schema as plain fields; its own metadata is dropped.

    A UUID is a FixedSizeBinary(16) with Arrow's extension name in the field's metadata.

    Raises:
        BadInputError: A type is not of those that a slice or its record can have.
    """
    return tuple(_to_field(field, 0) for field in schema)


def _to_field(field: pa.Field, depth: int) -> ArrowField:
    if depth > MAX_TYPE_DEPTH:
        raise BadInputError(f"column {field.name!r} is nested deeper than {MAX_TYPE_DEPTH} levels")
    dtype, metadata, dictionary = field.type, _metadata(field), None
    if isinstance(dtype, pa.UuidType):
        metadata += ((_EXTENSION_METADATA, ""), (_EXTENSION_NAME, _UUID))
    if isinstance(dtype, pa.BaseExtensionType):
        dtype = dtype.storage_type
    if pa.types.is_dictionary(dtype):
        index = dtype.index_type
        signed = pa.types.is_signed_integer(index)
        dictionary = ArrowDictionary(0, index.bit_width, signed, dtype.ordered)
        dtype = dtype.value_type
    return ArrowField(
        field.name,
        _to_type(field.name, dtype),
        field.nullable,
        tuple(_to_field(child, depth + 1) for child in _children(dtype)),
        metadata,
        dictionary,
    )


def _metadata(field: pa.Field) -> tuple[tuple[str, str], ...]:
    pairs = (field.metadata or {}).items()
    return tuple((_text(key), _text(value)) for key, value in pairs)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _children(dtype: pa.DataType) -> list[pa.Field]:
    return [dtype.field(i) for i in range(dtype.num_fields)]


def _to_type(name: str, dtype: pa.DataType) -> ArrowType:
    t = pa.types
    if kind := _SIMPLE_NAMES.get(dtype):
        return ArrowType(kind)
    if t.is_integer(dtype):
        return ArrowType("Int", bit_width=dtype.bit_width, signed=t.is_signed_integer(dtype))
    if t.is_floating(dtype):
        return ArrowType("FloatingPoint", bit_width=dtype.bit_width)
    if t.is_decimal(dtype):
        width, precision, scale = dtype.bit_width, dtype.precision, dtype.scale
        return ArrowType("Decimal", bit_width=width, precision=precision, scale=scale)
    if t.is_date(dtype):
        return ArrowType("Date", unit="day" if t.is_date32(dtype) else "ms")
    if t.is_time(dtype):
        return ArrowType("Time", bit_width=dtype.bit_width, unit=dtype.unit)
    if t.is_timestamp(dtype):
        return ArrowType("Timestamp", unit=dtype.unit, timezone=dtype.tz)
    if t.is_fixed_size_binary(dtype):
        return ArrowType("FixedSizeBinary", size=dtype.byte_width)
    return _to_nested(name, dtype)


def _to_nested(name: str, dtype: pa.DataType) -> ArrowType:
    t = pa.types
    if t.is_struct(dtype):
        return ArrowType("Struct")
    if t.is_fixed_size_list(dtype):
        return ArrowType("FixedSizeList", size=dtype.list_size)
    if t.is_list(dtype):
        return ArrowType("List")
    if t.is_large_list(dtype):
        return ArrowType("LargeList")
    if t.is_duration(dtype):
        return ArrowType("Duration", unit=dtype.unit)
    if t.is_map(dtype):
        return ArrowType("Map", keys_sorted=dtype.keys_sorted)
    raise BadInputError(
        f"column {name!r} has the type {dtype}, which no dataset can have",
        reason="unsupported_type",
    )


def fields_to_arrow_schema(fields: Sequence[ArrowField]) -> pa.Schema:
    """Return plain fields as a pyarrow schema, with the fields' metadata.

    Raises:
        BadInputError: A field has a type or parameters that pyarrow does not have.
    """
    return pa.schema([_from_field(field) for field in fields])


def _from_field(field: ArrowField) -> pa.Field:
    metadata = dict(field.metadata)
    try:
        dtype = _from_type(field)
        if field.dictionary is not None:
            width = field.dictionary.bit_width
            index = pa.type_for_alias(f"{'' if field.dictionary.signed else 'u'}int{width}")
            dtype = pa.dictionary(index, dtype, ordered=field.dictionary.ordered)
    except (pa.ArrowException, ValueError, LookupError, TypeError, OverflowError) as error:
        raise BadInputError(
            f"column {field.name!r} has the type {field.type}, which cannot be read: {error}",
            reason="unsupported_type",
        ) from error
    if metadata.get(_EXTENSION_NAME) == _UUID and dtype == pa.binary(_UUID_BYTES):
        dtype = pa.uuid()
        del metadata[_EXTENSION_NAME]
        metadata.pop(_EXTENSION_METADATA, None)
    return pa.field(field.name, dtype, field.nullable, metadata or None)


def _from_type(field: ArrowField) -> pa.DataType:
    kind, children = field.type.kind, field.children
    if (field.type.size or 0) < 0:
        raise ValueError(f"{kind} of size {field.type.size}")
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind == "Struct":
        return pa.struct([_from_field(child) for child in children])
    if kind in _LISTS:
        return _LISTS[kind](_from_field(children[0]))
    if kind == "FixedSizeList":
        return pa.list_(_from_field(children[0]), field.type.size)
    if kind == "Map":
        key, item = (_from_field(child) for child in children[0].children)
        return pa.map_(key.with_nullable(False), item, keys_sorted=bool(field.type.keys_sorted))
    return _from_parameters(field.type)


def _from_parameters(dtype: ArrowType) -> pa.DataType:
    unit: Any = dtype.unit
    match dtype.kind:
        case "Int":
            return pa.type_for_alias(f"{'' if dtype.signed else 'u'}int{dtype.bit_width}")
        case "FloatingPoint":
            return pa.type_for_alias(f"float{dtype.bit_width}")
        case "Decimal":
            return _DECIMALS[dtype.bit_width or 128](dtype.precision, dtype.scale)
        case "Date":
            return pa.date32() if unit == "day" else pa.date64()
        case "Time":
            return pa.time32(unit) if dtype.bit_width == 32 else pa.time64(unit)  # noqa: PLR2004
        case "Timestamp":
            return pa.timestamp(unit, dtype.timezone)
        case "Duration":
            return pa.duration(unit)
        case "FixedSizeBinary":
            return pa.binary(dtype.size)
    raise ValueError(f"no type {dtype.kind}")

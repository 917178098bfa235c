"""Which types have a logical hash, and what of a type enters it (wire-format.md §d.1).

Knows types only, no values.
"""

import struct
from typing import Final

import pyarrow as pa

from odf.errors import BadInputError
from odf.limits import MAX_TYPE_DEPTH

_UNITS: Final = {"s": 0, "ms": 1, "us": 2, "ns": 3}


class UnsupportedTypeError(BadInputError):
    """A column has a type for which no logical hash is defined."""

    kind = "unsupported_type"


def type_header(dtype: pa.DataType) -> bytes:
    """Return the bytes that open the hash of a column of this type (wire-format.md §d.1).

    Dictionary, run-end encoded and extension types have the header of what they stand for, as
    they are ways to store a value and not other values.

    Raises:
        UnsupportedTypeError: The type has no logical hash, for example a map.
    """
    return _header(dtype, 0)


def _header(dtype: pa.DataType, depth: int) -> bytes:
    if depth > MAX_TYPE_DEPTH:
        raise UnsupportedTypeError(f"a type is nested deeper than {MAX_TYPE_DEPTH} levels")
    t = pa.types
    if isinstance(dtype, pa.BaseExtensionType):
        return _header(dtype.storage_type, depth)
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return _header(dtype.value_type, depth)
    if is_list(dtype):
        return struct.pack("<H", 11) + _header(dtype.value_type, depth + 1)
    if is_binary(dtype) or t.is_fixed_size_binary(dtype):
        return struct.pack("<H", 3)
    if is_text(dtype):
        return struct.pack("<H", 4)
    if t.is_null(dtype):
        return struct.pack("<H", 0)
    if t.is_boolean(dtype):
        return struct.pack("<H", 5)
    return _number_header(dtype) or _time_header(dtype)


def _number_header(dtype: pa.DataType) -> bytes | None:
    t = pa.types
    if t.is_integer(dtype):
        return struct.pack("<HBQ", 1, t.is_signed_integer(dtype), dtype.bit_width)
    if t.is_floating(dtype):
        return struct.pack("<HQ", 2, dtype.bit_width)
    if t.is_decimal(dtype):
        return struct.pack("<HQQq", 6, dtype.bit_width, dtype.precision, dtype.scale)
    return None


def _time_header(dtype: pa.DataType) -> bytes:
    t = pa.types
    if t.is_date32(dtype):
        return struct.pack("<HQH", 7, 32, 0)
    if t.is_date64(dtype):
        return struct.pack("<HQH", 7, 64, 1)
    if t.is_time(dtype):
        return struct.pack("<HQH", 8, dtype.bit_width, _UNITS[dtype.unit])
    if t.is_timestamp(dtype):
        head = struct.pack("<HH", 9, _UNITS[dtype.unit])
        if dtype.tz is None:
            return head + b"\0"
        zone: bytes = dtype.tz.encode()
        return head + struct.pack("<Q", len(zone)) + zone
    raise UnsupportedTypeError(
        f"no logical hash is defined for values of type {dtype}",
        hint="turn the column into text, numbers, dates or lists of these",
    )


def is_text(dtype: pa.DataType) -> bool:
    """Tell whether values are text, in any of Arrow's forms."""
    t = pa.types
    return bool(t.is_string(dtype) or t.is_large_string(dtype) or t.is_string_view(dtype))


def is_binary(dtype: pa.DataType) -> bool:
    """Tell whether values are bytes of any length, in any of Arrow's forms."""
    t = pa.types
    return bool(t.is_binary(dtype) or t.is_large_binary(dtype) or t.is_binary_view(dtype))


def is_list(dtype: pa.DataType) -> bool:
    """Tell whether values are lists, in any of Arrow's forms that have a logical hash."""
    t = pa.types
    return bool(t.is_list(dtype) or t.is_large_list(dtype) or t.is_fixed_size_list(dtype))


def zero_bytes(dtype: pa.DataType) -> bytes:
    """Return the bytes of the value that stands under a null: zero, or empty (design §7)."""
    t = pa.types
    if isinstance(dtype, pa.BaseExtensionType):
        return zero_bytes(dtype.storage_type)
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return zero_bytes(dtype.value_type)
    if t.is_fixed_size_list(dtype):
        size: int = dtype.list_size
        return struct.pack("<Q", size) + size * zero_bytes(dtype.value_type)
    if t.is_boolean(dtype):
        return b"\1"
    if t.is_fixed_size_binary(dtype):
        return struct.pack("<Q", dtype.byte_width) + bytes(dtype.byte_width)
    if is_list(dtype) or is_text(dtype) or is_binary(dtype) or t.is_null(dtype):
        return bytes(8)
    return bytes(dtype.byte_width)


def plain_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type without the ways of storing it: what batches of one column have in common."""
    t = pa.types
    if isinstance(dtype, pa.BaseExtensionType):
        return plain_type(dtype.storage_type)
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return plain_type(dtype.value_type)
    if t.is_struct(dtype):
        return pa.struct([pa.field(f.name, plain_type(f.type)) for f in dtype])
    if t.is_fixed_size_list(dtype):
        return pa.list_(plain_type(dtype.value_type), dtype.list_size)
    if is_list(dtype):
        return pa.large_list(plain_type(dtype.value_type))
    if is_text(dtype):
        return pa.large_string()
    if is_binary(dtype):
        return pa.large_binary()
    return dtype

"""arrow-digest once more, value by value from Python objects: slow, and easy to believe.

Shares no code with `odf.data.digest`; follows wire-format.md §d line by line.
"""

import hashlib
import struct

import pyarrow as pa

UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


def u16(n):
    return n.to_bytes(2, "little")


def u64(n):
    return n.to_bytes(8, "little")


def header(dtype):  # noqa: C901 - one branch a type
    name = str(dtype)
    if name.startswith(("list<", "large_list<", "fixed_size_list<")):
        return u16(11) + header(dtype.value_type)
    if name.startswith("dictionary<"):
        return header(dtype.value_type)
    if name.startswith(("int", "uint")):
        return u16(1) + bytes([0 if name.startswith("u") else 1]) + u64(dtype.bit_width)
    if name in ("halffloat", "float", "double"):
        return u16(2) + u64(dtype.bit_width)
    if name in ("binary", "large_binary", "binary_view") or name.startswith("fixed_size_binary"):
        return u16(3)
    if name in ("string", "large_string", "string_view"):
        return u16(4)
    if name == "bool":
        return u16(5)
    if name.startswith("decimal"):
        return u16(6) + u64(dtype.bit_width) + u64(dtype.precision) + u64(dtype.scale % 2**64)
    if name.startswith("date"):
        return u16(7) + (u64(32) + u16(0) if name == "date32[day]" else u64(64) + u16(1))
    if name.startswith(("time3", "time6")):
        return u16(8) + u64(dtype.bit_width) + u16(UNITS[dtype.unit])
    assert name.startswith("timestamp"), name
    zone = b"\0" if dtype.tz is None else u64(len(dtype.tz)) + dtype.tz.encode()
    return u16(9) + u16(UNITS[dtype.unit]) + zone


def value(dtype, scalar):
    """Bytes of one value; `scalar` is a pyarrow scalar."""
    if not scalar.is_valid:
        return b"\0"
    name = str(dtype)
    if name.startswith("dictionary<"):
        return value(dtype.value_type, scalar.value)
    if name.startswith(("list<", "large_list<", "fixed_size_list<")):
        items = list(scalar.values)
        return u64(len(items)) + b"".join(value(dtype.value_type, item) for item in items)
    if name == "bool":
        return b"\2" if scalar.as_py() else b"\1"
    if name in ("string", "large_string", "string_view"):
        return u64(len(scalar.as_py().encode())) + scalar.as_py().encode()
    if "binary" in name:
        return u64(len(scalar.as_py())) + scalar.as_py()
    if name.startswith("decimal"):
        unscaled = int(scalar.as_py().scaleb(dtype.scale))
        return unscaled.to_bytes(dtype.bit_width // 8, "little", signed=True)
    if name == "float":
        return struct.pack("<f", scalar.as_py())
    if name == "double":
        return struct.pack("<d", scalar.as_py())
    number = scalar.as_py() if name.startswith(("int", "uint")) else scalar.value
    return number.to_bytes(dtype.bit_width // 8, "little", signed=not name.startswith("u"))


def zero(dtype):
    """Bytes of the value that a zeroed slot holds."""
    name = str(dtype)
    if name == "bool":
        return b"\1"
    if name.startswith("fixed_size_list"):
        return u64(dtype.list_size) + zero(dtype.value_type) * dtype.list_size
    if name.startswith("fixed_size_binary"):
        return u64(dtype.byte_width) + bytes(dtype.byte_width)
    if name.startswith(("list", "large_list", "string", "large_string", "binary", "large_binary")):
        return u64(0)
    return bytes(dtype.bit_width // 8)


def combine(parent, own):
    """wire-format.md §d.5, to the letter."""
    if all(parent):
        return own
    if all(own):
        return parent
    return [a or b for a, b in zip(parent, own, strict=True)]


def leaves(dtype, scalars, parent):
    own = [s is not None and s.is_valid for s in scalars]
    valid = combine(parent, own)
    if not pa.types.is_struct(dtype):
        yield b"".join(
            b"\0" if not ok else value(dtype, s) if mine else zero(dtype)
            for ok, mine, s in zip(valid, own, scalars, strict=True)
        )
        return
    for field in dtype:
        children = [s[field.name] if mine else None for mine, s in zip(own, scalars, strict=True)]
        yield from leaves(field.type, children, valid)


def fields(schema_fields, level):
    for field in schema_fields:
        yield field, level
        if pa.types.is_struct(field.type):
            yield from fields(list(field.type), level + 1)


def digest(table, nested_batch=10_000):
    top = hashlib.sha3_256()
    columns = []
    for field, level in fields(list(table.schema), 0):
        name = field.name.encode()
        top.update(u64(len(name)) + name + u64(level))
        if not pa.types.is_struct(field.type):
            columns.append(hashlib.sha3_256(header(field.type)))
    for start in range(0, table.num_rows, nested_batch):
        part = table.slice(start, nested_batch)
        hashers = iter(columns)
        for column in part.columns:
            scalars = list(column)
            for payload in leaves(column.type, scalars, [True] * len(scalars)):
                next(hashers).update(payload)
    for column in columns:
        top.update(column.digest())
    return top.digest()

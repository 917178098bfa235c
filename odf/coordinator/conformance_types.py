"""How `odf conformance` writes Arrow types and values in JSON; docs/conformance.md has the table.

Types are names (`int32`, `string`, `date32`) or objects (`{"timestamp": "ms", "tz": "UTC"}`).
Values are what the type stores: numbers (or text) for timestamps and dates, hexadecimal for bytes,
decimal text for decimals.
"""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from odf.errors import BadInputError
from odf.limits import MAX_TYPE_DEPTH
from odf.metadata.timestamp import Timestamp

_NAMES: Final = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "binary_view": pa.binary_view(),
    "date32": pa.date32(),
    "date64": pa.date64(),
}
_NANOS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NANOS_PER_DAY: Final = 86_400 * 10**9
_FLOAT_WORDS: Final = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}


def read_type(spec: Any, depth: int = 0) -> pa.DataType:
    """Return the Arrow type that a JSON value describes.

    Raises:
        BadInputError: It describes none.
    """
    if depth > MAX_TYPE_DEPTH:
        raise BadInputError(f"a type is nested deeper than {MAX_TYPE_DEPTH} levels")
    if isinstance(spec, str) and spec in _NAMES:
        return _NAMES[spec]
    if isinstance(spec, dict):
        for key, make in _PARAMETRIC.items():
            if key in spec:
                try:
                    return make(spec, depth + 1)
                except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                    raise BadInputError(f"{spec!r} is no type: {error}") from error
    raise BadInputError(
        f"{spec!r} is no type, wanted one of {', '.join(_NAMES)}, or an object with one of "
        f"{', '.join(_PARAMETRIC)}"
    )


def read_schema(specs: Sequence[Any], depth: int = 0) -> pa.Schema:
    """Return the schema that a list of `{"name", "type", "nullable"}` describes.

    Raises:
        BadInputError: It describes none.
    """
    fields = []
    for spec in specs:
        if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
            raise BadInputError('a column is an object {"name", "type", "nullable"}')
        nullable = spec.get("nullable", True)
        if not isinstance(nullable, bool):
            raise BadInputError(f"`nullable` of {spec['name']!r} is {nullable!r}, wanted a boolean")
        fields.append(pa.field(spec["name"], read_type(spec.get("type"), depth), nullable))
    return pa.schema(fields)


def read_values(dtype: pa.DataType, values: Any) -> pa.Array:
    """Return the array that a list of JSON values describes.

    Raises:
        BadInputError: Some value is none of the type.
    """
    if not isinstance(values, list):
        raise BadInputError("the values of a column are a list")
    try:
        plain = _without_dictionaries(dtype)
        found = [_value(plain, value) for value in values]
        if plain != dtype and not pa.types.is_dictionary(dtype):
            # Arrow makes broken dictionaries of null structs, so these are encoded afterwards.
            return pa.array(found, plain).cast(dtype)
        return pa.array(found, dtype)
    except (
        pa.ArrowException,
        TypeError,
        ValueError,
        OverflowError,
        AttributeError,
        InvalidOperation,
    ) as error:
        raise BadInputError(f"a value is no {dtype}: {error}") from error


def _without_dictionaries(dtype: pa.DataType) -> pa.DataType:
    """Return the type with the values of dictionaries in their place."""
    t = pa.types
    if t.is_dictionary(dtype):
        return _without_dictionaries(dtype.value_type)
    if t.is_struct(dtype):
        return pa.struct([f.with_type(_without_dictionaries(f.type)) for f in dtype])
    if t.is_list(dtype):
        return pa.list_(_without_dictionaries(dtype.value_type))
    if t.is_large_list(dtype):
        return pa.large_list(_without_dictionaries(dtype.value_type))
    if t.is_fixed_size_list(dtype):
        return pa.list_(_without_dictionaries(dtype.value_type), dtype.list_size)
    return dtype


def _value(dtype: pa.DataType, value: Any) -> Any:
    """Turn a JSON value into what Arrow takes for a type."""
    t = pa.types
    if value is None:
        return None
    if isinstance(value, bool | float):
        _check_kind(dtype, value)
    if _is_bytes(dtype):
        return bytes.fromhex(value)
    if t.is_decimal(dtype):
        return Decimal(value) if isinstance(value, str | int) else value
    if t.is_floating(dtype):
        return _FLOAT_WORDS[value] if isinstance(value, str) and value in _FLOAT_WORDS else value
    if t.is_struct(dtype):
        return {field.name: _value(field.type, value.get(field.name)) for field in dtype}
    if t.is_list(dtype) or t.is_large_list(dtype) or t.is_fixed_size_list(dtype):
        return [_value(dtype.value_type, item) for item in value]
    if isinstance(value, str) and (t.is_timestamp(dtype) or t.is_date(dtype)):
        return _ticks(dtype, value)
    return value


def _check_kind(dtype: pa.DataType, value: float) -> None:
    """Refuse what Arrow would quietly make another value of."""
    if isinstance(value, bool):
        if not pa.types.is_boolean(dtype):
            raise TypeError("true and false are values of bool only")
    elif not pa.types.is_floating(dtype):
        raise TypeError(f"{value!r} is no whole number, nor text")


def _ticks(dtype: pa.DataType, text: str) -> int:
    """Return the number that stands for a time given as text; finer digits are cut."""
    moment = Timestamp.parse(text if "T" in text else f"{text}T00:00:00Z")
    if pa.types.is_date32(dtype):
        return moment.epoch_ns // _NANOS_PER_DAY
    return moment.epoch_ns // (_NANOS[dtype.unit] if pa.types.is_timestamp(dtype) else _NANOS["ms"])


def written(values: pa.Array) -> list[Any]:
    """Return an array as JSON values: times as RFC 3339 text in UTC, dates as `2020-01-31`.

    Args:
        values: The array.
    """
    t, dtype = pa.types, values.type
    if t.is_timestamp(dtype):
        ticks = values.cast(pa.int64()).to_pylist()
        per_tick = _NANOS[dtype.unit]
        return [None if tick is None else str(Timestamp(tick * per_tick)) for tick in ticks]
    return [_json_value(value) for value in values.to_pylist()]


def _json_value(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case float() if not math.isfinite(value):
            return next(word for word, one in _FLOAT_WORDS.items() if repr(one) == repr(value))
        case list():
            return [_json_value(item) for item in value]
        case dict():
            return {key: _json_value(item) for key, item in value.items()}
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _is_bytes(dtype: pa.DataType) -> bool:
    t = pa.types
    return bool(
        t.is_binary(dtype)
        or t.is_large_binary(dtype)
        or t.is_binary_view(dtype)
        or t.is_fixed_size_binary(dtype)
    )


def _time(spec: Any, _depth: int) -> pa.DataType:
    unit = spec["time"]
    return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)


def _struct(spec: Any, depth: int) -> pa.DataType:
    return pa.struct(list(read_schema(spec["struct"], depth)))


_PARAMETRIC: Final[dict[str, Callable[[Any, int], pa.DataType]]] = {
    "timestamp": lambda spec, _: pa.timestamp(spec["timestamp"], spec.get("tz")),
    "time": _time,
    "duration": lambda spec, _: pa.duration(spec["duration"]),
    "decimal32": lambda spec, _: pa.decimal32(*spec["decimal32"]),
    "decimal64": lambda spec, _: pa.decimal64(*spec["decimal64"]),
    "decimal128": lambda spec, _: pa.decimal128(*spec["decimal128"]),
    "decimal256": lambda spec, _: pa.decimal256(*spec["decimal256"]),
    "fixed_binary": lambda spec, _: pa.binary(spec["fixed_binary"]),
    "fixed_list": lambda spec, depth: pa.list_(read_type(spec["fixed_list"], depth), spec["size"]),
    "list": lambda spec, depth: pa.list_(read_type(spec["list"], depth)),
    "large_list": lambda spec, depth: pa.large_list(read_type(spec["large_list"], depth)),
    "dictionary": lambda spec, depth: pa.dictionary(
        pa.int32(), read_type(spec["dictionary"], depth)
    ),
    "struct": _struct,
}

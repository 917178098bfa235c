"""Functions for JSON in text columns, by the names that public manifests use.

DataFusion has none built in; the engine that most public datasets were made with adds those of
`datafusion-functions-json`. Those that read one field are here. A path of several steps is
written by nesting (`json_get_str(json_get_json(text, 'a'), 'b')`).

Texts that are no JSON, fields that are missing and values of another type give null. Numbers keep
the digits that they were written with; objects and lists are written anew without blanks.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from datafusion import SessionContext

_ABSENT: Final = object()
_INT64: Final = range(-(1 << 63), 1 << 63)
_INT64_DIGITS: Final = 19
_MAX_WRITTEN_DEPTH: Final = 128
"""Objects and lists nested deeper are not written anew; their text is null."""


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


class _TooDeepError(Exception):
    """A value is nested too deep to be written anew."""


def register(context: "SessionContext") -> None:
    """Make the functions known to a session."""
    from datafusion import udf  # noqa: PLC0415

    for name, (read, result) in _READERS.items():
        inputs = [pa.string(), pa.string()]
        context.register_udf(udf(_over_columns(read, result), inputs, result, "immutable", name))
    for name, (measure, result) in _MEASURES.items():
        whole = _over_texts(measure, result)
        context.register_udf(udf(whole, [pa.string()], result, "immutable", name))


def _over_columns(
    read: Callable[[Any], object], result: pa.DataType
) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def run(texts: pa.Array, keys: pa.Array) -> pa.Array:
        found = [
            None if text is None or key is None else read(_field(_parse(text), key))
            for text, key in zip(texts.to_pylist(), keys.to_pylist(), strict=True)
        ]
        return pa.array(found, result)

    return run


def _over_texts(
    measure: Callable[[Any], object], result: pa.DataType
) -> Callable[[pa.Array], pa.Array]:
    def run(texts: pa.Array) -> pa.Array:
        found = [None if text is None else measure(_parse(text)) for text in texts.to_pylist()]
        return pa.array(found, result)

    return run


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _ABSENT


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _field(value: Any, key: str) -> Any:
    """Return a field of an object, or an element of a list by its position."""
    if isinstance(value, dict):
        return value.get(key, _ABSENT)
    if isinstance(value, list) and _is_position(key) and int(key) < len(value):
        return value[int(key)]
    return _ABSENT


def _is_position(key: str) -> bool:
    return key.isascii() and key.isdigit() and len(key) <= _INT64_DIGITS


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and not isinstance(value, _Number) else None


def _int(value: Any) -> int | None:
    if not isinstance(value, _Number):
        return None
    digits = value.removeprefix("-")
    if not digits.isdigit() or len(digits) > _INT64_DIGITS or int(value) not in _INT64:
        return None
    return int(value)


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, _Number) else None


def _bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _any_text(value: Any) -> str | None:
    if value is None or value is _ABSENT:
        return None
    return str(value) if isinstance(value, str) else _json(value)


def _json(value: Any) -> str | None:
    if value is _ABSENT:
        return None
    try:
        return _write(value, _MAX_WRITTEN_DEPTH)
    except _TooDeepError:
        return None


def _present(value: Any) -> bool:
    return value is not _ABSENT


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, dict | list) else None


def _keys(value: Any) -> list[str] | None:
    return list(value) if isinstance(value, dict) else None


def _write(value: Any, depth: int) -> str:
    """Write a value anew, numbers with the digits that they were read with."""
    if depth < 0:
        raise _TooDeepError
    match value:
        case _Number():
            return str(value)
        case dict():
            pairs = [f"{_quote(name)}:{_write(item, depth - 1)}" for name, item in value.items()]
            return "{" + ",".join(pairs) + "}"
        case list():
            return "[" + ",".join([_write(item, depth - 1) for item in value]) + "]"
    return _quote(value)


def _quote(value: str | bool | None) -> str:
    return json.dumps(value, ensure_ascii=False)


_READERS: Final[dict[str, tuple[Callable[[Any], object], pa.DataType]]] = {
    "json_get_str": (_text, pa.string()),
    "json_get_int": (_int, pa.int64()),
    "json_get_float": (_float, pa.float64()),
    "json_get_bool": (_bool, pa.bool_()),
    "json_get_json": (_json, pa.string()),
    "json_as_text": (_any_text, pa.string()),
    "json_contains": (_present, pa.bool_()),
}
_MEASURES: Final[dict[str, tuple[Callable[[Any], object], pa.DataType]]] = {
    "json_length": (_length, pa.int64()),
    "json_object_keys": (_keys, pa.list_(pa.string())),
}
JSON_FUNCTIONS: Final = (*_READERS, *_MEASURES)
"""Their names."""

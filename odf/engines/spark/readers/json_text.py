"""JSON values in Python: numbers as they are written, and values back into text."""

import json
from typing import Final

_INT64_MIN: Final = -(2**63)
_UINT64_END: Final = 2**64
_PLAIN_FROM: Final = -4
_PLAIN_TO: Final = 16


class Written(str):
    """A number with a fraction or an exponent, as it is written."""

    __slots__ = ()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


DECODER: Final = json.JSONDecoder(parse_float=Written, parse_constant=_refuse_constant)
"""Reads values; of a member that an object has twice the last one counts."""


def compact(value: object) -> str:
    """Return a value as compact text whose members are in the order of their names.

    Numbers are written as the live peer's serializer does: integers of 64 bits exactly, all
    others as the shortest text that gives the same 64-bit float.
    """
    if isinstance(value, Written):
        return _float_text(float(value))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        return str(value) if _INT64_MIN <= value < _UINT64_END else _float_text(_to_float(value))
    if isinstance(value, list):
        return "[" + ",".join([compact(element) for element in value]) + "]"
    if isinstance(value, dict):
        members = [
            f"{json.dumps(name, ensure_ascii=False)}:{compact(value[name])}"
            for name in sorted(value)
        ]
        return "{" + ",".join(members) + "}"
    raise TypeError(f"no JSON value: {type(value)}")


def as_written(value: object) -> str:
    """Return what a value is in a column of texts: a text itself, all others as JSON text."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return compact(value)


def kind_of(value: object) -> str:
    """Return what a value is, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, Written | int):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "an array" if isinstance(value, list) else "an object"


def _to_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _float_text(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        # Too large for 64 bits; null is what JSON has for it.
        return "null"
    sign, digits, point = _shortest(value)
    if 0 < point <= _PLAIN_TO:
        whole = digits[:point].ljust(point, "0")
        return f"{sign}{whole}.{digits[point:] or '0'}"
    if _PLAIN_FROM <= point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1}"


def _shortest(value: float) -> tuple[str, str, int]:
    """Return sign, digits d and point p of 0.ddd times ten to the power of p."""
    mantissa, _, exponent = repr(value).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0")
    return (sign, stripped, point) if stripped else (sign, "0", 1)

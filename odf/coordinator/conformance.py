"""`odf conformance`: one case in, one answer out, for whoever wants to compare implementations.

A kind is a rule from a case (a JSON object) to a result. It applies one codec or rule of this
project to what the case says, and nothing else: nothing is normalized, no chain is asked. This
module reads the cases and words the answers; the rules are in the modules beside it.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from odf.coordinator.context import Settings
from odf.errors import BadInputError, OdfError
from odf.limits import MAX_CONFORMANCE_CASE_SIZE

Case = Mapping[str, Any]
"""A case as it was given."""

Rule = Callable[[Case], object]
"""What a kind does: from a case to a result of plain JSON values, or an `OdfError`."""

KINDS: Final = (
    "block-encode",
    "block-decode",
    "yaml",
    "multihash",
    "did",
    "ref",
    "ddl",
    "digest",
    "merge",
)
"""The kinds of cases."""

_MAX_MESSAGE: Final = 2000
_HALF_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


@contextmanager
def rule_of(kind: str, settings: Settings) -> Iterator[Rule]:
    """Get ready for cases of one kind; what that started is ended on leaving.

    Args:
        kind: One of `KINDS`.
        settings: How engines are run; only `merge` needs one.

    Raises:
        EngineUnavailableError: The kind needs an engine, and none starts.
    """
    # Each import is what its kind needs: Arrow and gRPC are not loaded to decode a hash.
    if kind == "merge":
        from odf.coordinator.conformance_merge import merging  # noqa: PLC0415

        with merging(settings) as rule:
            yield rule
    elif kind in ("ddl", "digest"):
        from odf.coordinator.conformance_data import RULES as DATA_RULES  # noqa: PLC0415

        yield DATA_RULES[kind]
    else:
        from odf.coordinator.conformance_metadata import RULES  # noqa: PLC0415

        yield RULES[kind]


def answer(rule: Rule, line: bytes) -> str:
    """Answer one line of input, whatever is in it.

    Args:
        rule: The rule of the kind.
        line: A case as JSON, at most `MAX_CONFORMANCE_CASE_SIZE` bytes of it.

    Returns:
        A line of JSON: `id` as it was given (null if there is none), `ok`, and `result` or
        `error`. It is ASCII, so that any text of a case can be written to any stream.
    """
    case_id: object = None
    try:
        case = _read(line)
        case_id = case.get("id")
        _refuse_half_characters(case, line)
        return json.dumps({"id": case_id, "ok": True, "result": rule(case)}, allow_nan=False)
    except OdfError as error:
        message = error.message
    except Exception as error:  # noqa: BLE001 - a defect in one case must not end the others
        message = f"internal error: {type(error).__name__}: {error}"
    return json.dumps({"id": case_id, "ok": False, "error": message[:_MAX_MESSAGE]})


def _read(line: bytes) -> dict[str, Any]:
    """Read a case, strictly: standard JSON, each key once."""
    if len(line) > MAX_CONFORMANCE_CASE_SIZE:
        raise BadInputError(
            f"the case is larger than {MAX_CONFORMANCE_CASE_SIZE} bytes", reason="too_large"
        )
    try:
        case = json.loads(
            line.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except UnicodeDecodeError as error:
        raise BadInputError(f"the case is not UTF-8 text: {error.reason}") from error
    except RecursionError:
        raise BadInputError("the case is nested too deeply") from None
    except ValueError as error:
        raise BadInputError(f"the case is not JSON: {error}") from error
    if not isinstance(case, dict):
        raise BadInputError(f"the case is {_named(case)}, wanted an object")
    return case


def _refuse_half_characters(case: Case, line: bytes) -> None:
    """Refuse escapes that stand for half a surrogate pair: no text of ours can hold them."""
    if not _HALF_ESCAPE.search(line):
        return
    try:
        json.dumps(case, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadInputError("the case has text with half a surrogate pair") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise BadInputError(f"the case has the key {twice!r} twice in one object")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BadInputError(f"the case has the number {text}, which is out of range")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise BadInputError(f"the case is not JSON: {name} is not a value of JSON")


def text_of(case: Case, key: str) -> str:
    """Return a text that a case must have.

    Raises:
        BadInputError: It has none.
    """
    value = case.get(key)
    if not isinstance(value, str):
        raise BadInputError(f"`{key}` is {_named(value)}, wanted text")
    return value


def object_of(case: Case, key: str) -> dict[str, Any]:
    """Return an object that a case must have.

    Raises:
        BadInputError: It has none.
    """
    value = case.get(key)
    if not isinstance(value, dict):
        raise BadInputError(f"`{key}` is {_named(value)}, wanted an object")
    return value


def list_of(case: Case, key: str) -> list[Any]:
    """Return a list that a case must have.

    Raises:
        BadInputError: It has none.
    """
    value = case.get(key)
    if not isinstance(value, list):
        raise BadInputError(f"`{key}` is {_named(value)}, wanted a list")
    return value


def texts_of(case: Case, key: str) -> list[str]:
    """Return a list of texts that a case must have.

    Raises:
        BadInputError: It has none.
    """
    found = list_of(case, key)
    for index, value in enumerate(found):
        if not isinstance(value, str):
            raise BadInputError(f"`{key}[{index}]` is {_named(value)}, wanted text")
    return found


def _named(value: object) -> str:
    match value:
        case None:
            return "missing"
        case bool():
            return str(value).lower()
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"

"""Text documents as trees with positions, before anything is known about their meaning.

YAML files and JSON values both become such trees, so that one reader (`odf.metadata.reading`)
understands them and every message can say where.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from odf.errors import ManifestError
from odf.limits import MAX_MANIFEST_DEPTH, MAX_MANIFEST_PROBLEMS


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file, counted from one."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts.

    Attributes:
        text: As written; `None` for the null of JSON.
        plain: Whether it was written without quotes (numbers, `true`, `false`, bare words).
        mark: Where it is, if it came from a file.
        typed: Whether it cannot be text, whatever is wanted: the numbers and booleans of JSON,
            which has no bare words.
    """

    text: str | None
    plain: bool
    mark: Mark | None = None
    typed: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """Values in order."""

    items: tuple["Node", ...]
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value."""

    key: str
    value: "Node"
    mark: Mark | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys with values, as written; a key may come twice."""

    entries: tuple[Entry, ...]
    mark: Mark | None = None

    def get(self, key: str) -> "Node | None":
        """Return the first value of a key."""
        return next((entry.value for entry in self.entries if entry.key == key), None)


Node = Scalar | Listing | Mapping

NULL_WORDS: Final = frozenset({"", "~", "null", "Null", "NULL"})
"""Bare words that mean "nothing" in YAML."""


def is_null(node: Node) -> bool:
    """Tell whether a value was written as nothing."""
    if not isinstance(node, Scalar):
        return False
    return node.text is None or (node.plain and node.text in NULL_WORDS)


@dataclass(slots=True)
class Problems:
    """Collects everything that is wrong with a document.

    Attributes:
        source: What the document is called, for example the name of its file.
        lines: One `source:line:column: path: what` each.
    """

    source: str
    lines: list[str] = field(default_factory=list)

    def add(self, mark: Mark | None, path: str, what: str) -> None:
        """Note one problem; too many end the reading."""
        place = self.source
        if mark is not None:
            place += f":{mark.line}:{mark.column}"
        self.lines.append(": ".join(part for part in (place, path, what) if part))
        if len(self.lines) >= MAX_MANIFEST_PROBLEMS:
            self.lines.append(f"{self.source}: more problems are not listed")
            self.fail()

    def fail(self) -> NoReturn:
        """Raise what was collected.

        Raises:
            ManifestError: Always.
        """
        first, count = self.lines[0], len(self.lines)
        message = first if count == 1 else f"{first} (and {count - 1} more)"
        raise ManifestError(message, reason="manifest", problems=self.lines)

    def check(self) -> None:
        """Raise if anything was collected."""
        if self.lines:
            self.fail()


def node_from_json(value: Any, problems: Problems) -> Node:
    """Turn a JSON value into a tree.

    Args:
        value: What `json.loads` returns.
        problems: Where to note values that JSON does not have.
    """
    return _from_json(value, problems, 0)


def _from_json(value: Any, problems: Problems, depth: int) -> Node:
    if depth > MAX_MANIFEST_DEPTH:
        problems.add(None, "", f"nested more than {MAX_MANIFEST_DEPTH} deep")
        return Scalar(None, plain=True)
    match value:
        case None:
            return Scalar(None, plain=True)
        case str():
            return Scalar(value, plain=False)
        case bool() | int() | float():
            return Scalar(_number_text(value), plain=True, typed=True)
        case list() | tuple():
            return Listing(tuple(_from_json(item, problems, depth + 1) for item in value))
        case dict():
            entries = tuple(
                Entry(str(key), _from_json(item, problems, depth + 1))
                for key, item in value.items()
            )
            return Mapping(entries)
        case _:
            problems.add(None, "", f"{type(value).__name__} is not a JSON value")
            return Scalar(None, plain=True)


def _number_text(value: float) -> str:
    try:
        return json.dumps(value)
    except ValueError:  # Python refuses to print integers of many thousand digits
        return "a number of too many digits"


def join(path: str, key: str | int) -> str:
    """Extend the path of a value by a key or an index."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def one_of(names: Sequence[str]) -> str:
    """Write a list of choices for people."""
    return ", ".join(names)

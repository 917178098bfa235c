"""The records of JSON files, one after the other, each with where it is.

Lines are read from a piece of a file. A document, or a piece of its array, is read through a window
that moves along: only what is being decoded is in memory, so an array of any length can be read, an
element of it at a time. All are checked to their end, so that a file that was cut off is noticed.

Texts are read with `surrogateescape`, so that an element with bytes that are no text is one bad
record among others.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final

from odf.data.read_options import UTF8
from odf.engines.spark.readers.encodings import is_unicode, shown_bytes
from odf.engines.spark.readers.json_text import DECODER, kind_of
from odf.limits import MAX_JSON_VALUE_SIZE

_WINDOW: Final = 1 << 20
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_NUMBER_STARTS: Final = "-0123456789"
_NUMBER_GOES_ON: Final = re.compile(r"(?:\.|[eE][-+]?)?")
"""What may stand between a number that was read and more digits of it."""

_NEAR_END: Final = 16
_BLANK_BYTES: Final = b" \t\r\n"
_MOST_NAMES: Final = 8
_WHOLE_DOCUMENT: Final = (
    "the file has to be one JSON document, whole and nothing else; for one object a line use the "
    "read step NdJson"
)
_COMMA: Final = "a comma or the end of the array"


@dataclass(frozen=True, slots=True)
class Record:
    """A record, or why it is none.

    Attributes:
        position: Where it is: number of the line in the piece from 0, or of the element from 1.
        value: What it holds.
        size: About how many bytes it has.
        problem: Why it cannot be read; then there is no value.
        text: Its text, where it cannot be read and is no line.
    """

    position: int
    value: object
    size: int
    problem: str | None = None
    text: str | None = None


class DocumentError(Exception):
    """A document is not what the read step says.

    Args:
        message: What is wrong with it.
        hint: What to do next.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def line_records(lines: Iterator[bytes], encoding: str = UTF8) -> Iterator[Record]:
    """Read a document from each line that is not blank.

    Args:
        lines: The lines, in UTF-8.
        encoding: Of the file that they are from.
    """
    for position, line in enumerate(lines):
        stripped = line.strip(_BLANK_BYTES)
        if not stripped:
            continue
        try:
            value = DECODER.decode(stripped.decode())
        except UnicodeDecodeError:
            yield Record(position, None, len(line), f"not {encoding}")
        except (ValueError, RecursionError) as error:
            yield Record(position, None, len(line), f"not JSON: {_reason(error)}")
        else:
            yield Record(position, value, len(line))


def document_records(
    text: IO[str], path: tuple[str, ...], collection: str | None, encoding: str = UTF8
) -> Iterator[Record]:
    """Read the elements of an array inside one document.

    Args:
        text: The document.
        path: Names of the members that lead to the array.
        collection: What the member `type` of the root has to be, if that matters.
        encoding: Of the file.

    Raises:
        DocumentError: There is no such array, or the text is not JSON.
    """
    document = _Document(text, encoding)
    yield from document.elements(path, (), collection)
    if document.peek():
        raise document.error("there is something after the end of the document")


def element_records(text: IO[str], encoding: str = UTF8) -> Iterator[Record]:
    """Read the elements of a piece of an array, with commas between them.

    Args:
        text: The piece.
        encoding: Of the file.

    Raises:
        DocumentError: The piece does not begin and end with an element, or is not JSON.
    """
    yield from _Document(text, encoding).rest_of_array(ends="")


def array_offset(text: IO[str], path: tuple[str, ...]) -> int:
    """Return the byte behind the `[` of an array inside one document; what follows is not read.

    Raises:
        DocumentError: There is no such array, or what comes before it is not JSON.
    """
    return _Document(text, UTF8).array_offset(path)


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} (column {error.colno})"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


class _Document:
    """A document and how far it was read."""

    def __init__(self, text: IO[str], encoding: str) -> None:
        self._text = text
        self._encoding = encoding
        self._window = ""
        self._at = 0
        self._lines = 1
        self._bytes = 0
        self._ended = False
        self._is_clean = True

    def elements(
        self, path: tuple[str, ...], above: tuple[str, ...], collection: str | None = None
    ) -> Iterator[Record]:
        """Yield the elements of the array at a path below the value that comes next."""
        if not path:
            yield from self._array(above)
            return
        if self.peek() != "{":
            raise self._not_found(above, path)
        found, kind, names = False, None, []
        for name in self._members():
            names.append(name)
            if name == path[0]:
                if found:
                    raise self.error(f"`{_dotted((*above, name))}` occurs twice")
                found = True
                yield from self.elements(path[1:], (*above, name))
            elif name == "type" and collection is not None:
                kind = self._value()
            else:
                self._value()
        if collection is not None and kind != collection:
            raise DocumentError(
                f"the root is not a {collection}: its `type` is {json.dumps(kind)}",
                "GeoJson reads one FeatureCollection, NdGeoJson one Feature a line",
            )
        if not found:
            raise self._not_found(above, path, names)

    def array_offset(self, path: tuple[str, ...]) -> int:
        """Return the byte behind the `[` of an array."""
        for depth, name in enumerate(path):
            if self.peek() != "{":
                raise self._not_found(path[:depth], path[depth:])
            for member in self._members():
                if member == name:
                    break
                self._value()
            else:
                raise self._not_found(path[:depth], path[depth:], [])
        if self.peek() != "[":
            raise self._not_an_array(path)
        return self._bytes + _size(self._window[: self._at]) + 1

    def peek(self) -> str:
        """Return the character that comes next, after blanks; nothing at the end."""
        while True:
            blanks = _BLANKS.match(self._window, self._at)
            self._at = blanks.end() if blanks else self._at
            if self._at < len(self._window) or not self._more():
                return self._window[self._at : self._at + 1]

    def error(self, message: str, hint: str | None = None) -> DocumentError:
        """Return an error that says where it is."""
        before = self._window[: self._at]
        line = self._lines + before.count("\n")
        return DocumentError(f"not JSON at line {line}: {message}", hint or _WHOLE_DOCUMENT)

    def _array(self, path: tuple[str, ...]) -> Iterator[Record]:
        if self.peek() != "[":
            raise self._not_an_array(path)
        self._at += 1
        if self.peek() == "]":
            self._at += 1
            return
        yield from self.rest_of_array(ends="]")

    def rest_of_array(self, ends: str) -> Iterator[Record]:
        """Yield the elements that come next, up to a bracket, or up to the end of the text."""
        position = 0
        while True:
            position += 1
            yield self._element(position)
            if self.peek() == ends:
                self._at += len(ends)
                return
            self._take(",", _COMMA)

    def _element(self, position: int) -> Record:
        value, size = self._sized_value()
        if not self._is_clean and not is_unicode(text := self._window[self._at - size : self._at]):
            shown = shown_bytes(text, self._encoding)
            return Record(position, None, size, f"not {self._encoding}", shown)
        return Record(position, value, size)

    def _members(self) -> Iterator[str]:
        """Yield the names in an object; the caller reads each value."""
        self._take("{", "an object")
        if self.peek() == "}":
            self._at += 1
            return
        while True:
            name = self._value() if self.peek() == '"' else None
            if not isinstance(name, str):
                raise self.error("wanted the name of a member")
            self._take(":", "a colon")
            yield name
            if self._take(",}", "a comma or the end of the object") == "}":
                return

    def _take(self, wanted: str, described: str) -> str:
        found = self.peek()
        if not found:
            raise self.error(f"it ends early; wanted {described}")
        if found not in wanted:
            raise self.error(f"wanted {described}, got {found!r}")
        self._at += 1
        return found

    def _value(self) -> object:
        value, size = self._sized_value()
        if not self._is_clean and not is_unicode(self._window[self._at - size : self._at]):
            raise self.error(f"not {self._encoding}", "check `encoding`")
        return value

    def _sized_value(self) -> tuple[object, int]:
        """Decode the value that comes next, whatever it takes."""
        if not self.peek():
            raise self.error("it ends early; wanted a value")
        while True:
            try:
                value, end = DECODER.raw_decode(self._window, self._at)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or (
                    error.pos >= len(self._window) - _NEAR_END
                )
                if is_cut and self._more():
                    continue
                self._at = error.pos
                raise self.error(error.msg) from None
            except RecursionError:
                raise self.error("it is nested too deeply") from None
            except ValueError as error:
                raise self.error(str(error)) from None
            size = end - self._at
            if self._may_go_on(end) and self._more():
                continue
            self._at += size
            return value, size

    def _may_go_on(self, end: int) -> bool:
        """Tell whether the value here is a number of which there may be more behind the window."""
        is_number = self._window[self._at] in _NUMBER_STARTS
        return is_number and _NUMBER_GOES_ON.fullmatch(self._window, end) is not None

    def _more(self) -> bool:
        """Move the window on and make it longer if what it holds was not enough."""
        if self._ended:
            return False
        rest = len(self._window) - self._at
        if rest > MAX_JSON_VALUE_SIZE:
            raise self.error(f"one value has more than {MAX_JSON_VALUE_SIZE} characters")
        self._lines += self._window.count("\n", 0, self._at)
        self._bytes += _size(self._window[: self._at])
        piece = self._text.read(max(_WINDOW, rest))
        self._is_clean = self._is_clean and is_unicode(piece)
        self._window = self._window[self._at :] + piece
        self._at = 0
        self._ended = not piece
        return not self._ended

    def _not_found(
        self, above: tuple[str, ...], path: tuple[str, ...], names: list[str] | None = None
    ) -> DocumentError:
        whole = _dotted((*above, *path))
        where = f"`{_dotted(above)}`" if above else "the root"
        if names is None:
            said = f"{where} is {_kind_from(self.peek())}, not an object"
        else:
            shown = ", ".join(f"`{name}`" for name in names[:_MOST_NAMES]) or "nothing"
            more = ", …" if len(names) > _MOST_NAMES else ""
            said = f"{where} has {shown}{more}"
        hint = "GeoJson reads one FeatureCollection" if path == ("features",) else "check `subPath`"
        return DocumentError(f"the element `{whole}` is not found: {said}", hint)

    def _not_an_array(self, path: tuple[str, ...]) -> DocumentError:
        found = _kind_from(self.peek())
        where = f"the element `{_dotted(path)}`" if path else "the root"
        hint = "the array of rows is named by `subPath`"
        if found == "an object" and (name := self._first_array()) is not None:
            hint = f"set `subPath: {_dotted((*path, name))}`, which is an array"
        elif not path and found == "an object":
            hint += "; for one object a line use the read step NdJson"
        return DocumentError(f"{where} is not an array: it is {found}", hint)

    def _first_array(self) -> str | None:
        """Return the name of the first member of an object that is an array, if one is."""
        try:
            for name in self._members():
                if self.peek() == "[":
                    return None if "." in name else name
                self._value()
        except DocumentError:
            pass
        return None


def _size(text: str) -> int:
    return len(text.encode(errors="surrogateescape"))


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path)


def _kind_from(first: str) -> str:
    if not first:
        return "nothing at all"
    examples = {'"': "", "{": {}, "[": [], "t": True, "f": True, "n": None}
    if first not in examples and first not in _NUMBER_STARTS:
        return f"no JSON: it begins with {first!r}"
    return kind_of(examples.get(first, 0))

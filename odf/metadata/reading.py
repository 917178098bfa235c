"""Trees of text documents → objects of the model, by the types that the model declares.

Strict: unknown and repeated keys, values of another type and missing fields are problems, and all
problems of a document are collected. A bare word is text where text is wanted, whatever YAML 1.1
would make of it.
"""

import base64
import binascii
import difflib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from odf.errors import OdfError
from odf.metadata.data_types import ExtraAttributes
from odf.metadata.declare import (
    AnyType,
    BoolType,
    BytesType,
    EnumType,
    Field,
    ListType,
    NameType,
    NumberType,
    Table,
    TableType,
    TextFormat,
    TextType,
    TimestampType,
    UnionType,
    table_of,
)
from odf.metadata.declare import (
    Scalar as WireScalar,
)
from odf.metadata.legacy import key_advice, kind_advice, text_advice
from odf.metadata.nodes import (
    Entry,
    Listing,
    Mapping,
    Node,
    Problems,
    Scalar,
    is_null,
    join,
    one_of,
)
from odf.metadata.timestamp import Timestamp

BAD: Final = object()
"""Stands for a value that could not be read; the problem has been noted."""

_T = TypeVar("_T")
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,39}", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_TRUE: Final = frozenset({"true", "True", "TRUE"})
_FALSE: Final = frozenset({"false", "False", "FALSE"})
_TRUE_LIKE: Final = frozenset({"yes", "y", "on", "1"})
_FALSE_LIKE: Final = frozenset({"no", "n", "off", "0"})
_SHOWN: Final = 60


def spellings(name: str) -> tuple[str, ...]:
    """Return the accepted spellings of a PascalCase name: `NdJson`, `ndJson`, `ndjson`."""
    return (name, name[:1].lower() + name[1:], name.lower())


class Reader:
    """Reads values out of a tree.

    Args:
        problems: Where problems are noted.
    """

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def value(self, kind: AnyType, node: Node, path: str) -> Any:
        """Read a value of a type; returns `BAD` after noting why it could not."""
        match kind:
            case TableType(cls) if cls is ExtraAttributes:
                return self._extra(node, path)
            case TableType(cls):
                return self.table(cls, node, path)
            case UnionType():
                return self._union(kind, node, path)
            case ListType(item):
                return self._list(item, node, path)
            case EnumType(cls, _):
                names = {member.label: member for member in cls}
                return self._choice(names, node, path)
            case _:
                return self._scalar(kind, node, path)

    def table(self, cls: type, node: Node, path: str, *, tagged: bool = False) -> Any:
        """Read a table; `tagged` says that its `kind` was used to find out which."""
        spec = table_of(cls)
        if not isinstance(node, Mapping):
            self._wrong(node, path, f"fields of {spec.name}", text_advice(spec.name))
            return BAD
        values: dict[str, Any] = {}
        for entry in self.entries(node, path):
            if tagged and entry.key == "kind":
                continue
            where = join(path, entry.key)
            field = _field_for(spec, entry)
            if field is None:
                self._unknown_key(spec, entry, where)
            elif field.name in values:
                self.problems.add(entry.mark, where, f"is the same as `{field.key}`, given twice")
            else:
                values[field.name] = self._field(field, entry.value, where)
        for field in spec.fields:
            if field.name not in values and not field.has_default:
                self.problems.add(node.mark, path, f"`{field.key}` is missing")
                values[field.name] = BAD
        if any(value is BAD for value in values.values()):
            return BAD
        # Fields are given by name; absent ones are None or have their default.
        absent = {f.name: f.default for f in spec.fields if values.get(f.name) is None}
        return cls(**{**values, **absent})

    def entries(self, node: Mapping, path: str) -> Iterable[Entry]:
        """Return the entries of a mapping, noting repeated keys."""
        seen: set[str] = set()
        for entry in node.entries:
            if entry.key in seen:
                self.problems.add(entry.mark, join(path, entry.key), "the key is given twice")
            else:
                seen.add(entry.key)
                yield entry

    def _field(self, field: Field, node: Node, path: str) -> Any:
        if is_null(node):
            text_wanted = isinstance(field.type, TextType)
            given = isinstance(node, Scalar) and node.text is not None
            if field.has_default and not (text_wanted and given):
                return None
            self._no_value(node, path, text_wanted)
            return BAD
        return self.value(field.type, node, path)

    def _no_value(self, node: Node, path: str, text_wanted: bool) -> None:
        advice = 'quote it to mean text ("" is the empty text), or leave the key out'
        what = "has no value"
        self.problems.add(node.mark, path, f"{what}; {advice}" if text_wanted else what)

    def _unknown_key(self, spec: Table, entry: Entry, where: str) -> None:
        advice = key_advice(spec.name, entry.key)
        if advice is not None:
            self.problems.add(entry.mark, where, f"is a field of old manifests; {advice}")
            return
        known = sorted({field.key for field in spec.fields})
        what = f"{spec.name} has no such field"
        self.problems.add(entry.mark, where, what + _suggest(entry.key, known))

    def _union(self, kind: UnionType, node: Node, path: str) -> Any:
        if isinstance(node, Scalar) and not is_null(node):
            # The short form of ODF 0.38: the name of the variant alone.
            node = Mapping((Entry("kind", node, node.mark),), node.mark)
        if not isinstance(node, Mapping):
            self._wrong(node, path, f"fields of one {kind.name}, with its `kind`")
            return BAD
        tag = node.get("kind")
        labels = {kind.label(cls): cls for cls in kind.members}
        if tag is None:
            self.problems.add(
                node.mark, path, f"`kind` is missing; wanted one of {one_of(list(labels))}"
            )
            return BAD
        cls = self._choice(labels, tag, join(path, "kind"), union=kind.name)
        return BAD if cls is BAD else self.table(cls, node, path, tagged=True)

    def _choice(
        self, names: dict[str, _T], node: Node, path: str, union: str | None = None
    ) -> _T | Any:
        """Read one of several names, in any of the accepted spellings."""
        if not isinstance(node, Scalar) or node.text is None or node.typed:
            self._wrong(node, path, f"one of {one_of(list(names))}")
            return BAD
        for name, value in names.items():
            if node.text in spellings(name):
                return value
        advice = kind_advice(union, node.text) if union else None
        if advice is not None:
            what = f"{_show(node.text)} is a kind of old manifests; {advice}"
        else:
            known = list(names)
            what = f"{_show(node.text)} is not known" + (
                _suggest(node.text, known) or f"; wanted one of {one_of(known)}"
            )
        self.problems.add(node.mark, path, what)
        return BAD

    def _list(self, item: AnyType, node: Node, path: str) -> Any:
        if not isinstance(node, Listing):
            self._wrong(node, path, "a list")
            return BAD
        values: list[Any] = []
        for index, one in enumerate(node.items):
            where = join(path, index)
            if is_null(one):
                self._no_value(one, where, isinstance(item, TextType))
                values.append(BAD)
            else:
                values.append(self.value(item, one, where))
        return BAD if any(value is BAD for value in values) else tuple(values)

    def _scalar(self, kind: AnyType, node: Node, path: str) -> Any:
        wanted = _WANTED[type(kind)]
        if not isinstance(node, Scalar) or node.text is None:
            self._wrong(node, path, wanted)
            return BAD
        if node.typed and not isinstance(kind, NumberType | BoolType):
            self._wrong(node, path, wanted)
            return BAD
        match kind:
            case NumberType(scalar):
                return self._number(scalar, node, path)
            case BoolType():
                return self._bool(node, path)
            case TextType(form):
                return self._text(form, node, path)
            case BytesType(None):
                return self._parsed(_decode_base64, node, path)
            case BytesType(value_cls) if value_cls is not None:
                return self._parsed(value_cls.parse, node, path)
            case NameType(name_cls):
                return self._parsed(name_cls.parse, node, path)
            case TimestampType():
                return self._parsed(Timestamp.parse, node, path)
            case _:
                raise TypeError(f"{kind} is not a scalar")

    def _parsed(self, parse: Callable[[str], _T], node: Scalar, path: str) -> _T | Any:
        try:
            return parse(node.text or "")
        except OdfError as error:
            self.problems.add(node.mark, path, error.message)
            return BAD

    def _text(self, form: TextFormat | None, node: Scalar, path: str) -> Any:
        if form is not None and self._parsed(form.check, node, path) is BAD:
            return BAD
        return node.text if self._is_unicode(node.text or "", node, path) else BAD

    def _is_unicode(self, text: str, node: Node, path: str) -> bool:
        """Refuse halves of surrogate pairs, which escapes can write and UTF-8 cannot."""
        if text.isascii():
            return True
        try:
            text.encode()
        except UnicodeEncodeError as error:
            what = f"{_show(text)} has half a character (\\u{ord(text[error.start]):04x})"
            self.problems.add(node.mark, path, what)
            return False
        return True

    def _number(self, scalar: WireScalar, node: Scalar, path: str) -> Any:
        text = node.text or ""
        if not node.plain or not _INTEGER.fullmatch(text):
            self._wrong(node, path, "a whole number")
            return BAD
        value = int(text)
        if not scalar.low <= value <= scalar.high:
            self.problems.add(
                node.mark, path, f"{value} is out of range, wanted {scalar.low} to {scalar.high}"
            )
            return BAD
        return value

    def _bool(self, node: Scalar, path: str) -> Any:
        text = node.text or ""
        if node.plain and text in _TRUE | _FALSE:
            return text in _TRUE
        advice = None
        if text.lower() in _TRUE_LIKE | {"true"}:
            advice = "did you mean true?"
        elif text.lower() in _FALSE_LIKE | {"false"}:
            advice = "did you mean false?"
        self._wrong(node, path, "true or false", advice)
        return BAD

    def _extra(self, node: Node, path: str) -> Any:
        if isinstance(node, Scalar) and node.text is not None and not node.plain:
            return ExtraAttributes(node.text) if self._is_unicode(node.text, node, path) else BAD
        if not isinstance(node, Mapping):
            self._wrong(node, path, "a mapping of attributes")
            return BAD
        text = canonical_json(self.plain(node, path))
        return ExtraAttributes(text) if self._is_unicode(text, node, path) else BAD

    def plain(self, node: Node, path: str) -> Any:
        """Read a value that the model says nothing about, as YAML 1.2 and JSON would."""
        match node:
            case Mapping():
                return {
                    entry.key: self.plain(entry.value, join(path, entry.key))
                    for entry in self.entries(node, path)
                }
            case Listing(items):
                return [self.plain(item, join(path, index)) for index, item in enumerate(items)]
            case Scalar(text, plain):
                return _plain_scalar(text, plain)

    def _wrong(self, node: Node, path: str, wanted: str, advice: str | None = None) -> None:
        what = f"wanted {wanted}, got {_describe(node)}"
        self.problems.add(node.mark, path, f"{what}; {advice}" if advice else what)


_WANTED: Final[dict[type, str]] = {
    NumberType: "a whole number",
    BoolType: "true or false",
    TextType: "text",
    BytesType: "text",
    NameType: "a name",
    TimestampType: "a time such as 2024-01-31T12:00:00Z",
}


def canonical_json(value: Any) -> str:
    """Write JSON as `ExtraAttributes` holds it: compact, keys sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _field_for(spec: Table, entry: Entry) -> Field | None:
    """Find the field that a key means; two fields can share a key and differ in shape."""
    fields = spec.by_key.get(entry.key, ())
    if len(fields) > 1:
        shaped = isinstance(entry.value, Mapping)
        for field in fields:
            if isinstance(field.type, TableType) == shaped:
                return field
    return fields[0] if fields else None


def _plain_scalar(text: str | None, plain: bool) -> Any:
    if text is None or not plain:
        return text
    if text in _TRUE | _FALSE:
        return text in _TRUE
    if text in {"", "~", "null", "Null", "NULL"}:
        return None
    try:
        if re.fullmatch(r"[-+]?[0-9]+", text, re.ASCII):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    except ValueError:  # more digits than Python converts
        return text
    return text


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise OdfError(f"{_show(text)} is not base64 text with padding") from error


def _suggest(word: str, known: list[str]) -> str:
    folded = {name.lower(): name for name in known}
    plain = word.lower().replace("_", "").replace("-", "")
    close = difflib.get_close_matches(plain, folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[close[0]]}?" if close else ""


def _show(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _describe(node: Node) -> str:
    match node:
        case Mapping():
            return "a mapping"
        case Listing():
            return "a list"
        case Scalar() if is_null(node):
            return "nothing"
        case Scalar(text, True):
            return _show(text or "")
        case Scalar(text):
            return f"the quoted text {_show(text or '')}"

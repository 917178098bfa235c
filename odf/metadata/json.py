"""The model ⇄ JSON values, with the names of the specification.

Objects are dicts with camelCase keys in the order of the schema, absent fields left out; unions
carry `kind`; hashes are multibase text, identifiers `did:odf:…`, times RFC 3339, bytes base64.
"""

import base64
import json
from typing import Any, Final

from odf.metadata import model
from odf.metadata.data_types import ExtraAttributes
from odf.metadata.declare import (
    AnyType,
    Field,
    ListType,
    TableType,
    UnionType,
    WireEnum,
    table_of,
    type_of,
)
from odf.metadata.model import UnknownEvent
from odf.metadata.nodes import Mapping, Node, Problems, Scalar, node_from_json
from odf.metadata.reading import BAD, Reader, canonical_json

UNIONS: Final[tuple[UnionType, ...]] = tuple(
    kind
    for kind in (
        type_of(alias)
        for alias in (
            model.MetadataEvent,
            model.ReadStep,
            model.Transform,
            model.MergeStrategy,
            model.Attachments,
            model.EventTimeSource,
            model.SourceCaching,
            model.FetchStep,
            model.PrepStep,
            model.DataType,
        )
    )
    if isinstance(kind, UnionType)
)
"""The unions of the model."""

_LABELS: Final = {cls: union.label(cls) for union in UNIONS for cls in union.members}


def to_json(obj: Any) -> Any:
    """Turn an object of the model into a JSON value.

    A variant of a union carries its `kind`, whether it stands alone or in a field.
    """
    match obj:
        case bool() | str() | None:
            return obj
        case WireEnum():
            return obj.label
        case int():
            return int(obj)
        case bytes():
            return base64.b64encode(obj).decode()
        case tuple() | list():
            return [to_json(item) for item in obj]
        case ExtraAttributes(text):
            return _extra(text)
        case UnknownEvent(tag, reason):
            return {"kind": "Unknown", "tag": tag, "reason": reason}
        case _ if _is_table(obj):
            return _table(obj, _LABELS.get(type(obj)))
        case _:
            return str(obj)


def from_json(cls: Any, value: Any, source: str = "") -> Any:
    """Turn a JSON value into an object of the model.

    Args:
        cls: A class of the model, or a union such as `MetadataEvent`.
        value: What `json.loads` returns.
        source: What to call the value in errors.

    Raises:
        ManifestError: Listing every problem with its path.
    """
    problems = Problems(source)
    node = node_from_json(value, problems)
    problems.check()
    reader, kind = Reader(problems), type_of(cls)
    if isinstance(kind, TableType) and _is_tagged(kind.cls, node):
        result = reader.table(kind.cls, node, "", tagged=True)
    else:
        result = reader.value(kind, node, "")
    problems.check()
    if result is BAD:
        raise AssertionError("a value was refused without saying why")
    return result


def _is_tagged(cls: type, node: Node) -> bool:
    """Tell whether a lone variant carries its `kind`, as `to_json` writes it."""
    tag = node.get("kind") if isinstance(node, Mapping) else None
    return isinstance(tag, Scalar) and tag.text is not None and tag.text == _LABELS.get(cls)


def _is_table(obj: Any) -> bool:
    return isinstance(type_of(type(obj)), TableType)


def _table(obj: Any, label: str | None) -> dict[str, Any]:
    spec = table_of(type(obj))
    out: dict[str, Any] = {} if label is None else {"kind": label}
    for field in spec.fields:
        value = getattr(obj, field.name)
        if value is not None:
            out[_key(obj, field)] = _value(field.type, value)
    return out


def _value(kind: AnyType, value: Any) -> Any:
    match kind:
        case UnionType() if type(value) in kind.members:
            return _table(value, kind.label(type(value)))
        case ListType(item):
            return [_value(item, one) for one in value]
        case TableType(cls) if cls is not ExtraAttributes:
            return _table(value, None)
        case _:
            return to_json(value)


def _key(obj: Any, field: Field) -> str:
    """Return the key of a field, its other name if a field of the same key is given too."""
    if not field.aliases:
        return field.key
    rivals = (other for other in table_of(type(obj)).by_key[field.key] if other is not field)
    taken = any(getattr(obj, other.name) is not None for other in rivals)
    return field.aliases[0] if taken else field.key


def _extra(text: str) -> Any:
    """Return attributes as the object they are, or as text if that would not come back."""
    try:
        value = json.loads(text)
        if isinstance(value, dict) and canonical_json(value) == text:
            return value
    except (ValueError, RecursionError):
        pass
    return text

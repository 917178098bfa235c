"""The model as schemas for others: one `.fbs` file, and JSON Schemas for editors.

What is generated here is committed in the project's `schemas` folder; a test says when it is not
current, `schemas/generate.py` writes it.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

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
    TableType,
    TextType,
    TimestampType,
    UnionType,
    WireEnum,
    table_of,
    type_of,
)
from odf.metadata.identity import DatasetID
from odf.metadata.json import UNIONS
from odf.metadata.model import (
    DatasetSnapshot,
    DatasetVocabulary,
    Manifest,
    MetadataBlock,
    MetadataEvent,
)
from odf.metadata.reading import spellings

_GENERATED: Final = "Generated from the data model; do not edit, run schemas/generate.py."
_TIMESTAMP: Final = """\
struct Timestamp {
  year: int32;
  ordinal: uint16;
  seconds_from_midnight: uint32;
  nanoseconds: uint32;
}"""
_ENUM_BASES: Final = {"TimeUnitEnum": "TimeUnit"}
_SCALARS_OF_TEXT: Final = ["string", "number", "boolean"]


def render_schemas(extra_tables: Sequence[type] = ()) -> dict[str, str]:
    """Generate all schema files.

    Args:
        extra_tables: Further tables for the `.fbs`, such as the messages to engines.

    Returns:
        Text by file name.
    """
    files = {"odf.fbs": render_fbs((Manifest, MetadataBlock, DatasetVocabulary, *extra_tables))}
    manifests = (
        ("DatasetSnapshot", DatasetSnapshot, 1, 1),
        ("MetadataBlock", MetadataBlock, 2, 3),
        ("MetadataEvent", MetadataEvent, 1, 1),
    )
    for name, kind, oldest, newest in manifests:
        schema = manifest_schema(name, kind, oldest, newest)
        files[f"{name}.json"] = json.dumps(schema, indent=2) + "\n"
    return files


# -- FlatBuffers -------------------------------------------------------------------------------


def render_fbs(roots: Iterable[type]) -> str:
    """Write the FlatBuffers schema of everything that the given tables reach."""
    found = _Reached()
    for root in roots:
        found.visit(TableType(root))
    parts = [
        f"// {_GENERATED}",
        _TIMESTAMP,
    ]
    parts += [_fbs_enum(kind) for kind in found.enums.values()]
    for name, union in found.unions.items():
        parts.append(_fbs_union(union))
        if name in found.wrapped:
            parts.append(f"table {name}Wrapper {{\n  value: {name};\n}}")
    parts += [_fbs_table(cls) for cls in found.tables]
    return "\n\n".join(parts) + "\n"


class _Reached:
    """Collects the types that tables are made of, each once, in the order of first use."""

    def __init__(self) -> None:
        self.tables: dict[type, None] = {}
        self.unions: dict[str, UnionType] = {}
        self.enums: dict[str, EnumType] = {}
        self.wrapped: set[str] = set()

    def visit(self, kind: AnyType) -> None:
        match kind:
            case TableType(cls) if cls not in self.tables:
                self.tables[cls] = None
                for field in table_of(cls).fields:
                    self.visit(field.type)
            case UnionType(name) if name not in self.unions:
                self.unions[name] = kind
                for cls in kind.members:
                    self.visit(TableType(cls))
            case ListType(UnionType(name) as item):
                self.wrapped.add(name)
                self.visit(item)
            case ListType(item):
                self.visit(item)
            case EnumType(cls):
                self.enums.setdefault(cls.__name__, kind)
            case _:
                pass


def _enum_name(cls: type[WireEnum]) -> str:
    return _ENUM_BASES.get(cls.__name__, cls.__name__)


def _fbs_enum(kind: EnumType) -> str:
    members = "\n".join(f"  {member.label} = {member.value}," for member in kind.cls)
    return f"enum {_enum_name(kind.cls)}: {kind.scalar.name} {{\n{members}\n}}"


def _fbs_union(union: UnionType) -> str:
    members = "\n".join(f"  {cls.__name__},{_since(union.since_of(cls))}" for cls in union.members)
    return f"union {union.name} {{\n{members}\n}}"


def _fbs_table(cls: type) -> str:
    lines = [f"/// {_summary(cls)}", f"table {cls.__name__} {{"]
    lines += [
        f"  {field.name}: {_fbs_type(field)};{_since(field.since)}"
        for field in table_of(cls).fields
    ]
    return "\n".join([*lines, "}"])


def _since(version: str) -> str:
    return "" if version == "0.34" else f"  // since ODF {version}"


def _fbs_type(field: Field) -> str:
    name = _fbs_type_name(field.type)
    inline = isinstance(field.type, NumberType | BoolType | EnumType)
    if inline and field.optional:
        return f"{name} = null"
    return name


def _fbs_type_name(kind: AnyType) -> str:  # noqa: C901 - one line a type
    match kind:
        case NumberType(scalar):
            return scalar.name
        case BoolType():
            return "bool"
        case EnumType(cls, _):
            return _enum_name(cls)
        case TextType() | NameType():
            return "string"
        case BytesType():
            return "[ubyte]"
        case TimestampType():
            return "Timestamp"
        case TableType(cls):
            return cls.__name__
        case UnionType(name):
            return name
        case ListType(UnionType(name)):
            return f"[{name}Wrapper]"
        case ListType(item):
            return f"[{_fbs_type_name(item)}]"


# -- JSON Schema -------------------------------------------------------------------------------


def manifest_schema(name: str, kind: Any, oldest: int, newest: int) -> dict[str, Any]:
    """Write the JSON Schema of a manifest.

    Args:
        name: Its `kind`.
        kind: The type of its `content`.
        oldest: Oldest supported `version`.
        newest: Newest supported `version`.
    """
    defs = _Definitions()
    content = defs.schema(type_of(kind))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": _GENERATED,
        "title": name,
        "type": "object",
        "properties": {
            "kind": {"const": name},
            "version": {"type": "integer", "minimum": oldest, "maximum": newest},
            "content": content,
        },
        "required": ["kind", "version", "content"],
        "additionalProperties": False,
        "$defs": dict(sorted(defs.made.items())),
    }


class _Definitions:
    """Collects the `$defs` that a schema refers to."""

    def __init__(self) -> None:
        self.made: dict[str, Any] = {}

    def schema(self, kind: AnyType) -> dict[str, Any]:  # noqa: C901 - one line a type
        match kind:
            case NumberType(scalar):
                return {"type": "integer", "minimum": scalar.low, "maximum": scalar.high}
            case BoolType():
                return {"type": "boolean"}
            case EnumType(cls, _):
                return {"enum": _spelled(member.label for member in cls)}
            case TextType(None):
                # Bare words such as 1.10 are taken as the text they are.
                return {"type": list(_SCALARS_OF_TEXT)}
            case TextType(form):
                return {"type": "string", "format": form.name if form else ""}
            case BytesType(cls):
                return {"type": "string", **_bytes_format(cls)}
            case NameType():
                return {"type": "string", "format": "dataset-alias"}
            case TimestampType():
                return {"type": "string", "format": "date-time"}
            case ListType(item):
                return {"type": "array", "items": self.schema(item)}
            case TableType(cls) if cls is ExtraAttributes:
                return {"type": "object"}
            case TableType(cls):
                self._table(cls)
                return {"$ref": f"#/$defs/{cls.__name__}"}
            case UnionType():
                self._union(kind)
                return {"$ref": f"#/$defs/{kind.name}"}

    def _union(self, union: UnionType) -> None:
        if union.name not in self.made:
            self.made[union.name] = {}  # recursive types refer to themselves
            self.made[union.name] = {
                "oneOf": [self.schema(TableType(cls)) for cls in union.members]
            }

    def _table(self, cls: type) -> None:
        spec = table_of(cls)
        if spec.name in self.made:
            return
        self.made[spec.name] = {}
        label = next((u.label(cls) for u in UNIONS if cls in u.members), None)
        properties: dict[str, Any] = {}
        required = [field.key for field in spec.fields if not field.has_default]
        if label is not None:
            properties["kind"] = {"enum": _spelled([label])}
            required.insert(0, "kind")
        for key, fields in spec.by_key.items():
            options = [self.schema(field.type) for field in fields]
            properties[key] = options[0] if len(options) == 1 else {"anyOf": options}
        self.made[spec.name] = {
            "description": _summary(cls),
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def _bytes_format(cls: type | None) -> dict[str, str]:
    if cls is None:
        return {"contentEncoding": "base64"}
    return {"format": "dataset-id" if cls is DatasetID else "multihash"}


def _spelled(names: Iterable[str]) -> list[str]:
    """Return the canonical names first, then their other accepted spellings."""
    listed = list(names)
    others = [other for name in listed for other in spellings(name) if other not in listed]
    return listed + list(dict.fromkeys(others))


def _summary(cls: type) -> str:
    return (cls.__doc__ or "").strip().partition("\n")[0]

"""The words in which the model says what goes on the wire, and how the codecs read them.

A table of the format is a frozen dataclass. Each field names its type and its slot::

    @dataclass(frozen=True, slots=True)
    class OffsetInterval:
        start: Annotated[UInt64, At(0)]
        end: Annotated[UInt64, At(1)]

`X | None` is an optional field, `tuple[X, ...]` a list, an `Annotated[A | B, Variants("Name")]` a
union whose tags count from 1 in the order written. `table_of` turns such a class into a `Table`
that the FlatBuffers codec, the YAML and JSON codec and the schema generator walk.
"""

import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import IntEnum
from functools import cached_property
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from odf.metadata.identity import DatasetAlias, DatasetID, DatasetName, parse_dataset_ref
from odf.metadata.multiformats import Multihash
from odf.metadata.timestamp import Timestamp


@dataclass(frozen=True, slots=True)
class At:
    """The place of a field in its table.

    Attributes:
        slot: Slot in the vtable; a union takes this one for its tag and the next for its value.
        since: First ODF version that has the field.
        name: Name in YAML and JSON where it is not the field's own in camelCase.
        aliases: Further names that are read (later versions rename keys, never slots).
    """

    slot: int
    since: str = "0.34"
    name: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Variants:
    """Marks a union.

    Attributes:
        name: Name of the union; table names are this plus the variant unless `prefix` differs.
        prefix: What to cut from a table's name to get the variant's, `None` for the union's name.
        since: First ODF version of the variants that are not in 0.34, by table name.
    """

    name: str
    prefix: str | None = None
    since: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number on the wire.

    Attributes:
        name: Its FlatBuffers name.
        code: Its `struct` code.
        size: Bytes, and alignment.
        low: Smallest value.
        high: Largest value.
    """

    name: str
    code: str
    size: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A string with a grammar of its own.

    Attributes:
        name: What the format is called in JSON Schemas.
        check: Raises an `OdfError` if a text is not of this format.
    """

    name: str
    check: Callable[[str], object]


def _signed(name: str, code: str, size: int) -> Scalar:
    return Scalar(name, code, size, -(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1)


def _unsigned(name: str, code: str, size: int) -> Scalar:
    return Scalar(name, code, size, 0, (1 << (8 * size)) - 1)


INT16: Final = _signed("int16", "h", 2)
INT32: Final = _signed("int32", "i", 4)
INT64: Final = _signed("int64", "q", 8)
UINT32: Final = _unsigned("uint32", "I", 4)
UINT64: Final = _unsigned("uint64", "Q", 8)

# For sums over a chain, which never travel as FlatBuffers and may be larger than what is summed.
WHOLE: Final = Scalar("whole", "", 0, -1, (1 << 127) - 1)

Int32 = Annotated[int, INT32]
Int64 = Annotated[int, INT64]
UInt32 = Annotated[int, UINT32]
UInt64 = Annotated[int, UINT64]
Whole = Annotated[int, WHOLE]
DatasetRefText = Annotated[str, TextFormat("dataset-ref", parse_dataset_ref)]


class WireEnum(IntEnum):
    """An enum whose members are named on the wire in PascalCase."""

    @property
    def label(self) -> str:
        """The name in YAML and JSON: `BY_EVENT_TIME` is `ByEventTime`."""
        return "".join(part.capitalize() for part in self.name.split("_"))


@dataclass(frozen=True, slots=True)
class NumberType:
    """An integer."""

    scalar: Scalar


@dataclass(frozen=True, slots=True)
class BoolType:
    """True or false; one byte on the wire."""


@dataclass(frozen=True, slots=True)
class EnumType:
    """One of several names; a number on the wire."""

    cls: type[WireEnum]
    scalar: Scalar


@dataclass(frozen=True, slots=True)
class TextType:
    """A string."""

    format: TextFormat | None = None


@dataclass(frozen=True, slots=True)
class BytesType:
    """A byte vector: raw (base64 in text), or a value class with `to_bytes` and `parse`."""

    cls: type[Multihash] | type[DatasetID] | None = None


@dataclass(frozen=True, slots=True)
class NameType:
    """A string that is parsed into a value class."""

    cls: type[DatasetAlias] | type[DatasetName]


@dataclass(frozen=True, slots=True)
class TimestampType:
    """The one struct of the format."""


@dataclass(frozen=True, slots=True)
class TableType:
    """A nested table."""

    cls: type


@dataclass(frozen=True, slots=True)
class UnionType:
    """One of several tables."""

    name: str
    prefix: str
    members: tuple[type, ...]
    since: tuple[tuple[str, str], ...] = ()

    def label(self, cls: type) -> str:
        """Name of a variant in YAML and JSON."""
        return cls.__name__.removeprefix(self.prefix)

    def tag(self, cls: type) -> int:
        """Number of a variant on the wire."""
        return self.members.index(cls) + 1

    def since_of(self, cls: type) -> str:
        """First ODF version that has a variant."""
        return dict(self.since).get(cls.__name__, "0.34")


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of anything but lists."""

    item: "AnyType"


AnyType = (
    NumberType
    | BoolType
    | EnumType
    | TextType
    | BytesType
    | NameType
    | TimestampType
    | TableType
    | UnionType
    | ListType
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table, ready for the codecs.

    Attributes:
        name: Name of the dataclass field.
        key: Name in YAML and JSON.
        aliases: Further names that are read.
        slot: First slot in the vtable.
        type: What is in it.
        optional: Whether it may be absent.
        since: First ODF version that has it.
        default: Value when the key is absent in YAML; `None` for optional fields.
    """

    name: str
    key: str
    aliases: tuple[str, ...]
    slot: int
    type: AnyType
    optional: bool
    since: str
    default: Any = None

    @property
    def has_default(self) -> bool:
        """Whether the field may be left out in text."""
        return self.optional or self.default is not None


@dataclass(frozen=True)
class Table:
    """A dataclass of the model, ready for the codecs.

    Attributes:
        cls: The dataclass.
        fields: In the order of their slots.
    """

    cls: type
    fields: tuple[Field, ...]

    @property
    def name(self) -> str:
        """Name of the table on the wire."""
        return self.cls.__name__

    @cached_property
    def slots(self) -> int:
        """Number of slots in the vtable when every field is present."""
        return max((f.slot + width(f.type) for f in self.fields), default=0)

    @cached_property
    def by_key(self) -> dict[str, tuple[Field, ...]]:
        """Fields by the names they have in YAML and JSON; two may share one (see `At.name`)."""
        found: dict[str, tuple[Field, ...]] = {}
        for item in self.fields:
            for key in (item.key, *item.aliases):
                found[key] = (*found.get(key, ()), item)
        return found


def width(kind: AnyType) -> int:
    """Return how many slots a field of this type takes."""
    return 2 if isinstance(kind, UnionType) else 1


def camel(name: str) -> str:
    """Turn `snake_case` into `camelCase`."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


_TABLES: Final[dict[type, Table]] = {}


def table_of(cls: type) -> Table:
    """Read the declaration of a table; the result is kept.

    Raises:
        TypeError: If a declaration makes no sense; a mistake in the program, not in its input.
    """
    found = _TABLES.get(cls)
    if found is None:
        found = _TABLES[cls] = _read_declaration(cls)
    return found


def _read_declaration(cls: type) -> Table:
    hints = get_type_hints(cls, include_extras=True)
    made: list[Field] = []
    slot = 0
    for item in fields(cls):
        kind, optional, at = _resolve(hints[item.name])
        # What never travels as FlatBuffers (snapshots, states) need not number its slots.
        at = at or At(slot)
        if at.slot < slot:
            raise TypeError(f"{cls.__name__}.{item.name}: slot {at.slot} is taken")
        slot = at.slot + width(kind)
        made.append(
            Field(
                name=item.name,
                key=at.name or camel(item.name),
                aliases=at.aliases,
                slot=at.slot,
                type=kind,
                optional=optional,
                since=at.since,
                default=None if item.default is MISSING else item.default,
            )
        )
    return Table(cls, tuple(made))


def type_of(annotation: Any) -> AnyType:
    """Read the declaration of a type: a table, a union alias, or any annotation of a field."""
    return _resolve(annotation)[0]


def _resolve(annotation: Any) -> tuple[AnyType, bool, At | None]:
    inner, marks = _unwrap(annotation)
    at = next((mark for mark in marks if isinstance(mark, At)), None)
    marks = tuple(mark for mark in marks if not isinstance(mark, At))
    if not marks and get_origin(inner) in (Union, types.UnionType):
        options = [arg for arg in get_args(inner) if arg is not type(None)]
        optional = len(options) < len(get_args(inner))
        # A class beside a union stands for what this release does not understand.
        unions = [option for option in options if get_origin(option) is Annotated]
        if len(options) == 1 or len(unions) == 1:
            return _resolve((unions or options)[0])[0], optional, at
    return _plain_type(inner, marks), False, at


def _unwrap(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        return inner, tuple(marks)
    return annotation, ()


_SIMPLE_TYPES: Final[dict[Any, AnyType]] = {
    bool: BoolType(),
    str: TextType(),
    bytes: BytesType(),
    Multihash: BytesType(Multihash),
    DatasetID: BytesType(DatasetID),
    DatasetAlias: NameType(DatasetAlias),
    DatasetName: NameType(DatasetName),
    Timestamp: TimestampType(),
    int: NumberType(INT64),
}


def _plain_type(inner: Any, marks: tuple[Any, ...]) -> AnyType:
    for mark in marks:
        if isinstance(mark, Variants):
            members = get_args(inner) or (inner,)
            prefix = mark.name if mark.prefix is None else mark.prefix
            return UnionType(mark.name, prefix, members, mark.since)
        if isinstance(mark, TextFormat):
            return TextType(mark)
        if isinstance(mark, Scalar) and inner is int:
            return NumberType(mark)
        if isinstance(mark, Scalar):
            return EnumType(inner, mark)
    if get_origin(inner) is tuple:
        return ListType(_resolve(get_args(inner)[0])[0])
    if inner in _SIMPLE_TYPES:
        return _SIMPLE_TYPES[inner]
    if isinstance(inner, type) and issubclass(inner, WireEnum):
        return EnumType(inner, INT32)
    if isinstance(inner, type):
        return TableType(inner)
    raise TypeError(f"{inner!r} has no form on the wire")

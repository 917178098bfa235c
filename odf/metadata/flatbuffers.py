"""The model as FlatBuffers: blocks, and the plain tables of the engine protocol.

Byte for byte what wire-format.md §b says. Two layouts differ only in the alignment of the one
struct, `Timestamp`: version 2 (what every released peer reads, the default) places it unaligned,
version 3 aligns it to four bytes.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Any, Final, Literal

from odf.errors import OdfError
from odf.limits import MAX_BLOCK_SIZE, MAX_FLATBUFFER_DEPTH
from odf.metadata.buffers import (
    BufferReader,
    BufferWriter,
    MalformedBufferError,
    TableWriter,
)
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
    TextType,
    TimestampType,
    UnionType,
    table_of,
)
from odf.metadata.model import Manifest, MetadataBlock, UnknownEvent
from odf.metadata.multiformats import METADATA_BLOCK, Multihash
from odf.metadata.timestamp import NANOS_PER_SECOND, Timestamp
from odf.metadata.wire_reading import (
    EPOCH_DAY,
    NEWEST_KNOWN_ODF,
    SECONDS_PER_DAY,
    TIMESTAMP,
    NotUnderstoodError,
    decode_table,
    field_readers,
)

__all__ = [
    "LAYOUTS",
    "NEWEST_KNOWN_ODF",
    "BlockLink",
    "Layout",
    "MalformedBlockError",
    "NotUnderstoodError",
    "UnwritableError",
    "block_hash",
    "block_layout",
    "decode_block",
    "decode_link",
    "decode_table",
    "encode_block",
    "encode_table",
]

Layout = Literal[2, 3]
"""`Manifest.version`: which alignment the timestamps have."""

LAYOUTS: Final[tuple[Layout, ...]] = (2, 3)
"""The block layouts that are read and written."""


class MalformedBlockError(MalformedBufferError):
    """Bytes that are not a metadata block."""


class UnwritableError(OdfError):
    """An object that has no form on the wire: numbers out of range, text that is not Unicode."""


# -- Writing -----------------------------------------------------------------------------------


def encode_block(block: MetadataBlock, layout: int = 2) -> bytes:
    """Write a block as the bytes of its `Manifest`, the content of a block file.

    Args:
        block: The block.
        layout: `Manifest.version`, 2 or 3.

    Raises:
        UnwritableError: If a value does not fit the format, or the event is not understood.
    """
    if isinstance(block.event, UnknownEvent):
        raise UnwritableError(
            f"block {block.sequence_number} cannot be written again: {block.event.reason}",
            hint="keep the bytes that were received",
        )
    manifest = Manifest(METADATA_BLOCK, layout, encode_table(block, layout))
    data = encode_table(manifest, layout)
    if len(data) > MAX_BLOCK_SIZE:
        raise UnwritableError(
            f"block {block.sequence_number} takes {len(data)} bytes, at most {MAX_BLOCK_SIZE} are "
            "allowed",
            hint="keep large files outside the chain and link to them",
        )
    return data


def encode_table(obj: object, layout: int = 2) -> bytes:
    """Write any table of the model as a finished buffer (engine protocol: no `Manifest`).

    Args:
        obj: An instance of a declared table.
        layout: Alignment of timestamps, see the module.

    Raises:
        UnwritableError: If a value does not fit the format.
    """
    if layout not in LAYOUTS:
        raise UnwritableError(f"block layout {layout}, wanted one of {LAYOUTS}")
    writer = _ModelWriter(4 if layout == 3 else 1)  # noqa: PLR2004 - the layout's own number
    return writer.out.finish(writer.table(obj, 1))


class _ModelWriter:
    """Walks objects of the model in the order of wire-format.md §b.1."""

    def __init__(self, timestamp_align: int) -> None:
        self.out = BufferWriter()
        self._timestamp_align = timestamp_align

    def table(self, obj: object, depth: int) -> int:
        if depth > MAX_FLATBUFFER_DEPTH:
            raise UnwritableError(f"tables nested more than {MAX_FLATBUFFER_DEPTH} deep")
        spec = table_of(type(obj))
        values = [(field, getattr(obj, field.name)) for field in spec.fields]
        children: dict[int, int] = {}
        for field, value in values:
            if value is None:
                if not field.optional:
                    raise UnwritableError(f"{spec.name}.{field.key} is missing")
                continue
            child = self._child(spec, field, value, depth)
            if child is not None:
                children[field.slot] = child
        table = self.out.start()
        for field, value in values:
            if value is not None:
                self._put(table, spec, field, value, children.get(field.slot))
        return table.end()

    def _child(self, spec: Table, field: Field, value: Any, depth: int) -> int | None:
        """Write what a field refers to, `None` if it is stored inline."""
        match field.type:
            case ListType(item):
                return self.out.vector([self._item(spec, field, item, one, depth) for one in value])
            case NumberType() | BoolType() | EnumType() | TimestampType():
                return None
            case kind:
                return self._item(spec, field, kind, value, depth)

    def _item(self, spec: Table, field: Field, kind: AnyType, value: Any, depth: int) -> int:
        match kind:
            case TextType() | NameType():
                return self.out.text(_utf8(spec, field, str(value)))
            case BytesType(None):
                return self.out.blob(value)
            case BytesType():
                return self.out.blob(value.to_bytes())
            case UnionType() if isinstance(field.type, ListType):
                # A vector of unions is a vector of tables with one union each.
                at = self._variant(spec, field, kind, value, depth + 1)
                wrapper = self.out.start()
                wrapper.byte(0, kind.tag(type(value)))
                wrapper.offset(1, at)
                return wrapper.end()
            case UnionType():
                return self._variant(spec, field, kind, value, depth)
            case _:
                return self.table(value, depth + 1)

    def _variant(self, spec: Table, field: Field, kind: UnionType, value: Any, depth: int) -> int:
        if type(value) not in kind.members:
            raise UnwritableError(
                f"{spec.name}.{field.key} is {type(value).__name__}, wanted one of {kind.name}"
            )
        return self.table(value, depth + 1)

    def _put(
        self, table: TableWriter, spec: Table, field: Field, value: Any, child: int | None
    ) -> None:
        """Write the inline part of a field that has a value."""
        # A plain zero is the default of the format and is left out; an optional one is written.
        match field.type:
            case NumberType(scalar) | EnumType(_, scalar):
                if not scalar.low <= value <= scalar.high:
                    raise UnwritableError(
                        f"{spec.name}.{field.key} is {value}, wanted {scalar.low} to {scalar.high}"
                    )
                if value or field.optional:
                    table.scalar(field.slot, scalar, value)
            case BoolType():
                if value or field.optional:
                    table.byte(field.slot, int(value))
            case TimestampType():
                table.struct(field.slot, _pack_timestamp(value), self._timestamp_align)
            case UnionType() as kind:
                table.byte(field.slot, kind.tag(type(value)))
                table.offset(field.slot + 1, child or 0)
            case _:
                table.offset(field.slot, child or 0)


def _utf8(spec: Table, field: Field, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise UnwritableError(f"{spec.name}.{field.key} has text that is not Unicode") from error


def _pack_timestamp(value: Timestamp) -> bytes:
    seconds, nanos = divmod(value.epoch_ns, NANOS_PER_SECOND)
    days, seconds = divmod(seconds, SECONDS_PER_DAY)
    day = dt.date.fromordinal(EPOCH_DAY + days)
    ordinal = day.toordinal() - dt.date(day.year, 1, 1).toordinal() + 1
    return TIMESTAMP.pack(day.year, ordinal, seconds, nanos)


# -- Reading -----------------------------------------------------------------------------------


def decode_block(data: bytes) -> MetadataBlock:
    """Read the bytes of a block file, in either layout.

    An event of a later ODF version becomes an `UnknownEvent`; the header fields are usable.

    Raises:
        MalformedBlockError: If the bytes are not a block.
    """
    try:
        table = BufferReader(_open_manifest(data).content, MAX_BLOCK_SIZE).root()
        *header, event = field_readers(MetadataBlock)
        values = [read(table) for read in header]
        try:
            values.append(event(table))
        except NotUnderstoodError as error:
            tag = table.byte(table_of(MetadataBlock).fields[-1].slot)
            values.append(UnknownEvent(tag or 0, error.message))
        return MetadataBlock(*values)
    except MalformedBlockError:
        raise
    except MalformedBufferError as error:
        raise MalformedBlockError(f"not a metadata block: {error.message}") from error


@dataclass(frozen=True, slots=True)
class BlockLink:
    """Where a block is in its chain.

    Attributes:
        prev_block_hash: The block before it; None for the first one.
        sequence_number: Its number.
    """

    prev_block_hash: Multihash | None
    sequence_number: int


def decode_link(data: bytes) -> BlockLink:
    """Read of a block only what is needed to walk on, whatever its event is.

    Raises:
        MalformedBlockError: If the bytes are not a block as far as they are looked at.
    """
    try:
        table = BufferReader(_open_manifest(data).content, MAX_BLOCK_SIZE).root()
        _, previous, number, _ = field_readers(MetadataBlock)
        return BlockLink(previous(table), number(table))
    except MalformedBlockError:
        raise
    except MalformedBufferError as error:
        raise MalformedBlockError(f"not a metadata block: {error.message}") from error


def block_layout(data: bytes) -> int:
    """Return the layout that a block was written in, 2 or 3.

    Raises:
        MalformedBlockError: If the bytes are not a block.
    """
    try:
        return _open_manifest(data).version
    except MalformedBlockError:
        raise
    except MalformedBufferError as error:
        raise MalformedBlockError(f"not a metadata block: {error.message}") from error


def block_hash(data: bytes) -> Multihash:
    """Hash the bytes of a block file, as they came."""
    return Multihash.sha3_256(data)


def _open_manifest(data: bytes) -> Manifest:
    """Read the envelope of a block."""
    manifest = decode_table(Manifest, data)
    if manifest.kind != METADATA_BLOCK:
        raise MalformedBlockError(
            f"a manifest of kind 0x{manifest.kind:x}, wanted a metadata block "
            f"(0x{METADATA_BLOCK:x})"
        )
    if manifest.version not in LAYOUTS:
        raise MalformedBlockError(
            f"a block of manifest version {manifest.version}, supported are {LAYOUTS[0]} to "
            f"{LAYOUTS[-1]}"
        )
    return manifest

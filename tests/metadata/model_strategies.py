"""Hypothesis strategies for everything that the model declares."""

import functools
import json

from hypothesis import strategies as st

from odf.metadata.data_types import ExtraAttributes
from odf.metadata.declare import (
    BoolType,
    BytesType,
    EnumType,
    ListType,
    NameType,
    NumberType,
    TableType,
    TextType,
    TimestampType,
    UnionType,
    table_of,
    type_of,
)
from odf.metadata.identity import AccountName, DatasetAlias, DatasetID, DatasetName
from odf.metadata.model import MetadataBlock, MetadataEvent
from odf.metadata.multiformats import ARROW0_SHA3_256, SHA3_256, Multihash
from odf.metadata.timestamp import _HIGHEST, _LOWEST, Timestamp

EVENT_TYPES = type_of(MetadataEvent).members

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
hashes = st.builds(
    Multihash, st.sampled_from((SHA3_256, ARROW0_SHA3_256)), st.binary(min_size=32, max_size=32)
)
ids = st.builds(DatasetID, st.binary(min_size=32, max_size=32))
names = st.from_regex(r"[a-zA-Z0-9]{1,4}(-[a-z0-9]{1,3})?(\.[a-z0-9]{1,3})?", fullmatch=True)
aliases = st.builds(DatasetAlias, names.map(DatasetName), st.none() | names.map(AccountName))
timestamps = st.builds(Timestamp, st.integers(_LOWEST, _HIGHEST))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
extras = st.dictionaries(texts, json_values, max_size=2).map(
    lambda value: ExtraAttributes(
        json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    )
)


@functools.cache
def values(kind, depth=0):  # noqa: C901, PLR0912 - one branch a type
    """Return a strategy for the values of a declared type."""
    match kind:
        case NumberType(scalar):
            return st.integers(scalar.low, scalar.high)
        case BoolType():
            return st.booleans()
        case EnumType(cls, _):
            return st.sampled_from(list(cls))
        case TextType(None):
            return texts
        case TextType():
            return aliases.map(str) | ids.map(str)
        case BytesType(cls) if cls is None:
            return st.binary(max_size=8)
        case BytesType(cls):
            return hashes if cls is Multihash else ids
        case NameType():
            return aliases
        case TimestampType():
            return timestamps
        case ListType(item):
            return st.lists(values(item, depth), max_size=2).map(tuple)
        case TableType(cls) if cls is ExtraAttributes:
            return extras
        case TableType(cls):
            return tables(cls, depth)
        case UnionType():
            members = [m for m in kind.members if depth < 6 or not _recursive(m)]
            return st.one_of([tables(cls, depth + 1) for cls in members])


def _recursive(cls):
    return any(isinstance(f.type, UnionType | ListType) for f in table_of(cls).fields)


@functools.cache
def tables(cls, depth=0):
    """Return a strategy for the instances of a declared table."""
    arguments = {}
    for field in table_of(cls).fields:
        strategy = values(field.type, depth + 1)
        arguments[field.name] = st.none() | strategy if field.optional else strategy
    return st.builds(cls, **arguments)


def blocks(event_types=EVENT_TYPES):
    """Return a strategy for blocks with events of the given types."""
    return st.builds(
        MetadataBlock,
        system_time=timestamps,
        prev_block_hash=st.none() | hashes,
        sequence_number=st.integers(0, 2**64 - 1),
        event=st.one_of([tables(cls) for cls in event_types]),
    )

"""The bridge between pyarrow schemas and the fields that the chain records."""

import pyarrow as pa
import pytest
from hypothesis import given, settings

from odf.data.arrow_fields import arrow_schema_to_fields, fields_to_arrow_schema
from odf.errors import BadInputError, OdfError
from odf.metadata.arrow_schema import ArrowField, ArrowType, decode_schema, encode_schema
from tests.data import tables

OTHERS = pa.schema(
    [
        pa.field("required", pa.int64(), nullable=False),
        pa.field("id", pa.uuid(), nullable=False),
        pa.field("noted", pa.string(), metadata={"key": "value"}),
        ("large", pa.large_list(pa.large_string())),
        ("view", pa.list_(pa.string_view())),
        ("bytes", pa.large_binary()),
        ("half", pa.float16()),
        ("word", pa.dictionary(pa.int8(), pa.string(), ordered=True)),
        ("wide", pa.decimal256(50, 7)),
        ("narrow", pa.decimal32(5, 2)),
        ("date64", pa.date64()),
        ("time", pa.time32("ms")),
        ("for", pa.duration("us")),
        ("map", pa.map_(pa.string(), pa.int8())),
        ("none", pa.null()),
    ]
)


def through_bytes(schema):
    return fields_to_arrow_schema(decode_schema(encode_schema(arrow_schema_to_fields(schema))))


def test_every_type_there_and_back_through_the_recorded_bytes():
    assert through_bytes(OTHERS).equals(OTHERS, check_metadata=True)


@settings(deadline=None)
@given(tables.tables())
def test_any_table_there_and_back(table):
    assert through_bytes(table.schema).equals(table.schema, check_metadata=True)


def test_arrow_itself_reads_what_is_recorded():
    """The recorded schema, wrapped into a message, is one to Arrow's own reader."""
    encoded = encode_schema(arrow_schema_to_fields(OTHERS))
    root = int.from_bytes(encoded[:4], "little")
    head = b"".join(
        value.to_bytes(size, "little")
        for value, size in [
            (16, 4), (12, 2), (12, 2), (8, 2), (10, 2), (4, 2), (0, 2),
            (12, 4), (32 + root - 20, 4), (4, 2), (1, 1), (0, 1), (0, 4),
        ]
    )  # fmt: skip
    body = head + encoded
    body += bytes(-len(body) % 8)
    message = b"\xff" * 4 + len(body).to_bytes(4, "little") + body
    assert pa.ipc.read_schema(pa.py_buffer(message)) == OTHERS


def test_a_uuid_is_sixteen_bytes_with_arrows_name():
    (field,) = arrow_schema_to_fields(pa.schema([("id", pa.uuid())]))
    assert field.type == ArrowType("FixedSizeBinary", size=16)
    assert ("ARROW:extension:name", "arrow.uuid") in field.metadata
    plain = ArrowField("id", ArrowType("FixedSizeBinary", size=16))
    assert fields_to_arrow_schema([plain]).types == [pa.binary(16)]


@pytest.mark.parametrize(
    "field",
    [
        ArrowField("x", ArrowType("Union", mode="dense")),
        ArrowField("x", ArrowType("Int", bit_width=7, signed=True)),
        ArrowField("x", ArrowType("Decimal", bit_width=128, precision=99, scale=2)),
        ArrowField("x", ArrowType("Decimal", bit_width=12, precision=9, scale=2)),
        ArrowField("x", ArrowType("Time", bit_width=64, unit="s")),
        ArrowField("x", ArrowType("FixedSizeBinary", size=-2)),
        ArrowField("x", ArrowType("List")),
        ArrowField("x", ArrowType("Map"), children=(ArrowField("e", ArrowType("Struct")),)),
    ],
    ids=str,
)
def test_fields_that_arrow_does_not_have(field):
    with pytest.raises(BadInputError, match="column 'x'"):
        fields_to_arrow_schema([field])


def test_types_that_no_dataset_has():
    union = pa.dense_union([pa.field("a", pa.int8())])
    with pytest.raises(OdfError, match="column 'u'"):
        arrow_schema_to_fields(pa.schema([("u", union)]))
    deep = pa.int8()
    for _ in range(100):
        deep = pa.list_(deep)
    with pytest.raises(OdfError, match="nested deeper"):
        arrow_schema_to_fields(pa.schema([("d", deep)]))

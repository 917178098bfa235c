"""Arrow schemas as flatbuffers, with pyarrow as the second opinion."""

import base64
import contextlib
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.errors import OdfError
from odf.metadata.arrow_schema import (
    ArrowDictionary,
    ArrowField,
    ArrowSchemaError,
    ArrowType,
    decode_schema,
    encode_schema,
    schema_metadata,
)
from odf.metadata.buffers import BufferReader

FIELDS = (
    ArrowField("offset", ArrowType("Int", bit_width=64, signed=True), nullable=False),
    ArrowField("op", ArrowType("Int", bit_width=32, signed=True), nullable=False),
    ArrowField("u8", ArrowType("Int", bit_width=8, signed=False)),
    ArrowField("time", ArrowType("Timestamp", unit="ms", timezone="UTC"), nullable=False),
    ArrowField("local", ArrowType("Timestamp", unit="s")),
    ArrowField("day", ArrowType("Date", unit="day")),
    ArrowField("day64", ArrowType("Date", unit="ms")),
    ArrowField("t32", ArrowType("Time", bit_width=32, unit="ms")),
    ArrowField("t64", ArrowType("Time", bit_width=64, unit="us")),
    ArrowField("took", ArrowType("Duration", unit="ms")),
    ArrowField("f16", ArrowType("FloatingPoint", bit_width=16)),
    ArrowField("f64", ArrowType("FloatingPoint", bit_width=64)),
    ArrowField("d128", ArrowType("Decimal", bit_width=128, precision=18, scale=10)),
    ArrowField("d256", ArrowType("Decimal", bit_width=256, precision=50, scale=0)),
    ArrowField("yes", ArrowType("Bool")),
    ArrowField("none", ArrowType("Null")),
    ArrowField("Date (UTC)", ArrowType("Utf8")),
    ArrowField("big", ArrowType("LargeUtf8")),
    ArrowField("view", ArrowType("Utf8View")),
    ArrowField("bin", ArrowType("Binary")),
    ArrowField("uuid", ArrowType("FixedSizeBinary", size=16)),
    ArrowField(
        "list",
        ArrowType("List"),
        children=(ArrowField("item", ArrowType("Utf8"), metadata=(("a", "b"),)),),
    ),
    ArrowField(
        "three",
        ArrowType("FixedSizeList", size=3),
        children=(ArrowField("item", ArrowType("Bool")),),
    ),
    ArrowField(
        "struct",
        ArrowType("Struct"),
        children=(
            ArrowField("x", ArrowType("Bool"), nullable=False),
            ArrowField("y", ArrowType("Utf8")),
        ),
        metadata=(("k", "v"), ("l", "")),
    ),
    ArrowField(
        "map",
        ArrowType("Map", keys_sorted=False),
        children=(
            ArrowField(
                "entries",
                ArrowType("Struct"),
                nullable=False,
                children=(
                    ArrowField("key", ArrowType("Utf8"), nullable=False),
                    ArrowField("value", ArrowType("Bool")),
                ),
            ),
        ),
    ),
)
PYARROW = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        ("u8", pa.uint8()),
        pa.field("time", pa.timestamp("ms", "UTC"), nullable=False),
        ("local", pa.timestamp("s")),
        ("day", pa.date32()),
        ("day64", pa.date64()),
        ("t32", pa.time32("ms")),
        ("t64", pa.time64("us")),
        ("took", pa.duration("ms")),
        ("f16", pa.float16()),
        ("f64", pa.float64()),
        ("d128", pa.decimal128(18, 10)),
        ("d256", pa.decimal256(50, 0)),
        ("yes", pa.bool_()),
        ("none", pa.null()),
        ("Date (UTC)", pa.string()),
        ("big", pa.large_string()),
        ("view", pa.string_view()),
        ("bin", pa.binary()),
        ("uuid", pa.binary(16)),
        ("list", pa.list_(pa.field("item", pa.string(), metadata={"a": "b"}))),
        ("three", pa.list_(pa.field("item", pa.bool_()), 3)),
        pa.field(
            "struct",
            pa.struct([pa.field("x", pa.bool_(), nullable=False), ("y", pa.string())]),
            metadata={"k": "v", "l": ""},
        ),
        ("map", pa.map_(pa.string(), pa.bool_())),
    ],
    metadata={"about": "all of it"},
)


def read_with_pyarrow(data):
    """Wrap a bare schema into the IPC message that pyarrow wants."""
    root = struct.unpack_from("<I", data)[0]
    head = struct.pack("<I6H", 16, 12, 12, 8, 10, 4, 0)
    head += struct.pack("<iIhBx4x", 12, 32 + root - 20, 4, 1)
    message = head + data
    message += bytes(-len(message) % 8)
    framed = b"\xff\xff\xff\xff" + struct.pack("<I", len(message)) + message
    return pa.ipc.read_schema(pa.py_buffer(framed))


def bare_schema_of_pyarrow(schema):
    """Cut the schema table out of the message that pyarrow writes."""
    message = schema.serialize().to_pybytes()[8:]
    header = BufferReader(message, 1 << 20).root().offset(2)
    return struct.pack("<I", 4 + header) + message


def test_golden_schema_is_written_byte_for_byte(vectors):
    vector = next(
        v for v in vectors("metadata-blocks")["vectors"] if v["name"] == "SetDataSchema-arrow"
    )
    data = base64.b64decode(vector["block"]["event"]["schema"])
    fields = decode_schema(data)
    assert [(f.name, str(f.type), f.nullable) for f in fields] == [
        ("a", "Int(64)", False),
        ("b", "Bool", False),
    ]
    assert len(data) == 140
    assert encode_schema(fields) == data


def test_what_we_write_pyarrow_reads():
    data = encode_schema(FIELDS, (("about", "all of it"),))
    assert read_with_pyarrow(data).equals(PYARROW, check_metadata=True)
    assert decode_schema(data) == FIELDS
    assert schema_metadata(data) == (("about", "all of it"),)


def test_what_pyarrow_writes_we_read():
    data = bare_schema_of_pyarrow(PYARROW)
    assert decode_schema(data) == FIELDS
    assert schema_metadata(data) == (("about", "all of it"),)


def test_dictionaries():
    field = ArrowField("d", ArrowType("Utf8"), dictionary=ArrowDictionary(0, 16, signed=False))
    data = encode_schema((field,))
    assert decode_schema(data) == (field,)
    assert read_with_pyarrow(data).field("d").type == pa.dictionary(pa.uint16(), pa.string())
    theirs = pa.schema([("d", pa.dictionary(pa.uint16(), pa.string()))])
    assert decode_schema(bare_schema_of_pyarrow(theirs)) == (field,)


@pytest.mark.parametrize(
    "kind",
    [
        ArrowType("Int"),
        ArrowType("Int", bit_width=64),
        ArrowType("Timestamp", unit="fortnight"),
        ArrowType("Union", mode="dense"),
        ArrowType("Nonsense"),
        ArrowType("FixedSizeBinary"),
    ],
    ids=str,
)
def test_types_that_make_no_sense_are_not_written(kind):
    with pytest.raises(ArrowSchemaError, match="column 'x'"):
        encode_schema((ArrowField("x", kind),))


@given(st.data())
def test_mutated_schemas_end_in_fields_or_an_error(data):
    mutated = bytearray(encode_schema(FIELDS))
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(OdfError):
        decode_schema(bytes(mutated[: data.draw(st.integers(0, len(mutated)))]))

"""The logical hash: against the reference's golden values, a naive double, and its own laws."""

import hashlib
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf.data import digest as digest_module
from odf.data import row_bytes as row_bytes_module
from odf.data.digest import (
    RecordDigest,
    UnsupportedTypeError,
    array_digest,
    logical_hash,
    type_header,
)
from odf.errors import BadInputError
from tests.data import naive_digest, tables

PLAIN = {"bool": pa.bool_(), "date64": pa.date64(), "large_string": pa.large_string()}
PLAIN |= {"string_view": pa.string_view(), "float32": pa.float32(), "float64": pa.float64()}


def vector_type(spec):
    if isinstance(spec, str):
        return PLAIN.get(spec) or pa.type_for_alias(spec)
    if "timestamp" in spec:
        return pa.timestamp(spec["timestamp"], spec.get("tz"))
    if "time" in spec:
        return pa.time64(spec["time"])
    if "decimal128" in spec:
        return pa.decimal128(*spec["decimal128"])
    if "decimal256" in spec:
        return pa.decimal256(*spec["decimal256"])
    if "fixed_list" in spec:
        return pa.list_(vector_type(spec["fixed_list"]), spec["size"])
    if "fixed_binary" in spec:
        return pa.binary(spec["fixed_binary"])
    fields = [pa.field(f["name"], vector_type(f["type"]), f["nullable"]) for f in spec["struct"]]
    return pa.struct(fields)


def vector_array(spec, values):
    dtype = vector_type(spec)
    if pa.types.is_decimal(dtype):
        values = [None if v is None else Decimal(v) for v in values]
    if pa.types.is_binary(dtype) or pa.types.is_fixed_size_binary(dtype):
        values = [None if v is None else bytes.fromhex(v) for v in values]
    return pa.array(values, dtype)


def vector_record(spec):
    fields = [pa.field(f["name"], vector_type(f["type"]), f["nullable"]) for f in spec["schema"]]
    schema = pa.schema(fields)
    batches = [
        pa.RecordBatch.from_arrays(
            [vector_array(f["type"], v) for f, v in zip(spec["schema"], batch, strict=True)],
            schema=schema,
        )
        for batch in spec["batches"]
    ]
    return schema, batches


def test_golden_records(vectors):
    for golden in vectors("arrow-digest")["golden"]:
        got = logical_hash(*vector_record(golden["data"]))
        assert got.digest.hex() == golden["digestHex"], golden["name"]
        assert str(got) == golden["text"]


def test_derived_records(vectors):
    for derived in vectors("arrow-digest")["derivedRecords"]:
        assert str(logical_hash(*vector_record(derived))) == derived["logicalHash"], derived["name"]


def test_relations_of_arrays(vectors):
    for relation in vectors("arrow-digest")["arrayRelations"]:
        for equal in relation["equal"]:
            got = array_digest(vector_array(equal["type"], equal["values"]))
            assert got.hex() == relation["derivedSha3_256"], equal
        for other in relation["notEqual"]:
            got = array_digest(vector_array(other["type"], other["values"]))
            assert got.hex() == other["derivedSha3_256"] != relation["derivedSha3_256"], other


def test_relations_of_records(vectors):
    for relation in vectors("arrow-digest")["recordRelations"]:
        for equal in relation["equal"]:
            got = logical_hash(*vector_record(equal))
            assert got.digest.hex() == relation["derivedSha3_256"], relation["name"]
        for other in relation["notEqual"]:
            got = logical_hash(*vector_record(other)).digest.hex()
            assert got == other["derivedSha3_256"] != relation["derivedSha3_256"]


def test_headers_and_payloads_of_every_type(vectors):
    for derived in vectors("arrow-digest")["derivedArrays"]:
        array = vector_array(derived["type"], derived["values"])
        assert type_header(array.type).hex() == derived["typeBytesHex"], derived["name"]
        raw = bytes.fromhex(derived["typeBytesHex"] + derived["payloadHex"])
        assert hashlib.sha3_256(raw).hexdigest() == derived["derivedSha3_256"]
        assert array_digest(array).hex() == derived["derivedSha3_256"], derived["name"]


@settings(deadline=None)
@given(tables.tables())
def test_agrees_with_the_naive_double(table):
    assert logical_hash(table.schema, table.to_batches()).digest == naive_digest.digest(table)


@settings(deadline=None)
@given(st.data())
def test_batches_do_not_matter(data):
    table = data.draw(tables.tables())
    wanted = logical_hash(table.schema, table.to_batches())
    assert logical_hash(table.schema, data.draw(tables.split(table))) == wanted


@settings(deadline=None)
@given(st.data())
def test_ways_of_storing_do_not_matter(data):
    table = data.draw(tables.tables())
    wanted = logical_hash(table.schema, table.to_batches())
    columns = [
        data.draw(st.sampled_from(tables.other_forms(column.combine_chunks())))
        for column in table.columns
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=table.column_names)
    cut = data.draw(st.integers(0, batch.num_rows))
    parts = [batch.slice(0, cut), batch.slice(cut)]
    assert logical_hash(table.schema, parts) == wanted
    assert logical_hash(batch.schema, parts) == wanted


@settings(deadline=None)
@given(st.data())
def test_structs_are_cut_anew_at_fixed_rows(data):
    table = data.draw(tables.tables(max_rows=20))
    parts = data.draw(tables.split(table))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest_module, "NESTED_BATCH_ROWS", 7)
        got = logical_hash(table.schema, parts)
    assert got.digest == naive_digest.digest(table, nested_batch=7)


def test_nulls_of_structs_combine_by_batch():
    dtype = pa.struct([("x", pa.int32())])
    rows = [{"x": None}, {"x": 5}, None]
    with_null_parent = logical_hash(pa.schema([("s", dtype)]), batches_of({"s": rows}, dtype))
    # Where a parent is null in the batch, a null leaf under a valid parent counts as its zero.
    zeroed = [{"x": 0}, {"x": 5}, None]
    assert with_null_parent == logical_hash(
        pa.schema([("s", dtype)]), batches_of({"s": zeroed}, dtype)
    )
    assert logical_hash(
        pa.schema([("s", dtype)]), batches_of({"s": rows[:2]}, dtype)
    ) != logical_hash(pa.schema([("s", dtype)]), batches_of({"s": zeroed[:2]}, dtype))


def batches_of(columns, dtype):
    return pa.table({k: pa.array(v, dtype) for k, v in columns.items()}).to_batches()


def test_garbage_under_nulls_is_not_seen():
    values = pa.py_buffer(b"\x07\0\0\0\x09\0\0\0\x0b\0\0\0")
    valid = pa.py_buffer(b"\x05")
    dirty = pa.Array.from_buffers(pa.int32(), 3, [valid, values])
    assert dirty.to_pylist() == [7, None, 11]
    assert array_digest(dirty) == array_digest(pa.array([7, None, 11], pa.int32()))
    struct = pa.StructArray.from_arrays([dirty], ["x"], mask=pa.array([False, False, True]))
    clean = pa.array([{"x": 7}, {"x": None}, None], struct.type)
    schema = pa.schema([("s", struct.type)])
    assert logical_hash(schema, [pa.record_batch([struct], ["s"])]) == logical_hash(
        schema, [pa.record_batch([clean], ["s"])]
    )


def test_many_rows_in_threads_and_pieces():
    rows = 150_000
    text = pa.array([f"row {i}" if i % 7 else None for i in range(rows)])
    table = pa.table(
        {
            "n": pa.arange(0, rows),
            "text": text,
            "word": pa.array(["aa", "b", None, "cccc"] * (rows // 4)).dictionary_encode(),
            "flag": pa.array([True, None, False] * (rows // 3)),
            "list": pa.array(
                [[i, None] if i % 3 else [] for i in range(rows)], pa.list_(pa.int32())
            ),
            "struct": pa.array(
                [{"a": i if i % 5 else None} if i % 11 else None for i in range(rows)]
            ),
        }
    )
    wanted = naive_digest.digest(table)
    assert logical_hash(table.schema, table.to_batches()).digest == wanted
    assert logical_hash(table.schema, table.to_batches(max_chunksize=4_099)).digest == wanted


TEXTS = [pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.string_view()]


@pytest.mark.parametrize("dtype", TEXTS, ids=str)
@given(
    rows=st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=30),
    cut=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    short=st.booleans(),
)
def test_slices_of_texts(dtype, rows, cut, short):
    is_text = pa.types.is_string(dtype) or dtype in (pa.large_string(), pa.string_view())
    values = rows if is_text else [row if row is None else row.encode() for row in rows]
    start, count = cut
    kept = values[start : start + count]
    with pytest.MonkeyPatch.context() as patch:
        if not short:
            patch.setattr(row_bytes_module, "_SMALL_BYTES", 0)
        got = array_digest(pa.array(values, dtype).slice(start, count))
    hasher = hashlib.sha3_256(type_header(dtype))
    for value in kept:
        raw = value.encode() if isinstance(value, str) else value
        hasher.update(b"\0" if raw is None else len(raw).to_bytes(8, "little") + raw)
    assert got == hasher.digest()


NUMBERS = [
    *(pa.int8(), pa.int16(), pa.uint32(), pa.int64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.timestamp("ms", "UTC")),
    *(pa.decimal32(3, 1), pa.decimal64(9, 2), pa.decimal128(20, 2), pa.decimal256(40, 3)),
]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@given(
    rows=st.lists(
        st.one_of(st.none(), st.binary(min_size=32, max_size=32)), min_size=1, max_size=40
    ),
    cut=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    piece=st.sampled_from([1, 100, 1 << 20]),
)
def test_slices_of_numbers(dtype, rows, cut, piece):
    """Any bits, any nulls, cut anywhere, also where a byte of the bitmap is not."""
    width = dtype.byte_width
    values = [None if row is None else row[:width] for row in rows]
    raw = pa.py_buffer(b"".join(value or bytes(width) for value in values))
    bits = pa.array([value is not None for value in values]).buffers()[1]
    array = pa.Array.from_buffers(dtype, len(values), [bits, raw])
    start, count = cut
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_bytes_module, "PIECE_BYTES", piece)
        got = array_digest(array.slice(start, count))
    hasher = hashlib.sha3_256(type_header(dtype))
    for value in values[start : start + count]:
        hasher.update(b"\0" if value is None else value)
    assert got == hasher.digest()


def test_text_under_a_null_is_not_seen():
    clean = pa.array(["ab", None, "c"])
    _, offsets, _ = pa.array(["ab", "dirt", "c"]).buffers()
    dirty = pa.Array.from_buffers(
        pa.string(), 3, [clean.buffers()[0], offsets, pa.py_buffer(b"abdirtc")]
    )
    assert dirty.to_pylist() == clean.to_pylist()
    assert array_digest(dirty) == array_digest(clean)


def test_long_values_of_a_dictionary_are_taken_in_pieces():
    values = pa.array(["x" * 700_000, "y" * 3, ""])
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 0, 0]), values)
    assert array_digest(array) == array_digest(array.dictionary_decode())


@pytest.mark.parametrize(
    "dtype",
    [
        pa.map_(pa.string(), pa.int32()),
        pa.duration("s"),
        pa.list_(pa.struct([("x", pa.int32())])),
        pa.list_view(pa.int8()),
    ],
    ids=str,
)
def test_types_without_a_hash_are_named(dtype):
    with pytest.raises(UnsupportedTypeError, match="column 'here'"):
        RecordDigest(pa.schema([("fine", pa.int8()), ("here", dtype)]))


def test_null_columns_have_a_header_but_no_values():
    schema = pa.schema([("n", pa.null())])
    logical_hash(schema, [])
    with pytest.raises(UnsupportedTypeError):
        logical_hash(schema, [pa.record_batch([pa.nulls(1)], schema=schema)])


def test_failures_in_threads_come_out():
    rows = 100_000
    schema = pa.schema([("a", pa.int64()), ("n", pa.null())])
    batch = pa.record_batch([pa.arange(0, rows), pa.nulls(rows)], schema=schema)
    with pytest.raises(UnsupportedTypeError):
        logical_hash(schema, [batch])


def test_deep_types_are_refused_and_do_not_exhaust_the_stack():
    dtype = pa.int8()
    for _ in range(2_000):
        dtype = pa.struct([("x", dtype)])
    with pytest.raises(UnsupportedTypeError, match="nested deeper"):
        RecordDigest(pa.schema([("deep", dtype)]))


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch([pa.array([1])], ["b"]),
        pa.record_batch([pa.array([1], pa.int32())], ["a"]),
        pa.record_batch([pa.array([{"x": 1}])], ["a"]),
        pa.record_batch([pa.array([1]), pa.array([1])], ["a", "b"]),
    ],
)
def test_batches_of_other_columns_are_refused(batch):
    with pytest.raises(BadInputError):
        logical_hash(pa.schema([("a", pa.int64())]), [batch])

"""Types between DDL, Arrow and Spark, and the conversion into what slices hold."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf.data.types import (
    TIMESTAMP_MS_UTC,
    Kind,
    arrow_schema,
    conform,
    describe,
    from_arrow,
    loses_digits,
    parse_ddl,
    slice_type,
    to_arrow,
    to_spark,
)
from odf.errors import BadInputError
from tests.data import tables

EVERY_TYPE = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "TINYINT UNSIGNED", "SMALLINT UNSIGNED",
    "INT UNSIGNED", "BIGINT UNSIGNED", "FLOAT", "DOUBLE", "DECIMAL(18,4)", "STRING", "BINARY",
    "DATE", "TIME", "TIMESTAMP(3)", "UUID", "ARRAY<INT>", "STRUCT<a INT, b ARRAY<TEXT>>",
]  # fmt: skip


@pytest.mark.parametrize("text", EVERY_TYPE)
def test_arrow_and_back(text):
    (column,) = parse_ddl([f"x {text}"])
    assert from_arrow(to_arrow(column.type)) == column.type


@pytest.mark.parametrize(
    ("arrow", "ddl"),
    [
        (pa.large_string(), "STRING"),
        (pa.string_view(), "STRING"),
        (pa.dictionary(pa.int8(), pa.string()), "STRING"),
        (pa.large_list(pa.binary_view()), "ARRAY<BINARY>"),
        (pa.date64(), "DATE"),
        (pa.binary(7), "FIXED_BINARY(7)"),
        (pa.timestamp("us"), "TIMESTAMP(6)"),
        (pa.decimal64(5, 1), "DECIMAL(5,1)"),
    ],
    ids=str,
)
def test_forms_of_arrow_are_one_declared_type(arrow, ddl):
    assert describe(from_arrow(arrow)) == ddl


@pytest.mark.parametrize("arrow", [pa.map_(pa.string(), pa.int8()), pa.duration("s"), pa.null()])
def test_types_that_nobody_can_declare(arrow):
    with pytest.raises(BadInputError, match="no column type"):
        from_arrow(arrow)


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("TEXT", "STRING"),
        ("LONG", "BIGINT"),
        ("INT UNSIGNED", "BIGINT"),
        ("BIGINT UNSIGNED", "DECIMAL(20,0)"),
        ("NUMERIC(9,2)", "DECIMAL(9,2)"),
        ("TIMESTAMP(3)", "TIMESTAMP"),
        ("UUID", "BINARY"),
        ("ARRAY<DATE>", "ARRAY<DATE>"),
        ('STRUCT<"a b" INT NOT NULL, c TEXT>', "STRUCT<`a b`: INT NOT NULL, `c`: STRING>"),
    ],
)
def test_spark_names(text, spark):
    assert to_spark(parse_ddl([f"x {text}"])[0].type) == spark


def test_a_uuid_is_marked_and_sixteen_bytes():
    dtype = to_arrow(parse_ddl(["x UUID"])[0].type)
    assert (dtype, dtype.storage_type) == (pa.uuid(), pa.binary(16))
    assert from_arrow(dtype).kind is Kind.UUID
    assert slice_type(dtype) == dtype


def test_slices_have_milliseconds_utc_everywhere():
    schema = arrow_schema(parse_ddl(["a TIMESTAMP", "b ARRAY<STRUCT<c TIMESTAMP(0)>>", "d TIME"]))
    assert [str(slice_type(t)) for t in schema.types] == [
        "timestamp[ms, tz=UTC]",
        "list<element: struct<c: timestamp[ms, tz=UTC]>>",
        "time64[us]",
    ]
    assert slice_type(pa.timestamp("ns", "Asia/Tokyo")) == TIMESTAMP_MS_UTC
    assert slice_type(pa.dictionary(pa.int32(), pa.large_string())) == pa.string()
    # As Parquet calls the element, so that a type is the same when a slice is read.
    plain = pa.list_(pa.field("element", pa.string()))
    assert str(slice_type(pa.large_list(pa.string_view()))) == str(plain)
    assert slice_type(pa.uint16()) == pa.uint16()
    assert slice_type(pa.uint32()) == pa.int64()


@settings(deadline=None)
@given(
    st.lists(st.none() | st.integers(-(2**62), 2**62), max_size=8), st.sampled_from(["us", "ns"])
)
def test_finer_digits_are_cut_towards_the_past(ticks, unit):
    step = {"us": 10**3, "ns": 10**6}[unit]
    column = pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, "America/Lima"))
    got = conform(column, TIMESTAMP_MS_UTC)
    assert got.type == TIMESTAMP_MS_UTC
    assert got.cast(pa.int64()).to_pylist() == [None if t is None else t // step for t in ticks]
    assert loses_digits(column) == any(t is not None and t % step for t in ticks)


def test_nested_and_coarser_times_and_slices_of_them():
    seconds = pa.array([1, None, -1], pa.int64()).cast(pa.timestamp("s"))
    assert conform(seconds, TIMESTAMP_MS_UTC).cast(pa.int64()).to_pylist() == [1000, None, -1000]
    dtype = pa.large_list(pa.struct([("t", pa.timestamp("us"))]))
    lists = tables.array(pa.list_(pa.int64()), [[7], [-1, None], None, []])
    structs = pa.StructArray.from_arrays([lists.values.cast(pa.timestamp("us"))], ["t"])
    column = pa.LargeListArray.from_arrays(
        lists.offsets.cast(pa.int64()), structs, mask=lists.is_null()
    )
    assert column.type == dtype
    got = conform(column.slice(1), slice_type(dtype))
    got.validate(full=True)
    as_ticks = got.cast(pa.list_(pa.struct([("t", pa.int64())])))
    assert as_ticks.to_pylist() == [[{"t": -1}, {"t": None}], None, []]


@pytest.mark.parametrize(
    ("values", "target"),
    [
        (pa.array(["x"]), pa.int32()),
        (pa.array([2**40]), pa.int32()),
        (pa.array([2**61]).cast(pa.timestamp("s")), TIMESTAMP_MS_UTC),
        (pa.array([b"short"]), pa.uuid()),
        (pa.array([{"a": 1}]), pa.struct([("b", pa.int64())])),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_refused(values, target):
    with pytest.raises(BadInputError, match="do not fit"):
        conform(values, target)

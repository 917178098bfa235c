"""Structures with parts that are never null: whatever stands below a null, it is no null."""

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from odf.engines.spark.required import sound, sound_batch

INNER = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])
WANTED = pa.struct(
    [
        pa.field("n", pa.int64()),
        pa.field("d", pa.date32(), nullable=False),
        pa.field("m", pa.decimal128(9, 2), nullable=False),
        pa.field("t", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("f", pa.float64(), nullable=False),
        pa.field("x", pa.binary(), nullable=False),
        pa.field("y", pa.bool_(), nullable=False),
        pa.field("i", INNER, nullable=False),
        pa.field("l", pa.list_(pa.field("element", INNER, nullable=False)), nullable=False),
    ]
)


def loose(dtype: pa.DataType) -> pa.DataType:
    """The type with all parts nullable, as it comes out of a file."""
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(part.name, loose(part.type)) for part in dtype])
    if pa.types.is_list(dtype):
        return pa.list_(pa.field("element", loose(dtype.value_type)))
    return dtype


INNERS = st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.sampled_from(["", "é", None])})
VALUES = st.none() | st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(0, 9),
        "d": st.just(date(2020, 1, 2)),
        "m": st.sampled_from([Decimal("1.25"), Decimal("-7.00")]),
        "t": st.integers(0, 9),
        "f": st.sampled_from([0.5, -1.0]),
        "x": st.binary(max_size=2),
        "y": st.booleans(),
        "i": INNERS,
        "l": st.lists(INNERS, max_size=2),
    }
)


@given(st.lists(VALUES, max_size=8), st.integers(0, 3))
def test_values_stay_and_nothing_contradicts_the_type(
    values: list[dict[str, Any] | None], start: int
) -> None:
    given_ = pa.array(values, loose(WANTED)).slice(start)
    found = sound(given_, WANTED)
    found.validate(full=True)
    assert found.type == WANTED
    assert found.to_pylist() == given_.to_pylist()
    assert sound(found, WANTED).to_pylist() == given_.to_pylist()
    assert sound(found, loose(WANTED)).to_pylist() == given_.to_pylist()
    schema = pa.schema([("z", WANTED)])
    batch = sound_batch(pa.RecordBatch.from_arrays([given_], ["z"]), schema)
    sink = pa.BufferOutputStream()
    # Parquet refuses nulls where none may be.
    pq.write_table(pa.Table.from_batches([batch]), sink)
    assert pq.read_table(pa.BufferReader(sink.getvalue())).column("z").to_pylist() == (
        given_.to_pylist()
    )

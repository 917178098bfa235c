"""Keys of every type that Arrow is trusted with, and values that compare as in SQL."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from odf.engines.spark.merge.in_task.keyed import one_per_key, pairs, same
from odf.engines.spark.merge.layout import MergeColumn, MergeLayout
from odf.engines.spark.merge.small import comparable
from odf.metadata.model import DEFAULT_VOCAB

KEYS = [
    pa.array(["", "é"]),
    pa.array([b"", b"\0"]),
    pa.array([b"a" * 16, b"b" * 16], pa.binary(16)),
    pa.array([True, False]),
    pa.array([-(2**63), 2**63 - 1], pa.int64()),
    pa.array([1, 2], pa.uint8()),
    pa.array([1, 2**63], pa.uint64()),
    pa.array([Decimal("1.10"), Decimal("-2.00")], pa.decimal128(9, 2)),
    pa.array([Decimal("1.10"), Decimal("-2.00")], pa.decimal128(38, 2)),
    pa.array([-1, 2], pa.int32()).cast(pa.date32()),
    pa.array([-1, 2], pa.timestamp("ms", "UTC")),
    pa.array([1, 2], pa.time64("us")),
]


@pytest.mark.parametrize("values", KEYS, ids=lambda values: str(values.type))
def test_keys_of_all_types(values: pa.Array) -> None:
    assert comparable(_layout(values.type), (0,), ())
    new = pa.table({"k": values, "r": [0, 1]})
    old = pa.table({"k": values.slice(1), "o": [7]})
    here, there = pairs(new, old, ["k"], "full outer")
    found = dict(zip(here.to_pylist(), there.to_pylist(), strict=True))
    assert found == {0: None, 1: 0}
    twice = pa.concat_tables([new, new.set_column(1, "r", pa.array([2, 3]))])
    assert one_per_key(twice, ["k"], "r", first=True).column("r").to_pylist() == [0, 1]
    assert one_per_key(twice, ["k"], "r", first=False).column("r").to_pylist() == [2, 3]


@pytest.mark.parametrize("dtype", [pa.float32(), pa.float64()])
def test_floating_keys_are_left_to_spark(dtype: pa.DataType) -> None:
    assert not comparable(_layout(dtype), (0,), ())
    assert comparable(_layout(dtype), (), (0,))


@pytest.mark.parametrize("dtype", [pa.list_(pa.int32()), pa.struct([("x", pa.int32())])])
def test_nested_values_are_left_to_spark_unless_they_only_come_along(dtype: pa.DataType) -> None:
    assert not comparable(_layout(dtype), (), (0,))
    assert comparable(_layout(dtype), (), ())


def test_values_are_the_same_as_in_sql() -> None:
    left = pa.array([0.0, math.nan, None, None, 1.0, math.nan])
    right = pa.array([-0.0, math.nan, None, 1.0, 2.0, None])
    assert same(left, right).to_pylist() == [True, True, True, False, False, False]


def _layout(dtype: pa.DataType) -> MergeLayout:
    return MergeLayout((MergeColumn("k", pa.field("k", dtype), True, True),), DEFAULT_VOCAB)

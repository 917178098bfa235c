"""Retractions against what they retract: beside a slow reference that keeps every row."""

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf.data.retractions import RetractionCheck, WrongRetraction
from odf.errors import BadInputError
from odf.metadata.model import DEFAULT_VOCAB, OperationType

A, R, F, T = OperationType
MS = pa.timestamp("ms", "UTC")


TYPES = (pa.string(), pa.int64())


def batch(rows, columns=("city", "people"), start=0, types=TYPES):
    """Make rows of (operation, values…)."""
    fields = {
        "offset": pa.array(range(start, start + len(rows)), pa.int64()),
        "op": pa.array([int(row[0]) for row in rows], pa.int32()),
        "system_time": pa.array([start] * len(rows), MS),
        "event_time": pa.array([None] * len(rows), MS),
    }
    for place, (name, dtype) in enumerate(zip(columns, types, strict=True), 1):
        fields[name] = pa.array([row[place] for row in rows], dtype)
    return pa.RecordBatch.from_pydict(fields)


def wrong(batches, folder: Path, key=("city",), held_rows=1 << 20):
    """Return what is wrong, by offset."""
    check = RetractionCheck(key, DEFAULT_VOCAB, folder, held_rows)
    for one in batches:
        check.add(one)
    return sorted(check.finish(), key=lambda found: found.offset)


def naive(rows):
    """Say the same, row by row."""
    current, found = {}, []
    for offset, (op, city, people) in enumerate(rows):
        if op in (R, F):
            before = current.pop(city, None)
            if before is None or before[1] != people:
                found.append(WrongRetraction(offset, op, before[0] if before else None))
        else:
            current[city] = (offset, people)
    return found


def test_right_retractions(tmp_path):
    rows = [(A, "Oslo", 1), (A, "Rome", 2), (F, "Oslo", 1), (T, "Oslo", 3), (R, "Oslo", 3)]
    assert wrong([batch(rows), batch([(R, "Rome", 2)], start=5)], tmp_path) == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(A, "Oslo", 1), (R, "Oslo", 2)], "-R at offset 1 differs from the row at offset 0"),
        ([(A, "Oslo", 1), (F, "Oslo", None), (T, "Oslo", 2)], "-C at offset 1 differs"),
        ([(R, "Oslo", 1)], "-R at offset 0 has no row of its key to retract"),
        ([(A, "Oslo", 1), (R, "Rome", 1)], "-R at offset 1 has no row of its key"),
        ([(A, "Oslo", 1), (R, "Oslo", 1), (R, "Oslo", 1)], "-R at offset 2 has no row"),
        ([(A, None, 1), (R, None, 2)], "-R at offset 1 differs from the row at offset 0"),
    ],
)
def test_wrong_retractions(tmp_path, rows, message):
    [found] = wrong([batch(rows)], tmp_path)
    assert str(found).startswith(message)


def test_what_is_not_judged_is_still_history(tmp_path):
    check = RetractionCheck(["city"], DEFAULT_VOCAB, tmp_path)
    check.add(batch([(A, "Oslo", 1), (R, "Oslo", 9)]), judged=False)
    check.add(batch([(R, "Oslo", 9)], start=2))
    assert [found.offset for found in check.finish()] == [2]


def test_a_column_that_came_later_was_null_before(tmp_path):
    old = batch([(A, "Oslo", 1)])
    columns, types = ("city", "people", "area"), (pa.string(), pa.int64(), pa.float64())
    right = batch([(R, "Oslo", 1, None)], columns, 1, types)
    other = batch([(R, "Oslo", 1, 0.5)], columns, 1, types)
    assert wrong([old, right], tmp_path) == []
    assert [found.retracted for found in wrong([old, other], tmp_path)] == [0]


def test_a_null_is_not_a_zero_nor_another_column_s_value(tmp_path):
    columns, types = ("city", "a", "b"), (pa.string(), pa.int8(), pa.int8())
    for first, second in (((0, None), (None, 0)), ((None, None), (0, 0)), ((0, 0), (0, None))):
        rows = [(A, "Oslo", *first), (R, "Oslo", *second)]
        assert len(wrong([batch(rows, columns, types=types)], tmp_path)) == 1


@pytest.mark.parametrize(
    ("dtype", "same", "other"),
    [
        (pa.float64(), [0.0, -0.0], 1.0),
        (pa.float32(), [float("nan"), float("nan")], 0.0),
        (pa.string(), ["", ""], None),
        (pa.string_view(), ["a", "a"], "b"),
        (pa.list_(pa.int32()), [[1, None], [1, None]], [1]),
        (pa.struct([("a", pa.int8())]), [{"a": None}, {"a": None}], None),
        (pa.struct([("a", pa.string()), ("b", pa.string())]), [{"a": "x"}, {"a": "x"}], {"b": "x"}),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "a"], "b"),
        (pa.bool_(), [False, False], None),
        (pa.decimal128(5, 2), [1, 1], 2),
    ],
)
def test_values_of_all_types(tmp_path, dtype, same, other):
    types = (pa.string(), dtype)
    first, second = same
    rows = [(A, "Oslo", first), (R, "Oslo", second)]
    assert wrong([batch(rows, types=types)], tmp_path) == []
    assert len(wrong([batch([rows[0], (R, "Oslo", other)], types=types)], tmp_path)) == 1


def test_no_columns_but_the_key(tmp_path):
    rows = [(A, "Oslo"), (R, "Oslo"), (R, "Oslo")]
    made = batch(rows, ("city",), types=(pa.string(),))
    assert [found.offset for found in wrong([made], tmp_path)] == [2]


def test_a_missing_key_column(tmp_path):
    check = RetractionCheck(["town"], DEFAULT_VOCAB, tmp_path)
    with pytest.raises(BadInputError, match="'town'"):
        check.add(batch([(A, "Oslo", 1)]))


ROWS = st.lists(
    st.tuples(st.sampled_from([A, A, R, F, T]), st.sampled_from("abcdef"), st.integers(0, 2)),
    max_size=60,
)


@settings(max_examples=200)  # each may write 64 files
@given(rows=ROWS, cuts=st.lists(st.integers(0, 60), max_size=4), held=st.sampled_from([1, 7, 1000]))
def test_is_what_the_slow_reference_says(rows, cuts, held, tmp_path_factory):
    places = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = [batch(rows[start:stop], start=start) for start, stop in itertools.pairwise(places)]
    folder = tmp_path_factory.mktemp("retractions")
    assert wrong(parts, folder, held_rows=held) == naive(rows)
    assert list(folder.iterdir()) == []

"""Lateness, current rows and texts of queries: the parts that every stateful query stands on."""

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.engines.host.engine import InputWatermark
from odf.engines.spark.query.text import same_text
from odf.engines.spark.stateful.lateness import Marks, as_milliseconds, common_watermark
from odf.engines.spark.stateful.net import Net, current, find_net
from odf.engines.spark.stateful.words import duration, kept_rows
from odf.metadata.model import DEFAULT_VOCAB

MOMENT = pa.timestamp("ms", "UTC")
MARKS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(-50, 50)).map(lambda pair: InputWatermark(*pair)),
    max_size=8,
)


@given(MARKS, st.integers(0, 20), st.integers(-60, 60), st.integers(0, 20))
def test_lateness_does_not_depend_on_runs(
    marks: list[InputWatermark], at: int, event: int, cut: int
) -> None:
    """A row of the second run is judged by all marks before it, also by those of the first."""
    marks = sorted(marks, key=lambda mark: mark.system_time_ms)
    at = max(at, cut)
    first = [mark for mark in marks if mark.system_time_ms <= cut]
    second = [mark for mark in marks if mark.system_time_ms > cut]
    memory = Marks.from_json(Marks().with_new(first).marks().to_json())
    steps = memory.with_new(second)
    in_force = [mark.event_time_ms for mark in marks if mark.system_time_ms < at]
    late = steps.is_late(pa.array([at], MOMENT), pa.array([event], MOMENT))
    assert late.to_pylist() == [bool(in_force) and event <= max(in_force)]
    assert steps.highest == max((mark.event_time_ms for mark in marks), default=None)
    # A mark that is told again changes nothing.
    assert memory.with_new([*first[-1:], *second]).marks() == steps.marks()


def test_a_row_without_an_event_time_is_neither_late_nor_timely() -> None:
    steps = Marks().with_new([InputWatermark(1, 10)])
    assert steps.is_late(pa.array([2], MOMENT), pa.array([None], MOMENT)).to_pylist() == [None]


@pytest.mark.parametrize(
    ("array", "want"),
    [
        (pa.array([-1, 1], pa.date32()), [-86_400_000, 86_400_000]),
        (pa.array([-86_400_000], pa.date64()), [-86_400_000]),
        (pa.array([-1, 1999], pa.timestamp("us")), [-1, 1]),
        (pa.array([-1_000_001, 5], pa.timestamp("ns", "UTC")), [-2, 0]),
        (pa.array([-3], pa.timestamp("s", "UTC")), [-3000]),
        (pa.array([-3, None], MOMENT), [-3, None]),
    ],
)
def test_times_become_milliseconds_cut_towards_the_past(array: pa.Array, want: list[int]) -> None:
    assert as_milliseconds(array).to_pylist() == want


def test_all_inputs_need_a_watermark() -> None:
    some, none = Marks().with_new([InputWatermark(1, 10)]), Marks().with_new([])
    lower = Marks().with_new([InputWatermark(1, -10)])
    assert common_watermark([some, lower]) == -10
    assert common_watermark([some, none]) is None


# Current rows.

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("op", pa.int32()),
        ("system_time", MOMENT),
        ("event_time", MOMENT),
        ("v", pa.float64()),
        ("xs", pa.list_(pa.int32())),
    ]
)
Row = tuple[int, int | None, float | None]


def batch(rows: list[Row], first: int = 0) -> pa.RecordBatch:
    made = [
        {"offset": first + n, "op": op, "system_time": n, "event_time": at, "v": v, "xs": [1, None]}
        for n, (op, at, v) in enumerate(rows)
    ]
    return pa.RecordBatch.from_pylist(made, SCHEMA)


def live(kept: list[Row], new: list[Row]) -> tuple[list[int], Net]:
    parts = [batch(kept), batch(new, len(kept))]
    net = find_net(lambda: iter(parts[:1]), lambda: iter(parts[1:]), DEFAULT_VOCAB)
    rows = [row for part in parts for row in current(part, net, DEFAULT_VOCAB).to_pylist()]
    assert {row["op"] for row in rows} <= {0}
    return [row["offset"] for row in rows], net


def test_the_oldest_equal_row_goes() -> None:
    offsets, net = live([(0, 1, 0.1), (0, 1, 0.1)], [(0, 1, 0.1), (1, 1, 0.1), (2, 1, 0.1)])
    assert (offsets, net.retracted, net.unmatched) == ([2], 2, 0)


def test_what_counts_as_equal() -> None:
    nan = float("nan")
    assert live([(0, None, None)], [(1, None, None)])[0] == []
    assert live([(0, 1, nan)], [(1, 1, nan)])[0] == []
    assert live([(0, 1, 0.0)], [(1, 1, -0.0)])[0] == [0]
    assert live([(0, 1, 1.0)], [(1, 2, 1.0)])[0] == [0]


def test_a_retraction_takes_no_row_that_comes_later() -> None:
    offsets, net = live([], [(1, 1, 0.5), (0, 1, 0.5)])
    assert (offsets, net.unmatched) == ([1], 1)


def test_without_retractions_nothing_is_looked_at() -> None:
    def unread() -> Iterator[pa.RecordBatch]:
        raise AssertionError("rows of earlier runs were read")

    new = batch([(0, 1, 0.5), (3, 1, 0.5)])
    assert find_net(unread, lambda: iter([new]), DEFAULT_VOCAB) == Net()


@given(st.integers(0, 1 << 30), st.integers(0, 30))
def test_what_is_current_does_not_depend_on_runs(seed: int, cut: int) -> None:
    random = Random(seed)
    rows = [(random.randint(0, 3), random.randint(0, 2), random.choice((None, 0.5, -0.0)))
            for _ in range(30)]  # fmt: skip
    whole, _ = live([], rows)
    first, _ = live([], rows[:cut])
    kept = batch(rows).filter(pa.array([offset in first for offset in range(30)]))
    new = batch(rows).slice(cut)
    kept = current(kept, Net(), DEFAULT_VOCAB)
    net = find_net(lambda: iter([kept]), lambda: iter([new]), DEFAULT_VOCAB)
    left = [row["offset"] for part in (kept, new)
            for row in current(part, net, DEFAULT_VOCAB).to_pylist()]  # fmt: skip
    assert left == whole


# Texts.


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a,b FROM t", "SELECT a , b\n\tFROM t"),
        ("SELECT a -- why\nFROM t", "SELECT a /* what\n for */ FROM t"),
        ("a.b", "a . b"),
    ],
)
def test_blanks_and_comments_mean_nothing(one: str, other: str) -> None:
    assert same_text(one) == same_text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT 'a  b'", "SELECT 'a b'"),
        ("SELECT '-- a'", "SELECT '-- b'"),
        (r"SELECT 'it\'s  x'", r"SELECT 'it\'s x'"),
        (r"SELECT r'\'  , 'x'", r"SELECT r'\'  , 'x '"),
        ('SELECT "a  b"', 'SELECT "a b"'),
        ("SELECT `a  b`", "SELECT `a b`"),
        ("SELECT ab", "SELECT a b"),
        ("SELECT A", "SELECT a"),
        ("SELECT 1", "SELECT 2"),
    ],
)
def test_everything_else_means_something(one: str, other: str) -> None:
    assert same_text(one) != same_text(other)


def test_lengths_in_words() -> None:
    day = 86_400_000
    assert duration(7 * day) == "7 days"
    assert (
        duration(day + 3_600_000 + 60_000 + 1001) == "1 day 1 hour 1 minute 1 second 1 millisecond"
    )
    assert kept_rows([None, 7 * day, day]) == "keeps 7 days of rows"
    assert kept_rows([0, None]) == "keeps the rows after the watermark"

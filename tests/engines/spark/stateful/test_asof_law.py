"""The law of as-of joins: however the inputs are grouped into runs, the same rows leave."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from odf.engines.spark.engine import SparkEngine
from tests.engines.spark.stateful.asof_runs import Block, Source, run, transform

pytestmark = pytest.mark.spark

COLUMNS = {"k": pa.string(), "v": pa.float64()}
KEYS = st.sampled_from(["a", "b", None])
VALUES = st.sampled_from([0.0, -0.0, 0.1, 1e300, float("nan"), None])
TIMES = st.integers(-12, 12)
KINDS = ["LEFT JOIN on a key", "JOIN without a key", "strict LEFT JOIN on a key"]
SAID = {
    KINDS[0]: ("LEFT ASOF", "ASOF LEFT", ">=", "AND l.k = r.k"),
    KINDS[1]: ("ASOF", "ASOF", ">=", ""),
    KINDS[2]: ("LEFT ASOF", "ASOF LEFT", ">", "AND l.k = r.k"),
}
FOLDERS = itertools.count()


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Block, ...]:
    """Blocks with late rows, ties, corrections, retractions of nothing, repeated watermarks."""
    found: list[Block] = []
    rows: list[tuple[Any, ...]] = []
    at, mark = 0, None
    for _ in range(draw(st.integers(1, 4))):
        at += draw(st.integers(1, 2))  # data blocks of one input never share a time
        new: list[tuple[Any, ...]] = []
        for _ in range(draw(st.integers(0, 4))):
            if rows and draw(st.integers(0, 3)) == 0:
                # Usually one that is there; what was retracted before is not there any more.
                new.append((draw(st.sampled_from([1, 2])), *draw(st.sampled_from(rows))[1:]))
            else:
                new.append((draw(st.sampled_from([0, 3])), draw(TIMES), draw(KEYS), draw(VALUES)))
            rows.append(new[-1])
        if draw(st.booleans()):
            mark = max(draw(TIMES), mark if mark is not None else -99)
        found.append(Block(at, tuple(new), mark))
    return tuple(found)


@st.composite
def cuts(draw: st.DrawFn, *sources: Source) -> list[list[int]]:
    """Where runs end."""
    ends = st.tuples(*(st.integers(0, len(source.blocks)) for source in sources))
    found = draw(st.lists(ends, min_size=1, max_size=3))
    columns = [sorted(column) for column in zip(*found, strict=True)]
    return [list(one) for one in zip(*columns, strict=True)]


def timely(source: Source) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The rows that do not come late, by offset."""
    offset = 0
    for block in source.blocks:
        marks = [b.watermark for b in source.blocks if b.at < block.at and b.watermark is not None]
        for row in block.rows:
            if not marks or row[1] > max(marks):
                yield offset, row
            offset += 1


def current(source: Source) -> tuple[list[tuple[Any, ...]], set[tuple[int, Any]]]:
    """The rows that are not retracted, in the order of offsets; time and key of retractions."""
    live: list[tuple[str, tuple[Any, ...]]] = []
    gaps = set()
    for _, (op, *values) in timely(source):
        if op in (0, 3):
            live.append((repr(values), tuple(values)))
            continue
        gaps.add((values[0], values[1]))
        position = next((n for n, (text, _) in enumerate(live) if text == repr(values)), None)
        if position is not None:
            del live[position]
    return [values for _, values in live], gaps


def joined_by_duckdb(left: Source, right: Source, kind: str) -> list[str]:
    """What leaves, by another engine and over all at once."""
    reached = [[b.watermark for b in s.blocks if b.watermark is not None] for s in (left, right)]
    if not all(reached):
        return []
    _, join, compare, key = SAID[kind]
    rows, (versions, gaps) = current(left)[0], current(right)
    by_time = {(t, k if key else None): (None, False) for t, k in gaps}
    by_time |= {(t, k if key else None): (v, True) for t, k, v in versions}
    tables = {
        "l": [(n, *row) for n, row in enumerate(rows)],
        "r": [(t, k, v, present) for (t, k), (v, present) in by_time.items()],
    }
    with duckdb.connect() as db:
        db.execute("CREATE TABLE l (n BIGINT, t BIGINT, k VARCHAR, v DOUBLE)")
        db.execute("CREATE TABLE r (t BIGINT, k VARCHAR, v DOUBLE, present BOOLEAN)")
        for name, values in tables.items():
            if values:
                marks = ", ".join("?" * len(values[0]))
                db.executemany(f"INSERT INTO {name} VALUES ({marks})", values)
        outer = "true" if "LEFT" in join else "r.present"
        found = db.execute(
            "SELECT l.t, l.k, l.v, CASE WHEN r.present THEN r.v END,"
            " CASE WHEN r.present THEN r.t END"
            f" FROM l {join} JOIN r ON l.t {compare} r.t {key}"
            f" WHERE l.t <= {min(map(max, reached))} AND {outer}"
        ).fetchall()
    return sorted(map(repr, found))


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # making an example smaller takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_runs_do_not_matter(
    kind: str, engine: SparkEngine, tmp_path: Path, data: st.DataObject
) -> None:
    left = Source("l", COLUMNS, data.draw(blocks()))
    right = Source("r", COLUMNS, data.draw(blocks()))
    join, _, compare, key = SAID[kind]
    query = transform(
        f"SELECT l.event_time, l.k, l.v, r.v AS w, r.event_time AS since FROM l {join} JOIN r"
        f" MATCH_CONDITION (l.event_time {compare} r.event_time) {key.replace('AND', 'ON')}"
    )
    folder = tmp_path / str(next(FOLDERS))
    at_once = run(engine, folder / "once", query, [left, right])
    assert at_once.multiset == joined_by_duckdb(left, right, kind)
    cut = data.draw(cuts(left, right))
    bit_by_bit = run(engine, folder / "often", query, [left, right], cuts=cut)
    assert bit_by_bit.multiset == at_once.multiset
    if not any(row[0] in (1, 2) for block in left.blocks for row in block.rows):
        bytes_left = [ran.checkpoints[-1].read_bytes() for ran in (at_once, bit_by_bit)]
        assert bytes_left[0] == bytes_left[1]


def test_a_row_can_be_told_from_another() -> None:
    """What the law compares by would notice a sign, and a missing value."""
    left = Source("l", COLUMNS, (Block(1, ((0, 1, "a", -0.0), (0, 2, "a", float("nan"))), 5),))
    right = Source("r", COLUMNS, (Block(1, ((0, 1, "a", 0.0), (1, 2, "a", 0.0)), 5),))
    assert joined_by_duckdb(left, right, KINDS[0]) == [
        "(1, 'a', -0.0, 0.0, 1)", "(2, 'a', nan, None, None)",
    ]  # fmt: skip

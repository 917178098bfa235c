"""The law of changing aggregates: however rows come in runs, the same rows are current."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from odf.engines.spark.engine import SparkEngine
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.changelogs import (
    COLUMNS,
    Knowing,
    Row,
    computed,
    folded,
    net,
    row,
)
from tests.engines.spark.stateful.replay import Block, Shape

pytestmark = pytest.mark.spark

FOLDERS = itertools.count()
KEYS = st.sampled_from(["a", "b", "é", None])
NUMBERS = st.sampled_from([0, 1, 2, 3, -4, None, (1 << 62) + 1, -(1 << 62)])
FLOATS = st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 1e16, -1e16, float("nan"), float("inf"), None])
ROWS = st.builds(row, st.integers(-30, 30), KEYS, NUMBERS, FLOATS)

SAFE = (
    "SELECT timestamp'2020-01-01' AS event_time, k, count(*) AS n, sum(CAST(v AS DECIMAL(19,0))) "
    "AS s, sum(m) AS sm, avg(m) AS am, count(d) FILTER (WHERE v > 0) AS f FROM {} "
    "GROUP BY k HAVING sum(m) IS NULL OR sum(m) <> 0.5"
)
EXTREMES = (
    "SELECT max(event_time) AS event_time, min(k) AS k, max(v) AS v, min(m) AS m FROM {} "
    "WHERE v <> 2 OR v IS NULL GROUP BY event_time < timestamp'1970-01-01', v > 0"
)
ORDERED = (
    "SELECT max(event_time) AS event_time, k, sum(d) AS s, avg(d) AS a, collect_list(v) AS vs, "
    "last(d) AS l, count(DISTINCT v) AS c, stddev(d) AS dev FROM {} GROUP BY ROLLUP(k)"
)
EVERYTHING = "SELECT max(event_time) AS event_time, sum(d) AS s, first(v) AS f FROM {}"


@st.composite
def changelogs(draw: st.DrawFn) -> list[Row]:
    """Rows, corrections and retractions of rows that are there."""
    found: list[Row] = []
    for _ in range(draw(st.integers(1, 14))):
        current = net(found)
        kind = draw(st.integers(0, 4)) if current else 0
        if kind <= 2:
            found.append(draw(ROWS))
            continue
        old = draw(st.sampled_from(current))
        if kind == 3:
            found.append({**old, "op": 1})
        else:
            found += [{**old, "op": 2}, {**draw(ROWS), "op": 3}]
    return found


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Row], list[int]]:
    """A changelog and where runs end in it; some runs have nothing to do."""
    rows = draw(changelogs())
    ends = draw(st.lists(st.integers(0, len(rows)), min_size=1, max_size=3))
    return rows, sorted(ends)


@pytest.mark.parametrize(
    "query",
    [SAFE, EXTREMES, ORDERED, EVERYTHING],
    ids=["partial results", "extremes", "ordered", "everything"],
)
def test_any_grouping_into_runs_ends_in_the_same_rows(
    query: str, engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("law")

    @given(history=histories())
    @settings(
        max_examples=5,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def law(history: tuple[list[Row], list[int]]) -> None:
        rows, ends = history
        folder = base / str(next(FOLDERS))
        starts = [0, *ends]
        parts = [rows[a:b] for a, b in zip(starts, [*ends, len(rows)], strict=True)]
        gone = any(found["op"] in (1, 2) for found in rows)
        split = ran(engine, folder / "split", query, parts, has_retractions=gone)
        once = ran(engine, folder / "once", query, [rows], has_retractions=gone)
        assert split == once
        truth = computed(engine, query.format("input"), net(rows), folder / "truth")
        if net(rows):
            assert split == dict(truth)
        else:
            assert split == {}

    law()


@pytest.mark.parametrize("query", [SAFE, EXTREMES], ids=["sums", "extremes"])
def test_a_query_that_begins_in_the_middle_leaves_out_retractions_of_what_it_has_not_read(
    query: str, engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("middle")

    @given(history=histories(), begin=st.integers(1, 6))
    @settings(
        max_examples=5,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @example(
        history=([row(1, "a", 3), row(1, "a", 3, op=1), row(2, "a", 4), row(1, "a", 3)], [2, 3]),
        begin=1,
    )
    def law(history: tuple[list[Row], list[int]], begin: int) -> None:
        rows, ends = history[0][begin:], [max(end - begin, 0) for end in history[1]]
        folder = base / str(next(FOLDERS))
        starts = [0, *ends]
        parts = [rows[a:b] for a, b in zip(starts, [*ends, len(rows)], strict=True)]
        split = ran(engine, folder / "split", query, parts, has_retractions=True, begin=begin)
        once = ran(engine, folder / "once", query, [rows], has_retractions=True, begin=begin)
        known = net(rows, strict=False)
        truth = computed(engine, query.format("input"), known, folder / "truth") if known else {}
        assert split == once == dict(truth)

    law()


def test_any_grouping_counts_what_breaks_the_rules_alike(
    engine: SparkEngine, tmp_path: Path
) -> None:
    """Retractions of rows that never were there, by partial results: taken off what comes."""
    rows = [
        *[row(1, "a", 3, op=1), row(2, "a", 4), row(3, "b", 1, op=1), row(4, "a", 5)],
        *[row(3, "b", 1), row(3, "b", 3)],
    ]
    found = [
        ran(engine, tmp_path / name, SAFE, parts, has_retractions=True)
        for name, parts in {
            "once": [rows],
            "split": [rows[:1], rows[1:3], rows[3:]],
            "each": [[one] for one in rows],
        }.items()
    ]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 2


def ran(
    engine: SparkEngine,
    folder: Path,
    query: str,
    parts: Sequence[Sequence[Row]],
    *,
    has_retractions: bool,
    columns: pa.Schema = COLUMNS,
    begin: int = 0,
) -> dict[str, int]:
    """The current rows after some runs; the first row has the offset `begin`."""
    replay = Knowing(engine, folder, sql(query.format("t")), {"t": Shape(columns)})
    replay.has_retractions = has_retractions
    replay.begin_at(begin)
    runs = []
    for number, part in enumerate(parts):
        blocks = [(number, Block("t", tuple(part)))] if part else []
        runs.append(replay.run(blocks))
    return dict(folded(runs).current)

"""Queries over the whole history: what each run gives out, what it keeps, where it ends."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from odf.engines.host.engine import ValidatedInput
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.stateful import recompute
from odf.errors import BadInputError, InvalidQueryError
from odf.metadata.model import DEFAULT_VOCAB
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.changelogs import (
    COLUMNS,
    Changelog,
    Row,
    folded,
    net,
    one_input,
    row,
    run,
    time,
    visible,
)
from tests.engines.spark.stateful.replay import Block, Replay, Shape

pytestmark = pytest.mark.spark

FOLDERS = itertools.count()
TOP = "SELECT event_time, k, v FROM t ORDER BY v DESC NULLS LAST, k NULLS FIRST LIMIT 2"


def test_only_the_difference_leaves_in_order(engine: SparkEngine, tmp_path: Path) -> None:
    replay = one_input(engine, tmp_path / "d", sql(TOP))
    found = run(replay, row(3, "a", 1), row(2, "b", 2), row(1, None, None))
    assert [(one["op"], one["k"], one["event_time"]) for one in found] == [
        (0, "b", time(2)),
        (0, "a", time(3)),
    ]
    found = run(replay, row(9, "c", 3), row(1, None, None))
    assert [(one["op"], one["k"]) for one in found] == [(1, "a"), (0, "c")]
    assert run(replay) == []
    assert run(replay, row(0, "z", 0)) == []
    found = run(replay, row(9, "c", 3, op=1))
    assert [(one["op"], one["k"]) for one in found] == [(0, "a"), (1, "c")]


def test_equal_rows_are_counted(engine: SparkEngine, tmp_path: Path) -> None:
    query = "SELECT a.event_time, a.k FROM t a JOIN t b ON a.k = b.k"
    replay = one_input(engine, tmp_path / "d", sql(query))
    nan = float("nan")
    assert len(run(replay, row(1, "a", 1, nan))) == 1
    found = run(replay, row(1, "a", 2, nan), row(1, None))
    assert [one["op"] for one in found] == [0, 0, 0]
    found = run(replay, row(1, "a", 2, nan, op=1))
    assert [one["op"] for one in found] == [1, 1, 1]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT event_time, k, v FROM t LIMIT 2",
        "SELECT event_time, k, v FROM t ORDER BY k LIMIT 2 OFFSET 1",
    ],
)
def test_ties_of_a_limit_have_one_order(query: str, engine: SparkEngine, tmp_path: Path) -> None:
    rows = [row(2, "b", 1), row(1, "b", 2), row(1, "a", 2), row(1, "a", 1), row(2, "a", 0)]
    ends = []
    for number, parts in enumerate(([rows], [rows[:2], rows[2:]], [rows[:1], rows[1:4], rows[4:]])):
        replay = one_input(engine, tmp_path / f"d{number}", sql(query))
        ends.append(folded(run(replay, *part) for part in parts).current)
    assert ends[0] == ends[1] == ends[2]
    assert sum(ends[0].values()) == 2


def test_what_a_window_function_numbers_is_in_input_order(
    engine: SparkEngine, tmp_path: Path
) -> None:
    query = (
        "SELECT event_time, v, row_number() OVER (PARTITION BY k ORDER BY event_time) AS n, "
        "collect_list(v) OVER (PARTITION BY k ORDER BY event_time ROWS UNBOUNDED PRECEDING) AS vs "
        "FROM t"
    )
    replay = one_input(engine, tmp_path / "d", sql(query))
    changelog = Changelog()
    changelog.take(run(replay, row(1, "a", 9), row(1, "a", 3)))
    changelog.take(run(replay, row(1, "a", 7), row(0, "a", 1)))
    wanted = [(1, 1, [1]), (9, 2, [1, 9]), (3, 3, [1, 9, 3]), (7, 4, [1, 9, 3, 7])]
    rows = [
        {"event_time": time(0 if v == 1 else 1), "v": v, "n": n, "vs": vs} for v, n, vs in wanted
    ]
    assert changelog.current == Counter(map(visible, rows))


def test_too_many_rows(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recompute, "MAX_RECOMPUTED_ROWS", 4)
    replay = one_input(engine, tmp_path / "d", sql(TOP))
    run(replay, *[row(n, "a", n) for n in range(4)])
    with pytest.raises(BadInputError, match="its inputs have more than 4 rows") as caught:
        run(replay, row(9, "a", 9))
    assert "ASOF JOIN" in (caught.value.hint or "")
    assert not (tmp_path / "d" / "run-2" / "checkpoint").exists()
    joined = one_input(engine, tmp_path / "j", sql("SELECT a.event_time FROM t a, t b"))
    with pytest.raises(BadInputError, match="its result has more than 4 rows"):
        run(joined, *[row(n, "a", n) for n in range(3)])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT event_time, v AS op FROM t ORDER BY v LIMIT 1", "get their operations from"),
        (
            (
                "SELECT event_time, map(k, rn) AS m FROM "
                "(SELECT *, row_number() OVER (ORDER BY v) AS rn FROM t)"
            ),
            "column `m` of the result has the type MAP<STRING,INT>, which a slice cannot hold",
        ),
    ],
)
def test_refused(query: str, message: str, engine: SparkEngine) -> None:
    given = [ValidatedInput("t", Shape(COLUMNS).schema, has_retractions=False)]
    with pytest.raises(InvalidQueryError, match=message):
        engine.validate(sql(query), given, DEFAULT_VOCAB, preprocess=False)


def test_words(engine: SparkEngine) -> None:
    given = [ValidatedInput("t", Shape(COLUMNS).schema, has_retractions=True)]
    found = engine.validate(sql(TOP), given, DEFAULT_VOCAB, preprocess=False)
    assert found.query_class == "whole history"
    assert "1,000,000 at most" in found.description


KEYS = st.sampled_from(["a", "b", None])
VALUES = st.sampled_from([1, 2, 3, None])
FLOATS = st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16])
ROWS = st.builds(row, st.integers(-30, 30), KEYS, VALUES, FLOATS)
QUERIES = {
    # What DuckDB says in the same words.
    "rank": (
        "SELECT event_time, k, v, rank() OVER (PARTITION BY k ORDER BY v NULLS FIRST) AS r FROM {}"
    ),
    "stacked": (
        "SELECT max(event_time) AS event_time, n, count(*) AS groups FROM "
        "(SELECT max(event_time) AS event_time, k, count(*) AS n FROM {} GROUP BY k) x GROUP BY n"
    ),
    "except": "SELECT event_time, k FROM {0} EXCEPT SELECT event_time, k FROM {0} WHERE v = 2",
    "anti join": "SELECT event_time, k, v FROM {0} a WHERE NOT EXISTS "
    "(SELECT 1 FROM {0} b WHERE b.k = a.k AND b.v > a.v)",
    # Where the order of the rows decides; only one run over all can say the same.
    "floats": "SELECT max(event_time) AS event_time, sum(s) AS s FROM "
    "(SELECT max(event_time) AS event_time, k, sum(d) AS s FROM t GROUP BY k)",
    "joined floats": "SELECT a.event_time, sum(b.d) AS s, first(b.v) AS f FROM t a "
    "JOIN t b ON a.k = b.k GROUP BY a.event_time",
}


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Row], list[int]]:
    """Rows, corrections and retractions, and where runs end."""
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, 12))):
        current = net(rows)
        if current and draw(st.integers(0, 3)) == 0:
            old = draw(st.sampled_from(current))
            rows += [{**old, "op": 2}, {**draw(ROWS), "op": 3}]
        elif current and draw(st.integers(0, 3)) == 0:
            rows.append({**draw(st.sampled_from(current)), "op": 1})
        else:
            rows.append(draw(ROWS))
    ends = draw(st.lists(st.integers(0, len(rows)), min_size=1, max_size=2))
    return rows, sorted(ends)


@pytest.mark.parametrize("kind", QUERIES)
def test_any_grouping_into_runs_ends_in_the_same_rows(
    kind: str, engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("law")
    query = sql(QUERIES[kind].format("t"))

    @given(history=histories())
    @settings(
        max_examples=3,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def law(history: tuple[list[Row], list[int]]) -> None:
        rows, ends = history
        folder = base / str(next(FOLDERS))
        parts = [rows[a:b] for a, b in zip([0, *ends], [*ends, len(rows)], strict=True)]
        split = ran(engine, folder / "split", query, parts)
        assert split == ran(engine, folder / "once", query, [rows])
        if "{" in QUERIES[kind]:
            assert split == said_by_duckdb(QUERIES[kind], net(rows))

    law()


def ran(engine: SparkEngine, folder: Path, query: Any, parts: list[list[Row]]) -> Counter[str]:
    """The current rows after some runs."""
    replay = Replay(engine, folder, query, {"t": Shape(COLUMNS)})
    runs = []
    for number, part in enumerate(parts):
        runs.append(replay.run([(number, Block("t", tuple(part)))] if part else []))
    changelog = folded(runs)
    assert {found["op"] for found in changelog.rows} <= {0, 1}
    return changelog.current


def said_by_duckdb(query: str, rows: list[Row]) -> Counter[str]:
    """The result over the current rows, by another engine."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("rows", pa.Table.from_pylist(rows, COLUMNS))
    wanted = connection.sql(query.format("rows")).arrow().read_all().to_pylist()
    return Counter(map(visible, wanted))

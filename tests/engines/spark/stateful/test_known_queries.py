"""Queries that an engine knows already: the same results and states as for one that does not."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from odf.engines.host.engine import InputView, TransformJob
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.query.inputs import PreparedInput
from odf.engines.spark.query.known import MOST_QUERIES, KnownQueries
from odf.engines.spark.stateful.bounded import Bounded
from odf.engines.spark.stateful.kinds import Classified, QueryKind
from odf.metadata.model import (
    DEFAULT_VOCAB,
    DatasetVocabulary,
    SqlQueryStep,
    TemporalTable,
    TransformSql,
)
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.histories import OWN, T, U, groupings, history
from tests.engines.spark.stateful.replay import Replay

SCHEMA = pa.schema([("offset", pa.int64()), ("event_time", pa.timestamp("ms", "UTC"))])
QUERIES = {
    "stateless": "SELECT event_time, op, k FROM t UNION ALL SELECT happened, what, k FROM u",
    "window": "SELECT window.end AS event_time, k, sum(v) AS s FROM t "
    "GROUP BY window(event_time, '9 hours'), k",
    "session": "SELECT session_window.end AS event_time, k, sum(v) AS s FROM t "
    "GROUP BY session_window(event_time, '5 hours'), k",
    "join": "SELECT greatest(event_time, happened) AS event_time, t.v, u.v AS w FROM t LEFT JOIN u "
    "ON t.k = u.k AND happened BETWEEN event_time AND event_time + INTERVAL 6 HOURS",
    "groups": "SELECT max(event_time) AS event_time, k, count(*) AS n FROM t GROUP BY k",
    "as-of": "SELECT event_time, t.k, t.v, u.v AS w FROM t LEFT ASOF JOIN u "
    "MATCH_CONDITION (event_time >= happened) ON t.k = u.k",
    "whole history": "SELECT event_time, k, v FROM t ORDER BY v, k, event_time LIMIT 7",
}


@pytest.mark.spark
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_query_that_is_known_gives_the_same(
    query: str, engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(query)
    shapes = {"t": T, "u": U}
    runs = groupings(random, history(random, shapes))
    knowing = Replay(engine, tmp_path / "knowing", sql(query), shapes)
    forgetful = Replay(engine, tmp_path / "forgetful", sql(query), shapes)
    rows = 0
    for blocks in runs:
        found = knowing.run(blocks)
        with monkeypatch.context() as patched:
            patched.setattr(engine, "_known", KnownQueries())
            assert repr(forgetful.run(blocks)) == repr(found)
        rows += len(found)
        states = [one.checkpoint for one in (knowing, forgetful)]
        assert len({path.read_bytes() if path else b"" for path in states}) == 1
    assert rows
    assert knowing.log == forgetful.log


def job(query: str = "SELECT me", **changes: object) -> TransformJob:
    given = {
        "alias": "t",
        "vocab": DEFAULT_VOCAB,
        "result": DEFAULT_VOCAB,
        "tables": None,
        "step": None,
        **changes,
    }
    steps = [SqlQueryStep(alias=None, query=query)]
    if given["step"]:
        steps.insert(0, SqlQueryStep(alias=str(given["step"]), query=query))
    tables = given["tables"]
    assert tables is None or isinstance(tables, tuple)
    transform = TransformSql(engine="spark", queries=tuple(steps), temporal_tables=tables)
    vocab, result = given["vocab"], given["result"]
    assert isinstance(vocab, DatasetVocabulary)
    assert isinstance(result, DatasetVocabulary)
    view = InputView(str(given["alias"]), (), "", vocab, None, None)
    return TransformJob(transform, (view,), result, Path("nowhere"))


def inputs(schema: pa.Schema = SCHEMA) -> list[PreparedInput]:
    return [PreparedInput("t", "nowhere", schema, 0)]


STATELESS = Classified(QueryKind.STATELESS, "")


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (lambda: job("SELECT 2"), inputs),
        (lambda: job(alias="u"), inputs),
        (lambda: job(vocab=OWN), inputs),
        (lambda: job(result=OWN), inputs),
        (lambda: job(step="s"), inputs),
        (lambda: job(tables=(TemporalTable("t", ("k",)),)), inputs),
        (job, lambda: inputs(SCHEMA.append(pa.field("v", pa.int64())))),
        (job, lambda: inputs(SCHEMA.set(1, pa.field("event_time", pa.date32())))),
        (job, lambda: inputs(pa.schema([SCHEMA.field(1), SCHEMA.field(0)]))),
    ],
    ids=["text", "name", "vocabulary", "result", "steps", "tables", "columns", "types", "order"],
)
def test_another_query_is_not_known(
    asked: Callable[[], TransformJob], given: Callable[[], list[PreparedInput]]
) -> None:
    known = KnownQueries()
    known.remember(job(), inputs(), STATELESS, SCHEMA)
    found = known.find(job(), inputs())
    assert found is not None
    assert found.schema == SCHEMA
    assert known.find(asked(), given()) is None


def test_nothing_of_a_plan_is_kept_and_the_oldest_are_forgotten() -> None:
    known = KnownQueries()
    detail = Bounded((("a", object()),), "x", (0,), session=object(), has_sessions=True)
    known.remember(job(), inputs(), Classified(QueryKind.BOUNDED, "w", None, detail), SCHEMA)
    for number in range(MOST_QUERIES):
        found = known.find(job(), inputs())
        assert found is not None
        assert found.classified.detail == Bounded((), "x", (0,), None, has_sessions=True)
        known.remember(job(f"SELECT {number}"), inputs(), STATELESS, SCHEMA)
    assert known.find(job("SELECT 0"), inputs()) is None
    assert known.find(job("SELECT 255"), inputs()) is not None

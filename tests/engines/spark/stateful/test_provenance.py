"""Where rows come from: computed again from only these input rows, each row comes out as it was."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odf.engines.host.engine import Provenance, Rows, TransformJob
from odf.engines.spark.engine import SparkEngine
from odf.errors import InvalidQueryError
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.replay import MOMENT, Block, Replay, Shape

pytestmark = pytest.mark.spark

HOUR = 3_600_000
SHAPE = Shape(pa.schema([("event_time", MOMENT), ("k", pa.string()), ("v", pa.int64())]))


class Explained:
    """An engine that also says where the rows of its last step come from."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine
        self.found: Provenance | None = None
        self.origins: list[dict[str, Any]] = []

    def transform(self, job: TransformJob) -> Rows:
        rows = self._engine.transform(job)
        kept = [row for batch in rows.batches for row in batch.to_pylist()]
        again = TransformJob(
            job.transform,
            job.inputs,
            job.vocab,
            job.scratch.with_name("again"),
            job.prev_checkpoint,
            None,
            job.log,
        )
        self.found = self._engine.provenance(again)
        self.origins = [row for batch in self.found.origins for row in batch.to_pylist()]
        return Rows(rows.schema, iter([pa.RecordBatch.from_pylist(kept, rows.schema)]))


def row(hour: int, k: str, v: int) -> dict[str, Any]:
    return {"event_time": hour * HOUR, "k": k, "v": v}


def steps(
    engine: SparkEngine, folder: Path, query: str, *runs: list[Block]
) -> list[tuple[list[dict[str, Any]], list[list[tuple[int, int]]], Provenance]]:
    """The rows of each run, for each of them the origins, and the explanation."""
    explained = Explained(engine)
    aliases = sorted({block.alias for run in runs for block in run})
    replay = Replay(explained, folder / "dataset", sql(query), dict.fromkeys(aliases, SHAPE))
    found = []
    for time, blocks in enumerate(runs, 1):
        rows = replay.run([(time, block) for block in blocks])
        origins: list[list[tuple[int, int]]] = [[] for _ in rows]
        for origin in explained.origins:
            origins[origin["row"]].append((origin["input"], origin["input_offset"]))
        assert explained.found is not None
        found.append((rows, [sorted(one) for one in origins], explained.found))
    return found


def test_maps_filters_and_unions(engine: SparkEngine, tmp_path: Path) -> None:
    query = (
        "SELECT event_time, k, v + 1 AS w FROM a WHERE v > 1 "
        "UNION ALL SELECT event_time, upper(k), v FROM b"
    )
    first = [Block("a", (row(1, "x", 1), row(2, "y", 2))), Block("b", (row(1, "z", 5),))]
    second = [Block("a", (row(3, "x", 7),))]
    (rows, origins, found), (later, after, _) = steps(engine, tmp_path, query, first, second)
    assert [one["w"] for one in rows] == [3, 5]
    assert origins == [[(0, 1)], [(1, 0)]]
    assert [one["w"] for one in later] == [8]
    assert after == [[(0, 2)]]
    assert found.how == "stateless"
    assert dict(found.columns) == {
        "event_time": (("a", "event_time"), ("b", "event_time")),
        "k": (("a", "k"), ("b", "k")),
        "w": (("a", "v"), ("b", "v")),
    }


def test_a_windowed_aggregate_names_rows_of_earlier_runs(
    engine: SparkEngine, tmp_path: Path
) -> None:
    query = (
        "SELECT window.start AS event_time, k, sum(v) AS total FROM a "
        "WHERE v < 100 GROUP BY window(event_time, '4 hours'), k HAVING count(*) > 1"
    )
    runs = [
        [Block("a", (row(1, "x", 1), row(2, "y", 2), row(2, "x", 500)), watermark=2 * HOUR)],
        [Block("a", (row(3, "x", 4), row(3, "y", 8), row(5, "x", 16)), watermark=4 * HOUR)],
        [Block("a", (row(6, "x", 32),), watermark=9 * HOUR)],
    ]
    found = steps(engine, tmp_path, query, *runs)
    assert [[one["total"] for one in rows] for rows, _, _ in found] == [[], [5, 10], [48]]
    assert [origins for _, origins, _ in found] == [
        [],
        [[(0, 0), (0, 3)], [(0, 1), (0, 4)]],
        [[(0, 5), (0, 6)]],
    ]
    columns = dict(found[0][2].columns)
    assert columns["total"] == (("a", "v"),)
    assert columns["event_time"] == (("a", "event_time"),)
    assert "windowed aggregate" in found[0][2].how


@pytest.mark.parametrize(("kind", "last"), [("", []), ("LEFT", [[(0, 1)]])])
def test_a_join_names_a_row_of_each_side(
    kind: str, last: list[list[tuple[int, int]]], engine: SparkEngine, tmp_path: Path
) -> None:
    query = (
        f"SELECT a.event_time, a.k, a.v - b.v AS difference FROM a {kind} JOIN b "
        "ON a.k = b.k AND a.event_time = b.event_time"
    )
    runs = [
        [
            Block("a", (row(1, "x", 10), row(2, "y", 20)), watermark=1 * HOUR),
            Block("b", (row(1, "w", 0), row(1, "x", 3)), watermark=1 * HOUR),
        ],
        [Block("a", watermark=5 * HOUR), Block("b", watermark=5 * HOUR)],
    ]
    (rows, origins, found), (_, later, _) = steps(engine, tmp_path, query, *runs)
    assert [one["difference"] for one in rows] == [7]
    assert origins == [[(0, 0), (1, 1)]]
    assert later == last
    assert dict(found.columns)["difference"] == (("a", "v"), ("b", "v"))


def test_other_queries_say_why_not(engine: SparkEngine, tmp_path: Path) -> None:
    query = "SELECT max(event_time) AS event_time, k, count(*) AS n FROM a GROUP BY k"
    with pytest.raises(InvalidQueryError, match="cannot be told") as caught:
        steps(engine, tmp_path, query, [Block("a", (row(1, "x", 1),))])
    assert "windowed aggregates" in (caught.value.hint or "")

"""A second opinion on bounded queries: Spark's own Structured Streaming, where it can run them.

It knows no rows before 1970, no retractions and no watermark but that of the rows themselves, so
the histories have none of these (spark-stateful.md §1).
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.engines.spark.engine import SparkEngine
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.histories import HOUR
from tests.engines.spark.stateful.replay import MOMENT, Block, Shape, in_runs

pytestmark = pytest.mark.spark

COLUMNS = pa.schema([("event_time", MOMENT), ("k", pa.string()), ("n", pa.int64())])
QUERIES = {
    "tumbling": "SELECT window.end AS event_time, k, sum(n) AS s, count(*) AS c FROM t "
    "GROUP BY window(event_time, '4 hours'), k",
    "sliding": "SELECT window.end AS event_time, max(n) AS m FROM t "
    "GROUP BY window(event_time, '6 hours', '2 hours')",
    "session": "SELECT session_window.end AS event_time, k, count(*) AS c FROM t "
    "GROUP BY session_window(event_time, '2 hours'), k",
    "distinct": "SELECT DISTINCT event_time, k FROM t",
}
Rows = list[dict[str, Any]]


def history(random: Random) -> list[Rows]:
    """Blocks of rows, none of them late."""
    blocks: list[Rows] = []
    at = 100 * 24 * HOUR
    for _ in range(random.randint(2, 5)):
        moments = [at + random.randint(1, 16) * HOUR // 2 for _ in range(random.randint(1, 12))]
        blocks.append(
            [
                {"event_time": moment, "k": random.choice("ab"), "n": random.randint(-9, 9)}
                for moment in moments
            ]
        )
        at = max([at, *moments])
    return blocks


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_streaming_agrees(query: str, seed: int, engine: SparkEngine, tmp_path: Path) -> None:
    blocks = history(Random(seed))
    runs, highest = [], 0
    for number, rows in enumerate(blocks):
        highest = max([highest, *(row["event_time"] for row in rows)])
        runs.append([(number, Block("t", tuple(rows), highest))])
    ours, _ = in_runs(engine, tmp_path / "ours", sql(query), {"t": Shape(COLUMNS)}, runs)
    assert ours
    assert plain(ours) == plain(streamed(engine, query, blocks, tmp_path / "streamed"))


def plain(rows: Rows) -> Counter[str]:
    return Counter(
        repr([value.timestamp() if name == "event_time" else value for name, value in row.items()])
        for row in rows
    )


def streamed(engine: SparkEngine, query: str, blocks: Sequence[Rows], folder: Path) -> Rows:
    """What Structured Streaming gives out, block after block."""
    source = folder / "in"
    source.mkdir(parents=True)
    for number, rows in enumerate(blocks):
        path = source / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, COLUMNS), path)
        # It takes the oldest file first.
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    with engine._runtime.operation() as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "1")
        stream = (
            spark.readStream.schema("event_time TIMESTAMP, k STRING, n BIGINT")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(source))
        )
        stream.withWatermark("event_time", "0 seconds").createOrReplaceTempView("t")
        writer = spark.sql(query).writeStream.format("memory").queryName("found")
        running = (
            writer.outputMode("append")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert running.awaitTermination(120)
        return [row.asDict() for row in spark.table("found").collect()]

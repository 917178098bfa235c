"""Aggregates by where rows stand: a retraction stands elsewhere than the row that it retracts."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from odf.engines.spark.engine import SparkEngine
from odf.errors import BadInputError
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.changelogs import COLUMNS, Changelog, Knowing, row
from tests.engines.spark.stateful.replay import Block, Replay, Shape

pytestmark = pytest.mark.spark

CONSTANT = "SELECT timestamp'2020-01-01' AS event_time, "
QUERIES = [
    f"{CONSTANT}system_time AS st, count(*) AS n FROM t GROUP BY system_time",
    f"{CONSTANT}k, sum(offset) AS s, count(*) AS n FROM t GROUP BY k",
    f"{CONSTANT}count(*) AS n FROM (SELECT * FROM t UNION ALL SELECT * FROM t) WHERE offset < 3",
    f"{CONSTANT}o, sum(v) AS s FROM t LATERAL VIEW explode(array(offset, 7)) x AS o GROUP BY o",
    f"{CONSTANT}k, offset % 2 AS o, count(*) AS n FROM t GROUP BY ROLLUP(k, offset % 2)",
]
BLOCKS = [
    (1, Block("t", (row(1, "a", 1), row(2, "a", 2), row(3, "b", 4)))),
    (2, Block("t", (row(1, "a", 1, op=1), row(4, "c", 8)))),
    (3, Block("t", (row(2, "a", 2, op=2), row(2, "a", 16, op=3)))),
    (4, Block("t", (row(5, "b", 32), row(6, "d", 64)))),
    (5, Block("t", (row(5, "b", 32, op=1),))),
]


@pytest.fixture
def dataset(engine: SparkEngine, tmp_path: Path) -> Callable[[str, bool | None], Replay]:
    numbers = count()

    def make(query: str, has_retractions: bool | None) -> Replay:
        folder = tmp_path / f"dataset-{next(numbers)}"
        made = Knowing(engine, folder, sql(query), {"t": Shape(COLUMNS)})
        made.has_retractions = has_retractions
        return made

    return make


@pytest.mark.parametrize("query", QUERIES)
def test_runs_do_not_matter(query: str, dataset: Callable[[str, bool | None], Replay]) -> None:
    whole, split = Changelog(), Changelog()
    whole.take(dataset(query, True).run(BLOCKS))
    apart = dataset(query, True)
    for block in BLOCKS:
        split.take(apart.run([block]))
    assert split.current == whole.current
    assert whole.current


def test_rows_that_nobody_expected_to_be_retracted(
    dataset: Callable[[str, bool | None], Replay],
) -> None:
    by_time = dataset(QUERIES[0], False)
    by_time.run(BLOCKS[:1])
    with pytest.raises(BadInputError, match="offset or system time") as refused:
        by_time.run(BLOCKS[1:])
    assert "reset the dataset" in (refused.value.hint or "")


@pytest.mark.parametrize("groups", ["k", "ROLLUP(k, v)"])
def test_columns_that_do_not_count_are_no_matter(
    groups: str, dataset: Callable[[str, bool | None], Replay]
) -> None:
    table = "(SELECT *, offset + 1 AS o FROM t)"
    query = f"{CONSTANT}k, count(*) AS n FROM {table} GROUP BY {groups}"
    plain = dataset(query, False)
    changelog = Changelog()
    for block in BLOCKS:
        changelog.take(plain.run([block]))
    assert changelog.current

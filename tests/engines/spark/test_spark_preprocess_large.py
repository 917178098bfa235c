"""Preprocess queries over more rows than go through memory."""

from collections.abc import Callable

import pytest

from odf.engines.spark.collect import SMALL_ROWS
from odf.errors import BadInputError
from odf.metadata.model import MergeStrategyAppend, MergeStrategyLedger, ReadStepCsv
from tests.engines.spark.spark_ingestor import Ingestor, sql

pytestmark = pytest.mark.spark

Make = Callable[..., Ingestor]
ROWS = SMALL_ROWS + 50
READ = ReadStepCsv(schema=("n BIGINT", "t TIMESTAMP"))
LINES = [f"{n},2024-01-01 00:00:00.{n % 1000:03}999\n" for n in range(ROWS)]
HALVES = ("".join(LINES[: ROWS // 2]), "".join(LINES[ROWS // 2 :]))
"""Two files, so that the rows lie in two parts."""


def test_a_map_keeps_the_order_of_the_input(ingestor: Make) -> None:
    query = sql("SELECT n * 2 AS m, t, CAST(n AS DECIMAL(12, 2)) AS d FROM input WHERE n % 2 = 0")
    found = ingestor(read=READ, preprocess=query).text(*HALVES)
    assert [row["m"] for row in found.rows] == [2 * n for n in range(0, ROWS, 2)]
    assert [row["offset"] for row in found.rows] == list(range(len(found.rows)))
    assert found.rows[-1]["t"].microsecond == (ROWS - 2) % 1000 * 1000
    assert any("finer than milliseconds" in line for line in found.warnings)


def test_rows_out_of_order_are_sorted(ingestor: Make) -> None:
    query = sql("SELECT timestamp_seconds(-n) AS event_time, n FROM input")
    found = ingestor(read=READ, preprocess=query, merge=MergeStrategyAppend()).text(*HALVES)
    assert [row["n"] for row in found.rows] == list(range(ROWS - 1, -1, -1))


def test_a_row_of_the_result_is_named_by_its_place(ingestor: Make) -> None:
    late = ROWS - 5
    query = sql(f"SELECT CASE WHEN n = {late} THEN NULL ELSE n END AS n FROM input WHERE n >= 10")
    with pytest.raises(BadInputError, match=f"row {late - 9} of the preprocess query's result"):
        ingestor(read=READ, preprocess=query, merge=MergeStrategyLedger(("n",))).text(*HALVES)

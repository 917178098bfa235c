"""Queries whose results are complete at some event time: runs do not matter, DuckDB agrees."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from odf.engines.spark.engine import SparkEngine
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.bounded_cases import CASES, Case
from tests.engines.spark.stateful.histories import (
    History,
    groupings,
    history,
    timely,
    watermark,
)
from tests.engines.spark.stateful.replay import in_runs

pytestmark = pytest.mark.spark


@pytest.fixture
def folders(tmp_path: Path) -> Callable[[], Path]:
    numbers = count()
    return lambda: tmp_path / f"dataset-{next(numbers)}"


@pytest.mark.parametrize("name", CASES)
@given(seed=st.integers(0, 1 << 30))
@settings(
    max_examples=2,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_runs_do_not_matter(
    name: str, seed: int, engine: SparkEngine, folders: Callable[[], Path]
) -> None:
    case = CASES[name]
    random = Random(seed)
    blocks = history(random, case.shapes)
    runs = groupings(random, blocks)
    query = sql(case.query)
    whole, _ = in_runs(engine, folders(), query, case.shapes, [blocks])
    parts, _ = in_runs(engine, folders(), query, case.shapes, runs)
    assert as_texts(parts) == as_texts(whole)
    if case.opinion:
        assert rounded(whole) == rounded(second_opinion(case, blocks))


def as_texts(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr(list(row.values())) for row in rows)


def second_opinion(case: Case, blocks: History) -> list[dict[str, Any]]:
    """What DuckDB says that is complete, over rows that are neither late nor retracted."""
    reached = watermark(list(case.shapes), blocks)
    with duckdb.connect() as connection:
        for alias, shape in case.shapes.items():
            schema = pa.schema([("nr", pa.int64()), *map(_without_zone, shape.columns)])
            rows = pa.Table.from_pylist(timely(shape, alias, blocks), schema)
            connection.register(alias, rows)
        found = connection.execute(
            f"SELECT * EXCLUDE (c) FROM ({case.opinion}) WHERE c <= make_timestamp_ms($1)",
            [-(1 << 40) if reached is None else reached],
        )
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def rounded(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(str([_shown(value) for value in row.values()]) for row in rows)


def _without_zone(field: pa.Field) -> pa.Field:
    return field.with_type(pa.timestamp("ms")) if pa.types.is_timestamp(field.type) else field


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value + 0.0:.6f}"
    return repr(value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value)

"""A Spark engine in the test process, one for all tests."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.session import SparkSettings
from tests.engines.spark.spark_ingestor import Ingestor


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    folder = tmp_path_factory.mktemp("spark")
    engine = SparkEngine(SparkSettings(folder / "scratch", folder / "spark.log", cores=2))
    engine.warm_up()
    yield engine
    engine.close()


@pytest.fixture
def any_ingestor(engine: SparkEngine, tmp_path: Path) -> Callable[..., Ingestor]:
    """Make a dataset to ingest into, see `ingestor`."""
    count = 0

    def make(**options: Any) -> Ingestor:
        nonlocal count
        count += 1
        folder = tmp_path / f"dataset-{count}"
        folder.mkdir()
        return Ingestor(engine, folder, **options)

    return make


@pytest.fixture
def ingestor(any_ingestor: Callable[..., Ingestor]) -> Callable[..., Ingestor]:
    """Make a dataset to ingest into: `ingestor(merge=…, read=…)`."""
    return any_ingestor


@pytest.fixture(params=["task", "sql"])
def either_way(
    request: pytest.FixtureRequest, engine: SparkEngine, any_ingestor: Callable[..., Ingestor]
) -> Callable[..., Ingestor]:
    """As `ingestor`: with merges inside one task, and again with all through Spark's SQL."""
    merging = engine if request.param == "task" else through_sql(engine)

    def make(**options: Any) -> Ingestor:
        return replace(any_ingestor(**options), engine=merging)

    return make


def through_sql(engine: SparkEngine) -> SparkEngine:
    """Return an engine on the same Spark that merges nothing inside one task."""
    runtime = engine._runtime  # one Spark for all tests
    return SparkEngine(SparkSettings(Path("unused")), runtime, task_bytes=-1)

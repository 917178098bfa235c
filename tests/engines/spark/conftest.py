"""A Spark engine in the test process, one for all tests."""

from collections.abc import Callable, Iterator
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
def ingestor(engine: SparkEngine, tmp_path: Path) -> Callable[..., Ingestor]:
    """Make a dataset to ingest into: `ingestor(merge=…, read=…)`."""
    count = 0

    def make(**options: Any) -> Ingestor:
        nonlocal count
        count += 1
        folder = tmp_path / f"dataset-{count}"
        folder.mkdir()
        return Ingestor(engine, folder, **options)

    return make

"""A workspace with real engines behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odf.runtimes.pool import EnginePool, PoolSettings
from tests.e2e.conftest import Person


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnginePool]:
    pool = EnginePool(PoolSettings(), run_dir=tmp_path_factory.mktemp("engines"))
    yield pool
    pool.close()


@pytest.fixture
def person(tmp_path: Path, engines: EnginePool) -> Person:
    return Person(tmp_path / "workspace", tmp_path / "home", engines)

"""Somebody with a workspace and an engine without Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Person
from tests.transform.hand_made import TinyPool


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    """Somebody with an empty workspace and the tiny engine."""
    pool = TinyPool(tmp_path / "engines")
    yield Person(tmp_path / "workspace", tmp_path / "home", pool)
    pool.close()

"""Fixtures shared by all tests."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

PROJECT = Path(__file__).resolve().parent.parent
SHARED = PROJECT.parent / "shared"

# Every run tests the same cases unless told otherwise: a red run can be repeated by anyone.
hypothesis.settings.register_profile("deterministic", derandomize=True, deadline=None)
hypothesis.settings.register_profile("random", deadline=None)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=5000)
hypothesis.settings.load_profile(os.environ.get("ODF_TEST_PROFILE", "deterministic"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with golden vectors and real data, beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip(
            f"no {SHARED.name} folder beside the checkout: vectors and real data are not here"
        )
    return SHARED


@pytest.fixture(scope="session")
def vectors(shared: Path) -> Callable[[str], Any]:
    """Read a golden vector file by name: `vectors("metadata-blocks")`."""

    def read(name: str) -> Any:
        return json.loads((shared / "vectors" / f"{name}.json").read_text())

    return read


@pytest.fixture(scope="session")
def real_data(shared: Path) -> Callable[[str], Path]:
    """Find a set of real data by the beginning of its name: `real_data("b1")`."""

    def find(name: str) -> Path:
        found = sorted((shared / "data").glob(f"{name}*"))
        if not found:
            pytest.skip(f"no set {name} in the shared data")
        return found[0]

    return find


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process is about to do."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"

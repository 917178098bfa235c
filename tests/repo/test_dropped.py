"""Slices that are given up on purpose: listed before they go."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from odf.errors import TransportError
from odf.repo.dropped import drop_slices, dropped_slices
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.transform.hand_made import TinyPool, add_rows, day, make_root


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[DatasetHandle]:
    pool = TinyPool(tmp_path / "engines")
    person = Person(tmp_path / "workspace", tmp_path / "home", pool)
    made = make_root(person, "a")
    add_rows(made, "one", "two", watermark=day(1))
    yield made
    pool.close()


def slices(handle: DatasetHandle) -> set[str]:
    return {path.name for path in (handle.path / "data").iterdir()}


def test_what_is_dropped_is_listed(handle: DatasetHandle) -> None:
    [name] = slices(handle)
    found = drop_slices(handle.dataset)
    assert found.slices == 1
    assert slices(handle) == set()
    assert {str(one) for one in dropped_slices(handle.dataset.stores)} == {name}
    record = json.loads((handle.path / "info" / "dropped-data").read_text())
    assert record == {"slices": [name]}


def test_nothing_goes_that_cannot_be_listed(handle: DatasetHandle) -> None:
    before = slices(handle)
    (handle.path / "info" / "dropped-data").mkdir()
    with pytest.raises(TransportError, match="dropped-data: cannot write"):
        drop_slices(handle.dataset)
    assert slices(handle) == before

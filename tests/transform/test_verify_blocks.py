"""Verification of some blocks only."""

import pytest

from odf.coordinator.results import VerifiedDataset
from odf.errors import NotFoundError
from odf.repo.files import slice_paths
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.transform.hand_made import add_rows, day, make_derivative, make_root


@pytest.fixture
def derived(person: Person) -> DatasetHandle:
    """Three steps, in the blocks 3, 4 and 5."""
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    for number in (1, 2, 3):
        add_rows(source, f"row {number}", watermark=day(number))
        person.pull("derived")
    return derived


def check(person: Person, blocks: range | None) -> VerifiedDataset:
    return person.verify("derived", blocks=blocks).datasets[0]


def test_only_their_steps_are_run_and_only_their_data_is_read(
    person: Person, derived: DatasetHandle
) -> None:
    assert (check(person, None).replayed, check(person, None).objects) == (3, 3)
    found = check(person, range(4, 6))
    assert (found.valid, found.replayed, found.objects, found.blocks) == (True, 2, 2, 6)
    assert derived.dataset.head() is not None


def test_blocks_that_are_not_there_are_not_taken_for_checked(
    person: Person, derived: DatasetHandle
) -> None:
    assert derived.dataset.head() is not None
    found = check(person, range(6, 91))
    assert isinstance(found.error, NotFoundError)
    assert found.error.message == "there is no block 6; the last one is 5"
    assert (found.valid, found.complete) == (False, False)
    assert check(person, range(5, 91)).valid
    # Among several that are asked for at once some are shorter.
    report = person.verify(everything=True, blocks=range(5, 6))
    assert [dataset.valid for dataset in report.datasets] == [True, True]


def test_damage_is_found_inside_and_not_looked_for_outside(
    person: Person, derived: DatasetHandle
) -> None:
    oldest = slice_paths(derived.dataset)[0]
    oldest.write_bytes(oldest.read_bytes()[:-1])
    assert not check(person, None).valid
    assert not check(person, range(3, 4)).valid
    assert check(person, range(4, 6)).valid

"""An input that has become another one: named, refused, and begun anew when that is wanted."""

import pytest

from odf.coordinator.results import PullStatus
from odf.metadata.identity import ReferenceName
from odf.metadata.model import ExecuteTransform, SetInfo, Timestamp
from odf.metadata.multiformats import Multihash
from odf.repo.files import slice_paths
from odf.transform.plan import DivergedInputError
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.transform.hand_made import add_rows, day, executed, make_derivative, make_root


def rewind(handle: DatasetHandle, to: Multihash) -> None:
    """Take blocks away from a dataset, as a reset does."""
    head = handle.dataset.head()
    handle.dataset.stores.refs.set("head", str(to), str(head))


@pytest.fixture
def diverged(person: Person) -> tuple[DatasetHandle, DatasetHandle]:
    """A root that was reset after a derivative had read it, and got other rows since."""
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    first = add_rows(source, "one", watermark=day(1))
    add_rows(source, "two", watermark=day(2))
    person.pull("derived")
    info = SetInfo(description="what it is", keywords=None)
    now = Timestamp.parse("2026-01-01T12:00:00Z")
    derived.dataset.commit([info], expected_head=derived.dataset.head(), system_time=now)
    rewind(source, first)
    add_rows(source, "other", watermark=day(3))
    return source, derived


def names(handle: DatasetHandle) -> list[str]:
    import pyarrow.parquet as pq

    tables = [pq.read_table(path) for path in slice_paths(handle.dataset)]
    return [name for table in tables for name in table.column("name").to_pylist()]


def test_it_is_refused_by_name_with_the_way_out(
    person: Person, diverged: tuple[DatasetHandle, DatasetHandle]
) -> None:
    source, derived = diverged
    head = derived.dataset.head()
    with pytest.raises(DivergedInputError, match="input source no longer has block") as caught:
        person.pull("derived")
    assert "--reset-derivatives-on-diverged-input" in (caught.value.hint or "")
    assert caught.value.details["input"] == str(source.id)
    assert caught.value.exit_code == 5
    assert derived.dataset.head() == head


def test_its_history_is_begun_anew_and_the_old_one_kept(
    person: Person, diverged: tuple[DatasetHandle, DatasetHandle]
) -> None:
    _, derived = diverged
    old = derived.dataset.head()
    before = [at for at, _ in derived.dataset.blocks()][::-1]
    result = person.pull("derived", reset_diverged=True)
    assert result.status is PullStatus.UPDATED
    assert result.old_head == old
    assert dict(result.records) == {"+A": 2}
    (warning,) = result.warnings
    assert "input source no longer has block" in warning
    assert "refs/backup-1" in warning
    assert derived.dataset.reference(ReferenceName("backup-1")) == old
    assert [str(name) for name in derived.dataset.stores.refs.names()] == ["backup-1", "head"]
    assert names(derived) == ["one", "other"]
    blocks = list(derived.dataset.blocks())[::-1]
    # The seed, the transform and the schema are the same blocks as before.
    assert [at for at, _ in blocks][:3] == before[:3]
    kinds = [type(block.event) for _, block in blocks]
    assert kinds.count(SetInfo) == 1
    assert kinds[-1] is ExecuteTransform
    (step,) = executed(derived)
    assert step.prev_offset is None
    assert person.verify("derived").datasets[0].valid
    assert person.pull("derived").status is PullStatus.UP_TO_DATE


def test_nothing_is_begun_anew_without_a_reason(person: Person) -> None:
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    add_rows(source, "one", watermark=day(1))
    person.pull("derived", reset_diverged=True)
    head = derived.dataset.head()
    assert person.pull("derived", reset_diverged=True).new_head == head
    assert [str(name) for name in derived.dataset.stores.refs.names()] == ["head"]


def test_an_input_that_only_lost_its_end_is_another_one_too(person: Person) -> None:
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    first = add_rows(source, "one", watermark=day(1))
    add_rows(source, "two", watermark=day(2), at=Timestamp.parse("2025-12-02T00:00:00Z"))
    person.pull("derived")
    rewind(source, first)
    with pytest.raises(DivergedInputError):
        person.pull("derived")
    person.pull("derived", reset_diverged=True)
    assert names(derived) == ["one"]

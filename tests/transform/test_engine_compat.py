"""Another release of an engine that stands in for the pinned one, once that was tried."""

import json
from dataclasses import replace

import pytest

from odf.coordinator.compat_record import compatible_releases
from odf.coordinator.engine_compat import CompatibilityReport, check_compatibility
from odf.coordinator.results import PullStatus
from odf.errors import BadInputError, EngineUnavailableError, IntegrityError
from odf.metadata.identity import DatasetAlias
from odf.metadata.model import (
    AttachmentEmbedded,
    AttachmentsEmbedded,
    DatasetKind,
    Seed,
    SetAttachments,
    SetTransform,
)
from odf.protocol.releases import RELEASES
from odf.workspace.keys import KeyStore
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.transform.hand_made import (
    START,
    add_rows,
    day,
    make_derivative,
    make_root,
    replace_by_other_rows,
    set_transform,
)

OLD, NEW = "odf-spark/0.9.0", RELEASES["spark"]


def with_version(transform: SetTransform, version: str | None) -> SetTransform:
    return replace(transform, transform=replace(transform.transform, version=version))


def derived_with(person: Person, source: DatasetHandle, version: str | None) -> DatasetHandle:
    """A derivative whose rows the release of today made, and which is pinned to another."""
    derived = make_derivative(person, "derived", source)
    add_rows(source, "one", watermark=day(1))
    person.pull("derived")
    events = [block.event for _, block in reversed(list(derived.dataset.blocks()))]
    transform = set_transform((source.id, "source"))
    pinned = [
        with_version(transform, version) if isinstance(event, SetTransform) else event
        for event in events[1:]
    ]
    identity = KeyStore(person.settings.data_home).generate()
    made = person.workspace.create_dataset(
        DatasetAlias.parse("pinned"),
        [Seed(identity, DatasetKind.DERIVATIVE), pinned[0]],
        system_time=START,
    )
    for path in (derived.path / "data").iterdir():
        target = made.path / "data"
        target.mkdir(exist_ok=True)
        (target / path.name).write_bytes(path.read_bytes())
    now = next(block.system_time for _, block in derived.dataset.blocks())
    made.dataset.commit(pinned[1:], expected_head=made.dataset.head(), system_time=now)
    return made


def check(person: Person, release: str = NEW) -> CompatibilityReport:
    with person.context("engine") as ctx:
        return check_compatibility(ctx, "pinned", release)


def test_what_was_tried_is_accepted_from_then_on(person: Person) -> None:
    source = make_root(person, "source")
    pinned = derived_with(person, source, OLD)
    add_rows(source, "two", watermark=day(2))
    with pytest.raises(EngineUnavailableError, match=OLD) as caught:
        person.pull("pinned")
    assert f"odf engine compat pinned --engine {NEW}" in (caught.value.hint or "")
    found = check(person)
    assert (found.pinned, found.release, found.steps, found.recorded) == (OLD, NEW, 1, True)
    attachments = pinned.dataset.state().attachments
    assert isinstance(attachments, SetAttachments)
    (item,) = attachments.attachments.items
    assert item.path == ".odf/engine-compat.json"
    assert json.loads(item.content) == {"compatible": {OLD: [NEW]}}
    assert person.pull("pinned").status is PullStatus.UPDATED
    assert person.verify("pinned").datasets[0].valid
    head = pinned.dataset.head()
    assert not check(person).recorded
    assert pinned.dataset.head() == head


@pytest.mark.parametrize("content", ["", "[]", '{"compatible": 1}', "[" * 500_000])
def test_an_attachment_that_cannot_be_read_says_nothing(content: str, person: Person) -> None:
    pinned = derived_with(person, make_root(person, "source"), OLD)
    attachment = AttachmentEmbedded(".odf/engine-compat.json", content)
    now = next(block.system_time for _, block in pinned.dataset.blocks())
    pinned.dataset.commit(
        [SetAttachments(AttachmentsEmbedded((attachment,)))],
        expected_head=pinned.dataset.head(),
        system_time=now,
    )
    assert compatible_releases(pinned) == {}


def test_for_datasets_of_others_it_stays_in_the_workspace(person: Person) -> None:
    source = make_root(person, "source")
    pinned = derived_with(person, source, OLD)
    key = next(
        path
        for path in (person.settings.data_home / "odf" / "keys").rglob("*")
        if path.is_file() and pinned.id.multibase in path.name
    )
    key.unlink()
    head = pinned.dataset.head()
    assert check(person).recorded
    assert pinned.dataset.head() == head
    assert (pinned.path / "info" / "engine-compat").is_file()
    assert person.verify("pinned").datasets[0].complete


def test_the_pinned_release_itself_is_nothing_to_record(person: Person) -> None:
    pinned = derived_with(person, make_root(person, "source"), NEW)
    head = pinned.dataset.head()
    found = check(person)
    assert (found.pinned, found.release, found.steps, found.recorded) == (NEW, NEW, 1, False)
    assert pinned.dataset.head() == head


def test_other_results_are_not_recorded(person: Person) -> None:
    source = make_root(person, "source")
    pinned = derived_with(person, source, OLD)
    replace_by_other_rows(source)
    head = pinned.dataset.head()
    with pytest.raises(IntegrityError):
        check(person)
    assert pinned.dataset.head() == head
    assert not (pinned.path / "info" / "engine-compat").exists()


def test_what_cannot_be_tried(person: Person) -> None:
    source = make_root(person, "source")
    pinned = derived_with(person, source, None)
    with pytest.raises(BadInputError, match="names no release"):
        check(person)
    with pytest.raises(BadInputError, match="is not derived"), person.context("engine") as ctx:
        check_compatibility(ctx, "source", NEW)
    other = derived_other(person, source)
    with (
        pytest.raises(EngineUnavailableError, match=r"not in odf-spark/9\.9\.9"),
        person.context("engine") as ctx,
    ):
        check_compatibility(ctx, str(other.id), "odf-spark/9.9.9")
    assert pinned.dataset.state().attachments is None


def derived_other(person: Person, source: DatasetHandle) -> DatasetHandle:
    return make_derivative(person, "other", source)

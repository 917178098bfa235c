"""What `odf add` does about datasets that exist: nothing, more events, or all anew."""

import json

import pytest

from odf.coordinator.add import Existing
from odf.coordinator.consent import ConsentError, Grants
from odf.coordinator.delete import NotConfirmedError
from odf.coordinator.results import AddAction
from odf.errors import BadInputError, ConflictError, NotFoundError, OdfError
from odf.metadata.model import SetInfo
from tests.coordinator.conftest import SOURCE, Maker, manifest, transform

INFO = {"kind": "SetInfo", "description": "about", "keywords": ["a"]}


def actions(report):
    return {str(added.alias): added.action for added in report.added}


def test_an_existing_dataset_is_an_error_unless_one_says_otherwise(maker: Maker) -> None:
    maker.add(manifest("a", SOURCE))
    with pytest.raises(ConflictError, match=r"1.yaml: dataset A already exists") as refused:
        maker.add(manifest("A", SOURCE), manifest("b", SOURCE))
    for way in ("--update", "--if-exists skip", "--replace"):
        assert way in (refused.value.hint or "")
    assert maker.names() == ["a"]


def test_skipping_leaves_datasets_alone_and_makes_the_others(maker: Maker) -> None:
    maker.add(manifest("a", SOURCE))
    before = maker.workspace.resolve("a").dataset.head()
    report = maker.add(
        manifest("b", transform("a"), kind="Derivative"),
        manifest("a", INFO),
        existing=Existing.SKIP,
    )
    assert actions(report) == {"a": AddAction.SKIPPED, "b": AddAction.ADDED}
    assert maker.workspace.resolve("a").dataset.head() == before
    # The input of the new dataset is the one that was there.
    a, b = (maker.workspace.resolve(name) for name in "ab")
    assert b.dataset.state().transform.inputs[0].dataset_ref == str(a.id)


@pytest.mark.parametrize("existing", [Existing.FAIL, Existing.SKIP, Existing.UPDATE])
def test_a_dry_run_makes_nothing(maker: Maker, existing: Existing) -> None:
    report = maker.add(
        manifest("b", transform("a"), kind="Derivative"),
        manifest("a", SOURCE, INFO),
        existing=existing,
        dry_run=True,
    )
    assert report.dry_run
    assert [(str(a.alias), a.blocks, len(a.changes)) for a in report.added] == [
        ("a", 3, 2),
        ("b", 2, 1),
    ]
    assert maker.names() == []
    assert not (maker.settings.data_home / "odf" / "keys").exists()


def test_a_derivative_of_nothing_is_told(maker: Maker) -> None:
    [a, b] = maker.add(manifest("a", INFO, kind="Derivative"), manifest("b", SOURCE)).added
    assert "derived from nothing" in a.warnings[0]
    assert "odf add --update" in a.warnings[0]
    assert b.warnings == ()
    maker.add(manifest("a", transform("b"), kind="Derivative"), existing=Existing.UPDATE)
    [again] = maker.add(manifest("a", INFO, kind="Derivative"), existing=Existing.UPDATE).added
    assert again.warnings == ()


def test_a_dry_run_finds_what_is_wrong(maker: Maker) -> None:
    with pytest.raises(NotFoundError, match="inputs that do not exist: nothing"):
        maker.add(manifest("b", transform("nothing"), kind="Derivative"), dry_run=True)


# --- replace -----------------------------------------------------------------------------------


def test_replacing_makes_another_dataset_of_the_same_name(maker: Maker) -> None:
    [old] = maker.add(manifest("a", SOURCE, INFO)).added
    asked = []

    def confirm(lost):
        asked.extend(lost)
        return True

    [new] = maker.add(manifest("a", SOURCE), existing=Existing.REPLACE, confirm=confirm).added
    assert new.action is AddAction.REPLACED
    assert new.id != old.id
    assert [str(lost.alias) for lost in asked] == ["a"]
    assert new.lost == asked[0]
    assert (new.lost.id, new.lost.blocks) == (old.id, 3)
    assert maker.names() == ["a"]
    assert maker.workspace.resolve("a").id == new.id
    keys = maker.context().keys
    assert keys.has(old.id)
    assert keys.has(new.id)


@pytest.mark.parametrize("confirm", [None, lambda _: False])
def test_nothing_is_replaced_without_consent(maker: Maker, confirm) -> None:
    [old] = maker.add(manifest("a", SOURCE)).added
    with pytest.raises(NotConfirmedError) as refused:
        maker.add(manifest("a", INFO), existing=Existing.REPLACE, confirm=confirm)
    assert refused.value.exit_code == 6
    assert maker.workspace.resolve("a").id == old.id


def test_a_dry_run_replaces_nothing_and_asks_nobody(maker: Maker) -> None:
    [old] = maker.add(manifest("a", SOURCE)).added
    report = maker.add(manifest("a", INFO), existing=Existing.REPLACE, dry_run=True)
    assert report.added[0].action is AddAction.REPLACED
    assert report.added[0].lost.id == old.id
    assert maker.workspace.resolve("a").id == old.id


def test_an_input_of_others_is_not_replaced_unless_these_are_too(maker: Maker) -> None:
    a = manifest("a", SOURCE)
    b = manifest("b", transform("a"), kind="Derivative")
    c = manifest("c", transform("b"), kind="Derivative")
    maker.add(a, b, c)
    old = {str(h.alias): h.id for h in maker.workspace.datasets()}
    with pytest.raises(ConflictError, match=r"a, b cannot be replaced: .* is c$") as refused:
        maker.add(a, b, existing=Existing.REPLACE, confirm=lambda _: True)
    assert refused.value.details["dependents"] == ["c"]
    maker.add(a, b, c, existing=Existing.REPLACE, confirm=lambda _: True)
    new = {str(h.alias): h.id for h in maker.workspace.datasets()}
    assert set(new) == {"a", "b", "c"}
    assert not set(new.values()) & set(old.values())
    assert maker.workspace.resolve("c").dataset.state().transform.inputs[0].dataset_ref == str(
        new["b"]
    )


def test_the_identity_of_what_goes_is_no_input(maker: Maker) -> None:
    maker.add(manifest("a", SOURCE))
    gone = str(maker.workspace.resolve("a").id)
    maker.add(manifest("b", transform("a"), kind="Derivative"))
    by_id = {**transform("a"), "inputs": [{"datasetRef": gone, "alias": "x"}]}
    with pytest.raises(NotFoundError, match="do not exist"):
        maker.add(
            manifest("a", SOURCE),
            manifest("b", by_id, kind="Derivative"),
            existing=Existing.REPLACE,
            confirm=lambda _: True,
        )
    assert maker.names() == ["a", "b"]


def test_a_replacement_that_fails_leaves_the_old(maker: Maker, monkeypatch) -> None:
    maker.add(manifest("a", SOURCE), manifest("b", SOURCE))
    old = {h.alias: (h.id, h.dataset.head()) for h in maker.workspace.datasets()}
    create = maker.workspace.create_dataset

    def full_disk(alias, *arguments, **options):
        if str(alias) == "b":
            raise OdfError("no space left on device")
        return create(alias, *arguments, **options)

    monkeypatch.setattr(maker.workspace, "create_dataset", full_disk)
    with pytest.raises(OdfError, match="no space"):
        maker.add(
            manifest("a", INFO),
            manifest("b", INFO),
            existing=Existing.REPLACE,
            confirm=lambda _: True,
        )
    assert {h.alias: (h.id, h.dataset.head()) for h in maker.workspace.datasets()} == old


# --- update: what touches more than one dataset -------------------------------------------------


def test_a_dataset_that_does_not_exist_is_made_by_an_update(maker: Maker) -> None:
    maker.add(manifest("a", SOURCE))
    report = maker.update(
        manifest("b", transform("a"), kind="Derivative"), manifest("a", SOURCE, INFO)
    )
    assert actions(report) == {"a": AddAction.UPDATED, "b": AddAction.ADDED}
    assert maker.names() == ["a", "b"]


def test_all_are_updated_or_none(maker: Maker) -> None:
    maker.add(manifest("a", SOURCE), manifest("b", SOURCE))
    heads = {h.alias: h.dataset.head() for h in maker.workspace.datasets()}
    with pytest.raises(OdfError, match=r"2\.yaml: dataset b is Root"):
        maker.update(manifest("a", INFO), manifest("b", INFO, kind="Derivative"))
    assert {h.alias: h.dataset.head() for h in maker.workspace.datasets()} == heads


def test_an_update_that_makes_a_circle_is_refused(maker: Maker) -> None:
    b = manifest("b", transform("a"), kind="Derivative")
    maker.add(manifest("r", SOURCE), manifest("a", transform("r"), kind="Derivative"), b)
    with pytest.raises(BadInputError, match="circle"):
        maker.update(manifest("a", transform("b"), kind="Derivative"))


def test_a_changed_source_needs_consent_and_an_unchanged_does_not(maker: Maker) -> None:
    def piped(command: str) -> str:
        step = {"kind": "Pipe", "command": [command]}
        return manifest("a", {**SOURCE, "prepare": [step]})

    agreed = Grants(commands=True)
    maker.add(piped("cat"), grants=agreed)
    consent = maker.workspace.resolve("a").path / "info" / "consent"
    kept = consent.read_text()
    assert actions(maker.update(piped("cat"))) == {"a": AddAction.UNCHANGED}
    head = maker.workspace.resolve("a").dataset.head()
    with pytest.raises(ConsentError, match="runs tac"):
        maker.update(piped("tac"))
    assert maker.workspace.resolve("a").dataset.head() == head
    assert consent.read_text() == kept
    maker.add(piped("tac"), existing=Existing.UPDATE, grants=agreed)
    assert "tac" in consent.read_text()
    # Consent that was lost can be given again, without any new event.
    consent.unlink()
    with pytest.raises(ConsentError):
        maker.update(piped("tac"))
    maker.add(piped("tac"), existing=Existing.UPDATE, grants=agreed)
    assert "tac" in consent.read_text()


def test_consent_is_not_given_by_what_does_not_mention_the_source(maker: Maker) -> None:
    step = {"kind": "Pipe", "command": ["cat"]}
    maker.add(manifest("a", {**SOURCE, "prepare": [step]}), grants=Grants(commands=True))
    consent = maker.workspace.resolve("a").path / "info" / "consent"
    consent.unlink()
    maker.update(manifest("a", INFO))
    assert not consent.exists()
    assert isinstance(maker.events("a")[-1], SetInfo)


def test_a_manifest_that_repeats_itself_is_refused_as_when_it_is_added(maker: Maker) -> None:
    maker.add(manifest("a", SOURCE))
    with pytest.raises(OdfError, match="changes nothing"):
        maker.update(manifest("a", INFO, json.loads(json.dumps(INFO))))

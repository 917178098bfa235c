"""Datasets that go, and those that have to stay."""

import pytest

from odf.coordinator.delete import NotConfirmedError, delete
from odf.errors import ConflictError, LockedError, NotFoundError
from odf.workspace.repositories import RemoteAliases
from odf.workspace.workspace import Workspace
from tests.coordinator.conftest import SOURCE, Maker, manifest, transform


def yes(_: object) -> bool:
    return True


@pytest.fixture
def family(maker: Maker) -> Maker:
    """A diamond: `d` from `b` and `c`, both from `a`; and `other` beside it."""
    maker.add(
        manifest("a", SOURCE),
        manifest("other", SOURCE),
        manifest("b", transform("a"), kind="Derivative"),
        manifest("c", transform("a"), kind="Derivative"),
        manifest("d", transform("b", "c"), kind="Derivative"),
    )
    return maker


def gone(maker: Maker, *refs: str, **options: object) -> list[str]:
    with maker.context() as ctx:
        report = delete(ctx, refs, **{"confirm": yes, **options})  # type: ignore[arg-type]
    return [str(dataset.alias) for dataset in report.datasets]


def test_a_dataset_goes_and_its_key_stays(family: Maker) -> None:
    handle = family.workspace.resolve("d")
    assert gone(family, "D") == ["d"]
    assert family.names() == ["a", "b", "c", "other"]
    assert not handle.path.exists()
    assert family.context().keys.has(handle.id)


def test_what_is_cached_of_a_dataset_goes_with_it(family: Maker) -> None:
    kept, doomed = (family.workspace.resolve(name) for name in ("a", "d"))
    for kind in ("fetch", "merge"):
        for handle in (kept, doomed):
            folder = family.workspace.cache_dir / kind / handle.id.multibase
            folder.mkdir(parents=True)
            (folder / "rows").write_text("1,2,3")
    aside = [family.workspace.quarantine_of(handle.alias) for handle in (kept, doomed)]
    for folder in aside:
        folder.mkdir(parents=True)
        (folder / "bad.ndjson").write_text("{}")
    gone(family, "d")
    left = [path.parent.name for path in family.workspace.cache_dir.rglob("rows")]
    assert left == [kept.id.multibase] * 2
    assert [folder.exists() for folder in aside] == [True, False]


def test_an_input_stays_while_others_are_derived_from_it(family: Maker) -> None:
    with pytest.raises(ConflictError, match=r"a, b cannot be deleted: .* are c, d$") as refused:
        gone(family, "a", "b")
    assert refused.value.details["dependents"] == ["c", "d"]
    assert "-r" in (refused.value.hint or "")
    assert len(family.names()) == 5


def test_dependents_go_first(family: Maker) -> None:
    order = gone(family, "a", recursive=True)
    assert sorted(order) == ["a", "b", "c", "d"]
    assert order[0] == "d"
    assert order[-1] == "a"
    assert family.names() == ["other"]


def test_all_that_is_named_may_go_at_once(family: Maker) -> None:
    assert gone(family, "a", "b", "c", "d")[0] == "d"
    assert family.names() == ["other"]


def test_patterns_and_unknown_names(family: Maker) -> None:
    with pytest.raises(NotFoundError):
        gone(family, "other", "nobody")
    assert "other" in family.names()
    assert gone(family, "oth%") == ["other"]


@pytest.mark.parametrize("confirm", [None, lambda _: False])
def test_nothing_goes_without_consent(family: Maker, confirm: object) -> None:
    with pytest.raises(NotConfirmedError):
        gone(family, "other", confirm=confirm)
    assert "other" in family.names()


def test_a_dry_run_asks_nobody(family: Maker) -> None:
    assert gone(family, "b", recursive=True, dry_run=True, confirm=None) == ["d", "b"]
    assert len(family.names()) == 5


def test_what_is_lost_is_said(family: Maker) -> None:
    family.workspace.resolve("d").remember(RemoteAliases(push=("file:///shelf/d",)))
    said = []

    def confirm(lost: object) -> bool:
        said.extend(lost)  # type: ignore[call-overload]
        return True

    gone(family, "d", confirm=confirm)
    [lost] = said
    assert (lost.blocks, lost.records, lost.size, lost.key) == (2, 0, 0, True)
    assert lost.elsewhere == ("file:///shelf/d",)


def test_while_one_is_written_to_none_goes(family: Maker) -> None:
    other = Workspace.find(family.root)  # another process, as far as locks go
    with other.resolve("b").dataset.lock(), pytest.raises(LockedError):
        gone(family, "d", "b")
    assert len(family.names()) == 5


def test_a_broken_dataset_can_go(family: Maker) -> None:
    handle = family.workspace.resolve("other")
    for block in (handle.path / "blocks").iterdir():
        block.chmod(0o600)
        block.write_bytes(b"")
    for cache in handle.path.glob("info/*state*"):
        cache.unlink()
    maker_again = Workspace.find(family.root)
    family.workspace = maker_again
    assert gone(family, "other") == ["other"]
    assert "other" not in family.names()

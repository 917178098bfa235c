"""The difference between a manifest and a chain, event by event."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.coordinator.results import AddAction
from odf.coordinator.update import differences
from odf.data.arrow_fields import arrow_schema_to_fields
from odf.errors import BadInputError, ConflictError, RuleViolationError
from odf.metadata.arrow_schema import encode_schema
from odf.metadata.model import (
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
)
from odf.protocol.releases import RELEASES
from odf.workspace.repositories import RemoteAliases
from tests.coordinator.conftest import PUSH, SOURCE, Maker, manifest, transform

INFO = {"kind": "SetInfo", "description": "about"}
LICENSE = {
    "kind": "SetLicense",
    "shortName": "CC0",
    "name": "CC0 1.0",
    "websiteUrl": "https://example.org",
}
ATTACHMENTS = {
    "kind": "SetAttachments",
    "attachments": {"kind": "Embedded", "items": [{"path": "README.md", "content": "hello"}]},
}
VOCAB = {"kind": "SetVocab", "eventTimeColumn": "at"}
OTHER_SOURCE = {**SOURCE, "fetch": {"kind": "FilesGlob", "path": "b/*.csv"}}


def appended(maker: Maker, *arguments: str) -> list[object]:
    """Update `a`, and return what that appended; a dry run before it says the same."""
    name = str(maker.workspace.datasets()[0].alias)
    before = len(maker.events(name))
    planned = maker.update(*arguments, dry_run=True).added[0]
    assert len(maker.events(name)) == before
    [done] = maker.update(*arguments).added
    assert [c.event for c in planned.changes] == [c.event for c in done.changes]
    new = maker.events(name)[before:]
    assert new == [change.event for change in done.changes]
    assert done.head == maker.workspace.resolve(name).dataset.head()
    assert done.blocks == len(new)
    assert done.action is (AddAction.UPDATED if new else AddAction.UNCHANGED)
    # What was applied holds: the same manifest changes nothing more.
    assert maker.update(*arguments).added[0].action is AddAction.UNCHANGED
    return new


def test_the_same_manifest_changes_nothing(maker: Maker) -> None:
    text = manifest("a", SOURCE, INFO, LICENSE, ATTACHMENTS, VOCAB)
    maker.add(text)
    assert appended(maker, text) == []


def test_what_differs_is_appended_in_the_manifests_order(maker: Maker) -> None:
    maker.add(manifest("a", INFO, SOURCE, LICENSE))
    new = appended(
        maker,
        manifest("a", VOCAB, LICENSE, ATTACHMENTS, {**INFO, "keywords": ["x"]}, OTHER_SOURCE),
    )
    assert [type(event) for event in new] == [
        SetVocab,
        SetAttachments,
        SetInfo,
        SetPollingSource,
    ]


def test_what_is_not_mentioned_is_left_alone(maker: Maker) -> None:
    maker.add(manifest("a", INFO, SOURCE, LICENSE))
    assert appended(maker, manifest("a")) == []
    [event] = appended(maker, manifest("a", {**INFO, "description": "else"}))
    assert isinstance(event, SetInfo)
    state = maker.workspace.resolve("a").dataset.state()
    assert state.polling_source is not None
    assert isinstance(state.license, SetLicense)


def test_a_change_names_what_it_takes_the_place_of(maker: Maker) -> None:
    maker.add(manifest("a", SOURCE))
    source, info = maker.update(manifest("a", OTHER_SOURCE, INFO), dry_run=True).added[0].changes
    assert isinstance(source.before, SetPollingSource)
    assert source.before.fetch.path == "a/*.csv"
    assert info.before is None


def test_polling_gives_way_to_pushing_and_back(maker: Maker) -> None:
    maker.add(manifest("a", SOURCE))
    new = appended(maker, manifest("a", PUSH, {**PUSH, "sourceName": "second"}))
    assert [type(event) for event in new] == [DisablePollingSource, AddPushSource, AddPushSource]
    new = appended(maker, manifest("a", {**PUSH, "merge": {"kind": "Append"}, "sourceName": "3"}))
    assert [type(event) for event in new] == [AddPushSource]
    new = appended(maker, manifest("a", SOURCE))
    assert new[:-1] == [DisablePushSource(name) for name in ("sensors", "second", "3")]
    assert isinstance(new[-1], SetPollingSource)


def test_a_push_source_is_known_by_its_name(maker: Maker) -> None:
    maker.add(manifest("a", PUSH, {**PUSH, "sourceName": "second"}))
    changed = {**PUSH, "read": {"kind": "NdJson", "schema": ["id BIGINT", "city STRING"]}}
    [event] = appended(maker, manifest("a", changed))
    assert isinstance(event, AddPushSource)
    assert event.source_name == "sensors"
    assert len(maker.workspace.resolve("a").dataset.state().push_sources) == 2


def test_the_last_of_several_holds(maker: Maker) -> None:
    text = manifest("a", INFO, SOURCE, {**INFO, "description": "last"})
    maker.add(text)
    assert appended(maker, text) == []


def test_a_transform_changes_by_its_query_and_its_inputs(maker: Maker) -> None:
    for name in "xyz":
        maker.add(manifest(name, SOURCE))
    maker.add(manifest("a", transform("x"), kind="Derivative"))
    [event] = appended(
        maker, manifest("a", transform("x", query="select 1 from in_x"), kind="Derivative")
    )
    assert isinstance(event, SetTransform)
    [event] = appended(maker, manifest("a", transform("y", "x"), kind="Derivative"))
    ids = [str(maker.workspace.resolve(name).id) for name in ("y", "x")]
    assert [one.dataset_ref for one in event.inputs] == ids


def test_a_newer_release_alone_is_no_change(maker: Maker) -> None:
    maker.add(manifest("x", SOURCE))
    maker.add(manifest("a", transform("x", version="1"), kind="Derivative"))
    wanted = transform("x")
    assert appended(maker, manifest("a", wanted, kind="Derivative")) == []
    assert appended(maker, manifest("a", transform("x", version="2"), kind="Derivative")) != []
    state = maker.workspace.resolve("a").dataset.state()
    engine, release = next(iter(RELEASES.items()))
    own = SetTransform(state.transform.inputs, _with_engine(state.transform, engine, "old"))
    state = _replaced(state, own)
    same = SetTransform(own.inputs, _with_engine(own, engine, None))
    assert differences(state, [same]) == ()
    # With another query it is to run on the release that is here.
    steps = tuple(_query(step) for step in same.transform.queries)
    other = SetTransform(own.inputs, _replaced(same.transform, queries=steps))
    [change] = differences(state, [other])
    assert change.event.transform.version == release


def _replaced(value, transform=None, **fields):
    from dataclasses import replace

    return replace(value, **({"transform": transform} if transform else fields))


def _with_engine(event, engine, version):
    return _replaced(event.transform, engine=engine, version=version)


def _query(step):
    return _replaced(step, query="select 2 from in_x")


@pytest.mark.parametrize(
    ("kind", "said"), [("Derivative", "is Root, and the manifest describes one that is Derivative")]
)
def test_another_kind_is_refused(maker: Maker, kind: str, said: str) -> None:
    maker.add(manifest("a", SOURCE))
    with pytest.raises(ConflictError, match=said) as refused:
        maker.update(manifest("a", INFO, kind=kind))
    assert "--replace" in (refused.value.hint or "")


def test_what_is_pulled_from_elsewhere_is_not_extended(maker: Maker) -> None:
    text = manifest("a", SOURCE)
    maker.add(text)
    maker.workspace.resolve("a").remember(RemoteAliases(("https://example.org/a",)))
    assert maker.update(text).added[0].action is AddAction.UNCHANGED
    with pytest.raises(ConflictError, match=r"is pulled from https://example\.org/a"):
        maker.update(manifest("a", INFO))


def schema(*names: str) -> SetDataSchema:
    fields = [pa.field(name, pa.int64()) for name in names]
    return SetDataSchema(schema=encode_schema(arrow_schema_to_fields(pa.schema(fields))))


def commit(maker: Maker, event: object) -> None:
    dataset = maker.workspace.resolve("a").dataset
    now = maker.context().now()
    dataset.commit([event], expected_head=dataset.head(), system_time=now)


def test_the_rules_of_the_chain_hold(maker: Maker) -> None:
    maker.add(manifest("a", SOURCE))
    commit(maker, schema("offset", "city"))
    with pytest.raises(RuleViolationError, match=r"1.yaml: dataset a: .*vocabulary-before-data"):
        maker.update(manifest("a", VOCAB))


def test_columns_that_data_added_are_no_difference(maker: Maker) -> None:
    maker.add(manifest("a", SOURCE))
    commit(maker, schema("offset", "city"))
    state = maker.workspace.resolve("a").dataset.state()
    assert differences(state, [schema("city")]) == ()
    assert differences(state, [schema("city", "offset")]) == ()
    [change] = differences(state, [schema("offset", "city", "more")])
    assert change.before == state.schema


EVENTS = st.sampled_from([INFO, {**INFO, "description": "x"}, LICENSE, ATTACHMENTS, SOURCE, PUSH])


@given(st.lists(EVENTS, max_size=4), st.lists(EVENTS, max_size=4))
def test_applying_the_difference_leaves_none(first, second) -> None:
    from odf.coordinator.drafts import draft_new, tried
    from odf.metadata.identity import DatasetID
    from odf.metadata.model import Timestamp
    from odf.metadata.yaml import load_manifests

    now, identity = Timestamp.from_epoch_ms(0), DatasetID(b"\0" * 32)
    drafts = []
    for events in (first, second):
        [snapshot] = load_manifests(manifest("a", *events), "x")
        try:
            drafts.append(draft_new("x", snapshot, identity, lambda _: None, now))
        except RuleViolationError:
            return
    wanted = drafts[1].events[1:]
    changes = differences(drafts[0].state, wanted)
    after = tried(drafts[0].state, [change.event for change in changes], now)
    assert differences(after, wanted) == ()


def test_a_query_keeps_the_columns_that_the_dataset_has(maker: Maker) -> None:
    from dataclasses import replace

    from odf.coordinator.drafts import Draft, _check_columns

    maker.add(manifest("a", SOURCE))
    handle = maker.workspace.resolve("a")
    state = replace(handle.dataset.state(), schema=schema("offset", "event_time", "id", "city"))
    draft = Draft(handle.alias, handle.id, AddAction.UPDATED, (), state, before=state)
    _check_columns(draft, ["city", "id", "more"])
    _check_columns(draft, None)
    with pytest.raises(BadInputError, match=r"no longer gives columns .*: id; it gives city, x"):
        _check_columns(draft, ["city", "x"])


DISABLE_SECOND = {"kind": "DisablePushSource", "sourceName": "second"}


def test_a_manifest_ends_sources(maker: Maker) -> None:
    maker.add(manifest("a", PUSH, {**PUSH, "sourceName": "second"}))
    assert appended(maker, manifest("a", DISABLE_SECOND)) == [DisablePushSource("second")]
    assert appended(maker, manifest("a", {"kind": "DisablePollingSource"})) == []
    state = maker.workspace.resolve("a").dataset.state()
    assert [source.source_name for source in state.push_sources] == ["sensors"]
    new = appended(
        maker, manifest("a", SOURCE, {"kind": "DisablePushSource", "sourceName": "sensors"})
    )
    assert new[0] == DisablePushSource("sensors")
    assert isinstance(new[1], SetPollingSource)
    assert len(new) == 2
    assert appended(maker, manifest("a", {"kind": "DisablePollingSource"})) == [
        DisablePollingSource()
    ]


def test_a_manifest_that_describes_and_ends_a_source(maker: Maker) -> None:
    maker.add(manifest("a", PUSH))
    second = {**PUSH, "sourceName": "second"}
    with pytest.raises(BadInputError, match="AddPushSource describes a source that Disable"):
        maker.update(manifest("a", second, DISABLE_SECOND))


def test_a_new_dataset_has_no_source_to_end(maker: Maker) -> None:
    with pytest.raises(BadInputError, match="the event cannot be in a manifest"):
        maker.add(manifest("a", PUSH, DISABLE_SECOND))

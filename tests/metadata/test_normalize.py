"""From manifests to events."""

import pytest

from odf.errors import NotFoundError
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    AddData,
    DatasetKind,
    DatasetSnapshot,
    DisablePollingSource,
    FetchStepUrl,
    MergeStrategyAppend,
    ReadStepCsv,
    Seed,
    SetInfo,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odf.metadata.normalize import (
    InvalidSnapshotError,
    MissingInputsError,
    input_aliases,
    normalize_event,
    normalize_transform,
    resolve_inputs,
    snapshot_events,
)

ID = DatasetID(b"1" * 32)
POLL = SetPollingSource(
    fetch=FetchStepUrl("x"),
    read=ReadStepCsv(),
    preprocess=TransformSql("spark", query="select 1"),
    merge=MergeStrategyAppend(),
)


def known(ref):
    return ID if ref.lower() == "known" else None


def snapshot(name, kind, *events):
    return DatasetSnapshot(DatasetAlias.parse(name), kind, events)


def derived(name, *inputs):
    event = SetTransform(
        tuple(TransformInput(ref) for ref in inputs), TransformSql("spark", query="select 1")
    )
    return snapshot(name, DatasetKind.DERIVATIVE, event)


def test_the_short_form_of_a_query():
    made = normalize_transform(TransformSql("spark", "1.0", query="select 1"))
    assert made == TransformSql("spark", "1.0", queries=(SqlQueryStep(query="select 1"),))
    assert normalize_transform(made) == made


@pytest.mark.parametrize(
    ("transform", "match"),
    [
        (TransformSql("spark"), "neither"),
        (TransformSql("spark", queries=()), "neither"),
        (TransformSql("spark", query="x", queries=(SqlQueryStep(query="x"),)), "both"),
        (TransformSql("spark", queries=(SqlQueryStep(query="x"),) * 2), "2 queries"),
    ],
)
def test_transforms_that_cannot_be_normalized(transform, match):
    with pytest.raises(InvalidSnapshotError, match=match):
        normalize_transform(transform)


def test_events_with_queries_are_normalized_and_others_kept():
    assert normalize_event(POLL).preprocess.queries == (SqlQueryStep(query="select 1"),)
    assert normalize_event(SetInfo("x")) == SetInfo("x")


def test_inputs_become_identifiers_with_aliases():
    event = SetTransform(
        (TransformInput("Known"), TransformInput("known", "b"), TransformInput("c")),
        TransformSql("spark", query="x"),
    )
    made, missing = resolve_inputs(event, known)
    assert made.inputs[:2] == (TransformInput(str(ID), "Known"), TransformInput(str(ID), "b"))
    assert missing == ("c",)


def test_events_of_a_snapshot():
    events = snapshot_events(snapshot("a", DatasetKind.ROOT, POLL, SetInfo("x")), known)
    assert events == (normalize_event(POLL), SetInfo("x"))


def test_all_missing_inputs_are_named():
    with pytest.raises(MissingInputsError, match="not exist: a, b") as caught:
        snapshot_events(derived("x", "a", "known", "b"), known)
    assert isinstance(caught.value, NotFoundError)


@pytest.mark.parametrize(
    ("kind", "event", "match"),
    [
        (DatasetKind.ROOT, Seed(ID, DatasetKind.ROOT), "generated"),
        (DatasetKind.ROOT, AddData(), "cannot be in a manifest"),
        (DatasetKind.ROOT, DisablePollingSource(), "cannot be in a manifest"),
        (DatasetKind.DERIVATIVE, POLL, "kind: Root"),
        (DatasetKind.ROOT, derived("x", "known").metadata[0], "kind: Derivative"),
        (
            DatasetKind.ROOT,
            SetPollingSource(
                fetch=POLL.fetch, read=POLL.read, merge=POLL.merge, preprocess=TransformSql("s")
            ),
            "neither",
        ),
    ],
)
def test_events_that_do_not_belong(kind, event, match):
    with pytest.raises(InvalidSnapshotError, match=match) as caught:
        snapshot_events(snapshot("a", kind, event), known)
    assert "dataset a, metadata[0]" in caught.value.message


def test_inputs_are_found():
    found = input_aliases(derived("c", "B", "elsewhere", ID_TEXT))
    assert [str(alias) for alias in found] == ["B", "elsewhere"]


ID_TEXT = str(ID)

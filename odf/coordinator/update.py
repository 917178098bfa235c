"""`odf add --update`: the events by which a manifest differs from what a chain says now.

A manifest says what holds, not what is to be done. Comparing the two gives the events that make
the chain say what the manifest says; what the manifest does not mention stays as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from odf.coordinator.drafts import Draft, FindInput, draft_new, tried
from odf.coordinator.queries import pinned
from odf.coordinator.results import AddAction, EventChange
from odf.errors import BadInputError, ConflictError, OdfError, in_context
from odf.ingest.source_state import rereads
from odf.metadata.buffers import MalformedBufferError
from odf.metadata.chain import ChainState
from odf.metadata.model import (
    AddPushSource,
    DatasetSnapshot,
    DisablePollingSource,
    DisablePushSource,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MetadataEvent,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    Timestamp,
)
from odf.metadata.normalize import snapshot_events
from odf.metadata.schema_evolution import schema_differences, schema_fields
from odf.workspace.workspace import DatasetHandle

_End = DisablePollingSource | DisablePushSource
"""Events that end a source. In a manifest they say that there is none, for a dataset that is."""


def draft_update(
    source: str,
    snapshot: DatasetSnapshot,
    handle: DatasetHandle,
    find: FindInput,
    system_time: Timestamp,
) -> Draft:
    """Compare a manifest with a dataset, and try the difference against the rules of its chain.

    Args:
        source: What to call the manifest in messages.
        snapshot: Its content.
        handle: The dataset.
        find: Finds the identities of inputs.
        system_time: Time of new blocks.

    Raises:
        ConflictError: The dataset is of the other kind, or is pulled from elsewhere.
        RuleViolationError: An event may not follow in the chain.
        InvalidSnapshotError, MissingInputsError: See `add_manifests`.
    """
    before = handle.dataset.state()
    if before.kind is not None and before.kind is not snapshot.kind:
        raise ConflictError(
            f"{source}: dataset {handle.alias} is {before.kind.label}, and the manifest describes "
            f"one that is {snapshot.kind.label}",
            hint="a dataset cannot change its kind; odf add --replace makes it anew, without data",
        )
    ends = [event for event in snapshot.metadata if isinstance(event, _End)]
    snapshot = replace(
        snapshot, metadata=tuple(one for one in snapshot.metadata if not isinstance(one, _End))
    )
    # A manifest that could not make a dataset does not describe one either.
    draft_new(source, snapshot, handle.id, find, system_time)
    wanted = snapshot_events(snapshot, find)
    _check_ends(source, ends, wanted)
    changes = _joined(_ended(before, ends), differences(before, wanted))
    if changes and (origin := handle.pull_aliases):
        raise ConflictError(
            f"{source}: dataset {handle.alias} is pulled from {origin[0]}; events of our own would "
            "part its history from the one there",
            hint="ask its owner to change it, or add a dataset of your own under another name",
        )
    events = tuple(change.event for change in changes)
    try:
        after = tried(before, events, system_time)
    except OdfError as error:
        raise in_context(error, f"{source}: dataset {handle.alias}") from error
    return Draft(
        alias=handle.alias,
        id=handle.id,
        action=AddAction.UPDATED if events else AddAction.UNCHANGED,
        events=events,
        state=after,
        before=before,
        handle=handle,
        changes=changes,
        warnings=_doubled(handle, before, events),
    )


def _doubled(
    handle: DatasetHandle, before: ChainState, events: Sequence[MetadataEvent]
) -> tuple[str, ...]:
    """Warn of a source that is read anew where rows that are there come once more."""
    for event in events:
        if not isinstance(event, SetPollingSource) or before.last_offset is None:
            continue
        merge = type(event.merge).__name__.removeprefix("MergeStrategy")
        is_blind = isinstance(event.merge, MergeStrategyAppend | MergeStrategyChangelogStream)
        if is_blind and rereads(handle.dataset, event, before):
            warning = (
                f"the fetch step of {handle.alias} is another one, so the next pull reads its "
                f"source whole, and {merge} adds all of it to what is there (rows: "
                f"{before.num_records}): rows that the old source gave, too, are in the dataset "
                "twice then. To avoid it merge by Ledger or Snapshot with a primary key, keep the "
                "fetch step as it was, or make the dataset anew with odf add --replace"
            )
            return (warning,)
    return ()


def _check_ends(source: str, ends: Sequence[_End], wanted: Sequence[MetadataEvent]) -> None:
    """Refuse a manifest that describes a source and ends it."""
    for event in wanted:
        end = _end_of(event)
        if end in ends:
            raise BadInputError(
                f"{source}: {type(event).__name__} describes a source that {type(end).__name__} "
                "ends",
                reason="manifest",
                hint="leave one of them out",
            )


def _end_of(event: MetadataEvent) -> _End | None:
    match event:
        case SetPollingSource():
            return DisablePollingSource()
        case AddPushSource(source_name=name):
            return DisablePushSource(name)
        case _:
            return None


def _ended(state: ChainState, ends: Sequence[_End]) -> tuple[EventChange, ...]:
    """Return the events that end sources, each once; those that are not there have ended."""
    changes = []
    for end in dict.fromkeys(ends):
        current = (
            state.push_source(end.source_name)
            if isinstance(end, DisablePushSource)
            else state.polling_source
        )
        if current is not None:
            changes.append(EventChange(end, before=current))
    return tuple(changes)


def _joined(first: Sequence[EventChange], second: Sequence[EventChange]) -> tuple[EventChange, ...]:
    return (*first, *(change for change in second if change not in first))


def differences(state: ChainState, wanted: Sequence[MetadataEvent]) -> tuple[EventChange, ...]:
    """Return the events that make a chain say what a manifest says, in the manifest's order.

    Args:
        state: What the chain says now.
        wanted: The manifest's events, with inputs resolved.
    """
    changes: list[EventChange] = []
    for event in _last_of_each(wanted):
        current = _current(state, event)
        if isinstance(event, SetTransform):
            event = _with_release(event, state.transform)  # noqa: PLW2901
        if event == current or _is_evolved(current, event):
            continue
        changes += [end for end in _ended_by(state, event) if end not in changes]
        changes.append(EventChange(event, before=current))
    return tuple(changes)


def _last_of_each(events: Sequence[MetadataEvent]) -> Iterator[MetadataEvent]:
    """Leave out events that a later one of the same manifest takes the place of."""
    last = {_subject(event): index for index, event in enumerate(events)}
    return (event for index, event in enumerate(events) if last[_subject(event)] == index)


def _subject(event: MetadataEvent) -> tuple[type, str]:
    return type(event), event.source_name if isinstance(event, AddPushSource) else ""


def _current(state: ChainState, event: MetadataEvent) -> MetadataEvent | None:
    """Return the event in force that an event would take the place of."""
    match event:
        case SetPollingSource():
            return state.polling_source
        case AddPushSource(source_name=name):
            return state.push_source(name)
        case SetTransform():
            return state.transform
        case SetVocab():
            return state.set_vocab
        case SetDataSchema():
            return state.schema
        case SetInfo():
            return state.info
        case SetLicense():
            return state.license
        case SetAttachments():
            return state.attachments
        case _:
            return None


def _with_release(event: SetTransform, current: SetTransform | None) -> SetTransform:
    """Fill in the engine's release, which a newer `odf` alone is no reason to change."""
    new = pinned(event)
    if current is None or event.transform.version is not None:
        return new
    kept = replace(event, transform=replace(event.transform, version=current.transform.version))
    return kept if kept == current else new


def _is_evolved(current: MetadataEvent | None, event: MetadataEvent) -> bool:
    """Whether the schema in force is the manifest's one, with columns that data added since."""
    if not isinstance(event, SetDataSchema) or not isinstance(current, SetDataSchema):
        return False
    try:
        return not schema_differences(schema_fields(event), schema_fields(current))
    except MalformedBufferError:
        return False


def _ended_by(state: ChainState, event: MetadataEvent) -> list[EventChange]:
    """Return what has to end before an event: polling excludes pushing."""
    if isinstance(event, SetPollingSource):
        return [
            EventChange(DisablePushSource(source.source_name), before=source)
            for source in state.push_sources
        ]
    if isinstance(event, AddPushSource) and state.polling_source is not None:
        return [EventChange(DisablePollingSource(), before=state.polling_source)]
    return []

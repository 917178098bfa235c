"""What is about to be written: the events of one manifest, tried against the rules of a chain.

Nothing here writes anything. A draft is made for every manifest of a command before the first
dataset is touched, so that a mistake in the last one leaves the workspace as it was.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from odf.coordinator.context import Context
from odf.coordinator.queries import check_source, check_transform, pinned
from odf.coordinator.query_record import QueryRecord, check_recompute
from odf.coordinator.results import AddAction, EventChange
from odf.errors import BadInputError, OdfError, in_context
from odf.metadata.chain import EMPTY_STATE, ChainState, apply
from odf.metadata.flatbuffers import block_hash, encode_block
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    AddPushSource,
    DatasetKind,
    DatasetSnapshot,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetPollingSource,
    SetTransform,
    Timestamp,
)
from odf.metadata.normalize import snapshot_events
from odf.metadata.rules import check_block
from odf.metadata.schema_evolution import schema_fields
from odf.workspace.workspace import DatasetHandle

_NO_TRANSFORM: Final = (
    "it is derived from nothing: its manifest has no SetTransform, and nothing can be pulled "
    "before one is added with `odf add --update`"
)

FindInput = Callable[[str], DatasetID | None]
"""Finds the identity of an input by the reference in a manifest."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A dataset as it is going to be.

    Attributes:
        alias: Its name.
        id: Its identity.
        action: What is going to be done to it.
        events: What is to be appended to its chain; the seed first for a new one.
        state: What its chain says afterwards.
        before: What its chain says now; empty for a new one.
        handle: The dataset as it is in the workspace; None for a new one. One that is replaced
            has its old self here.
        changes: The events again, each with what it takes the place of.
        query: What is known about the query that it runs; None if the draft changes none.
        warnings: What its author should know.
    """

    alias: DatasetAlias
    id: DatasetID
    action: AddAction
    events: tuple[MetadataEvent, ...]
    state: ChainState
    before: ChainState = EMPTY_STATE
    handle: DatasetHandle | None = None
    changes: tuple[EventChange, ...] = ()
    query: QueryRecord | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether a chain is made, and not one extended or left alone."""
        return self.action in (AddAction.ADDED, AddAction.REPLACED)


def draft_new(
    source: str,
    snapshot: DatasetSnapshot,
    dataset_id: DatasetID,
    find: FindInput,
    system_time: Timestamp,
) -> Draft:
    """Turn a manifest into the events of a new chain, and try them against the rules.

    Args:
        source: What to call the manifest in messages.
        snapshot: Its content.
        dataset_id: The identity of the new dataset.
        find: Finds the identities of inputs.
        system_time: Time of all blocks.

    Raises:
        InvalidSnapshotError, MissingInputsError, RuleViolationError: See `add_manifests`.
    """
    try:
        written = snapshot_events(snapshot, find)
        events: list[MetadataEvent] = [
            pinned(event) if isinstance(event, SetTransform) else event for event in written
        ]
        seed = Seed(dataset_id=dataset_id, dataset_kind=snapshot.kind)
        state = tried(EMPTY_STATE, [seed, *events], system_time)
    except OdfError as error:
        raise in_context(error, source) from error
    return Draft(
        alias=snapshot.name,
        id=dataset_id,
        action=AddAction.ADDED,
        events=(seed, *events),
        state=state,
        changes=tuple(EventChange(event) for event in events),
    )


def tried(state: ChainState, events: Sequence[MetadataEvent], system_time: Timestamp) -> ChainState:
    """Return what a chain would say after some events, without writing them.

    Raises:
        RuleViolationError: If one of them may not follow.
    """
    for event in events:
        block = MetadataBlock(system_time, state.head, state.next_sequence_number, event)
        check_block(state, block)
        state = apply(state, block, block_hash(encode_block(block)))
    return state


def with_checked_queries(
    ctx: Context,
    draft: Draft,
    others: Mapping[DatasetID, Draft],
    *,
    allow_recompute: bool = False,
) -> Draft:
    """Have the queries of a draft checked, as far as the draft changes them.

    Args:
        ctx: The workspace.
        draft: What to check.
        others: Drafts of the datasets that it may be derived from.
        allow_recompute: Accept a query that is recomputed over the whole history in every run.

    Raises:
        InvalidQueryError: If a query is not accepted.
        BadInputError: If a source can never work, or a query no longer gives a column that the
            dataset has.
        EngineUnavailableError: If no engine can be started to check a query.
    """
    before, after = draft.before, draft.state
    if after.transform is not None and after.transform != before.transform:
        states = {other.id: other.state for other in others.values()}
        check = check_transform(ctx, draft.alias, after.transform, after.vocab, states)
        _check_columns(draft, check.columns)
        query = QueryRecord(check.query_class, check.description, allow_recompute)
        check_recompute(draft.alias, query, check.warnings)
        draft = replace(draft, query=query)
        return replace(draft, warnings=(*draft.warnings, *check.warnings))
    warnings = dict.fromkeys(draft.warnings)
    if after.kind is DatasetKind.DERIVATIVE and after.transform is None:
        warnings[_NO_TRANSFORM] = None
    for source in _new_sources(before, after):
        warnings |= dict.fromkeys(check_source(ctx, draft.alias, source, after.vocab).warnings)
    return replace(draft, warnings=tuple(warnings))


def _new_sources(
    before: ChainState, after: ChainState
) -> Iterator[SetPollingSource | AddPushSource]:
    if after.polling_source is not None and after.polling_source != before.polling_source:
        yield after.polling_source
    yield from (source for source in after.push_sources if source not in before.push_sources)


def _check_columns(draft: Draft, columns: Sequence[str] | None) -> None:
    """Refuse a query that the dataset's schema could not follow; the next pull would fail."""
    schema = draft.before.schema
    if schema is None or columns is None:
        return
    vocab = draft.state.vocab
    system = {
        vocab.offset_column,
        vocab.operation_type_column,
        vocab.system_time_column,
        vocab.event_time_column,
    }
    gone = [
        field.name
        for field in schema_fields(schema)
        if field.name not in system and field.name not in columns
    ]
    if gone:
        raise BadInputError(
            f"dataset {draft.alias}: the query no longer gives columns that the dataset has: "
            f"{', '.join(gone)}; it gives {', '.join(columns)}",
            reason="schema",
            hint="columns can be added, not taken away: keep them in the query, or start anew "
            "with --replace",
        )

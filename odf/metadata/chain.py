"""What a chain says so far, as a fold over its blocks.

Rules, planners, listings and the slice writer ask all their questions of a `ChainState`. It is
constant in memory whatever the length of the chain, and `apply` is total: it never refuses a
block (that is what `odf.metadata.rules` is for). Every field has a form in JSON
(`to_json(state)`, `from_json(ChainState, value)`), so that states can be cached.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from odf.limits import MAX_SOURCES
from odf.metadata.declare import UInt64, Whole
from odf.metadata.identity import DatasetID
from odf.metadata.model import (
    DEFAULT_VOCAB,
    AddData,
    AddPushSource,
    Checkpoint,
    DatasetKind,
    DatasetVocabulary,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    ExecuteTransformInput,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MetadataBlock,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
    UnknownEvent,
)
from odf.metadata.multiformats import Multihash
from odf.metadata.timestamp import Timestamp


@dataclass(frozen=True, slots=True)
class ChainState:
    """Everything that the blocks up to `head` say.

    Attributes:
        head: Hash of the last block; `None` for an empty chain.
        sequence_number: Number of the last block; -1 for an empty chain.
        system_time: Time of the last block.
        seed: The first event.
        last_offset: Offset of the last row; `None` without data.
        watermark: The newest watermark.
        checkpoint: What the last data event says is the newest checkpoint.
        polling_source: The active polling source.
        push_sources: The active push sources, in the order of their first appearance.
        transform: The current transform of a derivative dataset.
        set_vocab: The current vocabulary as written; see `vocab` for the filled one.
        schema: The current schema of slices.
        source_states: The newest state of each source, the newest of all last.
        last_add_data: The newest `AddData`.
        last_execute_transform: The newest `ExecuteTransform`.
        info: The current description.
        license: The current licence.
        attachments: The current attachments.
        num_blocks: Blocks in the chain.
        num_slices: Data files in the chain.
        num_records: Rows in all data files.
        data_size: Bytes of all data files.
        checkpoints_size: Bytes of all checkpoints, each counted where it was new.
        last_data_time: System time of the last block with a data event.
        opaque: Why this release cannot tell what the chain says; `None` if it can.
    """

    head: Multihash | None = None
    sequence_number: Whole = -1
    system_time: Timestamp | None = None
    seed: Seed | None = None
    last_offset: UInt64 | None = None
    watermark: Timestamp | None = None
    checkpoint: Checkpoint | None = None
    polling_source: SetPollingSource | None = None
    push_sources: tuple[AddPushSource, ...] = ()
    transform: SetTransform | None = None
    set_vocab: SetVocab | None = None
    schema: SetDataSchema | None = None
    source_states: tuple[SourceState, ...] = ()
    last_add_data: AddData | None = None
    last_execute_transform: ExecuteTransform | None = None
    info: SetInfo | None = None
    license: SetLicense | None = None
    attachments: SetAttachments | None = None
    num_blocks: Whole = 0
    num_slices: Whole = 0
    num_records: Whole = 0
    data_size: Whole = 0
    checkpoints_size: Whole = 0
    last_data_time: Timestamp | None = None
    opaque: str | None = None

    @property
    def dataset_id(self) -> DatasetID | None:
        """Which dataset this is."""
        return self.seed.dataset_id if self.seed else None

    @property
    def kind(self) -> DatasetKind | None:
        """Whether it is a root or a derivative dataset."""
        return self.seed.dataset_kind if self.seed else None

    @property
    def next_offset(self) -> int:
        """Offset of the next row."""
        return 0 if self.last_offset is None else self.last_offset + 1

    @property
    def next_sequence_number(self) -> int:
        """Number of the next block."""
        return self.sequence_number + 1

    @property
    def vocab(self) -> DatasetVocabulary:
        """Names of the system columns, defaults filled in."""
        named = self.set_vocab or SetVocab()
        return DatasetVocabulary(
            offset_column=_name(named.offset_column, DEFAULT_VOCAB.offset_column),
            operation_type_column=_name(
                named.operation_type_column, DEFAULT_VOCAB.operation_type_column
            ),
            system_time_column=_name(named.system_time_column, DEFAULT_VOCAB.system_time_column),
            event_time_column=_name(named.event_time_column, DEFAULT_VOCAB.event_time_column),
        )

    @property
    def may_retract(self) -> bool:
        """Whether rows of the dataset can be anything but appended; a derivative's possibly can."""
        sources = [source for source in (self.polling_source, *self.push_sources) if source]
        return self.transform is not None or any(
            not isinstance(source.merge, MergeStrategyAppend | MergeStrategyLedger)
            for source in sources
        )

    @property
    def query_inputs(self) -> tuple[ExecuteTransformInput, ...] | None:
        """How far the last transformation read its inputs; `None` if there was none."""
        last = self.last_execute_transform
        return last.query_inputs if last else None

    @property
    def last_source_state(self) -> SourceState | None:
        """The newest state of any source."""
        return self.source_states[-1] if self.source_states else None

    def source_state(self, source_name: str) -> SourceState | None:
        """Return the newest state of one source."""
        return next((s for s in self.source_states if s.source_name == source_name), None)

    def push_source(self, source_name: str) -> AddPushSource | None:
        """Return an active push source by its name."""
        return next((s for s in self.push_sources if s.source_name == source_name), None)


EMPTY_STATE: Final = ChainState()
"""The state of a chain without blocks."""


def apply(state: ChainState, block: MetadataBlock, block_hash: Multihash) -> ChainState:
    """Return the state after one more block.

    Args:
        state: What the chain says before it.
        block: The next block, oldest first.
        block_hash: Its hash.
    """
    return replace(
        state,
        head=block_hash,
        sequence_number=block.sequence_number,
        system_time=block.system_time,
        num_blocks=state.num_blocks + 1,
        **_changes(state, block),
    )


def fold(
    blocks: Iterable[tuple[Multihash, MetadataBlock]], state: ChainState = EMPTY_STATE
) -> ChainState:
    """Return the state after several blocks, given oldest first."""
    for block_hash, block in blocks:
        state = apply(state, block, block_hash)
    return state


def _changes(state: ChainState, block: MetadataBlock) -> dict[str, Any]:  # noqa: C901, PLR0912 - one line an event
    match block.event:
        case AddData() as event:
            return {**_data_changes(state, block, event), **_source_state_changes(state, event)}
        case ExecuteTransform() as event:
            return {**_data_changes(state, block, event), "last_execute_transform": event}
        case Seed() as event:
            return {"seed": event}
        case SetPollingSource() as event:
            return {"polling_source": event}
        case DisablePollingSource():
            return {"polling_source": None}
        case AddPushSource() as event:
            return _push_source_changes(state, event)
        case DisablePushSource(name):
            return {"push_sources": tuple(s for s in state.push_sources if s.source_name != name)}
        case SetTransform() as event:
            return {"transform": event}
        case SetVocab() as event:
            return {"set_vocab": event}
        case SetDataSchema() as event:
            return {"schema": event}
        case SetInfo() as event:
            return {"info": event}
        case SetLicense() as event:
            return {"license": event}
        case SetAttachments() as event:
            return {"attachments": event}
        case UnknownEvent(tag, reason):
            why = f"block {block.sequence_number} has an event (tag {tag}) that this release "
            return {"opaque": state.opaque or f"{why}does not understand: {reason}"}


def _data_changes(
    state: ChainState, block: MetadataBlock, event: AddData | ExecuteTransform
) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "last_offset": event.prev_offset,
        "checkpoint": event.new_checkpoint,
        "last_data_time": block.system_time,
    }
    if event.new_data is not None:
        changes["last_offset"] = event.new_data.offset_interval.end
        changes["num_slices"] = state.num_slices + 1
        changes["num_records"] = state.num_records + max(0, event.new_data.num_records)
        changes["data_size"] = state.data_size + event.new_data.size
    if event.new_watermark is not None:
        changes["watermark"] = event.new_watermark
    new = event.new_checkpoint
    if new is not None and new.physical_hash != event.prev_checkpoint:
        changes["checkpoints_size"] = state.checkpoints_size + new.size
    return changes


def _source_state_changes(state: ChainState, event: AddData) -> dict[str, Any]:
    changes: dict[str, Any] = {"last_add_data": event}
    new = event.new_source_state
    if new is not None and new != state.last_source_state:
        others = tuple(s for s in state.source_states if s.source_name != new.source_name)
        if len(others) >= MAX_SOURCES:
            changes["opaque"] = state.opaque or f"more than {MAX_SOURCES} sources have a state"
        else:
            changes["source_states"] = (*others, new)
    return changes


def _push_source_changes(state: ChainState, event: AddPushSource) -> dict[str, Any]:
    if state.push_source(event.source_name) is not None:
        sources = tuple(
            event if s.source_name == event.source_name else s for s in state.push_sources
        )
        return {"push_sources": sources}
    if len(state.push_sources) >= MAX_SOURCES:
        return {"opaque": state.opaque or f"more than {MAX_SOURCES} push sources"}
    return {"push_sources": (*state.push_sources, event)}


def _name(given: str | None, default: str) -> str:
    return default if given is None else given

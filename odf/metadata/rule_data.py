"""Rules about events that can add data: continuity of offsets, checkpoints, watermarks, inputs."""

from odf.metadata.chain import ChainState
from odf.metadata.model import (
    AddData,
    DataEvent,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
)
from odf.metadata.multiformats import Multihash
from odf.metadata.rule_base import Violation, canonical_ref


def watermark_monotonic(state: ChainState, block: MetadataBlock) -> Violation | None:
    """A watermark, once set, is carried forward and does not go back."""
    event = block.event
    if not isinstance(event, DataEvent) or state.watermark is None:
        return None
    if event.new_watermark is None or event.new_watermark < state.watermark:
        return Violation(
            "the watermark goes back",
            f"{state.watermark} or later",
            event.new_watermark or "no watermark",
        )
    return None


def empty_add_data(_: ChainState, block: MetadataBlock) -> Violation | None:
    """`AddData` says something."""
    event = block.event
    if isinstance(event, AddData) and (
        event.new_data is None
        and event.new_checkpoint is None
        and event.new_watermark is None
        and event.new_source_state is None
    ):
        return Violation("the event is empty", "data, checkpoint, watermark or state", "none")
    return None


def empty_execute_transform(_: ChainState, block: MetadataBlock) -> Violation | None:
    """`ExecuteTransform` says something."""
    event = block.event
    if isinstance(event, ExecuteTransform) and (
        event.new_data is None and event.new_checkpoint is None and event.new_watermark is None
    ):
        return Violation("the event is empty", "data, checkpoint or watermark", "none")
    return None


def offset_start(_: ChainState, block: MetadataBlock) -> Violation | None:
    """New rows begin right behind the previous offset."""
    event = block.event
    if not isinstance(event, DataEvent) or event.new_data is None:
        return None
    wanted = 0 if event.prev_offset is None else event.prev_offset + 1
    if event.new_data.offset_interval.start != wanted:
        return Violation("offsets are not sequential", wanted, event.new_data.offset_interval.start)
    return None


def offset_order(_: ChainState, block: MetadataBlock) -> Violation | None:
    """A slice has at least one row."""
    event = block.event
    if not isinstance(event, DataEvent) or event.new_data is None:
        return None
    interval = event.new_data.offset_interval
    if interval.end < interval.start:
        return Violation(
            "the offset interval ends before it starts", f"{interval.start} or more", interval.end
        )
    return None


def offset_continuity(state: ChainState, block: MetadataBlock) -> Violation | None:
    """The previous offset is that of the last row in the chain."""
    event = block.event
    if not isinstance(event, DataEvent) or not _has_data_event(state):
        return None
    if event.prev_offset != state.last_offset:
        return Violation(
            "the previous offset is not the last one of the chain",
            _or_none(state.last_offset),
            _or_none(event.prev_offset),
        )
    return None


def offset_first(state: ChainState, block: MetadataBlock) -> Violation | None:
    """The first data event has no previous offset."""
    event = block.event
    if not isinstance(event, DataEvent) or _has_data_event(state):
        return None
    if event.prev_offset is not None:
        return Violation("there are no rows yet", "no previous offset", event.prev_offset)
    return None


def checkpoint_continuity(state: ChainState, block: MetadataBlock) -> Violation | None:
    """The previous checkpoint is that of the last event of the same type."""
    event = block.event
    if not isinstance(event, DataEvent):
        return None
    last = _last_like(state, event)
    wanted = _checkpoint_hash(last) if last is not None else None
    if event.prev_checkpoint != wanted:
        return Violation(
            "the previous checkpoint is not the last one of the chain",
            wanted or "no checkpoint",
            event.prev_checkpoint or "no checkpoint",
        )
    return None


def schema_first(state: ChainState, block: MetadataBlock) -> Violation | None:
    """A schema comes before the first slice."""
    event = block.event
    if isinstance(event, DataEvent) and event.new_data is not None and state.schema is None:
        return Violation("data without a schema", "SetDataSchema before it", "none in the chain")
    return None


def add_data_advances(state: ChainState, block: MetadataBlock) -> Violation | None:
    """`AddData` changes something."""
    event = block.event
    if not isinstance(event, AddData) or event.new_data is not None:
        return None
    last = state.last_add_data or AddData()
    if (
        _checkpoint_hash(event) == event.prev_checkpoint
        and event.new_watermark == last.new_watermark
        and event.new_source_state == last.new_source_state
    ):
        return Violation(
            "the event changes nothing",
            "data, or a new checkpoint, watermark or source state",
            "what the previous AddData has",
        )
    return None


def execute_transform_advances(state: ChainState, block: MetadataBlock) -> Violation | None:
    """`ExecuteTransform` changes something."""
    event = block.event
    if not isinstance(event, ExecuteTransform) or event.new_data is not None:
        return None
    last = state.last_execute_transform
    if (
        _checkpoint_hash(event) == event.prev_checkpoint
        and event.new_watermark == (last.new_watermark if last else None)
        and all(one.new_block_hash is None for one in event.query_inputs)
    ):
        return Violation(
            "the event changes nothing",
            "data, or a new checkpoint, watermark or input block",
            "what the previous ExecuteTransform has",
        )
    return None


def transform_declared(state: ChainState, block: MetadataBlock) -> Violation | None:
    """A transform is defined before it is executed."""
    if (
        isinstance(block.event, ExecuteTransform)
        and state.transform is None
        and state.last_execute_transform is None
    ):
        return Violation("no transform is defined", "SetTransform before it", "none in the chain")
    return None


def transform_inputs(state: ChainState, block: MetadataBlock) -> Violation | None:
    """The inputs are those of the transform, in its order."""
    event = block.event
    if not isinstance(event, ExecuteTransform):
        return None
    if state.transform is not None:
        wanted = [canonical_ref(one.dataset_ref) for one in state.transform.inputs]
    elif state.last_execute_transform is not None:
        wanted = [str(one.dataset_id) for one in state.last_execute_transform.query_inputs]
    else:
        return None
    got = [str(one.dataset_id) for one in event.query_inputs]
    if got != wanted:
        return Violation(
            "the inputs are not those of the transform", ", ".join(wanted), ", ".join(got)
        )
    return None


def input_block_interval(state: ChainState, block: MetadataBlock) -> Violation | None:
    """An input that advances names another block than before."""
    for one in _inputs(state, block):
        if one.new_block_hash is not None and one.new_block_hash == one.prev_block_hash:
            return Violation(
                f"input {one.dataset_id} has an empty interval of blocks",
                "no new block, or another one",
                one.new_block_hash,
            )
    return None


def input_offset_interval(state: ChainState, block: MetadataBlock) -> Violation | None:
    """An input that advances names another row than before."""
    for one in _inputs(state, block):
        if one.new_offset is not None and one.new_offset == one.prev_offset:
            return Violation(
                f"input {one.dataset_id} has an empty interval of offsets",
                "no new offset, or another one",
                one.new_offset,
            )
    return None


def input_block_continuity(state: ChainState, block: MetadataBlock) -> Violation | None:
    """An input goes on at the block where it was left."""
    for one, last in _paired_inputs(state, block):
        if last is not None and one.prev_block_hash != last.last_block_hash:
            return Violation(
                f"input {one.dataset_id} does not go on where it was left",
                last.last_block_hash or "no block",
                one.prev_block_hash or "no block",
            )
    return None


def input_offset_continuity(state: ChainState, block: MetadataBlock) -> Violation | None:
    """An input goes on at the row where it was left."""
    for one, last in _paired_inputs(state, block):
        if last is not None and one.prev_offset != last.last_offset:
            return Violation(
                f"input {one.dataset_id} does not go on where it was left",
                _or_none(last.last_offset),
                _or_none(one.prev_offset),
            )
    return None


def input_offsets_need_blocks(_: ChainState, block: MetadataBlock) -> Violation | None:
    """New rows of an input come with the block that has them."""
    if not isinstance(block.event, ExecuteTransform):
        return None
    for one in block.event.query_inputs:
        if one.new_offset is not None and one.new_block_hash is None:
            return Violation(
                f"input {one.dataset_id} has new rows without a block", "a block", "none"
            )
    return None


def input_first(state: ChainState, block: MetadataBlock) -> Violation | None:
    """An input that is read for the first time is read from its beginning."""
    for one, last in _paired_inputs(state, block):
        if last is None and (one.prev_block_hash is not None or one.prev_offset is not None):
            return Violation(
                f"input {one.dataset_id} was never read before",
                "no previous block or offset",
                one.prev_block_hash or one.prev_offset,
            )
    return None


def input_offsets_ordered(_: ChainState, block: MetadataBlock) -> Violation | None:
    """Rows of an input are read forwards."""
    if not isinstance(block.event, ExecuteTransform):
        return None
    for one in block.event.query_inputs:
        if None not in (one.prev_offset, one.new_offset) and (one.new_offset or 0) < (
            one.prev_offset or 0
        ):
            return Violation(
                f"input {one.dataset_id} is read backwards",
                f"{one.prev_offset} or more",
                one.new_offset,
            )
    return None


def _has_data_event(state: ChainState) -> bool:
    return state.last_add_data is not None or state.last_execute_transform is not None


def _last_like(state: ChainState, event: DataEvent) -> DataEvent | None:
    if isinstance(event, AddData):
        return state.last_add_data
    return state.last_execute_transform


def _checkpoint_hash(event: DataEvent) -> Multihash | None:
    return event.new_checkpoint.physical_hash if event.new_checkpoint else None


def _or_none(offset: int | None) -> object:
    return "no offset" if offset is None else offset


def _inputs(state: ChainState, block: MetadataBlock) -> tuple[ExecuteTransformInput, ...]:
    """Inputs of a transformation that is not the first one."""
    if isinstance(block.event, ExecuteTransform) and state.last_execute_transform is not None:
        return block.event.query_inputs
    return ()


def _paired_inputs(
    state: ChainState, block: MetadataBlock
) -> list[tuple[ExecuteTransformInput, ExecuteTransformInput | None]]:
    """Each input with what the last transformation read of the same dataset.

    By place where the list of datasets is the same (it may name one twice), else by dataset: a
    new `SetTransform` can have changed the inputs.
    """
    if not isinstance(block.event, ExecuteTransform):
        return []
    inputs, last = block.event.query_inputs, state.query_inputs or ()
    if [one.dataset_id for one in inputs] == [one.dataset_id for one in last]:
        return list(zip(inputs, last, strict=True))
    known = {one.dataset_id: one for one in last}
    return [(one, known.get(one.dataset_id)) for one in inputs]

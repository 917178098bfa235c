"""What one interval of an input's chain gives to a transformation.

The same walk serves planning (which blocks are new?) and verification (what did this recorded
step read?), so that both hand the engine the same request.
"""

from dataclasses import dataclass
from pathlib import Path

from odf.errors import IntegrityError
from odf.metadata.chain import EMPTY_STATE, ChainState
from odf.metadata.identity import DatasetID
from odf.metadata.model import (
    AddData,
    DatasetVocabulary,
    DataSlice,
    ExecuteTransform,
    ExecuteTransformInput,
    MetadataBlock,
    OffsetInterval,
    SetDataSchema,
    SetVocab,
    Timestamp,
)
from odf.metadata.multiformats import Multihash
from odf.repo.accept import schema_bytes
from odf.repo.dataset import Dataset
from odf.repo.errors import InvalidIntervalError
from odf.repo.files import slice_path
from odf.workspace.workspace import DatasetHandle


@dataclass(frozen=True, slots=True)
class InputWatermark:
    """A watermark of an input.

    Attributes:
        system_time: System time of the block that carries it.
        event_time: The watermark.
    """

    system_time: Timestamp
    event_time: Timestamp


@dataclass(frozen=True, slots=True)
class InputInterval:
    """What an input adds between two of its blocks.

    Attributes:
        handle: The input.
        alias: What queries call it.
        recorded: The interval as `ExecuteTransform` records it.
        slices: The slices with new rows, in chain order.
        watermarks: One for each data block with a watermark, in chain order; for an input with no
            new block the last one before, so that an idle input holds the output's watermark back.
        schema: The Arrow schema in force at the end of the interval; None if it has none yet.
        vocab: The vocabulary in force at the end of the interval.
        advanced: Whether data blocks are in the interval (not only attributes such as a licence).
        columns_changed: Whether the schema or the vocabulary was set in the interval, other than
            at the beginning of the chain.
        has_retractions: Whether its rows can be anything but appended.
    """

    handle: DatasetHandle
    alias: str
    recorded: ExecuteTransformInput
    slices: tuple[DataSlice, ...]
    watermarks: tuple[InputWatermark, ...]
    schema: bytes | None
    vocab: DatasetVocabulary
    advanced: bool
    columns_changed: bool = False
    has_retractions: bool = False

    @property
    def offset_interval(self) -> OffsetInterval | None:
        """The offsets that belong to the interval; None if it has no rows."""
        if self.recorded.new_offset is None:
            return None
        start = 0 if self.recorded.prev_offset is None else self.recorded.prev_offset + 1
        return OffsetInterval(start=start, end=self.recorded.new_offset)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The slice files, in chain order."""
        return tuple(slice_path(self.handle.dataset, data) for data in self.slices)


def read_interval(
    handle: DatasetHandle,
    alias: str,
    *,
    after: Multihash | None,
    upto: Multihash | None,
    prev_offset: int | None,
    states: "InputStates",
    stop_at_schema_change: bool = False,
) -> InputInterval:
    """Walk an input from `upto` back to `after` and gather what lies between.

    Args:
        handle: The input.
        alias: What queries call it.
        after: The last block that was processed before; None from the beginning.
        upto: The last block that belongs to the interval; None or equal to `after` if the input
            has nothing new.
        prev_offset: The last offset that was processed before.
        states: What inputs' chains say at a block.
        stop_at_schema_change: End the interval before a block that changes the schema or the
            vocabulary once it has rows, so that one step never mixes two schemas.

    Raises:
        InvalidIntervalError: If `after` is not an ancestor of `upto`: the input was reset or
            compacted.
    """
    dataset = handle.dataset
    found = list(dataset.blocks(head=upto, until=after)) if upto and upto != after else []
    found.reverse()
    if stop_at_schema_change:
        found = found[: _first_schema_change(found)]
    slices: list[DataSlice] = []
    watermarks: list[InputWatermark] = []
    for _, block in found:
        event = block.event
        if isinstance(event, AddData | ExecuteTransform):
            if event.new_data is not None:
                slices.append(event.new_data)
            if event.new_watermark is not None:
                watermarks.append(InputWatermark(block.system_time, event.new_watermark))
    last = found[-1][0] if found else after
    state = states.at(dataset, last)
    new_offset = slices[-1].offset_interval.end if slices else None
    return InputInterval(
        handle=handle,
        alias=alias,
        recorded=ExecuteTransformInput(
            dataset_id=handle.id,
            prev_block_hash=after,
            new_block_hash=last if found else None,
            prev_offset=prev_offset,
            new_offset=new_offset,
        ),
        slices=tuple(slices),
        watermarks=tuple(watermarks) or _last_watermark(state),
        schema=schema_bytes(state.schema),
        vocab=state.vocab,
        advanced=bool(slices or watermarks),
        columns_changed=after is not None
        and any(isinstance(block.event, SetDataSchema | SetVocab) for _, block in found),
        has_retractions=state.may_retract,
    )


def read_recorded(
    handle: DatasetHandle, alias: str, recorded: ExecuteTransformInput, states: "InputStates"
) -> InputInterval:
    """Gather what a recorded step read, from the input's chain as it is here.

    Raises:
        InvalidIntervalError: If the recorded blocks are not in the input's chain in that order.
        IntegrityError: If the recorded offsets are not those of the recorded blocks.
    """
    interval = read_interval(
        handle,
        alias,
        after=recorded.prev_block_hash,
        upto=recorded.new_block_hash,
        prev_offset=recorded.prev_offset,
        states=states,
    )
    if interval.recorded != recorded:
        wanted = interval.recorded
        raise IntegrityError(
            f"the step records other bounds for input {alias} than its blocks have: "
            f"last offset {recorded.new_offset} instead of {wanted.new_offset}",
            details={"input": str(handle.id)},
        )
    return interval


def _first_schema_change(blocks: list[tuple[Multihash, MetadataBlock]]) -> int:
    """Index of the first schema or vocabulary block that comes after rows; the length if none."""
    rows_seen = False
    for index, (_, block) in enumerate(blocks):
        event = block.event
        if isinstance(event, AddData | ExecuteTransform):
            rows_seen = rows_seen or event.new_data is not None
        elif isinstance(event, SetDataSchema | SetVocab) and rows_seen:
            return index
    return len(blocks)


def _last_watermark(state: ChainState) -> tuple[InputWatermark, ...]:
    """The watermark in force, with the time of the data block that restated it last."""
    if state.watermark is None or state.last_data_time is None:
        return ()
    return (InputWatermark(state.last_data_time, state.watermark),)


class InputStates:
    """What the chains of inputs say at a block, without walking a chain twice.

    The head's state comes from the dataset's own cache. Replaying asks for one block after the
    other, so the state before is where the next fold starts.
    """

    def __init__(self, *, use_cache: bool = True) -> None:
        self._use_cache = use_cache
        self._last: dict[DatasetID, ChainState] = {}

    def at(self, dataset: Dataset, block: Multihash | None) -> ChainState:
        """Return the state of a dataset at one of its blocks; the empty one for None.

        Raises:
            CorruptChainError: If the chain cannot be walked.
        """
        if block is None:
            return EMPTY_STATE
        if self._use_cache and block == dataset.head():
            return dataset.state()
        base = EMPTY_STATE
        seed = dataset.state().dataset_id
        if seed is not None:
            base = self._last.get(seed, EMPTY_STATE)
        try:
            state = dataset.state_at(block, base)
        except InvalidIntervalError:
            state = dataset.state_at(block)
        if seed is not None:
            self._last[seed] = state
        return state

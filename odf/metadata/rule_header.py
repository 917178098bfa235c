"""Rules about the links of a chain: they hold for events of any version."""

from odf.metadata.chain import ChainState
from odf.metadata.model import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataBlock,
    Seed,
    SetPollingSource,
    SetTransform,
    UnknownEvent,
)
from odf.metadata.rule_base import Violation

_ROOT_ONLY = (AddData, AddPushSource, SetPollingSource, DisablePollingSource, DisablePushSource)
_DERIVATIVE_ONLY = (ExecuteTransform, SetTransform)


def seed_first(state: ChainState, block: MetadataBlock) -> Violation | None:
    """The first block holds the seed."""
    if state.head is None and not isinstance(block.event, Seed):
        return Violation("a chain begins with its identity", "Seed", event_name(block))
    return None


def seed_once(state: ChainState, block: MetadataBlock) -> Violation | None:
    """No later block holds a seed."""
    if state.head is not None and isinstance(block.event, Seed):
        return Violation("a chain has one seed", "any other event", "Seed")
    return None


def previous_block(state: ChainState, block: MetadataBlock) -> Violation | None:
    """Each block names the one before it."""
    if block.prev_block_hash != state.head:
        return Violation(
            "the previous block is another one",
            state.head or "no previous block",
            block.prev_block_hash or "no previous block",
        )
    return None


def sequence_start(state: ChainState, block: MetadataBlock) -> Violation | None:
    """Numbers begin at zero."""
    if state.head is None and block.sequence_number != 0:
        return Violation("the first block has number 0", 0, block.sequence_number)
    return None


def sequence_step(state: ChainState, block: MetadataBlock) -> Violation | None:
    """Numbers grow by one."""
    if state.head is not None and block.sequence_number != state.next_sequence_number:
        return Violation(
            "block numbers grow by one", state.next_sequence_number, block.sequence_number
        )
    return None


def time_monotonic(state: ChainState, block: MetadataBlock) -> Violation | None:
    """System time does not go back."""
    if state.system_time is not None and block.system_time < state.system_time:
        return Violation(
            "system time goes back",
            f"{state.system_time} or later",
            block.system_time,
            hint="check the clock of this machine",
        )
    return None


def opaque_chain(state: ChainState, _: MetadataBlock) -> Violation | None:
    """Nothing is committed to a chain that is not understood."""
    if state.opaque is not None:
        return Violation(
            "this release cannot add to the chain",
            "events that it understands",
            state.opaque,
            hint="use a release that knows that event",
        )
    return None


def unknown_event(_: ChainState, block: MetadataBlock) -> Violation | None:
    """Only events of the model are committed."""
    if isinstance(block.event, UnknownEvent):
        return Violation("the event is not understood", "a known event", block.event.reason)
    return None


def event_fits_kind(state: ChainState, block: MetadataBlock) -> Violation | None:
    """Root datasets take data in, derivative datasets transform it."""
    event = block.event
    if state.kind is DatasetKind.DERIVATIVE and isinstance(event, _ROOT_ONLY):
        return Violation(
            "the event belongs to root datasets", "a derivative's event", event_name(block)
        )
    if state.kind is DatasetKind.ROOT and isinstance(event, _DERIVATIVE_ONLY):
        return Violation("the event belongs to derivative datasets", "a root's", event_name(block))
    return None


def event_name(block: MetadataBlock) -> str:
    """Name the event of a block."""
    event = block.event
    if isinstance(event, UnknownEvent):
        return f"unknown event {event.tag}"
    return type(event).__name__

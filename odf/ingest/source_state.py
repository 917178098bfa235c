"""How far a polling source was read, when a dataset may have had several of them.

A chain keeps one newest state for the name `default`, whatever stood behind that name. A state of
another place would make what is there look unchanged, so it must be known whose it is.
"""

from collections.abc import Iterable, Iterator

from odf.ingest.fetch.base import SOURCE_NAME
from odf.metadata.chain import ChainState
from odf.metadata.model import (
    AddData,
    DisablePollingSource,
    SetPollingSource,
    SourceState,
)
from odf.repo.dataset import Dataset


def known_state(
    dataset: Dataset, source: SetPollingSource, state: ChainState
) -> SourceState | None:
    """Return how far a source was read; None if the newest state is that of another source.

    The newest state is of the source that was in force when it first appeared, or when rows came
    with it last. Blocks of push sources and of none only carry it along.

    Args:
        dataset: The dataset.
        source: Its polling source in force.
        state: What its chain says.
    """
    known = state.source_state(SOURCE_NAME)
    if known is None:
        return None
    events = (block.event for _, block in dataset.blocks())
    owner: SetPollingSource | None = None
    for event, polled in _with_sources(events, source):
        if event.new_source_state is None or event.new_source_state.source_name != SOURCE_NAME:
            continue
        if event.new_source_state != known:
            break
        owner = polled
        if polled is not None and event.new_data is not None:
            break
    return known if owner is not None and owner.fetch == source.fetch else None


def carried_state(
    dataset: Dataset, source: SetPollingSource, state: ChainState
) -> SourceState | None:
    """Return what a block of a polling source says that gives no state itself.

    That is the state that it had, or else the newest one of the chain. But the state of the
    polling source before it is not repeated: with rows of this one it would be taken for its own.

    Args:
        dataset: The dataset.
        source: Its polling source in force.
        state: What its chain says.
    """
    newest = state.last_source_state
    if newest is None:
        return None
    known = known_state(dataset, source, state)
    if known is None and newest.source_name == SOURCE_NAME:
        return None
    return known or newest


def earlier_states(
    dataset: Dataset, source: SetPollingSource, state: ChainState
) -> Iterator[SourceState]:
    """Yield the states that a source had before its newest one, newest first.

    Args:
        dataset: The dataset.
        source: Its polling source in force.
        state: What its chain says.
    """
    last = state.source_state(SOURCE_NAME)
    events = (block.event for _, block in dataset.blocks())
    for event, polled in _with_sources(events, source):
        found = event.new_source_state
        if polled is None or polled.fetch != source.fetch or found is None:
            continue
        if found.source_name == SOURCE_NAME and found != last:
            last = found
            yield found


def rereads(dataset: Dataset, source: SetPollingSource, state: ChainState) -> bool:
    """Say whether a source that comes into force is read whole, after another one gave rows.

    Args:
        dataset: The dataset.
        source: The polling source that is to come.
        state: What its chain says now.
    """
    newest = _newest_read(dataset, state.polling_source)
    return newest is not None and newest.fetch != source.fetch


def was_read(dataset: Dataset, source: SetPollingSource, state: ChainState) -> bool:
    """Say whether rows of a source are in its dataset: the newest ones that were polled are its.

    Args:
        dataset: The dataset.
        source: Its polling source in force.
        state: What its chain says.
    """
    if state.last_offset is None:
        return False
    newest = _newest_read(dataset, source)
    return newest is not None and newest.fetch == source.fetch


def _newest_read(dataset: Dataset, in_force: SetPollingSource | None) -> SetPollingSource | None:
    """Return the polling source that rows came from last."""
    events = (block.event for _, block in dataset.blocks())
    polled = (
        owner
        for event, owner in _with_sources(events, in_force)
        if owner is not None and event.new_data is not None
    )
    return next(polled, None)


def _with_sources(
    events: Iterable[object], in_force: SetPollingSource | None
) -> Iterator[tuple[AddData, SetPollingSource | None]]:
    """Pair what added data with the polling source of its time, if there was one; newest first.

    Args:
        events: Newest first.
        in_force: The polling source at the end of the chain, if there is one.
    """
    current = in_force
    waiting: list[AddData] = []
    for event in events:
        match event:
            case AddData() if current is not None:
                yield event, current
            case AddData():
                waiting.append(event)
            case SetPollingSource() | DisablePollingSource():
                polled = event if isinstance(event, SetPollingSource) else None
                yield from ((one, polled) for one in waiting)
                waiting.clear()
                current = None
    yield from ((one, None) for one in waiting)

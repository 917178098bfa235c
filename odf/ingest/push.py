"""One file that is pushed into a root dataset (spec "Push Source", ingest.md §8)."""

from dataclasses import dataclass, replace
from pathlib import Path

from odf.errors import OdfError
from odf.ingest.fetch.base import Fetched, Fingerprint
from odf.ingest.rounds import NewData, Rounds
from odf.ingest.surroundings import IngestOptions, IngestSurroundings
from odf.metadata.input_formats import InputFormat, read_as
from odf.metadata.model import AddPushSource, Timestamp
from odf.protocol.calls import CallFile
from odf.repo.dataset import Dataset
from odf.repo.update import DatasetUpdate, next_time


@dataclass(frozen=True, slots=True)
class PushedData:
    """A file as it is pushed.

    Attributes:
        path: Where it is.
        name: What messages call it.
        input_format: What it is written in; None for what the source declares.
        event_time: Event time of rows that have none of their own; None for the system time.
    """

    path: Path
    name: str
    input_format: InputFormat | None = None
    event_time: Timestamp | None = None


def push_file(
    dataset: Dataset,
    name: str,
    source: AddPushSource,
    data: PushedData,
    options: IngestOptions,
    around: IngestSurroundings,
) -> DatasetUpdate:
    """Take in one file in one commit.

    The caller holds the dataset's lock.

    Args:
        dataset: The dataset.
        name: What to call it in messages.
        source: How its rows are read and merged.
        data: The file.
        options: What is allowed.
        around: Where this happens.

    Returns:
        What changed; `reason` says why nothing did, `error` what was wrong.
    """
    rounds = Rounds(dataset, name, options, around)
    try:
        changed = _take_in(rounds, source, data)
    except OdfError as error:
        return rounds.tally.update(error=error)
    update = rounds.tally.update(None if changed else "all of its rows are there already")
    if update.reason and update.set_aside:
        return replace(update, reason="nothing else in it is new")
    return update


def _take_in(rounds: Rounds, source: AddPushSource, pushed: PushedData) -> bool:
    state = rounds.dataset.state()
    system_time = next_time(state, rounds.around.clock)
    event_time = pushed.event_time or system_time
    found = _found(pushed, event_time)
    if pushed.input_format is not None:
        source = replace(source, read=read_as(source.read, pushed.input_format))
    data = NewData(
        (CallFile(pushed.path, pushed.name),),
        event_time,
        system_time,
        source.source_name,
        state.source_state(source.source_name) or state.last_source_state,
    )
    outcome = rounds.merge(source, state, data)
    found.check_unmodified()
    return rounds.commit(source, state, data, outcome)


def _found(pushed: PushedData, event_time: Timestamp) -> Fetched:
    """Remember what the file looks like, to notice when somebody writes to it meanwhile."""
    fingerprint = Fingerprint.of(pushed.path)
    return Fetched(
        path=pushed.path,
        name=pushed.name,
        owned=False,
        source_state=None,
        event_time=event_time,
        has_more=False,
        size=fingerprint.size,
        fingerprint=fingerprint,
    )

"""One pull of a root dataset: fetch, prepare, hand over to the engine, check, commit.

Each file that the source has new becomes one commit, so that a source with many files can be
interrupted and goes on where it stopped.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from odf.clock import Clock
from odf.errors import OdfError, TransportError
from odf.ingest.fetch import fetch
from odf.ingest.fetch.base import FetchContext, Fetched, Unchanged
from odf.ingest.prepare import PrepareContext, prepare, remove_leftovers
from odf.ingest.preprocess import ingest
from odf.metadata.chain import ChainState
from odf.metadata.model import (
    AddData,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategySnapshot,
    MetadataEvent,
    SetPollingSource,
    SourceState,
    Timestamp,
    TransformSql,
)
from odf.protocol.calls import CallFile, EngineEvent, EngineWarning, IngestCall, IngestOutcome
from odf.repo.accept import AcceptedSlice, accept_slice, later, schema_bytes, unseen_schema
from odf.repo.dataset import Dataset
from odf.repo.files import slice_paths
from odf.repo.objects import StagedObject
from odf.repo.update import DatasetUpdate, UpdateTally, next_time
from odf.runtimes.commands import CommandRunner

if TYPE_CHECKING:  # grpc is loaded when an engine is needed, not to find that nothing changed
    from odf.runtimes.client import EngineClient

DEFAULT_SOURCE = "default"
"""Name of a polling source in `SourceState.source_name`."""

DEFAULT_RETRACT_SHARE = 0.5
"""A snapshot that loses more than this share of the current rows is refused."""

MIN_ROWS_FOR_RETRACT_GUARD = 20
"""Current states below this size may lose any share of their rows: small tables do change."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What the caller allows and configures.

    Attributes:
        allow_retract: Accept snapshots that lose any number of rows.
        allow_empty: Accept source files without any content.
        max_retract_share: Share of the current rows that a snapshot may lose, 0 to 1.
        watermark_lag_ms: How far the watermark that is written stays behind the newest event.
    """

    allow_retract: bool = False
    allow_empty: bool = False
    max_retract_share: float = DEFAULT_RETRACT_SHARE
    watermark_lag_ms: int = 0


@dataclass(frozen=True, slots=True)
class IngestSurroundings:
    """Where a pull happens.

    Attributes:
        workspace_root: What relative paths of sources are relative to.
        cache_dir: Where downloads of this dataset go.
        staging_dir: Where slices wait for their commit; on the dataset's file system.
        clock: Where the time comes from.
        engine: Starts the engine that reads and merges, or gives the one that runs.
        query_engine: The same for the engine that a preprocess query asks for.
        report: Told what is being done.
        permitted: Checks that the user agreed to what a source reads from the environment and
            runs, and returns the variables that it may read; raises where the user did not.
        commands: Starts the commands of a source.
        proxies: The variables that name proxies.
    """

    workspace_root: Path
    cache_dir: Path
    staging_dir: Path
    clock: Clock
    engine: "Callable[[], EngineClient]"
    query_engine: "Callable[[TransformSql], EngineClient]"
    report: Callable[[str], None]
    permitted: Callable[[SetPollingSource], Mapping[str, str]]
    commands: CommandRunner
    proxies: Mapping[str, str] = field(default_factory=dict)


def pull_root(
    dataset: Dataset, name: str, options: IngestOptions, around: IngestSurroundings
) -> DatasetUpdate:
    """Take in whatever the source of a root dataset has new.

    The caller holds the dataset's lock.

    Args:
        dataset: The dataset.
        name: What to call it in messages.
        options: What is allowed.
        around: Where this happens.

    Returns:
        What changed; `reason` says why nothing did, `error` what ended it early. Files that were
        committed before an error stay committed.
    """
    run = _Run(dataset, name, options, around)
    try:
        return run.tally.update(run.take_in_all())
    except OdfError as error:
        return run.tally.update(error=error)


class _Run:
    """The state of one pull: what was committed so far, and what there is to say about it."""

    def __init__(
        self, dataset: Dataset, name: str, options: IngestOptions, around: IngestSurroundings
    ) -> None:
        self.dataset = dataset
        self.name = name
        self.options = options
        self.around = around
        self.tally = UpdateTally(dataset)

    def take_in_all(self) -> str | None:
        """Take in one file after the other until there are no more; return why."""
        while True:
            state = self.dataset.state()
            source = state.polling_source
            if source is None:
                return "it has no polling source"
            found = self.fetch(source, state)
            self.tally.warn(*found.warnings)
            if isinstance(found, Unchanged):
                return found.reason
            changed = self.take_in(source, state, found)
            if not found.has_more:
                return None if changed else "the source has nothing new"

    def fetch(self, source: SetPollingSource, state: ChainState) -> Fetched | Unchanged:
        """Ask the source what it has new."""
        environment = self.around.permitted(source)
        self.around.report("fetching")
        return fetch(
            source.fetch,
            _known_state(self.dataset, source, state),
            FetchContext(
                workspace_root=self.around.workspace_root,
                cache_dir=self.around.cache_dir,
                clock=self.around.clock,
                system_time=next_time(state, self.around.clock),
                environment=environment,
                proxies=self.around.proxies,
                report=self.around.report,
                is_first=state.last_offset is None,
            ),
        )

    def take_in(self, source: SetPollingSource, state: ChainState, found: Fetched) -> bool:
        """Have one fetched file merged and commit the result; False if nothing came of it."""
        if isinstance(source.merge, MergeStrategySnapshot) and not found.complete:
            raise TransportError(
                f"{found.name}: the server did not say how long the data is, so a cut connection "
                "could not be told from its end, and the rest would count as removed",
                hint="a snapshot needs a server that sends Content-Length or chunks",
            )
        system_time = next_time(state, self.around.clock)
        try:
            with self._prepared(source, found) as path:
                outcome = self._ingest(
                    source, state, CallFile(path, found.name), found, system_time
                )
            found.check_unmodified()
            return self._commit(state, found, outcome, system_time)
        finally:
            if found.owned:
                found.path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _prepared(self, source: SetPollingSource, found: Fetched) -> Iterator[Path]:
        """Give the file that is to be read, for as long as it is needed."""
        if not source.prepare:
            yield found.path
            return
        self.around.report(f"preparing {found.name}")
        remove_leftovers(self.around.cache_dir)
        ctx = PrepareContext(self.around.cache_dir, self.around.commands, self.around.report)
        path = prepare(source.prepare, found.path, found.name, ctx)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _ingest(
        self,
        source: SetPollingSource,
        state: ChainState,
        file: CallFile,
        found: Fetched,
        system_time: Timestamp,
    ) -> IngestOutcome:
        self.around.report(f"reading {found.name}")
        self.around.staging_dir.mkdir(parents=True, exist_ok=True)
        needs_history = not isinstance(
            source.merge, MergeStrategyAppend | MergeStrategyChangelogStream
        )
        outcome = ingest(
            IngestCall(
                dataset_alias=self.name,
                files=(file,),
                read=source.read,
                preprocess=source.preprocess,
                merge=source.merge,
                vocab=state.vocab,
                system_time=system_time,
                source_event_time=found.event_time or system_time,
                next_offset=state.next_offset,
                dataset_schema=schema_bytes(state.schema),
                history=slice_paths(self.dataset) if needs_history else (),
                allow_retract=self.options.allow_retract,
                allow_empty=self.options.allow_empty,
                max_retract_share=self.options.max_retract_share,
                min_rows_for_retract_guard=MIN_ROWS_FOR_RETRACT_GUARD,
                output=self.around.staging_dir / f"slice-{secrets.token_hex(8)}",
            ),
            self.around.engine,
            self.around.query_engine,
            self._on_event,
        )
        if outcome.keys_revised_ignored:
            self.tally.warn(
                f"{outcome.keys_revised_ignored} rows of {found.name} have other values than the "
                "rows first seen under their keys; a ledger keeps the first"
            )
        return outcome

    def _on_event(self, event: EngineEvent) -> None:
        if isinstance(event, EngineWarning):
            self.tally.warn(event.message)
        else:
            self.around.report(event.stage)

    def _commit(
        self, state: ChainState, found: Fetched, outcome: IngestOutcome, system_time: Timestamp
    ) -> bool:
        accepted = None
        if outcome.slice_path is not None:
            accepted = accept_slice(outcome.slice_path, state, system_time)
        event = self._add_data(state, found, accepted)
        if not _changes_anything(state, event):
            return False
        events: list[MetadataEvent] = [event]
        before = _schema_before(state, outcome, accepted)
        if before is not None:
            events.insert(0, before)
        objects: tuple[StagedObject, ...] = (accepted.staged,) if accepted else ()
        result = self.dataset.commit(
            events, expected_head=state.head, system_time=system_time, objects=objects
        )
        self.tally.committed(result, accepted)
        return True

    def _add_data(
        self, state: ChainState, found: Fetched, accepted: AcceptedSlice | None
    ) -> AddData:
        watermark = state.watermark
        if accepted is not None and accepted.info.max_event_time is not None:
            newest = accepted.info.max_event_time.epoch_ms - self.options.watermark_lag_ms
            watermark = later(watermark, Timestamp.from_epoch_ms(newest))
        checkpoint = state.checkpoint
        return AddData(
            prev_checkpoint=checkpoint.physical_hash if checkpoint else None,
            prev_offset=state.last_offset,
            new_data=accepted.data if accepted else None,
            new_checkpoint=checkpoint,
            new_watermark=watermark,
            new_source_state=found.source_state or state.source_state(DEFAULT_SOURCE),
        )


def _known_state(
    dataset: Dataset, source: SetPollingSource, state: ChainState
) -> SourceState | None:
    """Return how far the source was read; nothing if it has become another one since.

    An ETag or a time of another place would make what is there look unchanged.
    """
    known = state.source_state(DEFAULT_SOURCE)
    events = (block.event for _, block in dataset.blocks())
    since = list(takewhile(lambda event: not isinstance(event, AddData), events))
    if known is None or not any(isinstance(event, SetPollingSource) for event in since):
        return known
    before = next((event for event in events if isinstance(event, SetPollingSource)), None)
    return known if before is not None and before.fetch == source.fetch else None


def _changes_anything(state: ChainState, event: AddData) -> bool:
    known = state.last_add_data.new_source_state if state.last_add_data else None
    return (
        event.new_data is not None
        or event.new_watermark != state.watermark
        or event.new_source_state != known
    )


def _schema_before(
    state: ChainState, outcome: IngestOutcome, accepted: AcceptedSlice | None
) -> MetadataEvent | None:
    """The schema is recorded with the first commit, also when that has no rows yet."""
    if accepted is not None:
        return accepted.schema_event
    if state.schema is None and outcome.schema:
        return unseen_schema(outcome.schema, state)
    return None

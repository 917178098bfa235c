"""One pull of a root dataset: fetch, prepare, hand over to the engine, check, commit.

Each file that the source has new becomes one commit, so that a source with many files can be
interrupted and goes on where it stopped.
"""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from odf import limits
from odf.errors import BadInputError, OdfError, TransportError
from odf.ingest.fetch import fetch
from odf.ingest.fetch.base import SOURCE_NAME, FetchContext, Fetched, Unchanged
from odf.ingest.fetch.part_file import remove_downloads
from odf.ingest.prepare import PrepareContext, prepare, remove_leftovers
from odf.ingest.rounds import NOTHING, NewData, Rounds
from odf.ingest.source_state import carried_state, earlier_states, known_state, was_read
from odf.ingest.surroundings import IngestOptions, IngestSurroundings
from odf.metadata.chain import ChainState
from odf.metadata.model import MergeStrategySnapshot, SetPollingSource, SourceState
from odf.protocol.calls import CallFile
from odf.repo.dataset import Dataset
from odf.repo.update import DatasetUpdate, next_time


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


class _Run(Rounds):
    """One pull: rounds until the source has nothing more."""

    rows_read = 0

    def take_in_all(self) -> str | None:
        """Take in one file after the other until there are no more; return why."""
        remove_downloads(self.around.cache_dir)
        taken, changed = 0, False
        while True:
            state = self.dataset.state()
            source = state.polling_source
            if source is None:
                return _without_source(self.name, state)
            known = known_state(self.dataset, source, state)
            found = self.fetch(source, state, known, taken)
            if isinstance(found, Unchanged):
                return None if changed else found.reason
            parts = self.whole(source, state, found)
            changed = self.take_in(source, state, parts) or changed
            taken += len(parts)
            if not parts[-1].has_more:
                return None if changed else self._why_nothing_changed()

    def _why_nothing_changed(self) -> str:
        return "the source has nothing new" if self.rows_read else "what the source has is no rows"

    def fetch(
        self,
        source: SetPollingSource,
        state: ChainState,
        known: SourceState | None,
        taken: int,
    ) -> Fetched | Unchanged:
        """Ask the source what it has beyond a state, after so many files in this pull."""
        environment = self.around.permitted(source)
        self.around.report("fetching")
        found = fetch(
            source.fetch,
            known,
            FetchContext(
                workspace_root=self.around.workspace_root,
                cache_dir=self.around.cache_dir,
                clock=self.around.clock,
                system_time=next_time(state, self.around.clock),
                environment=environment,
                proxies=self.around.proxies,
                report=self.around.report,
                changed=self.around.expect_work,
                is_first=known is None and not was_read(self.dataset, source, state),
                dataset=str(state.dataset_id),
                taken=taken,
                take_late=self.options.take_late,
                reread_reorganised=self.options.reread_reorganised,
                earlier=partial(earlier_states, self.dataset, source, state),
                is_snapshot=isinstance(source.merge, MergeStrategySnapshot),
                ethereum_nodes=self.around.ethereum_nodes,
                containers=self.around.containers,
            ),
        )
        self.tally.warn(*found.warnings)
        return found

    def whole(self, source: SetPollingSource, state: ChainState, first: Fetched) -> list[Fetched]:
        """Fetch the other batches of a snapshot: a part of one looks like rows that are gone."""
        parts = [first]
        if not isinstance(source.merge, MergeStrategySnapshot):
            return parts
        try:
            while parts[-1].is_batch and parts[-1].has_more:
                _check_number(parts)
                found = self.fetch(source, state, parts[-1].source_state, len(parts))
                if isinstance(found, Unchanged):
                    break
                parts.append(found)
        except BaseException:
            _discard(parts)
            raise
        return parts

    def take_in(self, source: SetPollingSource, state: ChainState, parts: list[Fetched]) -> bool:
        """Have what was fetched merged and commit the result; False if nothing came of it."""
        system_time = next_time(state, self.around.clock)
        first, last = parts[0], parts[-1]
        try:
            self._check_complete(source, parts)
            with contextlib.ExitStack() as prepared:
                files = [
                    CallFile(prepared.enter_context(self._prepared(source, part)), part.name)
                    for part in parts
                    if not part.is_empty
                ]
                data = NewData(
                    tuple(files),
                    first.event_time or system_time,
                    system_time,
                    SOURCE_NAME,
                    last.source_state or carried_state(self.dataset, source, state),
                )
                outcome = self.merge(source, state, data) if files else NOTHING
            self.rows_read += outcome.rows_read
            for part in parts:
                part.check_unmodified()
            changed = self.commit(source, state, data, outcome)
            for part in parts:
                self.tally.warn(*part.settle())
        finally:
            _discard(parts)
        return changed

    def _check_complete(self, source: SetPollingSource, parts: Sequence[Fetched]) -> None:
        cut = next((part for part in parts if not part.complete), None)
        if cut is not None and isinstance(source.merge, MergeStrategySnapshot):
            raise TransportError(
                f"{cut.name}: the server did not say how long the data is, so a cut connection "
                "could not be told from its end, and the rest would count as removed",
                hint="a snapshot needs a server that sends Content-Length or chunks",
            )

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


def _check_number(parts: Sequence[Fetched]) -> None:
    if len(parts) >= limits.MAX_SNAPSHOT_BATCHES:
        raise BadInputError(
            f"{parts[0].name}: the snapshot does not end after {len(parts)} batches",
            reason="too_large",
            hint="a source that gives batches has to say once that there are no more",
        )


def _discard(parts: Sequence[Fetched]) -> None:
    for part in parts:
        part.discard()


def _without_source(name: str, state: ChainState) -> str:
    """Say why nothing can be fetched, and what can be done instead."""
    if not state.push_sources:
        return "it has no source"
    return f"it has no polling source: odf ingest {name} FILE pushes data into it"

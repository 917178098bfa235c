"""One file of new data: through the engine, checked, and into a commit.

What is common to data that is fetched and data that is pushed.
"""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from odf.errors import BadInputError, in_context
from odf.ingest.merge_state import MergeHistory, keyed
from odf.ingest.preprocess import ingest
from odf.ingest.surroundings import (
    MIN_ROWS_FOR_RETRACT_GUARD,
    IngestOptions,
    IngestSurroundings,
)
from odf.metadata.chain import ChainState
from odf.metadata.model import (
    AddData,
    AddPushSource,
    FetchStepUrl,
    MergeStrategyLedger,
    MetadataEvent,
    SetPollingSource,
    SourceState,
    Timestamp,
)
from odf.protocol.calls import (
    CallFile,
    EngineEvent,
    EngineWarning,
    IngestCall,
    IngestOutcome,
    OperationCounts,
)
from odf.repo.accept import AcceptedSlice, accept_slice, later, schema_bytes, unseen_schema
from odf.repo.dataset import Dataset
from odf.repo.objects import StagedObject
from odf.repo.update import SetAside, UpdateTally

_FEW_ROWS: Final = 20
"""Rows below which a ledger is too small for its size to say anything about its source."""


@dataclass(frozen=True, slots=True)
class NewData:
    """Files that are ready to be read, as one.

    Attributes:
        files: Where they are and what they are called; none if only the source state is new.
        event_time: Event time of rows that have none of their own.
        system_time: Time of the block and of its rows.
        source_name: Whose state `source_state` is.
        source_state: How far the source is read with it, or was before if it does not say.
    """

    files: tuple[CallFile, ...]
    event_time: Timestamp
    system_time: Timestamp
    source_name: str
    source_state: SourceState | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.files[0].name if self.files else "nothing"


NOTHING: Final = IngestOutcome(None, OperationCounts(), 0, 0, 0, b"")
"""What an engine would make of no files at all."""


class Rounds:
    """Takes one file after the other into a dataset, and remembers what came of it.

    The caller holds the dataset's lock.

    Args:
        dataset: The dataset.
        name: What to call it in messages.
        options: What is allowed.
        around: Where this happens.
    """

    def __init__(
        self, dataset: Dataset, name: str, options: IngestOptions, around: IngestSurroundings
    ) -> None:
        self.dataset = dataset
        self.name = name
        self.options = options
        self.around = around
        self.tally = UpdateTally(dataset)

    def merge(
        self, source: SetPollingSource | AddPushSource, state: ChainState, data: NewData
    ) -> IngestOutcome:
        """Have the engine read a file, preprocess it and merge it with what is there.

        Args:
            source: How.
            state: What the chain says.
            data: The file.

        Raises:
            OdfError: Of every kind that engines raise.
        """
        self.around.report(f"reading {data.name}")
        self.around.staging_dir.mkdir(parents=True, exist_ok=True)
        history = self._history(source, state)
        with _saying_which(data):
            outcome = ingest(
                IngestCall(
                    dataset_alias=self.name,
                    files=data.files,
                    read=source.read,
                    preprocess=source.preprocess,
                    merge=source.merge,
                    vocab=state.vocab,
                    system_time=data.system_time,
                    source_event_time=data.event_time,
                    next_offset=state.next_offset,
                    dataset_schema=schema_bytes(state.schema),
                    history=history.paths if history else (),
                    allow_retract=self.options.allow_retract,
                    allow_empty=self.options.allow_empty,
                    max_retract_share=self.options.max_retract_share,
                    min_rows_for_retract_guard=MIN_ROWS_FOR_RETRACT_GUARD,
                    output=self.around.staging_dir / f"slice-{secrets.token_hex(8)}",
                    folding=history.folding(self.around.staging_dir) if history else None,
                    quarantine=(
                        self.around.staging_dir / f"bad-rows-{secrets.token_hex(8)}"
                        if self.options.quarantine_dir
                        else None
                    ),
                ),
                self.around.engine,
                self.around.query_engine,
                self._on_event,
            )
        if history is not None:
            history.adopt(outcome.folded)
        return outcome

    def _tell_about_keys(
        self,
        source: SetPollingSource | AddPushSource,
        state: ChainState,
        data: NewData,
        outcome: IngestOutcome,
    ) -> None:
        """Warn of what a ledger leaves out, and of keys that look as if they were written anew."""
        if outcome.keys_revised_ignored:
            self.tally.warn(
                f"{outcome.keys_revised_ignored} rows of {data.name} have other values than "
                "the rows first seen under their keys; a ledger keeps the first"
            )
        if _knows_no_key(source, state, outcome):
            self.tally.warn(
                f"none of the {outcome.rows_read} rows of {data.name} has a key that is known "
                f"already, though the ledger has {state.num_records} rows: if the file repeats "
                "older rows, its keys are written in another way than before (dates, leading "
                "zeros), and they are in the dataset twice now; if it does not, some may be missing"
            )

    def commit(
        self,
        source: SetPollingSource | AddPushSource,
        state: ChainState,
        data: NewData,
        outcome: IngestOutcome,
    ) -> bool:
        """Commit what the engine made of a file.

        Args:
            source: How it was read and merged.
            state: What the chain says, as it was when the engine was asked.
            data: The file.
            outcome: What the engine answered.

        Returns:
            False if nothing came of it.

        Raises:
            EngineError: The slice breaks the engine contract.
            BadInputError: Its columns do not fit the dataset's.
            ConflictError: The head moved.
        """
        accepted = schema = None
        with _saying_which(data):
            if outcome.slice_path is not None:
                accepted = accept_slice(
                    outcome.slice_path, state, data.system_time, self.around.reader
                )
                schema = accepted.schema_event
            elif outcome.schema:
                # Recorded with the first commit, also when that has no rows yet.
                schema = unseen_schema(outcome.schema, state)
        self._keep_bad_rows(data, outcome)
        self._tell_about_keys(source, state, data, outcome)
        event = self._add_data(state, data, accepted)
        if not _changes_anything(state, event):
            return False
        events: list[MetadataEvent] = [event]
        if schema is not None:
            events.insert(0, schema)
        objects: tuple[StagedObject, ...] = (accepted.staged,) if accepted else ()
        result = self.dataset.commit(
            events, expected_head=state.head, system_time=data.system_time, objects=objects
        )
        self.tally.committed(result, accepted)
        return True

    def _keep_bad_rows(self, data: NewData, outcome: IngestOutcome) -> None:
        """Move rows that were set aside to where a person finds them."""
        folder = self.options.quarantine_dir
        if outcome.quarantine is None or folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        taken = data.system_time.to_datetime().strftime("%Y%m%dT%H%M%SZ")
        path = folder / f"{taken}-{secrets.token_hex(4)}.ndjson"
        # Both are on the file system of the workspace.
        outcome.quarantine.rename(path)
        self.tally.set_aside(SetAside(data.name, outcome.bad_rows, path))

    def _history(
        self, source: SetPollingSource | AddPushSource, state: ChainState
    ) -> MergeHistory | None:
        merge = keyed(source.merge)
        if merge is None or state.head is None:
            return None
        return MergeHistory(self.dataset, state.head, merge, state.vocab, self.around.merge_dir)

    def _on_event(self, event: EngineEvent) -> None:
        if isinstance(event, EngineWarning):
            self.tally.warn(event.message)
        else:
            self.around.report(event.stage)

    def _add_data(
        self, state: ChainState, data: NewData, accepted: AcceptedSlice | None
    ) -> AddData:
        watermark = state.watermark
        if accepted is not None and accepted.info.max_event_time is not None:
            newest = accepted.info.max_event_time.epoch_ms - self.options.watermark_lag_ms
            watermark = later(watermark, Timestamp.from_epoch_ms(newest))
        return carried(
            state,
            data=accepted,
            watermark=watermark,
            source_state=data.source_state,
        )


@contextlib.contextmanager
def _saying_which(data: NewData) -> Iterator[None]:
    """Have errors about new data name a file; those about rows of one do already."""
    try:
        yield
    except BadInputError as error:
        if not data.files or any(file.name in error.message for file in data.files):
            raise
        more = f" and {len(data.files) - 1} more" if len(data.files) > 1 else ""
        raise in_context(error, f"{data.name}{more}") from error


def carried(
    state: ChainState,
    *,
    watermark: Timestamp | None,
    source_state: SourceState | None,
    data: AcceptedSlice | None = None,
) -> AddData:
    """Return an `AddData` that restates what the chain says and that others rely on (design §7).

    Args:
        state: What the chain says.
        watermark: The watermark from here on.
        source_state: The state of the source whose block it is.
        data: New rows.
    """
    checkpoint = state.checkpoint
    return AddData(
        prev_checkpoint=checkpoint.physical_hash if checkpoint else None,
        prev_offset=state.last_offset,
        new_data=data.data if data else None,
        new_checkpoint=checkpoint,
        new_watermark=watermark,
        new_source_state=source_state,
    )


def _knows_no_key(
    source: SetPollingSource | AddPushSource, state: ChainState, outcome: IngestOutcome
) -> bool:
    """Say whether an export that should repeat known rows of a ledger repeats none.

    What is fetched from one URL again and again does, and so does a file with as many rows as all
    before it, if these are not just a few. Files that are numbered, pushed or handed over in
    batches need not.
    """
    if not isinstance(source.merge, MergeStrategyLedger) or not state.num_records:
        return False
    if outcome.keys_known or not outcome.counts.append:
        return False
    repeats = isinstance(source, SetPollingSource) and isinstance(source.fetch, FetchStepUrl)
    return repeats or outcome.rows_read >= state.num_records >= _FEW_ROWS


def _changes_anything(state: ChainState, event: AddData) -> bool:
    new = event.new_source_state
    return (
        event.new_data is not None
        or event.new_watermark != state.watermark
        or (new is not None and new != state.source_state(new.source_name))
    )

"""Running a step of a derivative dataset and committing what comes of it."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from odf.clock import Clock
from odf.data.readers import OWN_READER, SliceReader
from odf.errors import EngineError, InvalidQueryError, OdfError
from odf.metadata.chain import ChainState
from odf.metadata.model import (
    Checkpoint,
    DataSlice,
    ExecuteTransform,
    MetadataEvent,
    Timestamp,
    TransformSql,
)
from odf.protocol.calls import TransformCall, TransformCallInput, TransformOutcome
from odf.repo.accept import AcceptedSlice, accept_slice, later, write_schema_file
from odf.repo.update import DatasetUpdate, UpdateTally, next_time
from odf.transform.beside import Running
from odf.transform.inputs import InputInterval
from odf.transform.plan import FindDataset, NothingToDo, Step, plan_step
from odf.transform.state import (
    State,
    changed_since_last_step,
    fitting_state,
    left_behind,
    recorded_state,
)
from odf.workspace.workspace import DatasetHandle

if TYPE_CHECKING:  # grpc is loaded when an engine is needed, not to find that nothing changed
    from odf.runtimes.client import EngineClient


@dataclass(frozen=True, slots=True)
class TransformSurroundings:
    """Where an update happens.

    Attributes:
        find_dataset: Finds inputs by identity.
        staging_dir: Where slices wait for their commit; on the dataset's file system.
        clock: Where the time comes from.
        engine: Starts the engine that a transform asks for, or gives the one that runs.
        report: Told what is being done.
        reader: Reads the slices that engines propose.
    """

    find_dataset: FindDataset
    staging_dir: Path
    clock: Clock
    engine: "Callable[[TransformSql], EngineClient]"
    report: Callable[[str], None]
    reader: SliceReader = OWN_READER


def pull_derivative(handle: DatasetHandle, around: TransformSurroundings) -> DatasetUpdate:
    """Process whatever the inputs of a derivative dataset have new.

    The caller holds the dataset's lock. Each step is one commit.

    Args:
        handle: The dataset.
        around: Where this happens.

    Returns:
        What changed; `reason` says why nothing did, `error` what ended it early. Steps that were
        committed before an error stay committed.
    """
    tally = UpdateTally(handle.dataset)
    try:
        return tally.update(_run_steps(handle, around, tally))
    except OdfError as error:
        return tally.update(error=error)


def _run_steps(handle: DatasetHandle, around: TransformSurroundings, tally: UpdateTally) -> str:
    """Plan, run and commit until nothing is left to do; return why."""
    dataset = handle.dataset
    while True:
        state = dataset.state()
        now = next_time(state, around.clock)
        changed = changed_since_last_step(dataset)
        step = plan_step(state, around.find_dataset, now, changed=changed)
        if isinstance(step, NothingToDo):
            return step.reason
        before = recorded_state(step, dataset)
        try:
            started, outcome = run_step(step, handle, around, before, warn=tally.warn)
        except InvalidQueryError:
            # It may need columns that an input got later than its first rows.
            wider = plan_step(state, around.find_dataset, now, changed=changed, across_schemas=True)
            if isinstance(wider, NothingToDo) or wider == step:
                raise
            step = wider
            started, outcome = run_step(step, handle, around, before, warn=tally.warn)
        with left_behind(*outcome_files(outcome)):
            accepted = None
            if outcome.slice_path is not None:
                accepted = accept_slice(outcome.slice_path, state, step.system_time, around.reader)
            left = State.of_file(outcome.checkpoint) if outcome.checkpoint else None
            events = _events(state, step, accepted, left or started, outcome.watermark)
            if not events:
                return "its inputs have nothing that changes it"
            objects = [made.staged for made in (accepted, left) if made is not None]
            result = dataset.commit(
                events, expected_head=state.head, system_time=step.system_time, objects=objects
            )
        tally.committed(result, accepted)


def run_step(
    step: Step,
    handle: DatasetHandle,
    around: TransformSurroundings,
    before: State | None,
    *,
    warn: Callable[[str], None] | None = None,
    running: Running | None = None,
) -> tuple[State | None, TransformOutcome]:
    """Have the engine run a step; nothing is committed.

    Args:
        step: What to run.
        handle: The dataset.
        around: Where this happens.
        before: The state that the step before left, if it left one.
        warn: Told what is given up because the query changed; `around.report` if not given.
        running: Told how to end the engine's call from another thread, while it runs.

    Returns:
        The state that the step started from, if it still fits the query, and what came of it.

    Raises:
        EngineUnavailableError: If the engine that the transform asks for is not here, or not in
            the release that the transform is pinned to.
        InvalidQueryError: If the engine does not accept the query.
        EngineError: If the engine fails, or says otherwise than what it wrote.
    """
    client = around.engine(step.transform)
    started = fitting_state(step, before, client, warn or around.report)
    around.report("running the query")
    around.staging_dir.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=around.staging_dir, prefix="step-") as scratch:
        outcome = client.execute_transform(
            transform_call(step, handle, around, started, Path(scratch)), running
        )
    with left_behind(*outcome_files(outcome)):
        if (outcome.slice_path is None) != (outcome.offset_interval is None):
            raise EngineError(
                "the engine reported an offset interval without a slice, or a slice without one"
            )
        _check_watermark(step, outcome.watermark)
    return started, outcome


def transform_call(
    step: Step,
    handle: DatasetHandle,
    around: TransformSurroundings,
    started: State | None,
    scratch: Path,
) -> TransformCall:
    """Compose what an engine is told about a step.

    Args:
        step: What to run.
        handle: The dataset.
        around: Where this happens.
        started: The state to start from.
        scratch: An empty folder, for as long as the call takes.
    """
    return TransformCall(
        dataset_id=handle.id,
        dataset_alias=handle.alias,
        system_time=step.system_time,
        vocab=step.vocab,
        transform=step.transform,
        inputs=tuple(
            _call_input(source, scratch / f"schema-{index}")
            for index, source in enumerate(step.inputs)
        ),
        next_offset=step.next_offset,
        output=around.staging_dir / f"slice-{secrets.token_hex(8)}",
        prev_checkpoint=started.path if started else None,
        new_checkpoint=around.staging_dir / f"checkpoint-{secrets.token_hex(8)}",
    )


def outcome_files(outcome: TransformOutcome) -> list[Path]:
    """Return the files that the engine wrote in a step."""
    return [path for path in (outcome.slice_path, outcome.checkpoint) if path is not None]


def _check_watermark(step: Step, watermark: Timestamp | None) -> None:
    """Refuse a watermark that the inputs do not bear out: it could never be taken back.

    Raises:
        EngineError: If it is later than that of some input.
    """
    newest = [max((m.event_time for m in one.watermarks), default=None) for one in step.inputs]
    bound = None if None in newest else min(mark for mark in newest if mark is not None)
    if watermark is not None and (bound is None or watermark > bound):
        raise EngineError(
            f"the engine reported the watermark {watermark}, wanted {bound or 'none'} at most: "
            "the earliest of its inputs'"
        )


def _call_input(source: InputInterval, schema_file: Path) -> TransformCallInput:
    from odf.protocol.messages import Watermark  # noqa: PLC0415  # only for steps that run

    if source.schema is None:
        raise EngineError(f"input {source.alias} has no schema")
    write_schema_file(schema_file, source.schema)
    return TransformCallInput(
        dataset_id=source.handle.id,
        dataset_alias=source.handle.alias,
        query_alias=source.alias,
        vocab=source.vocab,
        offset_interval=source.offset_interval,
        data=source.paths,
        schema_file=schema_file,
        explicit_watermarks=tuple(
            Watermark(system_time=mark.system_time, event_time=mark.event_time)
            for mark in source.watermarks
        ),
        has_retractions=source.has_retractions,
    )


def _events(
    state: ChainState,
    step: Step,
    accepted: AcceptedSlice | None,
    after: State | None,
    watermark: Timestamp | None,
) -> list[MetadataEvent]:
    """Compose what is committed; empty if the chain would refuse it as saying nothing.

    A step whose rows all fall away still records how far the inputs were read, unless there is
    neither a watermark nor a state to record with it (chain-rules.md §2, rule 9); its blocks are
    then read again with the next ones.
    """
    recorded = recorded_event(
        step,
        accepted.data if accepted else None,
        after.checkpoint if after else None,
        later(state.watermark, watermark),
    )
    if (recorded.new_data or recorded.new_checkpoint or recorded.new_watermark) is None:
        return []
    schema = [accepted.schema_event] if accepted and accepted.schema_event else []
    return [*schema, recorded]


def recorded_event(
    step: Step,
    new_data: DataSlice | None,
    checkpoint: Checkpoint | None,
    new_watermark: Timestamp | None,
) -> ExecuteTransform:
    """Compose the event that records a step.

    Args:
        step: The step.
        new_data: Its rows.
        checkpoint: The state after it: what the engine wrote, or else what it started from.
        new_watermark: The watermark after it.
    """
    before = step.prev_checkpoint
    return ExecuteTransform(
        query_inputs=tuple(source.recorded for source in step.inputs),
        prev_checkpoint=before.physical_hash if before else None,
        prev_offset=step.prev_offset,
        new_data=new_data,
        new_checkpoint=checkpoint,
        new_watermark=new_watermark,
    )

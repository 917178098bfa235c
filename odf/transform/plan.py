"""What the next update of a derivative dataset has to do (transform-and-verify.md §1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from odf.errors import ConflictError, IntegrityError
from odf.metadata.chain import ChainState
from odf.metadata.identity import DatasetID
from odf.metadata.model import (
    Checkpoint,
    DatasetVocabulary,
    ExecuteTransformInput,
    SetTransform,
    Timestamp,
    TransformInput,
    TransformSql,
)
from odf.repo.errors import InvalidIntervalError
from odf.transform.inputs import InputInterval, InputStates, read_interval, read_recorded
from odf.workspace.workspace import DatasetHandle

FindDataset = Callable[[DatasetID], DatasetHandle]
"""Finds an input by its identity; raises `NotFoundError` if it is not in the workspace."""


class DivergedInputError(ConflictError):
    """An input no longer has the blocks that were processed: it was reset or compacted."""

    kind = "diverged_input"


@dataclass(frozen=True, slots=True)
class Step:
    """One `ExecuteTransform` to be, or one to be repeated.

    Attributes:
        transform: The query in force.
        inputs: What every input gives, in the order of `SetTransform`.
        system_time: System time of the rows and of the block.
        vocab: Names of the system columns of the result.
        prev_offset: Last offset of the output before; None if it has no rows.
        prev_checkpoint: Checkpoint of the step before, if it left one.
        state_in_doubt: Whether something came after the step before that the state that it left
            may not fit: another query, vocabulary or schema.
        query_changed: Whether that is, or may be, another query or vocabulary.
    """

    transform: TransformSql
    inputs: tuple[InputInterval, ...]
    system_time: Timestamp
    vocab: DatasetVocabulary
    prev_offset: int | None
    prev_checkpoint: Checkpoint | None
    state_in_doubt: bool = False
    query_changed: bool = False

    @property
    def next_offset(self) -> int:
        """Offset of the first row that the step would write."""
        return 0 if self.prev_offset is None else self.prev_offset + 1


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """Why a derivative dataset is up to date."""

    reason: str


def plan_step(
    state: ChainState,
    find_dataset: FindDataset,
    system_time: Timestamp,
    *,
    changed: bool = False,
    across_schemas: bool = False,
) -> Step | NothingToDo:
    """Plan the next step of a derivative dataset.

    One step never spans a change of an input's schema: what lies behind it is left to the next.
    Only the first look at an input may, where the query needs columns that came later: what was
    written before them reads as null.

    Args:
        state: The state of the dataset's own chain.
        find_dataset: Finds the inputs.
        system_time: What the step will carry.
        changed: Whether the transform or the vocabulary was set since the last step.
        across_schemas: Whether inputs that were never read are read with their newest schema.

    Raises:
        NotFoundError: If an input is not in the workspace.
        DivergedInputError: If an input no longer has the blocks that were processed last.
    """
    set_transform = state.transform
    if set_transform is None:
        return NothingToDo("it has no transform")
    intervals = []
    states = InputStates()
    for source, before in _paired(set_transform, state.query_inputs):
        handle = find_dataset(DatasetID.parse(source.dataset_ref))
        cut = before is not None or not across_schemas
        interval = _next_interval(handle, source, before, states, cut=cut)
        if interval.schema is None:
            return NothingToDo(f"input {interval.alias} has no data yet")
        intervals.append(interval)
    if not any(interval.advanced for interval in intervals):
        return NothingToDo("its inputs have nothing new")
    return Step(
        transform=set_transform.transform,
        inputs=tuple(intervals),
        system_time=system_time,
        vocab=state.vocab,
        prev_offset=state.last_offset,
        prev_checkpoint=state.checkpoint,
        state_in_doubt=changed or any(one.columns_changed for one in intervals),
        query_changed=changed,
    )


def plan_replay(
    state: ChainState,
    recorded: Sequence[ExecuteTransformInput],
    find_dataset: FindDataset,
    system_time: Timestamp,
    states: InputStates,
    *,
    changed: bool = False,
) -> Step:
    """Rebuild the step that a recorded `ExecuteTransform` was.

    Args:
        state: The state of the dataset's chain just before that block.
        recorded: The block's `query_inputs`.
        find_dataset: Finds the inputs.
        system_time: The block's system time.
        states: What the inputs' chains say at a block.
        changed: Whether the transform or the vocabulary was set since the step before.

    Raises:
        NotFoundError: If an input is not in the workspace.
        InvalidIntervalError: If an input no longer has the recorded blocks.
        IntegrityError: If the record contradicts the inputs' chains.
    """
    set_transform = state.transform
    if set_transform is None:
        raise IntegrityError("the step comes before any SetTransform")
    declared = [DatasetID.parse(source.dataset_ref) for source in set_transform.inputs]
    if declared != [query_input.dataset_id for query_input in recorded]:
        raise IntegrityError("the step records other inputs than the transform declares")
    intervals = tuple(
        read_recorded(find_dataset(query_input.dataset_id), _alias(source), query_input, states)
        for source, query_input in zip(set_transform.inputs, recorded, strict=True)
    )
    return Step(
        transform=set_transform.transform,
        inputs=intervals,
        system_time=system_time,
        vocab=state.vocab,
        prev_offset=state.last_offset,
        prev_checkpoint=state.checkpoint,
        state_in_doubt=changed or any(one.columns_changed for one in intervals),
        query_changed=changed,
    )


def _paired(
    set_transform: SetTransform, before: Sequence[ExecuteTransformInput] | None
) -> list[tuple[TransformInput, ExecuteTransformInput | None]]:
    """Each declared input with what was last processed of it; by identity, not by position."""
    processed = {query_input.dataset_id: query_input for query_input in before or ()}
    return [
        (source, processed.get(DatasetID.parse(source.dataset_ref)))
        for source in set_transform.inputs
    ]


def _next_interval(
    handle: DatasetHandle,
    source: TransformInput,
    before: ExecuteTransformInput | None,
    states: InputStates,
    *,
    cut: bool,
) -> InputInterval:
    after = before.last_block_hash if before else None
    try:
        return read_interval(
            handle,
            _alias(source),
            after=after,
            upto=handle.dataset.head(),
            prev_offset=before.last_offset if before else None,
            states=states,
            stop_at_schema_change=cut,
        )
    except InvalidIntervalError as error:
        raise DivergedInputError(
            f"input {handle.alias} no longer has block {after}, up to which it was processed: "
            "it was reset or compacted",
            hint="with --reset-derivatives-on-diverged-input odf pull starts this dataset anew",
            details={"input": str(handle.id), "block": str(after)},
        ) from error


def _alias(source: TransformInput) -> str:
    return source.alias or source.dataset_ref

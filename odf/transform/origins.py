"""Where rows of a derivative dataset come from: recorded steps run again with their offsets."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from odf.data.readers import SliceReader
from odf.errors import (
    BadInputError,
    EngineError,
    IntegrityError,
    InvalidQueryError,
    NotFoundError,
)
from odf.metadata.chain import EMPTY_STATE, apply
from odf.metadata.model import ExecuteTransform, SetTransform, SetVocab
from odf.metadata.multiformats import Multihash
from odf.protocol.calls import ColumnOrigin, ProvenanceOutcome
from odf.protocol.releases import RELEASES
from odf.transform.execute import TransformSurroundings, transform_call
from odf.transform.inputs import InputStates
from odf.transform.plan import Step, plan_replay
from odf.transform.state import fitting_state, recorded_state
from odf.workspace.workspace import DatasetHandle


@dataclass(frozen=True, slots=True)
class RowOrigins:
    """Where one row comes from.

    Attributes:
        offset: Its offset.
        sources: Positions of inputs with offsets in them, ascending.
    """

    offset: int
    sources: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """Where rows of one step come from.

    Attributes:
        block: Hash of the block that records the step.
        how: The query in words.
        columns: What the columns are computed from; inputs by the names that the query has.
        inputs: The inputs, in the order of the transform.
        rows: The rows that were asked for, by offset.
    """

    block: Multihash
    how: str
    columns: tuple[ColumnOrigin, ...]
    inputs: tuple[DatasetHandle, ...]
    rows: tuple[RowOrigins, ...]


def explain(
    handle: DatasetHandle, around: TransformSurroundings, wanted: frozenset[int]
) -> Iterator[ExplainedStep]:
    """Say where rows come from, step by step, oldest first.

    Args:
        handle: A derivative dataset.
        around: Where this happens.
        wanted: Offsets of the rows.

    Raises:
        NotFoundError: If an input is not in the workspace, or an offset not in the dataset.
        InvalidQueryError: If it cannot be told for the query.
        IntegrityError: If the dataset is not what its chain says.
        EngineUnavailableError, EngineError: If the engine cannot do it.
    """
    state, states = EMPTY_STATE, InputStates()
    found: set[int] = set()
    changed = False
    for block_hash, block in reversed(list(handle.dataset.blocks())):
        event = block.event
        if isinstance(event, SetTransform | SetVocab):
            changed = True
        if isinstance(event, ExecuteTransform) and event.new_data is not None:
            interval = event.new_data.offset_interval
            here = frozenset(one for one in wanted if interval.start <= one <= interval.end)
            if here:
                found |= here
                step = plan_replay(
                    state,
                    event.query_inputs,
                    around.find_dataset,
                    block.system_time,
                    states,
                    changed=changed,
                )
                yield _explained(handle, around, step, block_hash, here)
        if isinstance(event, ExecuteTransform):
            changed = False
        state = apply(state, block, block_hash)
    if missing := sorted(wanted - found):
        last = state.last_offset
        said = "it has none" if last is None else f"the last one is at {last}"
        raise NotFoundError(
            f"{handle.alias} has no row at offset {missing[0]}; {said}",
            hint=f"odf tail {handle.alias} shows the last rows with their offsets",
        )


def _explained(
    handle: DatasetHandle,
    around: TransformSurroundings,
    step: Step,
    block: Multihash,
    wanted: frozenset[int],
) -> ExplainedStep:
    if step.transform.engine.lower() not in RELEASES:
        raise InvalidQueryError(
            f"the engine {step.transform.engine!r} does not tell where rows come from",
            hint="the Spark engine does (engine: spark)",
        )
    client = around.engine(step.transform)
    around.report("looking for the origins of rows")
    around.staging_dir.mkdir(parents=True, exist_ok=True)
    before = recorded_state(step, handle.dataset)
    started = fitting_state(step, before, client, around.report)
    with TemporaryDirectory(dir=around.staging_dir, prefix="origins-") as folder:
        call = transform_call(step, handle, around, started, Path(folder))
        outcome = client.derive_provenance(call)
        try:
            rows = _rows(outcome, wanted, len(step.inputs), around.reader)
        finally:
            call.output.unlink(missing_ok=True)
    inputs = tuple(source.handle for source in step.inputs)
    return ExplainedStep(block, outcome.how, outcome.columns, inputs, rows)


def _rows(
    outcome: ProvenanceOutcome, wanted: frozenset[int], inputs: int, reader: SliceReader
) -> tuple[RowOrigins, ...]:
    found: dict[int, list[tuple[int, int]]] = {offset: [] for offset in sorted(wanted)}
    if outcome.rows is None:
        raise EngineError("the engine found no rows in a step that has some")
    try:
        rows = reader.pick(outcome.rows, ("offset", "input", "input_offset"), wanted)
        for row in rows.to_pylist():
            if not 0 <= row["input"] < inputs:
                raise EngineError(f"the engine named input {row['input']} of {inputs}")
            found[row["offset"]].append((row["input"], row["input_offset"]))
    except (IntegrityError, BadInputError, TypeError) as error:
        raise EngineError(f"the engine's origins of rows cannot be read: {error}") from error
    lost = [offset for offset, sources in found.items() if not sources]
    if lost:
        raise IntegrityError(f"the step has no row at offset {lost[0]} when it is run again")
    return tuple(RowOrigins(offset, tuple(sorted(set(s)))) for offset, s in found.items())

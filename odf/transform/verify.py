"""Verification by replay: every recorded step is run again, and the logical hash decides.

See transform-and-verify.md §5. Unlike the reference, each step is replayed with the transform
and vocabulary in force at its block, not with the newest ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from odf.errors import IntegrityError, NotFoundError, OdfError
from odf.metadata.chain import EMPTY_STATE, ChainState, apply
from odf.metadata.model import DataSlice, ExecuteTransform, Timestamp
from odf.metadata.multiformats import Multihash
from odf.repo.accept import AcceptedSlice, accept_slice, later
from odf.repo.errors import InvalidIntervalError
from odf.transform.execute import TransformSurroundings, run_step
from odf.transform.inputs import InputStates
from odf.transform.plan import Step, plan_replay
from odf.workspace.workspace import DatasetHandle


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """What the replay of one step found.

    Attributes:
        block: Hash of the block that records the step.
        sequence_number: Its number.
        differences: How the replayed result differs from the recorded one; none if it does not.
        unchecked: Why the step could not be run again, if so.
        unpinned: The release that ran it, if the transform names none itself.
    """

    block: Multihash
    sequence_number: int
    differences: tuple[str, ...] = ()
    unchecked: str | None = None
    unpinned: str | None = None


def replay(handle: DatasetHandle, around: TransformSurroundings) -> Iterator[ReplayedStep]:
    """Run every recorded step of a derivative dataset again, oldest first.

    Nothing of the dataset is changed; results are thrown away once they are compared.

    Args:
        handle: The dataset. Its chain must have passed the integrity check before.
        around: Where this happens.

    Yields:
        One result for each step.

    Raises:
        EngineUnavailableError: If no engine can be started, or not the one that was used.
        EngineError: If the engine fails.
    """
    state = EMPTY_STATE
    states = InputStates(use_cache=False)
    # Names only: the blocks of a stranger's chain may be large, and are read again on the way up.
    hashes = [block_hash for block_hash, _ in handle.dataset.blocks()]
    for block_hash in reversed(hashes):
        block = handle.dataset.block(block_hash)
        if isinstance(block.event, ExecuteTransform):
            around.report(f"replaying block {block.sequence_number}")
            replayed = _Replay(handle, around, state, states, block_hash, block.sequence_number)
            yield replayed.run(block.event, block.system_time)
        state = apply(state, block, block_hash)


@dataclass(frozen=True, slots=True)
class _Replay:
    """One recorded step, the state of the chain before it, and where to run it."""

    handle: DatasetHandle
    around: TransformSurroundings
    state: ChainState
    states: InputStates
    block: Multihash
    sequence_number: int

    def run(self, event: ExecuteTransform, system_time: Timestamp) -> ReplayedStep:
        """Run the step and compare."""
        if self.state.opaque:
            return self._unchecked(f"what came before is not understood: {self.state.opaque}")
        find = self.around.find_dataset
        try:
            step = plan_replay(self.state, event.query_inputs, find, system_time, self.states)
        except NotFoundError as error:
            return self._unchecked(f"an input is not in this workspace: {error.message}")
        except (InvalidIntervalError, IntegrityError) as error:
            return self._differs(error.message)
        client = self.around.engine(step.transform)
        release = None if step.transform.version else client.describe().release
        outcome = run_step(step, self.handle, self.around)
        watermark = later(self.state.watermark, outcome.watermark)
        if outcome.slice_path is None:
            differences = tuple(_differences(event, step, None, watermark))
            return ReplayedStep(self.block, self.sequence_number, differences, None, release)
        try:
            accepted = accept_slice(outcome.slice_path, self.state, step.system_time)
        except OdfError as error:
            return self._differs(f"the replayed rows are not acceptable: {error.message}")
        finally:
            outcome.slice_path.unlink(missing_ok=True)
        differences = tuple(_differences(event, step, accepted, watermark))
        return ReplayedStep(self.block, self.sequence_number, differences, None, release)

    def _unchecked(self, why: str) -> ReplayedStep:
        return ReplayedStep(self.block, self.sequence_number, unchecked=why)

    def _differs(self, *differences: str) -> ReplayedStep:
        return ReplayedStep(self.block, self.sequence_number, differences)


def _differences(
    event: ExecuteTransform,
    step: Step,
    accepted: AcceptedSlice | None,
    watermark: Timestamp | None,
) -> Iterator[str]:
    """Compare what was recorded with what came out, in words."""
    recorded, replayed = event.new_data, accepted.data if accepted else None
    if recorded is None or replayed is None:
        if recorded is not replayed:
            yield f"rows: recorded {_rows(recorded)}, replayed {_rows(replayed)}"
    else:
        if recorded.logical_hash != replayed.logical_hash:
            yield (
                f"logical hash of the rows: recorded {recorded.logical_hash}, "
                f"replayed {replayed.logical_hash}"
            )
        if recorded.offset_interval != replayed.offset_interval:
            yield f"offsets: recorded {_rows(recorded)}, replayed {_rows(replayed)}"
    if event.new_watermark != watermark:
        yield f"watermark: recorded {event.new_watermark}, replayed {watermark}"
    if event.prev_offset != step.prev_offset:
        yield f"previous offset: recorded {event.prev_offset}, in the chain {step.prev_offset}"


def _rows(data: DataSlice | None) -> str:
    if data is None:
        return "none"
    interval = data.offset_interval
    return f"{interval.end - interval.start + 1} at offsets {interval.start} to {interval.end}"

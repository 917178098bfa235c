"""Verification by replay: every recorded step is run again, and the logical hash decides.

See transform-and-verify.md §5. Unlike the reference, each step is replayed with the transform
and vocabulary in force at its block, not with the newest ones, and from the state that the replay
of the steps before it made, not from a recorded checkpoint.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from odf.errors import IntegrityError, NotFoundError, OdfError
from odf.metadata.chain import EMPTY_STATE, ChainState, apply
from odf.metadata.model import (
    Checkpoint,
    DataSlice,
    ExecuteTransform,
    MetadataBlock,
    SetTransform,
    SetVocab,
    Timestamp,
)
from odf.metadata.multiformats import Multihash
from odf.repo.accept import AcceptedSlice, accept_slice, later
from odf.repo.errors import InvalidIntervalError
from odf.repo.objects import StagedObject
from odf.transform.execute import TransformSurroundings, run_step
from odf.transform.inputs import InputStates
from odf.transform.plan import Step, plan_replay
from odf.transform.state import ReplayedState, State
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


Keep = Callable[[DataSlice, StagedObject], None]
"""Takes a replayed slice that has the rows of a recorded one; it may move the file away."""


def replay(
    handle: DatasetHandle,
    around: TransformSurroundings,
    *,
    keep: Keep | None = None,
    blocks: range | None = None,
) -> Iterator[ReplayedStep]:
    """Run every recorded step of a derivative dataset again, oldest first.

    Nothing of the dataset is changed; results are thrown away once they are compared.

    Args:
        handle: The dataset. Its chain must have passed the integrity check before.
        around: Where this happens.
        keep: Given each slice that came out as it is recorded, before it is thrown away.
        blocks: Sequence numbers of the blocks that matter; all if not given. Steps before them are
            run only if the state that they leave is needed.

    Yields:
        One result for each step that matters.

    Raises:
        EngineUnavailableError: If no engine can be started, or not the one that was used.
        EngineError: If the engine fails.
    """
    # Names only: the blocks of a stranger's chain may be large, and are read again on the way up.
    hashes = [block_hash for block_hash, _ in handle.dataset.blocks()]
    needed = _to_run(handle, blocks)
    around.staging_dir.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=around.staging_dir, prefix="replay-") as folder:
        replay = _Replay(handle, around, ReplayedState(Path(folder)), keep)
        for block_hash in reversed(hashes):
            block = handle.dataset.block(block_hash)
            if isinstance(block.event, ExecuteTransform):
                if needed is None or block.sequence_number in needed:
                    around.report(f"replaying block {block.sequence_number}")
                    found = replay.step(block_hash, block, block.event)
                    if blocks is None or block.sequence_number in blocks:
                        yield found
                replay.changed = False
            elif isinstance(block.event, SetTransform | SetVocab):
                replay.changed = True
            replay.chain = apply(replay.chain, block, block_hash)


def _to_run(handle: DatasetHandle, blocks: range | None) -> range | None:
    """Return the numbers of the steps that have to be run for those of some blocks; None for all.

    A step that starts from a state needs every step before it.
    """
    if blocks is None:
        return None
    starts_from_state = any(
        isinstance(block.event, ExecuteTransform)
        and block.event.prev_checkpoint is not None
        and block.sequence_number in blocks
        for _, block in handle.dataset.blocks()
    )
    return range(blocks.stop) if starts_from_state else blocks


@dataclass(slots=True)
class _Replay:
    """The way up a chain.

    Attributes:
        handle: The dataset.
        around: Where this happens.
        kept: The state of the engine as the replay makes it.
        keep: See `replay`.
        chain: What the chain says before the block that is looked at.
        states: What the inputs' chains say at a block.
        changed: Whether the transform or the vocabulary was set since the step before.
    """

    handle: DatasetHandle
    around: TransformSurroundings
    kept: ReplayedState
    keep: Keep | None = None
    chain: ChainState = EMPTY_STATE
    states: InputStates = field(default_factory=lambda: InputStates(use_cache=False))
    changed: bool = False

    def step(
        self, block_hash: Multihash, block: MetadataBlock, event: ExecuteTransform
    ) -> ReplayedStep:
        """Run a recorded step and compare."""
        found = _Found(block_hash, block.sequence_number)
        if self.chain.opaque:
            return self._lost(found, f"what came before is not understood: {self.chain.opaque}")
        try:
            step = plan_replay(
                self.chain,
                event.query_inputs,
                self.around.find_dataset,
                block.system_time,
                self.states,
                changed=self.changed,
            )
        except NotFoundError as error:
            return self._lost(found, f"an input is not in this workspace: {error.message}")
        except (InvalidIntervalError, IntegrityError) as error:
            self._lost(found, error.message)
            return found.differs(error.message)
        if step.prev_checkpoint is None:
            self.kept.forget()
        elif self.kept.unknown is not None:
            return found.unchecked(
                f"the state before it could not be made again: {self.kept.unknown}"
            )
        return self._run(found, step, event)

    def _lost(self, found: "_Found", why: str) -> ReplayedStep:
        """Note that nothing is known about the state after a step that could not be run."""
        self.kept.unknown = f"block {found.sequence_number} was not replayed"
        return found.unchecked(why)

    def _run(self, found: "_Found", step: Step, event: ExecuteTransform) -> ReplayedStep:
        client = self.around.engine(step.transform)
        release = client.describe().release
        started, outcome = run_step(step, self.handle, self.around, self.kept.newest)
        accepted = problem = None
        try:
            if outcome.slice_path is not None:
                accepted = accept_slice(outcome.slice_path, self.chain, step.system_time)
                self._hand_over(event.new_data, accepted)
        except OdfError as error:
            problem = f"the replayed rows are not acceptable: {error.message}"
        finally:
            if outcome.slice_path is not None:
                outcome.slice_path.unlink(missing_ok=True)
        left = State.of_file(outcome.checkpoint) if outcome.checkpoint else None
        checkpoint = self.kept.after(started, left)
        if problem is not None:
            return found.differs(problem)
        watermark = later(self.chain.watermark, outcome.watermark)
        differences = [*_differences(event, step, accepted, watermark)]
        # Releases may write the same state in other bytes.
        exact = step.transform.version == release
        differences += _state_differences(event, step, checkpoint, exact=exact)
        return found.result(differences, None if step.transform.version else release)

    def _hand_over(self, recorded: DataSlice | None, accepted: AcceptedSlice) -> None:
        """Give a slice with the recorded rows to who wants it."""
        if self.keep is None or recorded is None:
            return
        if (recorded.logical_hash, recorded.offset_interval) == (
            accepted.data.logical_hash,
            accepted.data.offset_interval,
        ):
            self.keep(recorded, accepted.staged)


@dataclass(frozen=True, slots=True)
class _Found:
    """Makes the result of one block."""

    block: Multihash
    sequence_number: int

    def unchecked(self, why: str) -> ReplayedStep:
        return ReplayedStep(self.block, self.sequence_number, unchecked=why)

    def differs(self, difference: str) -> ReplayedStep:
        return ReplayedStep(self.block, self.sequence_number, (difference,))

    def result(self, differences: list[str], unpinned: str | None) -> ReplayedStep:
        return ReplayedStep(self.block, self.sequence_number, tuple(differences), unpinned=unpinned)


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


def _state_differences(
    event: ExecuteTransform, step: Step, left: Checkpoint | None, *, exact: bool
) -> Iterator[str]:
    """Compare the state that was recorded with the one that came out, in words."""
    before = step.prev_checkpoint.physical_hash if step.prev_checkpoint else None
    if event.prev_checkpoint != before:
        yield f"previous checkpoint: recorded {event.prev_checkpoint}, in the chain {before}"
    recorded = event.new_checkpoint
    if (recorded is None) != (left is None) or (exact and recorded != left):
        yield f"checkpoint: recorded {_state(recorded)}, replayed {_state(left)}"


def _state(checkpoint: Checkpoint | None) -> str:
    return "none" if checkpoint is None else str(checkpoint.physical_hash)


def _rows(data: DataSlice | None) -> str:
    if data is None:
        return "none"
    interval = data.offset_interval
    return f"{interval.end - interval.start + 1} at offsets {interval.start} to {interval.end}"

"""Verification by replay: every recorded step is run again, and the logical hash decides.

See transform-and-verify.md §5. Unlike the reference, each step is replayed with the transform
and vocabulary in force at its block, not with the newest ones, and from the state that the replay
of the steps before it made, not from a recorded checkpoint. Steps that neither start from a state
nor leave one do not need each other: as many of them run at once as their engine can.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

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
from odf.protocol.releases import RELEASES
from odf.repo.accept import AcceptedSlice, accept_slice, later
from odf.repo.errors import InvalidIntervalError
from odf.repo.objects import StagedObject
from odf.transform.beside import MOST_THREADS, Beside, Running
from odf.transform.differences import differences_of, state_differences
from odf.transform.execute import TransformSurroundings, run_step
from odf.transform.inputs import InputStates
from odf.transform.plan import Step, plan_replay
from odf.transform.state import ReplayedState, State
from odf.workspace.workspace import DatasetHandle

if TYPE_CHECKING:  # grpc is loaded when an engine is needed
    from odf.runtimes.client import EngineClient


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
    with (
        TemporaryDirectory(dir=around.staging_dir, prefix="replay-") as folder,
        Beside[ReplayedStep | _Ran]() as beside,
    ):
        here = replace(around, staging_dir=Path(folder))
        replay = _Replay(handle, here, ReplayedState(Path(folder)), beside, blocks, keep)
        for results in replay.way_up(hashes, needed):
            yield from results


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


@dataclass(frozen=True, slots=True)
class _Ready:
    """A recorded step that is to be run again.

    Attributes:
        found: Makes the result.
        step: The step.
        event: How it is recorded.
        chain: What the chain says before its block.
    """

    found: "_Found"
    step: Step
    event: ExecuteTransform
    chain: ChainState

    @property
    def has_state(self) -> bool:
        """Whether it needs the state of the step before it, or leaves one for the next."""
        return self.step.prev_checkpoint is not None or self.event.new_checkpoint is not None


@dataclass(frozen=True, slots=True)
class _Ran:
    """What came of a step.

    Attributes:
        ready: The step.
        release: The release that ran it.
        started: The state that it started from.
        left: The state that the engine wrote.
        accepted: Its rows, if they are acceptable.
        problem: Why they are not.
        watermark: The watermark that the engine reported.
    """

    ready: _Ready
    release: str
    started: State | None
    left: State | None
    accepted: AcceptedSlice | None
    problem: str | None
    watermark: Timestamp | None


@dataclass(slots=True)
class _Replay:
    """The way up a chain.

    Attributes:
        handle: The dataset.
        around: Where this happens; its files go into a folder that is removed in the end.
        kept: The state of the engine as the replay makes it.
        beside: Runs the steps without state.
        blocks: See `replay`.
        keep: See `replay`.
        chain: What the chain says before the block that is looked at.
        states: What the inputs' chains say at a block.
        changed: Whether the transform or the vocabulary was set since the step before.
    """

    handle: DatasetHandle
    around: TransformSurroundings
    kept: ReplayedState
    beside: "Beside[ReplayedStep | _Ran]"
    blocks: range | None = None
    keep: Keep | None = None
    chain: ChainState = EMPTY_STATE
    states: InputStates = field(default_factory=lambda: InputStates(use_cache=False))
    changed: bool = False

    def way_up(
        self, hashes: list[Multihash], needed: range | None
    ) -> Iterator[Iterator[ReplayedStep]]:
        """Go through a chain; yields results of steps, in their order, to be read at once.

        Where the way ends early, the results of the steps before are given out nonetheless. Where
        a step fails, that is among the results, and nothing comes after it.

        Args:
            hashes: The blocks, newest first.
            needed: The numbers of the steps that are to be run; all if not given.
        """
        try:
            for block_hash in reversed(hashes):
                block = self.handle.dataset.block(block_hash)
                if isinstance(block.event, ExecuteTransform):
                    if needed is None or block.sequence_number in needed:
                        self.around.report(f"replaying block {block.sequence_number}")
                        yield from self._step(block_hash, block, block.event)
                    self.changed = False
                elif isinstance(block.event, SetTransform | SetVocab):
                    self.changed = True
                self.chain = apply(self.chain, block, block_hash)
        except OdfError:
            yield self._rest()
            raise
        yield self._rest()

    def _step(
        self, block_hash: Multihash, block: MetadataBlock, event: ExecuteTransform
    ) -> Iterator[Iterator[ReplayedStep]]:
        """Take the next recorded step; yields results of steps up to this one, in their order."""
        planned = self._planned(block_hash, block, event)
        if isinstance(planned, ReplayedStep):
            known = planned
            yield self._given_out(self.beside.add(lambda _: known, MOST_THREADS))
            return
        ready, around = planned, self.around
        client = around.engine(ready.step.transform)
        at_once = 1 if ready.has_state else _operations(client, ready)
        if at_once > 1:
            quiet = replace(around, engine=lambda _: client, report=_say_nothing)
            work = partial(_run_alone, ready, self.handle, quiet, client)
            yield self._given_out(self.beside.add(work, at_once))
            return
        yield self._rest()
        ran = _run(ready, self.handle, around, client, self.kept.newest)
        yield self._given_out(iter([ran]), self.kept.after(ran.started, ran.left))

    def _rest(self) -> Iterator[ReplayedStep]:
        """Yield the results of all steps that were taken."""
        yield from self._given_out(self.beside.rest())

    def _planned(
        self, block_hash: Multihash, block: MetadataBlock, event: ExecuteTransform
    ) -> ReplayedStep | _Ready:
        """Rebuild a recorded step, or say why it cannot be run."""
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
        return _Ready(found, step, event, self.chain)

    def _lost(self, found: "_Found", why: str) -> ReplayedStep:
        """Note that nothing is known about the state after a step that could not be run."""
        self.kept.unknown = f"block {found.sequence_number} was not replayed"
        return found.unchecked(why)

    def _given_out(
        self, results: Iterator[ReplayedStep | _Ran], checkpoint: Checkpoint | None = None
    ) -> Iterator[ReplayedStep]:
        """Compare what came of steps with what is recorded.

        Args:
            results: What is known of them.
            checkpoint: What the block of a step with state should record.
        """
        for one in results:
            found = one
            if isinstance(found, _Ran):
                unwanted = found.left if not found.ready.has_state else None
                found = self._compared(found, unwanted.checkpoint if unwanted else checkpoint)
            if self.blocks is None or found.sequence_number in self.blocks:
                yield found

    def _compared(self, ran: _Ran, checkpoint: Checkpoint | None) -> ReplayedStep:
        step, event = ran.ready.step, ran.ready.event
        found = ran.ready.found
        if ran.problem is not None:
            return found.differs(ran.problem)
        if ran.accepted is not None:
            self._hand_over(event.new_data, ran.accepted)
            ran.accepted.staged.path.unlink(missing_ok=True)
        watermark = later(ran.ready.chain.watermark, ran.watermark)
        differences = [*differences_of(event, step, ran.accepted, watermark)]
        # Releases may write the same state in other bytes.
        exact = step.transform.version == ran.release
        differences += state_differences(event, step, checkpoint, exact=exact)
        return found.result(differences, None if step.transform.version else ran.release)

    def _hand_over(self, recorded: DataSlice | None, accepted: AcceptedSlice) -> None:
        """Give a slice with the recorded rows to who wants it."""
        if self.keep is None or recorded is None:
            return
        if (recorded.logical_hash, recorded.offset_interval) == (
            accepted.data.logical_hash,
            accepted.data.offset_interval,
        ):
            self.keep(recorded, accepted.staged)


def _operations(client: "EngineClient", ready: _Ready) -> int:
    """Return how many steps an engine may be given at once."""
    # Engines of others are not asked: they know nothing of the private service.
    ours = ready.step.transform.engine.lower() in RELEASES
    return client.describe().operations if ours else 1


def _say_nothing(_message: str) -> None:
    """Drop progress of steps that run beside each other."""


def _run_alone(
    ready: _Ready,
    handle: DatasetHandle,
    around: TransformSurroundings,
    client: "EngineClient",
    running: Running,
) -> _Ran:
    """Run a step without state in a thread of its own."""
    ran = _run(ready, handle, around, client, None, running)
    if ran.left is not None:
        ran.left.path.unlink()
    return ran


def _run(
    ready: _Ready,
    handle: DatasetHandle,
    around: TransformSurroundings,
    client: "EngineClient",
    before: State | None,
    running: Running | None = None,
) -> _Ran:
    """Run a step and look at its rows.

    Args:
        ready: The step.
        handle: The dataset.
        around: Where this happens.
        client: The engine.
        before: The state to start from.
        running: See `run_step`.
    """
    step = ready.step
    ours = step.transform.engine.lower() in RELEASES
    release = client.describe().release if ours else (step.transform.version or "the image here")
    started, outcome = run_step(step, handle, around, before, running=running)
    accepted = problem = None
    try:
        if outcome.slice_path is not None:
            accepted = accept_slice(
                outcome.slice_path, ready.chain, step.system_time, around.reader
            )
    except OdfError as error:
        problem = f"the replayed rows are not acceptable: {error.message}"
        if outcome.slice_path is not None:
            outcome.slice_path.unlink(missing_ok=True)
    left = State.of_file(outcome.checkpoint) if outcome.checkpoint else None
    return _Ran(ready, release, started, left, accepted, problem, outcome.watermark)


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

"""The state that a step of a derivative dataset starts from, and the state that it leaves.

State is a checkpoint of the chain when a dataset is pulled. When it is verified, it is what the
replay itself made: a recorded checkpoint could have been forged, and everything that followed
from it with it (design §6 "State is not believed").
"""

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odf.metadata.model import Checkpoint, ExecuteTransform, SetTransform, SetVocab
from odf.protocol.calls import QueryInput
from odf.protocol.releases import RELEASES
from odf.repo.dataset import Dataset
from odf.repo.files import checkpoint_path
from odf.repo.objects import StagedObject, hash_file
from odf.transform.plan import Step

if TYPE_CHECKING:  # grpc is loaded when an engine is needed
    from odf.runtimes.client import EngineClient


@dataclass(frozen=True, slots=True)
class State:
    """A state of an engine, as a file.

    Attributes:
        path: The file.
        checkpoint: Its hash and size.
    """

    path: Path
    checkpoint: Checkpoint

    @classmethod
    def of_file(cls, path: Path) -> "State":
        """Hash a file that an engine wrote."""
        physical_hash, size = hash_file(path)
        return cls(path, Checkpoint(physical_hash=physical_hash, size=size))

    @property
    def staged(self) -> StagedObject:
        """The file as an object of the next commit."""
        return StagedObject("checkpoint", self.path, self.checkpoint.physical_hash)


def recorded_state(step: Step, dataset: Dataset) -> State | None:
    """Return the state that a dataset's last step left, after hashing it.

    Args:
        step: The step that is to go on from there.
        dataset: The dataset.

    Raises:
        IntegrityError: If the file is missing, or is not what the chain says.
    """
    checkpoint = step.prev_checkpoint
    return None if checkpoint is None else State(checkpoint_path(dataset, checkpoint), checkpoint)


def fitting_state(
    step: Step, state: State | None, client: "EngineClient", report: Callable[[str], None]
) -> State | None:
    """Return the state if it goes on with the query of a step, else nothing.

    Engines of others cannot be asked. Their state goes on where only columns of inputs came, as
    other coordinators have it, and never with another query.

    Args:
        step: The step.
        state: What there is.
        client: The engine, which is asked where the query or its inputs have changed.
        report: Told what is given up.

    Raises:
        BadInputError: If the state cannot be read.
        EngineError: If the engine fails.
    """
    if state is None or not step.state_in_doubt:
        return state
    if step.transform.engine.lower() not in RELEASES:
        if not step.query_changed:
            return state
        report(
            "the query was changed and goes on without what was kept: engines of others cannot be "
            "asked whether that fits"
        )
        return None
    inputs = [QueryInput(one.alias, one.schema, vocab=one.vocab) for one in step.inputs]
    answer = client.migrate_query(step.transform, inputs, step.vocab, state.path)
    if answer.kept:
        return state
    lost = ", ".join(f"{one.rows} rows of {one.table}" for one in answer.discarded if one.rows)
    report(
        f"the query was changed and goes on without what was kept: {answer.reason}"
        + (f"; given up: {lost}" if lost else "")
    )
    return None


def changed_since_last_step(dataset: Dataset) -> bool:
    """Tell whether the transform or the vocabulary of a dataset was set after its last step."""
    for _, block in dataset.blocks():
        if isinstance(block.event, ExecuteTransform):
            return False
        if isinstance(block.event, SetTransform | SetVocab):
            return True
    return False


class ReplayedState:
    """The state as a replay makes it, step by step.

    Args:
        folder: Where its file is kept from one step to the next.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.newest: State | None = None
        """What the last step left."""
        self.unknown: str | None = None
        """Why it is not known; None if it is."""

    def forget(self) -> None:
        """Start again where the chain records no state."""
        if self.newest is not None:
            self.newest.path.unlink()
        self.newest = self.unknown = None

    def after(self, started: State | None, left: State | None) -> Checkpoint | None:
        """Keep what a step left; return what its block should record.

        Args:
            started: What the step started from.
            left: What the engine wrote in it, outside of the folder; None if nothing.
        """
        if left is None:
            left = started
        else:
            kept = self._folder / secrets.token_hex(8)
            shutil.move(left.path, kept)
            left = State(kept, left.checkpoint)
        if self.newest is not None and self.newest is not left:
            self.newest.path.unlink()
        self.newest = left
        return left.checkpoint if left else None


@contextmanager
def left_behind(*paths: Path) -> Iterator[None]:
    """Remove files that an engine wrote if what follows fails."""
    try:
        yield
    except BaseException:
        for path in paths:
            path.unlink(missing_ok=True)
        raise

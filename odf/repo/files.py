"""Slices and checkpoints of a local dataset as files that an engine can read."""

from pathlib import Path

from odf.errors import IntegrityError
from odf.metadata.model import AddData, Checkpoint, DataSlice, ExecuteTransform
from odf.repo.dataset import Dataset
from odf.repo.dropped import is_dropped, rebuilt_slice
from odf.repo.objects import ObjectRef, problem_with


def slice_path(dataset: Dataset, data: DataSlice) -> Path:
    """Return the file of a slice, after hashing it.

    What is derived from a damaged slice would be committed for good, with right hashes of wrong
    rows, so none is ever handed on unseen.

    Raises:
        DataDroppedError: If the slice was dropped and has not been rebuilt.
        IntegrityError: If the file is missing, or is not what the chain says.
    """
    if is_dropped(dataset, data):
        return rebuilt_slice(dataset, data)
    return object_path(dataset, ObjectRef("data", data.physical_hash, data.size))


def checkpoint_path(dataset: Dataset, checkpoint: Checkpoint) -> Path:
    """Return the file of a checkpoint, after hashing it; see `slice_path`.

    Raises:
        IntegrityError: If the file is missing, or is not what the chain says.
    """
    return object_path(dataset, ObjectRef("checkpoint", checkpoint.physical_hash, checkpoint.size))


def object_path(dataset: Dataset, ref: ObjectRef) -> Path:
    """Return the file of an object that is known by its hash and size; see `slice_path`."""
    store = dataset.stores.objects(ref.kind)
    path = store.local_path(str(ref.hash))
    problem = "missing" if path is None else problem_with(store, ref)
    if path is None or problem is not None:
        raise IntegrityError(
            f"{dataset.url}: {ref.path}, which the chain refers to, is "
            + ("missing" if problem == "missing" else f"corrupt: {problem}"),
            hint=f"odf verify {dataset.url} shows all that is damaged",
            details={"object": ref.path},
        )
    return path


def slice_paths(dataset: Dataset) -> tuple[Path, ...]:
    """Return the files of all slices, oldest first; see `slice_path`."""
    slices = [
        block.event.new_data
        for _, block in dataset.blocks()
        if isinstance(block.event, AddData | ExecuteTransform) and block.event.new_data
    ]
    return tuple(slice_path(dataset, data) for data in reversed(slices))

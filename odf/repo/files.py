"""Slices of a local dataset as files that an engine can read."""

from pathlib import Path

from odf.errors import IntegrityError
from odf.metadata.model import AddData, DataSlice, ExecuteTransform
from odf.repo.dataset import Dataset
from odf.repo.objects import ObjectRef, problem_with


def slice_path(dataset: Dataset, data: DataSlice) -> Path:
    """Return the file of a slice, after hashing it.

    What is derived from a damaged slice would be committed for good, with right hashes of wrong
    rows, so none is ever handed on unseen.

    Raises:
        IntegrityError: If the file is missing, or is not what the chain says.
    """
    ref = ObjectRef("data", data.physical_hash, data.size)
    path = dataset.stores.data.local_path(str(data.physical_hash))
    problem = "missing" if path is None else problem_with(dataset.stores.data, ref)
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

"""Slices of a local dataset as files that an engine can read."""

from pathlib import Path

from odf.errors import IntegrityError
from odf.metadata.model import AddData, ExecuteTransform
from odf.metadata.multiformats import Multihash
from odf.repo.dataset import Dataset


def slice_path(dataset: Dataset, physical_hash: Multihash) -> Path:
    """Return the file of a slice.

    Raises:
        IntegrityError: If the file is not there although the chain names it.
    """
    path = dataset.stores.data.local_path(str(physical_hash))
    if path is None or not path.is_file():
        raise IntegrityError(
            f"{dataset.url}: data/{physical_hash} is missing, although the chain refers to it",
            hint="pull the dataset again from where it was published",
            details={"object": f"data/{physical_hash}"},
        )
    return path


def slice_paths(dataset: Dataset) -> tuple[Path, ...]:
    """Return the files of all slices, oldest first."""
    found = [
        slice_path(dataset, block.event.new_data.physical_hash)
        for _, block in dataset.blocks()
        if isinstance(block.event, AddData | ExecuteTransform) and block.event.new_data
    ]
    return tuple(reversed(found))

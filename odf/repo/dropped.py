"""Slices of derivative datasets that were given up on purpose (spec "Derivative Data Transience").

A derivative's rows follow from its inputs, so its slices are a cache. What is dropped is written
down first, in the folder of what is not part of the protocol: a slice that is missing without
being on that list was lost, and is damage. Engines promise the same rows, not the same bytes: a
slice that comes back with the recorded physical hash is the slice again, any other is kept beside
it, under its logical hash, for reading only.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odf.data.readers import OWN_READER, SliceReader
from odf.errors import BadInputError, IntegrityError, NotFoundError
from odf.limits import MAX_DROPPED_RECORD
from odf.metadata.model import AddData, DataSlice, ExecuteTransform
from odf.metadata.multiformats import Multihash
from odf.repo.chain_reader import ChainReader
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.repo.objects import StagedObject, place
from odf.store.base import ObjectStore
from odf.store.files import os_errors, write_file

_RECORD: Final = "dropped-data"
_REBUILT: Final = "rebuilt-"


class DataDroppedError(IntegrityError):
    """Rows are wanted whose slice was dropped and has not been rebuilt."""

    kind = "data_dropped"


@dataclass(frozen=True, slots=True)
class DroppedData:
    """What a drop freed.

    Attributes:
        slices: Number of slices that are gone.
        size: Their bytes.
    """

    slices: int
    size: int


def dropped_slices(stores: DatasetStores) -> frozenset[Multihash]:
    """Return the physical hashes of the slices that were dropped on purpose."""
    cache = stores.cache
    if cache is None or not cache.has(_RECORD):
        return frozenset()
    try:
        found = json.loads(cache.get(_RECORD, MAX_DROPPED_RECORD))
        return frozenset(Multihash.parse(text) for text in found["slices"])
    except (ValueError, KeyError, TypeError, BadInputError):
        # Damaged: nothing counts as dropped, so that what is missing shows as such.
        return frozenset()


def missing_slices(dataset: ChainReader) -> list[DataSlice]:
    """Return the slices of a chain that were dropped and are not back, oldest first."""
    known = dropped_slices(dataset.stores)
    if not known:
        return []
    store = dataset.stores.data
    found = [
        data
        for data in _slices(dataset)
        if data.physical_hash in known and not store.has(str(data.physical_hash))
    ]
    return [data for data in reversed(found) if not _has_rebuilt(dataset.stores, data)]


def drop_slices(dataset: Dataset) -> DroppedData:
    """Remove the slices of a dataset, also those that were rebuilt for reading.

    The caller holds the dataset's lock, and knows that the slices can be made again.
    """
    stores = dataset.stores
    cache = _cache(stores)
    slices = list(_slices(dataset))
    known = dropped_slices(stores) | {data.physical_hash for data in slices}
    record = {"slices": sorted(str(one) for one in known)}
    # Before anything goes: a crash in between leaves slices that are both listed and there.
    text = json.dumps(record).encode()
    path = cache.local_path(_RECORD)
    if path is None:
        cache.put(_RECORD, text)
    else:
        # A cache is not made to survive a power cut; without the list what is gone was lost.
        with os_errors("write", path):
            write_file(path, text)
    gone = size = 0
    for data in slices:
        for store, key in (
            (stores.data, str(data.physical_hash)),
            (cache, _rebuilt_key(data)),
        ):
            if store.has(key):
                gone, size = gone + 1, size + store.size(key)
                store.delete(key)
    return DroppedData(gone, size)


def restore_slice(dataset: Dataset, recorded: DataSlice, made: StagedObject) -> None:
    """Take a slice back that was made again.

    Args:
        dataset: The dataset.
        recorded: What its chain says about the slice.
        made: The new file, which has the recorded logical hash: the caller has compared it. It is
            moved away.
    """
    if made.hash == recorded.physical_hash:
        place(dataset.stores.data, made)
    else:
        _cache(dataset.stores).put_file(_rebuilt_key(recorded), made.path, move=True)


def is_dropped(dataset: ChainReader, data: DataSlice) -> bool:
    """Say whether a slice was dropped on purpose and is not back under its own name."""
    stores = dataset.stores
    return not stores.data.has(str(data.physical_hash)) and (
        data.physical_hash in dropped_slices(stores)
    )


def rebuilt_slice(dataset: Dataset, data: DataSlice, reader: SliceReader = OWN_READER) -> Path:
    """Return a file with the rows of a slice that was dropped, after hashing it.

    Args:
        dataset: The dataset.
        data: The slice.
        reader: Reads the file.

    Raises:
        DataDroppedError: It has not been made again.
        IntegrityError: It was, but is not what the chain says.
    """
    cache = _cache(dataset.stores)
    path = cache.local_path(_rebuilt_key(data))
    if path is None or not path.is_file():
        raise DataDroppedError(
            f"{dataset.url}: its data was dropped",
            hint=f"odf pull {dataset.url} makes it again from its inputs",
            details={"object": f"data/{data.physical_hash}"},
        )
    found = reader.inspect(path, dataset.state().vocab).logical_hash
    if found != data.logical_hash:
        raise IntegrityError(
            f"{path}: the rebuilt slice is corrupt: wanted the logical hash {data.logical_hash}, "
            f"got {found}",
            hint=f"remove the file, then odf pull {dataset.url}",
        )
    return path


def _has_rebuilt(stores: DatasetStores, data: DataSlice) -> bool:
    return stores.cache is not None and stores.cache.has(_rebuilt_key(data))


def _rebuilt_key(data: DataSlice) -> str:
    return f"{_REBUILT}{data.logical_hash}"


def _cache(stores: DatasetStores) -> ObjectStore:
    if stores.cache is None:
        raise NotFoundError(f"{stores.url}: there is no place here for what can be made again")
    return stores.cache


def _slices(dataset: ChainReader) -> "list[DataSlice]":
    events = (block.event for _, block in dataset.blocks())
    return [
        event.new_data
        for event in events
        if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None
    ]

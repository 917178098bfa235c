"""`odf tail`: the last rows of a dataset, from as few slices as they take."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odf.coordinator.context import Context
from odf.coordinator.reading import slice_reader
from odf.data.readers import SliceReader
from odf.errors import NotFoundError
from odf.metadata.model import AddData, DatasetVocabulary, DataSlice, ExecuteTransform
from odf.metadata.multiformats import Multihash
from odf.repo.dropped import dropped_slices, is_dropped, rebuilt_slice
from odf.workspace.workspace import DatasetHandle

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Tail:
    """The last rows of a dataset.

    Attributes:
        dataset: The dataset.
        table: The rows in the order of their offsets; None when the dataset has no data yet.
        vocab: What its system columns are called.
    """

    dataset: DatasetHandle
    table: "pa.Table | None"
    vocab: DatasetVocabulary


def tail(ctx: Context, ref: str, rows: int) -> Tail:
    """Read the last rows of a dataset.

    Args:
        ctx: The workspace.
        ref: Name or identity of the dataset.
        rows: How many rows to read at most.

    Raises:
        NotFoundError: There is no such dataset, or a slice is not here.
        IntegrityError: A block does not hash to its name, or a slice cannot be read.
    """
    handle = ctx.workspace.resolve(ref)
    if dropped_slices(handle.dataset.stores):
        from odf.coordinator.drop_data import bring_back  # noqa: PLC0415 - engines are heavy

        bring_back(ctx, handle)
    vocab = handle.dataset.state().vocab
    reader = slice_reader(ctx, handle)
    paths = _newest_slices(handle, rows, reader)
    return Tail(handle, reader.tail(paths, rows) if paths else None, vocab)


def _newest_slices(handle: DatasetHandle, rows: int, reader: SliceReader) -> list[Path]:
    """Find the slices that hold the last rows.

    Returns:
        Their paths, newest last.
    """
    found: list[Path] = []
    missing = rows
    for block_hash, block in handle.dataset.blocks():
        event = block.event
        if not isinstance(event, AddData | ExecuteTransform) or event.new_data is None:
            continue
        found.insert(0, _slice_path(handle, event.new_data, block_hash, reader))
        missing -= event.new_data.num_records
        if missing <= 0:
            break
    return found


def _slice_path(
    handle: DatasetHandle, data: DataSlice, block_hash: Multihash, reader: SliceReader
) -> Path:
    if is_dropped(handle.dataset, data):
        return rebuilt_slice(handle.dataset, data, reader)
    data_hash = data.physical_hash
    path = handle.dataset.stores.data.local_path(str(data_hash))
    if path is None or not path.is_file():
        raise NotFoundError(
            f"{handle.alias}: the slice data/{data_hash} of block {block_hash.short} is not here",
            hint=f"odf verify {handle.alias} lists everything that is missing",
        )
    return path

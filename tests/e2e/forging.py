"""A dishonest publisher: a chain whose hashes are right and whose rows are not what it says."""

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from odf.data.slices import SliceWriter, inspect_slice
from odf.metadata.model import ExecuteTransform
from odf.metadata.multiformats import Multihash
from odf.repo.files import slice_path
from odf.repo.objects import StagedObject
from odf.workspace.workspace import DatasetHandle


def commit_forged_slice(handle: DatasetHandle, scratch: Path) -> Multihash:
    """Replace the last step of a derivative dataset by one with other rows, all hashes right.

    Returns:
        The block that lies.
    """
    dataset = handle.dataset
    head = dataset.head()
    assert head is not None
    honest = dataset.block(head)
    assert isinstance(honest.event, ExecuteTransform)
    assert honest.event.new_data is not None
    rows = pq.read_table(slice_path(dataset, honest.event.new_data))
    place = rows.schema.get_field_index("name")
    names = [f"not {name}" for name in rows.column(place).to_pylist()]
    forged = scratch / "forged"
    state = dataset.state_at(head)
    with SliceWriter(forged, rows.schema) as writer:
        writer.write(rows.set_column(place, rows.schema.field(place), [names]))
    info = inspect_slice(forged, state.vocab)
    data = replace(
        honest.event.new_data,
        logical_hash=info.logical_hash,
        physical_hash=info.physical_hash,
        size=info.size,
    )
    previous = honest.prev_block_hash
    assert previous is not None
    dataset.stores.refs.set("head", str(previous), str(head))
    result = dataset.commit(
        [replace(honest.event, new_data=data)],
        expected_head=previous,
        system_time=honest.system_time,
        objects=[StagedObject("data", forged, info.physical_hash)],
    )
    return result.new_head

"""A derivative's history begun anew, after its inputs have become others.

See transform-and-verify.md §3: what says how the rows are made is kept, the rows are given up and
made again. Where the blocks before the first row are the same, they stay the same blocks.
"""

import secrets

from odf.errors import BadInputError
from odf.metadata.identity import ReferenceName
from odf.metadata.model import AddData, ExecuteTransform, MetadataEvent, Timestamp, UnknownEvent
from odf.metadata.multiformats import Multihash
from odf.repo.dataset import Dataset


def restart(dataset: Dataset, system_time: Timestamp) -> str:
    """Move the head to a history without any data, and keep the old one under a backup reference.

    The caller holds the dataset's lock. A crash in between leaves the old head.

    Args:
        dataset: A dataset with data.
        system_time: Time of the blocks that have to be made anew.

    Returns:
        The name of the backup reference.

    Raises:
        BadInputError: There is no data to give up.
    """
    head = dataset.head()
    kept_at: Multihash | None = None
    again: list[MetadataEvent] = []
    data_seen = False
    for block_hash, block in reversed(list(dataset.blocks())):
        if isinstance(block.event, AddData | ExecuteTransform):
            data_seen = True
        elif not data_seen:
            kept_at = block_hash
        elif not isinstance(block.event, UnknownEvent):  # one could not be committed to at all
            again.append(block.event)
    if head is None or kept_at is None or not data_seen:
        raise BadInputError(f"{dataset.url}: there is no data to give up", reason="no_data")
    branch = ReferenceName(f"restart-{secrets.token_hex(4)}")
    dataset.stage(branch, kept_at)
    if again:
        dataset.commit(again, expected_head=kept_at, system_time=system_time, reference=branch)
    return dataset.replace_head(branch, expected_head=head)

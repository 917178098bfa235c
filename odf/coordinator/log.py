"""`odf log`: the blocks of a chain, newest first, each with one line that says what it does."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from odf.coordinator.context import Context
from odf.coordinator.summaries import event_kind, summarize
from odf.metadata.model import MetadataBlock, Timestamp
from odf.metadata.multiformats import Multihash
from odf.workspace.workspace import DatasetHandle


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One block.

    Attributes:
        hash: Its hash.
        block: The block itself.
    """

    hash: Multihash
    block: MetadataBlock

    @property
    def number(self) -> int:
        """Its place in the chain; the seed is 0."""
        return self.block.sequence_number

    @property
    def system_time(self) -> Timestamp:
        """When it was made."""
        return self.block.system_time

    @property
    def kind(self) -> str:
        """The kind of its event, by the name in the specification."""
        return event_kind(self.block.event)

    @property
    def summary(self) -> str:
        """What its event says, in words."""
        return summarize(self.block.event)


def read_log(
    ctx: Context, ref: str, *, limit: int | None = None
) -> tuple[DatasetHandle, Iterator[LogEntry]]:
    """Walk the chain of a dataset from its head to its seed.

    Args:
        ctx: The workspace.
        ref: Name or identity of the dataset.
        limit: Stop after so many blocks.

    Returns:
        The dataset, and its blocks, newest first; read one by one as they are asked for.

    Raises:
        NotFoundError: There is no such dataset.
        IntegrityError: While iterating: a block is missing or does not hash to its name.
    """
    handle = ctx.workspace.resolve(ref)
    blocks = islice(handle.dataset.blocks(), limit)
    return handle, (LogEntry(hash=block_hash, block=block) for block_hash, block in blocks)

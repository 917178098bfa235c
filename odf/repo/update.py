"""What one pull of a dataset changes, gathered while it goes on."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from odf.clock import Clock
from odf.errors import OdfError
from odf.metadata.chain import ChainState
from odf.metadata.model import OperationType, Timestamp
from odf.metadata.multiformats import Multihash
from odf.repo.dataset import CommitResult, Dataset

if TYPE_CHECKING:  # reading a slice needs Arrow; telling what changed does not
    from odf.repo.accept import AcceptedSlice


@dataclass(frozen=True, slots=True)
class SetAside:
    """Rows of a source file that could not be read.

    Attributes:
        file: The source file as messages call it.
        rows: How many they are.
        path: The file with one JSON object a line for each of them.
    """

    file: str
    rows: int
    path: Path


@dataclass(frozen=True, slots=True)
class DatasetUpdate:
    """What one pull of a dataset changed.

    Attributes:
        old_head: Head before.
        new_head: Head after; the same if nothing changed.
        blocks: Blocks that were committed.
        records: Rows that were committed, by operation.
        watermark: The watermark after.
        warnings: What a person should know although it worked.
        reason: Why nothing changed, if so.
        error: What ended the pull; what is counted above was committed before.
        set_aside: Rows that could not be read, and where they are.
    """

    old_head: Multihash | None
    new_head: Multihash | None
    blocks: int = 0
    records: Mapping[OperationType, int] = field(default_factory=dict)
    watermark: Timestamp | None = None
    warnings: tuple[str, ...] = ()
    reason: str | None = None
    error: OdfError | None = None
    set_aside: tuple[SetAside, ...] = ()


class UpdateTally:
    """Counts what the commits of one pull add up to.

    Args:
        dataset: The dataset, before the first of them.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._old_head = dataset.head()
        self._blocks = 0
        self._records: Counter[OperationType] = Counter()
        self._warnings: dict[str, None] = {}
        self._set_aside: list[SetAside] = []

    def committed(self, result: CommitResult, accepted: "AcceptedSlice | None") -> None:
        """Count a commit."""
        self._blocks += len(result.hashes)
        if accepted is not None:
            self._records.update(accepted.info.ops)

    def warn(self, *messages: str) -> None:
        """Note what a person should know; the same thing once."""
        self._warnings.update(dict.fromkeys(messages))

    def set_aside(self, rows: SetAside) -> None:
        """Note rows that could not be read."""
        self._set_aside.append(rows)
        what = (
            "1 row cannot be read and is"
            if rows.rows == 1
            else f"{rows.rows} rows cannot be read and are"
        )
        self.warn(f"{rows.file}: {what} set aside in {rows.path}")

    def update(self, reason: str | None = None, error: OdfError | None = None) -> DatasetUpdate:
        """Return what changed.

        Args:
            reason: Why nothing more was done.
            error: What ended the pull, if it failed.
        """
        state = self._dataset.state()
        return DatasetUpdate(
            old_head=self._old_head,
            new_head=state.head,
            blocks=self._blocks,
            records=dict(self._records),
            watermark=state.watermark,
            warnings=tuple(self._warnings),
            reason=None if self._blocks else reason,
            error=error,
            set_aside=tuple(self._set_aside),
        )


def next_time(state: ChainState, clock: Clock) -> Timestamp:
    """Return the time of the next block.

    It is never before the last one, should the clock step back, and later than the last block of
    data by a millisecond at least: rows carry the time of their block in milliseconds, and which
    block they came in decides on whether they are late for a query.
    """
    now = Timestamp.from_datetime(clock.now())
    earliest = [state.system_time] if state.system_time else []
    if state.last_data_time is not None:
        earliest.append(Timestamp.from_epoch_ms(state.last_data_time.epoch_ms + 1))
    return max([now, *earliest])

"""Whether what a dataset retracts is what it said before (ODF "Representation of retractions").

Only whoever has the whole history of a key can tell, so this is asked by `verify` and never by a
pull, which must not get slower with the length of a chain. It is a second reading of the slices,
and only of datasets whose merge strategy has a key and that retract anything.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.data.readers import SliceReader
from odf.errors import OdfError
from odf.metadata.chain import ChainState
from odf.metadata.model import (
    DEFAULT_VOCAB,
    MergeStrategyChangelogStream,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    OperationType,
)
from odf.repo.layout import DatasetStores
from odf.repo.links import Link
from odf.repo.objects import ObjectRef, local_file

if TYPE_CHECKING:  # listing needs no Arrow
    from odf.data.retractions import WrongRetraction
    from odf.data.slices import SliceInfo

_SHOWN: Final = 3
_RETRACTING: Final = (OperationType.RETRACT, OperationType.CORRECT_FROM)
_KEYED: Final = (MergeStrategySnapshot, MergeStrategyChangelogStream, MergeStrategyUpsertStream)

Key = tuple[str, ...]
"""The columns of a primary key."""


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice of the history.

    Attributes:
        link: Its block.
        ref: The file.
        last_offset: Offset of its last row.
        key: The key in force; None if there is none.
        retracts: Whether it has retractions or corrections.
    """

    link: Link
    ref: ObjectRef
    last_offset: int
    key: Key | None
    retracts: bool


class Retractions:
    """Remembers the slices of a history while it is walked up, and checks them afterwards."""

    def __init__(self) -> None:
        self._slices: list[_Slice] = []
        self._key: Key | None = None
        self._vocab = DEFAULT_VOCAB
        self._damaged = False

    def note(self, link: Link, ref: ObjectRef, state: ChainState, info: "SliceInfo | None") -> None:
        """Take the next slice.

        Args:
            link: Its block.
            ref: The file.
            state: What the chain says at this block.
            info: What the inspection found; None if the slice is not what the chain says.
        """
        self._vocab = state.vocab
        if (sources := _merges(state)) is not None:
            self._key = sources
        if info is None or info.offset_end is None:
            self._damaged = True
            return
        retracts = any(info.ops.get(op) for op in _RETRACTING)
        self._slices.append(_Slice(link, ref, info.offset_end, self._key or None, retracts))

    def findings(
        self, stores: DatasetStores, scratch: Path, reader: SliceReader
    ) -> Iterator[tuple[Link, str]]:
        """Yield the blocks with wrong retractions, and what is wrong in words.

        Args:
            stores: The dataset.
            scratch: A folder for copies of slices, and for what does not fit into memory.
            reader: Reads the slices.

        Raises:
            OdfError: It cannot be told: a slice is damaged, or lacks the columns of the key.
        """
        keys = dict.fromkeys(one.key for one in self._slices if one.key and one.retracts)
        if keys and self._damaged:
            raise OdfError("not all slices are sound")
        for key in keys:
            slices = self._history(key, stores, scratch)
            yield from self._findings(reader.wrong_retractions(slices, key, self._vocab, scratch))

    def _findings(self, found: "Iterator[WrongRetraction]") -> Iterator[tuple[Link, str]]:
        counts: Counter[int] = Counter()
        shown: dict[int, list[WrongRetraction]] = {}
        ends = [one.last_offset for one in self._slices]
        for wrong in found:
            place = _place(ends, wrong.offset)
            counts[place] += 1
            some = sorted([*shown.get(place, ()), wrong], key=lambda found: found.offset)
            shown[place] = some[:_SHOWN]
        for place in sorted(counts):
            more = counts[place] - len(shown[place])
            what = [str(wrong) for wrong in shown[place]] + ([f"and {more} more"] if more else [])
            yield self._slices[place].link, f"what is retracted was not there: {'; '.join(what)}"

    def _history(
        self, key: Key, stores: DatasetStores, scratch: Path
    ) -> Iterator[tuple[Path, bool]]:
        """Yield the slices up to the last one that retracts, each to be read at once."""
        last = max(place for place, one in enumerate(self._slices) if one.retracts)
        for one in self._slices[: last + 1]:
            with local_file(stores.data, one.ref, scratch) as path:
                yield path, one.key == key and one.retracts


def _merges(state: ChainState) -> Key | None:
    """Return the key that all active sources share, () if they share none; None without source."""
    merges = [source.merge for source in state.push_sources]
    if state.polling_source is not None:
        merges.append(state.polling_source.merge)
    if not merges:
        return None
    keys = {tuple(merge.primary_key) if isinstance(merge, _KEYED) else () for merge in merges}
    return keys.pop() if len(keys) == 1 else ()


def _place(ends: list[int], offset: int) -> int:
    """Return which slice holds an offset."""
    return min(bisect_left(ends, offset), len(ends) - 1)

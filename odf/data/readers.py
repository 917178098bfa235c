"""Who reads slice files: this process, or one that stands apart from it.

What one's own engines wrote is read right here, which is quick. What strangers wrote is read by
`odf.data.apart`: a page header can ask a Parquet library for gigabytes, or end its process.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from odf.metadata.model import DatasetVocabulary

if TYPE_CHECKING:  # listing needs no Arrow
    import pyarrow as pa

    from odf.data.inspector import SliceInfo
    from odf.data.retractions import WrongRetraction

HistorySlice = tuple[Path, bool]
"""A slice, and whether wrong retractions in it are told of; the others are history only."""


class SliceReader(Protocol):
    """Reads slice files. Each method may be called from any thread."""

    def inspect(self, path: Path, vocab: DatasetVocabulary) -> "SliceInfo":
        """Say what a slice is; see `odf.data.inspector.inspect_slice`."""
        ...

    def tail(self, paths: Sequence[Path], n: int) -> "pa.Table":
        """Return the last rows of a dataset; see `odf.data.projection.read_tail`."""
        ...

    def pick(self, path: Path, columns: Sequence[str], values: Iterable[int]) -> "pa.Table":
        """Return rows by the values of a column; see `odf.data.projection.read_rows_with`."""
        ...

    def wrong_retractions(
        self,
        slices: Iterable[HistorySlice],
        key: Sequence[str],
        vocab: DatasetVocabulary,
        scratch: Path,
    ) -> "Iterator[WrongRetraction]":
        """Find wrong retractions; see `odf.data.retractions.wrong_retractions`.

        Each slice is read before the next one is asked for.
        """
        ...

    def close(self) -> None:
        """Let go of whatever helps with reading; calling it again does nothing."""
        ...


class OwnReader:
    """Reads in this process: for what one's own engines made of one's own data."""

    def inspect(self, path: Path, vocab: DatasetVocabulary) -> "SliceInfo":
        """See `SliceReader.inspect`."""
        from odf.data.inspector import inspect_slice  # noqa: PLC0415 - listing needs no Arrow

        return inspect_slice(path, vocab)

    def tail(self, paths: Sequence[Path], n: int) -> "pa.Table":
        """See `SliceReader.tail`."""
        from odf.data.projection import read_tail  # noqa: PLC0415 - see above

        return read_tail(paths, n)

    def pick(self, path: Path, columns: Sequence[str], values: Iterable[int]) -> "pa.Table":
        """See `SliceReader.pick`."""
        from odf.data.projection import read_rows_with  # noqa: PLC0415 - see above

        return read_rows_with(path, columns, values)

    def wrong_retractions(
        self,
        slices: Iterable[HistorySlice],
        key: Sequence[str],
        vocab: DatasetVocabulary,
        scratch: Path,
    ) -> "Iterator[WrongRetraction]":
        """See `SliceReader.wrong_retractions`."""
        from odf.data.retractions import wrong_retractions  # noqa: PLC0415 - see above

        return wrong_retractions(slices, key, vocab, scratch)

    def close(self) -> None:
        """There is nothing to let go of."""


OWN_READER = OwnReader()

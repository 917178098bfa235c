"""The history that a merge reads, folded so that its cost does not grow with the chain.

A ledger asks which keys were ever seen, a snapshot what the newest row of each key is. Both could
be answered from all slices, each time anew. Instead the engine now and then folds a stretch of
slices into one file that holds the one row of each key that counts. Such files take the place of
the slices they stand for, so a merge reads a few files that together are not much more than the
current state, and of the history only what came since. Sizes of files fall from the oldest to the
newest, and only neighbours of about one size are folded: a large file is not written anew for the
sake of a few new rows.

What is here is a cache (design §4, §5): an index with a checksum of its own, and the files with
theirs. It holds for one chain, one kind of merge, one engine release. What is missing, damaged or
belongs to another history is dropped, and the slices themselves are read: with the same result.
"""

import contextlib
import hashlib
import json
import secrets
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from odf.errors import OdfError
from odf.limits import (
    MAX_MERGE_INDEX_SIZE,
    MERGE_HISTORY_FILES,
    MERGE_HISTORY_KINDS,
    MERGE_HISTORY_ROWS,
)
from odf.metadata.model import (
    AddData,
    DatasetVocabulary,
    ExecuteTransform,
    MergeStrategy,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    MetadataBlock,
)
from odf.metadata.multiformats import Multihash
from odf.protocol.calls import Folding
from odf.protocol.releases import SPARK_RELEASE
from odf.repo.dataset import Dataset
from odf.repo.errors import InvalidIntervalError
from odf.repo.files import object_path
from odf.repo.objects import ObjectRef
from odf.store.files import write_file

_FORMAT: Final = 1
_INDEX: Final = "index.json"
_LEAST_FOLDED: Final = MERGE_HISTORY_FILES // 2

_KeyedStrategy = MergeStrategyLedger | MergeStrategySnapshot | MergeStrategyUpsertStream


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the history.

    Attributes:
        name: Physical hash of a slice, or name of a file in the folder of the cache.
        size: Its bytes.
        rows: Its rows.
        checksum: SHA-256 of a file of the cache; empty for a slice, whose name is its hash.
    """

    name: str
    size: int
    rows: int
    checksum: str = ""


class MergeHistory:
    """The files that one merge reads, oldest first.

    The caller holds the dataset's lock.

    Args:
        dataset: The dataset.
        head: The block up to which its history counts.
        merge: The strategy.
        vocab: Names of the system columns.
        folder: Folder of the dataset's cache, or None to do without.

    Raises:
        IntegrityError: A slice is missing or damaged.
    """

    def __init__(
        self,
        dataset: Dataset,
        head: Multihash,
        merge: _KeyedStrategy,
        vocab: DatasetVocabulary,
        folder: Path | None,
    ) -> None:
        self._dataset = dataset
        self._head = head
        self._drops_rows = not isinstance(merge, MergeStrategyLedger)
        self._folder = None if folder is None else folder / _kind(merge, vocab)
        self._files = self._current()
        self._folding: Folding | None = None
        self.paths: tuple[Path, ...] = tuple(self._checked(file) for file in self._files)

    def folding(self, staging: Path) -> Folding | None:
        """Say what the engine had better fold, if anything.

        Args:
            staging: Folder in which the file is to appear.
        """
        if self._folder is None:
            return None
        rows = [file.rows for file in self._files]
        stretch = stretch_to_fold(rows, drops_rows=self._drops_rows)
        if stretch is not None:
            output = staging / f"folded-{secrets.token_hex(8)}"
            self._folding = Folding(stretch.start, len(stretch), output)
        return self._folding

    def adopt(self, folded: Path | None) -> None:
        """Take a file that the engine folded, and remember what the history is.

        The file is made of what was committed before, so it holds whatever comes of the new data.
        That nothing can be written is no failure: it can be made again.

        Args:
            folded: The file, out of the engine's reach; None if there is none.
        """
        folder, folding = self._folder, self._folding
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if folded is not None and folding is not None:
                self._replace(folding, _moved(folded, folder))
            self._write_index(folder)
            _forget_files(folder, {file.name for file in self._files})
            _forget_kinds(folder)
        except (OSError, OdfError):
            return
        finally:
            if folded is not None:
                folded.unlink(missing_ok=True)

    def _current(self) -> list[_File]:
        """Return the remembered files and the slices since, or all slices."""
        known = None if self._folder is None else _read_index(self._folder)
        if known is not None:
            head, files = known
            with contextlib.suppress(InvalidIntervalError):
                return [*files, *_slices(self._dataset.blocks(self._head, until=head))]
        return _slices(self._dataset.blocks(self._head))

    def _checked(self, file: _File) -> Path:
        if not file.checksum:
            return object_path(
                self._dataset, ObjectRef("data", Multihash.parse(file.name), file.size)
            )
        # Looked at in `_current`.
        assert self._folder is not None  # noqa: S101
        return self._folder / file.name

    def _replace(self, folding: Folding, file: _File) -> None:
        self._files[folding.first : folding.first + folding.count] = [file]

    def _write_index(self, folder: Path) -> None:
        content = {
            "format": _FORMAT,
            "head": str(self._head),
            "files": [asdict(file) for file in self._files],
        }
        body = json.dumps(content, separators=(",", ":")).encode()
        write_file(folder / _INDEX, _checksum(body) + b"\n" + body, durable=False)


def keyed(merge: MergeStrategy) -> _KeyedStrategy | None:
    """Return the strategy if it reads the history, else None."""
    return merge if isinstance(merge, _KeyedStrategy) else None


def stretch_to_fold(rows: Sequence[int], *, drops_rows: bool) -> range | None:
    """Choose which neighbouring files to fold into one.

    Args:
        rows: How many rows each file has, oldest first.
        drops_rows: Whether rows that no longer count are dropped when everything is folded.

    Returns:
        Their places, which reach to the newest file; None if things are well as they are.
    """
    newer = sum(rows[1:])
    if drops_rows and newer >= MERGE_HISTORY_ROWS and 2 * newer > rows[0]:
        return range(len(rows))
    if len(rows) <= MERGE_HISTORY_FILES:
        return None
    first = len(rows) - _LEAST_FOLDED
    total = sum(rows[first:])
    while first > 0 and rows[first - 1] <= 2 * total:
        first -= 1
        total += rows[first]
    return range(first, len(rows))


def _slices(blocks: Iterable[tuple[Multihash, MetadataBlock]]) -> list[_File]:
    """Return the slices of blocks that are given newest first, oldest first."""
    found = []
    for _, block in blocks:
        event = block.event
        if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
            data = event.new_data
            interval = data.offset_interval
            rows = interval.end - interval.start + 1
            found.append(_File(str(data.physical_hash), data.size, rows))
    return found[::-1]


def _kind(merge: _KeyedStrategy, vocab: DatasetVocabulary) -> str:
    """Return the name under which is kept what holds for one kind of merge."""
    what = [
        _FORMAT,
        SPARK_RELEASE,
        "first" if isinstance(merge, MergeStrategyLedger) else "last",
        list(merge.primary_key),
        asdict(vocab),
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:24]


def _read_index(folder: Path) -> tuple[Multihash, list[_File]] | None:
    """Return the remembered head and files; None if there is nothing to be relied on."""
    try:
        with (folder / _INDEX).open("rb") as file:
            data = file.read(MAX_MERGE_INDEX_SIZE + 1)
        checksum, _, body = data.partition(b"\n")
        if checksum != _checksum(body):
            return None
        content: dict[str, Any] = json.loads(body)
        if content["format"] != _FORMAT:
            return None
        files = [_File(**entry) for entry in content["files"]]
        head = Multihash.parse(content["head"])
    except (OSError, OdfError, ValueError, KeyError, TypeError, RecursionError):
        return None
    whole = all(_is_whole(folder, file) for file in files if file.checksum)
    return (head, files) if whole else None


def _is_whole(folder: Path, file: _File) -> bool:
    path = folder / file.name
    try:
        return path.stat().st_size == file.size and _checksum_of(path) == file.checksum
    except OSError:
        return False


def _moved(folded: Path, folder: Path) -> _File:
    """Move a file into the cache and describe it."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # not needed to find that nothing is to be done
    from pyarrow import ArrowException  # noqa: PLC0415

    try:
        rows = pq.read_metadata(folded).num_rows
    except ArrowException as error:
        raise OSError(str(error)) from error
    name = f"{secrets.token_hex(16)}.parquet"
    file = _File(name, folded.stat().st_size, rows, _checksum_of(folded))
    shutil.move(folded, folder / name)
    return file


def _forget_files(folder: Path, kept: set[str]) -> None:
    for path in folder.iterdir():
        if path.name != _INDEX and path.name not in kept:
            path.unlink(missing_ok=True)


def _forget_kinds(folder: Path) -> None:
    """Drop what was kept for merges that a dataset had once; the oldest ones."""
    kinds = sorted(
        (path for path in folder.parent.iterdir() if path != folder),
        key=lambda path: path.stat().st_mtime,
    )
    for path in kinds[: max(0, len(kinds) + 1 - MERGE_HISTORY_KINDS)]:
        shutil.rmtree(path, ignore_errors=True)


def _checksum_of(path: Path) -> str:
    # Quicker than SHA3 by a factor of three; it finds accidents, and nobody else writes here.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()

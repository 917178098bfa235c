"""Blocks between their arrival, newest first, and their use, oldest first."""

import tempfile
from collections.abc import Iterator
from typing import Final

from odf.metadata.multiformats import Multihash

_IN_MEMORY: Final = 32 * 1024 * 1024


class BlockSpool:
    """The bytes of blocks, in memory if they are few and in a temporary file if they are many."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by close()
        self._index: list[tuple[Multihash, int, int]] = []

    def add(self, block_hash: Multihash, data: bytes) -> None:
        """Take the next older block."""
        self._index.append((block_hash, self._file.tell(), len(data)))
        self._file.write(data)

    def oldest_first(self) -> Iterator[tuple[Multihash, bytes]]:
        """Return all blocks."""
        for block_hash, start, length in reversed(self._index):
            self._file.seek(start)
            yield block_hash, self._file.read(length)

    def close(self) -> None:
        """Give up the space."""
        self._file.close()

"""The yardsticks of everything that hashes: `hashlib` and nothing else."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_THREADS = 2


def hash_files(paths: Sequence[Path], threads: int = _THREADS) -> None:
    """Hash files whole, the largest first, in threads."""
    ordered = sorted(paths, key=lambda path: path.stat().st_size, reverse=True)
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(_hash_file, ordered):
            pass


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha3_256").hexdigest()


def hash_halves(data: bytes) -> None:
    """Hash the two halves of some bytes in two threads."""
    view = memoryview(data)
    middle = len(view) // 2
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(
            lambda part: hashlib.sha3_256(part).digest(), (view[:middle], view[middle:])
        ):
            pass

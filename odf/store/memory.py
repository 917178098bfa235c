"""Objects and references in the memory of this process: for tests and for trying things out."""

import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from odf.errors import IntegrityError, NotFoundError
from odf.store.base import CHUNK_SIZE, check_expected, check_key


class MemoryObjectStore:
    """Objects in a dictionary.

    Args:
        name: What messages call the store.
    """

    def __init__(self, name: str = "memory") -> None:
        self._name = name
        self._objects: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        """The name it was given."""
        return self._name

    def _read(self, key: str) -> bytes:
        try:
            return self._objects[check_key(key)]
        except KeyError:
            raise NotFoundError(f"{self._name}/{key}: there is no such object") from None

    def has(self, key: str) -> bool:
        """See `ObjectStore.has`."""
        return check_key(key) in self._objects

    def size(self, key: str) -> int:
        """See `ObjectStore.size`."""
        return len(self._read(key))

    def get(self, key: str, max_size: int) -> bytes:
        """See `ObjectStore.get`."""
        data = self._read(key)
        if len(data) > max_size:
            raise IntegrityError(
                f"{self._name}/{key}: longer than the {max_size} bytes that were expected"
            )
        return data

    def chunks(self, key: str, max_size: int) -> Iterator[bytes]:
        """See `ObjectStore.chunks`."""
        data = self.get(key, max_size)
        for start in range(0, len(data), CHUNK_SIZE):
            yield data[start : start + CHUNK_SIZE]

    def open(self, key: str) -> BinaryIO:
        """See `ObjectStore.open`."""
        return io.BytesIO(self._read(key))

    def put(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put`."""
        self._objects[check_key(key)] = bytes(data)

    def put_chunks(self, key: str, chunks: Iterator[bytes]) -> None:
        """See `ObjectStore.put_chunks`."""
        self.put(key, b"".join(chunks))

    def put_many(self, items: Iterator[tuple[str, bytes]]) -> None:
        """See `ObjectStore.put_many`."""
        for key, data in items:
            self.put(key, data)

    def put_file(self, key: str, path: Path, *, move: bool = False) -> None:
        """See `ObjectStore.put_file`."""
        self.put(key, path.read_bytes())
        if move:
            path.unlink()

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        self._objects.pop(check_key(key), None)

    def keys(self) -> Iterator[str]:
        """See `ObjectStore.keys`."""
        yield from list(self._objects)

    def local_path(self, key: str) -> Path | None:
        """See `ObjectStore.local_path`."""
        check_key(key)
        return None


class MemoryReferenceStore:
    """References in a dictionary.

    Args:
        name: What messages call the store.
    """

    def __init__(self, name: str = "memory") -> None:
        self._name = name
        self._values: dict[str, str] = {}
        self._mutex = threading.Lock()

    @property
    def url(self) -> str:
        """The name it was given."""
        return self._name

    def get(self, name: str) -> str | None:
        """See `ReferenceStore.get`."""
        return self._values.get(check_key(name))

    def set(self, name: str, value: str, expected: str | None) -> None:
        """See `ReferenceStore.set`."""
        check_key(name)
        with self._mutex:
            check_expected(f"{self._name}/{name}", self._values.get(name), expected)
            self._values[name] = value

    def delete(self, name: str, expected: str) -> None:
        """See `ReferenceStore.delete`."""
        check_key(name)
        with self._mutex:
            check_expected(f"{self._name}/{name}", self._values.get(name), expected)
            del self._values[name]

    def names(self) -> tuple[str, ...]:
        """See `ReferenceStore.names`."""
        return tuple(sorted(self._values))

"""Objects and references as files of a folder on this machine."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from odf.errors import IntegrityError, NotFoundError
from odf.limits import MAX_REF_SIZE
from odf.store.base import CHUNK_SIZE, check_expected, check_key
from odf.store.files import (
    make_folder,
    move_file,
    os_errors,
    replace_file,
    sync_folder,
    write_file,
)


def _open_plain(path: Path) -> BinaryIO:
    """Open a regular file; links, pipes and devices in a stranger's folder are refused."""
    return os.fdopen(_descriptor(path), "rb")


def _descriptor(path: Path) -> int:
    with os_errors("read", path):
        # Without O_NONBLOCK the open itself would wait for ever on a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IntegrityError(f"{path}: not a plain file")
    return descriptor


def _read_small(path: Path, most: int) -> bytes:
    """Read a file up to so many bytes, without the buffer that larger files are read through.

    Chains are made of small files: their walk spends its time here.
    """
    descriptor = _descriptor(path)
    try:
        data = os.read(descriptor, min(most, CHUNK_SIZE))
        while len(data) < most and (more := os.read(descriptor, min(most - len(data), CHUNK_SIZE))):
            data += more
        return data
    finally:
        os.close(descriptor)


def _too_long(path: Path, max_size: int) -> IntegrityError:
    return IntegrityError(f"{path}: longer than the {max_size} bytes that were expected")


class LocalObjectStore:
    """Objects as files directly in one folder, named by their keys.

    Args:
        folder: The folder; it is made with the first write.
        durable: Whether a written object must survive a power cut. False for caches.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._folder = folder
        self._durable = durable

    @property
    def url(self) -> str:
        """The folder's path."""
        return str(self._folder)

    def _path(self, key: str) -> Path:
        return self._folder / check_key(key)

    def has(self, key: str) -> bool:
        """See `ObjectStore.has`."""
        path = self._path(key)
        with os_errors("look at", path):
            return path.is_file() and not path.is_symlink()

    def size(self, key: str) -> int:
        """See `ObjectStore.size`."""
        path = self._path(key)
        with os_errors("look at", path):
            return path.stat(follow_symlinks=False).st_size

    def get(self, key: str, max_size: int) -> bytes:
        """See `ObjectStore.get`."""
        path = self._path(key)
        with os_errors("read", path):
            data = _read_small(path, max_size + 1)
        if len(data) > max_size:
            raise _too_long(path, max_size)
        return data

    def chunks(self, key: str, max_size: int) -> Iterator[bytes]:
        """See `ObjectStore.chunks`."""
        path = self._path(key)
        seen = 0
        with _open_plain(path) as file, os_errors("read", path):
            while chunk := file.read(CHUNK_SIZE):
                seen += len(chunk)
                if seen > max_size:
                    raise _too_long(path, max_size)
                yield chunk

    def open(self, key: str) -> BinaryIO:
        """See `ObjectStore.open`."""
        return _open_plain(self._path(key))

    def put(self, key: str, data: bytes) -> None:
        """See `ObjectStore.put`."""
        path = self._path(key)
        with os_errors("write", path):
            make_folder(self._folder)
            write_file(path, data, durable=self._durable)

    def put_chunks(self, key: str, chunks: Iterator[bytes]) -> None:
        """See `ObjectStore.put_chunks`."""
        path = self._path(key)
        with os_errors("write", path):
            make_folder(self._folder)
            write_file(path, chunks, durable=self._durable)

    def put_many(self, items: Iterator[tuple[str, bytes]]) -> None:
        """See `ObjectStore.put_many`."""
        with os_errors("write", self._folder):
            make_folder(self._folder)
            for key, data in items:
                replace_file(self._path(key), data, durable=self._durable)
            sync_folder(self._folder)

    def put_file(self, key: str, path: Path, *, move: bool = False) -> None:
        """See `ObjectStore.put_file`."""
        if move:
            target = self._path(key)
            with os_errors("write", target):
                make_folder(self._folder)
                move_file(path, target)
            return
        with path.open("rb") as file:
            self.put_chunks(key, iter(lambda: file.read(CHUNK_SIZE), b""))

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        path = self._path(key)
        with os_errors("remove", path):
            path.unlink(missing_ok=True)

    def keys(self) -> Iterator[str]:
        """See `ObjectStore.keys`."""
        with os_errors("list", self._folder):
            if self._folder.is_dir():
                with os.scandir(self._folder) as entries:
                    yield from (
                        entry.name
                        for entry in entries
                        if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
                    )

    def local_path(self, key: str) -> Path | None:
        """See `ObjectStore.local_path`."""
        return self._path(key)


class LocalReferenceStore:
    """References as small files of one folder, written without a newline (wire-format.md §f).

    Args:
        folder: The folder; it is made with the first write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def url(self) -> str:
        """The folder's path."""
        return str(self._folder)

    def get(self, name: str) -> str | None:
        """See `ReferenceStore.get`."""
        path = self._folder / check_key(name)
        try:
            with _open_plain(path) as file:
                data = file.read(MAX_REF_SIZE + 1)
        except NotFoundError:
            return None
        if len(data) > MAX_REF_SIZE:
            raise _too_long(path, MAX_REF_SIZE)
        return data.decode("utf-8", "replace").strip()

    def set(self, name: str, value: str, expected: str | None) -> None:
        """See `ReferenceStore.set`."""
        path = self._folder / check_key(name)
        with os_errors("write", path):
            make_folder(self._folder)
            with _locked_folder(self._folder):
                check_expected(str(path), self.get(name), expected)
                write_file(path, value.encode())

    def delete(self, name: str, expected: str) -> None:
        """See `ReferenceStore.delete`."""
        path = self._folder / check_key(name)
        if not self._folder.is_dir():
            check_expected(str(path), None, expected)
        with os_errors("remove", path), _locked_folder(self._folder):
            check_expected(str(path), self.get(name), expected)
            path.unlink()
            sync_folder(self._folder)

    def names(self) -> tuple[str, ...]:
        """See `ReferenceStore.names`."""
        return tuple(sorted(LocalObjectStore(self._folder).keys()))


@contextlib.contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Keep others from changing references between our look and our write."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Some network file systems cannot lock a folder. The dataset's own lock, which every
        # writer of ours holds at this point, is what counts there.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

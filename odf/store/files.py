"""Writing files so that a crash at any moment leaves the old one or the new one, never a mix."""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from odf.errors import AuthError, IntegrityError, NotFoundError, TransportError
from odf.store.base import CHUNK_SIZE, PENDING_PREFIX


@contextlib.contextmanager
def os_errors(action: str, path: Path) -> Iterator[None]:
    """Turn what the system reports into errors that name the file."""
    try:
        yield
    except FileNotFoundError:
        raise NotFoundError(f"{path}: there is no such file") from None
    except PermissionError as error:
        raise AuthError(f"{path}: not allowed to {action}: {error.strerror}") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise IntegrityError(
                f"{path}: a symbolic link where a plain file was wanted"
            ) from error
        raise TransportError(f"{path}: cannot {action}: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: a rename is on disk only after this."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder and what is missing above it, durably; an existing one is left as it is."""
    if folder.is_dir():
        return
    if not folder.parent.is_dir():
        make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=mode)
    sync_folder(folder.parent)


@contextlib.contextmanager
def staged_file(folder: Path, mode: int = 0o666) -> Iterator[tuple[BinaryIO, Path]]:
    """Open a new file under a dotted name in `folder`; it is removed unless it was renamed away.

    Staging in the folder of the destination keeps the rename inside one file system.
    """
    path = folder / f"{PENDING_PREFIX}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file, path
    finally:
        path.unlink(missing_ok=True)


def write_file(
    path: Path, data: bytes | Iterable[bytes], *, mode: int = 0o666, durable: bool = True
) -> None:
    """Write a whole file in place of whatever has its name.

    Args:
        path: Where; its folder must exist.
        data: The content, at once or in pieces.
        mode: Permissions before the umask.
        durable: Whether the content must survive a power cut once this returns. What can be made
            again (a cache) does without.
    """
    replace_file(path, data, mode=mode, durable=durable)
    if durable:
        sync_folder(path.parent)


def replace_file(
    path: Path, data: bytes | Iterable[bytes], *, mode: int = 0o666, durable: bool = True
) -> None:
    """Do as `write_file` but leave the folder to be synced by the caller, once for many files."""
    with staged_file(path.parent, mode) as (file, staged):
        for piece in [data] if isinstance(data, bytes) else data:
            file.write(piece)
        file.flush()
        if durable:
            os.fsync(file.fileno())
        staged.rename(path)


def move_file(source: Path, path: Path) -> None:
    """Move a file to its final name, durably, also from another file system."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        source.rename(path)
    except OSError:
        # Another file system (or one that does not allow it): copy, then give up the source.
        with source.open("rb") as file:
            replace_file(path, iter(lambda: file.read(CHUNK_SIZE), b""))
        source.unlink()
    sync_folder(path.parent)

"""Objects that hash to their names: the only bytes that are written or relied on."""

import contextlib
import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odf.errors import IntegrityError, NotFoundError
from odf.metadata.model import AddData, AnyEvent, ExecuteTransform
from odf.metadata.multiformats import SHA3_256, Multihash
from odf.repo.layout import ObjectKind
from odf.store.base import CHUNK_SIZE, ObjectStore


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object that a block names.

    Attributes:
        kind: Slice or checkpoint.
        hash: SHA3-256 of its bytes; its name.
        size: Its length in bytes.
    """

    kind: ObjectKind
    hash: Multihash
    size: int

    @property
    def path(self) -> str:
        """Its place in the dataset, for messages: `data/f1620…` or `checkpoints/f1620…`."""
        return f"{'data' if self.kind == 'data' else 'checkpoints'}/{self.hash}"


_CLOCK_TICK: Final = 0.02
"""Seconds in which two changes of a file may get the same time from the file system."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What tells one state of a file from every other one.

    The time of change is set by the system with every write, and by nobody else; writing through a
    mapping may come without. So it is for files that no stranger can have mapped: what engines
    wrote is copied before it is looked at (`Operation.take_output`).

    Attributes:
        device: Where it is.
        inode: Which file it is there.
        size: Its length in bytes.
        changed_ns: When it was last changed, or moved.
    """

    device: int
    inode: int
    size: int
    changed_ns: int

    @classmethod
    def settled(cls, path: Path) -> "FileStamp":
        """Look at a file after its last change is so old that a later one shows."""
        age = time.time() - path.stat().st_ctime
        if 0 <= age < _CLOCK_TICK:
            time.sleep(_CLOCK_TICK - age)
        return cls.of(path)

    @classmethod
    def of(cls, path: Path) -> "FileStamp":
        """Look at a file."""
        found = path.stat()
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class StagedObject:
    """A file that is to become an object with the next commit; it is moved.

    Attributes:
        kind: Slice or checkpoint.
        path: The file.
        hash: SHA3-256 of its bytes, as the event that names it says.
        stamp: What the file looked like before this process hashed it; it is hashed again if it
            looks otherwise by now, or if this is not known.
    """

    kind: ObjectKind
    path: Path
    hash: Multihash
    stamp: FileStamp | None = None


def objects_of(event: AnyEvent) -> tuple[ObjectRef, ...]:
    """Return the objects that an event adds, the slice before the checkpoint."""
    if not isinstance(event, AddData | ExecuteTransform):
        return ()
    found: list[ObjectRef] = []
    if event.new_data:
        found.append(ObjectRef("data", event.new_data.physical_hash, event.new_data.size))
    if event.new_checkpoint:
        checkpoint = event.new_checkpoint
        found.append(ObjectRef("checkpoint", checkpoint.physical_hash, checkpoint.size))
    return tuple(found)


def hash_chunks(chunks: Iterable[bytes]) -> tuple[Multihash, int]:
    """Return the SHA3-256 and the number of the bytes."""
    digest = hashlib.sha3_256()
    size = 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
    return Multihash(SHA3_256, digest.digest()), size


def hash_file(path: Path) -> tuple[Multihash, int]:
    """Return the SHA3-256 and the size of a file."""
    with path.open("rb") as file:
        return hash_chunks(iter(lambda: file.read(CHUNK_SIZE), b""))


def checked(chunks: Iterable[bytes], ref: ObjectRef, where: str) -> Iterator[bytes]:
    """Pass an object's bytes on, and fail after the last one if they are not the object.

    Args:
        chunks: The bytes.
        ref: What they should be.
        where: Where they come from, for the message.

    Raises:
        IntegrityError: Another hash or size.
    """
    digest = hashlib.sha3_256()
    size = 0
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
        yield chunk
    if problem := difference(ref, Multihash(SHA3_256, digest.digest()), size):
        raise IntegrityError(
            f"{where}: {ref.path} is corrupt: {problem}", details={"object": ref.path}
        )


def difference(ref: ObjectRef, got: Multihash, size: int) -> str | None:
    """Say how bytes differ from the object that they should be; None if they are that object."""
    if size != ref.size:
        return f"wanted {ref.size} bytes, got {size} bytes"
    if got != ref.hash:
        return f"wanted bytes that hash to {ref.hash}, got {got}"
    return None


def problem_with(store: ObjectStore, ref: ObjectRef) -> str | None:
    """Hash an object where it is, and say what is wrong with it; None if nothing is.

    Raises:
        AuthError, TransportError: It could not be read.
    """
    try:
        got, size = hash_chunks(store.chunks(str(ref.hash), ref.size))
    except NotFoundError:
        return "missing"
    except IntegrityError as error:
        return error.message
    return difference(ref, got, size)


def place(store: ObjectStore, staged: StagedObject) -> ObjectRef:
    """Move a staged file to its name, once it is sure what it is; return the object it is now.

    An object that has the name already is hashed too: what is right stays, what is corrupt is
    replaced by the right bytes.

    Raises:
        IntegrityError: The file does not hash to what was announced.
    """
    if staged.stamp is not None and staged.stamp == FileStamp.of(staged.path):
        ref = ObjectRef(staged.kind, staged.hash, staged.stamp.size)
    else:
        got, size = hash_file(staged.path)
        ref = ObjectRef(staged.kind, staged.hash, size)
        if problem := difference(ref, got, size):
            raise IntegrityError(
                f"{staged.path}: not the object that it was announced as: {problem}"
            )
    if problem_with(store, ref) is None:
        staged.path.unlink()
    else:
        store.put_file(str(staged.hash), staged.path, move=True)
    return ref


@contextlib.contextmanager
def local_file(store: ObjectStore, ref: ObjectRef, scratch: Path) -> Iterator[Path]:
    """Give an object as a file: where it is, or a copy in `scratch` for as long as it is used."""
    path = store.local_path(str(ref.hash))
    if path is not None:
        yield path
        return
    copy = scratch / str(ref.hash)
    with copy.open("wb") as file:
        file.writelines(store.chunks(str(ref.hash), ref.size))
    try:
        yield copy
    finally:
        copy.unlink()

"""What a place for bytes can do, no matter where it is.

An object store keeps immutable objects under flat names (hashes, mostly). A reference store keeps
short mutable texts that change by compare-and-swap. Nothing here knows what the bytes mean:
whether an object hashes to its name is asked one layer up, in `odf.repo`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from odf.errors import BadInputError, ConflictError

CHUNK_SIZE: Final = 256 * 1024
"""Bytes moved at a time: large enough for the disk, small beside everything else in memory."""

PENDING_PREFIX: Final = ".pending-"
"""Objects that are still being written; the same prefix as other ODF implementations use."""

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class InvalidKeyError(BadInputError):
    """A name that could leave its folder, hide, or hold anything but plain characters."""

    kind = "invalid_key"


def check_key(key: str) -> str:
    """Return the key if it is a safe file name.

    Args:
        key: Letters, digits, `.`, `_` and `-`, not starting with a dot; at most 200 characters.

    Raises:
        InvalidKeyError: The key could name something outside of the store's folder.
    """
    if not _KEY.fullmatch(key):
        raise InvalidKeyError(
            f"{key[:80]!r} is not a name that objects or references can have: wanted letters, "
            "digits, '.', '_' and '-', not starting with a dot",
            reason="invalid_key",
        )
    return key


def check_expected(where: str, current: str | None, expected: str | None) -> None:
    """Make sure that a reference says what somebody who wants to change it believes.

    Args:
        where: The reference, for the message.
        current: What it says; None if there is none.
        expected: What it must say; None if there must be none.

    Raises:
        ConflictError: It says something else.
    """
    if current != expected:
        raise ConflictError(
            f"{where}: changed by somebody else: wanted {expected or 'no reference'}, "
            f"got {current or 'no reference'}",
            hint="try again",
        )


class ObjectStore(Protocol):
    """Immutable objects under flat names.

    Every method that takes a key raises `InvalidKeyError` for one that is not a plain name, and
    every method that reads raises `NotFoundError` for a key that is not there. Remote stores raise
    `AuthError` and `TransportError` as well.
    """

    @property
    def url(self) -> str:
        """Where the store is, for messages."""
        ...

    def has(self, key: str) -> bool:
        """Tell whether the object is there; says nothing about its bytes."""
        ...

    def size(self, key: str) -> int:
        """Return the object's size in bytes."""
        ...

    def get(self, key: str, max_size: int) -> bytes:
        """Read a small object whole.

        Raises:
            IntegrityError: It is longer than `max_size` bytes.
        """
        ...

    def chunks(self, key: str, max_size: int) -> Iterator[bytes]:
        """Read an object piece by piece.

        Raises:
            IntegrityError: It is longer than `max_size` bytes (raised when that is seen).
        """
        ...

    def open(self, key: str) -> BinaryIO:
        """Open an object for reading from its beginning."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write an object: whole and durable when this returns, or not at all."""
        ...

    def put_chunks(self, key: str, chunks: Iterator[bytes]) -> None:
        """Write an object from pieces; nothing is written if the pieces end in an error."""
        ...

    def put_many(self, items: Iterator[tuple[str, bytes]]) -> None:
        """Write several objects; all of them are durable when this returns."""
        ...

    def put_file(self, key: str, path: Path, *, move: bool = False) -> None:
        """Write an object from a file; `move` gives the file up (it is renamed if possible)."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""
        ...

    def keys(self) -> Iterator[str]:
        """List all objects in no particular order, without those still being written."""
        ...

    def local_path(self, key: str) -> Path | None:
        """Return the object's file if the store is on this machine, whether it exists or not."""
        ...


class ReferenceStore(Protocol):
    """Short texts under flat names that change by compare-and-swap."""

    @property
    def url(self) -> str:
        """Where the store is, for messages."""
        ...

    def get(self, name: str) -> str | None:
        """Return what the reference says, without blanks around it; None if there is none."""
        ...

    def set(self, name: str, value: str, expected: str | None) -> None:
        """Change a reference, if it still says what the caller believes.

        Args:
            name: The reference.
            value: What it says from now on.
            expected: What it must say before; None for a reference that must not exist.

        Raises:
            ConflictError: It says something else.
        """
        ...

    def delete(self, name: str, expected: str) -> None:
        """Remove a reference, if it still says what the caller believes.

        Args:
            name: The reference.
            expected: What it must say before.

        Raises:
            ConflictError: It says something else, or is not there.
        """
        ...

    def names(self) -> tuple[str, ...]:
        """List all references, sorted. A store that cannot be listed knows only `head`."""
        ...

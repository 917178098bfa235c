"""`Decompress` of zip: one member of an archive, found by its path or by a glob.

Members never become files under their own names: only one is read, as a stream.
"""

import struct
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from odf.data.archive_members import matching
from odf.errors import BadInputError, TransportError
from odf.limits import MAX_LISTED_MEMBERS, MAX_ZIP_DIRECTORY, PREPARE_CHUNK

from .base import Bounds, Stream
from .files import FileStream

_ENCRYPTED = 0x1 | 0x40 | 0x2000  # the member, strongly, and the table of contents
_METHODS: Final = {
    0: "stored",
    8: "deflate",
    9: "deflate64",
    12: "bzip2",
    14: "LZMA",
    93: "Zstandard",
    95: "XZ",
    98: "PPMd",
}
_SUPPORTED = (0, 8)
_TOO_MUCH = MAX_ZIP_DIRECTORY + 1
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OverflowError),
    *(NotImplementedError, RuntimeError, ValueError, LookupError, OSError),
)
"""All that the library raises over archives that are damaged, or that someone tampered with."""


class UnzipStream:
    """Unpacks one member of a zip archive.

    The table of contents of an archive is at its end, so one that comes from another step is
    kept on disk first, in a file without a name.

    Args:
        upstream: The archive.
        sub_path: Which member: its path, or a glob that one path matches; None if it has only
            one.
        where: File and step, for messages.
        bounds: How much may come out.
        folder: Where to keep the archive if need be.
    """

    def __init__(
        self, upstream: Stream, sub_path: str | None, where: str, bounds: Bounds, folder: Path
    ) -> None:
        self._upstream = upstream
        self._sub_path = sub_path
        self._where = where
        self._bounds = bounds
        self._folder = folder
        self._kept: IO[bytes] | None = None
        self._member: IO[bytes] | None = None
        self._size = 0

    def read(self) -> bytes:
        """Return the next piece; see `Stream`."""
        file = self._seekable()
        try:
            if self._member is None:
                self._member = self._open(file)
            piece = self._member.read(PREPARE_CHUNK)
        except _DAMAGE as error:
            raise self._bad(
                f"the archive is damaged or cut off: {str(error) or type(error).__name__}",
                hint=self._other_format(file),
            ) from None
        self._size += len(piece)
        self._bounds.check(self._where, self._size, self._upstream.weight())
        return piece

    def weight(self) -> int:
        """Return what stands behind the archive."""
        return self._upstream.weight()

    def cancel(self) -> None:
        """Cancel the step before."""
        self._upstream.cancel()

    def close(self) -> None:
        """Close what is open of the archive."""
        for stream in (self._member, self._kept):
            if stream is not None:
                stream.close()

    def _other_format(self, file: IO[bytes]) -> str | None:
        """Say what to do where the data is no archive at all."""
        file.seek(0)
        begin = file.read(4)
        if begin.startswith(b"\x1f\x8b"):
            return "it is packed by gzip: set `format: Gzip`"
        if not begin.startswith(b"PK"):
            return f"it begins with {begin.hex(' ')}: if it is not packed, leave the step out"
        return None

    def _seekable(self) -> IO[bytes]:
        if isinstance(self._upstream, FileStream):
            return self._upstream.file
        if self._kept is None:
            try:
                self._kept = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - see close
                while piece := self._upstream.read():
                    self._kept.write(piece)
                self._kept.flush()
            except OSError as error:
                raise TransportError(
                    f"{self._where}: cannot keep the archive in {self._folder}: {error.strerror}",
                    hint="is there room on the disk?",
                ) from None
        return self._kept

    def _open(self, file: IO[bytes]) -> IO[bytes]:
        archive = zipfile.ZipFile(_Bounded(file, self._where))
        members = [member for member in archive.infolist() if not member.filename.endswith("/")]
        member = self._choose(members)
        if member.flag_bits & _ENCRYPTED:
            raise self._bad(
                f"the member {member.filename!r} is encrypted",
                hint="unpack it by other means: a manifest must not hold a password",
            )
        if member.compress_type not in _SUPPORTED:
            method = _METHODS.get(member.compress_type, f"number {member.compress_type}")
            raise self._bad(
                f"the member {member.filename!r} is compressed by the method {method}; "
                "wanted deflate or stored",
                hint="a Pipe step can unpack it with another program",
            )
        return archive.open(member)

    def _choose(self, members: Sequence[zipfile.ZipInfo]) -> zipfile.ZipInfo:
        """Find the one member that is meant."""
        if self._sub_path is not None:
            named = matching(self._sub_path, [member.filename for member in members])
            found = [members[index] for index in named]
            if len(found) == 1:
                return found[0]
            if found:
                raise self._ambiguous(f"subPath {self._sub_path!r} matches", found)
            raise self._bad(
                f"no member matches subPath {self._sub_path!r}",
                problems=_listed(members),
                hint="subPath is a member's path, or a glob such as data/*.csv",
            )
        # What Finder adds beside each file is nobody's data.
        data = [member for member in members if not member.filename.startswith("__MACOSX/")]
        if len(data) == 1:
            return data[0]
        if not data:
            raise self._bad("the archive has no members")
        raise self._ambiguous("the archive has", data)

    def _ambiguous(self, what: str, found: Sequence[zipfile.ZipInfo]) -> BadInputError:
        return self._bad(
            f"{what} {len(found)} members; wanted one",
            problems=_listed(found),
            hint="say which one with subPath",
        )

    def _bad(
        self, what: str, *, problems: Sequence[str] = (), hint: str | None = None
    ) -> BadInputError:
        return BadInputError(
            f"{self._where}: {what}",
            reason="bad_archive",
            problems=problems,
            hint=hint or "fetch the file again, and check it with: unzip -t",
        )


class _Bounded:
    """A file for the zip library, which reads a table of contents of any size in one go."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file = file
        self._where = where

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(_TOO_MUCH if size < 0 else min(size, _TOO_MUCH))
        if len(data) == _TOO_MUCH:
            raise BadInputError(
                f"{self._where}: the archive's table of contents is larger than "
                f"{MAX_ZIP_DIRECTORY} bytes",
                reason="too_large",
                hint="a Pipe step can unpack it with another program",
            )
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: who opened the file closes it."""


def _listed(members: Sequence[zipfile.ZipInfo]) -> list[str]:
    lines = [f"{member.filename} ({member.file_size} bytes)" for member in members]
    more = len(lines) - MAX_LISTED_MEMBERS
    return lines if more <= 0 else [*lines[:MAX_LISTED_MEMBERS], f"and {more} more"]

"""A download in progress, which can be taken up again after a failure.

Beside the bytes (`<key>.part`) lies what tells that the server still has the same ones
(`<key>.json`). Only then are the missing bytes asked for: a strong ETag, or the same
`Last-Modified` together with the same length.
"""

import fcntl
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from odf.errors import TransportError

_FINISHED, _SUFFIX = "fetched-", ".data"


@dataclass(frozen=True, slots=True)
class Validators:
    """What a server says about the version of a body.

    Attributes:
        etag: Its ETag, verbatim.
        last_modified: Its `Last-Modified`, verbatim.
        length: Its whole length in bytes, if it is known.
    """

    etag: str | None
    last_modified: str | None
    length: int | None

    @property
    def precondition(self) -> str | None:
        """Value of `If-Range`, or None if the body cannot be resumed."""
        if self._is_strong:
            return self.etag
        return self.last_modified if self.length is not None else None

    def agrees(self, other: "Validators") -> bool:
        """Tell whether a partial answer belongs to the same version of the body."""
        if self._is_strong:
            same_length = None in (self.length, other.length) or self.length == other.length
            return self.etag == other.etag and same_length
        return self.length == other.length and self.last_modified == other.last_modified

    @property
    def _is_strong(self) -> bool:
        return self.etag is not None and self.etag.startswith('"')


class PartFile:
    """The file that a download is written to. Use as a context manager.

    Two downloads of one source at a time do not meet: the second one gets a file of its own,
    which is not kept when it fails.

    Args:
        folder: The cache folder.
        key: Name of the download, safe in a path.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder = folder
        self._notes = folder / f"{key}.json"
        self._path = folder / f"{key}.part"
        self._shared = True
        self._done = False
        self.size = 0
        self.validators: Validators | None = None
        self._file: BinaryIO

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = self._open()
        except OSError as problem:
            raise self._failure(problem) from None
        if self._shared:
            self.validators = self._read_notes()
        self.size = self._file.seek(0, os.SEEK_END)
        if self.validators is None or self.validators.precondition is None or not self.size:
            self._reset()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        keep = self.validators is not None and self.validators.precondition is not None
        with suppress(OSError):  # what could not be written is missing from the part, no more
            self._file.close()
        if not self._done and not (self._shared and keep and self.size):
            self._remove()

    def restart(self, validators: Validators | None) -> None:
        """Throw away what is there and begin with a body of these validators."""
        try:
            self._reset()
            self.validators = validators
            if self._shared and validators is not None and validators.precondition is not None:
                self._notes.write_text(json.dumps(asdict(validators)), encoding="utf-8")
        except OSError as problem:
            raise self._failure(problem) from None

    def write(self, chunk: bytes) -> None:
        """Append bytes.

        Raises:
            TransportError: The disk is full, or cannot be written.
        """
        try:
            self._file.write(chunk)
        except OSError as problem:
            raise self._failure(problem) from None
        self.size += len(chunk)

    def finish(self) -> Path:
        """Give the complete file a name of its own and hand it to the caller."""
        try:
            self._file.flush()
            handle, name = tempfile.mkstemp(dir=self._folder, prefix=_FINISHED, suffix=_SUFFIX)
            os.close(handle)
            self._path.replace(name)
            if self._shared:
                self._notes.unlink(missing_ok=True)
        except OSError as problem:
            raise self._failure(problem) from None
        self._done = True
        return Path(name)

    def _open(self) -> BinaryIO:
        file = self._path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between opening and locking another process may have moved the file away.
            if self._path.exists() and os.path.samestat(os.fstat(file.fileno()), self._path.stat()):
                return file
        except BlockingIOError:
            pass
        file.close()
        handle, name = tempfile.mkstemp(dir=self._folder, suffix=".part")
        self._path, self._shared = Path(name), False
        return os.fdopen(handle, "a+b")

    def _read_notes(self) -> Validators | None:
        try:
            notes = json.loads(self._notes.read_bytes())
            found = Validators(notes["etag"], notes["last_modified"], notes["length"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        texts = (found.etag, found.last_modified)
        sound = all(text is None or isinstance(text, str) for text in texts)
        return found if sound and isinstance(found.length, int | None) else None

    def _reset(self) -> None:
        self._file.truncate(0)
        if self._shared:
            self._notes.unlink(missing_ok=True)
        self.size, self.validators = 0, None

    def _remove(self) -> None:
        self._path.unlink(missing_ok=True)
        if self._shared:
            self._notes.unlink(missing_ok=True)

    def _failure(self, problem: OSError) -> TransportError:
        return TransportError(
            f"cannot write the download into {self._folder}: {problem.strerror}",
            hint="make room on that disk, or make the folder writable",
        )


def remove_downloads(folder: Path) -> None:
    """Delete finished downloads that pulls that were killed left; their dataset must be locked."""
    for path in folder.glob(f"{_FINISHED}*{_SUFFIX}"):
        path.unlink(missing_ok=True)

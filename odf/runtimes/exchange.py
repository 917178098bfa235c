"""The two folders through which files reach an engine and come back.

Every operation gets a folder of random name on either side. What goes in is a hard link where the
engine sees the folder read-only, and a copy elsewhere, so that no engine can change a dataset's
own files. What comes out was made by a process that may be hostile: outputs are reached only
relative to a descriptor of the folder that was made here, whatever the engine has put in its
place since, and copied out of the engine's reach before anybody looks at them.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from odf.errors import EngineError, NotFoundError

_SIMPLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_PRIVATE = 0o700
_COPIED_AT_ONCE: Final = 1 << 30
_BUFFER: Final = 1 << 20
_CANNOT_COPY: Final = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
"""What the system says where it copies nothing by itself, which depends on file systems."""


class Operation:
    """The files of one call to an engine. Made by `Exchange.operation`."""

    def __init__(self, exchange: "Exchange", name: str) -> None:
        self._exchange = exchange
        self._name = name
        self._inputs = exchange.host_in / name
        exchange.make_folder(self._inputs)
        exchange.make_folder(exchange.host_out / name)
        self._outputs = os.open(exchange.host_out / name, os.O_RDONLY | os.O_DIRECTORY)
        self._open = True

    def add_input(self, path: Path, name: str) -> str:
        """Show a file to the engine.

        Args:
            path: A regular file; symbolic links are followed here, so that the engine meets none.
            name: What it is called on the engine's side, unique within the operation.

        Returns:
            The path on the engine's side.

        Raises:
            NotFoundError: If there is no such file.
        """
        target = self._inputs / _checked(name)
        try:
            self._exchange.place(path.resolve(strict=True), target)
        except FileNotFoundError as error:
            raise NotFoundError(f"{path}: the file for the engine does not exist") from error
        return f"{self._exchange.engine_in}/{self._name}/{name}"

    def output(self, name: str) -> tuple[Path, str]:
        """Name a file that the engine is to write.

        Returns:
            Its path on this side (for messages only, see `take_output`) and on the engine's.
        """
        _checked(name)
        here = self._exchange.host_out / self._name / name
        return here, f"{self._exchange.engine_out}/{self._name}/{name}"

    def scratch(self) -> str:
        """Make a folder for temporary files and return its path on the engine's side."""
        with contextlib.suppress(FileExistsError):
            os.mkdir("scratch", _PRIVATE, dir_fd=self._outputs)
            if self._exchange.owner is not None:
                os.chown("scratch", *self._exchange.owner, dir_fd=self._outputs)
        return f"{self._exchange.engine_out}/{self._name}/scratch"

    def take_output(self, name: str, to: Path) -> bool:
        """Take over a file that the engine wrote, to a place that the engine cannot reach.

        It is copied, on some file systems without copying any bytes: the engine may still have
        the file that it wrote open, or mapped, and could change it at any time.

        Args:
            name: As given to `output`.
            to: Where it goes. Must not exist.

        Returns:
            Whether there was such a file.

        Raises:
            EngineError: If the engine left anything but a regular file with this one name.
        """
        _checked(name)
        if os.path.lexists(to):
            raise EngineError(f"{to}: the place for the engine's output is taken")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            source = os.open(name, flags, dir_fd=self._outputs)
        except FileNotFoundError:
            return False
        except OSError as error:
            found = os.stat(name, dir_fd=self._outputs, follow_symlinks=False)
            raise _not_plain(name, found) from error
        found = os.fstat(source)
        if not _is_plain(found):
            os.close(source)
            raise _not_plain(name, found)
        with os.fdopen(source, "rb") as reader:
            try:
                with to.open("xb") as writer:
                    _copy(reader, writer, found.st_size)
            except BaseException:
                to.unlink(missing_ok=True)
                raise
        os.unlink(name, dir_fd=self._outputs)
        return True

    def close(self) -> None:
        """Remove both folders with all that is in them."""
        if not self._open:
            return
        self._open = False
        os.close(self._outputs)
        shutil.rmtree(self._inputs, ignore_errors=True)
        shutil.rmtree(self._exchange.host_out / self._name, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Exchange:
    """Where one engine and its coordinator meet on disk.

    Args:
        host_in: Folder of the inputs on this side; made if it is missing.
        host_out: Folder of the outputs on this side; made if it is missing.
        engine_in: The same folder as the engine sees it.
        engine_out: The same folder as the engine sees it.
        link: Whether inputs may be hard links: only if the engine cannot write to `host_in`.
        owner: User and group that the engine runs as, if they are not those of this process,
            which is root then.
    """

    def __init__(
        self,
        host_in: Path,
        host_out: Path,
        engine_in: str,
        engine_out: str,
        *,
        link: bool,
        owner: tuple[int, int] | None = None,
    ) -> None:
        self.host_in = host_in
        self.host_out = host_out
        self.engine_in = engine_in
        self.engine_out = engine_out
        self.link = link
        # The folders of an engine that another command started belong to its user already.
        self.owner = owner or _foreign_owner(host_out)
        for folder in (host_in, host_out):
            folder.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            self.make_folder(folder, exist_ok=True)

    def operation(self) -> Operation:
        """Begin an operation: a folder on either side, with a name that cannot be guessed."""
        return Operation(self, secrets.token_hex(16))

    def make_folder(self, folder: Path, *, exist_ok: bool = False) -> None:
        """Make a folder that only this user and the engine can enter."""
        folder.mkdir(mode=_PRIVATE, exist_ok=exist_ok)
        if self.owner is not None:
            os.chown(folder, *self.owner)

    def place(self, source: Path, target: Path) -> None:
        """Put a file into the engine's sight without letting it change the original."""
        if self.link and self._may_read(source) and _try_link(source, target):
            return
        shutil.copyfile(source, target)
        if self.owner is not None:
            os.chown(target, *self.owner)

    def _may_read(self, source: Path) -> bool:
        """Whether the engine's user can read a file as it is."""
        return self.owner is None or bool(source.stat().st_mode & stat.S_IROTH)

    def close(self) -> None:
        """Remove both folders."""
        shutil.rmtree(self.host_in, ignore_errors=True)
        shutil.rmtree(self.host_out, ignore_errors=True)


def _foreign_owner(folder: Path) -> tuple[int, int] | None:
    """Return whom a folder belongs to, if it is there and that is not this process's user."""
    if os.geteuid() != 0 or not folder.is_dir():
        return None
    found = folder.stat()
    return None if found.st_uid == 0 else (found.st_uid, found.st_gid)


def _checked(name: str) -> str:
    if not _SIMPLE_NAME.fullmatch(name):
        raise EngineError(f"{name!r} cannot be the name of a file that an engine shares")
    return name


def _try_link(source: Path, target: Path) -> bool:
    """Link, or say that this is not possible here: other file system, other owner, no links."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True


def _copy(reader: BinaryIO, writer: BinaryIO, size: int) -> None:
    """Copy so many bytes, by the system itself where it can."""
    left = size
    try:
        while left and (
            done := os.copy_file_range(reader.fileno(), writer.fileno(), min(left, _COPIED_AT_ONCE))
        ):
            left -= done
    except OSError as error:
        if error.errno not in _CANNOT_COPY:
            raise
        reader.seek(size - left)
        writer.seek(size - left)
        while left and (data := reader.read(min(left, _BUFFER))):
            writer.write(data)
            left -= len(data)


def _is_plain(found: os.stat_result) -> bool:
    # A second name would let the engine change the file after it was checked.
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _not_plain(name: str, found: os.stat_result) -> EngineError:
    if stat.S_ISLNK(found.st_mode):
        what = "a symbolic link"
    elif stat.S_ISREG(found.st_mode):
        what = f"a file with {found.st_nlink} names"
    elif stat.S_ISDIR(found.st_mode):
        what = "a folder"
    else:
        what = "a special file"
    return EngineError(
        f"the engine left {what} as its output {name!r}; wanted a regular file",
        hint="Nothing was taken. The engine breaks its contract: check where it comes from.",
    )

"""A child process that serves an engine: its start, its logs, its end.

The child reads its standard input: when the pipe ends, because this process closed it or was
killed, it ends as well. Standard output and error go to files in the folder of the run, whose
last lines become part of the error if the child dies.
"""

import contextlib
import functools
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from odf.errors import EngineUnavailableError
from odf.limits import (
    ENGINE_LOG_TAIL_LINES,
    ENGINE_LOG_TAIL_SIZE,
    ENGINE_OBITUARY_SECONDS,
    ENGINE_START_SECONDS,
    ENGINE_STOP_SECONDS,
    HOST_SILENCE_SECONDS,
    MAX_SOCKET_PATH,
)
from odf.runtimes.text import exit_status, last_lines

SOCKET_NAME = "engine.sock"
_POLL_SECONDS = 0.002
_SOCKET_FOLDER = re.compile(r"odf-([0-9]+)-[a-z0-9_]{8}")


@dataclass(frozen=True, slots=True)
class Obituary:
    """How an engine ended.

    Attributes:
        status: Its exit status in words.
        log: The file with its standard error.
        last_lines: The end of that file, safe to print.
    """

    status: str
    log: Path
    last_lines: tuple[str, ...]


class SocketFolder:
    """A private folder with a path short enough for a Unix socket.

    Args:
        preferred: Where to make it, if paths there are short enough; for example the user's
            runtime folder.
    """

    def __init__(self, preferred: Path | None = None) -> None:
        self.path = self._make(preferred)

    @property
    def socket(self) -> Path:
        """Path of the socket in the folder."""
        return self.path / SOCKET_NAME

    @staticmethod
    def _make(preferred: Path | None) -> Path:
        tried = []
        for parent in (preferred, Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108
            if parent is None or not parent.is_dir():
                continue
            prefix = f"odf-{os.getpid()}-"
            longest = parent / f"{prefix}12345678" / SOCKET_NAME
            if len(os.fsencode(longest)) > MAX_SOCKET_PATH:
                tried.append(f"{parent} is too long")
                continue
            remove_left_sockets(parent)
            try:
                # mkdtemp makes folders that only this user can enter.
                return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            except OSError as error:
                tried.append(f"{parent}: {error.strerror}")
        raise EngineUnavailableError(
            f"no folder for the engine's socket ({'; '.join(tried) or 'there is none'}; a socket's "
            f"path has at most {MAX_SOCKET_PATH} bytes)",
            hint="Set TMPDIR to a folder with a short path that you can write to.",
        )

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


class EngineProcess:
    """A started child. Leads a process group of its own.

    Args:
        argv: What to run.
        environment: All of the child's environment.
        run_dir: Folder for `engine.stdout.txt` and `engine.stderr.txt`; made if it is missing.
        socket_path: Where the child will serve, as seen from here.
        what: What it is called in messages.
        outlives: Whether it stays when this process ends: it gets no lifeline then.

    Raises:
        EngineUnavailableError: If it cannot be started at all.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        run_dir: Path,
        socket_path: Path,
        what: str,
        *,
        outlives: bool = False,
    ) -> None:
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log = run_dir / "engine.stderr.txt"
        self._what = what
        self._socket = socket_path
        self._reaping = threading.Lock()
        with (
            (run_dir / "engine.stdout.txt").open("ab") as stdout,
            self.log.open("ab") as stderr,
        ):
            self._log_start = stderr.tell()
            start = functools.partial(
                subprocess.Popen[bytes],
                argv,
                stdin=subprocess.DEVNULL if outlives else subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                env=dict(environment),
                cwd="/",
                start_new_session=True,
            )
            self._parent = ThreadPoolExecutor(1, thread_name_prefix="engine-parent")
            try:
                # A child that dies with its parent dies with the *thread* that started it: so
                # one that lives exactly as long as the child.
                self._process = self._parent.submit(start).result()
            except OSError as error:
                self._parent.shutdown()
                raise EngineUnavailableError(
                    f"{what} cannot be started: {argv[0]}: {error.strerror}"
                ) from error

    @property
    def pid(self) -> int:
        """Process id of the child, on this side of any sandbox."""
        return self._process.pid

    def wait_ready(
        self, seconds: float = ENGINE_START_SECONDS, *, others: Sequence["EngineProcess"] = ()
    ) -> None:
        """Wait until the child accepts connections.

        Args:
            seconds: How long.
            others: Children without which this one cannot be reached.

        Raises:
            EngineUnavailableError: If one of them ends before, or it does not come up in time.
        """
        deadline = time.monotonic() + seconds
        while not _accepts(self._socket):
            for child in (self, *others):
                if child._ended(_POLL_SECONDS):  # noqa: SLF001  # of this same class
                    raise child._unavailable(f"ended at its start ({child._status()})")  # noqa: SLF001
            if time.monotonic() > deadline:
                raise self._unavailable(f"did not come up within {seconds:g} s")

    def has_ended(self) -> bool:
        """Tell whether the child is gone, without waiting for it."""
        return self._ended(0)

    @property
    def was_killed(self) -> bool:
        """Whether the child was ended by a signal, so that it left undone what it would have."""
        return self._process.returncode is not None and self._process.returncode < 0

    def obituary(self) -> Obituary | None:
        """Say how the child ended, or None if it lives.

        Meant for the moment after its connection broke: waits a little for an exit status.
        """
        if not self._ended(ENGINE_OBITUARY_SECONDS):
            return None
        return Obituary(self._status(), self.log, self._last_lines())

    def detach(self) -> None:
        """Leave the child alone from here on: it was started to outlive this process."""
        # Popen would warn that nobody waited for it.
        self._process.returncode = 0
        self._parent.shutdown()

    def close(self) -> None:
        """Cut the lifeline, and kill what has not ended in time, with all its own children."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        if not self._ended(ENGINE_STOP_SECONDS):
            with self._reaping:
                if self._process.returncode is None:
                    self._reap()
        self._parent.shutdown()

    def _ended(self, seconds: float) -> bool:
        """Wait for the child's end and clean up behind it; one of those who wait does."""
        deadline = time.monotonic() + seconds
        while not self._reaped_if_ended():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _reaped_if_ended(self) -> bool:
        # The lock is not held while somebody waits: others may want to know without waiting.
        with self._reaping:
            if self._process.returncode is None:
                look = os.WEXITED | os.WNOWAIT | os.WNOHANG
                if os.waitid(os.P_PID, self._process.pid, look) is None:
                    return False
                self._reap()
            return True

    def _reap(self) -> None:
        """Kill the child's group and take its exit status; the lock is held, and it is there yet.

        Children of the child that stayed behind are killed before it is reaped: until then its
        number, which is also that of the group, cannot belong to anybody else.
        """
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _unavailable(self, how: str) -> EngineUnavailableError:
        lines = self._last_lines()
        said = f": {lines[-1]}" if lines else ""
        return EngineUnavailableError(
            f"{self._what} {how}{said}",
            hint=f"Its log: {self.log}",
            details={"log": str(self.log), "stderr": list(lines)},
        )

    def _status(self) -> str:
        return exit_status(self._process.returncode)

    def _last_lines(self) -> tuple[str, ...]:
        return tail_of(self.log, self._log_start)


def tail_of(log: Path, start: int) -> tuple[str, ...]:
    """Return the last lines of a log, safe to print.

    Args:
        log: The file.
        start: How long it was when it began to be of interest.
    """
    with log.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(start, end - ENGINE_LOG_TAIL_SIZE))
        return last_lines(file.read(), ENGINE_LOG_TAIL_LINES)


def remove_left_sockets(parent: Path) -> tuple[Path, ...]:
    """Remove the folders of sockets that were left by processes that were killed.

    One is left if the process that made it is gone and nobody serves in it: an engine that stays
    for the next command outlives its starter.

    Args:
        parent: Where such folders are made.

    Returns:
        Those that were removed.
    """
    removed = []
    with contextlib.suppress(OSError):
        for folder in parent.iterdir():
            found = _SOCKET_FOLDER.fullmatch(folder.name)
            if found is None or Path(f"/proc/{found[1]}").exists() or not _is_own(folder):
                continue
            if not _accepts(folder / SOCKET_NAME):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return tuple(removed)


def _is_own(folder: Path) -> bool:
    """Whether a folder is this user's; root's engines own those that they serve in."""
    with contextlib.suppress(OSError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and os.geteuid() in (found.st_uid, 0)
    return False


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # Without a bound it would wait for one that hangs while others wait for it already.
        probe.settimeout(HOST_SILENCE_SECONDS)
        try:
            probe.connect(str(path))
        except (BlockingIOError, TimeoutError):
            return True
        except OSError:
            return False
    return True

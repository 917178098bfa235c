"""Who may write: one process at a time, known by name, and never a leftover of a dead one."""

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol

from odf.clock import Clock, SystemClock
from odf.errors import LockedError
from odf.store.files import make_folder, os_errors

_POLL_SECONDS: Final = 0.05
_MAX_HOLDER_SIZE: Final = 4096


class WriterLock(Protocol):
    """A right to write that one holder has at a time."""

    def hold(self, timeout: float = 0.0) -> contextlib.AbstractContextManager[None]:
        """Hold the lock for the length of a `with` block; the same thread may hold it again.

        Args:
            timeout: Seconds to wait for another holder to finish.

        Raises:
            LockedError: Somebody else holds it, named in the message.
        """
        ...


class FileLock:
    """A lock between processes, by `flock` on one file.

    The system drops it when the process ends, however it ends, so it never needs to be broken.
    The file says who holds it; it is never removed, because a lock on a removed file locks
    nothing.

    Args:
        path: The lock's file; its folder is made if need be.
        what: What is locked, for messages.
        command: What the holder is doing, for the messages of others.
        clock: Where the time of taking the lock comes from.
        sleep: How to wait for another holder.
    """

    def __init__(
        self,
        path: Path,
        *,
        what: str,
        command: str = "odf",
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path = path
        self._what = what
        self._command = command
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._mutex = threading.RLock()
        self._depth = 0

    @contextlib.contextmanager
    def hold(self, timeout: float = 0.0) -> Iterator[None]:
        """See `WriterLock.hold`."""
        if not self._mutex.acquire(timeout=max(timeout, 0.0)):
            raise self._locked()
        try:
            if self._depth:
                yield
                return
            with self._taken(timeout):
                self._depth = 1
                try:
                    yield
                finally:
                    self._depth = 0
        finally:
            self._mutex.release()

    @contextlib.contextmanager
    def _taken(self, timeout: float) -> Iterator[None]:
        with os_errors("lock", self._path):
            make_folder(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o666)
        try:
            with os_errors("lock", self._path):
                self._wait(descriptor, timeout)
            # A full disk, on which data can be deleted all the same: then nobody is named.
            with contextlib.suppress(OSError):
                self._sign(descriptor)
            try:
                yield
            finally:
                # A killed holder stays named, and it does no harm: the lock is what counts.
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def _wait(self, descriptor: int, timeout: float) -> None:
        tries = 1 + max(0, int(timeout / _POLL_SECONDS))
        for left in reversed(range(tries)):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not left:
                    raise self._locked() from None
                self._sleep(_POLL_SECONDS)
            else:
                return

    def _sign(self, descriptor: int) -> None:
        holder = {
            "pid": os.getpid(),
            "host": os.uname().nodename,
            "command": self._command,
            "since": self._clock.now().isoformat(timespec="seconds"),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)

    def _locked(self) -> LockedError:
        holder: dict[str, object] = {}
        # The holder may be writing its name at this moment: then nobody is named.
        with contextlib.suppress(OSError, ValueError), self._path.open("rb") as file:
            found = json.loads(file.read(_MAX_HOLDER_SIZE))
            holder = found if isinstance(found, dict) else {}
        who = (
            f"process {holder.get('pid')} on {holder.get('host')} ({holder.get('command')}, "
            f"since {holder.get('since')})"
            if holder
            else "another process"
        )
        return LockedError(
            f"{self._what} is being written to by {who}",
            hint="wait until it has finished, or end it",
            details={"holder": holder},
        )


class MemoryLock:
    """A lock between the threads of this process.

    Args:
        what: What is locked, for messages.
    """

    def __init__(self, what: str = "the dataset") -> None:
        self._what = what
        self._mutex = threading.RLock()

    @contextlib.contextmanager
    def hold(self, timeout: float = 0.0) -> Iterator[None]:
        """See `WriterLock.hold`."""
        if not self._mutex.acquire(timeout=max(timeout, 0.0)):
            raise LockedError(f"{self._what} is being written to by another thread")
        try:
            yield
        finally:
            self._mutex.release()

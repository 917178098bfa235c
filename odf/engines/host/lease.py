"""How long a host stays for the next command (design §6 "a host can stay warm").

A host that outlives the command that started it serves a second Unix socket beside the engine's.
Whoever uses the host holds a connection there, its lease. With no lease for a while the host ends
by itself; one that nobody ever came to ends sooner, as its starter was killed before it could be
found. A lease that breaks off without a word was held by a command that was killed: what it
had asked for may run for hours and nobody waits for it, so the host ends as soon as no other
command uses it.

One line each way: `lease` is answered by `ok` or `ending`, and given back by `bye`; `status` by a
line of JSON; `stop` by `ok`, and the host ends at once.
"""

import contextlib
import json
import os
import socket
import threading
import time
import traceback
from collections.abc import Callable
from io import BufferedRWPair
from pathlib import Path
from typing import Final

from odf.limits import ENGINE_START_SECONDS

REST_SECONDS: Final = 10.0
"""Idle time after which memory is given back: longer than between two commands of one script."""

_LONGEST_LINE: Final = 64
_RETRY_SECONDS: Final = 0.1


class Leases:
    """Counts who uses a host, and ends it when nobody does.

    Args:
        path: Where to serve; the folder keeps other users out.
        idle_seconds: How long the host stays without a lease.
        stop: Ends the host. May be called more than once.
        rest: Gives back memory; called when the host has been idle for a while.
        first_seconds: How long the first lease may be in coming.
    """

    def __init__(
        self,
        path: Path,
        idle_seconds: float,
        *,
        stop: Callable[[], None],
        rest: Callable[[], None],
        first_seconds: float = ENGINE_START_SECONDS,
    ) -> None:
        self._idle_seconds = idle_seconds
        self._patience = min(first_seconds, idle_seconds)
        self._stop = stop
        self._rest = rest
        self._lock = threading.Lock()
        self._held = 0
        self._ending = False
        self._idle_since = time.monotonic()
        self._timers: tuple[threading.Timer, ...] = ()
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(path))
        self._server.listen()

    def serve(self) -> None:
        """Accept connections in threads of their own; returns at once."""
        with self._lock:
            self._wait()
        threading.Thread(target=self._accept, daemon=True, name="leases").start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
                threading.Thread(
                    target=self._answer, args=(connection,), daemon=True, name="lease"
                ).start()
            except (OSError, RuntimeError):
                # Too many files or threads at this moment: whoever asks waits, or comes again.
                traceback.print_exc()
                time.sleep(_RETRY_SECONDS)

    def _answer(self, connection: socket.socket) -> None:
        # Closing the stream writes what could not be said, once more.
        with contextlib.suppress(OSError), connection, connection.makefile("rwb") as stream:
            match stream.readline(_LONGEST_LINE).strip():
                case b"lease" if self._take():
                    # Who is gone before it is told has asked for nothing.
                    clean = True
                    try:
                        _say(stream, "ok")
                        clean = False
                        clean = stream.readline(_LONGEST_LINE).strip() == b"bye"
                    finally:
                        self._give_back(clean=clean)
                case b"lease":
                    _say(stream, "ending")
                case b"status":
                    _say(stream, json.dumps(self._status()))
                case b"stop":
                    _say(stream, "ok")
                    self._stop()

    def _take(self) -> bool:
        with self._lock:
            if self._ending:
                return False
            self._held += 1
            self._patience = self._idle_seconds
            for timer in self._timers:
                timer.cancel()
            return True

    def _give_back(self, *, clean: bool) -> None:
        with self._lock:
            self._held -= 1
            self._ending = self._ending or not clean
            if self._held:
                return
            if not self._ending:
                self._wait()
                return
        self._stop()

    def _wait(self) -> None:
        """Begin to be idle."""
        self._idle_since = time.monotonic()
        self._timers = (
            threading.Timer(min(REST_SECONDS, self._patience / 2), self._rest_if_idle),
            threading.Timer(self._patience, self._end_if_idle),
        )
        for timer in self._timers:
            timer.daemon = True
            timer.start()

    def _rest_if_idle(self) -> None:
        with self._lock:
            idle = not self._held
        if idle:
            self._rest()

    def _end_if_idle(self) -> None:
        with self._lock:
            # A lease that came in this moment is answered before, or is told that it is too late.
            self._ending = self._ending or not self._held
            end = not self._held
        if end:
            self._stop()

    def _status(self) -> dict[str, object]:
        with self._lock:
            idle = 0.0 if self._held else time.monotonic() - self._idle_since
            return {"pid": os.getpid(), "leases": self._held, "idle_seconds": round(idle, 1)}


def _say(stream: BufferedRWPair, line: str) -> None:
    stream.write(line.encode() + b"\n")
    stream.flush()

"""Who may work at a time: a few operations together, or one that needs the whole machine."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Lets operations in, in the order in which they come as far as they do not fit together.

    Args:
        at_once: How many operations may run together.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._changed = threading.Condition()
        self._running = 0
        self._waiting_alone = 0

    def wait_until_wanted_alone(self, seconds: float) -> bool:
        """Wait until somebody waits until nothing runs; say whether that came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting_alone > 0, seconds)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Wait until there is room; others may run beside this."""
        with self._changed:
            # Who waits for the whole machine would wait forever if others went on coming in.
            self._changed.wait_for(
                lambda: self._running < self._at_once and not self._waiting_alone
            )
            self._running += 1
        try:
            yield
        finally:
            self._leave(1)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nothing runs; nothing else does until this ends."""
        with self._changed:
            self._waiting_alone += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._running == 0)
                self._running = self._at_once
            finally:
                self._waiting_alone -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            self._leave(self._at_once)

    @contextmanager
    def alone_if_idle(self) -> Iterator[bool]:
        """Keep others out if nothing runs, and say whether that is so; waits for nobody."""
        with self._changed:
            idle = self._running == 0 and not self._waiting_alone
            if idle:
                self._running = self._at_once
        try:
            yield idle
        finally:
            if idle:
                self._leave(self._at_once)

    def _leave(self, places: int) -> None:
        with self._changed:
            self._running -= places
            self._changed.notify_all()

"""Work that is done side by side, whose results come in the order in which it was given."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

T = TypeVar("T")

MOST_THREADS: Final = 32
"""How many pieces of work there are at most, however many operations an engine takes at once."""

Running = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""Told how to end a call, for as long as the call runs."""


class Beside(Generic[T]):
    """Runs work in threads, a bounded number at a time. A context manager.

    Leaving it early, for whatever reason, ends the calls that the work has begun and waits for
    its threads, so that nothing goes on behind the caller's back.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="beside")
        self._pending: deque[Future[T]] = deque()
        self._lock = threading.Lock()
        self._ends: dict[int, Callable[[], object]] = {}
        self._ending = False

    def add(self, work: Callable[[Running], T], at_once: int) -> Iterator[T]:
        """Begin some work as soon as there is room, and give out what is finished till then.

        Args:
            work: Does it; tells how to end the calls that it begins.
            at_once: How many pieces may be unfinished or not given out, this one included.

        Yields:
            Results of earlier work, in its order.

        Raises:
            Exception: What earlier work raised, in its place among the results.
        """
        while len(self._pending) >= min(at_once, MOST_THREADS):
            yield self._pending.popleft().result()
        self._pending.append(self._threads.submit(work, self._running))

    def rest(self) -> Iterator[T]:
        """Wait for all work and give out its results, like `add`."""
        while self._pending:
            yield self._pending.popleft().result()

    @contextmanager
    def _running(self, end: Callable[[], object]) -> Iterator[None]:
        with self._lock:
            self._ends[id(end)] = end
            ending = self._ending
        if ending:
            end()
        try:
            yield
        finally:
            with self._lock:
                del self._ends[id(end)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._ending = True
            ends = tuple(self._ends.values())
        for end in ends:
            end()
        self._threads.shutdown(wait=True, cancel_futures=True)

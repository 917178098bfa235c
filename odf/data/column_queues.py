"""Work on the columns of a table in threads: in order within a column, in any order across them.

No column waits for another: each has a queue of its own, and whichever thread is free takes the
longest queue that nobody works on. So the threads end together, though columns differ in cost.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

_MAX_QUEUED_BYTES: Final = 32 << 20  # of Arrow data that waits; bounds the memory of fast readers

Work = Callable[[pa.Array], None]
"""What is done to the arrays of one column, one after the other."""


class ColumnQueues:
    """Queues of arrays, one for each column, and the threads that empty them.

    Args:
        work: What to do to the arrays of each column; must let other threads run meanwhile, as
            Arrow's kernels and `hashlib` do.
        threads: How many threads to start.
    """

    def __init__(self, work: Sequence[Work], threads: int) -> None:
        self._work = tuple(work)
        self._waiting: list[deque[pa.Array]] = [deque() for _ in work]
        self._sizes = [0] * len(self._work)
        self._is_busy = [False] * len(self._work)
        self._error: BaseException | None = None
        self._stopped = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, name=f"odf-column-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, arrays: Sequence[pa.Array]) -> None:
        """Put one array into each queue; waits while too much is queued.

        Raises:
            BaseException: What the work on an earlier array raised.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._error or sum(self._sizes) < _MAX_QUEUED_BYTES)
            self._raise()
            for column, array in enumerate(arrays):
                self._waiting[column].append(array)
                self._sizes[column] += array.nbytes + 1
            self._changed.notify_all()

    def finish(self) -> None:
        """Wait until all is done, and end the threads.

        Raises:
            BaseException: What the work on an array raised.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._error or not (any(self._sizes) or any(self._is_busy))
            )
        self.stop()
        self._raise()

    def stop(self) -> None:
        """End the threads, whatever is still waiting."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            column, array = taken
            error: BaseException | None = None
            try:
                self._work[column](array)
            except BaseException as raised:  # noqa: BLE001 - raised again where it is waited for
                error = raised
            with self._changed:
                self._is_busy[column] = False
                self._error = self._error or error
                self._changed.notify_all()

    def _take(self) -> tuple[int, pa.Array] | None:
        """Take the next array of the longest queue; None when there is nothing to do, ever."""
        with self._changed:
            while not self._stopped and self._error is None:
                free = [c for c, size in enumerate(self._sizes) if size and not self._is_busy[c]]
                if free:
                    column = max(free, key=self._sizes.__getitem__)
                    array = self._waiting[column].popleft()
                    self._is_busy[column] = True
                    self._sizes[column] -= array.nbytes + 1
                    return column, array
                self._changed.wait()
            return None

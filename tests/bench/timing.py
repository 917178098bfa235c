"""Timing what runs in this process."""

import gc
import time
from collections.abc import Callable

from tests.bench.figure import Sample


def timed(work: Callable[[], object]) -> Sample:
    """Run something once and take its time; the garbage of others is collected before."""
    gc.collect()
    started = time.perf_counter()
    work()
    return Sample(time.perf_counter() - started)

"""How long a host stays: leases that come, go, break off, or never come."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from odf.engines.host.lease import Leases
from odf.protocol import LEASE_SOCKET
from odf.runtimes.lease import Lease, LeaseEndedError
from tests.conftest import until

LONG = 600.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for a socket."""
    with TemporaryDirectory(prefix="odf-leases-") as path:
        yield Path(path)


def serve(folder: Path, stop: Callable[[], None], **seconds: float) -> None:
    patience = {"idle_seconds": LONG, "first_seconds": LONG, **seconds}
    Leases(folder / LEASE_SOCKET, stop=stop, rest=lambda: None, **patience).serve()


def test_a_host_that_nobody_ever_came_to_ends_soon(folder: Path) -> None:
    stopped = threading.Event()
    serve(folder, stopped.set, first_seconds=0.05)
    assert stopped.wait(30)


def test_after_the_first_lease_it_stays_as_long_as_it_was_told(folder: Path) -> None:
    for seconds in (0.2, 1.0, 5.0, 25.0):  # a busy machine may be too late with the first lease
        place = folder / str(seconds)
        place.mkdir()
        stopped = threading.Event()
        serve(place, stopped.set, first_seconds=seconds)
        lease = Lease(place)
        with contextlib.suppress(LeaseEndedError):
            lease.take()
            lease.close()
            break
        lease.close()
    assert not stopped.wait(2 * seconds)
    assert Lease(place).status().leases == 0


def test_who_left_before_the_answer_was_not_killed_over_its_work(folder: Path) -> None:
    stopped = threading.Event()
    leases = Leases(folder / LEASE_SOCKET, LONG, stop=stopped.set, rest=lambda: None)
    with socket.socket(socket.AF_UNIX) as impatient:
        impatient.connect(str(folder / LEASE_SOCKET))
        impatient.sendall(b"lease\n")
    leases.serve()
    lease = Lease(folder)
    lease.take()
    lease.close()
    until(lambda: Lease(folder).status().leases == 0)
    assert not stopped.is_set()


def test_it_is_not_kept_longer_than_it_was_told_by_waiting_for_the_first(folder: Path) -> None:
    stopped = threading.Event()
    serve(folder, stopped.set, idle_seconds=0.05)
    assert stopped.wait(30)

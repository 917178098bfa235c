"""Locks: one writer, named, and free again however it ended."""

import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

from odf.clock import FixedClock
from odf.errors import LockedError
from odf.store.locks import FileLock, MemoryLock

HOLDER = """
import sys
from pathlib import Path
from odf.store.locks import FileLock
with FileLock(Path(sys.argv[1]), what="x", command="odf pull prices").hold():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["file", "memory"])
def lock(request, tmp_path):
    if request.param == "file":
        return FileLock(tmp_path / "lock", what="prices", sleep=lambda _: None)
    return MemoryLock("prices")


def in_thread(run):
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    return failures[0] if failures else None


def take(lock) -> None:
    with lock.hold():
        pass


def test_one_at_a_time(lock):
    with lock.hold():
        assert isinstance(in_thread(lambda: take(lock)), LockedError)
    assert in_thread(lambda: take(lock)) is None


def test_the_holder_may_hold_it_again(lock):
    with lock.hold():
        with lock.hold():
            pass
        assert isinstance(in_thread(lambda: take(lock)), LockedError)


def test_it_is_free_after_an_error(lock):
    with pytest.raises(RuntimeError), lock.hold():
        raise RuntimeError
    assert in_thread(lambda: take(lock)) is None


def test_two_locks_on_one_file_exclude_each_other(tmp_path):
    clock = FixedClock(datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC))
    waits: list[float] = []
    first = FileLock(tmp_path / "lock", what="prices", command="odf add", clock=clock)
    second = FileLock(tmp_path / "lock", what="prices", sleep=waits.append)
    with first.hold(), pytest.raises(LockedError) as caught, second.hold(timeout=0.5):
        pass
    assert "prices is being written to by process" in caught.value.message
    assert "odf add" in caught.value.message
    assert "2024-01-02T03:04:05+00:00" in caught.value.message
    assert caught.value.exit_code == 8
    assert len(waits) == 10
    take(second)


def test_a_killed_holder_leaves_no_lock(tmp_path):
    path = tmp_path / "lock"
    lock = FileLock(path, what="prices")
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(LockedError, match=rf"process {child.pid} on .*odf pull prices"):
            take(lock)
        child.kill()
    take(lock)
    assert path.read_bytes() == b""


def test_a_lock_file_of_rubbish_names_nobody(tmp_path):
    first = FileLock(tmp_path / "lock", what="prices")
    second = FileLock(tmp_path / "lock", what="prices")
    with first.hold():
        (tmp_path / "lock").write_bytes(b"[1]")
        with pytest.raises(LockedError, match="another process"):
            take(second)


def test_a_lock_on_a_full_disk(tmp_path):
    """Whoever wants to delete something has to hold it: nobody is named then."""
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from odf.store.locks import FileLock\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "with FileLock(Path(sys.argv[1]), what='x').hold():\n"
        "    print(repr(Path(sys.argv[1]).read_bytes()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "lock")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("b''\n", "")

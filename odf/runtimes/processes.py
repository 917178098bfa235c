"""What the kernel says about processes that are not children of this one."""

import time
from pathlib import Path
from typing import Final

_POLL_SECONDS: Final = 0.02
_START: Final = 19  # fields of /proc/PID/stat, counted after the name
_USER_TICKS: Final = 11
_SYSTEM_TICKS: Final = 12
_AT_WORK: Final = frozenset({b"R", b"D", b"t"})
"""Running or waiting for a processor, waiting for a disk, held by somebody's debugger."""


def birth(pid: int) -> int | None:
    """Return when a process began, in clock ticks since the machine did; None if it has ended.

    Process ids are used again; together with this they are not.
    """
    fields = _fields(Path(f"/proc/{pid}/stat"))
    # A zombie has ended.
    return None if fields is None or fields[0] == b"Z" else int(fields[_START])


def works(pid: int, seconds: float) -> bool:
    """Watch a process for a while: does it work, or would it if the machine let it?

    Args:
        pid: It.
        seconds: How long it has to show.

    Returns:
        False for one that is stopped, waits for what does not come, or cannot be seen.
    """
    before = _threads(pid)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = _threads(pid)
        if found != before or any(state in _AT_WORK for state, _ in found.values()):
            return bool(found)
        time.sleep(_POLL_SECONDS)
    return False


def is_seen(pid: int) -> bool:
    """Say whether a process can be watched: those of other users can be hidden."""
    return bool(_threads(pid))


def _threads(pid: int) -> dict[str, tuple[bytes, int]]:
    """Return the state and the time taken, in ticks, of the threads of a process."""
    found = {}
    for folder in Path(f"/proc/{pid}/task").glob("*"):
        fields = _fields(folder / "stat")
        if fields is not None:
            found[folder.name] = fields[0], int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
    return found


def _fields(path: Path) -> list[bytes] | None:
    try:
        # The name before may hold anything.
        return path.read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None

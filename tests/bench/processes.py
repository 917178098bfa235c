"""Running programs: time, stages, memory, and nothing left behind."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.bench.figure import BenchError

_TIMEOUT = 900.0
_STRAGGLER_SECONDS = 20.0
_DEATH_SECONDS = 5.0
_SAMPLE_SECONDS = 0.1
_MB = 1_000_000
_KIB = 1024
_SHOWN = 2_000

PYTHON_ROLES = frozenset({"coordinator", "engine host", "Python workers", "other"})
"""Roles of processes that are no JVM and no sandbox."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ended well.

    Attributes:
        seconds: From just before its start until it was gone.
        out: Standard output.
        stages: Lines of standard error with the seconds after the start, where asked for.
        memory: Peak of memory in MB by role and in `total`, where asked for.
        cpu: Seconds of processor time by role and in `total`, where asked for.
    """

    seconds: float
    out: str
    stages: Sequence[tuple[float, str]] = ()
    memory: Mapping[str, float] = field(default_factory=dict)
    cpu: Mapping[str, float] = field(default_factory=dict)


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stages: bool = False,
    watched: bool = False,
) -> Ran:
    """Run a program to its end and time it.

    What it leaves running (a JVM that follows its parent) is waited for outside of the time.

    Raises:
        BenchError: If it fails, with the end of what it said.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in argv],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE if stages else err,
            start_new_session=True,
        )
        lines: list[tuple[float, str]] = []
        watch = Watch(process.pid) if watched else None
        with _killed_in_the_end(process), watch or contextlib.nullcontext():
            if process.stderr is not None:
                _follow(process.stderr, started, lines)
            seconds = _wait(process, started)
        if process.returncode != 0:
            said = (_end_of(err) + "\n".join(text for _, text in lines)).splitlines()
            # The second is how an error is said in JSON.
            marks = ("error: ", '"message": ')
            errors = [line for line in said if line.strip().startswith(marks)] or said[-3:]
            raise BenchError(
                f"{Path(argv[0]).name} {' '.join(map(str, argv[1:4]))} ended with "
                f"{process.returncode}: {' / '.join(errors)}"
            )
        out.seek(0)
        text = out.read().decode()
        if watch is None:
            return Ran(seconds, text, tuple(lines))
        return Ran(seconds, text, tuple(lines), watch.memory, watch.cpu)


def _wait(process: subprocess.Popen[bytes], started: float) -> float:
    # Waiting with a timeout polls, which would be part of what is measured.
    guard = threading.Timer(_TIMEOUT, _kill_group, (process.pid,))
    guard.daemon = True
    guard.start()
    try:
        process.wait()
        return time.perf_counter() - started
    finally:
        guard.cancel()


def _follow(stream: IO[bytes], started: float, lines: list[tuple[float, str]]) -> None:
    """Note when each line comes; in a thread, since a JVM may hold the pipe longer than we wait."""

    def read() -> None:
        with stream, contextlib.suppress(ValueError):
            lines.extend((time.perf_counter() - started, line.decode().rstrip()) for line in stream)

    threading.Thread(target=read, daemon=True, name="stderr").start()


@contextlib.contextmanager
def _killed_in_the_end(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
        if process.returncode == 0:
            _wait_for_group(process.pid, _STRAGGLER_SECONDS)
    finally:
        _kill_group(process.pid)
        process.wait()
        _wait_for_group(process.pid, _DEATH_SECONDS)


def _wait_for_group(group: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _group_lives(group) and time.monotonic() < deadline:
        time.sleep(0.02)


def _group_lives(group: int) -> bool:
    """Say whether a process of a group lives; those that are dead but not buried do not."""
    return any(found == group and state not in "XZ" for _, state, _, found in _processes())


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _end_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read()[-_SHOWN:].decode(errors="replace")


class Watch:
    """Samples memory and processor time of a process and of all that it started.

    A page that several processes share is divided among them. What a process does after its last
    sample is not seen.

    Args:
        root: The process.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._peaks: dict[str, float] = defaultdict(float)
        self._times: dict[tuple[str, int], float] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="watch")

    @property
    def memory(self) -> Mapping[str, float]:
        """Peak in MB of each role (all its processes at one moment), of `Python`, and `total`."""
        return dict(self._peaks)

    @property
    def cpu(self) -> Mapping[str, float]:
        """Seconds of processor time of each role, and `total`."""
        found: dict[str, float] = defaultdict(float)
        for (role, _), seconds in self._times.items():
            found[role] += seconds
        return {**found, "total": sum(self._times.values())}

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            now: dict[str, float] = defaultdict(float)
            for pid in _descendants(self._root):
                with contextlib.suppress(OSError, ValueError, IndexError):
                    role = _role(pid, self._root)
                    now[role] += _proportional_mb(pid)
                    self._times[role, pid] = _cpu_seconds(pid)
            total, python = sum(now.values()), sum(now.get(role, 0.0) for role in PYTHON_ROLES)
            now |= {"total": total, "Python": python}
            for role, size in now.items():
                self._peaks[role] = max(self._peaks[role], size)


def memory_now(root: int) -> dict[str, float]:
    """Return the memory in MB that a process and all that it started hold, by role."""
    now: dict[str, float] = defaultdict(float)
    for pid in _descendants(root):
        with contextlib.suppress(OSError, ValueError, IndexError):
            now[_role(pid, root)] += _proportional_mb(pid)
    return dict(now)


def _proportional_mb(pid: int) -> float:
    """Return what a process holds; a page that several share is divided among them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * _KIB / _MB
    return 0.0


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _role(pid: int, root: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    program = Path(os.fsdecode(words[0])).name
    if program in {"java", "bwrap"}:
        return "JVM" if program == "java" else "sandbox"
    if any(word.startswith(b"pyspark.") for word in words):
        return "Python workers"
    if any(word.startswith(b"odf.engines") for word in words):
        return "engine host"
    return "coordinator" if pid == root else "other"


def _descendants(root: int) -> Iterator[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for pid, _, parent, _ in _processes():
        children[parent].append(pid)
    left = [root]
    while left:
        pid = left.pop()
        yield pid
        left += children[pid]


def _processes() -> Iterator[tuple[int, str, int, int]]:
    """Give number, state, parent and group of every process."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                stat = (folder / "stat").read_text()
                state, parent, group, *_ = stat.rpartition(")")[2].split()
                yield int(folder.name), state, int(parent), int(group)

"""Reads strangers' slices in a process that stands apart (design §2, docs/adr/0106).

What a file asks of the library that reads it, the child bears: one that takes too much memory or
time, or ends its process, is a file that cannot be read, and the next one has a new child. The
child is given open files and no names; the hash of their bytes, which names them in chains, is
taken on this side.
"""

import contextlib
import functools
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odf.errors import EngineUnavailableError, OdfError
from odf.limits import (
    READING_MEMORY,
    READING_SECONDS,
    READING_SECONDS_PER_MEGABYTE,
)
from odf.metadata.model import DatasetVocabulary
from odf.metadata.multiformats import SHA3_256, Multihash

if TYPE_CHECKING:  # listing needs no Arrow
    import pyarrow as pa

    from odf.data.inspector import SliceInfo
    from odf.data.readers import HistorySlice
    from odf.data.retractions import WrongRetraction

Confine = Callable[[Sequence[str], Path], Sequence[str]]
"""Puts a command into a sandbox in which it can write to one folder only."""

ENVIRONMENT: Final[Mapping[str, str]] = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    # Asks the system for no more than it needs, so that the bound on memory means what it says.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""All of the child's environment."""

READY: Final = b"ready\n"
"""What the child says before it is asked."""

_MEGABYTE: Final = 1_000_000
_MOST_FILES: Final = 64
_SHELL_SIGNALS: Final = 128
_DYING_SECONDS: Final = 2.0


def unconfined(program: Sequence[str], _folder: Path) -> Sequence[str]:
    """Run a command as it is, bound in memory and time only."""
    return program


class ReaderApart:
    """Reads slices in a child process, which is started when it is needed.

    Args:
        folder: Made when it is needed, and removed in the end. In it is the one folder that the
            child can write to, for what does not fit into memory.
        confine: Puts the child into a sandbox.
        environment: All of the child's environment; a sandbox makes one of its own.
        seconds: What reading a slice may take, beside what its size is worth.
        does_not_start: Called when the child ends before it is asked anything.
    """

    def __init__(
        self,
        folder: Path,
        confine: Confine = unconfined,
        *,
        environment: Mapping[str, str] = ENVIRONMENT,
        seconds: float = READING_SECONDS,
        does_not_start: Callable[[], object] = lambda: None,
    ) -> None:
        self._folder = folder
        self._confine = confine
        self._environment = environment
        self._seconds = seconds
        self._does_not_start = does_not_start
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def inspect(self, path: Path, vocab: DatasetVocabulary) -> "SliceInfo":
        """See `SliceReader.inspect`."""
        from odf.data.apart_messages import info_from_json, vocab_to_json  # noqa: PLC0415

        with _opened(path) as file, ThreadPoolExecutor(1, "odf-hash") as pool:
            hashing = pool.submit(_hash, file)
            with self._asking([path], [file]) as child:
                child.ask({"ask": "inspect", "vocab": vocab_to_json(vocab)})
                found, _ = child.answer()
                return info_from_json(found, *hashing.result())

    def tail(self, paths: Sequence[Path], n: int) -> "pa.Table":
        """See `SliceReader.tail`."""
        import pyarrow as pa  # noqa: PLC0415 - listing needs no Arrow

        if not paths:
            return pa.table({})
        found: list[pa.Table] = []
        # Not all at once: there can be more slices than a process may open files.
        for start in reversed(range(0, len(paths), _MOST_FILES)):
            with contextlib.ExitStack() as stack:
                some = paths[start : start + _MOST_FILES]
                files = [stack.enter_context(_opened(path)) for path in some]
                found.insert(0, self._rows(some, files, {"ask": "tail", "rows": n}))
            n -= found[0].num_rows
            if n <= 0:
                break
        from odf.data.projection import put_together  # noqa: PLC0415

        return put_together(found)

    def pick(self, path: Path, columns: Sequence[str], values: Iterable[int]) -> "pa.Table":
        """See `SliceReader.pick`."""
        with _opened(path) as file:
            question = {"ask": "pick", "columns": list(columns), "values": sorted(values)}
            return self._rows([path], [file], question)

    def wrong_retractions(
        self,
        slices: "Iterable[HistorySlice]",
        key: Sequence[str],
        vocab: DatasetVocabulary,
        scratch: Path,  # noqa: ARG002  # the child has a folder of its own
    ) -> "Iterator[WrongRetraction]":
        """See `SliceReader.wrong_retractions`; nothing else can be read meanwhile."""
        from odf.data.apart_messages import vocab_to_json, wrong_from_json  # noqa: PLC0415

        question = {"ask": "retractions", "key": list(key), "vocab": vocab_to_json(vocab)}
        size = 0
        with self._asking([], []) as child:
            child.ask(question)
            child.answer(is_last=False)
            for path, judged in slices:
                with _opened(path) as file:
                    size += os.fstat(file.fileno()).st_size
                    child.about([path], [file], self._seconds)
                    child.ask({"ask": "slice", "judged": judged})
                    child.answer(is_last=False)
            child.about([], [], self._seconds + _worth(size))
            child.ask({"ask": "end"})
            more = True
            while more:
                found, _ = child.answer(is_last=False)
                yield from map(wrong_from_json, found["wrong"])
                more = bool(found["more"])
            child.is_idle = True

    def close(self) -> None:
        """End the child; one that is needed later is another."""
        with self._lock:
            if self._child is not None:
                self._child.close()
                self._child = None
            shutil.rmtree(self._folder, ignore_errors=True)

    def _rows(
        self, paths: Sequence[Path], files: Sequence[BufferedReader], question: Mapping[str, object]
    ) -> "pa.Table":
        from odf.data.apart_messages import table_from_bytes  # noqa: PLC0415

        with self._asking(paths, files) as child:
            child.ask(question)
            _, rows = child.answer()
            return table_from_bytes(rows)

    @contextlib.contextmanager
    def _asking(self, paths: Sequence[Path], files: Sequence[BufferedReader]) -> "Iterator[_Child]":
        """Speak to the child about some files, alone; one that spoke nonsense is ended.

        Raises:
            MalformedSliceError: The child came to an end over a file, or answered nonsense.
        """
        with self._lock:
            if self._child is None:
                scratch = self._folder / "scratch"
                scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
                program = [sys.executable, "-I", "-m", "odf.data.apart_child", str(scratch)]
                self._child = _Child(self._confine(program, scratch), self._environment)
            child = self._child
            child.about(paths, files, self._seconds)
            try:
                yield child
            except BaseException as error:
                if not (isinstance(error, OdfError) and child.is_idle):
                    self._child = None
                    is_dying = isinstance(error, EOFError | ConnectionError)
                    child.close(_DYING_SECONDS if is_dying else 0.0)
                if isinstance(error, OdfError) or not isinstance(error, Exception):
                    raise
                if not child.has_started:
                    self._does_not_start()
                raise child.obituary(error) from error


class _Child:
    """A child process, and the conversation with it.

    Args:
        argv: What to run.
        environment: All of its environment.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        # A sandbox ends with the thread that started it: so one that lives as long as the child.
        self._parent = ThreadPoolExecutor(1, "slice-reader-parent")
        with contextlib.ExitStack() as undo, theirs:
            undo.callback(self._parent.shutdown)
            undo.enter_context(self._socket)
            start = functools.partial(
                subprocess.Popen[bytes],
                argv,
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                cwd="/",
                start_new_session=True,
            )
            try:
                self._process = self._parent.submit(start).result()
            except OSError as error:
                raise EngineUnavailableError(
                    "the process that reads data of others cannot be started: "
                    f"{argv[0]}: {error.strerror}"
                ) from error
            undo.pop_all()
        self._names: list[str] = []
        self._files: list[int] = []
        self._patience = 0.0
        self._deadline = 0.0
        self.is_idle = True
        """Whether it has answered all that it was asked, so that it can be asked more."""
        self.has_started = False
        """Whether it ever said anything."""

    def about(self, paths: Sequence[Path], files: Sequence[BufferedReader], seconds: float) -> None:
        """Say which files the next question is about, and how long its answer may take."""
        self._names = [path.name for path in paths]
        self._files = [file.fileno() for file in files]
        size = sum(os.fstat(file).st_size for file in self._files)
        self._patience = seconds + _worth(size)

    def ask(self, question: Mapping[str, object]) -> None:
        """Ask; all that is answered has to come in time."""
        self.is_idle = False
        self._deadline = time.monotonic() + self._patience
        self._socket.settimeout(self._patience)
        line = json.dumps({**question, "files": self._names}).encode() + b"\n"
        # One that has ended is noticed where its answer is read, behind what it said before.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sent = socket.send_fds(self._socket, [line], self._files)
            self._socket.sendall(line[sent:])

    def answer(self, *, is_last: bool = True) -> tuple[Any, bytearray]:
        """Return the next answer and its rows.

        Args:
            is_last: Whether it waits for another question then.

        Raises:
            OdfError: The child refuses the file.
            OSError, EOFError, ValueError, LookupError, TypeError: It answers nonsense, or not.
        """
        from odf.data.apart_messages import check_size, error_from_json  # noqa: PLC0415

        if not self.has_started:
            self._read(len(READY))
            self.has_started = True
        size = int.from_bytes(self._read(8), "big")
        check_size(size)
        said = json.loads(self._read(size))
        if "error" in said:
            error = error_from_json(said["error"])
            self.is_idle = True
            raise error
        rows = int(said["rows"])
        check_size(rows, READING_MEMORY)
        data = self._read(rows)
        self.is_idle = is_last
        return said["answer"], data

    def obituary(self, error: Exception) -> OdfError:
        """Say which file could not be read, and what became of the child; it is closed."""
        from odf.data.parquet import MalformedSliceError  # noqa: PLC0415

        if not self.has_started and not isinstance(error, TimeoutError):
            return EngineUnavailableError(
                f"the process that reads data of others does not start ({self._status()})",
                hint="run the command again, with -vv for more",
            )
        match error:
            case TimeoutError():
                how = f"it takes longer than {self._patience:g} s"
            case EOFError() | ConnectionError():
                how = f"reading it ends the process that does ({self._status()})"
            case _:
                how = f"reading it makes no sense: {' '.join(str(error).split())[:200]}"
        names = ", ".join(self._names[:1]) or "of the history"
        return MalformedSliceError(
            f"slice file {names} cannot be read: {how}",
            hint="get the file again from where it came; nothing of it was taken",
        )

    def close(self, seconds: float = 0.0) -> None:
        """End it, whatever it does.

        Args:
            seconds: How long it may take to end by itself, so that one can tell how it did.
        """
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._parent.shutdown()

    def _status(self) -> str:
        code = self._process.returncode
        number = -code if code < 0 else code - _SHELL_SIGNALS
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(number).name}"
        return f"exit status {code}"

    def _read(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            left = self._deadline - time.monotonic()
            if left <= 0:
                # One that says a little now and then is as bad as one that says nothing.
                raise TimeoutError
            self._socket.settimeout(left)
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise EOFError("the reader has ended")
            data += piece
        return data


def _worth(size: int) -> float:
    """Return how many seconds more so many bytes are worth."""
    return size / _MEGABYTE * READING_SECONDS_PER_MEGABYTE


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    from odf.data.parquet import guarded  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        with guarded(path):
            file = stack.enter_context(path.open("rb"))
        yield file


def _hash(file: BufferedReader) -> tuple[Multihash, int]:
    digest = hashlib.file_digest(file, "sha3_256").digest()
    return Multihash(SHA3_256, digest), file.tell()

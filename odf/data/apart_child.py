"""The process that reads strangers' slices: `python -m odf.data.apart_child SCRATCH`.

It is asked over the socket that is its standard input, in lines of JSON, each with the open file
that it is about. It bounds its own memory, opens nothing by name, and ends when the socket does;
whoever started it may have put it into a sandbox. See `odf.data.apart` for the other end.
"""

import contextlib
import json
import os
import resource
import select
import socket
import sys
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from odf.data.apart import READY
from odf.data.apart_messages import (
    NO_HASH,
    error_to_json,
    info_to_json,
    table_to_bytes,
    vocab_from_json,
    wrong_to_json,
)
from odf.data.inspector import inspect_slice
from odf.data.projection import read_rows_with, read_tail
from odf.data.retractions import wrong_retractions
from odf.errors import OdfError
from odf.limits import MAX_READING_ANSWER, READING_MEMORY, READING_THREADS

_MOST_FILES: Final = 64
_AT_A_TIME: Final = 1 << 30
_AT_ONCE: Final = 4096
_LINE: Final = 64 * 1024


class _Asker:
    """The other end: requests come in, answers go out."""

    def __init__(self, connection: socket.socket, scratch: Path) -> None:
        self._connection = connection
        self._scratch = scratch
        self._waiting = b""

    def next(self) -> tuple[dict[str, Any], list[Path]] | None:
        """Return the next request and its files; None when there will be none."""
        files: list[int] = []
        while b"\n" not in self._waiting:
            data, more, _, _ = socket.recv_fds(self._connection, _LINE, _MOST_FILES)
            files += more
            if not data:
                return None
            self._waiting += data
        line, self._waiting = self._waiting.split(b"\n", 1)
        request = json.loads(line)
        names = zip(request["files"], files, strict=True)
        return request, [self._named(name, file) for name, file in names]

    def say(self, answer: object, rows: bytes | pa.Buffer = b"") -> None:
        """Answer."""
        line = json.dumps({"answer": answer, "rows": len(rows)}).encode()
        self._connection.sendall(len(line).to_bytes(8, "big") + line)
        self._connection.sendall(rows)

    def fail(self, error: OdfError) -> None:
        """Say what is wrong."""
        line = json.dumps({"error": error_to_json(error)}).encode()[:MAX_READING_ANSWER]
        self._connection.sendall(len(line).to_bytes(8, "big") + line)

    def _named(self, name: str, file: int) -> Path:
        """Give an open file the name that messages have for it."""
        path = self._scratch / name
        path.unlink(missing_ok=True)
        path.symlink_to(f"/proc/self/fd/{self._openable(file)}")
        return path

    def _openable(self, file: int) -> int:
        """Return an open file that can be opened once more by its number, maybe a copy.

        Root opens what its owner alone may read, and has no such right inside of a sandbox.
        """
        if os.access(f"/proc/self/fd/{file}", os.R_OK):
            return file
        with tempfile.TemporaryFile(dir=self._scratch, buffering=0) as copy:
            done = 0
            while sent := os.sendfile(copy.fileno(), file, done, _AT_A_TIME):
                done += sent
            os.close(file)
            return os.dup(copy.fileno())


def main(scratch: Path) -> None:
    """Answer until nobody asks any more."""
    _bound_memory()
    pa.set_cpu_count(min(pa.cpu_count(), READING_THREADS))
    with socket.socket(fileno=os.dup(0)) as connection:
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        connection.sendall(READY)
        asker = _Asker(connection, scratch)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while (found := asker.next()) is not None:
                _answer(asker, *found, scratch)


def _end_with(connection: socket.socket) -> None:
    """End when nobody waits for an answer any more: a file can keep its reader busy for ever."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    poll.poll()
    os._exit(0)


def _answer(asker: _Asker, request: dict[str, Any], paths: list[Path], scratch: Path) -> None:
    try:
        match request["ask"]:
            case "inspect":
                info = inspect_slice(
                    paths[0], vocab_from_json(request["vocab"]), lambda _: (NO_HASH, 0)
                )
                asker.say(info_to_json(info))
            case "tail":
                asker.say(None, table_to_bytes(read_tail(paths, request["rows"])))
            case "pick":
                table = read_rows_with(paths[0], request["columns"], request["values"])
                asker.say(None, table_to_bytes(table))
            case "retractions":
                _find_wrong_retractions(asker, request, scratch)
    except OdfError as error:
        asker.fail(error)
    finally:
        for path in paths:
            _close(path)


def _find_wrong_retractions(asker: _Asker, request: dict[str, Any], scratch: Path) -> None:
    """Take slices until there are no more, then tell what is wrong, some at a time."""

    def slices() -> Generator[tuple[Path, bool], None, None]:
        while (found := asker.next()) is not None and found[0]["ask"] == "slice":
            question, [path] = found
            try:
                yield path, question["judged"]
            finally:
                _close(path)
            asker.say(None)

    # Each question is answered before the next one comes, so that files belong to theirs.
    asker.say(None)
    some: list[list[int | None]] = []
    vocab = vocab_from_json(request["vocab"])
    # Closed at once, whatever happens: the next question may be about a file of the same name.
    with contextlib.closing(slices()) as history:
        for wrong in wrong_retractions(history, request["key"], vocab, scratch):
            some.append(wrong_to_json(wrong))
            if len(some) >= _AT_ONCE:
                asker.say({"wrong": some, "more": True})
                some = []
    asker.say({"wrong": some, "more": False})


def _close(path: Path) -> None:
    os.close(int(path.readlink().name))
    path.unlink()


def _bound_memory() -> None:
    """Have what asks for too much fail, rather than the machine swap."""
    bounds: tuple[tuple[int, int], ...] = (
        (resource.RLIMIT_DATA, READING_MEMORY),
        (resource.RLIMIT_CORE, 0),
    )
    for kind, wanted in bounds:
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Commands that a dataset's owner agreed to run over source data (`Pipe`).

A command reads its standard input and writes its standard output. It runs in the bubblewrap
sandbox where that works: without a network, with no files but the system's and those that its own
arguments name, which it cannot change. Elsewhere it runs as a plain process. Either way no shell
reads it, it gets a short environment of its own, and it ends with everything that it started.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from odf.errors import BadInputError, EngineUnavailableError
from odf.limits import COMMAND_LOG_TAIL_LINES, COMMAND_LOG_TAIL_SIZE
from odf.runtimes.sandbox import Sandbox, install_hint
from odf.runtimes.text import exit_status, last_lines

ENVIRONMENT: Final[Mapping[str, str]] = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "TZ": "UTC",
}
"""What every command gets: the same results on every machine, and no secrets of the user."""

_DRAIN_SIZE = 4096
_SPECIAL = (Path("/dev"), Path("/proc"), Path("/sys"))


class CommandRunner:
    """Starts commands.

    Args:
        folder: The current folder of commands: what relative names in their arguments are
            relative to.
        scratch: A folder for what the sandbox needs from outside, and for temporary files of
            commands that run without one; made when needed.
        runtime: `bubblewrap` insists on the sandbox, `process` does without; anything else takes
            it where it works.
    """

    def __init__(self, folder: Path, scratch: Path, *, runtime: str = "auto") -> None:
        self._folder = folder.absolute()
        self._scratch = scratch
        self._runtime = runtime
        self._sandbox = Sandbox(ENVIRONMENT)

    def why_unsandboxed(self) -> str | None:
        """Say why commands run without a sandbox, or None if they run in one.

        Raises:
            EngineUnavailableError: The sandbox is insisted on, and does not work.
        """
        if self._runtime == "process":
            return "the configuration says so"
        reason = self._sandbox.why_not()
        if reason is not None and self._runtime == "bubblewrap":
            raise EngineUnavailableError(
                f"the sandbox bubblewrap does not work here: {reason}", hint=install_hint()
            )
        return reason

    def start(self, argv: Sequence[str]) -> "RunningCommand":
        """Start a command.

        Args:
            argv: The program and its arguments. A program without a slash is looked for in the
                system's folders.

        Raises:
            BadInputError: There is no such program, or an argument cannot be one.
            EngineUnavailableError: The sandbox is insisted on, and does not work.
        """
        program = self._find_program(argv)
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.why_unsandboxed() is None:
            inside = self._sandbox.argv(
                self._scratch,
                [program, *argv[1:]],
                read_only=self._named_files(argv),
                folder=str(self._folder),
            )
            return RunningCommand(inside, {}, Path("/"))
        home = str(self._scratch.absolute())
        environment = {**ENVIRONMENT, "HOME": home, "TMPDIR": home}
        return RunningCommand([program, *argv[1:]], environment, self._folder)

    def _find_program(self, argv: Sequence[str]) -> str:
        if not argv or not argv[0]:
            raise BadInputError(
                "the command is empty",
                reason="bad_command",
                hint="write it like command: [jq, -c, '.items[]']",
            )
        if any("\0" in argument for argument in argv):
            raise BadInputError("an argument has a NUL character", reason="bad_command")
        name = argv[0]
        wanted = str(self._folder / name) if "/" in name else name
        found = shutil.which(wanted, path=ENVIRONMENT["PATH"])
        if found is None:
            where = f"in {ENVIRONMENT['PATH']}" if wanted == name else f"at {wanted}"
            raise BadInputError(
                f"there is no program {name!r} {where}",
                reason="no_such_command",
                hint="install it, or write its path; relative ones begin at the workspace",
            )
        return found

    def _named_files(self, argv: Sequence[str]) -> Iterator[Path]:
        """Find the files that arguments name, as such or as `--option=file`."""
        texts = (text for argument in argv for text in (argument, argument.partition("=")[2]))
        for text in dict.fromkeys(texts):
            path = Path(os.path.normpath(self._folder / text))
            if any(path.is_relative_to(above) for above in _SPECIAL):
                continue
            # Most arguments are no paths at all, and some are too long to be any.
            with contextlib.suppress(OSError):
                if path.is_file():
                    yield path


class RunningCommand:
    """A command that was started. Leads a process group of its own.

    Its standard error is drained all the time, so that it never waits there; the end is kept.

    Args:
        argv: What to run.
        environment: All of its environment.
        folder: Its current folder.

    Raises:
        BadInputError: It cannot be started.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise BadInputError(
                f"{argv[0]} cannot be started: {error.strerror}", reason="no_such_command"
            ) from None
        self._tail = b""
        self._lock = threading.Lock()
        self._is_gone = False
        self._threads = [
            threading.Thread(target=work, name="command", daemon=True)
            for work in (self._drain, self._reap)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def stdin(self) -> IO[bytes]:
        """What the command reads."""
        return _open(self._process.stdin)

    @property
    def stdout(self) -> IO[bytes]:
        """What the command writes."""
        return _open(self._process.stdout)

    def kill(self) -> None:
        """End the command at once, with everything that it started; any thread may do so."""
        with self._lock:
            if not self._is_gone:
                self._kill_group()

    def wait(self) -> int:
        """Wait until the command has ended and its standard error was read.

        Returns:
            Its exit status; negative for a signal.
        """
        for thread in self._threads:
            thread.join()
        return self._process.returncode

    def has_succeeded(self) -> bool:
        """Tell whether the command has ended, and well; does not wait."""
        return self._process.returncode == 0

    def status(self) -> str:
        """Say how the command ended; to be called after `wait`."""
        return exit_status(self._process.returncode)

    def last_lines(self) -> tuple[str, ...]:
        """Return the last lines of its standard error, safe to print."""
        return last_lines(self._tail, COMMAND_LOG_TAIL_LINES)

    def close(self) -> None:
        """Kill the command if it still runs, and let go of its streams; not for two threads."""
        self.kill()
        self.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _drain(self) -> None:
        stderr = _open(self._process.stderr)
        while piece := os.read(stderr.fileno(), _DRAIN_SIZE):
            self._tail = (self._tail + piece)[-COMMAND_LOG_TAIL_SIZE:]

    def _reap(self) -> None:
        """Wait for the end, and end what the command left behind.

        Until the command is reaped, its number, which is also that of the group, cannot belong
        to anybody else.
        """
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._kill_group()
            self._process.wait()
            self._is_gone = True

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("the stream is no pipe")
    return stream

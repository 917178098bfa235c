"""`Pipe`: source data through a command's standard input and output."""

import contextlib
import threading
from typing import TYPE_CHECKING

from odf.errors import BadInputError
from odf.limits import PREPARE_CHUNK
from odf.runtimes.commands import RunningCommand

from .base import Bounds, Stream

if TYPE_CHECKING:
    from io import BufferedReader


class PipeStream:
    """Sends data through a command.

    A thread feeds the command while its output is read, so that neither waits for the other. A
    command that ends well without reading everything (`head`) had enough.

    Args:
        upstream: What the command reads.
        command: It, just started.
        where: File and step, for messages.
        bounds: How much may come out.
    """

    def __init__(
        self, upstream: Stream, command: RunningCommand, where: str, bounds: Bounds
    ) -> None:
        self._upstream = upstream
        self._command = command
        self._where = where
        self._bounds = bounds
        self._size = 0
        self._failure: BaseException | None = None
        self._feeder = threading.Thread(target=self._feed, name="pipe-feeder", daemon=True)
        self._feeder.start()

    def read(self) -> bytes:
        """Return the next piece; see `Stream`."""
        stdout: BufferedReader = self._command.stdout  # type: ignore[assignment] # bufsize is -1
        piece = stdout.read1(PREPARE_CHUNK)
        if not piece:
            self._finish()
            return b""
        self._size += len(piece)
        self._bounds.check(self._where, self._size)
        return piece

    def weight(self) -> int:
        """Return what came out so far: how large it is was the command's own doing."""
        return self._size

    def cancel(self) -> None:
        """Kill the command, and cancel the step before."""
        self._command.kill()
        self._upstream.cancel()

    def close(self) -> None:
        """End the command and the feeder."""
        # The feeder may be waiting for the command, or for the step before.
        self.cancel()
        self._feeder.join()
        self._command.close()

    def _finish(self) -> None:
        """Make sure that everything went well, once the command has closed its output."""
        code = self._command.wait()
        # Looked at before cancelling, which makes the steps before fail as well.
        failure = self._failure
        self._upstream.cancel()
        self._feeder.join()
        if failure is not None:
            raise failure
        if code != 0:
            lines = self._command.last_lines()
            said = f": {lines[-1]}" if lines else ", without a word on its standard error"
            raise BadInputError(
                f"{self._where}: the command failed ({self._command.status()}){said}",
                reason="command_failed",
                problems=lines,
                hint="try it by hand on the source; it gets the data on standard input, and "
                "only the files that its arguments name",
                details={"exit_status": code},
            )

    def _feed(self) -> None:
        """Write the data to the command; runs in a thread of its own."""
        try:
            while piece := self._upstream.read():
                self._command.stdin.write(piece)
        except BrokenPipeError:
            return
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that reads
            self._failure = error
            self._command.kill()
        finally:
            with contextlib.suppress(BrokenPipeError):
                self._command.stdin.close()

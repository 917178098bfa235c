"""The coordinator's end of a lease on a host that stays (see `odf.engines.host.lease`)."""

import contextlib
import json
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odf.errors import EngineUnavailableError
from odf.limits import HOST_SILENCE_SECONDS, MAX_WARM_RECORD
from odf.protocol import LEASE_SOCKET

_CREDENTIALS: Final = struct.Struct("iII")  # process, user, group


class LeaseEndedError(EngineUnavailableError):
    """The host is gone, or about to go."""


class HostSilentError(LeaseEndedError):
    """The host is there and says nothing.

    Attributes:
        pid: The process that should have answered, as this side sees it; 0 if that is not known.
    """

    def __init__(self, message: str, pid: int) -> None:
        super().__init__(message)
        self.pid = pid


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    """How much a host is used.

    Attributes:
        leases: Commands that use it.
        idle_seconds: How long nobody has.
    """

    leases: int
    idle_seconds: float


class Lease:
    """A connection to a host, for one purpose: `take`, `status` or `stop`.

    Args:
        folder: The folder of the host's sockets.
        patience: How many seconds each answer may take.

    Raises:
        LeaseEndedError: If nobody serves there.
    """

    def __init__(self, folder: Path, patience: float = HOST_SILENCE_SECONDS) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._taken = False
        try:
            self._socket.settimeout(patience)
            self._socket.connect(str(folder / LEASE_SOCKET))
        except BlockingIOError as error:
            # As many wait to be heard as the system lets wait.
            self._socket.close()
            raise HostSilentError("the engine's host does not answer", 0) from error
        except OSError as error:
            self._socket.close()
            raise LeaseEndedError(f"the engine's host does not answer: {error.strerror}") from error

    def take(self) -> None:
        """Hold the host until `close`, or until this process ends.

        Raises:
            HostSilentError: If it says nothing.
            LeaseEndedError: If it is about to end.
        """
        if self._ask("lease") != "ok":
            raise LeaseEndedError("the engine's host is about to end")
        self._taken = True

    def status(self) -> LeaseStatus:
        """Ask how much it is used.

        Raises:
            HostSilentError: If it says nothing.
            LeaseEndedError: If it says something else.
        """
        with self._socket:
            try:
                found = json.loads(self._ask("status"))
                return LeaseStatus(int(found["leases"]), float(found["idle_seconds"]))
            except (ValueError, KeyError, TypeError) as error:
                raise LeaseEndedError("the engine's host gave no status") from error

    def stop(self) -> None:
        """End the host, whoever else uses it.

        Raises:
            HostSilentError: If it says nothing.
            LeaseEndedError: If it has ended already.
        """
        with self._socket:
            self._ask("stop")

    def close(self) -> None:
        """Give the host back."""
        with self._socket, contextlib.suppress(OSError):
            if self._taken:
                self._taken = False
                # However long it had to answer at first: nothing depends on this.
                self._socket.settimeout(HOST_SILENCE_SECONDS)
                self._socket.sendall(b"bye\n")
                # The host hangs up once it has taken note: whoever asks next is told the truth.
                self._socket.recv(1)

    def _ask(self, question: str) -> str:
        try:
            self._socket.sendall(question.encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n") and len(answer) < MAX_WARM_RECORD:
                piece = self._socket.recv(MAX_WARM_RECORD)
                if not piece:
                    break
                answer += piece
        except TimeoutError as error:
            raise HostSilentError("the engine's host does not answer", self._peer()) from error
        except OSError as error:
            raise LeaseEndedError(f"the engine's host does not answer: {error}") from error
        return answer.decode("utf-8", "replace").strip()

    def _peer(self) -> int:
        """Return the process that listens, seen from here through any sandbox."""
        found = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(found)[0])

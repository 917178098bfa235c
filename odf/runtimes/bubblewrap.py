"""Engines in a bubblewrap sandbox: no network, no files but their own, no capabilities.

Inside, beside the read-only system, there are three folders: the inputs, read-only; the outputs;
and the one that holds the socket.
"""

from pathlib import Path

from odf.errors import EngineUnavailableError
from odf.runtimes.base import EngineCommand, EngineHandle
from odf.runtimes.child import SocketFolder
from odf.runtimes.exchange import Exchange
from odf.runtimes.process import ENVIRONMENT, Launch, idle_option, start
from odf.runtimes.sandbox import Sandbox, SandboxLimits, SandboxMemory, install_hint

_INSIDE = "/odf"


class BubblewrapRuntime:
    """Runs engines in bubblewrap.

    Args:
        command: How the engine's host is started.
        socket_root: Where to make the socket's folder, for example the user's runtime folder.
        tcp_port: Also serve on this port of the sandbox's own network, or None.
        limits: What the engine may take; by default the memory of the machine.
        memory: What was found out before about sandboxes here; without it each is tried first.
    """

    name = "bubblewrap"
    sandboxed = True

    def __init__(
        self,
        command: EngineCommand,
        *,
        socket_root: Path | None = None,
        tcp_port: int | None = None,
        limits: SandboxLimits | None = None,
        memory: SandboxMemory | None = None,
    ) -> None:
        self._command = command
        self._socket_root = socket_root
        self._tcp_port = tcp_port
        environment = {**ENVIRONMENT, **command.environment}
        self._sandbox = Sandbox(
            environment, read_only=command.read_only, limits=limits, memory=memory
        )

    def why_not(self) -> str | None:
        """Try the sandbox by running this Python in it.

        Returns:
            None if it works, else the reason in one line.
        """
        return self._sandbox.why_not()

    def start(self, run_dir: Path) -> EngineHandle:
        """Start an engine in a sandbox; see `Runtime.start`."""
        return start(self.compose(run_dir), run_dir)

    def compose(self, run_dir: Path, *, idle_seconds: float | None = None) -> Launch:
        """Make the folders of an engine, and the command that starts it (see `ProcessRuntime`).

        Raises:
            EngineUnavailableError: If there is no working sandbox.
        """
        if (reason := self.why_not()) is not None:
            raise EngineUnavailableError(
                f"the sandbox bubblewrap does not work here: {reason}", hint=install_hint()
            )
        files = run_dir / "engine"
        inside = (f"{_INSIDE}/in", f"{_INSIDE}/out", f"{_INSIDE}/socket")
        exchange = Exchange(files / "in", files / "out", inside[0], inside[1], link=True)
        sockets = SocketFolder(self._socket_root)
        folders = (
            *("--ro-bind", str(exchange.host_in), inside[0]),
            *("--bind", str(exchange.host_out), inside[1]),
            *("--bind", str(sockets.path), inside[2]),
        )
        program = [
            *self._command.argv,
            *("--socket", f"{inside[2]}/{sockets.socket.name}"),
            *("--in", inside[0], "--out", inside[1]),
        ]
        if self._tcp_port is not None:
            program += ["--tcp", str(self._tcp_port)]
        program += idle_option(idle_seconds)
        outlives = idle_seconds is not None
        argv = self._sandbox.argv(files, program, bind=folders, outlives=outlives)
        return Launch(self.name, True, argv, {}, exchange, sockets, "the engine's sandbox")

"""Which runtime an engine gets."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from odf.errors import EngineUnavailableError
from odf.runtimes.base import EngineCommand, Runtime
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.process import ProcessRuntime
from odf.runtimes.sandbox import install_hint

RuntimeChoice = Literal["auto", "bubblewrap", "process"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The runtime that was taken.

    Attributes:
        runtime: It.
        reason: Why it is this one, in a line for the user.
    """

    runtime: Runtime
    reason: str


def select_runtime(
    choice: RuntimeChoice,
    command: EngineCommand,
    *,
    trusted: bool,
    allow_unsandboxed: bool = False,
    socket_root: Path | None = None,
    sandbox: Callable[..., BubblewrapRuntime] = BubblewrapRuntime,
) -> Selection:
    """Take the first runtime that works and that is safe enough for the work.

    Args:
        choice: What the user configured; `auto` prefers a sandbox.
        command: How the engine's host is started.
        trusted: Whether the work runs only queries of one's own: datasets whose private keys are
            in this user's key store.
        allow_unsandboxed: Whether the user accepts to run strangers' queries without a sandbox.
        socket_root: Where to make the socket's folder, for example the user's runtime folder.
        sandbox: Makes the sandboxed runtime.

    Raises:
        EngineUnavailableError: If the choice does not work here, or only an unsandboxed one does
            and the work is a stranger's.
    """
    reason = "chosen by the configuration"
    if choice != "process":
        runtime = sandbox(command, socket_root=socket_root)
        why_not = runtime.why_not()
        if why_not is None:
            return Selection(runtime, "a sandbox that works here")
        if choice == "bubblewrap":
            raise EngineUnavailableError(
                f"the sandbox bubblewrap does not work here: {why_not}", hint=install_hint()
            )
        reason = f"no sandbox works here: bubblewrap: {why_not}"
    if not trusted and not allow_unsandboxed:
        raise EngineUnavailableError(
            f"a query that came from elsewhere is not run without a sandbox ({reason})",
            hint=f"{install_hint()} Or accept the risk with --allow-unsandboxed.",
        )
    return Selection(ProcessRuntime(command, socket_root=socket_root), reason)

"""Which runtime an engine gets."""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from odf.errors import EngineUnavailableError
from odf.runtimes.base import EngineCommand, Runtime
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.container import ContainerRuntime
from odf.runtimes.notes import keep_note, read_note
from odf.runtimes.process import ProcessRuntime
from odf.runtimes.sandbox import SandboxMemory, install_hint
from odf.runtimes.tcp_engine import TcpContainerRuntime

RuntimeChoice = Literal["auto", "docker", "podman", "bubblewrap", "process"]

REMEMBERED_SECONDS: Final = 86_400.0
"""How long it is believed that what worked still does: a broken one is found when it is used."""

_FILE: Final = "runtime.json"
_SOCKETS: Final = ("/var/run/docker.sock", "/run/podman/podman.sock")
_Sandboxed = ContainerRuntime | BubblewrapRuntime


@dataclass(frozen=True, slots=True)
class Selection:
    """The runtime that was taken.

    Attributes:
        runtime: It.
        reason: Why it is this one, in a line for the user.
    """

    runtime: Runtime
    reason: str


@dataclass(frozen=True, slots=True)
class RuntimeMemory:
    """What `auto` found out, so that the next command does not have to.

    Trying docker and podman in earnest takes a second. What is remembered holds for one image and
    for the programs that are installed, for a day at most; deleting the file does no harm.

    Attributes:
        folder: Where it is kept, below the user's cache.
    """

    folder: Path

    def recall(self, command: EngineCommand) -> str | None:
        """Return the name of the runtime that was taken for such an engine, if that still holds."""
        found = self._read().get(_situation(command))
        return str(found.get("runtime")) if isinstance(found, dict) and _holds(found) else None

    def keep(self, command: EngineCommand, runtime: str) -> None:
        """Remember the runtime that was taken; a cache that cannot be written is none."""
        known: dict[str, object] = {
            key: value
            for key, value in self._read().items()
            if isinstance(value, dict) and _holds(value)
        }
        known[_situation(command)] = {"runtime": runtime, "time": time.time()}
        keep_note(self.folder / _FILE, known)

    def forget(self) -> None:
        """Have everything tried anew: images were built or removed."""
        with contextlib.suppress(OSError):
            (self.folder / _FILE).unlink(missing_ok=True)

    def _read(self) -> dict[str, object]:
        return read_note(self.folder / _FILE)


def _holds(found: Mapping[str, object]) -> bool:
    """Whether it is still believed; not if it comes from the future, as when a clock was wrong."""
    then = found.get("time")
    return isinstance(then, int | float) and 0 <= time.time() - then <= REMEMBERED_SECONDS


def select_runtime(
    choice: RuntimeChoice,
    command: EngineCommand,
    *,
    trusted: bool,
    allow_unsandboxed: bool = False,
    socket_root: Path | None = None,
    memory: RuntimeMemory | None = None,
    sandbox: Callable[..., BubblewrapRuntime] = BubblewrapRuntime,
) -> Selection:
    """Take the first runtime that works and that is safe enough for the work.

    Args:
        choice: What the user configured; `auto` takes the first sandbox that works: docker,
            podman, bubblewrap. One whose image was never built is passed over.
        command: How the engine's host is started.
        trusted: Whether the work runs only queries of one's own: datasets whose private keys are
            in this user's key store.
        allow_unsandboxed: Whether the user accepts to run strangers' queries without a sandbox.
        socket_root: Where to make the socket's folder, for example the user's runtime folder.
        memory: What was found out before.
        sandbox: Makes the runtime that needs no image.

    Raises:
        EngineUnavailableError: If the choice does not work here, or only an unsandboxed one does
            and the work is a stranger's.
    """
    if memory is not None:
        sandbox = partial(sandbox, memory=SandboxMemory(memory.folder))
    if choice in ("docker", "podman", "bubblewrap"):
        return _insist(_make(choice, command, socket_root, sandbox), command)
    reason = "chosen by the configuration"
    if choice == "auto":
        candidates = [_make(name, command, socket_root, sandbox) for name in _sandboxes(command)]
        selection, reason = _first_that_works(candidates, command, memory)
        if selection is not None:
            return selection
    if not command.argv:
        raise EngineUnavailableError(
            f"this engine runs from an image only ({reason})",
            hint=_image_hint(command) or "install docker or podman; engine.runtime chooses one",
        )
    if not trusted and not allow_unsandboxed:
        raise EngineUnavailableError(
            f"a query that came from elsewhere is not run without a sandbox ({reason})",
            hint=f"{install_hint()} Or accept the risk with --allow-unsandboxed.",
        )
    return Selection(ProcessRuntime(command, socket_root=socket_root), reason)


def _sandboxes(command: EngineCommand) -> list[Literal["docker", "podman", "bubblewrap"]]:
    """List what `auto` tries, in order: an engine without an image needs no container tool."""
    found: list[Literal["docker", "podman", "bubblewrap"]] = []
    if command.container is not None:
        found += ["docker", "podman"]
    if command.argv:
        found.append("bubblewrap")
    return found


def _make(
    name: Literal["docker", "podman", "bubblewrap"],
    command: EngineCommand,
    socket_root: Path | None,
    sandbox: Callable[..., BubblewrapRuntime],
) -> _Sandboxed:
    if name == "bubblewrap":
        return sandbox(command, socket_root=socket_root)
    kind = ContainerRuntime
    if command.container is not None and command.container.port is not None:
        kind = TcpContainerRuntime
    return kind(name, command, socket_root=socket_root)


def _insist(runtime: _Sandboxed, command: EngineCommand) -> Selection:
    """Take the runtime that the user named, or say why that is impossible."""
    is_container = isinstance(runtime, ContainerRuntime)
    if not is_container and not command.argv:
        raise EngineUnavailableError(
            "this engine runs from an image only; the runtime bubblewrap has none",
            hint="set engine.runtime to docker, podman or auto",
        )
    why_not = runtime.why_not()
    if why_not is None:
        return Selection(runtime, "chosen by the configuration")
    what = f"the runtime {runtime.name}" if is_container else "the sandbox bubblewrap"
    hint = _image_hint(command) if is_container else install_hint()
    raise EngineUnavailableError(f"{what} does not work here: {why_not}", hint=hint)


def _first_that_works(
    candidates: Sequence[_Sandboxed], command: EngineCommand, memory: RuntimeMemory | None
) -> tuple[Selection | None, str]:
    """Try runtimes in their order, the remembered one first and with less ado.

    Returns:
        The selection, or None and why there is none.
    """
    remembered = memory.recall(command) if memory is not None else None
    for runtime in candidates:
        if runtime.name == remembered and _still_works(runtime):
            return Selection(runtime, "the sandbox that worked before"), ""
    reasons: list[str] = []
    for runtime in candidates:
        why_not = runtime.why_not()
        if why_not is None:
            if memory is not None:
                memory.keep(command, runtime.name)
            # What is not installed at all is no news.
            worth = [reason for reason in reasons if not reason.endswith("is not installed")]
            passed = f"; {'; '.join(worth)}" if worth else ""
            return Selection(runtime, f"the first sandbox that works here{passed}"), ""
        reasons.append(f"{runtime.name}: {why_not}")
    return None, f"no sandbox works here: {'; '.join(reasons)}"


def _still_works(runtime: _Sandboxed) -> bool:
    if isinstance(runtime, ContainerRuntime):
        return runtime.why_not(trial=False) is None
    return runtime.why_not() is None


def _image_hint(command: EngineCommand) -> str | None:
    return None if command.container is None else command.container.hint


def _situation(command: EngineCommand) -> str:
    """Describe what decides which runtime works, as far as that can be told at once."""
    image = command.container.image if command.container is not None else None
    programs = [shutil.which(name) for name in ("docker", "podman", "bwrap")]
    servers = [Path(path).exists() for path in _SOCKETS]
    return json.dumps([image, programs, servers, os.environ.get("DOCKER_HOST"), os.getuid()])

"""`odf engine list|status|stop`: which engines there are, what they can run in, what still runs."""

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.coordinator.engine_images import (
    EngineImageStatus,
    configured_images,
    image_statuses,
)
from odf.errors import EngineUnavailableError
from odf.protocol.releases import RELEASES
from odf.runtimes.base import python_command
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.child import remove_left_sockets
from odf.runtimes.container import list_containers, remove_leftovers
from odf.runtimes.container_cli import ContainerCli, ContainerToolName
from odf.runtimes.foreign import chosen_image
from odf.runtimes.images import SPECS, pins
from odf.runtimes.warm import HostStatus, WarmHost, running_hosts, stop_hosts

if TYPE_CHECKING:
    from odf.coordinator.context import Context
    from odf.runtimes.base import ContainerProgram

_TOOLS: Final[tuple[ContainerToolName, ...]] = ("docker", "podman")


@dataclass(frozen=True, slots=True)
class KnownEngine:
    """An engine that manifests can ask for here.

    Attributes:
        name: As manifests write it, in lower case.
        release: What transforms are pinned to: a release of ours, or `image@sha256:…`; None if
            that cannot be told, because the image is not here.
        image: The image of others that it is; None for ours.
        ready: Whether it can be run.
        reason: Why not, in a line.
        images: Images of ours, one for each container tool that is installed.
    """

    name: str
    release: str | None
    image: str | None
    ready: bool
    reason: str | None
    images: tuple[EngineImageStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """A way to run engines.

    Attributes:
        name: As `engine.runtime` names it.
        works: Whether it does, here.
        reason: Why not, in a line.
    """

    name: str
    works: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """An engine that runs at the moment.

    Attributes:
        engine: Its name; None where only the container is known.
        runtime: What it runs in.
        place: Its process id or the name of its container.
        commands: How many commands use it; None where that is not known.
        idle_seconds: How long nobody has; None where that is not known.
        answers: Whether it does, where it was asked.
    """

    engine: str | None
    runtime: str
    place: str
    commands: int | None = None
    idle_seconds: float | None = None
    answers: bool = True


@dataclass(frozen=True, slots=True)
class Stopped:
    """What `odf engine stop` ended and removed.

    Attributes:
        engines: Engines that were waiting for the next command.
        containers: Containers whose command was killed.
        sockets: Folders of sockets whose command was killed.
        used: Engines that were let alone, because commands use them.
    """

    engines: tuple[RunningEngine, ...]
    containers: tuple[str, ...]
    sockets: tuple[Path, ...]
    used: tuple[RunningEngine, ...] = ()


def known_engines(ctx: "Context | None") -> tuple[KnownEngine, ...]:
    """List the engines that manifests can ask for.

    Args:
        ctx: The workspace whose configuration names engines of others; None without one.
    """
    statuses = image_statuses()
    own = [_own_engine(name, statuses) for name in RELEASES]
    return (*own, *_engines_of_others(ctx))


def runtime_statuses() -> tuple[RuntimeStatus, ...]:
    """Try what engines can be run in, whatever their images."""
    tools = [(name, ContainerCli(name).why_not()) for name in _TOOLS]
    sandbox = BubblewrapRuntime(python_command("odf.engines.spark")).why_not()
    reasons = (*tools, ("bubblewrap", sandbox), ("process", None))
    return tuple(RuntimeStatus(name, reason is None, reason) for name, reason in reasons)


def running_engines(ctx: "Context | None") -> tuple[RunningEngine, ...]:
    """List what runs: hosts of the workspace that stay, and containers of this user."""
    hosts = running_hosts(ctx.workspace.hosts_dir) if ctx is not None else ()
    found = [_running(status) for status in hosts]
    known = {status.host.container for status in hosts}
    for cli in _installed():
        with contextlib.suppress(EngineUnavailableError):
            found += [
                RunningEngine(None, cli.name, name)
                for name in list_containers(cli)
                if name not in known
            ]
    return tuple(found)


def _running(status: HostStatus) -> RunningEngine:
    return RunningEngine(
        status.host.engine,
        status.host.runtime,
        _place(status.host),
        status.leases,
        status.idle_seconds,
        answers=status.leases is not None,
    )


def _place(host: WarmHost) -> str:
    return host.container or str(host.pid)


def stop_engines(ctx: "Context | None") -> Stopped:
    """End engines that wait for the next command, and what killed commands left behind.

    Containers and sockets of commands that run are let alone.
    """
    engines: tuple[RunningEngine, ...] = ()
    used: tuple[RunningEngine, ...] = ()
    if ctx is not None:
        engines = tuple(
            RunningEngine(host.engine, host.runtime, _place(host))
            for host in stop_hosts(ctx.workspace.hosts_dir)
        )
        used = tuple(map(_running, running_hosts(ctx.workspace.hosts_dir)))
    containers = tuple(name for cli in _installed() for name in remove_leftovers(cli))
    return Stopped(engines, containers, _without_left_sockets(ctx), used)


def _without_left_sockets(ctx: "Context | None") -> tuple[Path, ...]:
    runtime_home = None if ctx is None else ctx.settings.runtime_home
    folders = dict.fromkeys((runtime_home, Path(tempfile.gettempdir())))
    return tuple(path for one in folders if one is not None for path in remove_left_sockets(one))


def _own_engine(name: str, statuses: tuple[EngineImageStatus, ...]) -> KnownEngine:
    reason = None
    try:
        pins(SPECS[name])
    except EngineUnavailableError as error:
        reason = error.message
    images = tuple(status for status in statuses if status.engine == name)
    return KnownEngine(name, RELEASES[name], None, reason is None, reason, images)


def _engines_of_others(ctx: "Context | None") -> list[KnownEngine]:
    if ctx is None:
        return []
    programs = configured_images(ctx.workspace.config)
    return [_engine_of_others(ctx, name, program) for name, program in programs.items()]


def _engine_of_others(ctx: "Context", name: str, program: "ContainerProgram") -> KnownEngine:
    try:
        pin = chosen_image(program, ctx.runtime_choice, None).pin
    except EngineUnavailableError as error:
        return KnownEngine(name, None, program.image, ready=False, reason=error.message)
    return KnownEngine(name, pin, program.image, ready=True, reason=None)


def _installed() -> list[ContainerCli]:
    clis = (ContainerCli(name) for name in _TOOLS)
    return [cli for cli in clis if cli.program is not None]

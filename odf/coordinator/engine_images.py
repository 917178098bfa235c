"""`odf engine build`, `list`: images of our engines, and the engines of others by configuration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odf.errors import EngineUnavailableError
from odf.runtimes.base import ContainerProgram
from odf.runtimes.container_cli import ContainerCli, ContainerToolName
from odf.runtimes.images import SPECS, image_name
from odf.runtimes.pool import archives_folder
from odf.runtimes.select import RuntimeMemory
from odf.workspace.config import Config

if TYPE_CHECKING:
    from odf.coordinator.context import Settings

_TOOLS: tuple[ContainerToolName, ...] = ("docker", "podman")


@dataclass(frozen=True, slots=True)
class EngineImageStatus:
    """An image of one of our engines, in one container tool.

    Attributes:
        engine: The engine's name.
        tool: `docker` or `podman`.
        image: What the image that fits this installation is called.
        here: Whether the tool has it.
        built: Whether it was built just now.
        reason: Why it is not here, or why the tool does not work; None if it is here.
    """

    engine: str
    tool: str
    image: str | None
    here: bool
    built: bool = False
    reason: str | None = None


def configured_images(config: Config) -> dict[str, ContainerProgram]:
    """Return the engines of others that a workspace's configuration names."""
    return {
        name: ContainerProgram(
            entry.image,
            port=entry.port,
            input_folder=entry.input_folder,
            output_folder=entry.output_folder,
            scratch=entry.scratch,
            hint=f"get it: docker pull {entry.image} (or podman pull)",
        )
        for name, entry in (config.engine_images or {}).items()
    }


def image_statuses() -> tuple[EngineImageStatus, ...]:
    """Look at the images of our engines in every container tool that is installed."""
    found: list[EngineImageStatus] = []
    for tool in _TOOLS:
        cli = ContainerCli(tool)
        if cli.program is None:
            continue
        why_not = cli.why_not()
        found += [_status(cli, engine, why_not) for engine in SPECS]
    return tuple(found)


def build_images(
    settings: "Settings",
    *,
    base: str | None,
    tool: ContainerToolName | None,
    again: bool,
    report: Callable[[str], None],
) -> tuple[EngineImageStatus, ...]:
    """Build the images of our engines that are missing, in the first container tool that works.

    Args:
        settings: Where the cache is.
        base: What to build on; None takes Debian with a Python from the usual registry.
        tool: Which tool, or None for the first that works.
        again: Build them even if they are there.
        report: Told what is being done.

    Returns:
        The images; none if there is no container tool that works and none was asked for.

    Raises:
        EngineUnavailableError: The tool that was asked for does not work, or an image cannot be
            built.
    """
    from odf.runtimes.image_build import DEFAULT_BASE, build_image  # noqa: PLC0415

    cli = _working_tool(tool)
    if cli is None:
        return ()
    log = archives_folder(settings.cache_home) / "image.log"
    done: list[EngineImageStatus] = []
    for engine, spec in SPECS.items():
        status = _status(cli, engine, None)
        if status.image is not None and (again or not status.here):
            name = build_image(cli, spec, base=base or DEFAULT_BASE, log=log, report=report)
            status = EngineImageStatus(engine, cli.name, name, here=True, built=True)
            # What was passed over for want of an image may be the first choice now.
            RuntimeMemory(archives_folder(settings.cache_home)).forget()
        done.append(status)
    return tuple(done)


def _working_tool(tool: ContainerToolName | None) -> ContainerCli | None:
    for name in _TOOLS if tool is None else (tool,):
        cli = ContainerCli(name)
        reason = cli.why_not()
        if reason is None:
            return cli
        if tool is not None:
            raise EngineUnavailableError(
                f"{name} does not work here: {reason}", hint=f"is {name} installed and started?"
            )
    return None


def _status(cli: ContainerCli, engine: str, why_not: str | None) -> EngineImageStatus:
    try:
        name = image_name(SPECS[engine])
    except EngineUnavailableError as error:
        return EngineImageStatus(engine, cli.name, None, here=False, reason=error.message)
    if why_not is not None:
        return EngineImageStatus(engine, cli.name, name, here=False, reason=why_not)
    here = cli.image(name) is not None
    reason = None if here else "it was not built: odf engine build"
    return EngineImageStatus(engine, cli.name, name, here=here, reason=reason)

"""Containers that a dataset's owner agreed to run to fetch data (`Container`).

A container has a network, since it is there to fetch, and nothing of this machine but one folder
to write into. It runs under docker or podman, whichever works here. One that outlived its pull is
ended before the next one starts.
"""

import contextlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from odf.errors import BadInputError, EngineUnavailableError
from odf.runtimes.commands import RunningCommand
from odf.runtimes.container_cli import (
    ContainerCli,
    ContainerToolName,
    is_restricted_by_labels,
    resource_limits,
)
from odf.runtimes.sandbox import SandboxLimits, machine_memory

_HEEDED: Final = ("BUILDAH_", "CONTAINER", "DOCKER_", "GO", "LD_", "PATH", "REGISTRY_", "TMP")
"""How names begin that mean something to docker and podman."""

_PREFIX: Final = "odf-fetch-"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PROGRAMS: Final[tuple[ContainerToolName, ...]] = ("docker", "podman")


@dataclass(frozen=True, slots=True)
class ContainerJob:
    """What to run.

    Attributes:
        image: Name of the image; it is pulled if it is not here.
        owner: What all containers of this source have in common, and no others.
        output: A folder of this machine that the container may write to.
        inside: Where it finds that folder.
        command: The program instead of the image's own, with its first arguments.
        arguments: Arguments.
        environment: Variables.
    """

    image: str
    owner: str
    output: Path
    inside: str
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class ContainerRunner:
    """Runs containers.

    Args:
        runtime: `docker` or `podman` insists on that one; anything else takes what works.
    """

    def __init__(self, runtime: str = "auto") -> None:
        self._wanted = tuple(name for name in _PROGRAMS if name == runtime) or _PROGRAMS
        self._chosen: ContainerCli | None = None

    @contextlib.contextmanager
    def run(self, job: ContainerJob, report: Callable[[str], None]) -> Iterator[RunningCommand]:
        """Start a container, and end it with the context.

        Args:
            job: What to run.
            report: Told what takes time.

        Raises:
            EngineUnavailableError: Neither docker nor podman works here.
            BadInputError: Image, command or variables are none.
        """
        _check(job)
        cli = self._cli()
        _end_older(cli, job.owner)
        name = f"{_PREFIX}{job.owner}-{secrets.token_hex(4)}"
        if cli.image(job.image) is None:
            report(f"{cli.name} pulls {job.image}")
        tool = cli.environment()
        passed = _passed_on(job.environment, tool)
        running = RunningCommand(_argv(cli, job, name), {**tool, **passed}, Path("/"))
        try:
            with contextlib.suppress(BrokenPipeError):  # its own words say why it ended
                running.stdin.write(_environment_file(job.environment))
                running.stdin.close()
            yield running
        finally:
            is_gone = running.has_succeeded()
            running.close()
            if not is_gone:
                cli.remove([name])

    def _cli(self) -> ContainerCli:
        if self._chosen is None:
            reasons = {}
            for name in self._wanted:
                cli = ContainerCli(name)
                reason = cli.why_not()
                if reason is None:
                    self._chosen = cli
                    break
                reasons[name] = reason
            else:
                said = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
                raise EngineUnavailableError(
                    f"no containers can be run here: {said}",
                    hint="install one: sudo apt-get install podman",
                )
        return self._chosen


def _end_older(cli: ContainerCli, owner: str) -> None:
    """End what outlived its pull: the dataset is locked, so nobody waits for it."""
    listed = cli.call("ps", "--all", "--format", "{{.Names}}").stdout.decode("utf-8", "replace")
    # To kill them first would have `--rm` remove them, and nobody could wait for that.
    cli.remove([name for name in listed.split() if name.startswith(f"{_PREFIX}{owner}-")])


def _environment_file(variables: Mapping[str, str]) -> bytes:
    """Write variables as the tool reads them from a file.

    Not on its command line, where every user of the machine could read the values, and not into
    its own environment, where some names would change what it does: see `_passed_on`.
    """
    lines = (f"{name}={value}\n" for name, value in variables.items() if "\n" not in value)
    return "".join(lines).encode(errors="surrogateescape")


def _passed_on(variables: Mapping[str, str], tool: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a file of lines cannot hold: the tool passes them on by name.

    Raises:
        BadInputError: The tool itself would heed such a name.
    """
    found = {name: value for name, value in variables.items() if "\n" in value}
    for name in found:
        if name in tool or name.startswith(_HEEDED):
            raise BadInputError(
                f"the variable {name} has a value of several lines, and its name means something "
                "to the container tool itself",
                reason="container",
                hint="give the variable another name, or write the value in one line",
            )
    return found


def _argv(cli: ContainerCli, job: ContainerJob, name: str) -> list[str]:
    limits = SandboxLimits(machine_memory())
    argv = [cli.program or cli.name, "run", "--rm", "--name", name]
    # What it writes is read as it comes, and not kept a second time by the tool.
    argv += ["--log-driver", "none", "--security-opt", "no-new-privileges"]
    argv += ["--pids-limit", str(limits.processes), *resource_limits(limits)]
    if is_restricted_by_labels():
        argv += ["--security-opt", "label=disable"]
    argv += ["--volume", f"{job.output.absolute()}:{job.inside}"]
    argv += ["--env-file", "/dev/stdin"]
    for variable, value in job.environment.items():
        if "\n" in value:
            argv += ["--env", variable]
    if job.command:
        argv += ["--entrypoint", job.command[0]]
    return [*argv, job.image, *job.command[1:], *job.arguments]


def check_names(image: str, command: Sequence[str], variables: Iterable[str]) -> None:
    """Make sure that nothing of a manifest can be taken for something else by the tool.

    Raises:
        BadInputError: Image, command or a variable are none.
    """
    if not image or image.startswith("-") or any(c.isspace() for c in image):
        raise BadInputError(f"{image!r} is no name of an image", reason="bad_image")
    if command and not command[0]:
        raise BadInputError("the command is empty", reason="bad_command")
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            raise BadInputError(f"{name!r} is no name of a variable", reason="bad_variable")


def _check(job: ContainerJob) -> None:
    check_names(job.image, job.command, job.environment)
    texts = (*job.command, *job.arguments, *job.environment.values())
    if any("\0" in text for text in texts):
        raise BadInputError("an argument has a NUL character", reason="bad_command")

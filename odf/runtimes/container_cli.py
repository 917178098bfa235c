"""Asking docker and podman: one command line tool, called for one thing at a time."""

import json
import os
import resource
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from odf.errors import EngineUnavailableError
from odf.limits import CONTAINER_CALL_SECONDS, ENGINE_LOG_TAIL_LINES
from odf.runtimes.sandbox import SandboxLimits
from odf.runtimes.text import last_lines, printable

ContainerToolName = Literal["docker", "podman"]

_PASSED: Final = (
    "PATH",
    "HOME",
    "USER",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
)
_PASSED_PREFIXES: Final = ("DOCKER_", "CONTAINER", "PODMAN_")
_MISSING: Final = ("no such image", "image not known", "no such object")


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image that is on this machine.

    Attributes:
        image_id: `sha256:…` of its configuration.
        digests: Its names in registries with the digests there, `name@sha256:…`.
    """

    image_id: str
    digests: tuple[str, ...]


class ContainerCli:
    """Calls `docker` or `podman`.

    Args:
        name: Which.
    """

    def __init__(self, name: ContainerToolName) -> None:
        self.name = name

    @property
    def program(self) -> str | None:
        """Where the program is; None if it is not installed."""
        return shutil.which(self.name)

    def environment(self) -> dict[str, str]:
        """Return what the tool itself has to know: where its server, its storage and helpers are.

        Nothing of it reaches a container.
        """
        return {
            name: value
            for name, value in os.environ.items()
            if name in _PASSED or name.startswith(_PASSED_PREFIXES)
        }

    def call(
        self, *arguments: str, seconds: float = CONTAINER_CALL_SECONDS
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the tool to its end.

        Raises:
            EngineUnavailableError: It is not installed, or does not answer.
        """
        try:
            return subprocess.run(
                [self.program or self.name, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=self.environment(),
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EngineUnavailableError(
                f"{self.name} did not answer within {seconds:g} s"
            ) from None
        except OSError as error:
            raise EngineUnavailableError(
                f"{self.name} cannot be started: {error.strerror}"
            ) from None

    def why_not(self) -> str | None:
        """Say in a line why containers cannot be run with this tool at all, or None."""
        if self.program is None:
            return f"{self.name} is not installed"
        host = os.environ.get("DOCKER_HOST", "") if self.name == "docker" else ""
        if host and not host.startswith("unix://"):
            return f"DOCKER_HOST is {host}: folders of this machine cannot be shared with another"
        try:
            # Podman has no server; both answer with an error if the storage cannot be reached.
            done = self.call("info", "--format", "{{json .}}")
        except EngineUnavailableError as error:
            return error.message
        if done.returncode != 0:
            return self.complaint(done)
        return _rootless_docker(done.stdout) if self.name == "docker" else None

    def image(self, name: str) -> ImageFacts | None:
        """Look at an image, or return None if it is not on this machine.

        Raises:
            EngineUnavailableError: The tool does not work.
        """
        done = self.call("image", "inspect", "--format", "{{.Id}} {{json .RepoDigests}}", name)
        if done.returncode != 0:
            complaint = self.complaint(done)
            if any(word in complaint.lower() for word in _MISSING):
                return None
            raise EngineUnavailableError(f"{self.name}: {complaint}")
        number, _, digests = done.stdout.decode("utf-8", "replace").strip().partition(" ")
        # Podman leaves out what docker writes before the number.
        image_id = number if ":" in number else f"sha256:{number}"
        return ImageFacts(image_id, tuple(json.loads(digests) or ()))

    def remove(self, names: Sequence[str]) -> None:
        """End containers at once and remove them; those that are gone already are fine."""
        if names:
            self.call(*self.removal(), *names)

    def removal(self) -> tuple[str, ...]:
        """Return the command that ends containers at once and removes them."""
        if self.name == "podman":
            # It waits for ten seconds otherwise, and refuses while another one shares the network.
            return ("rm", "--force", "--volumes", "--ignore", "--depend", "--time", "0")
        return ("rm", "--force", "--volumes")

    def complaint(self, done: subprocess.CompletedProcess[bytes]) -> str:
        """Return the last line that the tool wrote to standard error, safe to print."""
        lines = last_lines(done.stderr, ENGINE_LOG_TAIL_LINES)
        return lines[-1] if lines else f"exit status {done.returncode}"


def resource_limits(limits: SandboxLimits) -> list[str]:
    """Write limits for each process as `run` and `build` take them.

    Podman has defaults of its own, above what some machines allow, and then starts nothing. None
    is above the caller's own, which nobody but root could raise.
    """
    wanted = {
        "nofile": (resource.RLIMIT_NOFILE, limits.open_files),
        "nproc": (resource.RLIMIT_NPROC, limits.processes),
        "core": (resource.RLIMIT_CORE, 0),
    }
    options: list[str] = []
    for name, (kind, most) in wanted.items():
        hard = resource.getrlimit(kind)[1]
        number = most if hard == resource.RLIM_INFINITY else min(most, hard)
        options += ["--ulimit", f"{name}={number}:{number}"]
    return options


def is_restricted_by_labels() -> bool:
    """Whether SELinux is at work here, which hides mounted folders from containers."""
    return Path("/sys/fs/selinux/enforce").exists()


def _rootless_docker(described: bytes) -> str | None:
    """A rootless daemon shifts user numbers, so the caller's files would not be the engine's."""
    try:
        options = json.loads(described).get("SecurityOptions") or []
    except (ValueError, AttributeError):
        return f"it says something else than JSON: {printable(described[:100].decode('latin-1'))}"
    if any("rootless" in option for option in options):
        return "its daemon is rootless, which gives containers other users; podman can do that"
    return None

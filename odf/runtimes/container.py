"""Engines in containers of docker or podman: no network, no files but their own, no capabilities.

An engine gets a read-only root, a private `/tmp` in memory, the inputs read-only, and two folders
that it can write to: the outputs and the one with the socket. It runs as the user who called, or
as nobody where that is root. What it says arrives here as with any other process: the tool stays
attached to it, and its standard input is the engine's lifeline.

Engines that speak TCP only get no network either: see `odf.runtimes.relay`.
"""

import contextlib
import functools
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from odf.errors import EngineUnavailableError
from odf.runtimes.base import ContainerProgram, EngineCommand, EngineHandle
from odf.runtimes.child import EngineProcess, SocketFolder
from odf.runtimes.container_cli import (
    ContainerCli,
    ContainerToolName,
    is_restricted_by_labels,
    resource_limits,
)
from odf.runtimes.exchange import Exchange
from odf.runtimes.images import PYTHON_INSIDE
from odf.runtimes.process import ENVIRONMENT, Launch, idle_option, start
from odf.runtimes.processes import birth
from odf.runtimes.sandbox import SandboxLimits, machine_memory, user_inside, write_identity

SOCKET_INSIDE: Final = "/odf/socket"
"""Where the folder of the socket is in the container."""

OWNER_LABEL: Final = "opendatafabric.owner"
"""Label of our containers: the user on this machine who started them."""

_SCRATCH: Final = "/tmp:rw,exec,nosuid,nodev,mode=1777"  # noqa: S108  # the container's own
_LABELLED: Final = "opendatafabric"
_NAME: Final = re.compile(r"odf-([0-9]+)-([0-9]+)-([0-9]+)-[0-9a-f]{12}")


class ContainerRuntime:
    """Runs engines in containers.

    Args:
        name: The tool: `docker` or `podman`.
        command: How the engine's host is started; needs an image.
        socket_root: Where to make the socket's folder, for example the user's runtime folder.
        tcp_port: Also serve on this port of the container's own network, or None.
        limits: What the engine may take; by default the memory of the machine.
    """

    sandboxed = True

    def __init__(
        self,
        name: ContainerToolName,
        command: EngineCommand,
        *,
        socket_root: Path | None = None,
        tcp_port: int | None = None,
        limits: SandboxLimits | None = None,
    ) -> None:
        self.name = name
        self.cli = ContainerCli(name)
        self._command = command
        self._socket_root = socket_root
        self._tcp_port = tcp_port
        self._limits = limits or SandboxLimits(machine_memory())

    def why_not(self, *, trial: bool = True) -> str | None:
        """Look whether the engine can be run here.

        Args:
            trial: Whether to run an empty program with all the restrictions, which takes half a
                second; without, only the image is looked for.

        Returns:
            None if it can, else the reason in one line.
        """
        program = self._command.container
        if program is None:
            return "this engine cannot be run from an image as it is configured"
        if self.cli.program is None:
            return f"{self.name} is not installed"
        if trial and (reason := self.cli.why_not()) is not None:
            return reason
        try:
            if self.cli.image(program.image) is None:
                return f"there is no image {program.image}"
            return self._try_it(program) if trial and program.port is None else None
        except EngineUnavailableError as error:
            return error.message

    def start(self, run_dir: Path) -> EngineHandle:
        """Start an engine in a container; see `Runtime.start`."""
        return start(self.compose(run_dir), run_dir)

    def compose(self, run_dir: Path, *, idle_seconds: float | None = None) -> Launch:
        """Make the folders of an engine, and the command that starts it (see `ProcessRuntime`).

        Raises:
            EngineUnavailableError: If the tool does not work or the image is not there.
        """
        program = self.program()
        remove_leftovers(self.cli)
        exchange, sockets = self.make_exchange(program, run_dir), self.make_sockets()
        name = container_name() if idle_seconds is None else f"odf-warm-{secrets.token_hex(6)}"
        argv = [self.cli.program or self.name, "run", "--name", name]
        # A host that outlives this process has no lifeline to hold on to.
        argv += ["--interactive"] if idle_seconds is None else []
        argv += self.restrictions(run_dir / "engine")
        argv += bind(exchange.host_in, program.input_folder, "ro")
        argv += bind(exchange.host_out, program.output_folder, "rw")
        argv += bind(sockets.path, SOCKET_INSIDE, "rw")
        for path in program.mounts:
            argv += bind(path, str(path), "ro")
        for variable, value in {**ENVIRONMENT, **self._command.environment}.items():
            argv += ["--env", f"{variable}={value}"]
        argv += ["--env", "HOME=/tmp", "--env", "TMPDIR=/tmp"]
        argv += ["--entrypoint", program.argv[0], program.image, *program.argv[1:]]
        argv += ["--socket", f"{SOCKET_INSIDE}/{sockets.socket.name}"]
        argv += ["--in", program.input_folder, "--out", program.output_folder]
        argv += [] if self._tcp_port is None else ["--tcp", str(self._tcp_port)]
        argv += idle_option(idle_seconds)
        return Launch(
            self.name,
            sandboxed=True,
            argv=argv,
            environment=self.cli.environment(),
            exchange=exchange,
            sockets=sockets,
            what="the engine's container",
            guard=functools.partial(Container, self.cli, name),
            container=name,
        )

    def restrictions(self, files: Path, *, network: str = "none") -> list[str]:
        """Return the options that keep a container from all that is not its own.

        Args:
            files: A folder for the few files of `/etc` that it gets.
            network: `none`, or `container:NAME` to share another one's, which has none.
        """
        uid, gid = user_inside()
        identity = write_identity(files)
        memory = str(self._limits.memory)
        options = ["--rm", "--pull", "never", "--log-driver", "none", "--label", _LABELLED]
        options += ["--label", f"{OWNER_LABEL}={os.getuid()}", "--network", network]
        options += ["--read-only", "--tmpfs", _SCRATCH]
        options += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        options += ["--user", f"{uid}:{gid}"]
        options += ["--memory", memory, "--memory-swap", memory, "--cpus", str(_cpus())]
        options += ["--pids-limit", str(self._limits.processes), *resource_limits(self._limits)]
        for name in ("passwd", "group"):
            options += bind(identity / name, f"/etc/{name}", "ro")
        if network == "none":
            options += ["--hostname", "localhost"]
            options += bind(identity / "hosts", "/etc/hosts", "ro")
        if is_restricted_by_labels():
            # Labels would have to be changed on the inputs, which are the datasets' own files.
            options += ["--security-opt", "label=disable"]
        if self.name == "podman" and os.getuid() != 0:
            options += ["--userns", "keep-id"]
        return options

    def program(self) -> ContainerProgram:
        """Return what is to be run, having looked whether that is possible.

        Raises:
            EngineUnavailableError: If the tool does not work or the image is not there.
        """
        program = self._command.container
        reason = self.why_not(trial=False)
        if program is None or reason is not None:
            hint = program.hint if program is not None else None
            raise EngineUnavailableError(f"{self.name} does not work here: {reason}", hint=hint)
        return program

    def make_exchange(self, program: ContainerProgram, run_dir: Path) -> Exchange:
        """Make the folders of inputs and outputs, for the user that the engine runs as."""
        files = run_dir / "engine"
        return Exchange(
            files / "in",
            files / "out",
            program.input_folder,
            program.output_folder,
            link=True,
            owner=user_inside() if os.getuid() == 0 else None,
        )

    def make_sockets(self) -> SocketFolder:
        """Make the folder of the socket, for the user that the engine runs as."""
        sockets = SocketFolder(self._socket_root)
        if os.getuid() == 0:
            os.chown(sockets.path, *user_inside())
        return sockets

    def _try_it(self, program: ContainerProgram) -> str | None:
        """Run an empty program as the engine would be run."""
        import tempfile  # noqa: PLC0415  # once in a day

        with tempfile.TemporaryDirectory(prefix="odf-") as folder:
            done = self.cli.call(
                "run",
                *self.restrictions(Path(folder)),
                *("--entrypoint", PYTHON_INSIDE, program.image, "-I", "-S", "-c", ""),
            )
        return None if done.returncode == 0 else self.cli.complaint(done)


class Container:
    """A started container; ended here if it has not ended by itself.

    Args:
        cli: The tool that started it.
        name: Its name.
        attached: The tool, which stays attached to it and ends when it does.
    """

    def __init__(self, cli: ContainerCli, name: str, attached: EngineProcess) -> None:
        self._cli = cli
        self._name = name
        self._attached = attached

    def close(self) -> None:
        """Remove it if the tool was killed while it ran."""
        if self._attached.was_killed:
            with contextlib.suppress(EngineUnavailableError):
                self._cli.remove([self._name])


def container_name() -> str:
    """Make a name that says which process a container belongs to.

    A number of a process means something only in its namespace, and until it is used again: so
    these are in the name as well.
    """
    pid = os.getpid()
    return f"odf-{_pid_namespace()}-{pid}-{birth(pid)}-{secrets.token_hex(6)}"


def remove_leftovers(cli: ContainerCli) -> tuple[str, ...]:
    """Remove containers whose coordinator was killed and that did not notice.

    Returns:
        The names of those that were removed.
    """
    with contextlib.suppress(EngineUnavailableError):
        gone = tuple(name for name in list_containers(cli) if _is_orphan(name))
        cli.remove(gone)
        return gone
    return ()


def list_containers(cli: ContainerCli) -> Iterator[str]:
    """Return the names of this user's containers, as `container_name` makes them.

    Raises:
        EngineUnavailableError: The tool does not work.
    """
    label = f"label={OWNER_LABEL}={os.getuid()}"
    done = cli.call("ps", "--all", "--filter", label, "--format", "{{.Names}}")
    yield from done.stdout.decode("utf-8", "replace").split()


def _is_orphan(name: str) -> bool:
    found = _NAME.fullmatch(name)
    if found is None or int(found[1]) != _pid_namespace():
        return False
    return birth(int(found[2])) != int(found[3])


def _pid_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def bind(path: Path, inside: str, mode: Literal["ro", "rw"]) -> list[str]:
    """Write the option that shows a file or folder of this machine to a container.

    Args:
        path: It.
        inside: Where it is there.
        mode: Whether the container may write to it.
    """
    # Written out: in `--volume a:b` a colon in a path would mean something.
    readonly = ",readonly" if mode == "ro" else ""
    return ["--mount", f'type=bind,"source={path.absolute()}","target={inside}"{readonly}']


def _cpus() -> int:
    return len(os.sched_getaffinity(0))

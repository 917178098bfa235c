"""What all runtimes have in common.

A runtime starts an engine somewhere (a plain process, a sandbox, this process) and hands over an
`EngineHandle`: a client that speaks to it, until it is closed.
"""

import contextlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:  # gRPC is loaded while the engine starts
    from odf.runtimes.client import EngineClient


@dataclass(frozen=True, slots=True)
class ContainerProgram:
    """How an engine is started from an image.

    Attributes:
        image: A name with a tag, or `name@sha256:…`. It is never fetched from anywhere.
        argv: The program and its arguments inside; empty for what the image starts by itself.
        mounts: Files of this machine that it has to read, at these same paths.
        port: The TCP port on which it serves, for engines that know no Unix socket; None for ours.
        input_folder: Where it finds the files that it is told to read.
        output_folder: Where it writes.
        scratch: Further folders that it has to write; in memory, gone with the container.
        hint: What to do where the image is missing.
    """

    image: str
    argv: tuple[str, ...] = ()
    mounts: tuple[Path, ...] = ()
    port: int | None = None
    input_folder: str = "/odf/in"
    output_folder: str = "/odf/out"
    scratch: tuple[str, ...] = ()
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """How an engine's host is started, without the options that the runtime adds.

    Attributes:
        argv: The program and its arguments. The first one is run as it is, never by a shell.
        read_only: Files and folders beside Python and this package that the engine has to read,
            at these same paths: a Java home, third-party packages.
        environment: Variables that the engine gets beside the few that the runtime sets. Nothing
            else of the caller's environment reaches it.
        container: The same engine from an image; None if it cannot be run from one.
    """

    argv: tuple[str, ...]
    read_only: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    container: ContainerProgram | None = None


def python_command(
    module: str,
    *arguments: str,
    read_only: tuple[Path, ...] = (),
    environment: Mapping[str, str] | None = None,
    container: ContainerProgram | None = None,
) -> EngineCommand:
    """Start a module with this Python, isolated from the user's environment and current folder.

    Args:
        module: For example `odf.engines.spark`. It is named only, never imported here.
        arguments: Options of the engine's own.
        read_only: See `EngineCommand`.
        environment: See `EngineCommand`.
        container: See `EngineCommand`.
    """
    argv = (sys.executable, "-I", "-m", module, *arguments)
    return EngineCommand(argv, read_only, environment or {}, container)


class Closeable(Protocol):
    """Something that has to be ended."""

    def close(self) -> None:
        """End it; calling it again does nothing."""
        ...


class EngineHandle:
    """A running engine. Use it as a context manager, or close it.

    Args:
        client: Speaks to the engine.
        runtime: Name of the runtime that started it.
        sandboxed: Whether the engine is kept from the network and from other files.
        pid: Process that was started for it, as this side sees it; None if there is none.
        resources: What to end, in this order, when the handle is closed.
        has_ended: Tells at once whether the engine's process is gone; None if it has none.
    """

    def __init__(
        self,
        client: "EngineClient",
        runtime: str,
        *,
        sandboxed: bool,
        resources: tuple[Closeable, ...],
        pid: int | None = None,
        has_ended: Callable[[], bool] | None = None,
    ) -> None:
        self.client = client
        self.runtime = runtime
        self.sandboxed = sandboxed
        self.pid = pid
        self._resources = resources
        self._has_ended = has_ended

    @property
    def has_ended(self) -> bool:
        """Whether the engine died: it will not answer any more, and only has to be closed."""
        return self._has_ended is not None and self._has_ended()

    def close(self) -> None:
        """Stop the engine and remove its folders and socket."""
        resources, self._resources = self._resources, ()
        with contextlib.ExitStack() as stack:
            # One that cannot be ended does not keep the others alive.
            for resource in reversed(resources):
                stack.callback(resource.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Runtime(Protocol):
    """A way to run engines."""

    @property
    def name(self) -> str:
        """What the user calls it: `bubblewrap`, `process`."""
        ...

    @property
    def sandboxed(self) -> bool:
        """Whether its engines are kept from the network and from other files."""
        ...

    def start(self, run_dir: Path) -> EngineHandle:
        """Start an engine.

        Args:
            run_dir: The folder of this run: logs stay there, exchanged files while it lives.

        Raises:
            EngineUnavailableError: If it does not come up.
        """
        ...

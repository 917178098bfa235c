"""The engines of one command: started when first needed, shared, and ended together.

One's own datasets share one host. A dataset that came from elsewhere gets a host of its own, so
that a hostile query finds nothing there that belongs to anybody else.
"""

import contextlib
import hashlib
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.errors import EngineUnavailableError, OdfError
from odf.protocol import MISSING_ARCHIVE
from odf.runtimes.base import (
    ContainerProgram,
    EngineCommand,
    EngineHandle,
    Runtime,
    python_command,
)
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.container import ContainerRuntime
from odf.runtimes.foreign import chosen_image, no_such_engine
from odf.runtimes.images import ARCHIVES_INSIDE, own_program
from odf.runtimes.process import Launch, ProcessRuntime
from odf.runtimes.sandbox import SandboxMemory
from odf.runtimes.select import RuntimeChoice, RuntimeMemory, select_runtime
from odf.runtimes.warm import WarmHosts, fingerprint

if TYPE_CHECKING:  # gRPC is loaded while the engine starts
    from odf.runtimes.client import EngineClient

SPARK: Final = "spark"
"""The engine that reads source files and does everything else, as `transform.engine` names it."""

DATAFUSION: Final = "datafusion"
"""The small engine for maps, filters and unions, as `transform.engine` names it."""

ENGINES: Final = (SPARK, DATAFUSION)
"""The engines that come with this package."""

CONTAINER_TOOLS: Final = ("docker", "podman")
"""What runs engines from images, where it is installed."""

_PACKAGES: Final = {SPARK: "pyspark", DATAFUSION: "datafusion"}


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How engines are run.

    Attributes:
        runtime: `auto`, `docker`, `podman`, `bubblewrap` or `process`.
        memory: What an engine may take in bytes (Spark: its heap); None for its default.
        java_home: A Java runtime to use instead of the one that came along.
        allow_unsandboxed: Run queries of others without a sandbox if none works.
        socket_root: Where sockets go; a private temporary folder if None.
        cache_home: Where class archives are (see `archives_folder`); engines start without if None.
        warm_folder: Where hosts that stay for the next command have their folders.
        idle_seconds: How long they stay without use; with 0 none does.
        spark_master: A Spark cluster on which the tasks for one's own datasets run.
        images: Engines of others, by the name that manifests use, in lower case.
    """

    runtime: RuntimeChoice = "auto"
    memory: int | None = None
    java_home: Path | None = None
    allow_unsandboxed: bool = False
    socket_root: Path | None = None
    cache_home: Path | None = None
    warm_folder: Path | None = None
    idle_seconds: float = 0.0
    spark_master: str | None = None
    images: Mapping[str, ContainerProgram] = field(default_factory=dict)


def archives_folder(cache_home: Path) -> Path:
    """Return where the class archives of engines are: made once, only read by engines."""
    return cache_home / "odf" / "engines"


class EnginePool:
    """Starts engines when they are asked for.

    Args:
        settings: How to run them.
        run_dir: The run folder of the command, for logs and exchanged files.
        announce: Told which runtime was taken, once.
    """

    def __init__(
        self,
        settings: PoolSettings,
        run_dir: Path,
        announce: Callable[[str], None] | None = None,
    ) -> None:
        self._settings = settings
        self._run_dir = run_dir
        self._announce = announce
        self._handles: dict[str, EngineHandle] = {}
        self._starting = threading.Lock()
        self._early: list[threading.Thread] = []
        self._selected: str | None = None

    def start_early(self, engine: str, *, dataset: str, trusted: bool) -> None:
        """Start an engine that is going to be needed, without waiting for it.

        What goes wrong is told to who asks for it.

        Args:
            engine: As `client` takes it.
            dataset: As `client` takes it.
            trusted: As `client` takes it.
        """

        def start() -> None:
            with contextlib.suppress(OdfError):
                self.client(engine, dataset=dataset, trusted=trusted)

        thread = threading.Thread(target=start, daemon=True, name="early-engine")
        self._early.append(thread)
        thread.start()

    def client(
        self, engine: str, *, dataset: str, trusted: bool, version: str | None = None
    ) -> "EngineClient":
        """Return a client of a running engine, starting it if need be.

        Args:
            engine: Its name in a manifest; compared without case.
            dataset: The dataset it works for; strangers' datasets never share a host.
            trusted: Whether the dataset is one's own.
            version: The image that the transform is pinned to, for engines of others.

        Raises:
            EngineUnavailableError: If there is no such engine, it does not start, or it must not
                run here without a sandbox.
        """
        name = self._known(engine, dataset)
        key = name if trusted else f"{name}-{dataset}"
        if name not in ENGINES and version is not None:
            key += f"-{hashlib.sha3_256(version.encode()).hexdigest()[:8]}"
        with self._starting:
            if key in self._handles and self._handles[key].has_ended:
                # What killed it may have been the other dataset's data: a fresh start for this one.
                self._handles.pop(key).close()
            if key not in self._handles:
                self._handles[key] = self._start(name, key, version, trusted=trusted)
            return self._handles[key].client

    def require(self, engine: str, *, dataset: str, version: str | None = None) -> None:
        """Make sure that an engine could be started, without starting it.

        Args:
            engine: As `client` takes it.
            dataset: As `client` takes it.
            version: As `client` takes it.

        Raises:
            EngineUnavailableError: If there is no such engine, its package is not installed, or its
                image is not here.
        """
        name = self._known(engine, dataset)
        if name not in ENGINES:
            chosen_image(self._settings.images[name], self._settings.runtime, version)
        else:
            _require_package(name)

    def _known(self, engine: str, dataset: str) -> str:
        """Return the name of an engine that is one of ours or configured."""
        name = engine.lower()
        if name not in ENGINES and name not in self._settings.images:
            raise no_such_engine(f"dataset {dataset}", engine, (*ENGINES, *self._settings.images))
        return name

    def pin(self, engine: str) -> str:
        """Return the image of an engine of others as transforms are pinned to it.

        Args:
            engine: Its name in a manifest; compared without case.

        Raises:
            EngineUnavailableError: If it is not configured, or its image is not here.
        """
        name = engine.lower()
        if name not in self._settings.images:
            raise no_such_engine("the transform", engine, (*ENGINES, *self._settings.images))
        program = self._settings.images[name]
        return chosen_image(program, self._settings.runtime, None).pin

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes that were started here; what they start themselves ends with them."""
        return tuple(handle.pid for handle in self._handles.values() if handle.pid is not None)

    @property
    def lacks_archive(self) -> bool:
        """Whether Spark was started here without a class archive although there could be one."""
        return any(
            handle.client.versions.get("archive") == MISSING_ARCHIVE
            for handle in self._handles.values()
            if handle.runtime not in CONTAINER_TOOLS
        )

    @property
    def descriptions(self) -> Mapping[str, str]:
        """Which runtime each started engine has, by the engine's key."""
        return {key: handle.runtime for key, handle in self._handles.items()}

    def close(self) -> None:
        """End all engines."""
        for thread in self._early:
            thread.join()
        handles, self._handles = self._handles, {}
        for handle in handles.values():
            handle.close()

    def _start(self, name: str, key: str, version: str | None, *, trusted: bool) -> EngineHandle:
        self._selected = None
        try:
            return self._start_once(name, key, version, trusted=trusted)
        except EngineUnavailableError:
            memory = self._memory()
            # A sandbox that is only known to have worked may not do so any more.
            in_sandbox = self._selected == BubblewrapRuntime.name
            if memory is None or not in_sandbox or not SandboxMemory(memory.folder).forget():
                raise
        return self._start_once(name, key, version, trusted=trusted)

    def _start_once(
        self, name: str, key: str, version: str | None, *, trusted: bool
    ) -> EngineHandle:
        if name not in ENGINES:
            return self._start_foreign(name, key, version, trusted=trusted)
        command = self._spark_command() if name == SPARK else self._datafusion_command(trusted)
        if name == SPARK and trusted and self._settings.spark_master is not None:
            return self._start_driver(self._settings.spark_master, command, key)
        if trusted and (kept := self._kept(name, command)) is not None:
            return kept
        return self._select(name, command, trusted=trusted).start(self._run_dir / key)

    def _start_driver(self, master: str, command: EngineCommand, key: str) -> EngineHandle:
        """Start Spark as the driver of a cluster: it has to reach the network, so no sandbox."""
        if self._announce is not None:
            self._announce(f"engine spark as the driver of {master}, without a sandbox")
        driver = replace(command, argv=(*command.argv, "--master", master))
        runtime = ProcessRuntime(driver, socket_root=self._settings.socket_root)
        return runtime.start(self._run_dir / key)

    def _start_foreign(
        self, name: str, key: str, version: str | None, *, trusted: bool
    ) -> EngineHandle:
        program = self._settings.images[name]
        chosen = chosen_image(program, self._settings.runtime, version)
        # By its number: what a name stands for can change between looking and starting.
        command = EngineCommand((), container=replace(program, image=chosen.facts.image_id))
        return self._select(name, command, trusted=trusted).start(self._run_dir / key)

    def _select(self, name: str, command: EngineCommand, *, trusted: bool) -> Runtime:
        selection = select_runtime(
            self._settings.runtime,
            command,
            trusted=trusted,
            allow_unsandboxed=self._settings.allow_unsandboxed,
            socket_root=self._settings.socket_root,
            memory=self._memory(),
        )
        self._selected = selection.runtime.name
        if self._announce is not None:
            self._announce(f"engine {name} in {selection.runtime.name} ({selection.reason})")
        return selection.runtime

    def _kept(self, name: str, command: EngineCommand) -> EngineHandle | None:
        """Return an engine that outlives this command, from an earlier one or new."""
        settings = self._settings
        if settings.warm_folder is None or settings.idle_seconds <= 0:
            return None

        def compose(place: Path, idle_seconds: float) -> Launch | None:
            runtime = self._select(name, command, trusted=True)
            if not isinstance(runtime, BubblewrapRuntime | ContainerRuntime | ProcessRuntime):
                return None
            return runtime.compose(place, idle_seconds=idle_seconds)

        hosts = WarmHosts(settings.warm_folder, settings.idle_seconds)
        try:
            return hosts.take(name, fingerprint(command, settings.runtime), compose)
        except OSError:
            return None  # there is no place to keep it, as in a workspace that can only be read

    def _memory(self) -> RuntimeMemory | None:
        cache = self._settings.cache_home
        return None if cache is None else RuntimeMemory(archives_folder(cache))

    def _spark_command(self) -> EngineCommand:
        arguments: list[str] = []
        read_only: tuple[Path, ...] = ()
        if self._settings.memory is not None:
            arguments += ["--heap", str(self._settings.memory)]
        if self._settings.java_home is not None:
            arguments += ["--java-home", str(self._settings.java_home)]
            read_only = (self._settings.java_home,)
        if self._settings.cache_home is not None:
            archives = archives_folder(self._settings.cache_home)
            with contextlib.suppress(OSError):
                # Where there is none yet the engine says that it misses one.
                archives.mkdir(mode=0o700, parents=True, exist_ok=True)
            if archives.is_dir():
                arguments += ["--archives", str(archives)]
                read_only = (*read_only, archives)
        return python_command(
            "odf.engines.spark",
            *arguments,
            read_only=read_only,
            container=self._spark_container(),
        )

    def _spark_container(self) -> ContainerProgram | None:
        """The same in its image, which has its own Java: another one cannot be asked for there."""
        if self._settings.java_home is not None:
            return None
        arguments = ["--archives", ARCHIVES_INSIDE]
        if self._settings.memory is not None:
            arguments += ["--heap", str(self._settings.memory)]
        return self._own_image(SPARK, *arguments)

    def _own_image(self, engine: str, *arguments: str) -> ContainerProgram | None:
        """Say how one of our engines is started from its image, where it may come to that.

        To tell which image it is, all that goes into it has to be read.
        """
        chosen = self._settings.runtime
        if chosen in ("bubblewrap", "process"):
            return None
        if chosen == "auto" and not any(map(shutil.which, CONTAINER_TOOLS)):
            return None
        return own_image(engine, *arguments)

    def _datafusion_command(self, trusted: bool) -> EngineCommand:
        """Compose the command; queries that need state run only in replays of others' datasets."""
        _require_package(DATAFUSION)
        arguments: list[str] = [] if trusted else ["--slice-by-slice"]
        if self._settings.memory is not None:
            arguments += ["--memory", str(self._settings.memory)]
        return python_command(
            "odf.engines.datafusion",
            *arguments,
            container=self._own_image(DATAFUSION, *arguments),
        )


def _require_package(engine: str) -> None:
    if find_spec(_PACKAGES[engine]) is None:
        raise EngineUnavailableError(
            f"the engine {engine} is not installed",
            hint=f"install it: pip install 'opendatafabric[{engine}]'",
        )


def own_image(engine: str, *arguments: str) -> ContainerProgram | None:
    """Say how one of our engines is started from its image, if it can be told which that is.

    Args:
        engine: Its name.
        arguments: Options of the engine's own, with paths as they are inside.
    """
    try:
        return own_program(engine, *arguments)
    except EngineUnavailableError:
        # What it needs is not installed here: its plain process says so, with the remedy.
        return None

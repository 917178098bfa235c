"""The engines of one command: started when first needed, shared, and ended together.

One's own datasets share one host. A dataset that came from elsewhere gets a host of its own, so
that a hostile query finds nothing there that belongs to anybody else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from odf.errors import EngineUnavailableError
from odf.runtimes.base import EngineCommand, EngineHandle, python_command
from odf.runtimes.client import EngineClient
from odf.runtimes.select import RuntimeChoice, select_runtime

SPARK: Final = "spark"
"""The engine that reads source files and does everything else, as `transform.engine` names it."""

DATAFUSION: Final = "datafusion"
"""The small engine for maps, filters and unions, as `transform.engine` names it."""

ENGINES: Final = (SPARK, DATAFUSION)
"""The engines that come with this package."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How engines are run.

    Attributes:
        runtime: `auto`, `bubblewrap` or `process`.
        memory: What an engine may take in bytes (Spark: its heap); None for its default.
        java_home: A Java runtime to use instead of the one that came along.
        allow_unsandboxed: Run queries of others without a sandbox if none works.
        socket_root: Where sockets go; a private temporary folder if None.
        cache_home: Where class archives are (see `archives_folder`); engines start without if None.
    """

    runtime: RuntimeChoice = "auto"
    memory: int | None = None
    java_home: Path | None = None
    allow_unsandboxed: bool = False
    socket_root: Path | None = None
    cache_home: Path | None = None


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

    def client(self, engine: str, *, dataset: str, trusted: bool) -> EngineClient:
        """Return a client of a running engine, starting it if need be.

        Args:
            engine: Its name in a manifest; compared without case.
            dataset: The dataset it works for; strangers' datasets never share a host.
            trusted: Whether the dataset is one's own.

        Raises:
            EngineUnavailableError: If there is no such engine, it does not start, or it must not
                run here without a sandbox.
        """
        name = engine.lower()
        if name not in ENGINES:
            raise EngineUnavailableError(
                f"dataset {dataset} asks for engine {engine!r}; this release has: "
                f"{', '.join(ENGINES)}",
                hint="rewrite the query for Spark (engine: spark)",
            )
        key = name if trusted else f"{name}-{dataset}"
        if key in self._handles and self._handles[key].has_ended:
            # What killed it may have been the other dataset's data: this one gets a fresh start.
            self._handles.pop(key).close()
        if key not in self._handles:
            self._handles[key] = self._start(name, key, trusted=trusted)
        return self._handles[key].client

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes that were started here; what they start themselves ends with them."""
        return tuple(handle.pid for handle in self._handles.values() if handle.pid is not None)

    @property
    def descriptions(self) -> Mapping[str, str]:
        """Which runtime each started engine has, by the engine's key."""
        return {key: handle.runtime for key, handle in self._handles.items()}

    def close(self) -> None:
        """End all engines."""
        handles, self._handles = self._handles, {}
        for handle in handles.values():
            handle.close()

    def _start(self, name: str, key: str, *, trusted: bool) -> EngineHandle:
        command = self._spark_command() if name == SPARK else self._datafusion_command(trusted)
        selection = select_runtime(
            self._settings.runtime,
            command,
            trusted=trusted,
            allow_unsandboxed=self._settings.allow_unsandboxed,
            socket_root=self._settings.socket_root,
        )
        if self._announce is not None:
            self._announce(f"engine {name} in {selection.runtime.name} ({selection.reason})")
        return selection.runtime.start(self._run_dir / key)

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
            if archives.is_dir():
                arguments += ["--archives", str(archives)]
                read_only = (*read_only, archives)
        return python_command("odf.engines.spark", *arguments, read_only=read_only)

    def _datafusion_command(self, trusted: bool) -> EngineCommand:
        """Compose the command; queries that need state run only in replays of others' datasets."""
        if find_spec("datafusion") is None:
            raise EngineUnavailableError(
                "the engine datafusion is not installed",
                hint="install it: pip install 'opendatafabric[datafusion]'",
            )
        arguments: list[str] = [] if trusted else ["--slice-by-slice"]
        if self._settings.memory is not None:
            arguments += ["--memory", str(self._settings.memory)]
        return python_command("odf.engines.datafusion", *arguments)

"""What every use case is given: the workspace, the keys, the clock and, when needed, an engine.

Only the command line reads flags and the environment; it turns them into `Settings` and hands a
`Context` to the use cases.
"""

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

from odf.clock import Clock, SystemClock
from odf.errors import AuthError, TransportError
from odf.metadata.identity import DatasetID
from odf.metadata.model import Timestamp
from odf.workspace.keys import KeyStore
from odf.workspace.runs import SCRATCH
from odf.workspace.workspace import DatasetHandle, Workspace

if TYPE_CHECKING:  # grpc is heavy, and most commands never talk to an engine
    from odf.data.apart import ReaderApart
    from odf.runtimes.pool import EnginePool

_MOST_READERS: Final = 4
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR})

DEFAULT_IDLE_SECONDS: Final = 600.0
"""How long an engine stays for a person at a terminal."""

RuntimeName = Literal["auto", "docker", "podman", "bubblewrap", "process"]
"""What engines are run in, as `engine.runtime` names it."""

Progress = Callable[[str, str], None]
"""Called with the name of a dataset and what is being done to it."""


def _silent(_dataset: str, _message: str) -> None:
    """Drop progress messages."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What flags, environment and configuration say, resolved.

    Attributes:
        data_home: Where private keys live (`<data_home>/odf/keys`).
        cache_home: Where rebuildable things outside workspaces live.
        config_home: Where the user's configuration lives.
        runtime_home: Where sockets are made; a temporary folder if None.
        java_home: A Java runtime to use instead of the one that came along.
        runtime: `auto`, `docker`, `podman`, `bubblewrap` or `process`; None takes the
            workspace's configuration.
        allow_unsandboxed: Run engines without a sandbox for datasets of others too.
        idle_timeout: Seconds that an engine stays for the next command; None takes the workspace's
            configuration.
        stays: Whether an engine stays where nothing says for how long: there is somebody at a
            terminal who may go on.
        lock_timeout: Seconds to wait for a dataset that another process holds.
        environment: Variables that network clients heed (proxies, certificates).
        variables: The whole environment, for sources whose user agreed to what they read. Its
            values are secrets: nothing shows them.
    """

    data_home: Path
    cache_home: Path
    config_home: Path
    runtime_home: Path | None = None
    java_home: Path | None = None
    runtime: RuntimeName | None = None
    allow_unsandboxed: bool = False
    idle_timeout: float | None = None
    stays: bool = False
    lock_timeout: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


class Context:
    """The surroundings of one command.

    Used as a context manager: leaving it ends any engine that was started.

    Args:
        workspace: The workspace to work in.
        settings: Resolved settings.
        command: The command's name, for the run folder.
        clock: Where the time comes from.
        progress: Told what is being done.
        engines: Engines that outlive this command; without them it starts and ends its own.
    """

    def __init__(
        self,
        workspace: Workspace,
        settings: Settings,
        *,
        command: str,
        clock: Clock | None = None,
        progress: Progress | None = None,
        engines: "EnginePool | None" = None,
    ) -> None:
        self.workspace = workspace
        self.settings = settings
        self.command = command
        self.clock: Clock = clock or SystemClock()
        self.progress: Progress = progress or _silent
        self.keys = KeyStore(settings.data_home)
        self._run_dir: Path | None = None
        self._temporary: Path | None = None
        self._engines = engines
        self._owns_engines = engines is None
        self._readers: dict[DatasetID, ReaderApart] = {}

    def now(self) -> Timestamp:
        """Return the current time as the chain writes it."""
        return Timestamp.from_datetime(self.clock.now())

    @property
    def runtime_choice(self) -> RuntimeName:
        """What engines and commands run in: the flag or variable, else the configuration."""
        return self.settings.runtime or self.workspace.config.engine_runtime.value

    @property
    def idle_seconds(self) -> float:
        """How long engines stay for the next command; 0 if they end with this one."""
        if self.settings.idle_timeout is not None:
            return self.settings.idle_timeout
        configured = self.workspace.config.engine_idle_timeout
        if configured is not None:
            return configured.total_seconds()
        return DEFAULT_IDLE_SECONDS if self.settings.stays else 0.0

    @property
    def run_dir(self) -> Path:
        """The folder for logs and scratch of this command; made when first asked for.

        In a workspace that can only be read it is a temporary one: what is there can be verified
        all the same.
        """
        if self._run_dir is None:
            try:
                self._run_dir = self.workspace.run_dir(self.command)
            except (AuthError, TransportError) as error:
                if getattr(error.__cause__, "errno", None) not in _READ_ONLY:
                    raise
                self._run_dir = self._temporary = Path(tempfile.mkdtemp(prefix="odf-run-"))
        return self._run_dir

    @property
    def staging_dir(self) -> Path:
        """Where slices wait for their commit: on the file system of the datasets."""
        return self.run_dir / SCRATCH

    @property
    def engines(self) -> "EnginePool":
        """The engines of this command; none is started before it is used."""
        if self._engines is None:
            from odf.coordinator.engine_images import configured_images  # noqa: PLC0415
            from odf.runtimes.pool import EnginePool, PoolSettings  # noqa: PLC0415

            config = self.workspace.config
            self._engines = EnginePool(
                PoolSettings(
                    runtime=self.runtime_choice,
                    memory=config.engine_memory,
                    java_home=self.settings.java_home,
                    allow_unsandboxed=self.settings.allow_unsandboxed,
                    socket_root=self.settings.runtime_home,
                    cache_home=self.settings.cache_home,
                    warm_folder=self.workspace.hosts_dir,
                    idle_seconds=self.idle_seconds,
                    images=configured_images(config),
                    spark_master=config.spark_master,
                ),
                run_dir=self.run_dir,
                announce=lambda text: self.progress("engine", text),
            )
        return self._engines

    def reader_of(self, handle: DatasetHandle) -> "ReaderApart":
        """What reads the slices of a stranger's dataset; none is started before it is used."""
        if handle.id not in self._readers:
            from odf.coordinator.reading import make_reader  # noqa: PLC0415

            # Each takes some ten megabytes, and is made anew if it is needed again.
            for other in list(self._readers.values())[: 1 - _MOST_READERS]:
                other.close()
            self._readers[handle.id] = make_reader(self, handle)
        return self._readers[handle.id]

    def close(self) -> None:
        """End the engines and readers that this command started."""
        try:
            self._end_all()
        finally:
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)
                self._run_dir = self._temporary = None

    def _end_all(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers = {}
        if self._engines is None or not self._owns_engines:
            return
        # Somebody at a terminal is going to run more commands, and cron is left in peace.
        slow = self.settings.stays and self._engines.lacks_archive
        self._engines.close()
        self._engines = None
        if slow:
            from odf.coordinator.engine_archives import make_archive_behind  # noqa: PLC0415

            with contextlib.suppress(OSError):  # the command itself has done its work
                make_archive_behind(self.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

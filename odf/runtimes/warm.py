"""Engines that stay for the next command (design §6, `engine.idleTimeout`).

A command that may leave an engine behind looks into the workspace's folder of hosts first: is one
there that was started in the same way, by the same release? Then it takes a lease on it
(`odf.engines.host.lease` is the other end), else it starts one. What is needed to find a host
again is in one small file beside its folders; what a dead host left is swept away by whoever
meets it.

Only engines for one's own datasets are kept: a stranger's query never finds what another left.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

import odf
from odf.errors import EngineUnavailableError, OdfError
from odf.limits import (
    ENGINE_START_SECONDS,
    ENGINE_STOP_SECONDS,
    HOST_SILENCE_SECONDS,
    HOST_WATCH_SECONDS,
    LEASE_ANSWER_SECONDS,
    MAX_WARM_RECORD,
)
from odf.protocol import PROTOCOL_VERSION
from odf.runtimes.base import EngineCommand, EngineHandle
from odf.runtimes.child import SOCKET_NAME, EngineProcess, Obituary, tail_of
from odf.runtimes.container_cli import ContainerCli, ContainerToolName
from odf.runtimes.exchange import Exchange
from odf.runtimes.lease import HostSilentError, Lease, LeaseEndedError
from odf.runtimes.process import Launch, load_what_is_needed_then
from odf.runtimes.processes import birth, is_seen, works

_RECORD: Final = "host.json"
_LOCK: Final = "lock"
_LOG: Final = "engine.stderr.txt"
_POLL_SECONDS: Final = 0.02


Compose = Callable[[Path, float], Launch | None]
"""Makes the folders of an engine in a given folder, and the command that starts it to stay for so
many seconds; None where engines of the chosen runtime cannot stay."""


@dataclass(frozen=True, slots=True)
class WarmHost:
    """A host that was left for the next command.

    Attributes:
        engine: Name of the engine.
        place: The folder that it was started for, whose inputs and outputs it sees.
        fingerprint: How it was started, and by which release; another one does not fit.
        runtime: Name of the runtime.
        sandboxed: Whether it is kept from the network and from other files.
        pid: Its process.
        birth: When that process began, as the kernel counts: process ids are used again.
        sockets: The folder of its sockets.
        engine_in: The folder of its inputs, as it sees it.
        engine_out: The folder of its outputs, as it sees it.
        link: Whether inputs may be hard links.
        idle_seconds: How long it stays without use.
        container: The name of its container; None if it has none.
    """

    engine: str
    place: str
    fingerprint: str
    runtime: str
    sandboxed: bool
    pid: int
    birth: int
    sockets: str
    engine_in: str
    engine_out: str
    link: bool
    idle_seconds: float
    container: str | None = None

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read what a folder says about its host; None if that is nothing one can use.

        A workspace that was copied has the record of a host that belongs to the other one.
        """
        try:
            with (folder / _RECORD).open("rb") as file:
                found = cls(**json.loads(file.read(MAX_WARM_RECORD)))
            return found if found.place == str(folder.resolve()) else None
        except (OSError, ValueError, TypeError):
            return None

    def write(self, folder: Path) -> None:
        """Leave it in a folder, whole or not at all."""
        staged = folder / f"{_RECORD}.{secrets.token_hex(4)}"
        staged.write_text(json.dumps(asdict(self)))
        staged.rename(folder / _RECORD)

    @property
    def lives(self) -> bool:
        """Whether its process is still there."""
        return birth(self.pid) == self.birth

    def lease(self, patience: float = HOST_SILENCE_SECONDS) -> Lease:
        """Connect to it.

        Args:
            patience: How many seconds each answer may take.

        Raises:
            LeaseEndedError: If nobody serves there.
        """
        return Lease(Path(self.sockets), patience)

    def status(self, patience: float = HOST_SILENCE_SECONDS) -> "HostStatus":
        """Ask how much it is used.

        Args:
            patience: How many seconds the answer may take.

        Raises:
            HostSilentError: If it says nothing.
            LeaseEndedError: If it has ended, or is about to.
        """
        found = self.lease(patience).status()
        return HostStatus(self, found.leases, found.idle_seconds)

    def end(self, *, by_force: bool = False) -> None:
        """Stop it, in order if it still answers, and by force if not.

        Args:
            by_force: Do not ask it.
        """
        hears = False
        if not by_force:
            with contextlib.suppress(LeaseEndedError):
                self.lease().stop()
                hears = self._has_ended_within(ENGINE_STOP_SECONDS)
        if not hears:
            self._kill()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def _kill(self) -> None:
        if self.lives:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._has_ended_within(ENGINE_STOP_SECONDS)
        if self.container is not None and (tool := _tool(self.runtime)) is not None:
            # What was killed is the tool that was attached to it.
            with contextlib.suppress(EngineUnavailableError):
                ContainerCli(tool).remove([self.container])

    def _has_ended_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.lives and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return not self.lives


@dataclass(frozen=True, slots=True)
class HostStatus:
    """A host as it is at the moment.

    Attributes:
        host: It.
        leases: Commands that use it; None if it does not answer.
        idle_seconds: How long nobody has; None if it does not answer.
    """

    host: WarmHost
    leases: int | None
    idle_seconds: float | None


class WarmHosts:
    """The hosts of one workspace.

    Args:
        folder: Where their folders are; on the file system of the datasets.
        idle_seconds: How long those that are started here stay without use.
    """

    def __init__(self, folder: Path, idle_seconds: float) -> None:
        self._folder = folder
        self._idle_seconds = idle_seconds

    def take(self, engine: str, wanted: str, compose: Compose) -> EngineHandle | None:
        """Take a lease on a host that fits, starting one if there is none.

        Args:
            engine: Name of the engine.
            wanted: The `fingerprint` of the host.
            compose: Called to start one.

        Returns:
            The engine; None if it cannot stay, or if there is one that does not answer or was
            started otherwise, and works for another command.

        Raises:
            EngineUnavailableError: If it does not come up.
        """
        place = self._folder / engine
        with _locked(place):
            found = WarmHost.read(place)
            if found is not None and found.lives:
                try:
                    if found.fingerprint == wanted:
                        return _adopt(found, place, HOST_SILENCE_SECONDS, LEASE_ANSWER_SECONDS)
                    is_needed = bool(found.status().leases)
                except HostSilentError as silent:
                    is_needed = _works(found, silent.pid)
                except OdfError:
                    is_needed = _is_used(found)
                if is_needed:
                    return None
            if found is not None:
                # It has nothing that anybody needs, and taking Java apart can take its time.
                found.end(by_force=True)
            _sweep(place)
            launch = compose(place, self._idle_seconds)
            return None if launch is None else self._start(place, engine, wanted, launch)

    def _start(self, place: Path, engine: str, wanted: str, launch: Launch) -> EngineHandle:
        sockets, exchange = launch.sockets, launch.exchange
        child = None
        try:
            child = EngineProcess(
                launch.argv,
                launch.environment,
                place,
                sockets.socket,
                launch.what,
                outlives=True,
            )
            load_what_is_needed_then()
            child.wait_ready()
            host = WarmHost(
                engine=engine,
                place=str(place.resolve()),
                fingerprint=wanted,
                runtime=launch.runtime,
                sandboxed=launch.sandboxed,
                pid=child.pid,
                birth=birth(child.pid) or 0,
                sockets=str(sockets.path),
                engine_in=exchange.engine_in,
                engine_out=exchange.engine_out,
                link=exchange.link,
                idle_seconds=self._idle_seconds,
                container=launch.container,
            )
            # It came up a moment ago, and may be busy with that.
            handle = _adopt(host, place, ENGINE_START_SECONDS, ENGINE_START_SECONDS)
            host.write(place)
        except BaseException:
            if child is not None:
                child.close()
            sockets.close()
            exchange.close()
            raise
        child.detach()
        return handle


def fingerprint(command: EngineCommand, choice: str) -> str:
    """Say how an engine is started: two that agree in this give the same answers in the same way.

    The times of the package's own files are part of it, so that a host never serves code that has
    been replaced since.

    Args:
        command: How its host is started.
        choice: The runtime as it was asked for.
    """
    parts = [
        odf.__version__,
        str(PROTOCOL_VERSION),
        choice,
        *command.argv,
        *map(str, command.read_only),
        *(f"{name}={value}" for name, value in sorted(command.environment.items())),
        *(f"{path}:{path.stat().st_mtime_ns}" for path in _sources()),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def running_hosts(folder: Path) -> tuple[HostStatus, ...]:
    """Return the hosts of a workspace that live, also those that do not answer."""
    found = []
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        host = WarmHost.read(place)
        if host is None or not host.lives:
            continue
        try:
            found.append(host.status())
        except HostSilentError:
            found.append(HostStatus(host, None, None))
        except LeaseEndedError:
            continue
    return tuple(found)


def stop_hosts(folder: Path, *, also_used: bool = False) -> tuple[WarmHost, ...]:
    """Stop the hosts of a workspace, and remove their folders.

    Args:
        folder: Where their folders are.
        also_used: Stop those that a command uses as well; it will fail.

    Returns:
        Those that were alive.
    """
    stopped = []
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        with _locked(place):
            host = WarmHost.read(place)
            if host is not None and not also_used and _says_it_is_used(host):
                continue
            if host is not None:
                if host.lives:
                    stopped.append(host)
                host.end()
            _sweep(place)
    return tuple(stopped)


class _Adopted:
    """The process of a host that another command started."""

    def __init__(self, host: WarmHost, log: Path) -> None:
        self._host = host
        self.log = log
        self._log_start = log.stat().st_size if log.exists() else 0

    def has_ended(self) -> bool:
        return not self._host.lives

    def obituary(self) -> Obituary | None:
        deadline = time.monotonic() + ENGINE_STOP_SECONDS
        while self._host.lives and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if self._host.lives:
            return None
        return Obituary("ended", self.log, tail_of(self.log, self._log_start))


def _adopt(host: WarmHost, place: Path, lease_patience: float, patience: float) -> EngineHandle:
    """Take a lease and speak to a host.

    Args:
        host: It.
        place: Its folder.
        lease_patience: How many seconds it may take to give a lease.
        patience: How many seconds it may take to say who it is then.

    Raises:
        LeaseEndedError: If it is about to end, or does not answer on its lease.
        EngineUnavailableError: If its engine does not answer.
    """
    from odf.runtimes.client import EngineClient, GrpcLink  # noqa: PLC0415  # as in `connect`

    lease = host.lease(lease_patience)
    link = None
    try:
        lease.take()
        process = _Adopted(host, place / _LOG)
        files = place / "engine"
        exchange = Exchange(
            files / "in", files / "out", host.engine_in, host.engine_out, link=host.link
        )
        link = GrpcLink(Path(host.sockets) / SOCKET_NAME, process)
        client = EngineClient(link, exchange)
        client.check_version(patience)
    except BaseException:
        if link is not None:
            link.close()
        lease.close()
        raise
    return EngineHandle(
        client,
        host.runtime,
        sandboxed=host.sandboxed,
        resources=(lease, link),
        pid=host.pid,
        has_ended=process.has_ended,
    )


def _is_used(host: WarmHost) -> bool:
    """Say whether a command uses a host that cannot be had."""
    try:
        return bool(host.status().leases)
    except HostSilentError as silent:
        return _works(host, silent.pid)
    except LeaseEndedError:
        return False


def _says_it_is_used(host: WarmHost) -> bool:
    """Say whether a host is to be let alone, also by whoever wants to stop it.

    One that works has more time to say so, but not for ever: nothing else ends one whose lease
    alone is stuck.
    """
    with contextlib.suppress(LeaseEndedError):
        try:
            return host.lives and bool(host.status().leases)
        except HostSilentError as silent:
            if is_seen(silent.pid) and not works(silent.pid, HOST_WATCH_SECONDS):
                return False
            return bool(host.status(LEASE_ANSWER_SECONDS).leases)
    return False


def _works(host: WarmHost, pid: int) -> bool:
    """Say whether a silent host only has no time: it may work for another command.

    What waits for a processor or a disk still works; what is stopped, or waits for what never
    comes, does not.

    Args:
        host: It.
        pid: The process that should have answered; 0 if that is not known.
    """
    if is_seen(pid):
        return works(pid, HOST_WATCH_SECONDS)
    # Nobody can look at it from here: it gets more time than any answer can take.
    with contextlib.suppress(LeaseEndedError):
        return bool(host.status(LEASE_ANSWER_SECONDS).leases)
    return False


def _tool(runtime: str) -> ContainerToolName | None:
    match runtime:
        case "docker" | "podman":
            return runtime
        case _:
            return None


def _sweep(place: Path) -> None:
    """Remove everything a host left but the lock."""
    for path in place.iterdir():
        if path.name == _LOCK:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Keep two commands from starting the same host; the second finds that of the first."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (place / _LOCK).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sources() -> Iterator[Path]:
    for folder in odf.__path__:
        yield from sorted(Path(folder).rglob("*.py"))

"""A workspace: the datasets of one person on this machine, and what belongs to them (design §5)."""

import contextlib
import hashlib
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from odf.clock import Clock, SystemClock
from odf.errors import ConflictError, NotAWorkspaceError, NotFoundError, OdfError
from odf.limits import MAX_REF_SIZE
from odf.metadata.identity import (
    DatasetAlias,
    DatasetID,
    DatasetName,
    DatasetPattern,
    DatasetRef,
    IdentityError,
    parse_dataset_ref,
)
from odf.metadata.model import MetadataEvent, Timestamp
from odf.repo.dataset import Dataset
from odf.repo.layout import HEAD, DatasetStores
from odf.store.files import make_folder, os_errors, sync_folder, write_file
from odf.store.local import LocalObjectStore
from odf.store.locks import FileLock
from odf.workspace.config import Config
from odf.workspace.repositories import RemoteAliases, RepositoryRegistry
from odf.workspace.runs import make_run_folder
from odf.workspace.settings_files import did_you_mean, known, mapping, read_yaml

FOLDER: Final = ".odf"
"""Name of the folder that makes a folder a workspace."""

FORMAT_VERSION: Final = 1
"""Layout of `.odf`; raised when an older release could not read a newer layout."""

_PLAIN_FORMAT: Final = re.compile(rb"formatVersion: ([0-9]+)\n")
_PRIVATE: Final = 0o700
_STRUCTURE_LOCK_SECONDS: Final = 10.0
_BEING_MADE: Final = ".new-"
_BEING_REMOVED: Final = ".trash-"
_BEING_RECEIVED: Final = ".pull-"


class WorkspaceFormatError(OdfError):
    """A workspace of a format that this release cannot use."""

    kind = "workspace_format"


@dataclass(frozen=True, slots=True)
class DatasetHandle:
    """A dataset of a workspace.

    Attributes:
        id: Its identity.
        alias: Its name here.
        path: Its folder.
        dataset: Its chain and objects.
    """

    id: DatasetID
    alias: DatasetAlias
    path: Path
    dataset: Dataset

    @property
    def remote_aliases(self) -> RemoteAliases:
        """Where it comes from and goes to."""
        return RemoteAliases.read(self.path / "info" / "config")

    @property
    def pull_aliases(self) -> tuple[str, ...]:
        """Where it is pulled from; a dataset with any is somebody else's, and never extended."""
        return tuple(self.remote_aliases.pull)

    @property
    def push_aliases(self) -> tuple[str, ...]:
        """Where it is pushed to."""
        return tuple(self.remote_aliases.push)

    def remember(self, aliases: RemoteAliases) -> None:
        """Write down where it comes from and goes to."""
        aliases.write(self.path / "info" / "config")


class Workspace:
    """The datasets below one `.odf` folder. Use `init` or `find`.

    Args:
        root: The folder that holds `.odf`.
        command: What this process is doing, for others who find a dataset locked.
        config_files: Further configuration files, weaker than the workspace's own.
        clock: Where the time comes from.
    """

    def __init__(
        self,
        root: Path,
        *,
        command: str = "odf",
        config_files: Sequence[Path] = (),
        clock: Clock | None = None,
    ) -> None:
        self.root = root
        self._folder = root / FOLDER
        self._command = command
        self._config_files = tuple(config_files)
        self._clock = clock or SystemClock()
        self._opened: dict[DatasetID, Dataset] = {}
        self._lock = FileLock(
            self._folder / "lock", what=f"the workspace {root}", command=command, clock=self._clock
        )

    @classmethod
    def init(
        cls,
        root: Path,
        *,
        exists_ok: bool = False,
        command: str = "odf",
        clock: Clock | None = None,
    ) -> Self:
        """Make a workspace.

        Args:
            root: The folder that gets an `.odf`; it is made if need be.
            exists_ok: Take a workspace that is there already.
            command: See the class.
            clock: See the class.

        Raises:
            ConflictError: There is a workspace already.
        """
        folder = root / FOLDER
        marker = folder / "workspace.yaml"
        if marker.exists():
            if not exists_ok:
                raise ConflictError(
                    f"{root}: there is a workspace already",
                    hint="use it as it is, or choose another folder",
                )
            _check_format(marker)
        else:
            with os_errors("make a workspace in", root):
                make_folder(root)
                make_folder(folder, _PRIVATE)
                for name in ("datasets", "repos", "cache", "run"):
                    make_folder(folder / name, _PRIVATE)
                # Last: a folder without it is no workspace, so `init` can simply be run again.
                write_file(marker, f"formatVersion: {FORMAT_VERSION}\n".encode())
        return cls(root, command=command, clock=clock)

    @classmethod
    def find(
        cls,
        start: Path,
        *,
        command: str = "odf",
        config_files: Sequence[Path] = (),
        clock: Clock | None = None,
    ) -> Self:
        """Find the workspace that a folder is in: its own, or that of a folder above it.

        Raises:
            NotAWorkspaceError: There is none.
            WorkspaceFormatError: It was made by a newer release.
        """
        start = start.absolute()
        for root in (start, *start.parents):
            marker = root / FOLDER / "workspace.yaml"
            if marker.is_file():
                _check_format(marker)
                return cls(root, command=command, config_files=config_files, clock=clock)
        raise NotAWorkspaceError(
            f"{start}: not in a workspace: neither it nor a folder above it has {FOLDER}",
            hint="make one: odf init",
        )

    @property
    def cache_dir(self) -> Path:
        """Where what can be made again is kept."""
        return self._folder / "cache"

    def quarantine_of(self, alias: DatasetAlias) -> Path:
        """Where a dataset's rows that could not be read are: not with the runs, which go."""
        return self._folder / "quarantine" / str(alias.name)

    @property
    def hosts_dir(self) -> Path:
        """Where engines that stay for the next command have their folders."""
        return self._folder / "run" / "hosts"

    @property
    def datasets_dir(self) -> Path:
        """Where the datasets are; what waits to be moved into one is best kept near it."""
        return self._folder / "datasets"

    @cached_property
    def config(self) -> Config:
        """The settings.

        Raises:
            SettingsError: A configuration file cannot be taken as it is.
        """
        return Config.load([self._folder / "config.yaml", *self._config_files])

    @cached_property
    def repositories(self) -> RepositoryRegistry:
        """The repositories that are known by name."""
        return RepositoryRegistry(self._folder / "repos")

    def run_dir(self, command: str) -> Path:
        """Make a folder for the logs and scratch files of one run; old ones are removed."""
        return make_run_folder(self._folder / "run", command, self._clock.now())

    def datasets(self) -> list[DatasetHandle]:
        """Return all datasets, by name. A folder without a head is no dataset."""
        found = [self._handle(identity) for identity in self._identities()]
        return sorted(found, key=lambda handle: (handle.alias, handle.id))

    def resolve(self, ref: str | DatasetRef) -> DatasetHandle:
        """Return the dataset that a reference names.

        Args:
            ref: Its name in any case, or its `did:odf:…`.

        Raises:
            IdentityError: It is no reference.
            NotFoundError: There is no such dataset, with the nearest names.
        """
        parsed = parse_dataset_ref(ref) if isinstance(ref, str) else ref
        if isinstance(parsed, DatasetID):
            if self._has(parsed):
                return self._handle(parsed)
        else:
            for handle in self.datasets():
                if handle.alias == parsed:
                    return handle
        raise self._unknown(parsed)

    def matching(self, pattern: DatasetPattern) -> list[DatasetHandle]:
        """Return the datasets whose names fit a pattern, by name."""
        return [handle for handle in self.datasets() if pattern.matches(handle.alias)]

    def create_dataset(
        self, alias: DatasetAlias, events: Sequence[MetadataEvent], *, system_time: Timestamp
    ) -> DatasetHandle:
        """Make a dataset: it is there with all of its events, or not at all.

        Args:
            alias: Its name.
            events: The seed, then whatever is to be there from the beginning.
            system_time: Time of all blocks.

        Raises:
            ConflictError: The name or the identity is taken.
            RuleViolationError: An event that may not be there.
        """
        with self._structure():
            self._check_name(alias)
            folder = self.datasets_dir / f"{_BEING_MADE}{secrets.token_hex(8)}"
            try:
                stores = self._stores(folder, str(alias))
                Dataset.create(stores, events, system_time=system_time)
                return self._publish(folder, alias, RemoteAliases())
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise

    def receive_dataset(
        self,
        alias: DatasetAlias,
        origin: str,
        fill: Callable[[Dataset], object],
        *,
        pull_alias: str | None = None,
    ) -> DatasetHandle:
        """Take in a dataset from elsewhere: it is there when all of it has arrived.

        What has arrived is kept when `fill` fails, and found again by the next attempt from the
        same origin.

        Args:
            alias: Its name here.
            origin: The URL that it comes from.
            fill: Brings the dataset, for example `lambda d: sync(source, d, …)`.
            pull_alias: What to remember as the place that it is pulled from; see
                `DatasetHandle.pull_aliases`.

        Raises:
            ConflictError: The name is taken, or the dataset is here under another one.
        """
        self._check_name(alias)
        mark = hashlib.sha3_256(origin.encode()).hexdigest()[:32]
        folder = self.datasets_dir / f"{_BEING_RECEIVED}{mark}"
        fill(Dataset(self._stores(folder, str(alias))))
        with self._structure():
            self._check_name(alias)
            aliases = RemoteAliases((pull_alias,)) if pull_alias else RemoteAliases()
            return self._publish(folder, alias, aliases)

    def rename_dataset(self, identity: DatasetID, alias: DatasetAlias) -> DatasetHandle:
        """Give a dataset another name; its identity and its chain stay what they are.

        Raises:
            NotFoundError: There is no such dataset.
            ConflictError: The name is taken.
        """
        with self._structure():
            handle = self.resolve(identity)
            if alias != handle.alias:  # other letters of the same name are no collision
                self._check_name(alias)
            _write_alias(handle.path, alias)
            return self._handle(identity)

    def remove_dataset(self, identity: DatasetID) -> None:
        """Remove a dataset with all of its data; its private key stays in the key store.

        Raises:
            NotFoundError: There is no such dataset.
            LockedError: Another process writes to it.
        """
        with self._structure():
            handle = self.resolve(identity)
            with handle.dataset.lock(), os_errors("remove", handle.path):
                # One rename takes it away as a whole; the rest may then take its time.
                trash = self.datasets_dir / f"{_BEING_REMOVED}{secrets.token_hex(8)}"
                handle.path.rename(trash)
                sync_folder(self.datasets_dir)
            self._opened.pop(identity, None)
            shutil.rmtree(trash, ignore_errors=True)
            # Downloads and folded history have its rows, too.
            for cached in self.cache_dir.glob(f"*/{identity.multibase}"):
                shutil.rmtree(cached, ignore_errors=True)
            shutil.rmtree(self.quarantine_of(handle.alias), ignore_errors=True)

    @contextlib.contextmanager
    def _structure(self) -> Iterator[None]:
        """Hold the lock under which datasets come, go and change their names."""
        with self._lock.hold(_STRUCTURE_LOCK_SECONDS):
            make_folder(self.datasets_dir, _PRIVATE)
            # What is found half made or half removed under the lock was left by a crash.
            for path in self.datasets_dir.iterdir():
                if path.name.startswith((_BEING_MADE, _BEING_REMOVED)):
                    shutil.rmtree(path, ignore_errors=True)
            yield

    def _publish(self, folder: Path, alias: DatasetAlias, aliases: RemoteAliases) -> DatasetHandle:
        """Move a complete dataset to its place."""
        identity = Dataset.open(self._stores(folder, str(alias))).state().dataset_id
        if identity is None:
            raise NotFoundError(f"{alias}: there is no dataset")
        if self._has(identity):
            existing = self._handle(identity)
            shutil.rmtree(folder, ignore_errors=True)
            raise ConflictError(
                f"{alias}: the dataset {identity} is here already, as {existing.alias}",
                hint=f"use {existing.alias}, or rename it",
            )
        with os_errors("write", folder):
            _write_alias(folder, alias)
            if aliases != RemoteAliases():
                aliases.write(folder / "info" / "config")
            target = self.datasets_dir / identity.multibase
            # What has the name but no head is left from a crash, and no dataset.
            shutil.rmtree(target, ignore_errors=True)
            folder.rename(target)
            sync_folder(self.datasets_dir)
        return self._handle(identity)

    def _check_name(self, alias: DatasetAlias) -> None:
        for handle in self.datasets():
            if handle.alias == alias:
                raise ConflictError(
                    f"there is a dataset named {handle.alias} already ({handle.id})",
                    hint="choose another name",
                )

    def _identities(self) -> Iterator[DatasetID]:
        if not self.datasets_dir.is_dir():
            return
        for path in self.datasets_dir.iterdir():
            try:
                identity = DatasetID.parse(f"did:odf:{path.name}")
            except IdentityError:
                continue  # dotted folders and whatever else is not ours
            if path.name == identity.multibase and self._has(identity):
                yield identity

    def _has(self, identity: DatasetID) -> bool:
        return (self.datasets_dir / identity.multibase / "refs" / HEAD).is_file()

    def _handle(self, identity: DatasetID) -> DatasetHandle:
        path = self.datasets_dir / identity.multibase
        alias = _read_alias(path, identity)
        dataset = self._opened.get(identity)
        if dataset is None or dataset.url != str(alias):
            # One object for one dataset: a lock held through it counts for all who use it.
            dataset = Dataset(self._stores(path, str(alias)))
            self._opened[identity] = dataset
        return DatasetHandle(identity, alias, path, dataset)

    def _stores(self, folder: Path, name: str) -> DatasetStores:
        return DatasetStores.local(folder, name=name, command=self._command)

    def _unknown(self, ref: DatasetRef) -> NotFoundError:
        names = [str(handle.alias) for handle in self.datasets()]
        return NotFoundError(
            f"there is no dataset {ref} in this workspace",
            hint=did_you_mean(str(ref), names) or "`odf list` shows all datasets",
        )


def _check_format(marker: Path) -> None:
    version = _read_format(marker)
    if version != FORMAT_VERSION:
        raise WorkspaceFormatError(
            f"{marker.parent.parent}: the workspace has format {version}, this release of odf "
            f"uses format {FORMAT_VERSION}",
            hint="install a newer release of odf" if version > FORMAT_VERSION else None,
        )


def _read_format(marker: Path) -> int:
    with os_errors("read", marker), marker.open("rb") as file:
        plain = _PLAIN_FORMAT.fullmatch(file.read(MAX_REF_SIZE))
    if plain:
        return int(plain[1])
    content = mapping(read_yaml(marker), marker, "the file")
    known(content, ("formatVersion",), marker, "")
    version = content.get("formatVersion")
    if not isinstance(version, int):
        raise WorkspaceFormatError(f"{marker}: wanted formatVersion: {FORMAT_VERSION}")
    return version


def _write_alias(folder: Path, alias: DatasetAlias) -> None:
    info = folder / "info"
    with os_errors("write", info):
        make_folder(info)
        write_file(info / "alias", str(alias).encode())


def _read_alias(folder: Path, identity: DatasetID) -> DatasetAlias:
    """Return a dataset's name; one whose name cannot be read is called by its identity."""
    try:
        text = LocalObjectStore(folder / "info").get("alias", MAX_REF_SIZE).decode().strip()
        return DatasetAlias.parse(text)
    except (OdfError, UnicodeDecodeError):
        return DatasetAlias(DatasetName(identity.multibase))

"""Registered repositories, and where datasets were pulled from (workspace.md §5 and §6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from odf.errors import NotFoundError
from odf.metadata.identity import IdentityError, RepoName
from odf.repo.urls import parse_repository_url
from odf.workspace.settings_files import (
    SettingsError,
    did_you_mean,
    read_manifest,
    refuse_existing,
    remove_file,
    write_manifest,
)


@dataclass(frozen=True, slots=True)
class Repository:
    """A place that holds datasets.

    Attributes:
        name: What it is called here.
        url: Where it is; ends with a slash.
    """

    name: RepoName
    url: str

    def dataset_url(self, path: str) -> str:
        """Return the URL of a dataset in it.

        Args:
            path: `name` or `account/name`, already parsed by its grammar.
        """
        return f"{self.url}{path}/"


class RepositoryRegistry:
    """The repositories that a workspace knows by name, one small file each.

    Args:
        folder: Where the files are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: RepoName, url: str) -> Repository:
        """Register a repository.

        Raises:
            ConflictError: The name is taken, in whatever case.
            RepositoryUrlError: See `parse_repository_url`.
        """
        repository = Repository(name, parse_repository_url(url))
        path = self._path(name)
        refuse_existing(path, f"a repository named {name}")
        write_manifest(path, "Repository", {"url": repository.url})
        return repository

    def get(self, name: RepoName) -> Repository:
        """Return a repository.

        Raises:
            NotFoundError: None of that name, with the nearest names.
        """
        path = self._path(name)
        try:
            content = read_manifest(path, "Repository", ("url",))
        except NotFoundError:
            raise self._unknown(name) from None
        url = content.get("url")
        if not isinstance(url, str):
            raise SettingsError(f"{path}: content.url: wanted a URL, got {url!r:.60}")
        return Repository(RepoName(path.name), parse_repository_url(url))

    def list(self) -> tuple[Repository, ...]:
        """Return all repositories, by name."""
        return tuple(self.get(name) for name in self.names())

    def names(self) -> tuple[RepoName, ...]:
        """Return the names of all repositories, sorted."""
        if not self._folder.is_dir():
            return ()
        found: list[RepoName] = []
        for path in self._folder.iterdir():
            try:
                found.append(RepoName(path.name))
            except IdentityError:
                continue  # not ours: an editor's backup, a file being written
        return tuple(sorted(found))

    def remove(self, name: RepoName) -> None:
        """Forget a repository; nothing in it changes.

        Raises:
            NotFoundError: None of that name, with the nearest names.
        """
        self.get(name)
        remove_file(self._path(name), f"the repository {name}")

    def _path(self, name: RepoName) -> Path:
        """Return the file of a repository, as its name was typed when it was registered."""
        registered = {known: known for known in self.names()}
        return self._folder / str(registered.get(name, name))

    def _unknown(self, name: RepoName) -> NotFoundError:
        names = [str(known) for known in self.names()]
        return NotFoundError(
            f"there is no repository named {name}",
            hint=did_you_mean(str(name), names) or "see `odf repo list`, or add it: odf repo add",
        )


@dataclass(frozen=True, slots=True)
class RemoteAliases:
    """Where a dataset comes from and goes to; kept beside the dataset, never sent.

    Attributes:
        pull: References that it is pulled from: a URL, `repo/name` or `repo/account/name`.
        push: References that it is pushed to.
    """

    pull: Sequence[str] = ()
    push: Sequence[str] = ()

    @classmethod
    def read(cls, path: Path) -> "RemoteAliases":
        """Read them; a dataset without the file has none."""
        try:
            content = read_manifest(path, "DatasetConfig", ("pullAliases", "pushAliases"))
        except NotFoundError:
            return cls()
        return cls(
            _texts(content.get("pullAliases"), path), _texts(content.get("pushAliases"), path)
        )

    def write(self, path: Path) -> None:
        """Write them, durably."""
        content = {"pullAliases": list(self.pull), "pushAliases": list(self.push)}
        write_manifest(path, "DatasetConfig", content)

    def with_pull(self, reference: str) -> "RemoteAliases":
        """Return them with one more place to pull from."""
        return RemoteAliases(_with(self.pull, reference), self.push)

    def with_push(self, reference: str) -> "RemoteAliases":
        """Return them with one more place to push to."""
        return RemoteAliases(self.pull, _with(self.push, reference))


def _with(known: Sequence[str], reference: str) -> tuple[str, ...]:
    return (*known, *(() if reference in known else (reference,)))


def _texts(value: object, path: Path) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise SettingsError(f"{path}: wanted a list of references, got {value!r:.60}")
    return tuple(value)

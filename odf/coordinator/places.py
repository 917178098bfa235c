"""Places of datasets elsewhere: what was typed, where that is, and what there is instead."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from odf.coordinator.context import Context
from odf.coordinator.selection import is_path
from odf.errors import NotFoundError, UsageError
from odf.metadata.identity import (
    DatasetAlias,
    IdentityError,
    RemoteAlias,
    RemoteID,
    RemoteUrl,
    parse_dataset_ref_any,
)
from odf.repo.layout import HEAD, DatasetStores
from odf.repo.urls import RepositoryUrlError, folder_of, parse_repository_url
from odf.workspace.repositories import Repository
from odf.workspace.settings_files import did_you_mean

_LOOKED_AT: Final = 1000
"""Folders of a repository that are looked at for a hint: enough for a hint, and never long."""
_SAID: Final = 8
"""Datasets that a hint names."""
_WHERE: Final = "odf repo list shows where the repositories are"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a dataset is.

    Attributes:
        reference: What to remember: a repository's dataset or a URL as it was typed, or the URL
            of a folder.
        url: The URL of the dataset.
        name: The name that the reference suggests.
        repository: The repository, if one was named.
    """

    reference: str
    url: str
    name: DatasetAlias | None = None
    repository: Repository | None = None

    def is_named(self, reference: str) -> bool:
        """Tell whether a remembered reference means this place; a URL has several spellings."""
        if reference == self.reference:
            return True
        try:
            return "://" in reference and parse_repository_url(reference) == self.url
        except RepositoryUrlError:
            return False


def locate(ctx: Context, text: str) -> Place:
    """Find out where a dataset elsewhere is.

    Args:
        ctx: The workspace, which knows the repositories.
        text: `repo/name`, `repo/account/name`, a URL, or the path of a folder.

    Raises:
        NotFoundError: There is no such repository.
        UsageError: It cannot be found by what was typed.
        RepositoryUrlError: The URL is none that datasets can be at.
    """
    if is_path(text):
        url = parse_repository_url(text)
        return Place(url, url)
    names = [str(name) for name in ctx.workspace.repositories.names()]
    found = parse_dataset_ref_any(text, names)
    if isinstance(found, RemoteUrl):
        return Place(text, parse_repository_url(found.url))
    if isinstance(found, RemoteAlias):
        repository = ctx.workspace.repositories.get(found.repo)
        path = str(DatasetAlias(found.name, found.account))
        return Place(text, repository.dataset_url(path), DatasetAlias(found.name), repository)
    if isinstance(found, RemoteID):
        ctx.workspace.repositories.get(found.repo)
        raise UsageError(
            f"{text}: a repository's datasets are found by their names", hint="write REPO/NAME"
        )
    raise NotFoundError(
        f"{text}: there is no such repository",
        hint="odf repo list shows the repositories; odf repo add NAME URL adds one",
    )


def explained(error: NotFoundError, source: DatasetStores, place: Place) -> NotFoundError:
    """Say what there is instead, where no dataset is at all.

    Args:
        error: What a transfer ended with.
        source: What it read from.
        place: Where that is.

    Returns:
        The error itself, if there is a dataset and only a part of it is missing.
    """
    if source.refs.get(HEAD) is not None:
        return error
    repository = place.repository
    folder = folder_of(repository.url if repository else place.url)
    there = datasets_below(folder) if folder is not None else ()
    named = ", ".join(there[:_SAID]) + (" and more" if len(there) > _SAID else "")
    if repository is None:
        hint = f"it holds datasets, each in a folder of its own: {named}" if there else None
        return NotFoundError(f"{place.reference}: there is no dataset", hint=hint)
    near = did_you_mean(str(place.name), there)
    return NotFoundError(
        f"{place.reference}: there is no such dataset in {repository.url}",
        hint=near or (f"{repository.name} has {named}" if there else _WHERE),
    )


def datasets_below(folder: Path) -> tuple[str, ...]:
    """Return the names of the datasets in the folder of a repository, sorted; the first ones."""
    return tuple(sorted(islice(_below(folder), _LOOKED_AT)))


def _below(folder: Path, account: str = "") -> Iterator[str]:
    try:
        entries = list(islice(folder.iterdir(), _LOOKED_AT))
    except OSError:
        return
    for entry in entries:
        try:
            alias = str(DatasetAlias.parse(f"{account}{entry.name}"))
        except IdentityError:
            continue
        if (entry / "refs" / HEAD).is_file():
            yield alias
        elif not account and entry.is_dir():
            yield from _below(entry, f"{entry.name}/")

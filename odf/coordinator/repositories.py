"""`odf repo`: the repositories that this workspace exchanges datasets with."""

from dataclasses import dataclass

from odf.coordinator.context import Context
from odf.metadata.identity import RepoName


@dataclass(frozen=True, slots=True)
class ListedRepository:
    """A registered repository.

    Attributes:
        name: What it is called here.
        url: Where it is.
    """

    name: str
    url: str


def add_repository(ctx: Context, name: str, url: str) -> ListedRepository:
    """Register a repository.

    Args:
        ctx: The workspace.
        name: What to call it.
        url: `file://`, `http://` or `https://` URL, or the path of a folder.

    Raises:
        ConflictError: The name is taken.
        BadInputError: Name or URL are not acceptable.
    """
    added = ctx.workspace.repositories.add(RepoName.parse(name), url)
    return ListedRepository(name=str(added.name), url=added.url)


def list_repositories(ctx: Context) -> list[ListedRepository]:
    """Return the registered repositories by name."""
    return [
        ListedRepository(name=str(repository.name), url=repository.url)
        for repository in ctx.workspace.repositories.list()
    ]


def remove_repository(ctx: Context, name: str) -> ListedRepository:
    """Forget a repository; what is in it, and what was pulled from it, stays.

    Raises:
        NotFoundError: There is no repository of that name.
    """
    removed = ctx.workspace.repositories.get(RepoName.parse(name))
    ctx.workspace.repositories.remove(removed.name)
    return ListedRepository(name=str(removed.name), url=removed.url)

"""`odf repo add`, `odf repo list`, `odf repo remove`."""

import click

from odf.cli.app import App, pass_app
from odf.cli.command import OdfGroup
from odf.cli.completion import RepositoryArgument
from odf.cli.output import Column


@click.group(
    cls=OdfGroup,
    examples=[
        ("odf repo add partner https://example.org/odf", "Register a repository"),
        ("odf repo list", "Show the registered ones"),
        ("odf repo remove partner", "Forget one"),
    ],
    exit_codes=[0, 2],
)
def command() -> None:
    """Manage the repositories to exchange datasets with.

    A repository is a place with one folder for each dataset: file:// to push and to pull,
    http:// and https:// to pull, with any web server.
    """


@command.command(
    "add",
    examples=[
        ("odf repo add backup file:///mnt/backup/odf", "A folder: push and pull"),
        ("odf repo add partner https://example.org/odf", "A web server: pull"),
    ],
    exit_codes=[0, 1, 2, 5, 10],
)
@click.argument("name", type=RepositoryArgument())
@click.argument("url")
@pass_app
def add(app: App, name: str, url: str) -> None:
    """Register a repository."""
    from odf.coordinator.repositories import add_repository

    added = add_repository(app.context(), name, url)
    app.output.show(
        app.command,
        {"repository": {"name": added.name, "url": added.url}},
        lambda o: None if o.is_quiet else o.line(f"Added repository {added.name}: {added.url}"),
    )


@command.command(
    "list",
    examples=[
        ("odf repo list", "A table"),
        ("odf repo list -o json", "For scripts"),
    ],
    exit_codes=[0, 2, 10],
)
@pass_app
def list_(app: App) -> None:
    """List the registered repositories."""
    from odf.coordinator.repositories import list_repositories

    found = list_repositories(app.context())
    app.output.show(
        app.command,
        {"repositories": [{"name": entry.name, "url": entry.url} for entry in found]},
        lambda output: (
            output.table(
                [
                    Column("Name", style="bold", shrink=True, shrink_last=True),
                    Column("URL", shrink=True),
                ],
                [(entry.name, entry.url) for entry in found],
            )
            if found
            else None
        ),
    )
    if not found:
        app.output.note("no repositories are registered; odf repo add NAME URL adds one")


@command.command(
    "remove",
    examples=[
        ("odf repo remove partner", "Forget a repository; its datasets stay where they are"),
        ("odf repo remove partner -o json", "For scripts"),
    ],
    exit_codes=[0, 1, 2, 4, 10],
)
@click.argument("name", type=RepositoryArgument())
@pass_app
def remove(app: App, name: str) -> None:
    """Forget a repository.

    Nothing in it is deleted, and what was pulled from it stays here.
    """
    from odf.coordinator.repositories import remove_repository

    removed = remove_repository(app.context(), name)
    app.output.show(
        app.command,
        {"repository": {"name": removed.name, "url": removed.url}},
        lambda o: None if o.is_quiet else o.line(f"Removed repository {removed.name}"),
    )

"""Completion of dataset names: looks at the workspace's folders only, and never complains."""

from typing import Any

import click
from click.shell_completion import CompletionItem

from odf.cli.app import App
from odf.errors import OdfError


class DatasetArgument(click.ParamType):  # type: ignore[type-arg] # not generic before click 8.2
    """A dataset on the command line; stays text, since what it may be depends on the command.

    Args:
        local: Only one dataset of this workspace will do: no pattern, URL or path.
    """

    name = "dataset"

    def __init__(self, *, local: bool = False) -> None:
        self._local = local

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """Refuse what names no dataset anywhere.

        Raises:
            UsageError: Says what a name looks like.
        """
        from odf.coordinator.selection import check_local_reference, check_reference

        text = str(value)
        if not text:  # what scripts pass for variables that are not set
            self.fail("the name is empty", param, ctx)
        check = check_local_reference if self._local else check_reference
        check(text)
        return text

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the names of datasets that begin with what was typed."""
        app = ctx.find_object(App)
        if app is None:
            return []
        try:
            names = _names(app)
        except (OdfError, OSError):
            return []
        typed = incomplete.lower()
        return [CompletionItem(name) for name in names if name.lower().startswith(typed)]


class RepositoryArgument(click.ParamType):  # type: ignore[type-arg] # see above
    """The name of a repository on the command line.

    Args:
        place: A URL or the path of a folder will do as well.
    """

    name = "repository"

    def __init__(self, *, place: bool = False) -> None:
        self._place = place

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002
        ctx: click.Context | None,  # noqa: ARG002
    ) -> str:
        """Refuse what cannot be the name of a repository.

        Raises:
            UsageError: Says what a name looks like.
        """
        from odf.errors import UsageError
        from odf.metadata.identity import IdentityError, RepoName

        text = str(value)
        if self._place and ("/" in text or text in {".", ".."}):
            return text
        try:
            RepoName.parse(text)
        except IdentityError as error:
            other = "; a folder is written ./folder or /folder" if self._place else ""
            raise UsageError(
                f"{text!r} is not the name of a repository",
                hint=f"a name has letters, digits and dashes, such as my-partner{other}",
            ) from error
        return text


def _names(app: App) -> list[str]:
    from odf.coordinator.listing import dataset_names

    return dataset_names(app.context())

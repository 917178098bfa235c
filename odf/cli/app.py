"""What one run of the command line carries from its options to its last word."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

import click

from odf.cli.environment import Environment, Flags
from odf.cli.output import Output

if TYPE_CHECKING:  # opened by the commands that need a workspace
    from odf.coordinator.context import Context

NO_COMMAND = "error"
"""What stands in a document's schema while no command was reached."""


class App:
    """The state of one run, handed to commands as click's context object.

    Args:
        variables: The process's environment.
        stdout: Where results go.
        stderr: Where messages go.
    """

    def __init__(
        self, variables: Mapping[str, str], stdout: TextIO | None, stderr: TextIO | None
    ) -> None:
        self.environment = Environment(variables)
        self.flags = Flags()
        self.command = NO_COMMAND
        self._streams = (stdout, stderr)
        self._output: Output | None = None
        self._context: Context | None = None

    @property
    def output(self) -> Output:
        """The output; what it is like is settled when it is first used, after parsing."""
        if self._output is None:
            self._output = Output(
                self.environment.terminal(self.flags, *self._streams),
                output_format=self.environment.output_format(self.flags),
                quiet=self.flags.quiet,
                verbose=self.flags.verbose,
            )
        return self._output

    def plain_output(self) -> Output:
        """Return the output, or one that ignores an environment that makes no sense."""
        from odf.errors import UsageError

        try:
            return self.output
        except UsageError:
            return Output(self.environment.terminal(self.flags, *self._streams))

    def context(self) -> "Context":
        """Open the workspace.

        Returns:
            The surroundings for use cases; closed when the command ends.

        Raises:
            NotAWorkspaceError: There is none.
            UsageError: The environment has a value that means nothing.
        """
        if self._context is None:
            from odf.coordinator.workspaces import open_context

            self._context = open_context(
                self.environment.workspace_start(self.flags),
                self.environment.settings(self.flags),
                command=self.command,
                clock=self.environment.clock(),
                progress=self.output.progress,
            )
        return self._context

    @property
    def opened(self) -> "Context | None":
        """The surroundings, if a command opened them."""
        return self._context

    def close(self) -> None:
        """End what the run started."""
        if self._context is not None:
            self._context.close()


pass_app = click.make_pass_decorator(App)
"""Hands the `App` to a command as its first argument."""

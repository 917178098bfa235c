"""`odf completions`."""

import click
from click.shell_completion import get_completion_class

from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand
from odf.errors import UsageError


@click.command(
    cls=OdfCommand,
    examples=[
        ('eval "$(odf completions bash)"', "In ~/.bashrc"),
        ('eval "$(odf completions zsh)"', "In ~/.zshrc"),
        ("odf completions fish > ~/.config/fish/completions/odf.fish", "Once, for fish"),
    ],
    exit_codes=[0, 2],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
@pass_app
def command(app: App, ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    The script completes commands, options and names of datasets.
    """
    completion = get_completion_class(shell)
    if completion is None:
        raise UsageError(f"there is no completion for {shell}")
    # Made without looking at the shell itself: its source is a template with three names in it.
    script = (
        completion.source_template
        % completion(ctx.find_root().command, {}, "odf", "_ODF_COMPLETE").source_vars()
    )
    app.output.show(
        app.command, {"shell": shell, "script": script}, lambda output: output.raw(script + "\n")
    )

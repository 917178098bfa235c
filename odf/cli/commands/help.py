"""`odf help`."""

from collections.abc import Mapping

import click

from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand
from odf.cli.environment import VARIABLES
from odf.cli.exit_codes import EXIT_CODES
from odf.cli.output import Output
from odf.cli.registry import ENTRIES, PLUMBING
from odf.errors import UsageError


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf help pull", "The same as: odf pull --help"),
        ("odf help exit-codes", "What the exit codes mean"),
        ("odf help environment", "The variables that are heeded"),
        ("odf help plumbing", "The commands that machines call"),
    ],
    exit_codes=[0, 2],
)
@click.argument("topic", nargs=-1, metavar="[COMMAND | exit-codes | environment | plumbing]")
@click.pass_context
@pass_app
def command(app: App, ctx: click.Context, topic: tuple[str, ...]) -> None:
    """Explain a command, or exit-codes, environment, plumbing."""
    root = ctx.find_root()
    if topic == ("exit-codes",):
        codes = {str(code): meaning for code, meaning in EXIT_CODES.items()}
        _show(app.output, "exit-codes", "exit_codes", codes)
    elif topic == ("environment",):
        _show(app.output, "environment", "variables", VARIABLES)
    elif topic == ("plumbing",):
        plumbing = {e.name: e.purpose.rstrip(".") for e in ENTRIES if e.section == PLUMBING}
        _show(app.output, "plumbing", "commands", plumbing)
    else:
        text = _command_help(root, topic)
        app.output.show("help", {"text": text}, lambda output: output.raw(text))


def _show(output: Output, name: str, key: str, meanings: Mapping[str, str]) -> None:
    width = max(len(entry) for entry in meanings) + 2

    def write(output: Output) -> None:
        for entry, meaning in meanings.items():
            output.line(f"{entry:<{width}}{meaning}")

    output.show(name, {key: dict(meanings)}, write)


def _command_help(root: click.Context, topic: tuple[str, ...]) -> str:
    """Return the help text of a command, for example of `repo add`."""
    ctx = root
    for name in topic:
        group = ctx.command
        found = group.get_command(ctx, name) if isinstance(group, click.Group) else None
        if found is None:
            raise UsageError(
                f"there is no command or topic {' '.join(topic)!r}",
                hint="odf --help lists the commands",
            )
        ctx = click.Context(found, info_name=name, parent=ctx)
    return ctx.get_help() + "\n"

"""Writes `docs/cli-reference.md` from the commands themselves: `python -m odf.cli.reference`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from odf.cli.command import is_common, is_documented
from odf.cli.environment import VARIABLES
from odf.cli.exit_codes import EXIT_CODES
from odf.cli.main import cli

PATH: Final = Path(__file__).resolve().parents[2] / "docs" / "cli-reference.md"

_HEAD: Final = """\
# Command line reference

Made from the commands by `python -m odf.cli.reference`; do not edit by hand.

Results go to standard output: text for people, or with `-o json` exactly one document, whose
`schema` is `odf.cli/<command>/v1`; within a version fields are only added. Progress, warnings,
hints and errors go to standard error; with `-o json` an error is an object
`{"error": {"kind", "message", "hint", "exit_code", "details"}}` there, and the document on
standard output has it too when there is no result.
"""


def reference() -> str:
    """Return the reference of all commands, as Markdown."""
    root = root_context()
    parts = [_HEAD]
    parts += [_command(ctx) for ctx in commands(root)]
    parts += [_common_options(root)]
    parts += [_table("Exit codes", "Code", {str(code): text for code, text in EXIT_CODES.items()})]
    parts += [_table("Environment", "Variable", VARIABLES)]
    return "\n".join(parts)


def root_context() -> click.Context:
    """Make the context of `odf` itself, for looking at commands without running any."""
    return click.Context(cli, info_name="odf", terminal_width=80, **cli.context_settings)


def commands(parent: click.Context) -> Iterator[click.Context]:
    """Walk all commands below one, in the order of the help text."""
    group = parent.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is not None and not command.hidden:
            ctx = click.Context(command, info_name=name, parent=parent)
            yield ctx
            yield from commands(ctx)


def _command(ctx: click.Context) -> str:
    command = ctx.command
    lines = [f"## {ctx.command_path}", ""]
    lines += ["```", command.get_usage(ctx).removeprefix("Usage: "), "```", ""]
    lines += [" ".join(part.split()) + "\n" for part in (command.help or "").split("\n\n")]
    records = [
        record
        for param in command.get_params(ctx)
        if isinstance(param, click.Option)
        and not is_common(param)
        and "--help" not in param.opts
        and (record := param.get_help_record(ctx))
    ]
    if records:
        lines += ["| Option | |", "|---|---|"]
        lines += [_row(names, text) for names, text in records]
        lines.append("")
    if is_documented(command):
        for example, meaning in command.examples:
            lines += [f"* `{example}`: {meaning[0].lower()}{meaning[1:]}"]
        codes = ", ".join(str(code) for code in command.exit_codes)
        lines += ["", f"Exit status: {codes}.", ""]
    return "\n".join(lines)


def _common_options(root: click.Context) -> str:
    lines = [
        "## Options of every command",
        "",
        "They stand before or after the command's name.",
        "",
    ]
    lines += ["| Option | |", "|---|---|"]
    for param in root.command.get_params(root):
        record = param.get_help_record(root)
        if is_common(param) and record is not None:
            lines.append(_row(*record))
    return "\n".join([*lines, ""])


def _table(title: str, key: str, meanings: dict[str, str]) -> str:
    lines = [f"## {title}", "", f"| {key} | |", "|---|---|"]
    lines += [_row(name, meaning) for name, meaning in meanings.items()]
    return "\n".join([*lines, ""])


def _row(name: str, meaning: str) -> str:
    escaped = name.replace("|", "\\|")
    return f"| `{escaped}` | {meaning} |"


if __name__ == "__main__":
    PATH.write_text(reference())

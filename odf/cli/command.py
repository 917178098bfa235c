"""click, dressed: options that work before and after a command, examples, exit status, laziness."""

import difflib
import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard, TypeVar

import click

from odf.cli.app import App
from odf.cli.exit_codes import EXIT_CODES
from odf.cli.registry import ALIASES, BY_NAME, ENTRIES, PLUMBING
from odf.errors import UsageError

Example = tuple[str, str]
"""A command line, and what it does."""

_F = TypeVar("_F", bound=Callable[..., Any])


class _CommonOption(click.Option):
    """An option that every command takes; listed apart from the command's own."""


def _keep(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Make a callback that keeps an option's value in the run's flags, the later one winning."""

    def keep(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        app = ctx.find_object(App)
        if app is None or value is None or value is False:
            return
        if name == "verbose":
            value += app.flags.verbose
        setattr(app.flags, name, value)

    return keep


def common_options() -> list[click.Parameter]:
    """Make the options that stand before or after any command's name."""

    def option(*names: str, **attributes: Any) -> click.Option:
        flag = names[-1].lstrip("-")
        return _CommonOption(list(names), expose_value=False, callback=_keep(flag), **attributes)

    return [
        option(
            "-o",
            "--output",
            type=click.Choice(["text", "json"]),
            help="How to write the result: text (default) or one JSON document.",
        ),
        option(
            "-C",
            "--workspace",
            metavar="DIR",
            type=click.Path(file_okay=False),
            help="Use the workspace at or above DIR.",
        ),
        option("-q", "--quiet", is_flag=True, help="No progress, warnings or summary."),
        option("-v", "--verbose", count=True, help="Write progress as lines; -vv adds tracebacks."),
        option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            help="When to use colours (default: auto).",
        ),
    ]


class _Documented(click.Command):
    """A command whose help has examples and an exit status."""

    def __init__(
        self,
        *args: Any,
        examples: Sequence[Example] = (),
        exit_codes: Sequence[int] = (),
        **attributes: Any,
    ) -> None:
        attributes.setdefault("context_settings", {}).setdefault(
            "help_option_names", ["-h", "--help"]
        )
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)
        self.exit_codes = tuple(exit_codes)
        self.params.extend(common_options())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then those that every command takes."""
        own: list[tuple[str, str]] = []
        common: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            if isinstance(param, click.Argument):  # newer releases of click list them
                continue
            record = param.get_help_record(ctx)
            if record is not None:
                (common if isinstance(param, _CommonOption) else own).append(record)
        for title, records in (("Options", own), ("Options of every command", common)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and the exit status."""
        if self.examples:
            with formatter.section("Examples"):
                for line, meaning in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")
                    formatter.write(f"{'':{formatter.current_indent + 4}}{meaning}\n")
        if self.exit_codes:
            with formatter.section("Exit status"):
                formatter.write_dl([(str(code), EXIT_CODES[code]) for code in self.exit_codes])
        super().format_epilog(ctx, formatter)


class OdfCommand(_Documented):
    """One command of `odf`.

    Args:
        *args: See `click.Command`.
        examples: Command lines with what they do.
        exit_codes: The codes that this command ends with.
        **attributes: See `click.Command`.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Note which command runs, then run it."""
        app = ctx.find_object(App)
        if app is not None:
            app.command = command_path(ctx)
        return super().invoke(ctx)


class OdfGroup(_Documented, click.Group):
    """A command that has commands, such as `odf repo`."""

    command_class = OdfCommand

    def __init__(self, *args: Any, **attributes: Any) -> None:
        # Otherwise click answers a missing command with the whole help text as an error.
        attributes.setdefault("no_args_is_help", False)
        super().__init__(*args, **attributes)


class LazyGroup(OdfGroup):
    """The `odf` command: knows its commands by name and imports one when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of all commands, without importing them."""
        return [entry.name for entry in ENTRIES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command.

        Returns:
            The command, or None when there is none of that name.
        """
        entry = BY_NAME.get(ALIASES.get(cmd_name, cmd_name))
        if entry is None:
            return super().get_command(ctx, cmd_name)
        command = importlib.import_module(entry.module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}.command is no click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed.

        Raises:
            UsageError: There is none of that name, with the nearest.
        """
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"did you mean 'odf {near[0]}'?" if near else "odf --help lists the commands"
            raise UsageError(f"no such command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the short help: purpose, examples, commands in their groups."""
        formatter.write("Usage: odf [OPTIONS] COMMAND [ARGS]...\n\n")
        formatter.write(f"{self.help}\n\nExamples:\n")
        for line, meaning in self.examples:
            formatter.write(f"  {line:<33} {meaning}\n")
        formatter.write("\nCommands:\n")
        last = ""
        for entry in ENTRIES:
            if entry.section == PLUMBING:
                continue
            section = entry.section if entry.section != last else ""
            formatter.write(f"  {section:<8} {entry.name:<12} {entry.purpose.rstrip('.')}\n")
            last = entry.section
        formatter.write("\nOptions anywhere: -o json, -q, -v, -C DIR, --color. ")
        formatter.write("More: odf COMMAND --help\n")


def is_common(param: click.Parameter) -> bool:
    """Tell whether an option is one that every command takes."""
    return isinstance(param, _CommonOption)


def is_documented(command: click.Command) -> TypeGuard[_Documented]:
    """Tell whether a command is one of ours, with examples and exit codes."""
    return isinstance(command, _Documented)


def command_path(ctx: click.Context) -> str:
    """Return the name of the command that runs, for schemas and run folders: `repo-add`."""
    names: list[str] = []
    current: click.Context | None = ctx
    while current is not None and current.parent is not None:
        typed = current.info_name or ""
        names.insert(0, ALIASES.get(typed, typed))
        current = current.parent
    return "-".join(names)


class Duration(click.ParamType):  # type: ignore[type-arg] # not generic before click 8.2
    """A duration on the command line: `30s`, `10m`, `1h`; seconds without a unit."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the duration in seconds."""
        from odf.durations import parse_duration

        seconds = value if isinstance(value, float) else parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is no duration; wanted for example 30s, 10m or 1h", param, ctx)
        return seconds


def lock_timeout_option(function: _F) -> _F:
    """Add `--lock-timeout` to a command that writes to datasets."""
    return click.option(
        "--lock-timeout",
        type=Duration(),
        metavar="DURATION",
        expose_value=False,
        callback=_keep("lock_timeout"),
        help="How long to wait for a locked dataset, such as 30s or 10m (default: 0).",
    )(function)


def allow_unsandboxed_option(function: _F) -> _F:
    """Add `--allow-unsandboxed` to a command that runs engines."""
    return click.option(
        "--allow-unsandboxed",
        is_flag=True,
        expose_value=False,
        callback=_keep("allow_unsandboxed"),
        help="Run engines without a sandbox for datasets of others too.",
    )(function)

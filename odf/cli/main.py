"""The entry point: runs one command and turns whatever happens into a message and an exit code."""

import atexit
import contextlib
import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

import click

from odf import __version__
from odf.cli.app import NO_COMMAND, App
from odf.cli.command import LazyGroup
from odf.cli.environment import wants_json
from odf.cli.output import StdoutClosedError, StdoutFailedError
from odf.errors import OdfError, TransportError, UsageError

_PROGRAM = "odf"
_COMPLETE_VARIABLE = "_ODF_COMPLETE"
_EXIT_STDOUT_CLOSED = 141
_REFUSALS = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM),
        *(errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM),
    )
)
_KEPT = "what was committed is kept; run the command again to go on"


class TerminatedError(BaseException):
    """SIGTERM arrived; unwinds the stack so that locks and engines are let go of."""


class InterruptedRunError(OdfError):
    """Ctrl-C cut the run short."""

    exit_code = 130
    kind = "interrupted"


class TerminatedRunError(InterruptedRunError):
    """SIGTERM cut the run short."""

    exit_code = 143


class RootGroup(LazyGroup):
    """The `odf` command. However it is called, errors end as one line and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,  # noqa: ARG002
        complete_var: str | None = None,  # noqa: ARG002
        standalone_mode: bool = True,  # noqa: ARG002
        **extra: Any,
    ) -> NoReturn:
        """Run a command line and leave with its exit code.

        Args:
            args: Arguments; those of the process when None.
            prog_name: Not used: the program is `odf`.
            complete_var: Not used.
            standalone_mode: Not used: this is where the program ends.
            **extra: See `click.Command.make_context`.
        """
        arguments = list(sys.argv[1:] if args is None else args)
        # An engine that was stopped is no news for people; gRPC writes about it by itself.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        # Arrow reads it as it is loaded. This one gives memory back soon, and is as quick.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
        if os.environ.get(_COMPLETE_VARIABLE):
            # Shells call this on every press of the tab key; errors would spoil the prompt.
            with contextlib.suppress(Exception):
                super().main(arguments, _PROGRAM, _COMPLETE_VARIABLE, obj=_new_app(), **extra)
            sys.exit(0)
        sys.exit(_run(self, arguments, extra))


@click.group(
    cls=RootGroup,
    name=_PROGRAM,
    invoke_without_command=True,
    help="Keep, derive, verify and exchange data with the Open Data Fabric protocol.",
    examples=[
        ("odf init && odf add prices.yaml", "a workspace, and a dataset in it"),
        ("odf pull --all", "bring everything up to date"),
    ],
    exit_codes=[],
)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.pass_context
def cli(ctx: click.Context, version: bool) -> None:
    """Handle `odf` with no command."""
    app = ctx.ensure_object(App)
    if version:
        app.output.show("version", {"version": __version__}, lambda o: o.line(f"odf {__version__}"))
        ctx.exit(0)
    if ctx.invoked_subcommand is None:
        app.output.raw(ctx.get_help() + "\n")


def main() -> NoReturn:
    """Run the command line of this process."""
    _handle_signals()
    try:
        cli.main()
    except SystemExit as end:
        # Whoever calls this function from a program of his own goes on.
        if os.path.basename(sys.argv[0]) == _PROGRAM:  # noqa: PTH119  # pathlib is not loaded yet
            _leave(end)
        raise


def _leave(end: SystemExit) -> None:
    """End this process in order, but leave its memory to the system.

    To take the interpreter apart, with all that an engine's client has loaded, takes longer than
    some commands. Returns where something is going on that only the interpreter's own end can
    wait for, or where somebody watches it.
    """
    if not isinstance(end.code, int) or sys.getprofile() or sys.gettrace():
        return
    if any(not one.daemon for one in threading.enumerate() if one is not threading.main_thread()):
        return
    atexit._run_exitfuncs()  # noqa: SLF001  # there is no public name; temporary folders go here
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    os._exit(end.code)


def _run(group: click.Group, arguments: list[str], extra: dict[str, Any]) -> int:
    """Run a command line.

    Returns:
        The exit code, when all that there is to say was said.
    """
    app = _new_app()
    try:
        with _reporting(app, arguments) as outcome:
            try:
                with group.make_context(_PROGRAM, arguments.copy(), obj=app, **extra) as ctx:
                    group.invoke(ctx)
            finally:
                app.close()
        app.plain_output().finish()
    except StdoutClosedError:
        _silence_stdout()
        return _EXIT_STDOUT_CLOSED
    return outcome[0]


@contextlib.contextmanager
def _reporting(app: App, arguments: list[str]) -> Iterator[list[int]]:
    """Turn what is raised inside into a message; the one item yielded is the exit code after."""
    outcome = [0]
    try:
        yield outcome
    except click.exceptions.Exit as e:
        outcome[0] = e.exit_code
    except click.ClickException as e:
        _settle_format(app, arguments)
        outcome[0] = _fail(app, _usage_error(e))
    except OdfError as e:
        _settle_format(app, arguments)
        outcome[0] = _fail(app, e)
    except (KeyboardInterrupt, click.Abort):
        outcome[0] = _fail(app, InterruptedRunError("interrupted", hint=_KEPT))
    except TerminatedError:
        outcome[0] = _fail(app, TerminatedRunError("terminated", hint=_KEPT))
    except OSError as e:
        outcome[0] = _fail_by_surroundings(app, e)
    except Exception as e:  # noqa: BLE001 - the last resort: people get a message, not a traceback
        outcome[0] = _fail_internally(app, e)


def _settle_format(app: App, arguments: list[str]) -> None:
    """Find out what format was wanted, where parsing ended before it was known."""
    if app.command == NO_COMMAND and wants_json(arguments, os.environ):
        app.flags.output = "json"


def _fail(app: App, error: OdfError) -> int:
    if isinstance(error, StdoutFailedError):
        _silence_stdout()
    with contextlib.suppress(StdoutFailedError):  # then standard error has to be enough
        app.plain_output().fail(app.command, error)
    if error.__cause__ is not None and app.environment.debug(app.flags):
        app.plain_output().traceback("".join(traceback.format_exception(error)))
    return error.exit_code


def _fail_by_surroundings(app: App, error: OSError) -> int:
    """Report what the machine refused; anything else that the system says is a bug of ours."""
    if error.errno not in _REFUSALS:
        return _fail_internally(app, error)
    where = f"{error.filename}: " if error.filename else ""
    failure = TransportError(
        f"{where}{error.strerror}", hint="is the disk full, or a folder not accessible?"
    )
    failure.__cause__ = error
    return _fail(app, failure)


def _fail_internally(app: App, error: Exception) -> int:
    """Report a bug: one line for the person, the traceback for whoever looks into it."""
    text = "".join(traceback.format_exception(error))
    hint = "this is a bug in odf; ODF_DEBUG=1 shows where it is"
    context = app.opened
    if context is not None:
        with contextlib.suppress(OSError, OdfError):
            log = context.run_dir / "error.log"
            log.write_text(text, encoding="utf-8", errors="backslashreplace")
            hint = f"this is a bug in odf; see {log}"
    if app.environment.debug(app.flags):
        app.plain_output().traceback(text)
    return _fail(app, OdfError(f"internal error: {type(error).__name__}: {error}", hint=hint))


def _usage_error(error: click.ClickException) -> UsageError:
    """Put click's complaint into our form."""
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    hint = None
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"see '{error.ctx.command_path} --help'"
    return UsageError(message, hint=hint)


def _new_app() -> App:
    return App(os.environ, sys.stdout, sys.stderr)


def _handle_signals() -> None:
    """Let the first signal unwind the stack, and the second one end the process at once."""

    def terminate(number: int, _frame: FrameType | None) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        raise TerminatedError

    def interrupt(number: int, _frame: FrameType | None) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # a background job of a shell
        signal.signal(signal.SIGINT, interrupt)


def _silence_stdout() -> None:
    """Keep Python from complaining when it flushes what could not be written, at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

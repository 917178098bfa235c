"""The only place that prints.

Standard output carries what was asked for: text for people, or exactly one JSON document.
Standard error carries everything else: progress, warnings, hints and errors.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Self, TextIO

from odf.cli.text import begins_with, clean, enumeration, json_safe, one_line
from odf.errors import BadInputError, OdfError

PIPE_WIDTH = 100_000
"""Columns of a pipe: nothing is ever cut there."""


class OutputFormat(StrEnum):
    """What a command's result is written as."""

    TEXT = "text"
    JSON = "json"


class StdoutClosedError(BaseException):
    """The reader of standard output went away (`odf log x | head`); not an error to report."""


class StdoutFailedError(OdfError):
    """Standard output cannot be written: a full disk, or the caller closed it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: Its heading.
        align: Numbers are aligned to the right.
        style: How its cells look on a terminal with colours.
        shrink: May be cut, with `…`, where the terminal is too narrow; numbers and times may not,
            since what is left of them says something else.
        shrink_last: Is cut only when all others were: names, which tell rows apart.
        least: Characters that must be left of a cell that is cut.
        drop: Where even that does not fit, columns are left out, those of the highest `drop`
            first; those of 0 never.
        drop_first: Is left out before anything is cut.
    """

    title: str
    align: Literal["left", "right"] = "left"
    style: str = ""
    shrink: bool = False
    shrink_last: bool = False
    least: int = 10
    drop: int = 0
    drop_first: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell that has a style of its own."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Terminal:
    """What the two output streams are.

    Attributes:
        stdout: Where results go; None when the caller closed it.
        stderr: Where messages go; None when the caller closed it.
        stdout_tty: Whether a person looks at `stdout`.
        stderr_tty: Whether a person looks at `stderr`.
        width: Columns of the terminal.
        color: Whether `stdout` gets colours.
    """

    stdout: TextIO | None
    stderr: TextIO | None
    stdout_tty: bool = False
    stderr_tty: bool = False
    width: int = 80
    color: bool = False


class Output:
    """Renders results and messages.

    Args:
        terminal: The streams.
        output_format: What results are written as.
        quiet: No progress, warnings, hints or summaries; results and errors stay.
        verbose: 0 normal, 1 writes progress as lines (also beside JSON), 2 adds tracebacks.
    """

    def __init__(
        self,
        terminal: Terminal,
        *,
        output_format: OutputFormat = OutputFormat.TEXT,
        quiet: bool = False,
        verbose: int = 0,
    ) -> None:
        self._terminal = terminal
        self._format = output_format
        self._quiet = quiet
        self._verbose = verbose
        self._transient = False
        self._documents = 0

    @property
    def is_json(self) -> bool:
        """Whether results are written as JSON."""
        return self._format is OutputFormat.JSON

    @property
    def is_quiet(self) -> bool:
        """Whether only results and errors are wanted."""
        return self._quiet

    @property
    def verbose(self) -> int:
        """How many times `-v` was given."""
        return self._verbose

    @property
    def width(self) -> int:
        """Columns that a line of standard output may take."""
        return self._terminal.width if self._terminal.stdout_tty else PIPE_WIDTH

    @property
    def has_document(self) -> bool:
        """Whether the one JSON document was written."""
        return self._documents > 0

    # Results, on standard output

    def show(
        self, command: str, payload: Mapping[str, object], text: Callable[[Self], None]
    ) -> None:
        """Write a command's result, in the format that was asked for.

        Args:
            command: The command's name, which becomes the document's schema.
            payload: The result as plain JSON values.
            text: Writes the result for a person.
        """
        if self.is_json:
            self.document(command, payload)
        else:
            text(self)

    def document(self, command: str, payload: Mapping[str, object]) -> None:
        """Write the one JSON document of this run.

        Args:
            command: The command's name, which becomes the document's schema.
            payload: The result as plain JSON values.
        """
        self._documents += 1
        self._write_out(dumps({"schema": f"odf.cli/{command}/v1", **payload}) + "\n")

    def line(self, text: str = "") -> None:
        """Write one line of a result for a person."""
        self._write_out(clean(text) + "\n")

    def raw(self, text: str) -> None:
        """Write a text of our own (help, completion scripts) as it is."""
        self._write_out(text)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]]) -> None:
        """Write a table; on a terminal it fits the width, in a pipe nothing is cut.

        What there was no room for is said below it.

        Args:
            columns: The columns.
            rows: One text for each column.
        """
        from odf.cli.tables import render_table

        drawn = render_table(columns, rows, width=self.width, color=self._terminal.color)
        self._write_out(drawn.text)
        if drawn.dropped:
            self.aside(
                f"not shown, for lack of room: {enumeration(drawn.dropped)}; -o json has everything"
            )

    # Messages, on standard error

    def progress(self, dataset: str, message: str) -> None:
        """Say what is being done to a dataset.

        A line that the next one replaces on a terminal. Plain lines with `-v` only: a job that
        runs by itself says nothing as long as all goes well.
        """
        if self._quiet:
            return
        line = one_line(f"{dataset}: {message}")
        if self._verbose:
            self._write_err(line + "\n")
        elif self._terminal.stderr_tty and not self.is_json:
            self._write_err(f"\r\x1b[2K{line[: self._terminal.width - 1]}", transient=True)

    def note(self, message: str) -> None:
        """Say what happened, in one line for a person."""
        if not self._quiet and not self.is_json:
            self._write_err(one_line(message) + "\n")

    def aside(self, message: str) -> None:
        """Say something about how a result is shown: dim, where there are colours."""
        dim = self._terminal.color and self._terminal.stderr_tty
        if not self._quiet and not self.is_json:
            text = one_line(message)
            self._write_err(f"\x1b[2m{text}\x1b[0m\n" if dim else f"{text}\n")

    def hint(self, message: str) -> None:
        """Say what a person would do next; only where a person looks."""
        if self._terminal.stderr_tty:
            self.note(f"hint: {message}")

    def warn(self, message: str) -> None:
        """Say what a person should know although nothing failed."""
        if not self._quiet and not self.is_json:
            self._write_err(f"warning: {one_line(message)}\n")

    def can_ask(self, answers: TextIO | None) -> bool:
        """Tell whether a person sits at both ends; nobody else is asked anything.

        Args:
            answers: Where answers come from.
        """
        return self._terminal.stderr_tty and answers is not None and answers.isatty()

    def ask(self, facts: Sequence[str], question: str, answers: TextIO) -> bool:
        """Ask a person, also where only results and errors are wanted.

        Args:
            facts: What they have to know, one line each.
            question: What can be answered by yes or no; no is the default.
            answers: Where the answer comes from; see `can_ask`.
        """
        for fact in facts:
            self._write_err(clean(fact) + "\n")
        self._write_err(f"{question} [y/N] ")
        return answers.readline().strip().lower() in {"y", "yes"}

    def report(self, error: OdfError, subject: str | None = None) -> None:
        """Write an error for a person.

        Args:
            error: What went wrong.
            subject: The dataset it happened to, where the message does not begin with it.
        """
        named = subject is None or begins_with(error.message, subject)
        where = "" if named else f"{subject}: "
        self._write_err(f"error: {one_line(where + error.message)}\n")
        if isinstance(error, BadInputError):
            for problem in error.problems:
                self._write_err(f"  {one_line(problem)}\n")
        if error.hint:
            self._write_err(f"hint: {one_line(error.hint)}\n")

    def fail(self, command: str, error: OdfError) -> None:
        """Write the error that ends the run, and with JSON the document if it is still owed.

        Args:
            command: The command's name, or `error` when no command was reached.
            error: What went wrong.
        """
        if not self.is_json:
            self.report(error)
            return
        content = {"error": error_object(error)}
        self._write_err(dumps({"schema": "odf.cli/error/v1", **content}) + "\n")
        if not self.has_document:
            self.document(command, content)

    def traceback(self, text: str) -> None:
        """Write a traceback, for whoever asked for it."""
        for line in text.splitlines():
            self._write_err(clean(line) + "\n")

    def finish(self) -> None:
        """Remove a progress line that still stands."""
        self._write_err("")

    def _write_out(self, text: str) -> None:
        self._clear_progress()
        stream = self._terminal.stdout
        if stream is None:
            if text:
                raise StdoutFailedError("cannot write to standard output: it is closed")
            return
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            raise StdoutClosedError from None
        except (OSError, ValueError) as e:
            reason = e.strerror if isinstance(e, OSError) else str(e)
            raise StdoutFailedError(f"cannot write to standard output: {reason}") from None

    def _write_err(self, text: str, *, transient: bool = False) -> None:
        self._clear_progress()
        self._transient = transient
        stream = self._terminal.stderr
        if stream is None:
            return
        try:
            stream.write(text)
            stream.flush()
        except (OSError, ValueError):
            # Nobody can be told; the exit code still says it.
            return

    def _clear_progress(self) -> None:
        if self._transient and self._terminal.stderr is not None:
            self._transient = False
            self._terminal.stderr.write("\r\x1b[2K")
            self._terminal.stderr.flush()


def error_object(error: OdfError) -> dict[str, object]:
    """Turn an error into its JSON form: kind, message, hint, exit code and details."""
    from odf.cli.plain import to_plain

    return {
        "kind": error.kind,
        "message": error.message,
        "hint": error.hint,
        "exit_code": error.exit_code,
        "details": to_plain(error.details),
    }


def dumps(document: Mapping[str, object]) -> str:
    """Write a JSON document: readable, standard JSON only, harmless on a terminal."""
    return json_safe(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))

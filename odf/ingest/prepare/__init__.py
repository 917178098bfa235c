"""The prepare phase: source data unpacked and piped through commands (ingest.md §5).

Steps stream: each one takes pieces from the one before it and hands pieces on, so that memory
stays the same however large the data is. What comes out goes into one file with a name of our own.
"""

import contextlib
import secrets
from collections.abc import Sequence
from pathlib import Path

from odf.errors import BadInputError, OdfError, TransportError, in_context
from odf.metadata.model import CompressionFormat, PrepStep, PrepStepDecompress, PrepStepPipe

from .base import Bounds, PrepareContext, Stream
from .files import FileStream

__all__ = [
    "Bounds",
    "PrepareContext",
    "check_steps",
    "commands_of",
    "prepare",
    "remove_leftovers",
]

_PREFIX = "prepared-"


def prepare(steps: Sequence[PrepStep], source: Path, name: str, ctx: PrepareContext) -> Path:
    """Send source data through all prepare steps.

    Args:
        steps: What to do, in order; at least one.
        source: The file with the data.
        name: What messages call it.
        ctx: Where, and how commands are run.

    Returns:
        A new file in `ctx.folder`, which the caller deletes.

    Raises:
        BadInputError: An archive is damaged, encrypted, suspiciously large or has not exactly one
            member that is meant; or a command failed. Names the file and the step.
        TransportError: The source cannot be read, or the result cannot be written.
        EngineUnavailableError: Commands must run in a sandbox, and it does not work.
    """
    ctx.folder.mkdir(parents=True, exist_ok=True)
    target = ctx.folder / f"{_PREFIX}{secrets.token_hex(8)}"
    try:
        with contextlib.ExitStack() as open_streams:
            _write(_connect(steps, source, name, ctx, open_streams), target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return target


def remove_leftovers(folder: Path) -> None:
    """Delete what pulls that were killed left in a folder; its dataset must be locked."""
    for path in folder.glob(f"{_PREFIX}*"):
        path.unlink(missing_ok=True)


def commands_of(steps: Sequence[PrepStep]) -> tuple[tuple[str, ...], ...]:
    """List the commands that steps would run, each once, for consent."""
    commands = (step.command for step in steps if isinstance(step, PrepStepPipe))
    return tuple(dict.fromkeys(tuple(command) for command in commands))


def check_steps(steps: Sequence[PrepStep]) -> tuple[str, ...]:
    """Look for mistakes in steps before there is any data.

    Returns:
        What their author should know although nothing is wrong.

    Raises:
        BadInputError: A step can never work.
    """
    warnings = []
    for number, step in enumerate(steps):
        if isinstance(step, PrepStepPipe) and not (step.command and step.command[0]):
            raise BadInputError(
                f"{_label(number, step)}: the command is empty",
                reason="bad_step",
                hint="write it as a list: command: [jq, -c, '.rows[]']",
            )
        if isinstance(step, PrepStepDecompress):
            if step.sub_path == "":
                raise BadInputError(
                    f"{_label(number, step)}: subPath is empty",
                    reason="bad_step",
                    hint="name a member, or leave subPath out",
                )
            if step.format is CompressionFormat.GZIP and step.sub_path is not None:
                warnings.append(
                    f"{_label(number, step)}: subPath has no meaning, since gzip holds one file"
                )
    return tuple(warnings)


def _connect(
    steps: Sequence[PrepStep],
    source: Path,
    name: str,
    ctx: PrepareContext,
    open_streams: contextlib.ExitStack,
) -> Stream:
    """Put the steps behind each other; the last one is closed first."""
    stream: Stream = FileStream(source, name)
    open_streams.callback(stream.close)
    for number, step in enumerate(steps):
        where = f"{name}: {_label(number, step)}"
        try:
            stream = _open(step, stream, where, ctx)
        except OdfError as error:
            raise in_context(error, where) from error
        open_streams.callback(stream.close)
    return stream


def _open(step: PrepStep, upstream: Stream, where: str, ctx: PrepareContext) -> Stream:
    match step:
        case PrepStepPipe():
            from .pipe import PipeStream  # noqa: PLC0415 - pay for what is used

            reason = ctx.commands.why_unsandboxed()
            if reason is not None:
                ctx.report(f"running {step.command[0]} without a sandbox: {reason}")
            return PipeStream(upstream, ctx.commands.start(step.command), where, ctx.bounds)
        case PrepStepDecompress(format=CompressionFormat.GZIP):
            from .gunzip import GunzipStream  # noqa: PLC0415

            return GunzipStream(upstream, where, ctx.bounds)
        case PrepStepDecompress():
            from .unzip import UnzipStream  # noqa: PLC0415

            return UnzipStream(upstream, step.sub_path, where, ctx.bounds, ctx.folder)


def _write(stream: Stream, target: Path) -> None:
    try:
        with target.open("xb") as file:
            while piece := stream.read():
                file.write(piece)
    except OSError as error:
        raise TransportError(
            f"cannot write the prepared data to {target}: {error.strerror}",
            hint="is there room on the disk?",
        ) from None


def _label(number: int, step: PrepStep) -> str:
    if isinstance(step, PrepStepPipe):
        return f"prepare[{number}] (Pipe {step.command[0] if step.command else ''})"
    return f"prepare[{number}] (Decompress {step.format.name.lower()})"

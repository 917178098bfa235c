"""`odf ingest`: push files or standard input into a root dataset (ingest.md §8)."""

import contextlib
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from odf.coordinator.context import Context
from odf.coordinator.guard import guarded
from odf.coordinator.ingesting import ingest_options, ingest_surroundings
from odf.coordinator.results import IngestedFile, IngestReport, PullStatus
from odf.coordinator.watermark import check_writable
from odf.errors import BadInputError, NotFoundError, OdfError, UsageError
from odf.ingest.push import PushedData, push_file
from odf.ingest.spool import spool
from odf.metadata.chain import ChainState
from odf.metadata.identity import DatasetAlias
from odf.metadata.input_formats import InputFormat
from odf.metadata.model import AddPushSource, Timestamp
from odf.repo.update import DatasetUpdate
from odf.workspace.workspace import DatasetHandle

STDIN = "-"
"""How standard input is named among the files."""


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What `odf ingest` was asked for.

    Attributes:
        ref: Name or DID of the dataset.
        files: Paths, in the order in which they count; `-` is standard input.
        source_name: The push source; None for the only one.
        event_time: Event time of rows that have none of their own; None for the system time.
        input_format: What the files are written in; None for what the source declares.
        allow_retract: Accept snapshots that lose any number of rows.
        allow_empty: Accept files without any content.
        quarantine: Set rows that cannot be read aside, rather than stop at them.
    """

    ref: str
    files: tuple[str, ...]
    source_name: str | None = None
    event_time: Timestamp | None = None
    input_format: InputFormat | None = None
    allow_retract: bool = False
    allow_empty: bool = False
    quarantine: bool = False


def ingest(ctx: Context, request: IngestRequest, stdin: BinaryIO) -> IngestReport:
    """Push files into a dataset, one commit each, and stop at the first that fails.

    Args:
        ctx: Where to work.
        request: What to push where.
        stdin: What `-` stands for.

    Returns:
        What became of each file; those before one that failed stay committed.

    Raises:
        NotFoundError: There is no such dataset, push source or file; nothing was done.
        UsageError: The dataset takes no pushes, or it is not said through which source.
        ConflictError: The dataset is pulled from elsewhere.
        BadInputError: A path is that of a folder.
        LockedError: Another process is writing to the dataset.
    """
    started = time.monotonic()
    handle = ctx.workspace.resolve(request.ref)
    check_writable(handle, "nothing can be pushed into it")
    _check_files(request.files)
    _chosen(handle, request)
    with _spooled(ctx, request.files, stdin) as paths:
        # Only here: whoever feeds a pipe may take hours.
        with handle.dataset.lock(ctx.settings.lock_timeout):
            source = _chosen(handle, request)
            old_head = handle.dataset.head()
            files = _push_all(ctx, handle, request, source, paths)
        state = handle.dataset.state()
    return IngestReport(
        name=str(handle.alias),
        id=handle.id,
        source=source.source_name,
        old_head=old_head,
        new_head=state.head,
        watermark=state.watermark,
        files=files,
        seconds=time.monotonic() - started,
    )


def _push_all(
    ctx: Context,
    handle: DatasetHandle,
    request: IngestRequest,
    source: AddPushSource,
    paths: Sequence[Path],
) -> tuple[IngestedFile, ...]:
    options = ingest_options(
        ctx,
        handle,
        allow_retract=request.allow_retract,
        allow_empty=request.allow_empty,
        quarantine=request.quarantine,
    )
    around = ingest_surroundings(ctx, handle)
    done: list[IngestedFile] = []
    for name, path in zip(request.files, paths, strict=True):
        if done and done[-1].status in {PullStatus.FAILED, PullStatus.SKIPPED}:
            done.append(IngestedFile(name, PullStatus.SKIPPED, reason="a file before it failed"))
            continue
        shown = "standard input" if name == STDIN else name
        data = PushedData(path, shown, request.input_format, request.event_time)

        def push(data: PushedData = data) -> DatasetUpdate:
            return push_file(handle.dataset, str(handle.alias), source, data, options, around)

        done.append(_pushed(ctx, handle, name, push))
    return tuple(done)


def _pushed(
    ctx: Context, handle: DatasetHandle, name: str, push: Callable[[], DatasetUpdate]
) -> IngestedFile:
    update = guarded(ctx, str(handle.alias), push)
    if isinstance(update, OdfError):
        return IngestedFile(name, PullStatus.FAILED, head=handle.dataset.head(), error=update)
    status = PullStatus.UPDATED if update.blocks else PullStatus.UP_TO_DATE
    return IngestedFile(
        name=name,
        status=PullStatus.FAILED if update.error else status,
        head=update.new_head,
        blocks=update.blocks,
        records={operation.sign: count for operation, count in update.records.items() if count},
        warnings=update.warnings,
        reason=update.reason,
        error=update.error,
        set_aside=update.set_aside,
    )


# --- the source --------------------------------------------------------------------------------


def _chosen(handle: DatasetHandle, request: IngestRequest) -> AddPushSource:
    """Find the push source that is meant."""
    state = handle.dataset.state()
    known = ", ".join(source.source_name for source in state.push_sources)
    if not state.push_sources:
        raise _no_push_source(handle.alias, state)
    if request.source_name is not None:
        found = state.push_source(request.source_name)
        if found is None:
            raise NotFoundError(
                f"dataset {handle.alias} has no push source {request.source_name!r}",
                hint=f"it has: {known}",
            )
        return found
    if len(state.push_sources) > 1:
        raise UsageError(
            f"dataset {handle.alias} has {len(state.push_sources)} push sources: {known}",
            hint="say which one is meant: --source-name NAME",
        )
    return state.push_sources[0]


def _no_push_source(alias: DatasetAlias, state: ChainState) -> UsageError:
    add = "describe how pushed data is read and merged in its manifest with `kind: AddPushSource`"
    if state.polling_source is not None:
        return UsageError(
            f"dataset {alias} fetches its data from a polling source and takes no pushes",
            hint=f"odf pull {alias} fetches what is new; to push instead, {add} in place of "
            "SetPollingSource, then: odf add --update FILE",
        )
    return UsageError(
        f"dataset {alias} has no push source", hint=f"{add}, then: odf add --update FILE"
    )


# --- the files ---------------------------------------------------------------------------------


def _check_files(names: Sequence[str]) -> None:
    if not names:
        raise UsageError("nothing to ingest", hint="name files, or write - to read standard input")
    if names.count(STDIN) > 1:
        raise UsageError("standard input (-) is named more than once")
    for name in names:
        if name == STDIN:
            continue
        if stat.S_ISDIR(_mode(name)):
            raise BadInputError(
                f"{name} is a folder",
                reason="not_a_file",
                hint="name the files in it, for example with a pattern of the shell",
            )


def _mode(name: str) -> int:
    """Look at a file, and say in our words why that is not possible."""
    if not name:
        raise UsageError("the name of a file is empty", hint="is a variable of the shell not set?")
    try:
        return Path(name).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"{name}: there is no such file", hint="paths begin at the current folder"
        ) from None
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: OSError | ValueError) -> BadInputError:
    said = getattr(error, "strerror", None) or str(error)
    return BadInputError(
        f"{name}: cannot be read: {said.lower()}",
        reason="not_a_file",
        hint="check the path, and that this user may read it",
    )


@contextlib.contextmanager
def _spooled(ctx: Context, names: Sequence[str], stdin: BinaryIO) -> Iterator[list[Path]]:
    """Give a regular file for each name, for as long as they are needed."""
    paths: list[Path] = []
    with contextlib.ExitStack() as made:
        for name in names:
            path = Path(name).absolute()
            if name == STDIN or not stat.S_ISREG(_mode(name)):
                ctx.progress(name, "reading")
                path = _from_pipe(ctx, name, stdin)
                made.callback(path.unlink, missing_ok=True)
            paths.append(path)
        yield paths


def _from_pipe(ctx: Context, name: str, stdin: BinaryIO) -> Path:
    if name == STDIN:
        return spool(stdin, "standard input", ctx.staging_dir)
    try:
        with Path(name).open("rb") as pipe:
            return spool(pipe, name, ctx.staging_dir)
    except OSError as error:
        raise _unreadable(name, error) from None

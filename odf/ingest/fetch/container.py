"""`Container` sources: a container writes the data to its standard output (ingest.md §4).

It is told how far the source was read (`ODF_ETAG`, `ODF_LAST_MODIFIED`), and says in files how
far it is now (`new-etag`, `new-last-modified`) and whether there is more (`new-has-more-data`).
"""

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from odf import limits
from odf.errors import BadInputError, EngineUnavailableError, OdfError, TransportError
from odf.metadata.model import FetchStepContainer, SourceState, Timestamp
from odf.runtimes.source_container import ContainerJob

from .base import (
    ETAG,
    LAST_MODIFIED,
    FetchContext,
    Fetched,
    Unchanged,
    etag_state,
    last_modified_state,
)
from .spool import new_spool, remove_spools
from .templates import Expanded, Masker

_KIND: Final = "container"
_INSIDE: Final = "/opt/odf/out"
_ETAG, _MODIFIED, _MORE = "new-etag", "new-last-modified", "new-has-more-data"
_BATCH_SIZE: Final = "ODF_BATCH_SIZE"
_PROGRESS: Final = 16 * 1024 * 1024


def fetch_container(
    step: FetchStepContainer,
    texts: Mapping[str, Expanded],
    state: SourceState | None,
    ctx: FetchContext,
) -> Fetched | Unchanged:
    """Run the container once.

    Args:
        step: The fetch step.
        texts: Its image, arguments and variables, expanded.
        state: The last source state.
        ctx: Where, when and with whose leave.

    Raises:
        EngineUnavailableError: Containers cannot be run here.
        BadInputError: The container failed, or breaks the contract.
        TransportError: Its output cannot be written.
    """
    image = texts["image"]
    if not ctx.taken:  # the batches of a snapshot wait for each other
        _remove_leftovers(ctx.cache_dir)
    path, file = new_spool(ctx.cache_dir, _KIND)
    folder = Path(tempfile.mkdtemp(dir=ctx.cache_dir, prefix=f"{_KIND}-"))
    try:
        out = folder / "out"
        out.mkdir()
        out.chmod(0o777)  # for users that only the image knows; the folder around is ours
        with file:
            job = _job(step, texts, state, out, ctx)
            size = _run(job, image.masked, _masker(texts), file, ctx)
        found = _conclude(image.masked, state, out, path, size)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        # What a container left in sub-folders may belong to a user of its own.
        shutil.rmtree(folder, ignore_errors=True)
    if isinstance(found, Unchanged):
        path.unlink(missing_ok=True)
    return found


def _remove_leftovers(cache: Path) -> None:
    """Delete what a pull that was killed left."""
    remove_spools(cache, _KIND)
    for folder in cache.glob(f"{_KIND}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _job(
    step: FetchStepContainer,
    texts: Mapping[str, Expanded],
    state: SourceState | None,
    out: Path,
    ctx: FetchContext,
) -> ContainerJob:
    variables = {_BATCH_SIZE: str(limits.CONTAINER_BATCH_SIZE)}
    variables |= {one.name: texts[f"env {one.name}"].text for one in step.env or ()}
    batch = variables[_BATCH_SIZE]
    if not (batch.isascii() and batch.isdigit() and int(batch[:18])):
        raise BadInputError(
            f"{texts['image'].masked}: {_BATCH_SIZE} is {batch!r:.40}, wanted a number of records",
            reason="bad_variable",
            hint="correct the value of the variable in `env` of the fetch step",
        )
    variables |= {
        "ODF_ETAG": _value(state, ETAG),
        "ODF_LAST_MODIFIED": _value(state, LAST_MODIFIED),
        "ODF_NEW_ETAG_PATH": f"{_INSIDE}/{_ETAG}",
        "ODF_NEW_LAST_MODIFIED_PATH": f"{_INSIDE}/{_MODIFIED}",
        "ODF_NEW_HAS_MORE_DATA_PATH": f"{_INSIDE}/{_MORE}",
    }
    return ContainerJob(
        image=texts["image"].text,
        owner=hashlib.sha256(ctx.dataset.encode()).hexdigest()[:20],
        output=out,
        inside=_INSIDE,
        command=step.command or (),
        arguments=tuple(texts[f"args[{n}]"].text for n in range(len(step.args or ()))),
        environment=variables,
    )


def _value(state: SourceState | None, kind: str) -> str:
    return state.value if state is not None and state.kind == kind else ""


def _masker(texts: Mapping[str, Expanded]) -> Masker:
    return Masker([secret for text in texts.values() for secret in text.secrets])


@contextlib.contextmanager
def _masked(masker: Masker) -> Iterator[None]:
    """Take secrets out of errors: what runs containers knows only expanded texts."""
    try:
        yield
    except OdfError as error:
        error.message = masker.clean(error.message)
        error.args = (error.message,)
        raise


def _run(job: ContainerJob, shown: str, masker: Masker, file: BinaryIO, ctx: FetchContext) -> int:
    """Run the container and write what it says to a file; return how much it was."""
    containers = ctx.containers
    if containers is None:
        raise EngineUnavailableError("containers of sources are not run here")
    size = told = 0
    ctx.report(f"running {shown}")
    with (
        _masked(masker),
        containers.run(job, lambda said: ctx.report(masker.clean(said))) as running,
    ):
        while piece := os.read(running.stdout.fileno(), limits.PREPARE_CHUNK):
            size += len(piece)
            if size > ctx.max_size:
                raise BadInputError(
                    f"{shown}: more than the {ctx.max_size} bytes that a source may give",
                    reason="too_large",
                    hint="let it give fewer records at a time, and say that there are more",
                )
            try:
                file.write(piece)
            except OSError as error:
                raise TransportError(
                    f"cannot write the data of {shown}: {error.strerror}",
                    hint="is there room on the disk?",
                ) from None
            if size - told >= _PROGRESS:
                told = size
                ctx.report(f"{shown}: {size / (1024 * 1024):.1f} MiB")
        if running.wait() != 0:
            raise BadInputError(
                f"the container {shown} failed: {running.status()}",
                reason="container_failed",
                problems=[masker.clean(line) for line in running.last_lines()],
                hint="its last lines are above; it runs as docker run would run it",
            )
    return size


def _conclude(
    shown: str, state: SourceState | None, out: Path, path: Path, size: int
) -> Fetched | Unchanged:
    """Find out what the container says about its data."""
    new, more = _new_state(shown, out), _exists(out / _MORE)
    if not size and new in (None, state):
        return Unchanged(f"{shown} has nothing new")
    if size and new is not None and new == state:
        raise BadInputError(
            f"the container {shown} gave {size} bytes, and says that it is still at "
            f"{new.value!r:.80}",
            reason="container_contract",
            hint="it has to write its new state to $ODF_NEW_ETAG_PATH or "
            "$ODF_NEW_LAST_MODIFIED_PATH, or to write no data",
        )
    if more and new is None:
        raise BadInputError(
            f"the container {shown} says that there is more, and not where to go on",
            reason="container_contract",
            hint="beside $ODF_NEW_HAS_MORE_DATA_PATH it has to write $ODF_NEW_ETAG_PATH or "
            "$ODF_NEW_LAST_MODIFIED_PATH",
        )
    return Fetched(
        path=path,
        name=shown,
        owned=True,
        source_state=new,
        event_time=None,
        has_more=more,
        size=size,
        is_batch=True,
        is_empty=not size,
    )


def _new_state(shown: str, out: Path) -> SourceState | None:
    etag = _read(shown, out / _ETAG)
    if etag:
        return etag_state(etag)
    modified = _read(shown, out / _MODIFIED)
    if not modified:
        return None
    try:
        return last_modified_state(Timestamp.parse(modified.strip()))
    except BadInputError:
        raise BadInputError(
            f"the container {shown} wrote {modified!r:.60} to {_MODIFIED}, wanted a time as "
            "2026-01-31T12:00:00Z",
            reason="container_contract",
            hint="docs/sources.md says what a container writes into these files",
        ) from None


def _exists(path: Path) -> bool:
    return os.path.lexists(path)


def _read(shown: str, path: Path) -> str | None:
    """Read a small file that a container wrote: not through a link, and no more than is allowed."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _no_state(shown, path, error.strerror or "not readable") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _no_state(shown, path, "not an ordinary file")
        content = os.read(handle, limits.MAX_VALIDATOR_SIZE + 1)
    finally:
        os.close(handle)
    if len(content) > limits.MAX_VALIDATOR_SIZE:
        raise _no_state(shown, path, f"longer than {limits.MAX_VALIDATOR_SIZE} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _no_state(shown, path, "no UTF-8 text") from None


def _no_state(shown: str, path: Path, what: str) -> BadInputError:
    return BadInputError(
        f"the container {shown} left a {path.name} that cannot be used: {what}",
        reason="container_contract",
        hint="docs/sources.md says what a container writes into these files",
    )

"""`file://` sources: the user's own file, read where it lies (ingest.md §4)."""

import stat
from pathlib import Path
from urllib.parse import unquote

from odf.errors import BadInputError, NotFoundError, TransportError
from odf.metadata.model import FetchStepUrl, SourceState

from .base import (
    FetchContext,
    Fetched,
    Fingerprint,
    Unchanged,
    last_modified_state,
    modified_in,
    not_understood,
)
from .event_time import event_time, file_time
from .templates import Expanded, Masker

_SCHEME = "file:"


def fetch_file(
    step: FetchStepUrl, url: Expanded, state: SourceState | None, ctx: FetchContext
) -> Fetched | Unchanged:
    """Look at a local file and hand it out if it changed since the last state.

    Any change of the modification time counts, also to an earlier one.

    Raises:
        NotFoundError: There is no such file.
        BadInputError: The URL names no file, or it is not an ordinary one.
        TransportError: The file may not be read.
    """
    clean = Masker(url.secrets).clean
    path = local_path(url, ctx.workspace_root)
    shown = clean(str(display_path(path, ctx.workspace_root)))
    fingerprint = look_at(path, shown, source=f"the source {url.masked}")
    modified = file_time(fingerprint.mtime_ns)
    new_state = last_modified_state(modified)
    before = modified_in(state) if state is not None else None
    if before == modified:
        return Unchanged(f"{shown} was not modified since {modified}")
    warnings = (not_understood(shown, state),) if state is not None and before is None else ()
    return Fetched(
        path=path,
        name=shown,
        owned=False,
        source_state=new_state,
        event_time=event_time(
            step.event_time, paths=(str(path),), shown=shown, modified=modified, ctx=ctx
        ),
        has_more=False,
        size=fingerprint.size,
        fingerprint=fingerprint,
        warnings=warnings,
    )


def local_path(url: Expanded, root: Path) -> Path:
    """Turn a `file:` URL into a path.

    `file:///a/b` and `file://localhost/a/b` are absolute; `file:a/b` and `file://a/b` are relative
    to the workspace root, since no other machine's files can be meant.

    Raises:
        BadInputError: There is no path, or a query or fragment.
    """
    rest = url.text[len(_SCHEME) :]
    rest = rest.removeprefix("//")
    if rest.startswith("localhost/"):
        rest = rest.removeprefix("localhost")
    if "?" in rest or "#" in rest:
        raise BadInputError(
            f"{url.masked}: a file has no query or fragment",
            reason="bad_url",
            hint="write ? as %3F and # as %23 if they belong to the file's name",
        )
    text = unquote(rest)
    if not text.strip("/") or "\0" in text:
        raise BadInputError(
            f"{url.masked}: this URL names no file",
            reason="bad_url",
            hint="write it like file:///path/to/file, or file://file below the workspace",
        )
    return root / text


def look_at(path: Path, shown: str, *, source: str) -> Fingerprint:
    """Make sure that a path is an ordinary file that can be read, and take its fingerprint.

    Args:
        path: The file.
        shown: The path as messages may have it.
        source: What names the file, for messages.

    Raises:
        NotFoundError: There is no such file.
        BadInputError: It is a folder or something special.
        TransportError: It may not be read.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "not an ordinary file"
            raise BadInputError(
                f"{source}: {shown} is {kind}, wanted a file",
                reason="not_a_file",
                hint="use fetch kind FilesGlob for many files" if stat.S_ISDIR(mode) else None,
            )
        with path.open("rb"):
            return Fingerprint.of(path)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"{source}: there is no file {shown}",
            hint="relative paths start at the workspace root",
        ) from None
    except OSError as problem:
        raise TransportError(
            f"{source}: cannot read {shown}: {problem.strerror or type(problem).__name__}",
            hint="check the permissions of the file",
        ) from None


def display_path(path: Path, root: Path) -> Path:
    """Shorten a path that lies in the workspace to what it is there."""
    try:
        return path.relative_to(root)
    except ValueError:
        return path

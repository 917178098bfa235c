"""`FilesGlob` sources: local files, one a call, in order (ingest.md §4).

Order `ByName` (also the default) is by file name, then by path below the folder where the
wildcards begin. The source state is then the bare name of the last file, as the live peers write
it, or, where several matched files have that name, the path (`a/x.csv`, `./x.csv` for a file that
lies right in the folder): equal names in different folders are all taken.

Order `ByEventTime`, which no live peer has, is by event time, then as above; the source state is
the time, a blank, and the name or path, so that the place in the order is known even when the
file is gone. Where the event time is the modification time, a file that was changed comes again.

A file that appears before the last one taken is late: its turn is over. Every pull says so, and
takes it when told to (`take_late`), unless each file is a snapshot: an older one would undo a newer
one. The source state stays at the file that sorts last. A file that changed after it was taken is
not taken again, which is said too. `cache: forever` adds nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from odf.errors import BadInputError, NotFoundError
from odf.metadata.model import (
    EventTimeSourceFromSystemTime,
    FetchStepFilesGlob,
    SourceOrdering,
    SourceState,
    Timestamp,
)

from .base import ETAG, FetchContext, Fetched, Fingerprint, Unchanged, etag_state
from .event_time import event_time, file_time
from .glob_record import GlobRecord, SeenFile
from .glob_walk import GlobPattern, find_files
from .local import display_path, look_at

_NAMED = 3  # files that a warning names; of more it gives the number


@dataclass(frozen=True, slots=True)
class _File:
    """A file that matches.

    Attributes:
        relative: Path below the base of the pattern.
        name: Its last component.
        label: What stands for it in a source state.
        time: Its event time, where files are ordered by it.
        print: How it looks now.
    """

    relative: str
    name: str
    label: str
    time: Timestamp | None
    print: Fingerprint

    @property
    def order(self) -> tuple[int, str, str]:
        return (self.time.epoch_ns if self.time else 0, self.name, self.relative)

    @property
    def state(self) -> str:
        return f"{self.time} {self.label}" if self.time else self.label

    def seen(self, state: str | None = None) -> SeenFile:
        return SeenFile(self.print.size, self.print.mtime_ns, state)


@dataclass(frozen=True, slots=True)
class _Position:
    """The place in the order up to which everything was taken.

    Attributes:
        time: Event time of the last file, where files are ordered by it.
        name: Its name.
        relative: Its path; None if only the name is known: then all of that name count as taken.
    """

    time: Timestamp | None
    name: str
    relative: str | None

    def covers(self, file: _File) -> bool:
        """Tell whether the turn of a file is over."""
        mine = (self.time.epoch_ns if self.time else 0, self.name)
        if file.order[:2] != mine:
            return file.order[:2] < mine
        return self.relative is None or file.relative <= self.relative


@dataclass(slots=True)
class _Glob:
    """One look at a source: what matches, what was seen before, what there is to tell."""

    step: FetchStepFilesGlob
    ctx: FetchContext
    pattern: GlobPattern
    files: tuple[_File, ...]
    record: GlobRecord
    warnings: list[str]


def fetch_files_glob(
    step: FetchStepFilesGlob, state: SourceState | None, ctx: FetchContext
) -> Fetched | Unchanged:
    """Hand out the next file.

    Raises:
        NotFoundError: Nothing matches, and nothing was taken yet.
        BadInputError: The pattern is not one, or the event time cannot be found.
        TransportError: A folder or file may not be read.
    """
    pattern = GlobPattern.parse(step.path, ctx.workspace_root)
    files = _list(step, pattern, ctx)
    glob = _Glob(step, ctx, pattern, files, GlobRecord.load(ctx.cache_dir, pattern), [])
    position = _locate(glob, state)
    if position is None and not files:
        exists = "" if pattern.base.is_dir() else ", which does not exist"
        raise NotFoundError(
            f"no file matches {step.path}: looked for {'/'.join(pattern.parts)} in {pattern.base}"
            f"{exists}",
            hint="relative paths start at the workspace root; ** reaches into sub-folders",
        )
    waiting = [file for file in files if position is None or not position.covers(file)]
    passed = [file for file in files if position is not None and position.covers(file)]
    late = _tell_about_passed(glob, passed, state)
    _remember(glob, waiting, passed, late)
    if late and ctx.take_late and not ctx.is_snapshot and state is not None:
        return _hand_out_late(glob, late, waiting, state)
    if waiting:
        return _hand_out(glob, waiting)
    was = "was" if len(late) == 1 else "were"
    more = f"; {len(late)} came too late and {was} not taken" if late else ""
    last = state.value if state else ""
    return Unchanged(f"no file after {last} matches {step.path}{more}", tuple(glob.warnings))


def check_order(step: FetchStepFilesGlob) -> None:
    """Refuse an order that no files can be put into.

    Raises:
        BadInputError: It is by event times that the files do not have.
    """
    if step.order is SourceOrdering.BY_EVENT_TIME and isinstance(
        step.event_time, EventTimeSourceFromSystemTime
    ):
        raise BadInputError(
            f"{step.path}: order ByEventTime needs event times of the files, not the system time",
            reason="event_time",
            hint="use order ByName, or eventTime fromPath or fromMetadata",
        )


def _list(step: FetchStepFilesGlob, pattern: GlobPattern, ctx: FetchContext) -> tuple[_File, ...]:
    """List the files in their order."""
    check_order(step)
    by_time = step.order is SourceOrdering.BY_EVENT_TIME
    found = find_files(pattern)
    names = Counter(PurePosixPath(relative).name for relative in found)
    files = []
    for relative in found:
        path = pattern.base / relative
        name = path.name
        label = name if names[name] == 1 else relative if "/" in relative else f"./{relative}"
        try:
            fingerprint = Fingerprint.of(path)
        except OSError:  # gone since it was listed
            continue
        time = _time(step, path, relative, fingerprint, ctx) if by_time else None
        files.append(_File(relative, name, label, time, fingerprint))
    return tuple(sorted(files, key=lambda file: file.order))


def _time(
    step: FetchStepFilesGlob, path: Path, relative: str, fingerprint: Fingerprint, ctx: FetchContext
) -> Timestamp | None:
    """Find the event time of a file: `fromPath` tries its name first, then its path."""
    return event_time(
        step.event_time,
        paths=(path.name, relative),
        shown=str(display_path(path, ctx.workspace_root)),
        modified=file_time(fingerprint.mtime_ns),
        ctx=ctx,
    )


def _locate(glob: _Glob, state: SourceState | None) -> _Position | None:
    """Find the place in the order that a source state means; None for the very beginning."""
    if state is None:
        return None
    time, label = _split(state.value)
    known = any(file.label == label for file in glob.files)
    if state.kind != ETAG or (not known and _looks_like_http(state.value)):
        glob.warnings.append(
            f"the source state {state.kind} {state.value!r} is not one of FilesGlob; "
            f"all files of {glob.step.path} are taken"
        )
        return None
    relative = _relative(glob, state.value, label)
    if glob.step.order is not SourceOrdering.BY_EVENT_TIME:
        return _Position(None, PurePosixPath(label).name, relative)
    if time is None:
        # Taken while the order was ByName: the file itself has to tell its time.
        time = next((file.time for file in glob.files if file.label == label), None)
    if time is None:
        raise BadInputError(
            f"{glob.step.path}: cannot go on by event time after the file {label}: it is gone, "
            "and its event time was not recorded",
            reason="source_state",
            hint="put the file back, or use order: ByName",
        )
    return _Position(time, PurePosixPath(label).name, relative)


def _split(value: str) -> tuple[Timestamp | None, str]:
    """Split a source state into event time, if it has one, and name or path."""
    first, blank, rest = value.partition(" ")
    if blank and first.endswith("Z"):
        try:
            return Timestamp.parse(first), rest
        except BadInputError:
            pass
    return None, value


def _looks_like_http(value: str) -> bool:
    """Tell whether a state was written by a URL source that this dataset had before."""
    return value.startswith(('"', 'W/"'))


def _relative(glob: _Glob, value: str, label: str) -> str | None:
    """Find the path of the last file taken, if it can be told."""
    if "/" in label:
        return label.removeprefix("./")
    if (handed_out := glob.record.handed_out(value)) is not None:
        return handed_out
    same = [file.relative for file in glob.files if file.name == label]
    if len(same) > 1:
        glob.warnings.append(
            f"{glob.step.path}: {label} was taken while it was the only file of that name; "
            f"now there are {_names(same)}, and it cannot be told which one it was: none is taken"
        )
        return None
    return None


def _tell_about_passed(
    glob: _Glob, passed: Sequence[_File], state: SourceState | None
) -> list[_File]:
    """Warn of files that came late or changed after their turn; return the late ones."""
    if not passed or state is None:
        return []
    if not glob.record.existed:
        glob.warnings.append(
            f"{glob.step.path}: the record of files seen so far is not there (cleared cache, or "
            f"another machine): the files up to {state.value} are taken for known"
        )
        return []
    late = [file for file in passed if file.relative not in glob.record.files]
    changed = [
        file
        for file in passed
        if (before := glob.record.files.get(file.relative)) is not None
        and (before.size, before.mtime_ns) != (file.print.size, file.print.mtime_ns)
    ]
    if late and (glob.ctx.is_snapshot or not glob.ctx.take_late):
        its, are, it = ("its", "is", "it") if len(late) == 1 else ("their", "are", "them")
        way = (
            "an older snapshot would undo the newer one"
            if glob.ctx.is_snapshot
            else f"odf pull --take-late-files takes {it}"
        )
        glob.warnings.append(
            f"{glob.step.path}: {_names([f.relative for f in late])} came after {its} turn (the "
            f"last file taken is {state.value}) and {are} not taken; {way}"
        )
    if changed:
        when = "it was" if len(changed) == 1 else "they were"
        glob.warnings.append(
            f"{glob.step.path}: {_names([f.relative for f in changed])} changed after {when} "
            "taken; the change is not taken; publish changes as new files"
        )
    return late


def _remember(
    glob: _Glob, waiting: Sequence[_File], passed: Sequence[_File], late: Sequence[_File]
) -> None:
    """Write down what was seen: late files stay unknown, so that they are told of every time."""
    known = glob.record.files
    seen = {file.relative: file.seen() for file in passed if file.relative not in known}
    for file in late:
        del seen[file.relative]
    seen |= {file.relative: file.seen() for file in waiting}
    if waiting:
        chosen = waiting[0]
        for relative, before in known.items():
            if before.state == chosen.state and relative not in seen:
                seen[relative] = SeenFile(before.size, before.mtime_ns)
        seen[chosen.relative] = chosen.seen(chosen.state)
    glob.record.update(seen)


def _hand_out_late(
    glob: _Glob, late: Sequence[_File], waiting: Sequence[_File], state: SourceState
) -> Fetched:
    """Hand out a file whose turn is over; the place in the order stays what it is."""
    found = _fetched(glob, late[0])
    return replace(
        found,
        source_state=state,
        has_more=len(late) > 1 or bool(waiting),
        receipt=_Late(glob.record, late[0]),
    )


@dataclass(frozen=True, slots=True)
class _Late:
    """Remembers a late file once it is committed: until then it stays unknown (`Receipt`)."""

    record: GlobRecord
    file: _File

    def acknowledge(self) -> tuple[str, ...]:
        self.record.update({self.file.relative: self.file.seen()})
        return ()

    def close(self) -> None:
        """Do nothing: there is nothing open."""


def _hand_out(glob: _Glob, waiting: Sequence[_File]) -> Fetched:
    file = waiting[0]
    return replace(
        _fetched(glob, file), source_state=etag_state(file.state), has_more=len(waiting) > 1
    )


def _fetched(glob: _Glob, file: _File) -> Fetched:
    path = glob.pattern.base / file.relative
    shown = str(display_path(path, glob.ctx.workspace_root))
    look_at(path, shown, source=glob.step.path)
    return Fetched(
        path=path,
        name=shown,
        owned=False,
        source_state=None,
        event_time=_time(glob.step, path, file.relative, file.print, glob.ctx),
        has_more=False,
        size=file.print.size,
        fingerprint=file.print,
        warnings=tuple(glob.warnings),
    )


def _names(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more

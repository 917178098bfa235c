"""What the fetch phase is given and what it hands back (ingest.md §1 and §2)."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from odf import limits
from odf.clock import Clock
from odf.errors import BadInputError
from odf.metadata.model import SourceState, Timestamp
from odf.runtimes.source_container import ContainerRunner

SOURCE_NAME = "default"
"""Name of the one polling source of a dataset in its source states."""

ETAG = "odf/etag"
"""Kind of a source state that is an opaque text, given by a server or made from a file name."""

LAST_MODIFIED = "odf/last-modified"
"""Kind of a source state that is a time, RFC 3339 in UTC."""


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class FetchContext:
    """Where, when and with whose leave a source is fetched.

    Attributes:
        workspace_root: The folder that relative paths are relative to.
        cache_dir: A folder of this dataset's own, for downloads and for the record of the
            files that a glob has matched. Made when needed; everything in it can be rebuilt.
        clock: Tells the time for `Retry-After` dates.
        system_time: The time of this iteration, for `fromSystemTime`.
        environment: The variables that templates may read: only names that were consented to.
        report: Takes lines of progress.
        is_first: Nothing of this source was ingested into the dataset yet.
        proxies: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` of the caller, in either
            case. Templates cannot read them. Where a name is missing here, `environment` is asked.
        sleep: Waits for so many seconds between attempts.
        max_size: Bytes that a download may have.
        dataset: What tells this dataset from all others; names sessions and containers.
        changed: Called as soon as it is known that the source has something new, which may then
            take long to arrive: what will be needed can be made ready meanwhile.
        taken: How many files, or batches, this pull took from the source already.
        take_late: Take files that came after their turn, too (`FilesGlob`).
        reread_reorganised: Read blocks of a chain again that was re-organised (`EthereumLogs`).
        earlier: Gives the states that this source had before, the newest first.
        is_snapshot: Each file is a whole state in place of the one before: late ones are never
            taken, since they would undo newer ones.
        containers: Runs the container of a source; None where none may be run.
        ethereum_nodes: Addresses of nodes by the number of their chain, for sources without one.
    """

    workspace_root: Path
    cache_dir: Path
    clock: Clock
    system_time: Timestamp
    environment: Mapping[str, str]
    report: Callable[[str], None]
    is_first: bool
    proxies: Mapping[str, str] = field(default_factory=dict)
    sleep: Callable[[float], None] = time.sleep
    max_size: int = limits.MAX_DOWNLOAD_SIZE
    dataset: str = ""
    changed: Callable[[], None] = _nothing
    taken: int = 0
    take_late: bool = False
    reread_reorganised: bool = False
    earlier: Callable[[], Iterable[SourceState]] = tuple
    is_snapshot: bool = False
    containers: ContainerRunner | None = None
    ethereum_nodes: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells that a local file is still the one that was seen.

    Attributes:
        device: Number of the file system.
        inode: Number of the file on it.
        size: Bytes.
        mtime_ns: Modification time in nanoseconds since the epoch.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> "Fingerprint":
        """Take the fingerprint of the file at a path; `OSError` if it is not there."""
        stat = path.stat()
        return cls(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Unchanged:
    """There is nothing new at the source.

    Attributes:
        reason: How that was seen, for a person.
        warnings: What a person should know all the same, for example files that came late.
    """

    reason: str
    warnings: tuple[str, ...] = ()


class Receipt(Protocol):
    """The connection to a source that wants to be told when its data is safe."""

    def acknowledge(self) -> tuple[str, ...]:
        """Say that everything that was fetched is committed; return what a person should know."""
        ...

    def close(self) -> None:
        """Let go of the source; what was not acknowledged, it gives again."""
        ...


@dataclass(frozen=True, slots=True)
class Fetched:
    """Source data on this machine, ready to be prepared and read.

    Attributes:
        path: The file.
        name: What messages call it: a path, or a URL without secrets.
        owned: It is a download that the caller may move or delete; otherwise the user's own file.
        source_state: What to remember with the data, or None if the source gives nothing to go by.
        event_time: Event time of rows that have none of their own; None means the system time.
        has_more: Fetching again with the new state gives more.
        size: Bytes.
        fingerprint: The user's file as it was when it was found; None for a download.
        warnings: What a person should know.
        complete: The source vouched for the end of the data. False for a download that came
            without a length: a cut connection looks the same as the end, so such a body must not
            be taken for a whole snapshot.
        is_empty: There are no rows in it: only the source state is new.
        is_batch: With `has_more`: the next one is another part of the same whole. False where each
            one is a whole of its own, as files are.
        receipt: Whom to tell once the data is committed; None for sources that do not ask.
    """

    path: Path
    name: str
    owned: bool
    source_state: SourceState | None
    event_time: Timestamp | None
    has_more: bool
    size: int
    fingerprint: Fingerprint | None = None
    warnings: tuple[str, ...] = ()
    complete: bool = True
    is_empty: bool = False
    is_batch: bool = False
    receipt: Receipt | None = None

    def settle(self) -> tuple[str, ...]:
        """Tell the source that its data is committed; return what a person should know."""
        return self.receipt.acknowledge() if self.receipt is not None else ()

    def discard(self) -> None:
        """Let go of the source and of what was downloaded, whatever became of it."""
        if self.receipt is not None:
            self.receipt.close()
        if self.owned:
            self.path.unlink(missing_ok=True)

    def check_unmodified(self) -> None:
        """Make sure that the user's file did not change since it was fetched.

        To be called when reading is over and before anything is committed.

        Raises:
            BadInputError: The file was changed, replaced or removed meanwhile.
        """
        if self.fingerprint is None:
            return
        try:
            found = Fingerprint.of(self.path)
        except OSError:
            raise self._changed("it was removed") from None
        if found == self.fingerprint:
            return
        if found.size != self.fingerprint.size:
            raise self._changed(f"it had {self.fingerprint.size} bytes, now {found.size}")
        raise self._changed("it was written to or replaced")

    def _changed(self, how: str) -> BadInputError:
        return BadInputError(
            f"{self.name}: the file changed while it was read: {how}; nothing was committed",
            reason="source_changed",
            hint="pull again once the file is complete; publish files by renaming them into place",
        )


def etag_state(value: str) -> SourceState:
    """Make a source state out of an opaque text."""
    return SourceState(source_name=SOURCE_NAME, kind=ETAG, value=value)


def last_modified_state(time: Timestamp) -> SourceState:
    """Make a source state out of a modification time."""
    return SourceState(source_name=SOURCE_NAME, kind=LAST_MODIFIED, value=str(time))


def modified_in(state: SourceState) -> Timestamp | None:
    """Read the modification time out of a source state; None if it holds none."""
    if state.kind != LAST_MODIFIED:
        return None
    try:
        return Timestamp.parse(state.value)
    except BadInputError:
        return None


def not_understood(shown: str, state: SourceState) -> str:
    """Word the warning about a state that is as good as none (ingest.md §2)."""
    return (
        f"{shown}: the source state {state.kind} {state.value!r} is not understood; "
        "the source is taken whole"
    )

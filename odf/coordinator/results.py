"""What use cases hand back: plain results that a command renders as text or JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from odf.errors import OdfError
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import DatasetKind, MetadataEvent, Timestamp
from odf.metadata.multiformats import Multihash
from odf.repo.update import SetAside


class PullStatus(StrEnum):
    """How a pull of one dataset ended."""

    UPDATED = "updated"
    UP_TO_DATE = "up-to-date"
    FAILED = "failed"
    SKIPPED = "skipped"


class AddAction(StrEnum):
    """What `odf add` did with one manifest."""

    ADDED = "added"
    SKIPPED = "skipped"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class EventChange:
    """One event that is appended to a chain.

    Attributes:
        event: The event.
        before: What it takes the place of, or ends; None if it says something new.
    """

    event: MetadataEvent
    before: MetadataEvent | None = None


@dataclass(frozen=True, slots=True)
class DeletedDataset:
    """A dataset that is taken away, with what is lost by it.

    Attributes:
        alias: Its name.
        id: Its identity.
        kind: Root or derivative; None if it cannot be read.
        blocks: Number of its blocks.
        records: Number of rows in all its slices.
        size: Bytes of its slices and checkpoints.
        elsewhere: Where it was pulled from or pushed to, and may still be.
        key: Whether its private key is here; the key stays.
        problem: Why it could not be read, if so.
    """

    alias: DatasetAlias
    id: DatasetID
    kind: DatasetKind | None
    blocks: int = 0
    records: int = 0
    size: int = 0
    elsewhere: Sequence[str] = ()
    key: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteReport:
    """All datasets that one `odf delete` took away, derivatives before their inputs."""

    datasets: Sequence[DeletedDataset]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class AddedDataset:
    """What became of one manifest.

    Attributes:
        alias: The dataset's name in the workspace.
        id: Its identity; of a dataset that a dry run would make, one that is never used.
        kind: Root or derivative.
        head: Its head after the manifest's events.
        blocks: Number of blocks written, the seed included.
        query_class: What kind of query a derivative runs, in words; None for roots.
        warnings: What a person should know although nothing is wrong.
        action: What was done.
        changes: The events that were appended, the seed left out.
        lost: The dataset that was replaced.
    """

    alias: DatasetAlias
    id: DatasetID
    kind: DatasetKind
    head: Multihash
    blocks: int
    query_class: str | None = None
    warnings: Sequence[str] = ()
    action: AddAction = AddAction.ADDED
    changes: Sequence[EventChange] = ()
    lost: DeletedDataset | None = None


@dataclass(frozen=True, slots=True)
class AddReport:
    """What one `odf add` did, in the order in which it was done, inputs first.

    Attributes:
        added: One entry for each manifest.
        dry_run: Nothing was written: this is what would be done.
    """

    added: Sequence[AddedDataset]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PulledDataset:
    """How the pull of one dataset went.

    Attributes:
        name: The dataset's alias, or the remote reference that was asked for.
        id: Its identity; None when it could not be found.
        kind: `root`, `derivative` or `remote`.
        status: How it ended.
        old_head: Head before; None for a dataset that was not here.
        new_head: Head after.
        blocks: Blocks that were added.
        records: Rows that were added, by operation (`+A`, `-R`, `-C`, `+C`); only those that occur.
        watermark: The dataset's watermark after.
        warnings: What a person should know although it worked.
        error: Why it failed; None unless `status` is FAILED.
        reason: Why nothing was done, for UP_TO_DATE and SKIPPED.
        seconds: Wall time that it took.
        set_aside: Rows that could not be read, and where they are.
    """

    name: str
    id: DatasetID | None
    kind: str
    status: PullStatus
    old_head: Multihash | None = None
    new_head: Multihash | None = None
    blocks: int = 0
    records: Mapping[str, int] = field(default_factory=dict)
    watermark: Timestamp | None = None
    warnings: Sequence[str] = ()
    error: OdfError | None = None
    reason: str | None = None
    seconds: float = 0.0
    set_aside: Sequence[SetAside] = ()


@dataclass(frozen=True, slots=True)
class PullReport:
    """The pulls of one command, in the order in which they ended."""

    datasets: Sequence[PulledDataset]


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """What became of one file that was pushed into a dataset.

    Attributes:
        name: The file as it was named; `-` for standard input.
        status: `updated`, `up-to-date`, `failed`, or `skipped` behind one that failed.
        head: The dataset's head after it.
        blocks: Blocks that were added.
        records: Rows that were added, by operation; only those that occur.
        warnings: What a person should know although it worked.
        reason: Why nothing was done.
        error: Why it failed; None unless `status` is FAILED.
        set_aside: Rows that could not be read, and where they are.
    """

    name: str
    status: PullStatus
    head: Multihash | None = None
    blocks: int = 0
    records: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    reason: str | None = None
    error: OdfError | None = None
    set_aside: Sequence[SetAside] = ()


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What one `odf ingest` did.

    Attributes:
        name: The dataset's alias.
        id: Its identity.
        source: The push source whose definition was used.
        old_head: Head before.
        new_head: Head after.
        watermark: The dataset's watermark after.
        files: One entry for each file, in the order given.
        seconds: Wall time that it took.
    """

    name: str
    id: DatasetID
    source: str
    old_head: Multihash | None
    new_head: Multihash | None
    watermark: Timestamp | None
    files: Sequence[IngestedFile]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DroppedDataset:
    """What dropping the data of one dataset freed.

    Attributes:
        name: The dataset's alias.
        id: Its identity.
        slices: Slices that are gone.
        size: Their bytes.
    """

    name: str
    id: DatasetID
    slices: int
    size: int


@dataclass(frozen=True, slots=True)
class VerifyFinding:
    """One thing that is wrong, or that could not be checked.

    Attributes:
        severity: `error`, `warning` or `unchecked`.
        message: What is wrong in words, with wanted and got.
        block: Hash of the block it was found at.
        sequence_number: That block's number.
        object: The object concerned, as its path in the dataset (`data/f1620…`).
    """

    severity: str
    message: str
    block: Multihash | None = None
    sequence_number: int | None = None
    object: str | None = None


@dataclass(frozen=True, slots=True)
class VerifiedDataset:
    """What the verification of one dataset found.

    Attributes:
        name: The dataset's alias.
        id: Its identity.
        valid: No finding of severity `error`.
        blocks: Blocks that were checked.
        objects: Data slices and checkpoints that were hashed.
        replayed: Transform steps that were run again.
        findings: What was found.
        error: What ended the verification early, if anything did; findings before it stand.
        seconds: Wall time that it took.
    """

    name: str
    id: DatasetID | None
    valid: bool
    blocks: int = 0
    objects: int = 0
    replayed: int = 0
    findings: Sequence[VerifyFinding] = ()
    error: OdfError | None = None
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether all was checked: a valid dataset that is not complete may still be wrong."""
        return self.error is None and all(
            finding.severity != "unchecked" for finding in self.findings
        )


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The verifications of one command."""

    datasets: Sequence[VerifiedDataset]


@dataclass(frozen=True, slots=True)
class PushedDataset:
    """How the push of one dataset went.

    Attributes:
        name: The dataset's alias.
        id: Its identity.
        url: Where it was pushed to.
        status: `updated`, `up-to-date` or `failed`.
        blocks: Blocks that travelled.
        objects: Data slices and checkpoints that travelled.
        bytes: Bytes that travelled.
        backup: The reference over there that keeps a history which was overwritten.
        error: Why it failed.
    """

    name: str
    id: DatasetID | None
    url: str
    status: PullStatus
    blocks: int = 0
    objects: int = 0
    bytes: int = 0
    backup: str | None = None
    error: OdfError | None = None


@dataclass(frozen=True, slots=True)
class PushReport:
    """The pushes of one command."""

    datasets: Sequence[PushedDataset]


@dataclass(frozen=True, slots=True)
class ListedDataset:
    """One line of `odf list`.

    Attributes:
        alias: Its name.
        id: Its identity.
        kind: Root or derivative; None when the chain could not be read.
        origin: `local`, or the reference that it was pulled from; `unknown` when the record of it
            cannot be read.
        head: Its head.
        blocks: Number of blocks.
        records: Number of rows in all its slices.
        size: Bytes of its data slices.
        last_update: System time of the last block with data.
        watermark: Its watermark.
        problem: What could not be read or understood, if anything.
    """

    alias: DatasetAlias
    id: DatasetID
    kind: DatasetKind | None
    origin: str
    head: Multihash | None
    blocks: int = 0
    records: int = 0
    size: int = 0
    last_update: Timestamp | None = None
    watermark: Timestamp | None = None
    problem: str | None = None

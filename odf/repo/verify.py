"""Checking that a dataset is what its chain says (transform-and-verify.md §5, parts 1 and 2).

Everything is read, nothing remembered is used, and a finding does not end the check: all that is
wrong is reported in one run, each with its place, what was wanted and what was there.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.clock import SystemClock
from odf.errors import IntegrityError, NotFoundError, OdfError
from odf.limits import MAX_BLOCK_SIZE, MAX_CHAIN_BLOCKS, MAX_CLOCK_SKEW_SECONDS
from odf.metadata.chain import EMPTY_STATE, ChainState, apply
from odf.metadata.flatbuffers import decode_block
from odf.metadata.model import (
    AddData,
    DataSlice,
    ExecuteTransform,
    MetadataBlock,
    SetDataSchema,
    Timestamp,
)
from odf.metadata.multiformats import Multihash
from odf.metadata.rules import broken_rules, violation_error
from odf.repo.chain_reader import ChainReader
from odf.repo.layout import DatasetStores
from odf.repo.objects import ObjectRef, difference, local_file, objects_of, problem_with

if TYPE_CHECKING:  # listing needs no Arrow
    from odf.data.slices import SliceInfo

_SKEW_NS: Final = MAX_CLOCK_SKEW_SECONDS * 1_000_000_000
_FOUND_OTHERWISE: Final = ("sequence-start", "sequence-step", "opaque-chain", "unknown-event")
"""Rules that need not be asked again: the walk checks numbers, opaque chains have one finding."""

_FORGERIES: Final = (
    "event-fits-kind",
    "input-first",
    "input-offsets-ordered",
    "offset-first",
    "transform-not-self",
)
"""Rules that other implementations do not check but keep; breaking them hides rows from replay."""


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Something is not what the chain says."""

    WARNING = "warning"
    """Something is against rules of ours that other implementations do not have."""

    UNCHECKED = "unchecked"
    """Something could not be checked."""


@dataclass(frozen=True, slots=True)
class IntegrityFinding:
    """One thing that is wrong, or that could not be checked.

    Attributes:
        severity: How bad it is.
        message: What is wrong, with wanted and got.
        block: The block it was found at; None for the dataset as a whole.
        sequence_number: That block's number.
        object: The object concerned, as its path in the dataset (`data/f1620…`).
    """

    severity: Severity
    message: str
    block: Multihash | None = None
    sequence_number: int | None = None
    object: str | None = None


@dataclass(frozen=True, slots=True)
class IntegrityReport:
    """What a check found.

    Attributes:
        head: The head that was checked.
        blocks: Blocks that were read.
        objects: Slices and checkpoints that were hashed.
        findings: What was found, oldest block first.
    """

    head: Multihash | None
    blocks: int
    objects: int
    findings: tuple[IntegrityFinding, ...]

    @property
    def valid(self) -> bool:
        """Whether nothing is wrong; warnings and what was not checked do not count."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _Link:
    """A block on the way down: its name, its content if that could be read, what is wrong.

    Attributes:
        hash: The name under which the block above it (or the head) refers to it.
        block: The block; None if it cannot be read.
        problems: What is wrong with its bytes and its links.
    """

    hash: Multihash
    block: MetadataBlock | None
    problems: tuple[str, ...]


def verify_integrity(dataset: ChainReader, *, now: Timestamp | None = None) -> IntegrityReport:
    """Check every block and every object of a dataset.

    Args:
        dataset: The dataset.
        now: The current time, for blocks that claim to be from the future; the machine's if not
            given.

    Raises:
        NotFoundError: There is no dataset.
        AuthError, TransportError: It could not be read.
    """
    try:
        head = dataset.head()
    except IntegrityError as error:
        finding = IntegrityFinding(Severity.ERROR, error.message, object="refs/head")
        return IntegrityReport(None, 0, 0, (finding,))
    if head is None:
        raise NotFoundError(f"{dataset.url}: there is no dataset")
    links = list(_links(dataset, head))
    links.reverse()
    with tempfile.TemporaryDirectory(prefix="odf-verify-") as scratch:
        now = now or Timestamp.from_datetime(SystemClock().now())
        check = _Check(dataset.stores, now, Path(scratch))
        check.run(links)
    return IntegrityReport(head, len(links), check.objects, tuple(check.findings))


def _links(reader: ChainReader, head: Multihash) -> Iterator[_Link]:
    """Walk down as far as blocks can be read, also through damaged ones, and note what is wrong.

    A block whose bytes do not hash to its name can often still be decoded; where it points is
    followed, since what is below may be sound.
    """
    at: Multihash | None = head
    above: int | None = None
    seen: set[Multihash] = set()
    while at is not None:
        seen.add(at)
        block, problems = _read(reader, at)
        if block is not None:
            problems += _number_problems(block, above)
        if block is not None and block.prev_block_hash in seen:
            # Only a damaged block can point back up: hashes cannot be foreseen.
            problems.append(f"points to {block.prev_block_hash}, which is above it")
            yield _Link(at, block, tuple(problems))
            return
        yield _Link(at, block, tuple(problems))
        if block is None or len(seen) > MAX_CHAIN_BLOCKS:
            return
        at, above = block.prev_block_hash, block.sequence_number


def _read(reader: ChainReader, at: Multihash) -> tuple[MetadataBlock | None, list[str]]:
    try:
        data = reader.stores.blocks.get(str(at), MAX_BLOCK_SIZE)
    except NotFoundError:
        return None, ["the block is missing"]
    except IntegrityError as error:
        return None, [f"the block is corrupt: {error.message}"]
    problems: list[str] = []
    got = Multihash.sha3_256(data)
    if got != at:
        problems.append(f"the block is corrupt: wanted bytes that hash to {at}, got {got}")
    try:
        return decode_block(data), problems
    except OdfError as error:
        return None, [*problems, f"the block cannot be read: {error.message}"]


def _number_problems(block: MetadataBlock, above: int | None) -> list[str]:
    number = block.sequence_number
    problems: list[str] = []
    if above is not None and number != above - 1:
        problems.append(f"wrong sequence number: wanted {above - 1}, got {number}")
    if (number == 0) != (block.prev_block_hash is None):
        before = "no block" if block.prev_block_hash is None else "a block"
        problems.append(f"sequence number {number} with {before} before it")
    return problems


class _Check:
    """The way up: the fold over the blocks, with everything that can be asked on the way.

    Args:
        stores: The dataset.
        now: The current time.
        scratch: Where copies of remote objects may be put.
    """

    def __init__(self, stores: DatasetStores, now: Timestamp, scratch: Path) -> None:
        self._stores = stores
        self._now = now
        self._scratch = scratch
        self._state = EMPTY_STATE
        self._sound: set[tuple[str, Multihash]] = set()
        self._link: _Link | None = None
        self.objects = 0
        self.findings: list[IntegrityFinding] = []

    def run(self, links: list[_Link]) -> None:
        """Check the blocks, oldest first."""
        lowest = links[0].block
        complete = lowest is not None and lowest.prev_block_hash is None
        for link in links:
            self._link = link
            for problem in link.problems:
                self._found(Severity.ERROR, problem)
            if link.block is None:
                continue
            if complete:
                self._check_rules(link.block)
            self._check_time(link.block)
            state = self._state
            self._state = apply(state, link.block, link.hash)
            self._check_event(link.block, self._state, complete=complete)
        self._link = None
        if not complete:
            self._found(
                Severity.UNCHECKED,
                "the rules of chains could not be checked: the history does not reach the seed",
            )
        if self._state.opaque:
            self._found(Severity.UNCHECKED, f"not all could be checked: {self._state.opaque}")

    def _found(self, severity: Severity, message: str, ref: ObjectRef | None = None) -> None:
        link = self._link
        number = link.block.sequence_number if link and link.block else None
        self.findings.append(
            IntegrityFinding(
                severity,
                message,
                link.hash if link else None,
                number,
                ref.path if ref else None,
            )
        )

    def _check_rules(self, block: MetadataBlock) -> None:
        for rule, violation in broken_rules(self._state, block):
            if rule.name not in _FOUND_OTHERWISE:
                harmless = rule.ours and rule.name not in _FORGERIES
                severity = Severity.WARNING if harmless else Severity.ERROR
                self._found(severity, violation_error(rule, block, violation).message)

    def _check_time(self, block: MetadataBlock) -> None:
        if block.system_time.epoch_ns > self._now.epoch_ns + _SKEW_NS:
            self._found(
                Severity.ERROR,
                f"is from the future: made {block.system_time}, now it is {self._now}",
            )

    def _check_event(self, block: MetadataBlock, state: ChainState, *, complete: bool) -> None:
        event = block.event
        for ref in objects_of(event):
            if ref.kind == "data" and isinstance(event, AddData | ExecuteTransform):
                if event.new_data is not None:
                    known = state if complete else None
                    self._check_slice(ref, event.new_data, block.system_time, known)
            else:
                self._check_object(ref)

    def _check_object(self, ref: ObjectRef) -> None:
        """Hash an object, once however often it is named."""
        if (ref.kind, ref.hash) in self._sound:
            return
        self.objects += 1
        problem = problem_with(self._stores.objects(ref.kind), ref)
        if problem is None:
            self._sound.add((ref.kind, ref.hash))
        else:
            self._found_corrupt(ref, problem)

    def _found_corrupt(self, ref: ObjectRef, problem: str) -> None:
        what = "the slice" if ref.kind == "data" else "the checkpoint"
        said = "is missing" if problem == "missing" else f"is corrupt: {problem}"
        self._found(Severity.ERROR, f"{what} {said}", ref)

    def _check_slice(
        self, ref: ObjectRef, recorded: DataSlice, time: Timestamp, state: ChainState | None
    ) -> None:
        """Compare what a slice holds with what its block says about it."""
        from odf.data.slices import inspect_slice  # noqa: PLC0415 - listing needs no Arrow

        vocab = (state or EMPTY_STATE).vocab
        self.objects += (ref.kind, ref.hash) not in self._sound
        try:
            # One pass gives the rows and the hash of the bytes.
            with local_file(self._stores.data, ref, self._scratch) as path:
                info = inspect_slice(path, vocab)
            problem = difference(ref, info.physical_hash, info.size)
        except OdfError as error:
            problem = problem_with(self._stores.data, ref)
            if problem is None:
                self._found(Severity.ERROR, f"the slice cannot be read: {error.message}", ref)
                return
        if problem is not None:
            self._found_corrupt(ref, problem)
            return
        self._sound.add((ref.kind, ref.hash))
        interval = recorded.offset_interval
        compared = (
            ("logical hash", recorded.logical_hash, info.logical_hash),
            ("first offset", interval.start, info.offset_start),
            ("last offset", interval.end, info.offset_end),
            ("number of rows", recorded.num_records, info.num_records),
        )
        for what, wanted, got in compared:
            if wanted != got:
                self._found(Severity.ERROR, f"wrong {what}: wanted {wanted}, got {got}", ref)
        self._check_system_times(ref, info, time)
        if state is None:
            return  # without the history nobody knows the vocabulary and the schema
        for problem in info.problems:
            self._found(Severity.ERROR, f"the slice breaks its contract: {problem}", ref)
        for problem in info.unpaired:
            self._found(Severity.WARNING, f"a correction is not whole: {problem}", ref)
        if state.schema is not None:
            self._check_schema(ref, state.schema, info.schema)

    def _check_system_times(self, ref: ObjectRef, info: "SliceInfo", time: Timestamp) -> None:
        """Rows carry the time of their block; those of a compacted slice may be older."""
        written = Timestamp.from_epoch_ms(time.epoch_ms)
        if info.max_system_time is not None and info.max_system_time > written:
            self._found(
                Severity.ERROR,
                f"rows are newer than their block: system time {info.max_system_time}, "
                f"wanted {written}",
                ref,
            )
        elif info.min_system_time is not None and info.min_system_time < written:
            self._found(
                Severity.WARNING,
                f"rows are older than their block: system time {info.min_system_time}, "
                f"the block's is {written}",
                ref,
            )

    def _check_schema(self, ref: ObjectRef, recorded: SetDataSchema, got: object) -> None:
        from odf.data.arrow_fields import fields_to_arrow_schema  # noqa: PLC0415 - see above
        from odf.data.slices import compare_schemas  # noqa: PLC0415 - see above
        from odf.metadata.arrow_schema import decode_schema  # noqa: PLC0415 - see above

        if recorded.schema is None:
            self._found(
                Severity.UNCHECKED, "the schema is in a form that this release cannot compare", ref
            )
            return
        try:
            wanted = fields_to_arrow_schema(decode_schema(recorded.schema))
        except OdfError as error:
            self._found(Severity.ERROR, f"the recorded schema cannot be read: {error.message}")
            return
        for problem in compare_schemas(wanted, got):
            self._found(Severity.ERROR, f"differs from the recorded schema: {problem}", ref)

"""Checking that a dataset is what its chain says (transform-and-verify.md §5, parts 1 and 2).

Everything is read, nothing remembered is used, and a finding does not end the check: all that is
wrong is reported in one run, each with its place, what was wanted and what was there.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.clock import SystemClock
from odf.data.readers import OWN_READER, SliceReader
from odf.errors import IntegrityError, NotFoundError, OdfError
from odf.limits import MAX_CLOCK_SKEW_SECONDS
from odf.metadata.chain import EMPTY_STATE, ChainState, apply, fold
from odf.metadata.identity import ReferenceName
from odf.metadata.model import (
    AddData,
    DatasetVocabulary,
    DataSlice,
    ExecuteTransform,
    MetadataBlock,
    SetDataSchema,
    Timestamp,
)
from odf.metadata.multiformats import Multihash
from odf.metadata.rules import broken_rules, violation_error
from odf.repo.chain_reader import ChainReader
from odf.repo.dropped import dropped_slices
from odf.repo.findings import IntegrityFinding, IntegrityReport, Severity
from odf.repo.layout import HEAD, DatasetStores
from odf.repo.links import Link, path_to, walk_down
from odf.repo.objects import ObjectRef, difference, local_file, objects_of, problem_with
from odf.repo.retractions import Retractions

__all__ = ["IntegrityFinding", "IntegrityReport", "Severity", "verify_integrity"]

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


def verify_integrity(
    dataset: ChainReader,
    *,
    now: Timestamp | None = None,
    blocks: range | None = None,
    reader: SliceReader = OWN_READER,
) -> IntegrityReport:
    """Check every block and every object of a dataset.

    Args:
        dataset: The dataset.
        now: The current time, for blocks that claim to be from the future; the machine's if not
            given.
        blocks: Sequence numbers of the blocks whose slices and checkpoints are checked; all if not
            given. The chain itself is always checked as a whole.
        reader: Reads its slices.

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
    with tempfile.TemporaryDirectory(prefix="odf-verify-") as scratch:
        now = now or Timestamp.from_datetime(SystemClock().now())
        check = _Check(dataset.stores, now, Path(scratch), blocks, reader)
        known: dict[Multihash, Link] = {}
        _check_history(dataset, head, check, known)
        for text in dataset.stores.refs.names():
            if text != HEAD:
                _check_reference(dataset, text, check, known)
    return IntegrityReport(head, len(known), check.objects, tuple(check.findings))


def _check_history(
    dataset: ChainReader, at: Multihash, check: "_Check", known: dict[Multihash, Link]
) -> None:
    """Check the blocks that lead to `at`, those that were not checked for another reference."""
    links = list(walk_down(dataset, at, known))
    links.reverse()
    lowest = links[0].block if links else None
    below = path_to(known, lowest.prev_block_hash if lowest else None)
    known.update((link.hash, link) for link in links)
    check.run(links, below)


def _check_reference(
    dataset: ChainReader, text: str, check: "_Check", known: dict[Multihash, Link]
) -> None:
    """Check a branch, tag or backup: it keeps what it reaches, so that has to be sound as well."""
    with check.at_reference(text):
        try:
            at = dataset.reference(ReferenceName(text))
        except OdfError as error:
            check.found(Severity.ERROR, error.message)
            return
        if at is not None:
            _check_history(dataset, at, check, known)


class _Check:
    """The way up: the fold over the blocks, with everything that can be asked on the way.

    Args:
        stores: The dataset.
        now: The current time.
        scratch: Where copies of remote objects may be put.
        blocks: Sequence numbers of the blocks whose objects are checked; None for all.
        reader: Reads slices.
    """

    def __init__(
        self,
        stores: DatasetStores,
        now: Timestamp,
        scratch: Path,
        blocks: range | None,
        reader: SliceReader,
    ) -> None:
        self._blocks = blocks
        self._reader = reader
        self._stores = stores
        self._now = now
        self._scratch = scratch
        self._state = EMPTY_STATE
        self._sound: set[tuple[str, Multihash]] = set()
        self._dropped = dropped_slices(stores)
        self._link: Link | None = None
        self._reference: str | None = None
        self._retractions = Retractions()
        self.objects = 0
        self.findings: list[IntegrityFinding] = []

    @contextlib.contextmanager
    def at_reference(self, name: str) -> Iterator[None]:
        """Name another reference than `head` in what is found meanwhile."""
        self._reference = f"refs/{name}"
        try:
            yield
        finally:
            self._reference = None

    def run(self, links: list[Link], below: list[Link]) -> None:
        """Check blocks, oldest first.

        Args:
            links: The blocks.
            below: Those that lead to the first of them, which were checked before.
        """
        if not links:
            return
        lowest = (below or links)[0].block
        complete = lowest is not None and lowest.prev_block_hash is None
        self._state = fold((link.hash, link.block) for link in below if link.block)
        for link in links:
            self._link = link
            for problem in link.problems:
                self.found(Severity.ERROR, problem)
            if below and link is links[0]:
                self._check_fork(link)
            if link.block is None:
                continue
            if complete:
                self._check_rules(link.block)
            self._check_time(link.block)
            self._state = apply(self._state, link.block, link.hash)
            self._check_event(link.block, self._state, complete=complete)
        self._link = None
        if self._reference is None:
            self._check_retractions()
        if not complete:
            self.found(
                Severity.UNCHECKED,
                "the rules of chains could not be checked: the history does not reach the seed",
            )
        if self._state.opaque:
            self.found(Severity.UNCHECKED, f"not all could be checked: {self._state.opaque}")

    def found(self, severity: Severity, message: str, ref: ObjectRef | None = None) -> None:
        """Note a finding at the block that is being looked at."""
        link = self._link
        number = link.block.sequence_number if link and link.block else None
        place = ref.path if ref else None
        if self._reference is not None:
            message = f"in the history of {self._reference}: {message}"
            place = place or self._reference
        self.findings.append(
            IntegrityFinding(severity, message, link.hash if link else None, number, place)
        )

    def _check_fork(self, link: Link) -> None:
        wanted = self._state.next_sequence_number
        if link.block is not None and link.block.sequence_number != wanted:
            got = link.block.sequence_number
            self.found(Severity.ERROR, f"wrong sequence number: wanted {wanted}, got {got}")

    def _check_rules(self, block: MetadataBlock) -> None:
        for rule, violation in broken_rules(self._state, block):
            if rule.name not in _FOUND_OTHERWISE:
                harmless = rule.ours and rule.name not in _FORGERIES
                severity = Severity.WARNING if harmless else Severity.ERROR
                self.found(severity, violation_error(rule, block, violation).message)

    def _check_time(self, block: MetadataBlock) -> None:
        if block.system_time.epoch_ns > self._now.epoch_ns + _SKEW_NS:
            self.found(
                Severity.ERROR,
                f"is from the future: made {block.system_time}, now it is {self._now}",
            )

    def _check_event(self, block: MetadataBlock, state: ChainState, *, complete: bool) -> None:
        if self._blocks is not None and block.sequence_number not in self._blocks:
            return
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
        if problem == "missing" and ref.kind == "data" and ref.hash in self._dropped:
            self.found(Severity.UNCHECKED, "its data was dropped", ref)
            return
        what = "the slice" if ref.kind == "data" else "the checkpoint"
        said = "is missing" if problem == "missing" else f"is corrupt: {problem}"
        self.found(Severity.ERROR, f"{what} {said}", ref)

    def _check_slice(
        self, ref: ObjectRef, recorded: DataSlice, time: Timestamp, state: ChainState | None
    ) -> None:
        """Compare what a slice holds with what its block says about it."""
        before = len(self.findings)
        info = self._inspected(ref, (state or EMPTY_STATE).vocab)
        if info is not None:
            self._check_description(ref, recorded, info)
            self._check_system_times(ref, info, time)
            if state is not None:  # or nobody knows the vocabulary and the schema
                self._check_contract(ref, state, info)
        if state is not None and self._reference is None and self._link is not None:
            wrong = any(found.severity is Severity.ERROR for found in self.findings[before:])
            self._retractions.note(self._link, ref, state, None if wrong else info)

    def _inspected(self, ref: ObjectRef, vocab: DatasetVocabulary) -> "SliceInfo | None":
        """Read a slice; None, after saying so, if it is not the file that the chain names."""
        self.objects += (ref.kind, ref.hash) not in self._sound
        try:
            # One pass gives the rows and the hash of the bytes.
            with local_file(self._stores.data, ref, self._scratch) as path:
                info = self._reader.inspect(path, vocab)
            problem = difference(ref, info.physical_hash, info.size)
        except OdfError as error:
            problem = problem_with(self._stores.data, ref)
            if problem is None:
                self.found(Severity.ERROR, f"the slice cannot be read: {error.message}", ref)
                return None
        if problem is not None:
            self._found_corrupt(ref, problem)
            return None
        self._sound.add((ref.kind, ref.hash))
        return info

    def _check_description(self, ref: ObjectRef, recorded: DataSlice, info: "SliceInfo") -> None:
        interval = recorded.offset_interval
        compared = (
            ("logical hash", recorded.logical_hash, info.logical_hash),
            ("first offset", interval.start, info.offset_start),
            ("last offset", interval.end, info.offset_end),
            ("number of rows", recorded.num_records, info.num_records),
        )
        for what, wanted, got in compared:
            if wanted != got:
                self.found(Severity.ERROR, f"wrong {what}: wanted {wanted}, got {got}", ref)

    def _check_contract(self, ref: ObjectRef, state: ChainState, info: "SliceInfo") -> None:
        for problem in info.problems:
            self.found(Severity.ERROR, f"the slice breaks its contract: {problem}", ref)
        for problem in info.unpaired:
            self.found(Severity.WARNING, f"a correction is not whole: {problem}", ref)
        if state.schema is not None:
            self._check_schema(ref, state.schema, info.schema)

    def _check_retractions(self) -> None:
        try:
            found = self._retractions.findings(self._stores, self._scratch, self._reader)
            for link, message in found:
                self._link = link
                self.found(Severity.WARNING, message)
        except OdfError as error:
            self.found(
                Severity.UNCHECKED,
                f"whether retractions are right could not be checked: {error.message}",
            )
        self._link = None

    def _check_system_times(self, ref: ObjectRef, info: "SliceInfo", time: Timestamp) -> None:
        """Rows carry the time of their block; those of a compacted slice may be older."""
        written = Timestamp.from_epoch_ms(time.epoch_ms)
        if info.max_system_time is not None and info.max_system_time > written:
            self.found(
                Severity.ERROR,
                f"rows are newer than their block: system time {info.max_system_time}, "
                f"wanted {written}",
                ref,
            )
        elif info.min_system_time is not None and info.min_system_time < written:
            self.found(
                Severity.WARNING,
                f"rows are older than their block: system time {info.min_system_time}, "
                f"the block's is {written}",
                ref,
            )

    def _check_schema(self, ref: ObjectRef, recorded: SetDataSchema, got: object) -> None:
        from odf.data.arrow_fields import (  # noqa: PLC0415 - listing needs no Arrow
            fields_to_arrow_schema,
        )
        from odf.data.slices import compare_schemas  # noqa: PLC0415 - see above
        from odf.metadata.arrow_schema import decode_schema  # noqa: PLC0415 - see above

        if recorded.schema is None:
            self.found(
                Severity.UNCHECKED, "the schema is in a form that this release cannot compare", ref
            )
            return
        try:
            wanted = fields_to_arrow_schema(decode_schema(recorded.schema))
        except OdfError as error:
            self.found(Severity.ERROR, f"the recorded schema cannot be read: {error.message}")
            return
        for problem in compare_schemas(wanted, got):
            self.found(Severity.ERROR, f"differs from the recorded schema: {problem}", ref)

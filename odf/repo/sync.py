"""Bringing a copy of a dataset up to date (sync-protocols.md §2, transform-and-verify.md §7).

The order is what makes it safe: compare the chains, check every new block against the rules, bring
the objects that are missing (hashed on the way), write the blocks as they came, move the head. An
interruption leaves objects that nothing refers to yet; the next run finds them and goes on.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from odf.errors import ConflictError, IntegrityError, NotFoundError, OdfError, RuleViolationError
from odf.limits import MAX_CLOCK_SKEW_SECONDS
from odf.metadata.chain import EMPTY_STATE, ChainState, apply
from odf.metadata.identity import DatasetID
from odf.metadata.model import MetadataBlock, Seed, Timestamp
from odf.metadata.multiformats import Multihash
from odf.metadata.rules import check_block
from odf.repo.chain_reader import ChainReader, decode
from odf.repo.dataset import Dataset
from odf.repo.errors import CorruptChainError, DivergedError
from odf.repo.layout import DatasetStores
from odf.repo.objects import ObjectRef, checked, objects_of, problem_with
from odf.repo.spool import BlockSpool

_SKEW_NS: Final = MAX_CLOCK_SKEW_SECONDS * 1_000_000_000


class Relation(StrEnum):
    """How the source's chain relates to the target's."""

    EQUAL = "equal"
    AHEAD = "ahead"
    BEHIND = "behind"
    DIVERGED = "diverged"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a transfer is.

    Attributes:
        objects_done: Slices and checkpoints that are at the target.
        objects_total: Those that the new blocks name.
        bytes_sent: Bytes that travelled so far.
    """

    objects_done: int
    objects_total: int
    bytes_sent: int


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What a transfer did.

    Attributes:
        relation: How the source related to the target before.
        old_head: The target's head before; None for a new dataset.
        new_head: The target's head after.
        blocks: Blocks that were added to the target's chain.
        objects: Slices and checkpoints that travelled.
        bytes: Bytes of these objects.
        backup: The reference that keeps the target's old history, if that was dropped.
    """

    relation: Relation
    old_head: Multihash | None
    new_head: Multihash
    blocks: int = 0
    objects: int = 0
    bytes: int = 0
    backup: str | None = None


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Where two chains part.

    Attributes:
        common: The newest block that both have.
        source_only: Blocks above it in the source.
        target_only: Blocks above it in the target.
    """

    common: Multihash | None
    source_only: int
    target_only: int

    @property
    def relation(self) -> Relation:
        """The same in one word."""
        if self.source_only and self.target_only:
            return Relation.DIVERGED
        if self.source_only:
            return Relation.AHEAD
        return Relation.BEHIND if self.target_only else Relation.EQUAL


@dataclass(frozen=True, slots=True)
class _NewObject:
    """An object that a new block names.

    Attributes:
        ref: The object.
        block: The block's hash.
        number: The block's sequence number.
    """

    ref: ObjectRef
    block: Multihash
    number: int


def sync(
    source: DatasetStores,
    target: Dataset,
    *,
    now: Timestamp,
    force: bool = False,
    expected_id: DatasetID | None = None,
    lock_timeout: float = 0.0,
    progress: Callable[[Progress], None] | None = None,
) -> SyncResult:
    """Make the target's chain the same as the source's.

    Args:
        source: Where the dataset comes from; it is only read.
        target: Where it goes; it need not exist yet.
        now: The current time; blocks from the future are refused.
        force: Whether a target with blocks of its own may lose them (they are kept under a backup
            reference).
        expected_id: The dataset that it must be.
        lock_timeout: Seconds to wait for another writer of the target.
        progress: Told after every object.

    Raises:
        NotFoundError: There is no dataset at the source.
        ConflictError: The target is ahead or diverged, or is another dataset.
        IntegrityError: The source is damaged, incomplete, or breaks the rules of chains.
        LockedError: Another process writes to the target.
        AuthError, TransportError: The source could not be read.
    """
    with target.lock(lock_timeout), closing(BlockSpool()) as spool:
        remote = _RemoteChain(source, target)
        old_head, new_head = target.head(), remote.head()
        if new_head is None:
            raise NotFoundError(f"{source.url}: there is no dataset")
        compared = _compare(remote.walk(new_head), target.blocks(old_head), spool)
        base = _base_state(target, compared.common, old_head)
        state, objects = _check(spool, base, remote.url, now)
        _check_identity(state, base, target, expected_id, remote.url)
        if compared.relation is Relation.EQUAL:
            return SyncResult(Relation.EQUAL, old_head, new_head)
        if compared.target_only and not force:
            raise _refusal(compared, remote.url, target)
        count, size = _bring_objects(objects, source, target.stores, progress)
        backup = target.keep_backup(old_head) if compared.target_only and old_head else None
        target.append_received(spool.oldest_first(), expected_head=old_head, state=state)
        return SyncResult(
            compared.relation, old_head, new_head, compared.source_only, count, size, backup
        )


class _RemoteChain(ChainReader):
    """A chain elsewhere, of which some blocks may be here already (an interrupted transfer)."""

    def __init__(self, stores: DatasetStores, here: ChainReader) -> None:
        super().__init__(stores)
        self._here = here

    def block_bytes(self, block_hash: Multihash) -> bytes:
        """Return a block, from here if possible; see `ChainReader.block_bytes`."""
        if self._here.stores.blocks.has(str(block_hash)):
            try:
                return self._here.block_bytes(block_hash)
            except (NotFoundError, IntegrityError):
                pass  # damaged here: the one from there will replace it
        return super().block_bytes(block_hash)


def _compare(
    theirs: Iterator[tuple[Multihash, MetadataBlock, bytes]],
    ours: Iterator[tuple[Multihash, MetadataBlock]],
    spool: BlockSpool,
) -> _Comparison:
    """Walk both chains down to the newest block that they share, and keep what is new.

    Sequence numbers say which side to walk, so no more is read than the difference.
    """
    there, here = next(theirs, None), next(ours, None)
    source_only = target_only = 0
    while there and (here is None or there[0] != here[0]):
        their_number = there[1].sequence_number
        our_number = here[1].sequence_number if here else -1
        if their_number >= our_number:
            spool.add(there[0], there[2])
            source_only += 1
            there = next(theirs, None)
        if our_number >= their_number:
            target_only += 1
            here = next(ours, None)
    if there is None:
        target_only += sum(1 for _ in ours) + (here is not None)
    return _Comparison(there[0] if there else None, source_only, target_only)


def _base_state(
    target: Dataset, common: Multihash | None, old_head: Multihash | None
) -> ChainState:
    """Return the state that the new blocks build on."""
    if common is None:
        return EMPTY_STATE
    return target.state() if common == old_head else target.state_at(common)


def _check(
    spool: BlockSpool, state: ChainState, url: str, now: Timestamp
) -> tuple[ChainState, list[_NewObject]]:
    """Check the new blocks against the rules; return the state after them and their objects."""
    objects: dict[tuple[str, Multihash], _NewObject] = {}
    for at, data in spool.oldest_first():
        block = decode(data, at, url)
        _check_received(state, block, at, url, now)
        state = apply(state, block, at)
        for ref in objects_of(block.event):
            objects.setdefault((ref.kind, ref.hash), _NewObject(ref, at, block.sequence_number))
    return state, list(objects.values())


def _check_received(
    state: ChainState, block: MetadataBlock, at: Multihash, url: str, now: Timestamp
) -> None:
    where = f"{url}: block number {block.sequence_number} ({at})"
    if block.system_time.epoch_ns > now.epoch_ns + _SKEW_NS:
        raise CorruptChainError(
            f"{where} is from the future: made {block.system_time}, now it is {now}",
            hint="check the clock of this machine",
            details={"block": str(at)},
        )
    try:
        check_block(state, block, strict=False)
    except RuleViolationError as error:
        raise CorruptChainError(
            f"{url}: {error.message} (block {at})",
            details={"block": str(at), "rule": error.rule},
        ) from error


def _check_identity(
    state: ChainState,
    base: ChainState,
    target: Dataset,
    expected_id: DatasetID | None,
    url: str,
) -> None:
    """Refuse another dataset than the one that was asked for or is at the target."""
    got = state.dataset_id
    if expected_id is not None and got != expected_id:
        raise ConflictError(f"{url}: holds another dataset: wanted {expected_id}, got {got}")
    if base.head is None and target.head() is not None:
        there = _seed(target)
        here = state.seed
        if here is None or (there.dataset_id, there.dataset_kind) != (
            here.dataset_id,
            here.dataset_kind,
        ):
            raise ConflictError(
                f"{target.url}: holds another dataset: wanted {got}, got {there.dataset_id}",
                hint="choose another name or place",
            )


def _seed(dataset: Dataset) -> Seed:
    seed = dataset.state().seed
    if seed is None:
        raise CorruptChainError(f"{dataset.url}: the chain does not begin with a seed")
    return seed


def _refusal(compared: _Comparison, url: str, target: Dataset) -> OdfError:
    details = {"source_only": compared.source_only, "target_only": compared.target_only}
    forced = (
        f"--force makes {target.url} the same as {url}; the history that it drops is kept under "
        "a backup reference"
    )
    if compared.relation is Relation.BEHIND:
        return ConflictError(
            f"{target.url} is ahead of {url} by {_blocks(compared.target_only)}",
            hint=f"send them the other way; or {forced}",
            details=details,
        )
    shared = "from the first block" if compared.common is None else "from a common history"
    return DivergedError(
        f"{target.url} and {url} diverged {shared}: {_blocks(compared.target_only)} only at "
        f"{target.url}, {_blocks(compared.source_only)} only at {url}",
        hint=f"decide which history holds: {forced}",
        details=details,
    )


def _blocks(count: int) -> str:
    return f"{count} block{'' if count == 1 else 's'}"


def _bring_objects(
    objects: list[_NewObject],
    source: DatasetStores,
    target: DatasetStores,
    progress: Callable[[Progress], None] | None,
) -> tuple[int, int]:
    """Copy what is missing or damaged at the target; return how many objects and bytes."""
    count = size = 0
    for done, new in enumerate(objects, 1):
        if problem_with(target.objects(new.ref.kind), new.ref) is not None:
            _bring(new, source, target)
            count += 1
            size += new.ref.size
        if progress is not None:
            progress(Progress(done, len(objects), size))
    return count, size


def _bring(new: _NewObject, source: DatasetStores, target: DatasetStores) -> None:
    key = str(new.ref.hash)
    named = f"which block number {new.number} ({new.block}) names"
    details = {"block": str(new.block), "object": new.ref.path}
    try:
        chunks = source.objects(new.ref.kind).chunks(key, new.ref.size)
        target.objects(new.ref.kind).put_chunks(key, checked(chunks, new.ref, source.url))
    except NotFoundError as error:
        raise CorruptChainError(
            f"{source.url}: {new.ref.path}, {named}, is missing", details=details
        ) from error
    except IntegrityError as error:
        raise CorruptChainError(f"{error.message}; {named}", details=details) from error

"""A dataset: its chain, the state that the chain amounts to, and the one way to extend it."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from odf.errors import (
    BadInputError,
    ConflictError,
    IntegrityError,
    NotFoundError,
    RuleViolationError,
)
from odf.metadata.chain import EMPTY_STATE, ChainState, apply
from odf.metadata.flatbuffers import block_hash, encode_block
from odf.metadata.identity import ReferenceName
from odf.metadata.model import MetadataBlock, MetadataEvent, Timestamp
from odf.metadata.multiformats import Multihash
from odf.metadata.rules import check_block
from odf.repo.chain_reader import ChainReader, decode
from odf.repo.errors import DivergedError, InvalidIntervalError, OpaqueChainError
from odf.repo.layout import HEAD_REFERENCE, DatasetStores
from odf.repo.objects import ObjectRef, StagedObject, objects_of, place, problem_with
from odf.repo.spool import BlockSpool
from odf.repo.state_cache import forget_state, load_state, save_state


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What a commit did.

    Attributes:
        old_head: Head before; None for a new dataset.
        new_head: Head after.
        hashes: The new blocks, oldest first; one for each event.
    """

    old_head: Multihash | None
    new_head: Multihash
    hashes: tuple[Multihash, ...]


class Dataset(ChainReader):
    """A dataset that can be read and extended.

    Args:
        stores: Where its parts are.
    """

    def __init__(self, stores: DatasetStores) -> None:
        super().__init__(stores)
        self._memo: dict[ReferenceName, ChainState] = {}

    @classmethod
    def open(cls, stores: DatasetStores) -> Self:
        """Return a dataset that exists.

        Raises:
            NotFoundError: There is none: nothing says which block is its head.
        """
        dataset = cls(stores)
        if dataset.head() is None:
            raise NotFoundError(f"{stores.url}: there is no dataset")
        return dataset

    @classmethod
    def create(
        cls, stores: DatasetStores, events: Sequence[MetadataEvent], *, system_time: Timestamp
    ) -> Self:
        """Make a dataset, all of its first blocks in one commit.

        Args:
            stores: Where its parts are to be.
            events: The seed, then whatever is to be there from the beginning.
            system_time: Time of all blocks.

        Raises:
            ConflictError: There is a dataset already.
            RuleViolationError: An event that may not be there.
        """
        dataset = cls(stores)
        dataset.commit(events, expected_head=None, system_time=system_time)
        return dataset

    def lock(self, timeout: float = 0.0) -> contextlib.AbstractContextManager[None]:
        """Keep other writers out for the length of a `with` block; readers never ask.

        Args:
            timeout: Seconds to wait for another writer.

        Raises:
            LockedError: Another writer is at work, named in the message.
        """
        return self.stores.lock.hold(timeout)

    def state(
        self, *, use_cache: bool = True, reference: ReferenceName = HEAD_REFERENCE
    ) -> ChainState:
        """Return what the chain says up to its head, or up to another reference.

        Args:
            use_cache: Whether a remembered state may shorten the walk. Checks say no.
            reference: Which branch.

        Raises:
            CorruptChainError: The chain cannot be walked.
        """
        at = self.reference(reference)
        if at is None:
            return EMPTY_STATE
        if not use_cache:
            return self.state_at(at)
        known = self._memo.get(reference)
        if known is not None and known.head == at:
            return known
        state = self._from_remembered(reference, at)
        self._memo[reference] = state
        return state

    def _from_remembered(self, reference: ReferenceName, at: Multihash) -> ChainState:
        base = self._remembered(reference)
        if base.head == at:
            return base
        if base.head is not None and base.sequence_number >= self.link(at).sequence_number:
            base = EMPTY_STATE  # it cannot be below, so nobody need walk down to find out
        try:
            state = self.state_at(at, base)
        except InvalidIntervalError:
            state = self.state_at(at)  # what was remembered is no longer in the history
        self._remember(state, reference)
        return state

    def _remembered(self, reference: ReferenceName) -> ChainState:
        """Return the cached state of a reference, or of the head that a branch grew out of."""
        cache = self.stores.cache
        if cache is None:
            return EMPTY_STATE
        state = load_state(cache, reference)
        if state is None and reference != HEAD_REFERENCE:
            state = load_state(cache)
        return state or EMPTY_STATE

    def state_at(self, head: Multihash, base: ChainState = EMPTY_STATE) -> ChainState:
        """Return what the chain says up to a block, by walking.

        Args:
            head: The block.
            base: A state of the same chain further down, to start from.

        Raises:
            InvalidIntervalError: The chain of `head` does not go through the head of `base`.
            CorruptChainError: The chain cannot be walked.
        """
        with contextlib.closing(BlockSpool()) as spool:
            for at, data in self.walk_bytes(head, base.head):
                spool.add(at, data)
            state = base
            for at, data in spool.oldest_first():
                state = apply(state, decode(data, at, self.url), at)
        return state

    def commit(
        self,
        events: Sequence[MetadataEvent],
        *,
        expected_head: Multihash | None,
        system_time: Timestamp,
        objects: Sequence[StagedObject] = (),
        lock_timeout: float = 0.0,
        reference: ReferenceName = HEAD_REFERENCE,
    ) -> CommitResult:
        """Extend the chain by all of the events, or by none.

        Objects come first, then the blocks, then the head, once. What goes wrong before the head
        moves leaves the dataset as it was (at worst with objects that nothing refers to).

        Args:
            events: What happened, in order; one block each.
            expected_head: The head (of the branch) that the events were made for; None for a new
                dataset.
            system_time: Time of all blocks.
            objects: Files that the events name, to be moved into place.
            lock_timeout: Seconds to wait for another writer.
            reference: What moves: the dataset's head, or a branch that `stage` made.

        Raises:
            ConflictError: The head is another one by now.
            RuleViolationError: An event may not follow; nothing was written.
            OpaqueChainError: The chain has an event that this release does not understand.
            IntegrityError: An object is missing, or not what the events say.
            LockedError: Another process is writing.
        """
        if not events:
            raise RuleViolationError("empty-commit", f"{self.url}: a commit without any event")
        with self.lock(lock_timeout):
            state = self._state_to_extend(expected_head, reference)
            blocks, new_state = self._chained(state, events, system_time)
            placed = {place(self.stores.objects(staged.kind), staged) for staged in objects}
            self._check_objects(events, placed)
            self._publish(blocks, expected_head, new_state, reference)
        hashes = tuple(at for at, _ in blocks)
        return CommitResult(expected_head, hashes[-1], hashes)

    def append_received(
        self,
        blocks: Iterable[tuple[Multihash, bytes]],
        *,
        expected_head: Multihash | None,
        state: ChainState,
    ) -> None:
        """Write blocks that came from elsewhere, as they came, and move the head onto the last.

        The caller has checked the blocks against the rules and brought their objects, and holds
        the lock.

        Args:
            blocks: Name and bytes of each block, oldest first.
            expected_head: The head that they were made for.
            state: The chain's state after the last block.

        Raises:
            ConflictError: The head is another one by now.
            IntegrityError: Bytes that do not hash to their name.
        """
        with self.lock():
            self._publish(blocks, expected_head, state)

    def keep_backup(self, head: Multihash) -> str:
        """Name a head that is about to be dropped, so that its history can be found again.

        Returns:
            The name of the reference: `backup-1`, `backup-2` and so on.
        """
        taken = set(self.stores.refs.names())
        number = next(n for n in range(1, len(taken) + 2) if f"backup-{n}" not in taken)
        name = ReferenceName(f"backup-{number}")
        self._references.move(name, head, None)
        return str(name)

    def stage(self, name: ReferenceName, at: Multihash | None = None) -> Multihash:
        """Make a reference beside `head`: a branch to commit to, or a tag.

        Args:
            name: What to call it.
            at: The block that it names, of any history that is here; the head's if not given.

        Returns:
            The block that it names.

        Raises:
            BadInputError: It is `head`, which `commit` and `fast_forward` move.
            ConflictError: There is a reference of this name.
            NotFoundError: There is no such block, or no dataset.
        """
        _check_not_head(name, self.url)
        with self.lock():
            start = at or self.head()
            if start is None:
                raise NotFoundError(f"{self.url}: there is no dataset")
            self.block(start)  # a reference to nothing would be damage
            self._references.move(name, start, None)
        return start

    def fast_forward(
        self,
        name: ReferenceName,
        *,
        expected_head: Multihash | None,
        drop: bool = False,
        lock_timeout: float = 0.0,
    ) -> CommitResult:
        """Move the head onto a branch that continues it.

        Args:
            name: The branch.
            expected_head: The head that the branch was looked at for.
            drop: Whether the branch is given up once the head has its blocks.
            lock_timeout: Seconds to wait for another writer.

        Returns:
            What a commit of the branch's blocks would have returned.

        Raises:
            BadInputError: It is `head`, or already where the head is.
            NotFoundError: There is no such reference.
            ConflictError: The head is another one by now.
            DivergedError: The branch does not go through the head.
            IntegrityError: An object that the branch names is missing.
            LockedError: Another process is writing.
        """
        _check_not_head(name, self.url)
        with self.lock(lock_timeout):
            self._check_head(expected_head, HEAD_REFERENCE)
            to = self.reference(name)
            if to is None:
                raise NotFoundError(f"{self.url}: there is no reference refs/{name}")
            hashes = self._between(name, to, expected_head)
            state = self.state(reference=name)
            self._references.move(HEAD_REFERENCE, to, expected_head)
            self._remember(state, HEAD_REFERENCE)
            if drop:
                self.drop_reference(name, to)
        return CommitResult(expected_head, to, hashes)

    def replace_head(self, name: ReferenceName, *, expected_head: Multihash) -> str:
        """Move the head onto a branch that does not continue it, and drop the branch.

        Args:
            name: The branch; all that it names is here, since it was committed to.
            expected_head: The head that is given up.

        Returns:
            The reference that keeps the old history.

        Raises:
            BadInputError: It is `head`.
            NotFoundError: There is no such reference.
            ConflictError: The head is another one by now.
        """
        _check_not_head(name, self.url)
        with self.lock():
            self._check_head(expected_head, HEAD_REFERENCE)
            to = self.reference(name)
            if to is None:
                raise NotFoundError(f"{self.url}: there is no reference refs/{name}")
            state = self.state(reference=name)
            backup = self.keep_backup(expected_head)
            self._references.move(HEAD_REFERENCE, to, expected_head)
            self._remember(state, HEAD_REFERENCE)
            self.drop_reference(name, to)
        return backup

    def drop_reference(self, name: ReferenceName, expected: Multihash) -> None:
        """Remove a reference other than `head`; its blocks and objects stay.

        Raises:
            BadInputError: It is `head`.
            ConflictError: It names another block, or is not there.
        """
        with self.lock():
            self._references.delete(name, expected)
            self._memo.pop(name, None)
            if self.stores.cache is not None:
                forget_state(self.stores.cache, name)

    def _between(
        self, name: ReferenceName, to: Multihash, head: Multihash | None
    ) -> tuple[Multihash, ...]:
        """Return the blocks of a branch above the head, oldest first; their objects are here."""
        found: list[Multihash] = []
        try:
            for at, block in self.blocks(to, head):
                found.append(at)
                for ref in objects_of(block.event):
                    if not self.stores.objects(ref.kind).has(str(ref.hash)):
                        raise IntegrityError(
                            f"{self.url}: {ref.path}, which refs/{name} refers to, is missing",
                            details={"object": ref.path},
                        )
        except InvalidIntervalError as error:
            raise DivergedError(
                f"{self.url}: refs/{name} does not continue the head: {error.message}",
                hint="commit the same events on a branch of the head as it is",
            ) from error
        if not found:
            raise BadInputError(f"{self.url}: refs/{name} is where the head is: {head}")
        return tuple(reversed(found))

    def _check_head(self, expected: Multihash | None, reference: ReferenceName) -> None:
        head = self.reference(reference)
        if head != expected:
            raise ConflictError(
                f"{self.url}: the dataset changed in the meantime: wanted {reference} "
                f"{expected or 'none'}, got {head or 'none'}",
                hint="run the command again",
            )

    def _state_to_extend(
        self, expected_head: Multihash | None, reference: ReferenceName
    ) -> ChainState:
        self._check_head(expected_head, reference)
        state = self.state(reference=reference)
        if state.opaque:
            raise OpaqueChainError(
                f"{self.url}: cannot be written to: {state.opaque}",
                hint="a newer release of odf may be able to",
            )
        return state

    def _chained(
        self, state: ChainState, events: Sequence[MetadataEvent], system_time: Timestamp
    ) -> tuple[list[tuple[Multihash, bytes]], ChainState]:
        """Make the blocks of the events; every one is checked before any is written."""
        made: list[tuple[Multihash, bytes]] = []
        for event in events:
            block = MetadataBlock(system_time, state.head, state.sequence_number + 1, event)
            check_block(state, block)
            data = encode_block(block)
            at = block_hash(data)
            made.append((at, data))
            state = apply(state, block, at)
        return made, state

    def _check_objects(self, events: Sequence[MetadataEvent], placed: set[ObjectRef]) -> None:
        """Make sure of every object that is named; those that were just placed have been hashed."""
        for event in events:
            for ref in objects_of(event):
                if ref in placed:
                    continue
                if problem := problem_with(self.stores.objects(ref.kind), ref):
                    raise IntegrityError(
                        f"{self.url}: {ref.path}, which the commit refers to: {problem}",
                        details={"object": ref.path},
                    )

    def _publish(
        self,
        blocks: Iterable[tuple[Multihash, bytes]],
        expected_head: Multihash | None,
        state: ChainState,
        reference: ReferenceName = HEAD_REFERENCE,
    ) -> None:
        self.stores.blocks.put_many(_hash_checked(blocks, self.url))
        if state.head is None:
            raise RuleViolationError("empty-commit", f"{self.url}: a head without any block")
        self._references.move(reference, state.head, expected_head)
        self._remember(state, reference)

    def _remember(self, state: ChainState, reference: ReferenceName) -> None:
        self._memo[reference] = state
        if self.stores.cache is not None:
            save_state(self.stores.cache, state, reference)


def _check_not_head(name: ReferenceName, url: str) -> None:
    if name == HEAD_REFERENCE:
        raise BadInputError(f"{url}: refs/head is no branch beside the head")


def _hash_checked(
    blocks: Iterable[tuple[Multihash, bytes]], url: str
) -> Iterator[tuple[str, bytes]]:
    for at, data in blocks:
        got = Multihash.sha3_256(data)
        if got != at:
            raise IntegrityError(f"{url}: a block named {at} hashes to {got}")
        yield str(at), data

"""A dataset: its chain, the state that the chain amounts to, and the one way to extend it."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from odf.errors import ConflictError, IntegrityError, NotFoundError, RuleViolationError
from odf.metadata.chain import EMPTY_STATE, ChainState, apply
from odf.metadata.flatbuffers import block_hash, encode_block
from odf.metadata.model import MetadataBlock, MetadataEvent, Timestamp
from odf.metadata.multiformats import Multihash
from odf.metadata.rules import check_block
from odf.repo.chain_reader import ChainReader
from odf.repo.errors import InvalidIntervalError, OpaqueChainError
from odf.repo.layout import HEAD, DatasetStores
from odf.repo.objects import ObjectRef, StagedObject, objects_of, place, problem_with
from odf.repo.state_cache import load_state, save_state

_KEPT_BLOCKS: Final = 2048
"""Decoded blocks kept while a state is built; those beyond are read twice instead."""


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
        self._memo = EMPTY_STATE

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

    def state(self, *, use_cache: bool = True) -> ChainState:
        """Return what the chain says up to its head.

        Args:
            use_cache: Whether a remembered state may shorten the walk. Checks say no.

        Raises:
            CorruptChainError: The chain cannot be walked.
        """
        head = self.head()
        if head is None:
            return EMPTY_STATE
        if not use_cache:
            return self.state_at(head)
        if self._memo.head == head:
            return self._memo
        cache = self.stores.cache
        base = (load_state(cache) if cache else None) or EMPTY_STATE
        if base.head != head:
            try:
                base = self.state_at(head, base)
            except InvalidIntervalError:
                base = self.state_at(head)  # what was remembered is no longer in the history
            self._remember(base)
        self._memo = base
        return base

    def state_at(self, head: Multihash, base: ChainState = EMPTY_STATE) -> ChainState:
        """Return what the chain says up to a block, by walking.

        Args:
            head: The block.
            base: A state of the same chain further down, to start from.

        Raises:
            InvalidIntervalError: The chain of `head` does not go through the head of `base`.
            CorruptChainError: The chain cannot be walked.
        """
        found: list[tuple[Multihash, MetadataBlock | None]] = []
        for at, block in self.blocks(head, base.head):
            found.append((at, block if len(found) < _KEPT_BLOCKS else None))
        state = base
        for at, kept in reversed(found):
            state = apply(state, kept or self.block(at), at)
        return state

    def commit(
        self,
        events: Sequence[MetadataEvent],
        *,
        expected_head: Multihash | None,
        system_time: Timestamp,
        objects: Sequence[StagedObject] = (),
        lock_timeout: float = 0.0,
    ) -> CommitResult:
        """Extend the chain by all of the events, or by none.

        Objects come first, then the blocks, then the head, once. What goes wrong before the head
        moves leaves the dataset as it was (at worst with objects that nothing refers to).

        Args:
            events: What happened, in order; one block each.
            expected_head: The head that the events were made for; None for a new dataset.
            system_time: Time of all blocks.
            objects: Files that the events name, to be moved into place.
            lock_timeout: Seconds to wait for another writer.

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
            state = self._state_to_extend(expected_head)
            blocks, new_state = self._chained(state, events, system_time)
            placed = {place(self.stores.objects(staged.kind), staged) for staged in objects}
            self._check_objects(events, placed)
            self._publish(blocks, expected_head, new_state)
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
        name = f"backup-{number}"
        self.stores.refs.set(name, str(head), None)
        return name

    def _state_to_extend(self, expected_head: Multihash | None) -> ChainState:
        head = self.head()
        if head != expected_head:
            raise ConflictError(
                f"{self.url}: the dataset changed in the meantime: wanted head "
                f"{expected_head or 'none'}, got {head or 'none'}",
                hint="run the command again",
            )
        state = self.state()
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
    ) -> None:
        self.stores.blocks.put_many(_hash_checked(blocks, self.url))
        if state.head is None:
            raise RuleViolationError("empty-commit", f"{self.url}: a head without any block")
        current = self.stores.refs.get(HEAD)
        if self.head() == expected_head:
            expected = current  # the same hash, in whatever encoding it was written
        else:
            expected = str(expected_head) if expected_head else None
        self.stores.refs.set(HEAD, str(state.head), expected)
        self._remember(state)

    def _remember(self, state: ChainState) -> None:
        self._memo = state
        if self.stores.cache is not None:
            save_state(self.stores.cache, state)


def _hash_checked(
    blocks: Iterable[tuple[Multihash, bytes]], url: str
) -> Iterator[tuple[str, bytes]]:
    for at, data in blocks:
        got = Multihash.sha3_256(data)
        if got != at:
            raise IntegrityError(f"{url}: a block named {at} hashes to {got}")
        yield str(at), data

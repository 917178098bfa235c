"""Reading a chain from its newest block down, believing no byte that does not hash to its name."""

from collections.abc import Iterator

from odf.errors import IntegrityError, NotFoundError, OdfError
from odf.limits import MAX_BLOCK_SIZE, MAX_CHAIN_BLOCKS
from odf.metadata.flatbuffers import BlockLink, decode_block, decode_link
from odf.metadata.identity import ReferenceName
from odf.metadata.model import MetadataBlock
from odf.metadata.multiformats import Multihash
from odf.repo.errors import CorruptChainError, InvalidIntervalError
from odf.repo.layout import HEAD_REFERENCE, DatasetStores
from odf.repo.references import References


class ChainReader:
    """The metadata chain of a dataset, wherever it is.

    Args:
        stores: The dataset's stores.
    """

    def __init__(self, stores: DatasetStores) -> None:
        self._stores = stores
        self._references = References(stores)

    @property
    def stores(self) -> DatasetStores:
        """The dataset's stores."""
        return self._stores

    @property
    def url(self) -> str:
        """Where the dataset is, for messages."""
        return self._stores.url

    def head(self) -> Multihash | None:
        """Return the hash of the newest block; None if there is no dataset (yet).

        Raises:
            CorruptChainError: The reference does not hold a hash of a block.
        """
        return self.reference(HEAD_REFERENCE)

    def reference(self, name: ReferenceName) -> Multihash | None:
        """Return the block that a reference names; see `head`."""
        return self._references.get(name)

    def references(self) -> dict[ReferenceName, Multihash]:
        """Return all references with the blocks that they name, `head` first.

        Raises:
            CorruptChainError: One of them cannot be read.
        """
        return self._references.all()

    def block_bytes(self, block_hash: Multihash) -> bytes:
        """Return a block as it was stored.

        Raises:
            NotFoundError: It is not there.
            CorruptChainError: The bytes do not hash to its name.
        """
        try:
            data = self._stores.blocks.get(str(block_hash), MAX_BLOCK_SIZE)
        except NotFoundError as error:
            raise NotFoundError(f"{self.url}: block {block_hash} is not there") from error
        except IntegrityError as error:
            raise CorruptChainError(
                f"{self.url}: block {block_hash} is corrupt: {error.message}"
            ) from error
        got = Multihash.sha3_256(data)
        if got != block_hash:
            raise CorruptChainError(
                f"{self.url}: block {block_hash} is corrupt: its bytes hash to {got}",
                details={"block": str(block_hash), "wanted": str(block_hash), "got": str(got)},
            )
        return data

    def block(self, block_hash: Multihash) -> MetadataBlock:
        """Return a block.

        Raises:
            NotFoundError: It is not there.
            CorruptChainError: Its bytes do not hash to its name, or are no block.
        """
        return decode(self.block_bytes(block_hash), block_hash, self.url)

    def blocks(
        self, head: Multihash | None = None, until: Multihash | None = None
    ) -> Iterator[tuple[Multihash, MetadataBlock]]:
        """Walk the chain, newest first.

        Args:
            head: Where to start; the dataset's head if not given.
            until: Where to stop, without this block; the walk ends with the seed if not given.

        Raises:
            InvalidIntervalError: `until` is not below `head`.
            CorruptChainError: A block is missing, damaged or wrongly numbered.
        """
        for block_hash, block, _ in self.walk(head, until):
            yield block_hash, block

    def walk(
        self, head: Multihash | None = None, until: Multihash | None = None
    ) -> Iterator[tuple[Multihash, MetadataBlock, bytes]]:
        """Do as `blocks`, and give the bytes of each block as well."""
        for block_hash, data in self.walk_bytes(head, until):
            yield block_hash, decode(data, block_hash, self.url), data

    def walk_bytes(
        self, head: Multihash | None = None, until: Multihash | None = None
    ) -> Iterator[tuple[Multihash, bytes]]:
        """Do as `blocks`, without looking at what the blocks say beyond their place."""
        at = head or self.head()
        above: BlockLink | None = None
        while at is not None and at != until:
            data = self._linked_bytes(at, above)
            link = _link(data, at, self.url)
            self._check_number(at, link, above)
            yield at, data
            at, above = link.prev_block_hash, link
        if until is not None and at != until:
            raise InvalidIntervalError(
                f"{self.url}: block {until} is not in the history of "
                f"{head or 'the head'}: the history was rewritten"
            )

    def link(self, block_hash: Multihash) -> BlockLink:
        """Return where a block, which something refers to, is in its chain.

        Raises:
            CorruptChainError: It is missing or damaged.
        """
        return _link(self._linked_bytes(block_hash, None), block_hash, self.url)

    def _linked_bytes(self, at: Multihash, above: BlockLink | None) -> bytes:
        try:
            return self.block_bytes(at)
        except NotFoundError as error:
            linked = f"block number {above.sequence_number}" if above else "the head"
            raise CorruptChainError(
                f"{error.message}, although {linked} refers to it",
                details={"block": str(at)},
            ) from error

    def _check_number(self, at: Multihash, block: BlockLink, above: BlockLink | None) -> None:
        number = block.sequence_number
        wanted = above.sequence_number - 1 if above else number
        if number != wanted or number > MAX_CHAIN_BLOCKS:
            most = min(wanted, MAX_CHAIN_BLOCKS)
            raise CorruptChainError(
                f"{self.url}: block {at} has sequence number {number}, wanted {most}"
                + (" at most" if above is None else "")
            )
        if (number == 0) != (block.prev_block_hash is None):
            raise CorruptChainError(
                f"{self.url}: block {at} has sequence number {number} and "
                f"{'no' if block.prev_block_hash is None else 'a'} block before it"
            )


def decode(data: bytes, block_hash: Multihash, url: str) -> MetadataBlock:
    """Decode a block, and name it if that fails.

    Raises:
        CorruptChainError: The bytes are no block.
    """
    try:
        return decode_block(data)
    except OdfError as error:
        raise _unreadable(error, block_hash, url) from error


def _link(data: bytes, block_hash: Multihash, url: str) -> BlockLink:
    try:
        return decode_link(data)
    except OdfError as error:
        raise _unreadable(error, block_hash, url) from error


def _unreadable(error: OdfError, block_hash: Multihash, url: str) -> CorruptChainError:
    return CorruptChainError(
        f"{url}: block {block_hash} cannot be read: {error.message}",
        details={"block": str(block_hash)},
    )

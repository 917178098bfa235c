"""Reading a chain from its newest block down, believing no byte that does not hash to its name."""

from collections.abc import Iterator

from odf.errors import IntegrityError, NotFoundError, OdfError
from odf.limits import MAX_BLOCK_SIZE, MAX_CHAIN_BLOCKS
from odf.metadata.flatbuffers import decode_block
from odf.metadata.model import MetadataBlock
from odf.metadata.multiformats import SHA3_256, MultiformatError, Multihash
from odf.repo.errors import CorruptChainError, InvalidIntervalError
from odf.repo.layout import HEAD, DatasetStores


class ChainReader:
    """The metadata chain of a dataset, wherever it is.

    Args:
        stores: The dataset's stores.
    """

    def __init__(self, stores: DatasetStores) -> None:
        self._stores = stores

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
        return self.reference(HEAD)

    def reference(self, name: str) -> Multihash | None:
        """Return the block that a reference names; see `head`."""
        text = self._stores.refs.get(name)
        if text is None:
            return None
        try:
            found = Multihash.parse(text)
        except MultiformatError as error:
            raise CorruptChainError(
                f"{self.url}: refs/{name} holds {text[:80]!r}, wanted the hash of a block: "
                f"{error.message}"
            ) from error
        if found.code != SHA3_256:
            raise CorruptChainError(f"{self.url}: refs/{name} names {found}, not a SHA3-256 hash")
        return found

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
        at = head or self.head()
        above: MetadataBlock | None = None
        while at is not None and at != until:
            data = self._linked_bytes(at, above)
            block = decode(data, at, self.url)
            self._check_number(at, block, above)
            yield at, block, data
            at, above = block.prev_block_hash, block
        if until is not None and at != until:
            raise InvalidIntervalError(
                f"{self.url}: block {until} is not in the history of "
                f"{head or 'the head'}: the history was rewritten"
            )

    def _linked_bytes(self, at: Multihash, above: MetadataBlock | None) -> bytes:
        try:
            return self.block_bytes(at)
        except NotFoundError as error:
            linked = f"block number {above.sequence_number}" if above else "the head"
            raise CorruptChainError(
                f"{error.message}, although {linked} refers to it",
                details={"block": str(at)},
            ) from error

    def _check_number(
        self, at: Multihash, block: MetadataBlock, above: MetadataBlock | None
    ) -> None:
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
        raise CorruptChainError(
            f"{url}: block {block_hash} cannot be read: {error.message}",
            details={"block": str(block_hash)},
        ) from error

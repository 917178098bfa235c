"""Walking a chain down as far as it can be read, noting what is wrong on the way."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from odf.errors import IntegrityError, NotFoundError, OdfError
from odf.limits import MAX_BLOCK_SIZE, MAX_CHAIN_BLOCKS
from odf.metadata.flatbuffers import decode_block
from odf.metadata.model import MetadataBlock
from odf.metadata.multiformats import Multihash
from odf.repo.chain_reader import ChainReader


@dataclass(frozen=True, slots=True)
class Link:
    """A block on the way down: its name, its content if that could be read, what is wrong.

    Attributes:
        hash: The name under which the block above it (or the head) refers to it.
        block: The block; None if it cannot be read.
        problems: What is wrong with its bytes and its links.
    """

    hash: Multihash
    block: MetadataBlock | None
    problems: tuple[str, ...]


def walk_down(
    reader: ChainReader, head: Multihash, known: Container[Multihash] = ()
) -> Iterator[Link]:
    """Walk down as far as blocks can be read, also through damaged ones, and note what is wrong.

    A block whose bytes do not hash to its name can often still be decoded; where it points is
    followed, since what is below may be sound.

    Args:
        reader: The chain.
        head: Where to start.
        known: Blocks that were walked through before; the walk ends above them.
    """
    at: Multihash | None = head
    above: int | None = None
    seen: set[Multihash] = set()
    while at is not None and at not in known:
        seen.add(at)
        block, problems = _read(reader, at)
        if block is not None:
            problems += _number_problems(block, above)
        if block is not None and block.prev_block_hash in seen:
            # Only a damaged block can point back up: hashes cannot be foreseen.
            problems.append(f"points to {block.prev_block_hash}, which is above it")
            yield Link(at, block, tuple(problems))
            return
        yield Link(at, block, tuple(problems))
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


def path_to(known: Mapping[Multihash, Link], at: Multihash | None) -> list[Link]:
    """Return the blocks that lead to one of those that were walked through, oldest first."""
    path: list[Link] = []
    seen: set[Multihash] = set()
    while at is not None and at in known and at not in seen:
        seen.add(at)
        link = known[at]
        path.append(link)
        at = link.block.prev_block_hash if link.block else None
    path.reverse()
    return path

"""Making blocks: from an event to bytes with a name."""

import hashlib
import json
from typing import ClassVar

from odf.metadata.flatbuffers import block_hash, encode_block
from odf.metadata.json import to_json
from tests.bench.datasets import chain_blocks
from tests.bench.figure import BenchError, Contestant, Figure, Goal, Rate, Sample, Setup
from tests.bench.timing import timed
from tests.bench.workbench import Workbench


class EncodeBlocks(Figure):
    """Blocks encoded and hashed per second."""

    name: ClassVar = "blocks"
    title: ClassVar = "Encode and hash blocks"
    compares: ClassVar = (
        "`encode_block` and SHA3-256 over the blocks of a root dataset (mostly `AddData` with "
        "slice, watermark and source state), one after the other in this process. The yardstick "
        "is the quickest serializer that Python has at hand: `json.dumps` of the same content, "
        "already turned into plain dictionaries, and the same hash."
    )
    goals: ClassVar = (Goal(5_000, "rate", "blocks/s"),)

    def prepare(self, bench: Workbench) -> Setup:
        """Make the blocks."""
        count = bench.sizes.encoded
        made = list(chain_blocks(count))
        blocks = [block for block, _, _ in made]
        plain = [to_json(block) for block in blocks]
        if [block_hash(encode_block(block)) for block in blocks] != [at for _, at, _ in made]:
            raise BenchError("blocks do not encode to the same bytes twice")

        def ours() -> Sample:
            return timed(lambda: [block_hash(encode_block(block)) for block in blocks])

        def yardstick() -> Sample:
            return timed(
                lambda: [hashlib.sha3_256(json.dumps(one).encode()).digest() for one in plain]
            )

        return Setup(
            [Contestant("odf", ours), Contestant("json.dumps + sha3_256", yardstick)],
            f"{count:,} blocks",
            Rate("blocks/s", count),
        )

"""What a long chain says: from the cache, and by walking."""

from collections.abc import Callable
from typing import ClassVar

from odf.metadata.chain import ChainState
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from tests.bench.datasets import LongChain, long_chain
from tests.bench.figure import BenchError, Contestant, Figure, Goal, Rate, Sample, Setup
from tests.bench.hashing import hash_files
from tests.bench.timing import timed
from tests.bench.workbench import Workbench

_LONG = "100,000 blocks with `--long`"


def _state(chain: LongChain, *, use_cache: bool) -> Sample:
    """Open the dataset anew, as a new process does, and ask for its state."""
    found: list[ChainState] = []

    def work() -> None:
        dataset = Dataset(DatasetStores.local(chain.folder))
        found.append(dataset.state(use_cache=use_cache))

    sample = timed(work)
    if found != [chain.state]:
        raise BenchError("the state that was found is not the state of the chain that was made")
    return sample


def _setup(chain: LongChain, ours: Callable[[], Sample]) -> Setup:
    def yardstick() -> Sample:
        return timed(lambda: hash_files(chain.paths, threads=1))

    blocks = len(chain.paths)
    return Setup(
        [Contestant("odf", ours), Contestant("read and hash the files", yardstick)],
        f"{blocks:,} blocks, {chain.size / 1_000_000:.1f} MB",
        Rate("blocks/s", blocks),
    )


class ChainFromCache(Figure):
    """The state of a long chain, remembered."""

    name: ClassVar = "chain-cached"
    title: ClassVar = "`ChainState` from its cache"
    compares: ClassVar = (
        "Opening a dataset and asking for its state, in this process, when the state of its head "
        f"is cached ({_LONG}); beside reading every block file whole and hashing it with "
        "`hashlib.sha3_256`, one after the other. Files are in the page cache."
    )
    goals: ClassVar = (Goal(0.1, "value", "s"),)

    def prepare(self, bench: Workbench) -> Setup:
        """Make the chain, and its cache by asking once."""
        chain = long_chain(bench)
        Dataset(DatasetStores.local(chain.folder)).state()
        setup = _setup(chain, lambda: _state(chain, use_cache=True))
        return Setup(setup.contestants, setup.size)


class ChainRebuilt(Figure):
    """The state of a long chain, by walking."""

    name: ClassVar = "chain-rebuilt"
    title: ClassVar = "`ChainState` rebuilt"
    compares: ClassVar = (
        "The same without the cache: every block is read, hashed, decoded and folded into the "
        "state; beside reading every block file whole and hashing it with `hashlib.sha3_256`, one "
        "after the other. Files are in the page cache."
    )
    goals: ClassVar = (Goal(10.0, "ratio"),)

    def prepare(self, bench: Workbench) -> Setup:
        """Make the chain."""
        chain = long_chain(bench)
        return _setup(chain, lambda: _state(chain, use_cache=False))

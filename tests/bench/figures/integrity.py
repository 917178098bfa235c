"""Checking that a dataset is what its chain says, without running anything again."""

from typing import ClassVar

from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.repo.verify import verify_integrity
from tests.bench.datasets import SlicedDataset, sliced_dataset
from tests.bench.figure import BenchError, Contestant, Figure, Rate, Sample, Setup
from tests.bench.hashing import hash_files
from tests.bench.timing import timed
from tests.bench.workbench import Workbench

_MB = 1_000_000


class VerifyIntegrity(Figure):
    """Throughput of `odf verify --integrity`."""

    name: ClassVar = "verify-integrity"
    title: ClassVar = "`verify --integrity`"
    compares: ClassVar = (
        "What `odf verify --integrity` does to a dataset of several slices, in this process: hash "
        "every block and every slice, check the rules, decode every slice and compute its logical "
        "hash, compare with the blocks. The yardstick hashes the same files with "
        "`hashlib.sha3_256` on two threads and decodes nothing. Megabytes are those of the files."
    )

    def prepare(self, bench: Workbench) -> Setup:
        """Make the dataset."""
        made = sliced_dataset(bench)

        def ours() -> Sample:
            return timed(lambda: _verify(made))

        contestants = [
            Contestant("odf", ours),
            Contestant(
                "hashlib.sha3_256, 2 threads", lambda: timed(lambda: hash_files(made.files))
            ),
        ]
        size = f"{made.size / _MB:.0f} MB, {bench.sizes.slices} slices"
        return Setup(contestants, size, Rate("MB/s", made.size / _MB))


def _verify(made: SlicedDataset) -> None:
    report = verify_integrity(Dataset(DatasetStores.local(made.folder)))
    if not report.valid or report.findings:
        raise BenchError(f"a sound dataset was found wanting: {report.findings}")

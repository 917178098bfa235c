"""Bit rot: every single flipped bit of a dataset is found, and the finding says where it is."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odf.metadata.multiformats import Multihash
from odf.repo.chain_reader import ChainReader
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.repo.verify import IntegrityReport, Severity, verify_integrity
from tests.repo.conftest import NOW

# Slices are ten times as large as all the rest, and what a flip in them leads to differs less:
# the physical hash of the whole file is compared before anything in it is believed.
SLICE_FLIPS = 1000


@pytest.fixture
def small(maker) -> Dataset:
    """A dataset in memory: seed, schema, two slices, two checkpoints, a description."""
    dataset = maker.seed(DatasetStores.memory("small"))
    maker.add_rows(dataset, checkpoint=b"the state of an engine")
    maker.add_rows(dataset, [("Bonn", 3)], checkpoint=b"its next state")
    maker.describe(dataset, "cities")
    return dataset


def check(dataset: ChainReader) -> IntegrityReport:
    return verify_integrity(dataset, now=NOW)


def errors(report: IntegrityReport) -> list[tuple[Multihash | None, str | None]]:
    """The places of the errors: block and object."""
    return [
        (finding.block, finding.object)
        for finding in report.findings
        if finding.severity is Severity.ERROR
    ]


def flips(size: int, limit: int | None = None) -> Iterator[int]:
    """The bits of a file, or a sample that is the same in every run."""
    bits = range(8 * size)
    return iter(
        bits if limit is None or limit >= len(bits) else random.Random(0).sample(bits, limit)
    )


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def with_each_flip(
    stores: DatasetStores,
    folder: str,
    key: str,
    found: Callable[[IntegrityReport], bool],
    limit: int | None = None,
) -> int:
    """Flip bits of an object one by one, and see that each is found; return how many."""
    store = getattr(stores, folder)
    data = store.get(key, 1 << 20)
    count = 0
    for bit in flips(len(data), limit):
        store.delete(key)
        store.put(key, flipped(data, bit))
        report = check(Dataset(stores))
        assert found(report), f"bit {bit} of {folder}/{key}: {report.findings}"
        count += 1
    store.delete(key)
    store.put(key, data)
    return count


def test_a_sound_dataset_has_no_findings(small):
    assert check(small).findings == ()
    assert len(list(small.stores.data.keys())) == 2
    assert len(list(small.stores.checkpoints.keys())) == 2


def test_every_bit_of_every_block(small):
    # Without the slices, which would be read anew for every flip; what they say is asked below.
    for key in list(small.stores.data.keys()):
        small.stores.data.delete(key)
    count = 0
    for key in sorted(small.stores.blocks.keys()):
        at = Multihash.parse(key)
        count += with_each_flip(
            small.stores, "blocks", key, lambda report, at=at: (at, None) in errors(report)
        )
    assert count > 5000


def test_every_bit_of_the_checkpoints(small):
    for key in sorted(small.stores.checkpoints.keys()):
        place = f"checkpoints/{key}"
        count = with_each_flip(
            small.stores,
            "checkpoints",
            key,
            lambda report, place=place: {named for _, named in errors(report)} == {place},
        )
        assert count >= 100
    assert check(small).valid


def test_many_bits_of_the_slices(small):
    for key in sorted(small.stores.data.keys()):
        place = f"data/{key}"
        count = with_each_flip(
            small.stores,
            "data",
            key,
            lambda report, place=place: {named for _, named in errors(report)} == {place},
            SLICE_FLIPS,
        )
        assert count == SLICE_FLIPS
    assert check(small).valid


def test_every_bit_of_the_head(maker, local):
    dataset = maker.full(local, 1)
    path = Path(local.url) / "refs" / "head"
    data, head = path.read_bytes(), dataset.head()
    for bit in flips(len(data)):
        path.write_bytes(flipped(data, bit))
        report = check(Dataset(local))
        # Either the text is no hash, or it is that of a block that nobody has.
        places = errors(report)
        wanted = [(None, "refs/head")] if report.head is None else [(report.head, None)]
        assert places[:1] == wanted, (bit, report.findings)
        assert report.head != head
    path.write_bytes(data)
    assert check(Dataset(local)).valid

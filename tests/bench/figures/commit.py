"""How long a commit takes, and whether that grows with the chain."""

import fcntl
import itertools
import os
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from odf.clock import SystemClock
from odf.metadata.flatbuffers import encode_block
from odf.metadata.model import MetadataBlock, Timestamp
from odf.metadata.multiformats import Multihash
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.repo.objects import StagedObject
from tests.bench.datasets import data_event, first_events
from tests.bench.figure import Contestant, Figure, Goal, Sample, Setup
from tests.bench.workbench import Workbench

_SLICE_BYTES = 4096
_BIN = 50
_ROUNDS = 40
"""Short ones, since disks are the most restless part of a machine."""

_FIRST_BLOCK = 10
_STATE_BYTES = 3_000
"""About what a cached chain state is long."""


class CommitLatency(Figure):
    """Latency of one commit of a slice."""

    name: ClassVar = "commit"
    title: ClassVar = "Commit of one slice (p50)"
    compares: ClassVar = (
        "`Dataset.commit` of one `AddData` with a slice file of 4 KiB, in this process, on a chain "
        "that grows from nothing by one block each time, in rounds of 50; the value is the median "
        "of a round's commits. The yardstick does the same writes by hand with `os` alone: take a "
        "lock, sync the slice file, rename it, sync its folder; write the block, sync, rename, "
        "sync the folder; the same for the head; write the cache and rename it without a sync. It "
        "encodes, hashes and checks nothing. The slopes are straight lines through medians of 50 "
        "commits, from block 10 on, in ms per 1,000 blocks: a file system's own growth shows in "
        "both."
    )
    goals: ClassVar = (Goal(2.0, "ratio"),)
    untimed: ClassVar = False
    fixed_rounds: ClassVar = _ROUNDS

    def prepare(self, bench: Workbench) -> Setup:
        """Begin two chains, one of them only by its files."""
        each = max(1, bench.sizes.commits // _ROUNDS)
        self._ours: list[float] = []
        self._by_hand: list[float] = []
        folder = bench.fresh("dataset")
        dataset = Dataset(DatasetStores.local(folder))
        now = Timestamp.from_datetime(SystemClock().now())
        dataset.commit(first_events(), expected_head=None, system_time=now)
        staging = bench.fresh("staging")
        staging.mkdir()
        ours = _commits(dataset, staging)
        by_hand = _written_by_hand(bench.fresh("by-hand"), staging)

        def take(commits: Iterator[float], kept: list[float]) -> Sample:
            found = list(itertools.islice(commits, each))
            kept += found
            return Sample(statistics.median(found), {"p95 s": _p95(found)})

        return Setup(
            [
                Contestant("odf", lambda: take(ours, self._ours)),
                Contestant("the same writes by hand", lambda: take(by_hand, self._by_hand)),
            ],
            f"{each * _ROUNDS:,} commits",
        )

    def conclude(self) -> Mapping[str, float]:
        """Give the slopes, and where the lines begin and end."""
        found = {
            "slope ms per 1,000 blocks": _slope(self._ours),
            "slope by hand ms per 1,000 blocks": _slope(self._by_hand),
        }
        head, tail = self._ours[_FIRST_BLOCK : _FIRST_BLOCK + _BIN], self._ours[-_BIN:]
        if tail:
            found["p50 of the last 50 ÷ p50 of the first 50"] = statistics.median(
                tail
            ) / statistics.median(head or tail)
        return found


def _commits(dataset: Dataset, staging: Path) -> Iterator[float]:
    for number in itertools.count():
        path, name = _slice(staging, number)
        event = data_event(number, name, _SLICE_BYTES)
        head = dataset.head()
        now = Timestamp.from_datetime(SystemClock().now())
        started = time.perf_counter()
        dataset.commit(
            [event],
            expected_head=head,
            system_time=now,
            objects=[StagedObject("data", path, name)],
        )
        yield time.perf_counter() - started


def _slice(staging: Path, number: int) -> tuple[Path, Multihash]:
    content = secrets.token_bytes(_SLICE_BYTES)
    path = staging / f"slice-{number}-{secrets.token_hex(4)}"
    path.write_bytes(content)
    return path, Multihash.sha3_256(content)


def _written_by_hand(folder: Path, staging: Path) -> Iterator[float]:
    for part in ("blocks", "data", "refs", "info"):
        (folder / part).mkdir(parents=True)
    state = b"x" * _STATE_BYTES
    for number in itertools.count():
        path, name = _slice(staging, number)
        block = MetadataBlock(
            Timestamp.from_datetime(SystemClock().now()),
            name,
            number + 4,
            data_event(number, name, _SLICE_BYTES),
        )
        encoded = encode_block(block)
        at = str(Multihash.sha3_256(encoded))
        started = time.perf_counter()
        lock = os.open(folder / "info" / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        _sync_file(path)
        path.rename(folder / "data" / str(name))
        _sync_folder(folder / "data")
        _write(folder / "blocks", at, encoded)
        _write(folder / "refs", "head", at.encode())
        _write(folder / "info", "chain-state", state, durable=False)
        os.close(lock)
        yield time.perf_counter() - started


def _write(folder: Path, name: str, data: bytes, *, durable: bool = True) -> None:
    pending = folder / ".pending"
    with pending.open("wb") as file:
        file.write(data)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    pending.rename(folder / name)
    if durable:
        _sync_folder(folder)


def _sync_file(path: Path) -> None:
    _sync(path, os.O_RDONLY)


def _sync_folder(path: Path) -> None:
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _p95(found: list[float]) -> float:
    return sorted(found)[int(len(found) * 0.95)] if found else 0.0


def _slope(found: list[float], scale: Callable[[float], float] = lambda s: s * 1e6) -> float:
    """Return ms per 1,000 blocks of a line through the medians of 50 commits each."""
    starts = range(_FIRST_BLOCK, len(found) - _BIN + 1, _BIN)
    middles = [statistics.median(found[start : start + _BIN]) for start in starts]
    if len(middles) < 2:
        return 0.0
    return scale(statistics.linear_regression([s + _BIN / 2 for s in starts], middles).slope)

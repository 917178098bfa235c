"""What the program was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much data is made.

    Attributes:
        csv_mb: The CSV of the ingest figures.
        table_mb: The table of the logical hash, in bytes of Arrow buffers.
        slices: Slices of the dataset that is verified and exchanged.
        slice_rows: Rows of each.
        commits: Commits in a row of the latency figure.
        chain: Blocks of the long chain.
        encoded: Blocks that are encoded in a round.
        datasets: Datasets of the crowded workspace.
        derivatives: Small derivatives of one root.
        pulls: Pulls in a row of the growth curves.
        ledger: Rows of the ledger before them.
        snapshot: Rows of the snapshot.
        retained: Rows that a windowed query and an as-of join keep.
        groups: Groups of an aggregate.
        runs: Runs in a row before the checkpoint is looked at.
        replayed: Runs that are verified.
        mapped: Rows of a large map and filter.
    """

    csv_mb: int = 500
    table_mb: int = 256
    slices: int = 8
    slice_rows: int = 300_000
    commits: int = 2_000
    chain: int = 10_000
    encoded: int = 5_000
    datasets: int = 100
    derivatives: int = 50
    pulls: int = 20
    ledger: int = 5_000_000
    snapshot: int = 1_000_000
    retained: int = 100_000
    groups: int = 1_000_000
    runs: int = 50
    replayed: int = 10
    mapped: int = 5_000_000


QUICK = Sizes(
    csv_mb=20,
    table_mb=32,
    slices=2,
    slice_rows=100_000,
    commits=200,
    chain=1_000,
    encoded=1_000,
    derivatives=3,
    pulls=4,
    ledger=50_000,
    snapshot=20_000,
    retained=10_000,
    groups=20_000,
    runs=4,
    replayed=3,
    mapped=500_000,
)


@dataclass(frozen=True, slots=True)
class Options:
    """The command line, understood.

    Attributes:
        sizes: How much data is made.
        only: Names of the figures to take; all if empty.
        rounds: Measurements of each contestant.
        heavy_rounds: The same for figures that take many seconds a round.
        quick: Small data, few rounds, nothing run beforehand; for a look, not for the page.
        wait: Seconds to wait for a quiet machine, all figures together.
        test_seconds: How long `make test` took, if somebody says so.
        work: Where data is made; removed afterwards.
        page: The page to write, or None.
        lines: The file that gets a line of JSON for each figure, or None.
        merge: Whether the page shows earlier figures, too, where this run takes none.
        seed: Decides on all data.
    """

    sizes: Sizes
    only: Sequence[str]
    rounds: int
    heavy_rounds: int
    quick: bool
    wait: float
    test_seconds: float | None
    work: Path | None
    page: Path | None
    lines: Path | None
    merge: bool = False
    seed: int = 1

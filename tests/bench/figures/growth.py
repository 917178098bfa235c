"""Whether a pull gets dearer with the pulls before it."""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from odf.workspace.workspace import Workspace
from tests.bench import data
from tests.bench.datasets import new_workspace, root_manifest
from tests.bench.figure import BenchError, Contestant, Figure, Goal, Sample, Setup
from tests.bench.workbench import Workbench

_NEW = 1_000
_EDGE = 3
_COMPARES = (
    "The engine stayed, so its start is not in it; from process start to exit. The first pull, "
    "which loads everything, is not timed. *late ÷ early* is the median of the last three pulls "
    "through that of pulls 2 to 4, since one pull in some folds the history and is dearer than its "
    "neighbours; the last pull through the second one is shown, too, and the sum of all."
)


class _Growth(Figure):
    """Pulls in a row; subclasses say of what."""

    goals: ClassVar = (Goal(1.2, "late ÷ early"),)
    heavy: ClassVar = True
    untimed: ClassVar = False
    merge: ClassVar[str]
    duckdb: ClassVar[str]

    def prepare(self, bench: Workbench) -> Setup:
        """Make the dataset and load it."""
        self._seconds: list[float] = []
        self._bench = bench
        self._root = new_workspace(
            bench, bench.fresh("workspace"), root_manifest("orders", "in/*.csv", merge=self.merge)
        )
        (self._root / "in").mkdir()
        self._slices = Workspace.find(self._root).resolve("orders").path / "data"
        bench.use(bench.kept_warm(self._root))
        self._write(self._file(1))
        bench.odf(self._root, "pull", "-q", "orders", warm=True)
        contestants = [Contestant("odf", self._pull), Contestant("DuckDB", self._by_hand)]
        return Setup(contestants, self._size(), rounds=bench.sizes.pulls - 1)

    def _size(self) -> str:
        raise NotImplementedError

    def _write(self, path: Path) -> None:
        raise NotImplementedError

    def _expected(self, records: Mapping[str, int]) -> bool:
        raise NotImplementedError

    def _file(self, number: int) -> Path:
        return self._root / "in" / f"{number:03}.csv"

    @property
    def _number(self) -> int:
        """The number of the last pull."""
        return len(self._seconds) + 1

    def _pull(self) -> Sample:
        path = self._file(self._number + 1)
        self._write(path)
        self._file(self._number).unlink()
        ran, (pulled,) = self._bench.warm_pull(self._root, "orders")
        if not self._expected(pulled["records"]):
            raise BenchError(f"the pull gave {pulled['records']}")
        self._seconds.append(ran.seconds)
        return Sample(ran.seconds, {"datasets' own s": float(pulled["seconds"])})

    def _by_hand(self) -> Sample:
        new = self._file(self._number)
        return self._bench.duckdb(self.duckdb, held=f"{self._slices}/*", new=new)

    def conclude(self) -> Mapping[str, float]:
        """Give how the pulls grew."""
        found = self._seconds
        edge = min(_EDGE, max(1, len(found) // 2))
        return {
            "late ÷ early": statistics.median(found[-edge:]) / statistics.median(found[:edge]),
            f"pull {len(found) + 1} ÷ pull 2": found[-1] / found[0],
            "all pulls s": sum(found),
        }


class LedgerGrowth(_Growth):
    """New rows into a large ledger."""

    name: ClassVar = "growth-ledger"
    title: ClassVar = "Pull of 1,000 new rows into a ledger, again and again"
    compares: ClassVar = (
        f"`odf pull` of a file of 1,000 rows with new keys into a ledger. {_COMPARES} "
        "The yardstick is DuckDB, on two threads and from process start to exit, looking for the "
        "keys of the last file among those of all slices."
    )
    merge: ClassVar = "{kind: Ledger, primaryKey: [id]}"
    duckdb: ClassVar = "SELECT * FROM new ANTI JOIN held USING (id)"

    def _size(self) -> str:
        sizes = self._bench.sizes
        return f"{sizes.ledger:,} rows, {sizes.pulls} pulls"

    def _write(self, path: Path) -> None:
        held, number = self._bench.sizes.ledger, int(path.stem)
        first = 0 if number == 1 else held + (number - 2) * _NEW
        rows = held if number == 1 else _NEW
        data.write_csv(path, rows=rows, first=first, seed=self._bench.options.seed)

    def _expected(self, records: Mapping[str, int]) -> bool:
        return records == {"+A": _NEW}


class SnapshotGrowth(_Growth):
    """A table that changes a little each time."""

    name: ClassVar = "growth-snapshot"
    title: ClassVar = "Pull of a snapshot with 1 % changes, again and again"
    compares: ClassVar = (
        "`odf pull` of the whole table as a CSV, of which every hundredth row differs. "
        f"{_COMPARES} The yardstick is DuckDB, on two threads and from process start to exit, "
        "reading the last CSV and comparing it with the newest row of each key among all slices."
    )
    merge: ClassVar = "{kind: Snapshot, primaryKey: [id]}"
    duckdb: ClassVar = (
        'SELECT new.* FROM new LEFT JOIN (SELECT id, arg_max(amount, "offset") AS amount FROM held '
        "GROUP BY id) AS last USING (id) WHERE last.amount IS DISTINCT FROM new.amount"
    )

    def _size(self) -> str:
        sizes = self._bench.sizes
        return f"{sizes.snapshot:,} rows, {sizes.pulls} pulls"

    def _write(self, path: Path) -> None:
        rows, seed = self._bench.sizes.snapshot, self._bench.options.seed
        data.write_csv(path, rows=rows, seed=seed, revision=int(path.stem))

    def _expected(self, records: Mapping[str, int]) -> bool:
        # What the last revision changed is as it was again, and other rows are changed.
        changed = self._bench.sizes.snapshot // 50
        return records == {"-C": changed, "+C": changed}

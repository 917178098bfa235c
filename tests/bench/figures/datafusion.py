"""The small engine: nothing to start, and one pass over the rows."""

import json
import shutil
from pathlib import Path
from typing import ClassVar

from tests.bench.datasets import add_datasets, derivative_of
from tests.bench.figure import BenchError, Contestant, Figure, Goal, Rate, Sample, Setup
from tests.bench.history import History, with_histories
from tests.bench.workbench import Workbench

_QUERY = "SELECT event_time, k, v * 2 AS twice FROM readings WHERE v % 2 = 0"
_ROWS = 1_000
_COMPARES = (
    "`odf pull NAME` of a derivative with `engine: datafusion` (a filter that half of the rows "
    "pass, and a computed column) of a root that is here, from process start to exit: the engine "
    "is started cold in its sandbox, the slice inspected, hashed twice and committed. The "
    "yardstick is DuckDB, on two threads and from process start to exit, running the same query "
    "over the same slice into a Parquet file without hashes and system columns."
)


def _template(bench: Workbench, rows: int) -> tuple[Path, History]:
    root = bench.fresh("template")
    (history,) = with_histories(bench, root, "readings", keys=100, lag=0, rows=rows)
    bench.use(bench.kept_warm(root))
    add_datasets(bench, root, derivative_of("twice", ["readings"], _QUERY, "datafusion"))
    return root, history


def _setup(bench: Workbench, rows: int) -> tuple[Contestant, Contestant]:
    template, history = _template(bench, rows)

    def ours() -> Sample:
        root = bench.fresh("workspace")
        shutil.copytree(template, root, ignore=shutil.ignore_patterns("run"))
        ran = bench.odf(root, "pull", "-q", "-o", "json", "twice")
        (pulled,) = json.loads(ran.out)["datasets"]
        shutil.rmtree(root)
        if pulled["records"] != {"+A": rows // 2}:
            raise BenchError(f"wanted {rows // 2} rows, got {pulled['records']}")
        return Sample(ran.seconds, {"datasets' own s": pulled["seconds"]})

    def yardstick() -> Sample:
        return bench.duckdb(_QUERY, readings=f"{history.slices}/*")

    return Contestant("odf", ours), Contestant("DuckDB", yardstick)


class SmallDerivative(Figure):
    """A pull of a small derivative."""

    name: ClassVar = "datafusion-small"
    title: ClassVar = "Cold `odf pull` of a small DataFusion derivative"
    compares: ClassVar = _COMPARES
    goals: ClassVar = (Goal(0.7, "value", "s"),)

    def prepare(self, bench: Workbench) -> Setup:
        """Make the root."""
        return Setup(_setup(bench, _ROWS), f"{_ROWS:,} rows")


class LargeDerivative(Figure):
    """A pull of a large derivative."""

    name: ClassVar = "datafusion-large"
    title: ClassVar = "Map and filter of many rows by DataFusion"
    compares: ClassVar = _COMPARES
    goals: ClassVar = (Goal(1_000_000, "rate", "rows/s"),)
    heavy: ClassVar = True

    def prepare(self, bench: Workbench) -> Setup:
        """Make the root."""
        rows = bench.sizes.mapped
        return Setup(_setup(bench, rows), f"{rows:,} rows", Rate("rows/s", rows))

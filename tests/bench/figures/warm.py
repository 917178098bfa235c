"""With an engine that stayed for the next command: what a person at a terminal waits for."""

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.bench import data
from tests.bench.datasets import add_datasets, derivative_manifest, new_workspace, root_manifest
from tests.bench.figure import BenchError, Contestant, Figure, Goal, Sample, Setup
from tests.bench.figures.cold_pull import BARE, yardsticks
from tests.bench.history import with_histories
from tests.bench.processes import memory_now
from tests.bench.spark import java, spark_ddl
from tests.bench.workbench import Workbench, warm_hosts

_ROWS = 1_000
_WARM_UP = 2
_IDLE_SECONDS = 14.0
"""After ten an idle host gives its memory back."""


def sample(bench: Workbench, root: Path, *what: str, datasets: int = 1) -> Sample:
    """Take a warm pull, with the part of it that is about the datasets themselves."""
    ran, pulled = bench.warm_pull(root, *what)
    if len(pulled) != datasets:
        raise BenchError(f"wanted {datasets} datasets, got {len(pulled)}")
    return Sample(ran.seconds, {"datasets' own s": sum(one["seconds"] for one in pulled)})


def _fresh_datasets(bench: Workbench) -> tuple[Path, Callable[[], int]]:
    """Make a warm workspace, and what adds a root and a derivative that were never pulled."""
    root = new_workspace(bench, bench.fresh("workspace"))
    bench.use(bench.kept_warm(root))
    data.write_csv(root / "orders.csv", rows=_ROWS, seed=bench.options.seed)
    numbers = itertools.count()

    def add() -> int:
        number = next(numbers)
        add_datasets(
            bench,
            root,
            root_manifest(f"orders{number}", "orders.csv"),
            derivative_manifest(f"totals{number}", f"orders{number}"),
        )
        return number

    for _ in range(_WARM_UP):
        bench.odf(root, "pull", "-q", "-r", f"totals{add()}", warm=True)
    return root, add


class WarmPull(Figure):
    """A warm pull of a root dataset."""

    name: ClassVar = "warm-pull"
    title: ClassVar = "Warm `odf pull` of a small CSV"
    compares: ClassVar = (
        "`odf pull NAME` of a dataset that has never been pulled, where an engine stayed from an "
        "earlier command (`engine.idleTimeout`) and has done such work before, from process start "
        "to exit; the run counts only if that same engine was used. *datasets' own* is the part "
        "between taking and giving back the dataset's lock: fetch, engine, inspection, commit; so "
        f"the engine's part is less. {BARE}"
    )
    goals: ClassVar = (Goal(1.0, "value", "s"), Goal(0.6, "datasets' own s", "s"))
    heavy: ClassVar = True

    def prepare(self, bench: Workbench) -> Setup:
        """Make the workspace, and its engine warm."""
        root, add = _fresh_datasets(bench)
        ours = Contestant("odf", lambda: sample(bench, root, f"orders{add()}"))
        return Setup([ours, *yardsticks(bench)[:1]], f"{_ROWS:,} rows, 8 columns")


class WarmPullDerived(Figure):
    """A warm pull of a root dataset and a derivative of it."""

    name: ClassVar = "warm-pull-derived"
    title: ClassVar = "Warm `odf pull -r` of a root and a derivative"
    compares: ClassVar = (
        "The same for `odf pull -r NAME` of a derivative (a filter and two computed columns) whose "
        f"root has never been pulled either. {BARE}"
    )
    heavy: ClassVar = True
    slow: ClassVar = True

    def prepare(self, bench: Workbench) -> Setup:
        """Make the workspace, and its engine warm."""
        root, add = _fresh_datasets(bench)
        ours = Contestant("odf", lambda: sample(bench, root, "-r", f"totals{add()}", datasets=2))
        return Setup([ours, *yardsticks(bench)[:1]], f"{_ROWS:,} rows, 2 datasets")


class ManyDerivatives(Figure):
    """Many small derivatives in one warm pull."""

    name: ClassVar = "many-derivatives"
    title: ClassVar = "Small derivatives in one warm pull, each"
    compares: ClassVar = (
        "`odf pull` of many derivatives (a filter and a computed column each) of one root that has "
        "1,000 new rows, with an engine that stayed, from process start to exit, divided by their "
        "number. The yardstick is one session of bare PySpark that runs the same queries one after "
        "the other over the same slices and writes each result as Parquet parts, divided likewise; "
        "the start of its session is left out."
    )
    goals: ClassVar = (Goal(0.6, "value", "s"),)
    heavy: ClassVar = True
    untimed: ClassVar = False

    def prepare(self, bench: Workbench) -> Setup:
        """Make the datasets and pull them once."""
        count, root = bench.sizes.derivatives, bench.fresh("workspace")
        (history,) = with_histories(bench, root, "readings", keys=100, lag=0, rows=_ROWS)
        queries = [f"SELECT event_time, k, v * {n} AS w FROM readings WHERE k > {n}"
                   for n in range(count)]  # fmt: skip
        names = [f"small-{number:03}" for number in range(count)]
        bench.use(bench.kept_warm(root))
        pairs = zip(names, queries, strict=True)
        add_datasets(bench, root, *(derivative_manifest(n, "readings", q) for n, q in pairs))
        bench.odf(root, "pull", "-q", *names, warm=True)

        def ours() -> Sample:
            history.add(_ROWS)
            found = sample(bench, root, *names, datasets=count)
            return Sample(found.value / count, {"all s": found.value})

        def yardstick() -> Sample:
            script, target = bench.script("spark_queries.py"), bench.fresh("results")
            ran = bench.run_python(script, java(), history.slices, target, "readings", *queries)
            seconds = json.loads(ran.out.splitlines()[-1])["seconds"]
            return Sample(seconds / count, {"all, with the start s": ran.seconds})

        bare = Contestant("bare PySpark, started", yardstick)
        return Setup([Contestant("odf", ours), bare], f"{count} derivatives, 1,000 new rows")


class IdleMemory(Figure):
    """Memory of an engine that waits."""

    name: ClassVar = "idle-memory"
    title: ClassVar = "Memory of an engine that stayed, idle"
    compares: ClassVar = (
        f"Memory of all processes of the engine's host {_IDLE_SECONDS:.0f} s after a pull of 1,000 "
        "rows (a page that several processes share counts once, mapped files included); beside a "
        "bare PySpark session, its Python and its JVM, as long after it has read the same CSV."
    )
    unit: ClassVar = "MB"
    heavy: ClassVar = True
    slow: ClassVar = True
    untimed: ClassVar = False
    max_rounds: ClassVar = 2

    def prepare(self, bench: Workbench) -> Setup:
        """Make the workspace."""
        root, add = _fresh_datasets(bench)

        def ours() -> Sample:
            sample(bench, root, f"orders{add()}")
            return _after_idling(warm_hosts(root)["spark"])

        def yardstick() -> Sample:
            with _idle_session(bench, root / "orders.csv") as pid:
                return _after_idling(pid)

        bare = Contestant("bare PySpark", yardstick)
        return Setup([Contestant("odf", ours), bare], f"after {_IDLE_SECONDS:.0f} s")


def _after_idling(pid: int) -> Sample:
    time.sleep(_IDLE_SECONDS)
    found: Mapping[str, Any] = memory_now(pid)
    if not found:
        raise BenchError("the process whose memory was to be seen is gone")
    return Sample(sum(found.values()), {f"{role} MB": size for role, size in found.items()})


@contextlib.contextmanager
def _idle_session(bench: Workbench, csv: Path) -> Iterator[int]:
    words = [bench.python, bench.script("bare_idle.py"), java(), csv, spark_ddl()]
    with subprocess.Popen(
        [str(word) for word in words],
        env=dict(bench.environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        said = process.stdout.readline() if process.stdout else ""
        if said != "idle\n":
            raise BenchError(f"the bare session said {said!r}")
        yield process.pid

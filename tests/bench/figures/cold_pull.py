"""The run that people judge by: a small file, nothing warm, beside a bare PySpark script."""

import json
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from tests.bench import data
from tests.bench.datasets import derivative_manifest, new_workspace, root_manifest
from tests.bench.figure import BenchError, Contestant, Figure, Goal, Sample, Setup
from tests.bench.processes import Ran
from tests.bench.spark import java, launcher_java, spark_ddl
from tests.bench.workbench import Workbench

_ROWS = 1_000
BARE = (
    "The yardstick is a script of a dozen lines: the same Java executable started with all of "
    "Spark's jars and stock options (only what Spark needs to run on that Java; no archive, no "
    "choice of compiler or collector), `getOrCreate()`, read the same CSV with its schema, group, "
    "collect. Its output is checked against Arrow's. PySpark's launcher script cannot start that "
    "Java, so the script starts the JVM itself, which spares it the launcher's first JVM; where "
    "the machine has a JDK of its own, the launcher on that JDK is shown too."
)


def _template(bench: Workbench) -> Path:
    """A workspace with a root and a derivative that were never pulled."""

    def make() -> Path:
        derived = derivative_manifest("totals", "orders")
        manifests = (root_manifest("orders", "orders.csv"), derived)
        root = new_workspace(bench, bench.place("template"), *manifests)
        data.write_csv(root / "orders.csv", rows=_ROWS, seed=bench.options.seed)
        return root

    return bench.shared("template", make)


def _copy(bench: Workbench) -> Path:
    root = bench.fresh("workspace")
    shutil.copytree(_template(bench), root)
    return root


def _pull(bench: Workbench, *what: str, datasets: int, watched: bool = False) -> Ran:
    ran = bench.odf(_copy(bench), "pull", *what, stages=True, watched=watched)
    if ran.out.count(" updated ") != datasets or f"{_ROWS:,} +A" not in ran.out:
        raise BenchError(f"wanted {datasets} datasets and {_ROWS:,} rows, got: {ran.out}")
    return ran


def _timed(ran: Ran) -> Sample:
    return Sample(ran.seconds, stage_seconds(ran))


def _worked(ran: Ran) -> Sample:
    cpu = dict(ran.cpu)
    total = cpu.pop("total")
    return Sample(total, {f"{role} CPU s": seconds for role, seconds in sorted(cpu.items())})


def stage_seconds(ran: Ran) -> Mapping[str, float]:
    """Return what lies between the progress lines of a pull, in seconds.

    The engine starts between `reading FILE`, which the coordinator says, and `read`, which is the
    first word of the engine.
    """
    marks = [(0.0, "process start")]
    for at, line in ran.stages:
        dataset, _, stage = line.partition(": ")
        if dataset and stage:
            marks.append((at, f"{dataset} {'hand over' if stage.startswith('reading') else stage}"))
    marks.append((ran.seconds, "exit"))
    return {f"{first} → {then} s": at - before for (before, first), (at, then) in pairwise(marks)}


def _bare(
    bench: Workbench, wanted: Mapping[str, Sequence[int]], which: str, *, watched: bool = False
) -> Ran:
    csv = _template(bench) / "orders.csv"
    ran = bench.run_python(bench.script("bare_query.py"), which, csv, spark_ddl(), watched=watched)
    if json.loads(ran.out.splitlines()[-1]) != wanted:
        raise BenchError("bare PySpark gave another result than Arrow")
    return ran


def _wanted(bench: Workbench) -> Mapping[str, Sequence[int]]:
    """Return what the bare script has to find: rows and sum of each group."""
    rows = data.table(_ROWS, bench.options.seed)
    grouped = rows.group_by("city").aggregate([("city", "count"), ("quantity", "sum")])
    return {row["city"]: [row["city_count"], row["quantity_sum"]] for row in grouped.to_pylist()}


def yardsticks(bench: Workbench) -> list[Contestant]:
    """Return the bare script on odf's Java, and on the machine's own if there is one."""
    wanted = _wanted(bench)

    def once(which: str) -> Sample:
        return Sample(_bare(bench, wanted, which).seconds)

    def bare(name: str, which: str) -> Contestant:
        if bench.options.quick:
            # One for all figures that have this yardstick: it takes most of their time.
            return Contestant(name, lambda: bench.shared(f"bare {which}", lambda: once(which)))
        return Contestant(name, lambda: once(which))

    found = [bare("bare PySpark", java())]
    if launcher_java() and not bench.options.quick:
        found.append(bare(f"launcher on Java {launcher_java()}", "launcher"))
    return found


class ColdPull(Figure):
    """A cold pull of a root dataset."""

    name: ClassVar = "cold-pull"
    title: ClassVar = "Cold `odf pull` of a small CSV"
    compares: ClassVar = (
        "`odf pull NAME` of a CSV in a workspace that has never been pulled, from process start to "
        "exit: sandbox, engine, reading, slice, inspection, both hashes, commit, and the orderly "
        f"end of the engine. {BARE}"
    )
    goals: ClassVar = (Goal(0.40, "ratio", yardstick="bare PySpark"),)
    heavy: ClassVar = True

    def prepare(self, bench: Workbench) -> Setup:
        """Make the workspace that is copied for every round."""
        ours = Contestant("odf", lambda: _timed(_pull(bench, "orders", datasets=1)))
        return Setup([ours, *yardsticks(bench)], f"{_ROWS:,} rows, 8 columns")


class ColdPullDerived(Figure):
    """A cold pull of a root dataset and a derivative of it."""

    name: ClassVar = "cold-pull-derived"
    title: ClassVar = "Cold `odf pull -r` of a root and a derivative"
    compares: ClassVar = (
        "`odf pull -r NAME` of a derivative (a filter and two computed columns) whose root has "
        "never been pulled either: both in one run, from process start to exit. The yardstick is "
        f"the same script as above, which has only one of the two things to do. {BARE}"
    )
    goals: ClassVar = (Goal(0.55, "ratio", yardstick="bare PySpark"),)
    heavy: ClassVar = True

    def prepare(self, bench: Workbench) -> Setup:
        """Make the workspace that is copied for every round."""
        ours = Contestant("odf", lambda: _timed(_pull(bench, "-r", "totals", datasets=2)))
        return Setup([ours, *yardsticks(bench)[:1]], f"{_ROWS:,} rows, 2 datasets")


class ColdPullCpu(Figure):
    """Processor time of a cold pull."""

    name: ClassVar = "cold-pull-cpu"
    title: ClassVar = "Processor time of that cold pull"
    compares: ClassVar = (
        "Seconds of processor time of all processes of the cold pull of the root dataset, and of "
        "the same bare script, seen ten times a second: the last tenth of each process is missing. "
        "It moves less with the load of the machine than the time on the clock."
    )
    heavy: ClassVar = True
    slow: ClassVar = True
    untimed: ClassVar = False
    max_rounds: ClassVar = 2

    def prepare(self, bench: Workbench) -> Setup:
        """Make the workspace that is copied for every round."""
        wanted = _wanted(bench)
        bare = Contestant(
            "bare PySpark", lambda: _worked(_bare(bench, wanted, java(), watched=True))
        )
        ours = Contestant("odf", lambda: _worked(_pull(bench, "orders", datasets=1, watched=True)))
        return Setup([ours, bare], f"{_ROWS:,} rows, CPU seconds")

"""How long it takes to find that there is nothing to do."""

import json
from pathlib import Path
from typing import ClassVar

from tests.bench.datasets import crowded_workspace
from tests.bench.figure import BenchError, Contestant, Figure, Goal, Sample, Setup
from tests.bench.figures.startup import python_pass
from tests.bench.workbench import Workbench


def _pull(bench: Workbench, root: Path, *what: str) -> Sample:
    ran = bench.odf(root, "pull", "-q", "-o", "json", *what)
    found = {entry["status"] for entry in json.loads(ran.out)["datasets"]}
    if found != {"up-to-date"}:
        raise BenchError(f"wanted datasets that are up to date, got {sorted(found)}")
    newest = max((root / ".odf" / "run").glob("*-pull"), default=root)
    if (newest / "spark").exists():
        raise BenchError(f"an engine was started although nothing is new: {newest}")
    return Sample(ran.seconds)


class UpToDateOne(Figure):
    """A pull of one dataset that has nothing new."""

    name: ClassVar = "up-to-date-1"
    title: ClassVar = "Up-to-date `odf pull` of one dataset"
    compares: ClassVar = (
        "`odf pull NAME` of a dataset whose source file has not changed, in the crowded workspace, "
        "from process start to exit; beside the same interpreter running an empty program. The run "
        "counts only if no engine was started."
    )

    def prepare(self, bench: Workbench) -> Setup:
        """Make the workspace."""
        root = crowded_workspace(bench)
        ours = Contestant("odf", lambda: _pull(bench, root, "prices-007"))
        return Setup([ours, python_pass(bench)], "1 dataset")


class UpToDateMany(Figure):
    """A pull of all datasets of a crowded workspace that have nothing new."""

    name: ClassVar = "up-to-date-100"
    title: ClassVar = "Up-to-date `odf pull --all`"
    compares: ClassVar = (
        "`odf pull --all` where no source has changed, from process start to exit; beside the same "
        "interpreter running an empty program. Every dataset is locked, its source looked for on "
        "disk and compared with the recorded state. The run counts only if no engine was started."
    )
    goals: ClassVar = (Goal(0.5, "value", "s"),)

    def prepare(self, bench: Workbench) -> Setup:
        """Make the workspace."""
        root = crowded_workspace(bench)
        ours = Contestant("odf", lambda: _pull(bench, root, "--all"))
        return Setup([ours, python_pass(bench)], f"{bench.sizes.datasets} datasets")

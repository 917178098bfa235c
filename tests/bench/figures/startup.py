"""How long the shortest commands take."""

from typing import ClassVar

from tests.bench.datasets import crowded_workspace
from tests.bench.figure import BenchError, Contestant, Figure, Sample, Setup
from tests.bench.workbench import Workbench


def python_pass(bench: Workbench) -> Contestant:
    """The yardstick of everything that is short: the interpreter doing nothing."""
    return Contestant("python -c pass", lambda: Sample(bench.run_python("-c", "pass").seconds))


class Version(Figure):
    """`odf --version`."""

    name: ClassVar = "version"
    title: ClassVar = "`odf --version`"
    compares: ClassVar = (
        "The installed `odf` program from process start to exit, beside the same interpreter "
        "running an empty program. The difference is what the command line itself costs."
    )

    def prepare(self, bench: Workbench) -> Setup:
        """Nothing is needed."""

        def ours() -> Sample:
            ran = bench.odf(bench.folder, "--version")
            if not ran.out.startswith("odf "):
                raise BenchError(f"odf --version said {ran.out!r}")
            return Sample(ran.seconds)

        return Setup([Contestant("odf", ours), python_pass(bench)])


class ListDatasets(Figure):
    """`odf list` in a crowded workspace."""

    name: ClassVar = "list"
    title: ClassVar = "`odf list` of many datasets"
    compares: ClassVar = (
        "`odf list` in a workspace of many small datasets, each with a source and one slice, all "
        "chain states cached, from process start to exit; beside the same interpreter running an "
        "empty program."
    )

    def prepare(self, bench: Workbench) -> Setup:
        """Make the datasets."""
        root = crowded_workspace(bench)
        count = bench.sizes.datasets

        def ours() -> Sample:
            ran = bench.odf(root, "list")
            if ran.out.count("prices-") != count:
                raise BenchError(f"odf list showed {ran.out.count('prices-')} of {count} datasets")
            return Sample(ran.seconds)

        return Setup([Contestant("odf", ours), python_pass(bench)], f"{count} datasets")

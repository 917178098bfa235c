"""Datasets on their way, beside a copy of the same bytes."""

import contextlib
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

from tests.bench.datasets import SlicedDataset, new_workspace, sliced_dataset
from tests.bench.figure import BenchError, Contestant, Figure, Rate, Sample, Setup
from tests.bench.processes import run
from tests.bench.timing import timed
from tests.bench.workbench import Workbench

_MB = 1_000_000
_COPY = (
    "The yardstick is `cp -r` of the dataset's folder, which hashes nothing and does not wait for "
    "the disk; odf hashes every byte, checks every block and syncs every file and folder."
)


def _copy(bench: Workbench, made: SlicedDataset) -> Contestant:
    def work() -> Sample:
        command: list[str | Path] = ["cp", "-r", made.folder, bench.fresh("copy")]
        return Sample(run(command, cwd=bench.folder, env=bench.environment).seconds)

    return Contestant("cp -r", work)


def _setup(made: SlicedDataset, *contestants: Contestant) -> Setup:
    mb = made.size / _MB
    return Setup(contestants, f"{mb:.0f} MB, {len(made.files)} files", Rate("MB/s", mb))


def _check(made: SlicedDataset, copy: Path) -> None:
    head = (made.folder / "refs" / "head").read_text()
    if (copy / "refs" / "head").read_text() != head:
        raise BenchError(f"the dataset at {copy} has another head")


def _pulled(bench: Workbench, made: SlicedDataset, url: str) -> Sample:
    root = new_workspace(bench, bench.fresh("workspace"))
    ran = bench.odf(root, "pull", "-q", url, "--as", made.name)
    _check(made, root / ".odf" / "datasets" / made.folder.name)
    return Sample(ran.seconds)


class PushFolder(Figure):
    """A push to a folder."""

    name: ClassVar = "push-folder"
    title: ClassVar = "`odf push` to a folder"
    compares: ClassVar = (
        f"`odf push NAME --to file://…` into a new folder, from process start to exit. {_COPY}"
    )

    def prepare(self, bench: Workbench) -> Setup:
        """Make the dataset."""
        made = sliced_dataset(bench)

        def ours() -> Sample:
            target = bench.fresh("shelf")
            ran = bench.odf(made.root, "push", "-q", made.name, "--to", target.as_uri())
            _check(made, target)
            return Sample(ran.seconds)

        return _setup(made, Contestant("odf", ours), _copy(bench, made))


class PullFolder(Figure):
    """A pull from a folder."""

    name: ClassVar = "pull-folder"
    title: ClassVar = "`odf pull` from a folder"
    compares: ClassVar = (
        f"`odf pull file://… --as NAME` into a new workspace, from process start to exit. {_COPY}"
    )

    def prepare(self, bench: Workbench) -> Setup:
        """Make the dataset."""
        made = sliced_dataset(bench)
        url = made.folder.as_uri()
        ours = Contestant("odf", lambda: _pulled(bench, made, url))
        return _setup(made, ours, _copy(bench, made))


class PullHttp(Figure):
    """A pull over HTTP."""

    name: ClassVar = "pull-http"
    title: ClassVar = "`odf pull` over localhost HTTP"
    compares: ClassVar = (
        "`odf pull http://127.0.0.1:… --as NAME` into a new workspace, from process start to exit, "
        "served by `python -m http.server` on the same machine (so the server's share of the "
        f"processors is in it). {_COPY} The second yardstick fetches the same files from the same "
        "server with `urllib`, one after the other, in this process."
    )

    def prepare(self, bench: Workbench) -> Setup:
        """Make the dataset and serve it."""
        made = sliced_dataset(bench)
        url = bench.use(_served(bench, made.folder))
        paths = [path.relative_to(made.folder) for path in made.files]

        def fetched() -> Sample:
            target = bench.fresh("fetched")
            target.mkdir()
            return timed(_fetching(url, paths, target))

        return _setup(
            made,
            Contestant("odf", lambda: _pulled(bench, made, url)),
            _copy(bench, made),
            Contestant("urllib", fetched),
        )


def _fetching(url: str, paths: list[Path], target: Path) -> Callable[[], None]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def work() -> None:
        for path in paths:
            with opener.open(f"{url}/{path}") as answer, (target / path.name).open("wb") as file:
                shutil.copyfileobj(answer, file, 1 << 20)

    return work


@contextlib.contextmanager
def _served(bench: Workbench, folder: Path) -> Iterator[str]:
    """Serve a folder from a process of its own."""
    words = ["-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(folder), "0"]
    with subprocess.Popen(
        [bench.python, *words],
        env=dict(bench.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            found = re.search(r"port (\d+)", server.stdout.readline() if server.stdout else "")
            if found is None:
                raise BenchError("the web server did not start")
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            server.terminate()

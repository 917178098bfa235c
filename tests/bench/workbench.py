"""Where figures are taken: a folder of its own, an environment that knows nothing, and `odf`."""

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.bench.figure import BenchError, Sample
from tests.bench.machine import engine_runtime
from tests.bench.options import Options, Sizes
from tests.bench.processes import Ran, run

T = TypeVar("T")

_DROPPED = ("ODF_", "XDG_", "SPARK_", "PYSPARK_", "JAVA_", "JDK_", "PYTHON", "CLICOLOR", "HADOOP_")


class Workbench:
    """The surroundings of all figures of a run.

    Args:
        options: What the run was asked for.
        folder: Everything is made below it.
    """

    def __init__(self, options: Options, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.python = Path(sys.executable)
        self.odf_program = self.python.parent / "odf"
        home = folder / "home"
        home.mkdir(parents=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_DROPPED)}
        # The class archive that `make install` made is part of what is measured.
        cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        self.environment: Mapping[str, str] = {
            **kept,
            "HOME": str(home),
            "XDG_CACHE_HOME": cache,
            "TERM": "dumb",
            # Not every machine has images, so all figures but that of their start do without.
            "ODF_ENGINE__RUNTIME": engine_runtime(),
        }
        self._warm = {**self.environment, "ODF_ENGINE__IDLE_TIMEOUT": "5m"}
        self._peaks: list[float] | None = None
        self.data_home = home / ".local" / "share"
        self._shared: dict[str, Any] = {}
        self._stack = contextlib.ExitStack()
        self._counter = 0

    @property
    def sizes(self) -> Sizes:
        """How much data to make."""
        return self.options.sizes

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """Return what several figures use; it is made when first asked for."""
        if name not in self._shared:
            try:
                self._shared[name] = make()
            except Exception as error:
                self._shared[name] = error
                raise
        if isinstance(self._shared[name], Exception):
            raise BenchError(f"what it needs could not be made: {self._shared[name]}")
        found: T = self._shared[name]
        return found

    @contextlib.contextmanager
    def scope(self) -> Iterator[Self]:
        """Surround one figure: what it opened is closed, and its fresh folders are removed."""
        try:
            with contextlib.ExitStack() as stack:
                self._stack = stack
                yield self
        finally:
            shutil.rmtree(self.folder / "fresh", ignore_errors=True)

    def use(self, manager: contextlib.AbstractContextManager[T]) -> T:
        """Enter something that is left when the figure is done."""
        return self._stack.enter_context(manager)

    def fresh(self, name: str) -> Path:
        """Return a path that does not exist yet, in a folder that does."""
        self._counter += 1
        folder = self.folder / "fresh" / str(self._counter)
        folder.mkdir(parents=True)
        return folder / name

    def place(self, name: str) -> Path:
        """Return a path for something that several figures share."""
        path = self.folder / "shared" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[float]]:
        """Give the list of the peaks of memory in MB of each `odf` that is run meanwhile."""
        self._peaks = []
        try:
            yield self._peaks
        finally:
            self._peaks = None

    def odf(
        self,
        workspace: Path,
        *words: str,
        stages: bool = False,
        watched: bool = False,
        warm: bool = False,
    ) -> Ran:
        """Run the command line in a workspace, in a process of its own, and time it.

        Args:
            workspace: Where.
            words: What.
            stages: Note when it says what; it says more with `-v`.
            watched: Watch its memory and processor time.
            warm: Use an engine that stays, or leave one.
        """
        if not self.odf_program.is_file():
            raise BenchError(f"no odf beside {self.python}: run `make install`")
        ran = run(
            [self.odf_program, *words, *(["-v"] if stages else [])],
            cwd=workspace,
            env=self._warm if warm else self.environment,
            stages=stages,
            watched=watched or self._peaks is not None,
        )
        if self._peaks is not None and "total" in ran.memory:
            self._peaks.append(ran.memory["total"])
        return ran

    def odf_json(self, workspace: Path, *words: str, warm: bool = False) -> Mapping[str, Any]:
        """Run the command line and return the document that it prints."""
        found: Mapping[str, Any] = json.loads(
            self.odf(workspace, *words, "-q", "-o", "json", warm=warm).out
        )
        return found

    @contextlib.contextmanager
    def kept_warm(self, workspace: Path) -> Iterator[None]:
        """End the engine that stays in a workspace in the end."""
        try:
            yield
        finally:
            self.odf(workspace, "engine", "stop", "-q")

    def warm_pull(self, workspace: Path, *what: str) -> tuple[Ran, list[Mapping[str, Any]]]:
        """Pull with the engine that stays there.

        Returns:
            How it ran, and what it says of each dataset.

        Raises:
            BenchError: If there was no engine, or it was not used.
        """
        before = warm_hosts(workspace)
        ran = self.odf(workspace, "pull", "-q", "-o", "json", *what, warm=True)
        if not before or warm_hosts(workspace) != before:
            raise BenchError("the engine did not stay: were files of the package changed?")
        pulled: list[Mapping[str, Any]] = json.loads(ran.out)["datasets"]
        if any(one["status"] != "updated" for one in pulled):
            raise BenchError(f"wanted datasets that were updated, got: {pulled}")
        return ran, pulled

    def duckdb(self, query: str, **sources: Path | str) -> Sample:
        """Run a query over Parquet or CSV files in DuckDB, in a process of its own."""
        target = self.fresh("result.parquet")
        views = [f"{name}={pattern}" for name, pattern in sources.items()]
        ran = self.run_python(self.script("duckdb_query.py"), target, query, *views)
        return Sample(ran.seconds)

    def run_python(self, *words: str | Path, cwd: Path | None = None, watched: bool = False) -> Ran:
        """Run the same interpreter with something else, and time it."""
        return run(
            [self.python, *words], cwd=cwd or self.folder, env=self.environment, watched=watched
        )

    def script(self, name: str) -> Path:
        """Return the path of one of the yardsticks' scripts."""
        return Path(__file__).parent / "scripts" / name


def warm_hosts(workspace: Path) -> dict[str, int]:
    """Return the process ids of the engines that stay in a workspace, by name."""
    found = (workspace / ".odf" / "run" / "hosts").glob("*/host.json")
    return {path.parent.name: int(json.loads(path.read_text())["pid"]) for path in found}

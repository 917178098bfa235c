"""Where figures are taken: a folder of its own, an environment that knows nothing, and `odf`."""

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.bench.figure import BenchError
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
        }
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

    def odf(self, workspace: Path, *words: str, stages: bool = False, watched: bool = False) -> Ran:
        """Run the command line in a workspace, in a process of its own, and time it."""
        if not self.odf_program.is_file():
            raise BenchError(f"no odf beside {self.python}: run `make install`")
        return run(
            [self.odf_program, *words],
            cwd=workspace,
            env=self.environment,
            stages=stages,
            watched=watched,
        )

    def run_python(self, *words: str | Path, cwd: Path | None = None, watched: bool = False) -> Ran:
        """Run the same interpreter with something else, and time it."""
        return run(
            [self.python, *words], cwd=cwd or self.folder, env=self.environment, watched=watched
        )

    def script(self, name: str) -> Path:
        """Return the path of one of the yardsticks' scripts."""
        return Path(__file__).parent / "scripts" / name

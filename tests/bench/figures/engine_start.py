"""What a sandbox adds to the start of an engine."""

import os
import time
from pathlib import Path
from typing import ClassVar, Literal

from odf.errors import EngineUnavailableError
from odf.runtimes.base import EngineCommand, Runtime, python_command
from odf.runtimes.images import ARCHIVES_INSIDE
from odf.runtimes.pool import SPARK, archives_folder, own_image
from odf.runtimes.process import ProcessRuntime
from odf.runtimes.select import select_runtime
from tests.bench.figure import Contestant, Figure, Goal, LeftOut, Sample, Setup
from tests.bench.workbench import Workbench

_COMPARES = (
    "From starting the Spark engine until it answers, in this process, with its class archive "
    "where there is one; beside the same engine as a plain process. That the sandbox works at all "
    "is tried beforehand."
)


def _command(bench: Workbench) -> EngineCommand:
    """Say how the engine is started, as the commands do."""
    archives = archives_folder(Path(bench.environment["XDG_CACHE_HOME"]))
    return python_command(
        "odf.engines.spark",
        *("--archives", str(archives)),
        read_only=(archives,) if archives.is_dir() else (),
        container=own_image(SPARK, "--archives", ARCHIVES_INSIDE),
    )


def _chosen(command: EngineCommand, *names: Literal["docker", "podman", "bubblewrap"]) -> Runtime:
    """Return the first runtime that works.

    Raises:
        LeftOut: If none does.
    """
    reasons = []
    for name in names:
        try:
            return select_runtime(name, command, trusted=True).runtime
        except EngineUnavailableError as error:
            reasons.append(error.message)
    raise LeftOut("; ".join(reasons))


def _started(bench: Workbench, runtime: Runtime) -> Sample:
    run_dir = bench.fresh("run")
    run_dir.mkdir()
    started = time.perf_counter()
    with runtime.start(run_dir):
        return Sample(time.perf_counter() - started)


def _setup(bench: Workbench, command: EngineCommand, runtime: Runtime) -> Setup:
    plain = ProcessRuntime(command)
    contestants = [
        Contestant(f"odf in {runtime.name}", lambda: _started(bench, runtime)),
        Contestant("plain process", lambda: _started(bench, plain)),
    ]
    return Setup(contestants, f"Spark, {os.cpu_count()} processors")


class ContainerStart(Figure):
    """Start of an engine in a container."""

    name: ClassVar = "container-start"
    title: ClassVar = "Start of the engine in a container"
    compares: ClassVar = _COMPARES
    goals: ClassVar = (Goal(1.3, "ratio"),)
    heavy: ClassVar = True

    def prepare(self, bench: Workbench) -> Setup:
        """Look for a container runtime that works and has the image."""
        command = _command(bench)
        if command.container is None:
            raise LeftOut("what the image is made of is not installed")
        return _setup(bench, command, _chosen(command, "docker", "podman"))


class SandboxStart(Figure):
    """Start of an engine in bubblewrap."""

    name: ClassVar = "sandbox-start"
    title: ClassVar = "Start of the engine in bubblewrap"
    compares: ClassVar = _COMPARES
    heavy: ClassVar = True
    slow: ClassVar = True

    def prepare(self, bench: Workbench) -> Setup:
        """Look whether bubblewrap works."""
        command = _command(bench)
        return _setup(bench, command, _chosen(command, "bubblewrap"))

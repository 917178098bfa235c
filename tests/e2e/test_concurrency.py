"""Several `odf pull` at once, and ones that are killed: nothing is lost, nothing doubled."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from odf.workspace.workspace import DatasetHandle, Workspace
from tests.conftest import PROJECT
from tests.e2e.test_real_series import root_manifest

pytestmark = pytest.mark.spark

ROWS = 3000


class Machine:
    """The program in processes of its own, with a workspace of the dataset `log`.

    Args:
        root: An empty folder.
    """

    def __init__(self, root: Path) -> None:
        self.workspace = root / "workspace"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ODF_")}
        self.environment = {
            **kept,
            "HOME": str(root),
            "XDG_DATA_HOME": str(root / "data"),
            "XDG_CACHE_HOME": str(root / "cache"),
            "PYTHONPATH": str(PROJECT),
            "ODF_WORKSPACE": str(self.workspace),
            "ODF_ENGINE__RUNTIME": "process",
        }
        assert self.odf("init", str(self.workspace)) == 0
        manifest = self.workspace / "log.yaml"
        manifest.write_text(root_manifest("log", merge="{kind: Append}", schema=["id BIGINT"]))
        assert self.odf("add", str(manifest)) == 0
        rows = "".join(f"{number}\n" for number in range(ROWS))
        (self.workspace / "source.csv").write_text("id\n" + rows)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "odf", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def odf(self, *arguments: str) -> int:
        """Run a command and return its exit code."""
        process = self.start(*arguments)
        process.communicate(timeout=120)
        return process.returncode

    @property
    def log(self) -> DatasetHandle:
        """The dataset, as a process that has just started sees it."""
        return Workspace.find(self.workspace).resolve("log")

    def assert_complete(self) -> None:
        """Each row is there once, in one commit, and all is sound."""
        state = self.log.dataset.state(use_cache=False)
        assert (state.num_records, state.num_slices) == (ROWS, 1)
        assert state.next_offset == ROWS
        assert self.odf("verify", "log") == 0
        assert self.odf("pull", "log") == 0
        assert self.log.dataset.head() == state.head


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_several_pulls_at_once(machine: Machine) -> None:
    """Two that wait for each other and two that do not."""
    before = machine.log.dataset.state().num_blocks
    waiting = ("pull", "log", "--lock-timeout", "100s", "-o", "json")
    pulls = [machine.start(*arguments) for arguments in (waiting, ("pull", "log")) * 2]
    ended = [process.communicate(timeout=120) for process in pulls]
    codes = [process.returncode for process in pulls]
    assert [codes[0], codes[2]] == [0, 0], ended
    assert {codes[1], codes[3]} <= {0, 8}, ended
    told = [json.loads(out)["datasets"][0] for out, _ in ended[::2]]
    committed = [found for found in told if found["status"] == "updated"]
    assert len(committed) <= 1
    assert machine.log.dataset.state().num_blocks == before + 2  # the schema and the rows
    machine.assert_complete()


def runs(machine: Machine) -> Path:
    return machine.workspace / ".odf" / "run"


def engine_reads(machine: Machine, process: subprocess.Popen[str]) -> bool:
    """The engine of a process was handed its files."""
    return any(runs(machine).glob(f"*-{process.pid}-pull/spark/engine/in/*/*"))


def slice_waits(machine: Machine, process: subprocess.Popen[str]) -> bool:
    """The slice that the engine wrote waits for its commit, or was just moved into place."""
    return any(runs(machine).glob(f"*-{process.pid}-pull/staging/slice-*")) or any(
        (machine.log.path / "data").glob("*")
    )


def kill_when(
    machine: Machine, moment: Callable[[Machine, subprocess.Popen[str]], bool]
) -> subprocess.Popen[str]:
    """Start a pull and kill it, as nothing else would, at a moment."""
    process = machine.start("pull", "log")
    deadline = time.monotonic() + 100
    while not moment(machine, process):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    return process


def test_pulls_that_are_killed(machine: Machine) -> None:
    """While the engine reads, and between the engine's end and the commit's."""
    head = machine.log.dataset.head()
    kill_when(machine, engine_reads)
    assert machine.log.dataset.head() == head
    assert not any((machine.log.path / "data").glob("*"))
    assert machine.odf("verify", "log") == 0
    kill_when(machine, slice_waits)
    assert machine.log.dataset.state(use_cache=False).num_records in {0, ROWS}
    assert machine.odf("verify", "log") == 0
    assert machine.odf("pull", "log") == 0
    machine.assert_complete()

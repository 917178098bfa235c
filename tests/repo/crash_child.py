"""A process that changes a dataset and may be killed at the n-th step that touches the disk.

`crash_child.py SCENARIO FOLDER SCRATCH` leaves a copy of FOLDER in SCRATCH for each step, as it is
after a kill at that step; `crash_child.py SCENARIO again FOLDER…` runs the scenario to its end in
each folder. Steps are what the interpreter reports to audit hooks: opening, renaming, making,
removing and truncating files below the folder.

One process does all of it and forks for each step: starting anew would take ten times as long.
"""

import os
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from odf.clock import FixedClock
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    AddData,
    DatasetKind,
    DataSlice,
    OffsetInterval,
    Seed,
    SetInfo,
    Timestamp,
)
from odf.metadata.multiformats import Multihash
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.repo.objects import StagedObject
from odf.repo.sync import sync
from odf.workspace.workspace import Workspace

NOW = Timestamp.parse("2026-05-01T00:00:00Z")
STEPS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.listdir"}


def commit(folder: Path) -> None:
    """Add a slice that waits in the folder, and a description, in one commit."""
    dataset = Dataset.open(DatasetStores.local(folder / "dataset"))
    state = dataset.state()
    last = state.last_add_data
    assert last is not None
    assert last.new_data is not None
    staged = folder / "staged"
    staged.write_bytes((folder / "prepared").read_bytes())
    data = staged.read_bytes()
    at = Multihash.sha3_256(data)
    logical = Multihash.parse((folder / "logical").read_text())
    interval = OffsetInterval(state.next_offset, state.next_offset + 1)
    event = AddData(
        prev_offset=state.last_offset,
        new_data=DataSlice(logical, at, interval, len(data)),
        new_watermark=state.watermark,
    )
    dataset.commit(
        [SetInfo("before the slice"), event],
        expected_head=state.head,
        system_time=NOW,
        objects=[StagedObject("data", staged, at)],
    )


def pull(folder: Path) -> None:
    """Bring a copy up to date."""
    target = Dataset(DatasetStores.local(folder / "copy"))
    sync(DatasetStores.local(folder / "dataset", cached=False), target, now=NOW)


def create(folder: Path) -> None:
    """Make a dataset in a workspace, rename it, and remove another one."""
    workspace = Workspace.find(folder, clock=FixedClock(datetime(2026, 5, 1, tzinfo=UTC)))
    events = [Seed(DatasetID(b"\5" * 32), DatasetKind.ROOT), SetInfo("new")]
    handle = workspace.create_dataset(DatasetAlias.parse("new"), events, system_time=NOW)
    workspace.rename_dataset(handle.id, DatasetAlias.parse("renamed"))
    workspace.remove_dataset(workspace.resolve("old").id)


def in_child(scenario: str, folder: Path, step: int) -> int:
    """Run a scenario in a process of its own; return how it ended, as `os.waitpid` says it."""
    child = os.fork()
    if child == 0:
        arm(folder, step)
        SCENARIOS[scenario](folder)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def arm(folder: Path, step: int) -> None:
    """Have this process killed at a step; with step 0 it counts them into a file instead."""
    steps = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal steps
        if event in STEPS and str(arguments[0]).startswith(f"{folder}/"):
            steps += 1
            if steps == step:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == 0:
                folder.with_name("steps").write_text(str(steps))

    sys.addaudithook(hook)


SCENARIOS = {"commit": commit, "pull": pull, "create": create}


def main() -> None:
    """Kill a scenario at each of its steps, or run it to its end in several folders."""
    scenario, *rest = sys.argv[1:]
    if rest[0] == "again":
        failed = [folder for folder in rest[1:] if in_child(scenario, Path(folder), 0)]
        sys.exit(f"failed: {failed}" if failed else 0)
    folder, scratch = map(Path, rest)
    whole = scratch / "whole"
    shutil.copytree(folder, whole)
    if in_child(scenario, whole, 0):
        sys.exit("the scenario failed without being killed")
    for step in range(1, int((scratch / "steps").read_text()) + 1):
        copy = scratch / f"step-{step:03}"
        shutil.copytree(folder, copy)
        if in_child(scenario, copy, step) != signal.SIGKILL:
            sys.exit(f"was not killed at step {step}")


if __name__ == "__main__":
    main()

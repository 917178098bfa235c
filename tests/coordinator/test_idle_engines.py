"""How long engines stay: what was said for this command, for the workspace, or who is there."""

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from odf.coordinator.context import Context, Settings
from odf.runtimes.pool import archives_folder
from odf.workspace.workspace import Workspace


@pytest.mark.parametrize(
    ("stays", "configured", "said", "wanted"),
    [
        (False, None, None, 0.0),
        (True, None, None, 600.0),
        (False, "5m", None, 300.0),
        (True, "0s", None, 0.0),
        (True, "0", None, 0.0),
        (True, "1.5h", None, 5400.0),
        (True, "5m", 7.0, 7.0),
        (True, "5m", 0.0, 0.0),
    ],
)
def test_how_long_engines_stay(
    stays: bool, configured: str | None, said: float | None, wanted: float, tmp_path: Path
) -> None:
    workspace = Workspace.init(tmp_path / "workspace")
    if configured is not None:
        config = tmp_path / "workspace" / ".odf" / "config.yaml"
        config.write_text(f"engine: {{idleTimeout: {configured}}}\n")
    settings = Settings(data_home=tmp_path, cache_home=tmp_path, config_home=tmp_path)
    settings = replace(settings, stays=stays, idle_timeout=said)
    with Context(workspace, settings, command="test") as ctx:
        assert ctx.idle_seconds == wanted


@pytest.mark.spark
@pytest.mark.parametrize("stays", [True, False])
def test_a_missing_archive_is_made_behind_a_command_at_a_terminal(
    stays: bool, tmp_path: Path
) -> None:
    workspace = Workspace.init(tmp_path / "workspace")
    settings = Settings(tmp_path, tmp_path / "cache", tmp_path, runtime="process")
    settings = replace(settings, stays=stays, idle_timeout=0.0)
    archives = archives_folder(settings.cache_home)
    archives.mkdir(parents=True)
    with (archives / "lock").open("w") as lock:
        # What is begun ends at once, since somebody makes one already.
        fcntl.flock(lock, fcntl.LOCK_EX)
        with Context(workspace, settings, command="test") as ctx:
            ctx.engines.client("spark", dataset="a", trusted=True)
            before = children()
        begun = children() - before
        for pid in begun:
            os.waitpid(pid, 0)
    assert len(begun) == stays


def children() -> set[int]:
    """The processes that this one started and that nobody waited for."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}

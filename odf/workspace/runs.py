"""A folder for each run of a command: logs, results, engine scratch."""

import itertools
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from odf.errors import UsageError
from odf.store.files import make_folder, os_errors

KEPT_RUNS: Final = 20
"""Folders of finished runs that are kept."""

SCRATCH: Final = "staging"
"""The folder in that of a run for files that nobody needs once the run has ended."""

_COMMAND: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-([0-9]+)-[a-z0-9-]+")
_FOLDER_MODE: Final = 0o700


def make_run_folder(parent: Path, command: str, now: datetime) -> Path:
    """Make the folder of a new run, `<utc>-<pid>-<command>`, and remove old ones that have ended.

    Args:
        parent: The folder of all runs.
        command: The command's name, for example `pull`.
        now: The time, timezone aware.

    Raises:
        UsageError: The command cannot be part of a folder's name.
    """
    if not _COMMAND.fullmatch(command):
        raise UsageError(f"{command!r} cannot be part of a folder's name")
    with os_errors("make a folder in", parent):
        make_folder(parent, _FOLDER_MODE)
        _remove_old(parent, KEPT_RUNS - 1)
        base = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}-{command}"
        for number in itertools.count(1):
            path = parent / (base if number == 1 else f"{base}-{number}")
            try:
                path.mkdir(mode=_FOLDER_MODE)
            except FileExistsError:
                continue  # the same process ran the same command within this second
            break
    return path


def _remove_old(parent: Path, keep: int) -> None:
    """Remove what has ended: the oldest runs, and of the others what killed ones left to waste."""
    runs = sorted(path for path in parent.iterdir() if _NAME.fullmatch(path.name))
    oldest = max(0, len(runs) - keep)
    for place, path in enumerate(runs):
        match = _NAME.fullmatch(path.name)
        if match and not _is_running(int(match[1])):
            # Another command may be removing the same one: whoever is second finds nothing.
            shutil.rmtree(path if place < oldest else path / SCRATCH, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True

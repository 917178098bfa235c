"""Small notes in the user's cache: what was found out once and need not be tried again."""

import contextlib
import json
import os
from pathlib import Path

from odf.limits import MAX_RUNTIME_MEMORY_SIZE


def read_note(path: Path) -> dict[str, object]:
    """Return what a note says; one that is not there or makes no sense says nothing."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(MAX_RUNTIME_MEMORY_SIZE))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def keep_note(path: Path, content: dict[str, object]) -> None:
    """Write a note, at once or not at all; a cache that cannot be written is none."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = path.with_name(f"{path.name}.{os.getpid()}")
        staged.write_text(json.dumps(content))
        staged.replace(path)

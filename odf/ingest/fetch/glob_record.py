"""The record of the files that a glob has matched so far.

A source state holds only the last file that was taken. It cannot tell a file that was taken long
ago from one that came late and sorts before the last. This record can: it lists every file that
was ever seen, and how it looked. It is a cache: without it nothing is taken twice or out of
order, only late files can no longer be told from old ones.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .glob_walk import GlobPattern

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class SeenFile:
    """How a file looked when it was seen last before it was passed.

    Attributes:
        size: Bytes.
        mtime_ns: Modification time.
        state: The source state under which it was handed out, if it was.
    """

    size: int
    mtime_ns: int
    state: str | None = None


@dataclass(slots=True)
class GlobRecord:
    """The record of one glob.

    Attributes:
        path: Where it is kept.
        files: What was seen, by path relative to the base of the pattern.
        existed: There was a record; False after the cache was cleared, or at the very first time.
    """

    path: Path
    files: dict[str, SeenFile] = field(default_factory=dict)
    existed: bool = False

    @classmethod
    def load(cls, folder: Path, pattern: GlobPattern) -> "GlobRecord":
        """Read the record of a pattern; an unreadable one counts as missing."""
        key = f"{pattern.base}\0{'/'.join(pattern.parts)}".encode()
        path = folder / f"glob-{hashlib.sha256(key).hexdigest()[:32]}.json"
        try:
            content = json.loads(path.read_bytes())
            if content["format"] != _FORMAT:
                return cls(path)
            files = {
                str(name): SeenFile(int(size), int(mtime), None if state is None else str(state))
                for name, (size, mtime, state) in content["files"].items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(path)
        return cls(path, files, existed=True)

    def handed_out(self, state: str) -> str | None:
        """Name the file that was handed out under a source state."""
        return next((name for name, seen in self.files.items() if seen.state == state), None)

    def update(self, seen: Mapping[str, SeenFile]) -> None:
        """Add what was seen now, and write the record if that changed it."""
        files = self.files | dict(seen)
        if files == self.files and self.existed:
            return
        self.files = files
        content = {
            "format": _FORMAT,
            "files": {name: [f.size, f.mtime_ns, f.state] for name, f in sorted(files.items())},
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A crash leaves the old record or the new one. It need not survive a power cut.
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".glob-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        Path(temporary).replace(self.path)
        self.existed = True

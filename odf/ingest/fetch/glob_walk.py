"""Files that match a glob (ingest.md §4, FilesGlob).

`*`, `?` and `[…]` do not cross a `/`; `**` as a whole component stands for any number of folders.
As in a shell, names that begin with a dot match only where the pattern begins with one too: that
keeps half-written files and droppings of desktops out. `**` does not follow links to folders,
which could form circles; every other component does.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path

from odf import limits
from odf.errors import BadInputError, TransportError

_MAGIC = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"


@dataclass(frozen=True, slots=True)
class GlobPattern:
    """A glob, cut where its first wildcard begins.

    Attributes:
        text: The pattern as written.
        base: The folder before the first wildcard.
        parts: The components below it.
    """

    text: str
    base: Path
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, root: Path) -> "GlobPattern":
        """Cut a pattern; relative ones begin at `root`.

        Raises:
            BadInputError: It is empty, or has `**` inside a component.
        """
        parts = [part for part in text.split("/") if part not in ("", ".")]
        if not parts or text.endswith("/") or "\0" in text:
            raise BadInputError(
                f"the path {text!r} of FilesGlob names no files",
                reason="bad_glob",
                hint="write it like data/*.csv",
            )
        for part in parts:
            if _ANY_DEPTH in part and part != _ANY_DEPTH:
                raise BadInputError(
                    f"the path {text!r} of FilesGlob has ** inside {part!r}",
                    reason="bad_glob",
                    hint="** stands alone between two slashes",
                )
        fixed = next((i for i, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
        fixed = min(fixed, len(parts) - 1)
        base = Path("/") if text.startswith("/") else root
        return cls(text, base.joinpath(*parts[:fixed]), tuple(parts[fixed:]))


def find_files(pattern: GlobPattern) -> tuple[str, ...]:
    """List the ordinary files that match, as paths relative to `pattern.base`, sorted.

    Raises:
        BadInputError: There are more than `limits.MAX_GLOB_FILES`, or a name is not UTF-8.
        TransportError: A folder may not be read: files in it must not be passed over in silence.
    """
    found: set[str] = set()
    for path in _walk(str(pattern.base), "", pattern.parts):
        if not _is_text(path):
            raise BadInputError(
                f"{pattern.text}: the name of {path!r} is not UTF-8",
                reason="file_name",
                hint="rename the file",
            )
        found.add(path)
        if len(found) > limits.MAX_GLOB_FILES:
            raise BadInputError(
                f"{pattern.text} matches more than {limits.MAX_GLOB_FILES} files",
                reason="too_many_files",
                hint="make the pattern narrower, or move files away that were taken",
            )
    return tuple(sorted(found))


def _walk(folder: str, relative: str, parts: tuple[str, ...]) -> Iterator[str]:
    head, rest = parts[0], parts[1:]
    if head == _ANY_DEPTH:
        while rest and rest[0] == _ANY_DEPTH:
            rest = rest[1:]
        yield from _walk(folder, relative, rest or ("*",))
        for entry in _entries(folder):
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{relative}{entry.name}/", (_ANY_DEPTH, *rest))
        return
    matches = re.compile(translate(head)).match
    for entry in _entries(folder):
        if entry.name.startswith(".") and not head.startswith("."):
            continue
        if not matches(entry.name):
            continue
        if not rest and _is_file(entry):
            yield relative + entry.name
        elif rest and _is_folder(entry):
            yield from _walk(entry.path, f"{relative}{entry.name}/", rest)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        raise TransportError(
            f"cannot list the folder {folder}: {problem.strerror}",
            hint="check the permissions of the folder",
        ) from None


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # links that form a circle
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True

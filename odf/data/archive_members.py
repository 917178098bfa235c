"""Which members of an archive a `subPath` means, in prepare and read steps."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

_ANY_DEPTH = "**"


def matching(sub_path: str, names: Sequence[str]) -> list[int]:
    """Find the members that a `subPath` means.

    A member with exactly this path comes first, whatever characters it has. Otherwise it is a
    glob: `*`, `?` and `[…]` do not cross a `/`, `**` stands for any number of folders, and a glob
    without any `/` is held against the last component, in whatever folder.

    Args:
        sub_path: A path or a glob.
        names: Paths of all members.

    Returns:
        Positions in `names`, ascending.
    """
    exact = [index for index, name in enumerate(names) if name == sub_path]
    if exact:
        return exact
    pattern = [_ANY_DEPTH, sub_path] if "/" not in sub_path else sub_path.split("/")
    return [index for index, name in enumerate(names) if _matches(pattern, name.split("/"))]


def _matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Match component by component, in time proportional to both lengths."""
    # reached[n]: the components of the pattern so far stand for the first n parts.
    reached = [True, *(False for _ in parts)]
    for component in pattern:
        if component == _ANY_DEPTH:
            first = reached.index(True) if True in reached else len(reached)
            reached = [n >= first for n in range(len(reached))]
        else:
            reached = [
                n > 0 and reached[n - 1] and fnmatchcase(parts[n - 1], component)
                for n in range(len(reached))
            ]
    return reached[-1]

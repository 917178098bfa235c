"""Which of Spark's jars the engine's JVM gets.

Spark comes with 280 jars, among them Kubernetes, Hive and a Scala shell. A JVM that has only those
that the engine uses opens fewer files, finds classes sooner, and its class archive is smaller. The
list is data: `jars.txt` says how it was made.
"""

from pathlib import Path
from typing import Final

_LIST: Final = Path(__file__).with_name("jars.txt")
_COMMENT: Final = "#"


def listed_jars() -> tuple[str, ...]:
    """Return the names of the jars that the engine uses, with their versions."""
    lines = (line.strip() for line in _LIST.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line and not line.startswith(_COMMENT))


def class_path(folder: Path) -> tuple[Path, ...]:
    """Choose the jars to run on.

    The names of jars carry versions, so the list fits one version of Spark only. Any other gets
    all of its jars: slower to start, and as right as without this module.

    Args:
        folder: Where Spark's jars are.

    Returns:
        The jars, sorted by name: archives hold for one order only.
    """
    jars = tuple(folder / name for name in sorted(listed_jars()))
    if all(jar.is_file() for jar in jars):
        return jars
    return tuple(sorted(folder.glob("*.jar")))

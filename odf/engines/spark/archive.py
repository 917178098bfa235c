"""Class archives: what a JVM learned about its classes in a run before, mapped by the next one.

Java 25 calls it the AOT cache (JEP 483, 514, 515). A training run ends with the archive being
written; a JVM that is given it starts with thousands of classes parsed and linked already. It
holds for one Java, one class path and one set of options; with any other the JVM goes on without
it and says nothing. So archives lie under a key of all that, and `why_not_taken` asks the JVM.

An archive can be deleted at any time, and never changes a result.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from odf.engines.spark.jvm import JavaRuntime
from odf.errors import EngineUnavailableError
from odf.limits import MAX_ARCHIVE_DESCRIPTION_SIZE
from odf.protocol.releases import SPARK_RELEASE

FIRST_JAVA: Final = 25
"""The first Java that writes an archive at the end of one training run."""

ARCHIVES_KEPT: Final = 3
"""How many archives stay: of this installation, and of those that a person goes back and forth to.

Each has about 100 MB.
"""

_FILE: Final = "spark.aot"
_DESCRIPTION: Final = "archive.json"
_LOCK: Final = "lock"
_UNFINISHED: Final = "making-"
_PROBE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class ArchiveKey:
    """All that an archive holds for.

    Attributes:
        java: The Java.
        class_path: The jars in their order.
        options: The options of the JVM that are the same in every run.
    """

    java: JavaRuntime
    class_path: tuple[Path, ...]
    options: tuple[str, ...]

    @property
    def folder_name(self) -> str:
        """Name of the archive's folder: short, readable at its start, different for each key."""
        jars = [
            (str(jar), found.st_size, found.st_mtime_ns)
            for jar in self.class_path
            for found in [jar.stat()]
        ]
        java = (str(self.java.executable), self.java.version)
        described = json.dumps([java, SPARK_RELEASE, jars, self.options])
        digest = hashlib.sha3_256(described.encode()).hexdigest()
        return f"spark-java{self.java.major}-{digest[:16]}"


@dataclass(frozen=True, slots=True)
class Archive:
    """A finished archive, as described beside it.

    Attributes:
        size: Bytes of the archive.
        java: Version of the Java that it is for.
        release: Release of the engine that made it.
        jars: How many jars its class path has.
        seconds: How long it took to make.
    """

    size: int
    java: str
    release: str
    jars: int
    seconds: float


def archive_path(folder: Path, key: ArchiveKey) -> Path:
    """Return where the archive for a key is, or would be."""
    return folder / key.folder_name / _FILE


def find_archive(folder: Path, key: ArchiveKey) -> Path | None:
    """Return the archive for a key if it is there and whole."""
    path = archive_path(folder, key)
    return path if read_description(path) is not None else None


def read_description(archive: Path) -> Archive | None:
    """Return what is known of an archive, or None if it is not there, or not as it was made."""
    try:
        with archive.with_name(_DESCRIPTION).open("rb") as file:
            described = Archive(**json.loads(file.read(MAX_ARCHIVE_DESCRIPTION_SIZE)))
        return described if archive.stat().st_size == described.size else None
    except (OSError, ValueError, TypeError):
        # A cache: whatever is wrong with it, it is as if it were not there.
        return None


def can_archive(java: JavaRuntime) -> bool:
    """Say whether this Java writes archives."""
    return java.major >= FIRST_JAVA


def make_archive(folder: Path, key: ArchiveKey, train: Callable[[Path], None]) -> Archive:
    """Make the archive for a key, in place of one that is there, and drop the oldest ones.

    Args:
        folder: Where archives are; made if it is missing.
        key: What it is to hold for.
        train: Runs the engine so that its JVM writes an archive to the path it is given.

    Raises:
        EngineUnavailableError: No archive came of the training, or the JVM does not take it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _one_at_a_time(folder):
        for left in folder.glob(f"{_UNFINISHED}*"):
            # Of a process that was killed: whoever has the lock is alone.
            shutil.rmtree(left, ignore_errors=True)
        making = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder))
        try:
            made = _make_in(making, key, train)
            target = folder / key.folder_name
            if target.exists():
                # A rename cannot replace a folder with files. A JVM that runs from the old one
                # keeps what it has mapped.
                shutil.rmtree(target)
            making.rename(target)
        finally:
            shutil.rmtree(making, ignore_errors=True)
        _drop_oldest(folder)
    return made


def why_not_taken(key: ArchiveKey, archive: Path) -> str | None:
    """Ask the JVM whether it takes an archive.

    Returns:
        None if it does, else its reason in one line.
    """
    command = [
        *(str(key.java.executable), *key.options, f"-XX:AOTCache={archive}", "-XX:AOTMode=on"),
        *("-cp", as_argument(key.class_path), "-version"),
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_SECONDS,
            check=False,
            env={},
        )
    except subprocess.TimeoutExpired:
        return f"Java did not answer within {_PROBE_SECONDS:g} s"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
    return lines[0].strip() if lines else f"Java ended with code {done.returncode}"


def as_argument(class_path: Sequence[Path]) -> str:
    """Write a class path as `java -cp` takes it."""
    return os.pathsep.join(map(str, class_path))


def _make_in(folder: Path, key: ArchiveKey, train: Callable[[Path], None]) -> Archive:
    started = time.monotonic()
    path = folder / _FILE
    train(path)
    if not path.is_file():
        raise EngineUnavailableError("the training run ended without a class archive")
    reason = why_not_taken(key, path)
    if reason is not None:
        raise EngineUnavailableError(f"Java does not take the class archive it made: {reason}")
    made = Archive(
        size=path.stat().st_size,
        java=key.java.version,
        release=SPARK_RELEASE,
        jars=len(key.class_path),
        seconds=round(time.monotonic() - started, 1),
    )
    (folder / _DESCRIPTION).write_text(json.dumps(asdict(made)) + "\n")
    return made


def is_being_made(folder: Path) -> bool:
    """Say whether another process makes an archive at the moment.

    Args:
        folder: Where archives are; made if it is missing.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    with (folder / _LOCK).open("w") as lock:
        # Waits: whoever has it makes an archive, which takes a minute.
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _drop_oldest(folder: Path) -> None:
    archives = [path.parent for path in folder.glob(f"*/{_FILE}")]
    archives.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for old in archives[ARCHIVES_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)

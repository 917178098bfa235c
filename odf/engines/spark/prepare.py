"""`python -m odf.engines.spark.prepare build|status`: class archives, from outside.

The coordinator runs this as a process of its own, as it does with engines. The answer is one line
of JSON on standard output.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from odf.engines.spark.archive import (
    ArchiveKey,
    archive_path,
    can_archive,
    is_being_made,
    make_archive,
    read_description,
    why_not_taken,
)
from odf.engines.spark.classpath import listed_jars
from odf.engines.spark.jvm import find_java
from odf.engines.spark.session import SparkSettings, archive_key
from odf.errors import OdfError
from odf.protocol.releases import SPARK_RELEASE

_LEAST_URGENT: Final = 19
_FAILURE: Final = "not-made"
_PATIENCE_SECONDS: Final = 86_400
"""After a failure, how long nothing is begun behind anybody's back."""


def main(argv: Sequence[str]) -> int:
    """Do what the command line says.

    Args:
        argv: The command line without the program.

    Returns:
        0, or 1 when there is no answer but an error.
    """
    parser = argparse.ArgumentParser(description="Prepare the Spark engine to start quickly.")
    parser.add_argument("action", choices=("build", "status"))
    parser.add_argument("--archives", type=Path, required=True, help="folder of class archives")
    parser.add_argument("--java-home", type=Path, help="another Java than the one that came along")
    parser.add_argument("--again", action="store_true", help="make it even if it is there")
    parser.add_argument(
        "--behind",
        action="store_true",
        help="when nothing else wants the processors, and not while another one is made",
    )
    given = parser.parse_args(argv)
    if given.behind:
        os.nice(_LEAST_URGENT)
        return _make_behind(given.archives, given.java_home)
    try:
        key = archive_key(find_java(given.java_home))
        answer = describe(given.archives, key)
        if given.action == "build" and can_archive(key.java) and (given.again or not answer["ok"]):
            _build(given.archives, key, given.java_home)
            answer = {**describe(given.archives, key), "built": True}
    except OdfError as error:
        answer = {"error": error.message, "hint": error.hint}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if "error" in answer else 0


def _make_behind(folder: Path, java_home: Path | None) -> int:
    """Make the archive if nobody makes it, it is not there, and making it did not just fail."""
    failure = folder / _FAILURE
    failed_lately = failure.is_file() and time.time() - failure.stat().st_mtime < _PATIENCE_SECONDS
    if failed_lately or is_being_made(folder):
        return 0
    try:
        key = archive_key(find_java(java_home))
        if can_archive(key.java) and read_description(archive_path(folder, key)) is None:
            _build(folder, key, java_home)
    except BaseException:
        # Whoever wants to know why makes it in the foreground.
        folder.mkdir(parents=True, exist_ok=True)
        failure.touch()
        raise
    failure.unlink(missing_ok=True)
    return 0


def describe(folder: Path, key: ArchiveKey) -> dict[str, Any]:
    """Say what the engine runs on, and whether its archive is there and taken.

    Args:
        folder: Where archives are.
        key: What the engine runs on.
    """
    path = archive_path(folder, key)
    archive = read_description(path)
    if not can_archive(key.java):
        reason: str | None = f"Java {key.java.version} makes none; Java 25 does"
    elif archive is None:
        reason = "there is none yet"
    else:
        reason = why_not_taken(key, path)
    return {
        "engine": SPARK_RELEASE,
        "java": key.java.version,
        "java_program": str(key.java.executable),
        "spark": version("pyspark"),
        "jars": len(key.class_path),
        "all_jars": len(key.class_path) != len(listed_jars()),
        "path": str(path),
        "archive": None if archive is None else asdict(archive),
        "possible": can_archive(key.java),
        "ok": reason is None,
        "reason": reason,
        "built": False,
    }


def _build(folder: Path, key: ArchiveKey, java_home: Path | None) -> None:
    # What Spark needs is loaded only by who makes an archive.
    from odf.engines.spark.training import train  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="odf-training-") as scratch:

        def run(output: Path) -> None:
            settings = SparkSettings(
                scratch=Path(scratch) / "scratch",
                log_path=folder / "build.log",
                java_home=java_home,
                cores=2,
                train=output,
            )
            (folder / "build.log").unlink(missing_ok=True)
            train(settings)

        make_archive(folder, key, run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Class archives of the Spark engine, from the coordinator's side: asked for, never made here.

The work is done by a process of its own, with the environment that engines get. It runs without a
sandbox: it handles no data but its own, and its folder in the cache has to be written.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from odf.errors import EngineUnavailableError
from odf.limits import ENGINE_LOG_TAIL_LINES, ENGINE_PREPARE_SECONDS, MAX_ENGINE_TEXT
from odf.runtimes.base import EngineCommand, python_command
from odf.runtimes.process import ENVIRONMENT
from odf.runtimes.text import last_lines, printable


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """What the Spark engine runs on, and whether it starts quickly.

    Attributes:
        engine: Its release.
        java: Version of its Java.
        spark: Version of Spark.
        jars: How many jars its JVM gets.
        all_jars: Whether these are all of Spark's, because the list is for another version.
        path: Where its class archive is, or would be.
        size: Bytes of the archive; None if there is none.
        seconds: How long making it took; None if there is none.
        ready: Whether Java takes the archive, which it was asked just now.
        reason: Why not, in a line.
        built: Whether the archive was made just now.
        possible: Whether this Java makes archives at all.
    """

    engine: str
    java: str
    spark: str
    jars: int
    all_jars: bool
    path: Path
    size: int | None
    seconds: float | None
    ready: bool
    reason: str | None
    built: bool
    possible: bool


def prepare_spark(
    action: Literal["build", "status"],
    folder: Path,
    *,
    java_home: Path | None = None,
    again: bool = False,
) -> EngineStatus:
    """Make the class archive of the Spark engine, or look at it.

    Args:
        action: Whether to make it if it is missing or does not fit.
        folder: Where archives are (see `odf.runtimes.pool.archives_folder`).
        java_home: Another Java than the one that came along.
        again: Make it even if it is there.

    Raises:
        EngineUnavailableError: There is no Spark or no Java, or the archive could not be made.
    """
    command = _command(action, folder, java_home, *(["--again"] if again else []))
    try:
        done = subprocess.run(
            command.argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=command.environment,
            timeout=ENGINE_PREPARE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EngineUnavailableError(
            f"the Spark engine could not be prepared within {ENGINE_PREPARE_SECONDS:g} s"
        ) from None
    return _read(done, folder)


def make_behind(folder: Path, *, java_home: Path | None = None) -> int:
    """Begin to make the class archive if it is missing, and let it outlive this process.

    It takes what others leave of the processors. While another process makes one, it does nothing.

    Args:
        folder: Where archives are.
        java_home: Another Java than the one that came along.

    Returns:
        The number of the process.
    """
    command = _command("build", folder, java_home, "--behind")
    nothing = subprocess.DEVNULL
    begun = subprocess.Popen(
        command.argv,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        env=dict(command.environment),
        cwd="/",
        start_new_session=True,
    )
    # Popen would warn that nobody waited for it.
    begun.returncode = 0
    return begun.pid


def _command(action: str, folder: Path, java_home: Path | None, *arguments: str) -> EngineCommand:
    """Say how the process is started that does it."""
    java = [] if java_home is None else ["--java-home", str(java_home)]
    home = {"HOME": os.path.expanduser("~")}  # noqa: PTH111  # it need not be resolvable
    return python_command(
        "odf.engines.spark.prepare",
        *(action, "--archives", str(folder.absolute()), *java, *arguments),
        environment={**ENVIRONMENT, **home},
    )


def _read(done: subprocess.CompletedProcess[bytes], folder: Path) -> EngineStatus:
    try:
        answer = json.loads(done.stdout[:MAX_ENGINE_TEXT])
        if "error" in answer:
            raise EngineUnavailableError(printable(answer["error"]), hint=answer["hint"])
        archive = answer["archive"] or {}
        return EngineStatus(
            engine=answer["engine"],
            java=answer["java"],
            spark=answer["spark"],
            jars=answer["jars"],
            all_jars=answer["all_jars"],
            path=Path(answer["path"]),
            size=archive.get("size"),
            seconds=archive.get("seconds"),
            ready=answer["ok"],
            reason=answer["reason"],
            built=answer["built"],
            possible=answer["possible"],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        lines = last_lines(done.stderr, ENGINE_LOG_TAIL_LINES)
        raise EngineUnavailableError(
            f"the Spark engine could not be prepared: {lines[-1] if lines else 'no answer'}",
            details={"folder": str(folder), "stderr": list(lines)},
        ) from None

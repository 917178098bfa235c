"""`python -m odf.engines.spark`: serves the Spark engine (see `odf.engines.host.main`).

The Java process takes longest to start, so it is launched before anything heavy is imported here.
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from odf.engines.spark.session import SparkRuntime, SparkSettings
from odf.errors import OdfError
from odf.limits import MERGE_TASK_BYTES

if TYPE_CHECKING:
    from odf.engines.host.main import HostOptions
    from odf.engines.spark.engine import SparkEngine


def main(argv: Sequence[str]) -> int:
    """Serve until the lifeline is cut.

    Args:
        argv: The command line without the program.

    Returns:
        The exit code.
    """
    settings = _settings(argv)
    runtime = SparkRuntime(settings)
    with contextlib.suppress(OdfError):
        # If this cannot be, the first operation says so to whoever asked for it.
        runtime.launch()

    from odf.engines.host.main import serve  # noqa: PLC0415
    from odf.engines.spark.engine import SparkEngine  # noqa: PLC0415

    def make_engine(options: "HostOptions") -> "SparkEngine":
        return SparkEngine(settings, runtime, task_bytes=options.arguments.task_bytes)

    return serve(make_engine, argv, add_options=_add_options)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--java-home", type=Path, help="another Java than the one that came along")
    parser.add_argument(
        "--log",
        type=Path,
        help="file for what Java and Python workers print; else it is standard error",
    )
    parser.add_argument("--heap", default="1g", help="largest heap of the Java process")
    parser.add_argument("--cores", type=int, help="tasks that run at once")
    parser.add_argument("--master", help="a cluster to run tasks on, as Spark names it")
    parser.add_argument(
        "--task-bytes",
        type=int,
        default=MERGE_TASK_BYTES,
        help="bytes of rows that are merged inside one task; -1 for none",
    )
    parser.add_argument("--archives", type=Path, help="folder of class archives, only read")


def _settings(argv: Sequence[str]) -> SparkSettings:
    """Read what Java needs to know; the host reads the rest, and complains if something is odd."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out", type=Path, required=True)
    _add_options(parser)
    given, _ = parser.parse_known_args(argv)
    return SparkSettings(
        scratch=given.out / "spark",
        log_path=given.log,
        java_home=given.java_home,
        heap=given.heap,
        cores=given.cores,
        archives=given.archives,
        master=given.master,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Starts Spark's Python workers: `spark.python.daemon.module`.

Spark puts its Python part, packed into zip files, before everything else on the path of workers.
From there nothing is kept compiled, so every start compiles a hundred modules anew, which takes
longer than the work on a small file. The same release is installed beside this package, compiled.
Workers are forks of this process, so what is imported here is there in each of them.
"""

import gc
import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

TASK_MODULES: Final = (
    "odf.engines.spark.readers.csv_task",
    "odf.engines.spark.readers.json_task",
    "odf.engines.spark.merge.in_task.task",
)
"""What most tasks consist of; with them comes Arrow."""

_PACKED: Final = (".zip", ".jar")


def main() -> None:
    """Get ready, and wait for Spark to ask for workers."""
    get_ready()
    from pyspark import daemon  # noqa: PLC0415  # only from where it is to come from

    daemon.manager()


def get_ready() -> None:
    """Import what workers need, without starting a thread: forks would not have it."""
    sys.path[:] = path_without_packed(sys.path, os.environ.get("SPARK_HOME", ""))
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for name in ("pyspark.worker", *TASK_MODULES):
        import_module(name)
    # Workers collect garbage after each task. What was imported is none, but to look through it
    # takes 10 ms each time, and a page that was looked at is no longer shared with other workers.
    gc.collect()
    gc.freeze()


def path_without_packed(path: list[str], spark_home: str) -> list[str]:
    """Return a search path without Spark's packed modules, if they are installed as well.

    Args:
        path: As Spark composed it.
        spark_home: Spark's folder, whose zip and jar files are meant.
    """
    home = Path(spark_home)
    rest = [
        entry
        for entry in path
        if not (entry.endswith(_PACKED) and Path(entry).is_relative_to(home))
    ]
    return rest if PathFinder.find_spec("pyspark", rest) is not None else path


if __name__ == "__main__":
    main()

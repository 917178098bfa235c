"""The process that Python workers are forked from."""

import json
import os
import subprocess
import sys
from pathlib import Path

from odf.engines.spark.daemon import TASK_MODULES, path_without_packed
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.jvm import spark_home

LOOK = """
import gc, json, os, sys
from odf.engines.spark.daemon import get_ready
get_ready()
tasks, looked_through = len(os.listdir("/proc/self/task")), len(gc.get_objects())
import pyspark
print(json.dumps([pyspark.__file__, tasks, sorted(sys.modules), looked_through]))
"""


def packed() -> list[str]:
    return [str(path) for path in sorted((spark_home() / "python" / "lib").glob("*.zip"))]


def test_spark_comes_with_packed_modules() -> None:
    assert any(Path(path).name == "pyspark.zip" for path in packed())


def test_modules_come_from_where_they_are_compiled() -> None:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(packed()),
        "SPARK_HOME": str(spark_home()),
    }
    ran = subprocess.run(
        [sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, check=True
    )
    file, threads, modules, looked_through = json.loads(ran.stdout)
    assert ".zip" not in file
    assert threads == 1
    assert looked_through < 1000  # of the objects when workers look for garbage
    assert {*TASK_MODULES, "pyspark.worker", "pyarrow"} <= set(modules)


def test_packed_modules_are_taken_where_there_are_no_others(tmp_path: Path) -> None:
    path = [str(tmp_path), *packed()]
    assert path_without_packed(path, str(spark_home())) == path


def test_other_archives_stay(tmp_path: Path) -> None:
    here = [entry for entry in sys.path if entry]
    path = [str(tmp_path / "mine.zip"), *packed(), *here]
    assert path_without_packed(path, str(spark_home())) == [path[0], *here]


def test_workers_are_its_forks(engine: SparkEngine) -> None:
    def look(_: object) -> list[str]:
        import sys as there

        import pyspark

        return [pyspark.__file__, *(name for name in TASK_MODULES if name in there.modules)]

    with engine._runtime.operation() as spark:
        found = spark.sparkContext.parallelize([1], 1).mapPartitions(look).collect()
    assert ".zip" not in found[0]
    assert found[1:] == list(TASK_MODULES)

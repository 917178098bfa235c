"""Which Java the yardsticks run on, and what Spark is told about the generated CSV."""

import re
import shutil
import subprocess

from tests.bench import data

_SUPPORTED = ("17", "21", "25")


def java() -> str:
    """Return the Java program that odf's own engine runs on."""
    from odf.engines.spark.jvm import find_java

    return str(find_java().executable)


def launcher_java() -> str | None:
    """Return the major version of the machine's own JDK if PySpark's launcher can use it."""
    program = shutil.which("java")
    if program is None:
        return None
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    modules = subprocess.run(
        [program, "--list-modules"], capture_output=True, text=True, check=False
    )
    found = re.search(r'version "(\d+)', said.stderr)
    if found is None or found[1] not in _SUPPORTED:
        return None
    return found[1] if "jdk.incubator.vector" in modules.stdout else None


def spark_ddl() -> str:
    """Return the columns as Spark's reader takes them."""
    return ", ".join(data.DDL)

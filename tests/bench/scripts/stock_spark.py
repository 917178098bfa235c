"""Spark as it is started by anybody: the options it needs, nothing for speed.

PySpark's launcher script cannot be used with a Java that lacks `jdk.incubator.vector`, so this
does what that script's second half does: starts the JVM with all jars, waits for its port, and
hands it to PySpark. With `launcher` as Java, PySpark's own script does all of it.
"""

import os
import struct
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
_OPTIONS = [
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _PACKAGES),
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.noUnsafe=false",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Xmx1g",  # what the launcher script gives when nobody asks for more
]


def start(java: str) -> None:
    """Start the JVM with this Java, unless PySpark's launcher is to do it."""
    if java == "launcher":
        return
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("PySpark is not installed")
    home = Path(spec.origin).parent
    info = Path(tempfile.mkdtemp()) / "connection"
    main = ["org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]
    process = subprocess.Popen(
        [java, *_OPTIONS, "-cp", f"{home}/jars/*", *main],
        stdin=subprocess.PIPE,  # its lifeline: closed by the end of this process
        env={**os.environ, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info), "SPARK_HOME": str(home)},
    )
    while not info.exists():
        if process.poll() is not None:
            raise SystemExit("the JVM ended before it could be reached")
        time.sleep(0.01)
    content = info.read_bytes()
    port, length = struct.unpack(">ii", content[:8])
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = content[8 : 8 + length].decode()
    info.unlink()
    info.parent.rmdir()

"""One Spark for the life of the engine, one session for each operation.

The settings decide on results: they are part of what `odf-spark/1.0.0` pins. Those that only
decide on speed are marked so.
"""

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import odf
from odf.engines.spark.archive import ArchiveKey, as_argument, can_archive, find_archive
from odf.engines.spark.classpath import class_path
from odf.engines.spark.jvm import (
    Gateway,
    JavaRuntime,
    SparkJvm,
    find_java,
    java_options,
    run_options,
    spark_home,
)
from odf.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RESULT_SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.legacy.createHiveTableByDefault": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    # What a query may reach: registered views, nothing else.
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.crossJoin.enabled": "true",
    # Plain queries refuse it in words; transforms run it in a form of their own.
    "spark.sql.join.asofJoin.enabled": "true",
}

_SPEED_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.useV1SourceList": "parquet",
    "spark.sql.files.maxPartitionBytes": str(128 * 1024 * 1024),
    # Parts are read back within seconds by this engine: their statistics are of no use.
    "spark.sql.parquet.compression.codec": "lz4_raw",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "odf.engines.spark.daemon",
    "spark.shuffle.compress": "true",
    "spark.cleaner.periodicGC.interval": "10min",
}

_DROPPED_ENVIRONMENT: Final = ("SPARK_", "PYSPARK_", "HADOOP_", "JAVA_", "_JAVA_", "JDK_JAVA_")
"""Prefixes of variables with which the surroundings could change the engine's results."""


_TRAINING_SECONDS: Final = 600.0
"""Until a JVM that writes its class archive counts as stuck; busy machines take two minutes."""

_HEAP_OF_AN_OPERATION: Final = 1 << 29
"""Bytes of the heap for each of the operations that run at once; one takes less than that."""

_SIZES: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What the engine is told about the machine it runs on.

    Attributes:
        scratch: Folder for Spark's own temporary files.
        log_path: File for what the JVM and the Python workers print, or None for standard error.
        java_home: Another Java than the one that came along, or None.
        heap: Largest heap of the JVM, as `-Xmx` takes it; Spark wants 480m at least.
        cores: Tasks that run at once, or None for one for each CPU that this process may use.
        archives: Folder of class archives, or None to start without.
        train: File for the class archive that the JVM writes when the engine is closed, or None.
        master: A cluster to run tasks on, as `spark.master` takes it, or None for this process. Its
            workers have to reach the files under the paths that they have here.
    """

    scratch: Path
    log_path: Path | None = None
    java_home: Path | None = None
    heap: str = "1g"
    cores: int | None = None
    archives: Path | None = None
    train: Path | None = None
    master: str | None = None


class SparkRuntime:
    """Spark in a Java process of its own, started on demand and only once.

    Args:
        settings: Where and how to run it.
    """

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._java: JavaRuntime | None = None
        self._jvm: SparkJvm | None = None
        self._root: SparkSession | None = None
        self._closed = False
        self._operated = False
        self._lacks_archive = False

    @property
    def java(self) -> JavaRuntime:
        """The Java that Spark runs on. Finding it starts nothing."""
        if self._java is None:
            self._java = find_java(self._settings.java_home)
        return self._java

    @property
    def cores(self) -> int:
        """Number of tasks that run at once."""
        return self._settings.cores or len(os.sched_getaffinity(0))

    @property
    def operations(self) -> int:
        """Number of operations that may run at once, each in a session of its own."""
        return max(1, min(self.cores, heap_bytes(self._settings.heap) // _HEAP_OF_AN_OPERATION))

    @property
    def lacks_archive(self) -> bool:
        """Whether Spark was launched without a class archive although there could be one."""
        return self._lacks_archive

    def launch(self) -> None:
        """Start Spark's process without waiting for it; `start` goes on from there.

        Raises:
            EngineUnavailableError: If there is no Java that fits.
        """
        with self._lock:
            if self._jvm is None and not self._closed:
                self._jvm = self._launch()

    def start(self) -> "SparkSession":
        """Start Spark if it does not run yet and return its first session.

        Raises:
            EngineUnavailableError: If there is no Java that fits, or Spark does not come up.
        """
        with self._lock:
            if self._closed:
                raise EngineError("the Spark engine was closed")
            if self._root is None:
                self._root = self._start()
            return self._root

    def warm_workers(self) -> None:
        """Have Spark start a Python worker for each task, so that they are there when needed.

        An operation that has begun starts its own, and would have to wait for these.
        """
        try:
            context = self.start().sparkContext
            if not self._operated:
                tasks = context.parallelize(range(self.cores), self.cores)
                tasks.mapPartitions(_import_reader).collect()
        except Exception:
            # The end of Spark may come while this is going on; then nobody misses the workers.
            if not self._closed:
                raise

    @contextmanager
    def operation(self) -> Iterator["SparkSession"]:
        """Give an operation a session with views and settings of its own."""
        self._operated = True
        session = self.start().newSession()
        # Spark's parser asks the session of the thread it runs in for its settings.
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001  # there is no public way
        sessions = jvm.org.apache.spark.sql.classic.SparkSession
        sessions.setActiveSession(session._jsparkSession)  # noqa: SLF001  # as above
        try:
            yield session
        finally:
            sessions.clearActiveSession()

    def rest(self) -> None:
        """Have Java give back the part of its heap that is free."""
        with self._lock:
            root = self._root
        if root is not None:
            jvm: Any = root.sparkContext._jvm  # noqa: SLF001  # there is no public way to Java
            jvm.System.gc()

    def close(self) -> None:
        """Stop Spark and end its process, also while an operation still runs in it."""
        self._closed = True
        connected = self._root is not None
        jvm, self._jvm, self._root = self._jvm, None, None
        if jvm is None:
            return
        if connected:
            # Otherwise PySpark may just be on its way in, and would be waited for.
            _forget_context()
        if self._settings.train is None:
            jvm.close()
        else:
            jvm.finish(_TRAINING_SECONDS)

    def _java_command(self) -> list[str]:
        settings = self._settings
        key = archive_key(self.java)
        varying = run_options(heap=settings.heap, scratch=settings.scratch)
        command = [str(self.java.executable), *key.options, *varying]
        if settings.train is not None:
            # With the quick compiler alone no profiles are recorded. From an archive with profiles
            # Java optimizes at once what was busy in training: twice the work at every start.
            command += [f"-XX:AOTCacheOutput={settings.train}", "-XX:TieredStopAtLevel=1"]
        elif settings.archives is not None:
            archive = find_archive(settings.archives, key)
            self._lacks_archive = archive is None and can_archive(self.java)
            command += [] if archive is None else [f"-XX:AOTCache={archive}"]
        return [*command, "-cp", as_argument(key.class_path)]

    def _launch(self) -> SparkJvm:
        settings = self._settings
        settings.scratch.mkdir(parents=True, exist_ok=True)
        if settings.log_path is not None:
            settings.log_path.parent.mkdir(parents=True, exist_ok=True)
        return SparkJvm(
            self._java_command(),
            log_path=settings.log_path,
            scratch=settings.scratch,
            environment=_environment(os.environ, settings.scratch),
            conf=self._conf(),
        )

    def _start(self) -> "SparkSession":
        jvm = self._jvm = self._jvm or self._launch()
        try:
            # These imports take as long as the JVM needs to come up; they run beside it.
            import pyarrow.parquet  # noqa: F401, PLC0415
            import pyspark.sql  # noqa: F401, PLC0415

            return _connect(jvm.gateway())
        except BaseException:
            self._jvm = None
            jvm.close()
            raise

    def _conf(self) -> dict[str, str]:
        scratch = self._settings.scratch
        return {
            **_RESULT_SETTINGS,
            **_SPEED_SETTINGS,
            **self._place(),
            "spark.app.name": "odf",
            "spark.local.dir": str(scratch / "local"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.default.parallelism": str(self.cores),
        }

    def _place(self) -> dict[str, str]:
        """Say where tasks run."""
        master = self._settings.master
        here = {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}
        if master is None:
            return {"spark.master": f"local[{self.cores}]", **here}
        return {
            "spark.master": master,
            "spark.executorEnv.PYTHONPATH": _package_folder(),
            "spark.pyspark.python": sys.executable,
            **(here if _is_loopback(master) else {}),
        }


def heap_bytes(heap: str) -> int:
    """Return a size as `-Xmx` takes it in bytes; 0 for what Java is going to refuse."""
    number, unit = (heap[:-1], heap[-1].lower()) if heap[-1:].isalpha() else (heap, "")
    return int(number) * _SIZES.get(unit, 1) if number.isdecimal() else 0


def archive_key(java: JavaRuntime) -> ArchiveKey:
    """Return what a class archive for a Java has to hold for."""
    return ArchiveKey(java, class_path(spark_home() / "jars"), tuple(java_options(java)))


def _import_reader(items: Iterator[int]) -> Iterator[int]:
    import odf.engines.spark.readers.csv_task  # noqa: F401, PLC0415

    return items


def _environment(inherited: Mapping[str, str], scratch: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(_DROPPED_ENVIRONMENT)
    }
    return {
        **kept,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
        # A sandbox's user may have no name; Hadoop wants one.
        "SPARK_USER": "odf",
        "HADOOP_USER_NAME": "odf",
        "PYSPARK_PYTHON": sys.executable,
        # Python workers import this package too, from wherever this process has it.
        "PYTHONPATH": _package_folder(),
        "TMPDIR": str(scratch),
    }


def _package_folder() -> str:
    return str(Path(odf.__file__).resolve().parent.parent)


def _is_loopback(master: str) -> bool:
    host = master.partition("://")[2].rpartition(":")[0]
    return host in {"localhost", "127.0.0.1", "[::1]"}


def _connect(gateway: Gateway) -> "SparkSession":
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    # Its copy of errors, as JSON on standard error: they are answered to whoever asked.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    # PySpark takes these from the environment only. The secret must not stay there, where
    # children would inherit it.
    os.environ["PYSPARK_GATEWAY_PORT"] = str(gateway.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = gateway.secret
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        context = SparkContext(gateway=launch_gateway())
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    return SparkSession(context)


def _forget_context() -> None:
    """Let PySpark forget the context whose JVM is about to end, without talking to it."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    context: Any = SparkContext
    sessions: Any = SparkSession
    # PySpark has no way to forget a JVM that it cannot talk to any more.
    active = context._active_spark_context  # noqa: SLF001
    if active is not None and active._accumulatorServer is not None:  # noqa: SLF001
        # It looks only twice a second whether it shall end; this process may not have that long.
        server = active._accumulatorServer  # noqa: SLF001
        # It would print that its connection broke, which is what is about to happen.
        server.handle_error = lambda *_: None
        threading.Thread(target=server.shutdown, daemon=True, name="accumulators").start()
    context._active_spark_context = context._gateway = context._jvm = None  # noqa: SLF001
    sessions._instantiatedSession = None  # noqa: SLF001

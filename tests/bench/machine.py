"""The machine and the software that figures were taken on, and how busy others kept it."""

import functools
import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import odf

_QUIET_CORES = 0.25
_GLANCE_SECONDS = 0.25
_GIB = 1 << 30


def describe_machine(work: Path) -> dict[str, str]:
    """Say what a reader needs to know about the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory / _GIB:.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        "file system": _file_system(work),
    }


def describe_versions() -> dict[str, str]:
    """Say which software was measured and which it is measured against."""
    from odf.engines.spark.jvm import find_java

    found = {"odf": odf.__version__, "python": platform.python_version()}
    found["java"] = find_java().version
    for package in ("pyspark", "pyarrow", "duckdb", "grpcio"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    found["engine runtime"] = engine_runtime()
    found["commit"] = _commit()
    return found


@functools.cache
def engine_runtime() -> str:
    """Return the name of what engines run in here, containers left aside."""
    from odf.runtimes.base import python_command
    from odf.runtimes.select import select_runtime

    return select_runtime("auto", python_command("odf.engines.spark"), trusted=True).runtime.name


def _commit() -> str:
    here = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=here, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = " with changes" if git("status", "--porcelain") else ""
        return git("rev-parse", "--short=12", "HEAD") + changed
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(folder: Path) -> str:
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, found, *_ = line.split()
        if folder.is_relative_to(place) and len(place) >= len(best):
            best, kind = place, found
    return kind


def others_now(seconds: float = _GLANCE_SECONDS) -> float:
    """Return how many cores are busy while this program does nothing; 0 on a quiet machine.

    While figures run, their JVMs could not be told from those of others: nobody may be left to
    account for them when they end. So this is asked between rounds.
    """
    started, busy = time.monotonic(), _busy_seconds()
    time.sleep(seconds)
    return (_busy_seconds() - busy) / (time.monotonic() - started)


def _busy_seconds() -> float:
    first = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, first[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def is_quiet(others: float) -> bool:
    """Say whether others took so little that figures can be believed."""
    return others <= _QUIET_CORES


def wait_until_quiet(budget: float) -> float:
    """Wait for a quiet machine, as long as the budget allows.

    Returns:
        The seconds that were waited.
    """
    started = time.monotonic()
    while not is_quiet(others_now()) and time.monotonic() - started < budget:
        pass
    return time.monotonic() - started


def load() -> tuple[float, float, float]:
    """Return the load averages of 1, 5 and 15 minutes."""
    return os.getloadavg()

"""The Java process: which one is run, with which options, and how it ends."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.jvm import JavaRuntime, find_java, java_options, run_options
from odf.engines.spark.session import SparkRuntime, SparkSettings
from odf.errors import EngineError, EngineUnavailableError


def fake_java(home: Path, version: str, script: str = "exit 0") -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return home


def test_the_java_of_the_wheel() -> None:
    found = find_java()
    assert found.major == 25
    assert found.executable.is_file()


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2+10"])
def test_another_java(version: str, tmp_path: Path) -> None:
    found = find_java(fake_java(tmp_path / "java", version))
    assert (found.version, found.major) == (version, int(version[:2]))


def test_javas_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailableError, match=r"Java 11\.0\.2 .* wanted one of 17, 21, 25"):
        find_java(fake_java(tmp_path / "old", "11.0.2"))
    with pytest.raises(EngineUnavailableError, match="does not exist"):
        find_java(tmp_path / "nothing")
    unclear = fake_java(tmp_path / "unclear", "25")
    (unclear / "release").write_text("no version here\n")
    with pytest.raises(EngineUnavailableError, match="cannot tell which Java"):
        find_java(unclear)


def test_options_fit_the_java(tmp_path: Path) -> None:
    options = {
        major: java_options(JavaRuntime(tmp_path, str(major), major)) for major in (17, 21, 25)
    }
    for given in options.values():
        assert "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED" in given
        assert not any(option.startswith(("-Xmx", "-Djava.io.tmpdir")) for option in given)
    assert "-Xmx1g" in run_options(heap="1g", scratch=tmp_path)
    newer = {"--sun-misc-unsafe-memory-access=allow", "-Dio.netty.noUnsafe=false"}
    assert newer <= set(options[25])
    assert not newer & set(options[17])
    assert not newer & set(options[21])


def test_a_java_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "25", "echo 'no room' >&2; exit 3")
    runtime = SparkRuntime(SparkSettings(tmp_path / "scratch", tmp_path / "log", java_home=home))
    with pytest.raises(EngineUnavailableError, match=r"ended with code 3 .*: no room") as caught:
        runtime.start()
    assert str(tmp_path / "log") in (caught.value.hint or "")
    runtime.close()


def test_a_closed_engine_stays_closed(tmp_path: Path) -> None:
    engine = SparkEngine(SparkSettings(tmp_path / "scratch", tmp_path / "log"))
    engine.close()
    with pytest.raises(EngineError, match="was closed"):
        engine.warm_up()


CHILD = """
import sys
from pathlib import Path
from odf.engines.spark.session import SparkRuntime, SparkSettings
folder = Path(sys.argv[1])
runtime = SparkRuntime(SparkSettings(folder / "scratch"))
runtime.start()
print(runtime._jvm.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.spark
def test_the_java_process_dies_with_ours(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert child.stdout is not None
    assert child.stdin is not None
    watched = os.pidfd_open(int(child.stdout.readline()))
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()
    ended, _, _ = select.select([watched], [], [], 30)
    os.close(watched)
    assert ended
    # Spark has nothing to say as long as nothing is wrong.
    assert "WARN" not in (tmp_path / "log").read_text()

"""Spark on a cluster: the same engine as its driver, and the same logical hashes."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from odf.coordinator.add import ManifestText, add_manifests
from odf.coordinator.context import Context
from odf.coordinator.pull import PullRequest, pull
from odf.runtimes.pool import EnginePool, PoolSettings
from tests.e2e.conftest import Person

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: readings
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: Url, url: 'file://readings.csv'}
      read:
        kind: Csv
        header: true
        schema: [event_time TIMESTAMP, station STRING, value DOUBLE]
      preprocess: {kind: Sql, engine: spark, query: "SELECT *, value * 2 AS twice FROM input"}
      merge: {kind: Ledger, primaryKey: [event_time, station]}
"""
DERIVATIVE = """
kind: DatasetSnapshot
version: 1
content:
  name: high
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: readings}]
      transform:
        kind: Sql
        engine: spark
        query: "SELECT event_time, upper(station) AS station, twice FROM readings WHERE value > 50"
"""


def java() -> Path:
    """A Java on which Spark's own daemons start: they ask for a module that small ones lack."""
    found = shutil.which("java")
    if found is None:
        pytest.skip("there is no Java on this machine but the engine's own")
    listed = subprocess.run([found, "--list-modules"], capture_output=True, text=True, check=False)
    if "jdk.incubator.vector" not in listed.stdout:
        pytest.skip("the Java of this machine has no jdk.incubator.vector")
    return Path(found).resolve()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def daemon(kind: str, log: Path, *arguments: str) -> Iterator[None]:
    """One of Spark's standalone daemons, from the PySpark package."""
    import pyspark

    home = Path(pyspark.__file__).parent
    command = [str(java()), "-Xmx256m", "-cp", f"{home}/jars/*", f"org.apache.spark.deploy.{kind}"]
    environment = {
        "PATH": os.environ["PATH"],
        "SPARK_HOME": str(home),
        # Spark's own start script finds it out; without it a worker looks for a build of Spark.
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "localhost",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + 120
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and two workers on loopback."""
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    place = ("--host", "127.0.0.1", "--webui-port", "0")
    logs = [folder / name for name in ("master.txt", "one.txt", "two.txt")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(daemon("master.Master", logs[0], *place, "--port", str(port)))
        wait_for(logs[0], "New state: ALIVE")
        for log in logs[1:]:
            options = (*place, "--cores", "1", "--memory", "1g", "--work-dir", f"{log}.work")
            stack.enter_context(daemon("worker.Worker", log, *options, master))
        for log in logs[1:]:
            wait_for(log, "Successfully registered with master")
        yield master


def run(person: Person) -> list[str]:
    """Ingest and derive; the logical hashes of all slices."""
    lines = ["event_time,station,value"]
    lines += [
        f"2024-01-{day:02}T00:00:00Z,s{station},{day * station / 7}"
        for day in range(1, 29)
        for station in range(200)
    ]
    (person.root / "readings.csv").write_text("\n".join(lines) + "\n")
    with Context(person.workspace, person.settings, command="test", clock=person.clock) as ctx:
        add_manifests(ctx, [ManifestText("m.yaml", text) for text in (ROOT, DERIVATIVE)])
        for name in ("readings", "high"):
            (result,) = pull(ctx, PullRequest(refs=(name,))).datasets
            assert result.error is None, result.error
    hashes = []
    for name in ("readings", "high"):
        for _, block in person.workspace.resolve(name).dataset.blocks():
            data = getattr(block.event, "new_data", None)
            if data is not None:
                hashes.append(str(data.logical_hash))
    return hashes


def test_a_cluster_gives_the_same_logical_hashes(cluster: str, tmp_path: Path) -> None:
    found = []
    for where in ("here", "there"):
        pool = EnginePool(PoolSettings(), run_dir=tmp_path / f"unused-{where}")
        person = Person(tmp_path / where, tmp_path / f"home-{where}", pool)
        if where == "there":
            config = person.root / ".odf" / "config.yaml"
            config.write_text(f"spark: {{master: '{cluster}'}}\n")
            # The driver and the workers have to be of the same Java.
            person.settings = replace(person.settings, java_home=java().parent.parent)
        found.append(run(person))
    assert len(found[0]) == 2
    assert found[0] == found[1]

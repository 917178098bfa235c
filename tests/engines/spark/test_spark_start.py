"""How the JVM starts: which jars it gets, and the class archive that spares it half the work."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odf.data.digest import logical_hash
from odf.engines.spark.archive import (
    ARCHIVES_KEPT,
    ArchiveKey,
    archive_path,
    find_archive,
    make_archive,
    read_description,
    why_not_taken,
)
from odf.engines.spark.classpath import class_path, listed_jars
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.jvm import JavaRuntime, find_java, spark_home
from odf.engines.spark.session import archive_key
from odf.errors import EngineUnavailableError
from odf.metadata.model import (
    DEFAULT_VOCAB,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepCsv,
)
from odf.protocol.calls import QueryInput
from odf.runtimes.pool import SPARK, EnginePool, PoolSettings, archives_folder
from odf.runtimes.select import RuntimeChoice
from tests.engines.spark.spark_ingestor import Ingestor, sql

ALL_JARS = spark_home() / "jars"


def test_the_jars_of_this_spark_are_cut() -> None:
    jars = class_path(ALL_JARS)
    assert [jar.name for jar in jars] == sorted(listed_jars())
    assert len(jars) < len(list(ALL_JARS.glob("*.jar"))) / 2
    assert len(set(listed_jars())) == len(listed_jars())


def test_another_spark_gets_all_its_jars(tmp_path: Path) -> None:
    for name in (*listed_jars()[1:], "spark-connect_2.13-9.9.9.jar", "notes.txt"):
        (tmp_path / name).touch()
    found = {jar.name for jar in class_path(tmp_path)}
    assert found == {*listed_jars()[1:], "spark-connect_2.13-9.9.9.jar"}


def test_the_engine_runs_on_the_cut_class_path(engine: SparkEngine) -> None:
    running = _open_jars(_jvm_pid(engine))
    assert running
    assert running <= set(listed_jars())


def fake_key(tmp_path: Path, *, answer: str = "exit 0", name: str = "java") -> ArchiveKey:
    """A key whose Java is a script, so that no archive has to be made for real."""
    java = tmp_path / name
    java.write_text(f"#!/bin/sh\n{answer}\n")
    java.chmod(0o755)
    jar = tmp_path / "a.jar"
    if not jar.exists():
        jar.write_bytes(b"jar")
    return ArchiveKey(JavaRuntime(java, "25.0.1", 25), (jar,), ("-XX:+UseSerialGC",))


def write_archive(path: Path) -> None:
    path.write_bytes(b"archive")


def test_an_archive_is_made_whole_and_found(tmp_path: Path) -> None:
    key, folder = fake_key(tmp_path), tmp_path / "archives"
    assert find_archive(folder, key) is None
    made = make_archive(folder, key, write_archive)
    assert find_archive(folder, key) == archive_path(folder, key)
    assert read_description(archive_path(folder, key)) == made
    assert (made.size, made.java, made.jars) == (7, "25.0.1", 1)
    assert {path.name for path in folder.iterdir()} == {key.folder_name, "lock"}


def test_a_key_is_of_its_java_jars_and_options(tmp_path: Path) -> None:
    key = fake_key(tmp_path)
    names = {
        key.folder_name,
        fake_key(tmp_path, name="java2").folder_name,
        ArchiveKey(JavaRuntime(key.java.executable, "25.0.2", 25), *_rest(key)).folder_name,
        ArchiveKey(key.java, key.class_path, ()).folder_name,
        ArchiveKey(key.java, (), key.options).folder_name,
    }
    assert len(names) == 5
    before = key.folder_name
    key.class_path[0].write_bytes(b"other jar")
    assert key.folder_name != before


def _rest(key: ArchiveKey) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    return key.class_path, key.options


@pytest.mark.parametrize("harm", ["cut", "no description", "bad description", "other fields"])
def test_a_damaged_archive_is_as_good_as_none(harm: str, tmp_path: Path) -> None:
    key, folder = fake_key(tmp_path), tmp_path / "archives"
    make_archive(folder, key, write_archive)
    path = archive_path(folder, key)
    description = path.with_name("archive.json")
    match harm:
        case "cut":
            path.write_bytes(b"arch")
        case "no description":
            description.unlink()
        case "bad description":
            description.write_text("{")
        case _:
            description.write_text(json.dumps({"size": 7}))
    assert find_archive(folder, key) is None
    make_archive(folder, key, write_archive)
    assert find_archive(folder, key) == path


def test_an_archive_that_java_does_not_take_is_not_kept(tmp_path: Path) -> None:
    key = fake_key(tmp_path, answer="echo 'the jars differ'; exit 1")
    folder = tmp_path / "archives"
    with pytest.raises(EngineUnavailableError, match=r"does not take .*: the jars differ"):
        make_archive(folder, key, write_archive)
    assert [path.name for path in folder.iterdir()] == ["lock"]
    with pytest.raises(EngineUnavailableError, match="ended without a class archive"):
        make_archive(folder, key, lambda _: None)


def test_a_failed_training_leaves_the_old_archive(tmp_path: Path) -> None:
    key, folder = fake_key(tmp_path), tmp_path / "archives"
    make_archive(folder, key, write_archive)

    def fail(path: Path) -> None:
        write_archive(path)
        raise EngineUnavailableError("no room")

    with pytest.raises(EngineUnavailableError, match="no room"):
        make_archive(folder, key, fail)
    assert find_archive(folder, key) is not None


def test_only_the_newest_archives_stay_and_no_leftovers(tmp_path: Path) -> None:
    folder = tmp_path / "archives"
    (folder / "making-killed").mkdir(parents=True)
    keys = [fake_key(tmp_path, name=f"java-{number}") for number in range(ARCHIVES_KEPT + 2)]
    for key in keys:
        make_archive(folder, key, write_archive)
    assert [find_archive(folder, key) is not None for key in keys] == (
        [False, False] + [True] * ARCHIVES_KEPT
    )
    assert not list(folder.glob("making-*"))


def test_the_state_is_told_without_an_archive(tmp_path: Path) -> None:
    answer = prepare("status", "--archives", str(tmp_path / "nothing"))
    assert (answer["ok"], answer["reason"]) == (False, "there is none yet")
    assert answer["jars"] == len(listed_jars())
    assert not (tmp_path / "nothing").exists()


def prepare(*arguments: str) -> Any:
    """Run the engine's own command line and return its answer."""
    command = [sys.executable, "-I", "-m", "odf.engines.spark.prepare", *arguments]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


@pytest.fixture(scope="module")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a real archive, made as `odf engine build` makes it."""
    home = tmp_path_factory.mktemp("cache")
    made = prepare("build", "--archives", str(archives_folder(home)))
    assert (made["ok"], made["built"]) == (True, True)
    return home


@pytest.fixture
def archives(cache_home: Path) -> Path:
    return archives_folder(cache_home)


@pytest.mark.spark
def test_java_takes_the_archive_for_this_class_path_only(archives: Path) -> None:
    key = archive_key(find_java())
    path = find_archive(archives, key)
    assert path is not None
    assert why_not_taken(key, path) is None
    other = ArchiveKey(key.java, key.class_path[1:], key.options)
    assert "class path" in (why_not_taken(other, path) or "").replace("classpath", "class path")


@pytest.mark.spark
def test_it_is_not_made_again_without_need(archives: Path) -> None:
    again = prepare("build", "--archives", str(archives))
    assert (again["ok"], again["built"]) == (True, False)


@pytest.mark.spark
@pytest.mark.parametrize("words", [["--wait"], []], ids=["wait", "no wait"])
def test_warmup_finds_it_there(words: list[str], cache_home: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "odf", "engine", "warmup", *words, "-o", "json"],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(cache_home), "HOME": str(tmp_path)},
    )
    found = json.loads(ran.stdout)
    assert (found["begun"], found["engine"]["ready"]) == (False, True)
    assert found["engine"]["archive"]["built"] is False


@pytest.mark.spark
@pytest.mark.parametrize("runtime", ["bubblewrap", "process"])
def test_an_engine_of_the_pool_starts_from_it(
    runtime: RuntimeChoice, cache_home: Path, tmp_path: Path
) -> None:
    settings = PoolSettings(runtime=runtime, cache_home=cache_home)
    pool = EnginePool(settings, run_dir=tmp_path / "run")
    try:
        client = pool.client(SPARK, dataset="test", trusted=True)
    except EngineUnavailableError as error:
        pytest.skip(error.message)
    try:
        # The answer needs Spark, which runs by then.
        client.validate_query(
            sql("select * from input"), [QueryInput("input", None)], DEFAULT_VOCAB, preprocess=True
        )
        archive = archive_path(archives_folder(cache_home), archive_key(find_java()))
        assert _processes_with(archive)
    finally:
        pool.close()


def _processes_with(archive: Path) -> list[str]:
    """List the processes that have mapped an archive: Java is silent about what it leaves out."""
    found = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if f"{archive.parent.name}/{archive.name}" in maps.read_text():
                found.append(maps.parent.name)
    return found


def _jvm_pid(engine: SparkEngine) -> int:
    engine.warm_up()
    jvm = engine._runtime._jvm
    assert jvm is not None
    return jvm.pid


def _open_jars(pid: int) -> set[str]:
    links = [link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()]
    return {link.name for link in links if link.parent == ALL_JARS.resolve()}


RESULTS = """
import sys
from pathlib import Path
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.session import SparkSettings
from tests.engines.spark.test_spark_start import results
folder, archives = Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2:] else None
engine = SparkEngine(SparkSettings(folder / "scratch", folder / "log", cores=2, archives=archives))
engine.warm_up()
maps = Path(f"/proc/{engine._runtime._jvm.pid}/maps").read_text()
print("archive" if "spark.aot" in maps else "plain")
for line in results(engine, folder):
    print(line)
engine.close()
"""


def results(engine: SparkEngine, folder: Path) -> list[str]:
    """Logical hashes of what the readers, merges and queries give."""
    read = ReadStepCsv(header=True, schema=("event_time TIMESTAMP", "id BIGINT", "price DOUBLE"))
    merges: list[MergeStrategy] = [
        MergeStrategyAppend(),
        MergeStrategyLedger(primary_key=("id",)),
        MergeStrategySnapshot(primary_key=("id",)),
    ]
    found = []
    for number, merge in enumerate(merges):
        place = folder / f"dataset-{number}"
        place.mkdir()
        query = sql("select event_time, id, price * 1.1 as price from input where id > 0")
        ingestor = Ingestor(engine, place, read=read, merge=merge, preprocess=query)
        for turn in range(2):
            lines = [
                f"2024-01-{9 - row % 9:02} 00:00:00,{row},{row * turn / 7}" for row in range(90)
            ]
            ingestor.text("\n".join(["event_time,id,price", *lines]) + "\n")
        for path in ingestor.history:
            table = pq.read_table(path)
            found.append(str(logical_hash(table.schema, table.to_batches())))
        text = "select id % 7 as k, sum(price) as s, min(event_time) as t from input group by 1"
        rows = engine.raw_query(sql(text), ingestor.history, place / "query")
        found.append(str(logical_hash(rows.schema, rows.batches)))
    return found


@pytest.mark.spark
def test_results_are_the_same_with_and_without_the_archive(archives: Path, tmp_path: Path) -> None:
    said = []
    for name, more in (("plain", []), ("archive", [str(archives)])):
        folder = tmp_path / name
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", RESULTS, str(folder), *more],
            capture_output=True,
            check=True,
            text=True,
        )
        first, *hashes = done.stdout.splitlines()
        assert first == name
        said.append(hashes)
    assert len(said[0]) == 8
    assert said[0] == said[1]

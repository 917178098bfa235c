"""`odf engine` on the command line, with tools that answer as docker can, and DataFusion."""

import fcntl
import os
from pathlib import Path

import pytest

from odf.runtimes.archives import make_behind
from odf.runtimes.images import SPECS, image_name
from odf.runtimes.pool import archives_folder
from tests.cli.conftest import Run

DIGEST = "sha256:" + "0" * 64
HAS_NOTHING = """
case "$1" in
  info) echo '{"SecurityOptions": []}' ;;
  ps) ;;
  *) echo 'Error: No such image: x' >&2; exit 1 ;;
esac"""
HAS_ALL = f"""
case "$1" in
  info) echo '{{"SecurityOptions": []}}' ;;
  image) echo '{DIGEST} ["registry.example/theirs@{DIGEST}"]' ;;
esac"""
CONFIG = """
engine:
  images:
    theirs: {image: "registry.example/theirs:1", port: 2884}
"""
DERIVATIVE = """
kind: DatasetSnapshot
version: 1
content:
  name: derived
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: prices}]
      transform: {kind: Sql, engine: Theirs, query: "select event_time from prices"}
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called docker that is all of the path; what it says is up to the test."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    return folder / "docker"


@pytest.fixture
def in_prices(prices: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with the dataset prices, as the current folder."""
    monkeypatch.chdir(prices)
    return prices


def says(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def configure(text: str) -> None:
    Path(".odf/config.yaml").write_text(text)


def test_lists_our_engines_and_their_images_without_a_workspace(run: Run, docker: Path) -> None:
    says(docker, HAS_NOTHING)
    engines = run("engine", "list", "-o", "json").json["engines"]
    assert [engine["name"] for engine in engines] == ["spark", "datafusion"]
    image = engines[1]["images"][0]
    assert (image["runtime"], image["here"]) == ("docker", False)
    assert image["image"] == image_name(SPECS["datafusion"])
    assert "odf engine build" in image["reason"]
    says(docker, HAS_ALL)
    text = run("engine", "list", "-o", "text")
    assert text.code == 0
    assert "docker" in text.out


def test_lists_engines_of_others_with_the_image_they_stand_for(run: Run, docker: Path) -> None:
    run("init")
    configure(CONFIG)
    says(docker, HAS_ALL)
    theirs = run("engine", "list", "-o", "json").json["engines"][-1]
    assert theirs["name"] == "theirs"
    assert theirs["release"] == f"registry.example/theirs@{DIGEST}"
    assert theirs["ready"]
    says(docker, HAS_NOTHING)
    theirs = run("engine", "list", "-o", "json").json["engines"][-1]
    assert (theirs["release"], theirs["ready"]) == (None, False)
    assert "there is no image registry.example/theirs:1" in theirs["reason"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{images: {spark: {image: x}}}", "spark comes with odf"),
        ("{images: {Flink: {image: x}}}", "in lower case"),
        ("{images: {flink: {}}}", "engine.images.flink.image: wanted an image"),
        ("{images: {flink: {image: '-v/:/x'}}}", "engine.images.flink.image: wanted an image"),
        ("{images: {flink: {image: x, port: 0}}}", "engine.images.flink.port: wanted a port"),
        ("{images: {flink: {image: x, port: true}}}", "engine.images.flink.port: wanted a port"),
        ("{images: {flink: {image: x, input: in}}}", "engine.images.flink.input: wanted a folder"),
        ("{images: {flink: {image: x, scratch: /tmp}}}", "scratch: wanted a list of folders"),
        ("{images: {flink: {image: x, prot: 1}}}", "did you mean"),
        ("{images: 1}", "engine.images"),
        ("{runtime: dokcer}", "engine.runtime: wanted auto, docker, podman, bubblewrap, process"),
    ],
)
def test_settings_that_make_no_sense_are_told(run: Run, text: str, said: str) -> None:
    run("init")
    configure(f"engine: {text}")
    ran = run("engine", "list")
    assert ran.code != 0
    assert said in ran.err.replace("`", ""), ran.err


@pytest.mark.usefixtures("in_prices")
def test_adding_a_transform_of_a_configured_engine_pins_its_image(run: Run, docker: Path) -> None:
    configure(CONFIG)
    says(docker, HAS_ALL)
    Path("derived.yaml").write_text(DERIVATIVE)
    added = run("add", "derived.yaml")
    assert added.code == 0, added.err
    assert "checks no queries" in added.out + added.err
    assert f"registry.example/theirs@{DIGEST}" in run("log", "derived", "-o", "json").out


@pytest.mark.usefixtures("in_prices")
def test_adding_one_whose_image_is_not_here_adds_nothing(run: Run, docker: Path) -> None:
    configure(CONFIG)
    says(docker, HAS_NOTHING)
    Path("derived.yaml").write_text(DERIVATIVE)
    added = run("add", "derived.yaml")
    assert added.code == 9
    assert "there is no image registry.example/theirs:1" in added.err
    assert "docker pull registry.example/theirs:1" in added.err
    assert run("log", "derived").code != 0


@pytest.mark.usefixtures("in_prices")
def test_an_unknown_engine_is_told_with_how_to_configure_one(run: Run) -> None:
    Path("derived.yaml").write_text(DERIVATIVE)
    added = run("add", "derived.yaml")
    assert added.code == 0
    assert "{images: {theirs: {image: …, port: …}}}" in added.out + added.err
    pulled = run("pull", "derived")
    assert pulled.code == 9 or "up to date" in pulled.out


def test_building_images_without_a_tool_is_an_error_only_when_asked_for(
    run: Run, docker: Path
) -> None:
    asked = run("engine", "build", "--only", "images")
    assert asked.code == 9
    assert "neither docker nor podman works here" in asked.err
    named = run("engine", "build", "--only", "images", "--runtime", "docker")
    assert named.code == 9
    assert "docker is not installed" in named.err
    assert not docker.exists()


def test_a_base_that_does_not_do_is_told_with_the_log(run: Run, docker: Path) -> None:
    says(docker, HAS_NOTHING)
    ran = run("engine", "build", "--only", "images", "--base", "scratch:1")
    assert ran.code == 9
    assert "cannot run python3 in the base image scratch:1" in ran.err
    assert "--base IMAGE" in ran.err
    answers = """
case "$1" in
  info) echo '{"SecurityOptions": []}' ;;
  run) echo '[[3, 9], "x86_64", ["glibc", "2.31"]]' ;;
  *) echo 'Error: No such image: x' >&2; exit 1 ;;
esac"""
    says(docker, answers)
    ran = run("engine", "build", "--only", "images", "--base", "old:1")
    assert ran.code == 9
    assert "has Python 3.9 and the C library glibc; wanted Python 3.11" in ran.err


def test_check_passes_for_a_good_engine(run: Run) -> None:
    ran = run("engine", "check", "datafusion", "--runtime", "process", "-o", "json")
    assert ran.code == 0, ran.err
    report = ran.json
    assert report["schema"] == "odf.cli/engine-check/v1"
    assert (report["engine"], report["runtime"], report["passed"]) == (
        "datafusion",
        "process",
        True,
    )
    assert {check["result"] for check in report["checks"]} == {"passed"}


def test_check_of_what_is_not_there(run: Run, docker: Path) -> None:
    says(docker, HAS_NOTHING)
    assert run("engine", "check", "flink").code == 9
    assert run("engine", "check", "x:1", "--port", "2884").code == 2
    ran = run("engine", "check", "x:1", "--engine", "flink")
    assert ran.code == 9
    assert "there is no image x:1" in ran.err


def test_stop_without_anything_to_stop(run: Run, docker: Path) -> None:
    says(docker, "exit 0")
    ran = run("engine", "stop", "-o", "json")
    assert (ran.code, ran.json["engines"], ran.json["containers"]) == (0, [], [])
    assert ran.json["in_use"] == []


def test_warmup_begins_the_archive_behind_the_command(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = archives_folder(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder.mkdir(parents=True)
    before = children()
    with (folder / "lock").open("w") as lock:
        # While somebody else makes one, it has nothing to do.
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = run("engine", "warmup", "-o", "json")
        assert ran.code == 0
        assert (ran.json["begun"], ran.json["engine"]["ready"]) == (True, False)
        for pid in children() - before:
            os.waitpid(pid, 0)
    assert sorted(path.name for path in folder.iterdir()) == ["lock"]


def test_what_is_made_behind_is_the_least_urgent(tmp_path: Path) -> None:
    folder = tmp_path / "archives"
    java = tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    (java / "release").write_text('JAVA_VERSION="25.0.1"\n')
    urgency = tmp_path / "urgency"
    program = java / "bin" / "java"
    lines = ["nice", "cut -d ' ' -f 6 /proc/$$/stat"]
    said = "".join(f"{line} >> {urgency}\n" for line in lines)
    program.write_text(f"#!/bin/sh\n{said}exit 1\n")
    program.chmod(0o755)
    pid = make_behind(folder, java_home=java)
    os.waitpid(pid, 0)
    # It leads a session of its own, which no terminal's end can reach.
    assert urgency.read_text().split() == ["19", str(pid)]
    assert find(folder, "*.aot") == []
    # What failed is not begun again by the next command, but it is on another day.
    os.waitpid(make_behind(folder, java_home=java), 0)
    assert len(urgency.read_text().split()) == 2
    (failure,) = find(folder, "not-made")
    os.utime(failure, (0, 0))
    os.waitpid(make_behind(folder, java_home=java), 0)
    assert len(urgency.read_text().split()) == 4


def children() -> set[int]:
    """The processes that this one started and that nobody waited for."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


def find(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))

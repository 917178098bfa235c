"""`odf add` with its ways to treat what exists, and `odf delete`, as people see them."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

INFO = "    - {kind: SetInfo, description: Fruit}\n"
OF_PRICES = """\
kind: DatasetSnapshot
version: 1
content:
  name: cheap
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: prices}]
      transform: {kind: Sql, engine: flink, query: "select * from prices"}
"""


@pytest.fixture
def folder(run, tmp_path: Path, manifest_text: str) -> Path:
    """A workspace, in which the command line runs, with the dataset `prices`."""
    assert run("init", "-q").code == 0
    here = tmp_path / "here"
    (here / "prices.yaml").write_text(manifest_text)
    (here / "cheap.yaml").write_text(OF_PRICES)
    (here / "changed.yaml").write_text(manifest_text.replace("data/*", "other/*") + INFO)
    assert run("add", "-q", "prices.yaml").code == 0
    return here


def names(run) -> list[str]:
    return [dataset["name"] for dataset in run("list", "-o", "json").json["datasets"]]


@pytest.mark.usefixtures("folder")
def test_what_exists_can_be_left_alone(run):
    ran = run("add", "--if-exists", "skip", "prices.yaml", "cheap.yaml")
    assert ran.code == 0
    assert ran.out.splitlines()[1].split() == ["cheap", "derivative", "2", "-"]
    assert ran.out.splitlines()[2] == "prices: exists already, left alone"
    assert run("add", "--if-exists", "fail", "prices.yaml").code == 5


@pytest.mark.usefixtures("folder")
def test_an_update_shows_what_it_appends(run):
    planned = run("add", "--update", "--dry-run", "changed.yaml")
    assert planned.code == 0
    assert "dry run: nothing was written" in planned.err
    ran = run("add", "--update", "changed.yaml")
    assert ran.code == 0
    assert ran.out == planned.out.replace("to append", "appended")
    lines = ran.out.splitlines()
    assert lines[0] == "prices: 2 events appended"
    assert lines[1] == "  ~ SetPollingSource"
    assert "    -  path: data/*.csv" in lines
    assert "    +  path: other/*.csv" in lines
    assert lines[-2:] == ["  + SetInfo", "    +description: Fruit"]
    again = run("add", "--update", "changed.yaml")
    assert (again.code, again.out) == (0, "prices: nothing to change\n")
    assert run("add", "-q", "--update", "changed.yaml") == type(again)(0, "", "")


@pytest.mark.usefixtures("folder")
def test_an_update_as_json(run):
    head = run("list", "-o", "json").json["datasets"][0]["head"]
    planned = run("add", "--update", "--dry-run", "changed.yaml", "-o", "json").json
    assert planned["dry_run"] is True
    assert planned["datasets"][0]["head"] is None
    assert run("list", "-o", "json").json["datasets"][0]["head"] == head
    document = run("add", "--update", "changed.yaml", "-o", "json").json
    [dataset] = document["datasets"]
    assert (dataset["action"], dataset["blocks"]) == ("updated", 2)
    source, info = dataset["changes"]
    assert source["before"]["fetch"]["path"] == "data/*.csv"
    assert source["event"]["fetch"]["path"] == "other/*.csv"
    changed = [line for line in source["diff"] if line[0] != " "]
    assert changed == ["-  path: data/*.csv", "+  path: other/*.csv"]
    assert (info["before"], info["event"]["description"]) == (None, "Fruit")
    [dataset] = run("add", "--update", "changed.yaml", "-o", "json").json["datasets"]
    assert (dataset["action"], dataset["changes"], dataset["blocks"]) == ("unchanged", [], 0)
    assert dataset["head"] == run("list", "-o", "json").json["datasets"][0]["head"]


def test_lines_of_a_query_that_look_like_a_diffs_own_are_shown(run, folder):
    run("add", "cheap.yaml")
    query = "query: |\n          -- new\n          select 1 from prices\n      "
    text = OF_PRICES.replace(
        '{kind: Sql, engine: flink, query: "select * from prices"}',
        "\n        kind: Sql\n        engine: flink\n        " + query,
    )
    (folder / "cheap.yaml").write_text(text)
    first = run("add", "--update", "cheap.yaml").out
    (folder / "cheap.yaml").write_text(text.replace("-- new", "-- newer"))
    second = run("add", "--update", "cheap.yaml").out
    assert "-- new" in first
    assert any(line.strip().startswith("---") or "-- new" in line for line in second.splitlines())
    assert any(line.strip().startswith("+") and "-- newer" in line for line in second.splitlines())


def test_a_source_that_ends_is_shown(run, folder):
    (folder / "push.yaml").write_text(
        "kind: DatasetSnapshot\nversion: 1\ncontent:\n  name: prices\n  kind: Root\n  metadata:\n"
        "    - kind: AddPushSource\n      sourceName: shop\n"
        "      read: {kind: NdJson, schema: [fruit STRING]}\n      merge: {kind: Append}\n"
    )
    lines = run("add", "--update", "push.yaml").out.splitlines()
    assert lines[:2] == ["prices: 2 events appended", "  - DisablePollingSource"]
    assert "  + AddPushSource" in lines


@pytest.mark.usefixtures("folder")
def test_a_replacement_needs_a_word(run):
    ran = run("add", "--replace", "changed.yaml")
    assert ran.code == 6
    assert "hint: say -y" in ran.err
    before = run("list", "-o", "json").json["datasets"][0]["id"]
    planned = run("add", "--replace", "--dry-run", "changed.yaml")
    assert "Would lose prices: 2 blocks, 0 rows" in planned.out
    assert run("list", "-o", "json").json["datasets"][0]["id"] == before
    ran = run("add", "--replace", "-y", "changed.yaml", "-o", "json")
    [dataset] = ran.json["datasets"]
    assert (dataset["action"], dataset["lost"]["id"]) == ("replaced", before)
    assert dataset["id"] == run("list", "-o", "json").json["datasets"][0]["id"] != before


@pytest.mark.usefixtures("folder")
def test_an_input_is_not_replaced(run):
    run("add", "-q", "cheap.yaml")
    ran = run("add", "--replace", "-y", "prices.yaml")
    assert ran.code == 5
    assert "cheap" in ran.err


@pytest.mark.usefixtures("folder")
def test_ways_that_contradict_each_other(run):
    ran = run("add", "--update", "--replace", "prices.yaml")
    assert ran.code == 2
    assert "--update and --replace" in ran.err


@pytest.mark.usefixtures("folder")
def test_delete(run):
    run("add", "-q", "cheap.yaml")
    assert run("delete", "cheap").code == 6
    refused = run("delete", "-y", "prices")
    assert refused.code == 5
    assert "cheap" in refused.err
    assert "hint: odf delete -r" in refused.err
    planned = run("delete", "-r", "--dry-run", "prices")
    assert planned.code == 0
    assert [line.split()[0] for line in planned.out.splitlines()[1:]] == ["cheap", "prices"]
    assert names(run) == ["cheap", "prices"]
    document = run("delete", "-r", "-y", "prices", "-o", "json").json
    assert [dataset["name"] for dataset in document["datasets"]] == ["cheap", "prices"]
    assert document["datasets"][1]["key_kept"] is True
    assert names(run) == []
    assert len(run("key", "list", "-o", "json").json["keys"]) == 2


@pytest.mark.usefixtures("folder")
def test_delete_quietly(run):
    ran = run("delete", "-q", "-y", "prices")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert run("delete", "-y", "prices").code == 4


@pytest.mark.parametrize("command", [["list"], ["delete", "x"], ["add", "--update", "x.yaml"]])
def test_outside_of_a_workspace(run, command):
    assert run(*command).code == 10


def on_a_terminal(arguments: list[str], answer: str, env: dict[str, str]) -> tuple[int, str]:
    """Run a command with a terminal at both ends; return its exit code and what it said."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "odf", *arguments],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, **env},
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 1000)
        except OSError:  # the other end was closed
            break
        said += piece
        if b"[y/N] " in piece:
            os.write(ours, answer.encode() + b"\n")
    os.close(ours)
    return process.wait(60), said.decode()


@pytest.mark.parametrize("arguments", [["delete", "prices"], ["add", "--replace", "changed.yaml"]])
def test_a_person_is_asked_and_told_what_is_lost(run, folder, environment, arguments):
    before = run("list", "-o", "json").json["datasets"]
    code, said = on_a_terminal(["-C", str(folder), *arguments], "n", environment)
    assert code == 6
    assert "prices: 2 blocks, 0 rows, 0 B; no copy elsewhere is known" in said
    assert run("list", "-o", "json").json["datasets"] == before
    code, _ = on_a_terminal(["-C", str(folder), *arguments], "y", environment)
    assert code == 0
    assert run("list", "-o", "json").json["datasets"] != before

"""Exit codes of the whole program, from the trouble on disk to the number; without Spark."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from odf.cli.main import cli
from odf.metadata.identity import DatasetID
from odf.metadata.model import (
    DatasetKind,
    ExecuteTransform,
    ExecuteTransformInput,
    Seed,
)
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.transform.hand_made import (
    TinyPool,
    add_rows,
    day,
    forge,
    forge_slice,
    make_root,
    place_forged,
    replace_by_other_rows,
    set_transform,
)

THEIRS = DatasetID(bytes(range(32)))


@dataclass(frozen=True)
class Ran:
    """What a run of the program left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    """Somebody with the root datasets `a` and `b`."""
    pool = TinyPool(tmp_path / "engines")
    somebody = Person(tmp_path / "workspace", tmp_path / "home", pool)
    for name in "ab":
        add_rows(make_root(somebody, name), "one", "two", watermark=day(1))
    yield somebody
    pool.close()


@pytest.fixture
def run(person: Person, tmp_path: Path) -> Run:
    """Run a command line in that workspace."""
    cleared = {name: "" for name in os.environ if name.startswith(("ODF_", "XDG_"))}
    environment = {**cleared, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "home")}

    def go(*arguments: str, workspace: Path = person.root) -> Ran:
        argv = ["-C", str(workspace), *arguments]
        result = CliRunner().invoke(cli, argv, env=environment)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return go


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def newest_slice(handle: DatasetHandle) -> Path:
    return max((handle.path / "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)


def test_all_is_well(run: Run) -> None:
    assert run("verify", "--all").code == 0
    assert run("pull", "--all").code == 0


@pytest.mark.parametrize("folder", ["blocks", "data"])
def test_local_bytes_that_were_changed(folder: str, run: Run, person: Person) -> None:
    victim = next((person.workspace.resolve("a").path / folder).iterdir())
    damage(victim)
    ran = run("verify", "a")
    assert ran.code == 7
    assert victim.name in ran.out
    assert "a is not valid" in ran.err
    assert run("verify", "b").code == 0
    together = run("verify", "-o", "json", "--all")
    assert together.code == 7
    assert "1 of 2 datasets failed: a" in together.err
    assert [one["valid"] for one in json.loads(together.out)["datasets"]] == [False, True]


def test_a_slice_that_was_replaced_by_a_valid_one(run: Run, person: Person) -> None:
    victim = replace_by_other_rows(person.workspace.resolve("a"))
    ran = run("verify", "a")
    assert ran.code == 7
    assert f"data/{victim.name}" in ran.out


@pytest.mark.parametrize("folder", ["blocks", "data"])
def test_remote_bytes_that_were_changed(
    folder: str, run: Run, person: Person, tmp_path: Path
) -> None:
    remote = tmp_path / "remote"
    shutil.copytree(person.workspace.resolve("a").path, remote)
    reader = tmp_path / "reader"
    assert run("init", str(reader)).code == 0
    victim = next((remote / folder).iterdir())
    intact = victim.read_bytes()
    damage(victim)
    ran = run("pull", str(remote), "--as", "theirs", workspace=reader)
    assert ran.code == 7
    assert victim.name in ran.err
    assert json.loads(run("list", "-o", "json", workspace=reader).out)["datasets"] == []
    victim.write_bytes(intact)
    assert run("pull", str(remote), "--as", "theirs", workspace=reader).code == 0


def test_a_dataset_that_somebody_writes_to(run: Run, person: Person) -> None:
    with person.workspace.resolve("a").dataset.lock():
        ran = run("pull", "a")
        assert ran.code == 8
        assert f"process {os.getpid()}" in ran.err
        several = run("pull", "--all")
        assert several.code == 3
        assert "1 of 2 datasets failed: a" in several.err
        assert run("verify", "a").code == 0  # readers never wait
    assert run("pull", "a").code == 0


def test_no_workspace(run: Run, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for command in (("list",), ("pull", "--all"), ("verify", "--all")):
        assert run(*command, workspace=elsewhere).code == 10


def test_one_of_several_that_fails(run: Run, person: Person) -> None:
    (person.workspace.resolve("a").path / "info" / "config").write_text("{")
    assert run("pull", "--all").code == 3
    assert run("pull", "a", "b").code == 3
    assert run("pull", "a").code == 1
    assert run("pull", "b").code == 0


def test_a_failed_verification_wins(run: Run, person: Person) -> None:
    """Over an engine that is missing for the next step, for one dataset and for several."""
    source = person.workspace.resolve("a")
    transform = set_transform((source.id, "a"))
    handle = place_forged(person, "theirs", THEIRS, Seed(THEIRS, DatasetKind.DERIVATIVE), transform)
    scratch = person.root
    schema, first = forge_slice(handle.dataset, scratch, "one")
    _, second = forge_slice(handle.dataset, scratch, "two", start=1)
    head = source.dataset.head()
    lie = ExecuteTransformInput(source.id, new_block_hash=head, new_offset=0)  # it has two rows
    again = add_rows(source, "three", watermark=day(2))
    then = ExecuteTransformInput(source.id, head, again, prev_offset=0, new_offset=2)
    elsewhere = replace(
        transform, transform=replace(transform.transform, engine="flink", version=None)
    )
    forge(
        handle.dataset,
        schema,
        ExecuteTransform((lie,), new_data=first, new_watermark=day(1)),
        elsewhere,
        ExecuteTransform((then,), prev_offset=0, new_data=second, new_watermark=day(2)),
    )
    ran = run("verify", "theirs", "-o", "json")
    (found,) = json.loads(ran.out)["datasets"]
    assert "records other bounds" in found["findings"][0]["message"]
    assert found["error"]["kind"] == "engine_unavailable"
    assert ran.code == 7
    assert run("verify", "--all").code == 7
    assert run("verify", "a").code == 0

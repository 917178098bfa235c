"""Datasets on their way: pushed to a folder, pulled from it and over HTTP, damaged in between."""

import shutil
from pathlib import Path

import pytest

from odf.coordinator.push import push
from odf.coordinator.results import PullStatus, PushReport
from odf.errors import ConflictError, IntegrityError, NotFoundError, UsageError
from odf.metadata.identity import RepoName
from odf.runtimes.pool import EnginePool
from tests.e2e.conftest import Person
from tests.e2e.servers import serve_folder
from tests.e2e.test_bad_input import derivative, tree, with_registry, write

pytestmark = pytest.mark.spark

QUERY = "SELECT op, event_time, id, upper(name) AS name FROM registry WHERE size < 3"


@pytest.fixture
def reader(tmp_path: Path, engines: EnginePool) -> Person:
    """Somebody else, with keys of their own."""
    return Person(tmp_path / "reader", tmp_path / "reader-home", engines)


@pytest.fixture
def shelf(tmp_path: Path, person: Person, reader: Person) -> Path:
    """A repository in a folder that both know, with a root dataset and a derivative in it."""
    folder = tmp_path / "shelf"
    for somebody in (person, reader):
        somebody.workspace.repositories.add(RepoName("shelf"), folder.as_uri())
    with_registry(person)
    person.add(derivative(QUERY))
    person.pull("derived")
    publish(person)
    return folder


def publish(person: Person) -> PushReport:
    with person.context("push") as ctx:
        return push(ctx, ("registry", "derived"), "shelf")


def head(person: Person, name: str) -> object:
    return person.workspace.resolve(name).dataset.head()


def test_what_was_pushed_is_pulled_and_verified_elsewhere(
    person: Person, reader: Person, shelf: Path
) -> None:
    for name in ("registry", "derived"):
        result = reader.pull(f"shelf/{name}")
        assert result.status is PullStatus.UPDATED
        assert head(reader, name) == head(person, name)
        stored = shelf / name / "refs" / "head"
        assert stored.read_text() == str(head(person, name))
    report = reader.verify("derived", recursive=True)
    assert [(dataset.valid, dataset.findings) for dataset in report.datasets] == [(True, ())] * 2
    assert report.datasets[1].replayed == 1


@pytest.mark.usefixtures("shelf")
def test_only_what_is_new_travels(person: Person, reader: Person) -> None:
    reader.pull("shelf/registry")
    assert [entry.status for entry in publish(person).datasets] == [PullStatus.UP_TO_DATE] * 2
    write(person, "id,name,size\n1,one,1\n2,two,2\n3,three,3\n")
    person.pull("registry")
    sent = publish(person).datasets[0]
    assert (sent.status, sent.blocks, sent.objects) == (PullStatus.UPDATED, 1, 1)
    again = reader.pull("registry")
    assert (again.status, again.blocks) == (PullStatus.UPDATED, 1)
    assert reader.pull("registry").status is PullStatus.UP_TO_DATE


def test_over_http(reader: Person, person: Person, shelf: Path) -> None:
    with serve_folder(shelf) as url:
        reader.pull(f"{url}/registry", as_name="theirs")
        assert head(reader, "theirs") == head(person, "registry")
        with pytest.raises(UsageError, match="name"):
            reader.pull(f"{url}/derived")
        with pytest.raises(NotFoundError):
            reader.pull(f"{url}/nothing", as_name="nothing")
    assert reader.verify("theirs").datasets[0].valid


@pytest.mark.usefixtures("shelf")
def test_a_name_that_is_taken(reader: Person) -> None:
    reader.pull("shelf/registry")
    with pytest.raises(ConflictError, match="registry"):
        reader.pull("shelf/derived", as_name="registry")


@pytest.mark.parametrize("folder", ["blocks", "data"])
def test_a_remote_that_does_not_hash_to_its_names(folder: str, reader: Person, shelf: Path) -> None:
    victim = max((shelf / "registry" / folder).iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    before = tree(reader.root)
    with pytest.raises(IntegrityError, match=victim.name) as refused:
        reader.pull("shelf/registry")
    assert refused.value.exit_code == 7
    assert reader.workspace.datasets() == []
    assert {name for name in tree(reader.root) if not name.startswith(".pull-")} == set(before)


@pytest.mark.parametrize("folder", ["blocks", "data"])
def test_bytes_that_were_changed_here(folder: str, person: Person) -> None:
    with_registry(person)
    handle = person.workspace.resolve("registry")
    victim = max((handle.path / folder).iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 3] ^= 4
    victim.write_bytes(content)
    report = person.verify("registry").datasets[0]
    assert not report.valid
    text = " ".join([finding.message for finding in report.findings] + [str(report.error)])
    assert victim.name in text or any(victim.name in (f.object or "") for f in report.findings)


def test_a_result_that_was_forged(person: Person, tmp_path: Path) -> None:
    """Rows that hash to what their block says, but that the query does not give."""
    from odf.metadata.model import ExecuteTransform
    from tests.e2e.forging import commit_forged_slice

    with_registry(person)
    person.add(derivative(QUERY))
    person.pull("derived")
    write(person, "id,name,size\n1,one,1\n2,two,2\n3,three,1\n")
    person.pull("registry")
    person.pull("derived")
    handle = person.workspace.resolve("derived")
    honest = handle.dataset.block(handle.dataset.head())
    assert isinstance(honest.event, ExecuteTransform)
    forged = commit_forged_slice(handle, tmp_path)
    report = person.verify("derived").datasets[0]
    assert not report.valid
    found = [finding for finding in report.findings if finding.severity == "error"]
    assert [finding.block for finding in found] == [forged]
    assert "logical hash" in found[0].message
    assert person.verify("derived", integrity_only=True).datasets[0].valid


@pytest.mark.usefixtures("shelf")
def test_an_input_that_is_not_here_is_not_called_wrong(reader: Person) -> None:
    reader.pull("shelf/derived")
    report = reader.verify("derived").datasets[0]
    assert report.valid
    assert [finding.severity for finding in report.findings] == ["unchecked"]


def test_a_diverged_history_is_refused_and_can_be_taken(
    person: Person, reader: Person, shelf: Path, tmp_path: Path
) -> None:
    reader.pull("shelf/registry")
    shutil.copytree(shelf / "registry", tmp_path / "older")
    write(person, "id,name,size\n1,one,1\n")
    person.pull("registry")
    publish(person)
    reader.pull("registry")
    shutil.rmtree(shelf / "registry")
    shutil.copytree(tmp_path / "older", shelf / "registry")
    with pytest.raises(ConflictError, match="ahead"):
        reader.pull("registry")
    taken = reader.pull("registry", force=True)
    assert any("backup" in warning for warning in taken.warnings)

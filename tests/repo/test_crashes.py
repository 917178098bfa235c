"""Several writers at once, and writers that are killed at any step."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import DatasetKind, Seed, SetInfo, Timestamp
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.repo.verify import verify_integrity
from odf.workspace.workspace import Workspace

HERE = Path(__file__).parent
NOW = Timestamp.parse("2026-06-01T00:00:00Z")


def test_writers_at_once_neither_lose_nor_double(local, maker, tmp_path):
    """Three processes commit 25 times each; every acknowledged commit is there once."""
    dataset = maker.seed(local)
    writers = [
        subprocess.Popen(
            [sys.executable, HERE / "writer_child.py", tmp_path / "dataset", name, "25"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    acknowledged = [line for writer in writers for line in writer.communicate()[0].split()]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert len(acknowledged) == 75
    events = [block.event for _, block in dataset.blocks()]
    found = Counter(str(e.description) for e in events if isinstance(e, SetInfo))
    assert found == Counter(acknowledged)
    assert max(found.values()) == 1
    assert dataset.state() == Dataset(local).state(use_cache=False)
    assert verify_integrity(dataset, now=NOW).findings == ()


def child(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, HERE / "crash_child.py", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def after_kills(scenario: str, folder: Path, scratch: Path) -> list[Path]:
    """Return copies of the folder, each as it is after a kill at one step, first to last."""
    scratch.mkdir()
    child(scenario, folder, scratch)
    copies = sorted(scratch.glob("step-*"))
    assert len(copies) > 20
    return copies


@pytest.fixture
def prepared(tmp_path, maker) -> Path:
    """A dataset of two slices, and a third slice that waits to be committed."""
    import pyarrow as pa

    folder = tmp_path / "work"
    dataset = maker.full(DatasetStores.local(folder / "dataset"))
    # The rows carry the time at which the child commits them.
    time = Timestamp.parse("2026-05-01T00:00:00Z").epoch_ms
    columns = [[4, 5], [0, 0], [time, time], [1_600_000_000_000] * 2, ["Bonn", "Kyiv"], [3, 4]]
    table = pa.table(
        [pa.array(v, f.type) for v, f in zip(columns, maker.schema(), strict=True)],
        schema=maker.schema(),
    )
    event, (staged,) = maker.proposal(dataset, table)
    shutil.move(staged.path, folder / "prepared")
    (folder / "logical").write_text(str(event.new_data.logical_hash))
    return folder


def test_a_commit_killed_at_any_step(prepared, tmp_path):
    """The dataset is the old one or the new one, sound, and the next commit goes through."""
    old = Dataset(DatasetStores.local(prepared / "dataset")).head()
    undone: list[Path] = []
    folders = after_kills("commit", prepared, tmp_path / "kills")
    for folder in folders:
        dataset = Dataset(DatasetStores.local(folder / "dataset"))
        report = verify_integrity(dataset, now=NOW)
        assert report.findings == ()
        changed = dataset.head() != old
        assert dataset.state().num_blocks == (6 if changed else 4)
        assert dataset.state() == dataset.state(use_cache=False)
        if not changed:
            undone.append(folder)
    assert 0 < len(undone) < len(folders)
    child("commit", "again", *undone)
    for folder in undone:
        dataset = Dataset(DatasetStores.local(folder / "dataset"))
        assert dataset.state().num_records == 6
        assert verify_integrity(dataset, now=NOW).findings == ()


def test_a_pull_killed_at_any_step(prepared, tmp_path):
    """The copy is not there, or it is all there; the next pull completes it."""
    source = Dataset(DatasetStores.local(prepared / "dataset"))
    folders = after_kills("pull", prepared, tmp_path / "kills")
    heads = {Dataset(DatasetStores.local(folder / "copy")).head() for folder in folders}
    assert heads == {None, source.head()}
    child("pull", "again", *folders)
    for folder in folders:
        copy = Dataset(DatasetStores.local(folder / "copy"))
        assert copy.state() == source.state()
        assert verify_integrity(copy, now=NOW).findings == ()


def test_changes_of_a_workspace_killed_at_any_step(tmp_path):
    """Every dataset is there as a whole or not at all, and nothing needs to be repaired."""
    root = tmp_path / "work"
    seed = Seed(DatasetID(b"\1" * 32), DatasetKind.ROOT)
    Workspace.init(root).create_dataset(DatasetAlias.parse("old"), [seed], system_time=NOW)
    seen: set[tuple[str, ...]] = set()
    for folder in after_kills("create", root, tmp_path / "kills"):
        workspace = Workspace.find(folder)
        for handle in workspace.datasets():
            assert verify_integrity(handle.dataset, now=NOW).findings == ()
        seen.add(tuple(str(handle.alias) for handle in workspace.datasets()))
        for handle in workspace.datasets():
            workspace.remove_dataset(handle.id)
        assert list(workspace.datasets_dir.iterdir()) == []
    assert seen == {("old",), ("new", "old"), ("old", "renamed"), ("renamed",)}

"""Finding a workspace, and what happens to datasets as a whole."""

import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from odf.errors import (
    BadInputError,
    ConflictError,
    IntegrityError,
    LockedError,
    NotAWorkspaceError,
    NotFoundError,
    RuleViolationError,
    TransportError,
)
from odf.metadata.identity import DatasetAlias, DatasetID, DatasetPattern
from odf.metadata.model import DatasetKind, Seed, SetInfo, Timestamp
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.repo.sync import sync
from odf.workspace.config import EngineRuntime
from odf.workspace.repositories import RemoteAliases
from odf.workspace.settings_files import SettingsError
from odf.workspace.workspace import DatasetHandle, Workspace, WorkspaceFormatError

NOW = Timestamp.parse("2026-01-01T00:00:00Z")


def identity(number: int) -> DatasetID:
    return DatasetID(bytes([number]) * 32)


def make(workspace: Workspace, name: str, number: int = 1) -> DatasetHandle:
    events = [Seed(identity(number), DatasetKind.ROOT), SetInfo(description=name)]
    return workspace.create_dataset(DatasetAlias.parse(name), events, system_time=NOW)


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace.init(tmp_path / "w")


def folders(workspace: Workspace) -> list[str]:
    return sorted(path.name for path in workspace.datasets_dir.iterdir())


class TestInitAndFind:
    def test_init_makes_a_private_folder(self, tmp_path):
        workspace = Workspace.init(tmp_path / "new" / "place")
        assert workspace.root == tmp_path / "new" / "place"
        assert stat.S_IMODE((workspace.root / ".odf").stat().st_mode) == 0o700
        assert (workspace.root / ".odf" / "workspace.yaml").read_text() == "formatVersion: 1\n"
        assert workspace.datasets() == []

    def test_init_twice(self, workspace):
        make(workspace, "prices")
        with pytest.raises(ConflictError, match="a workspace already") as caught:
            Workspace.init(workspace.root)
        assert caught.value.exit_code == 5
        again = Workspace.init(workspace.root, exists_ok=True)
        assert [str(handle.alias) for handle in again.datasets()] == ["prices"]

    def test_init_goes_on_after_a_crash(self, workspace):
        make(workspace, "prices")
        (workspace.root / ".odf" / "workspace.yaml").unlink()
        assert len(Workspace.init(workspace.root).datasets()) == 1

    def test_it_is_found_from_below(self, workspace):
        below = workspace.root / "a" / "b"
        below.mkdir(parents=True)
        assert Workspace.find(below).root == workspace.root
        assert Workspace.find(workspace.root).root == workspace.root

    def test_the_nearest_one_is_found(self, workspace):
        inner = Workspace.init(workspace.root / "inner")
        assert Workspace.find(inner.root).root == inner.root

    def test_a_folder_of_that_name_is_no_workspace(self, workspace):
        stray = workspace.root / "stray"
        (stray / ".odf").mkdir(parents=True)
        assert Workspace.find(stray).root == workspace.root

    def test_none(self, tmp_path):
        with pytest.raises(NotAWorkspaceError, match="not in a workspace") as caught:
            Workspace.find(tmp_path)
        assert caught.value.exit_code == 10
        assert "odf init" in (caught.value.hint or "")

    @pytest.mark.parametrize(
        ("text", "error", "message"),
        [
            ("formatVersion: 2\n", WorkspaceFormatError, "format 2.*format 1"),
            ("formatVersion: 0\n", WorkspaceFormatError, "format 0"),
            ("formatVersion: x\n", WorkspaceFormatError, "wanted formatVersion: 1"),
            ("", SettingsError, "wanted names with values"),
            ("version: 1\n", SettingsError, "no such setting"),
        ],
    )
    def test_other_formats(self, workspace, text, error, message):
        (workspace.root / ".odf" / "workspace.yaml").write_text(text)
        with pytest.raises(error, match=message):
            Workspace.find(workspace.root)
        with pytest.raises(error, match=message):
            Workspace.init(workspace.root, exists_ok=True)

    def test_a_format_written_by_hand(self, workspace):
        (workspace.root / ".odf" / "workspace.yaml").write_text("# mine\nformatVersion:   1\n")
        assert Workspace.find(workspace.root).root == workspace.root

    def test_where_nothing_can_be_made(self, tmp_path):
        (tmp_path / "file").write_text("x")
        with pytest.raises(TransportError, match="cannot make a workspace"):
            Workspace.init(tmp_path / "file")

    def test_settings_and_runs(self, workspace, tmp_path):
        (workspace.root / ".odf" / "config.yaml").write_text("engine: {runtime: process}\n")
        (tmp_path / "user.yaml").write_text("engine: {runtime: bubblewrap, memory: 1g}\n")
        found = Workspace.find(workspace.root, config_files=[tmp_path / "user.yaml"])
        assert found.config.engine_runtime is EngineRuntime.PROCESS
        assert found.config.engine_memory == 2**30
        assert found.run_dir("pull").parent == workspace.root / ".odf" / "run"
        assert found.cache_dir.is_dir()
        assert found.repositories.list() == ()


class TestDatasets:
    def test_create(self, workspace):
        handle = make(workspace, "com.example.Prices")
        assert handle.path == workspace.datasets_dir / identity(1).multibase
        assert (handle.path / "info" / "alias").read_text() == "com.example.Prices"
        assert handle.dataset.state().num_blocks == 2
        assert handle.pull_aliases == handle.push_aliases == ()
        assert folders(workspace) == [identity(1).multibase]
        assert {path.name for path in handle.path.iterdir()} == {"blocks", "refs", "info"}

    def test_resolve_by_name_in_any_case_and_by_identity(self, workspace):
        handle = make(workspace, "com.example.Prices")
        for ref in ("com.example.Prices", "COM.example.prices", str(handle.id), handle.id):
            assert workspace.resolve(ref) == handle
        assert workspace.resolve(DatasetAlias.parse("com.EXAMPLE.prices")) == handle

    def test_one_dataset_has_one_lock(self, workspace):
        handle = make(workspace, "prices")
        with handle.dataset.lock(), workspace.resolve("prices").dataset.lock():
            pass

    def test_others_see_who_holds_it(self, workspace):
        make(workspace, "prices")
        mine = Workspace.find(workspace.root, command="odf pull").resolve("prices")
        theirs = Workspace.find(workspace.root).resolve("prices")
        with (
            mine.dataset.lock(),
            pytest.raises(LockedError, match=r"^prices is being written to .*\(odf pull,"),
            theirs.dataset.lock(),
        ):
            pass

    def test_unknown_names_suggest_the_nearest(self, workspace):
        make(workspace, "com.example.prices")
        with pytest.raises(NotFoundError, match=r"no dataset com\.example\.price ") as caught:
            workspace.resolve("com.example.price")
        assert caught.value.exit_code == 4
        assert caught.value.hint == "did you mean com.example.prices?"
        with pytest.raises(NotFoundError, match="did:odf:fed0102") as caught:
            workspace.resolve(identity(2))
        assert caught.value.hint == "`odf list` shows all datasets"

    @pytest.mark.parametrize("text", ["", "a b", "../x", "did:odf:x", "a/b/c", "\0"])
    def test_what_is_no_reference(self, workspace, text):
        with pytest.raises((BadInputError, NotFoundError)):
            workspace.resolve(text)

    def test_listed_by_name_and_matched(self, workspace):
        for number, name in enumerate(["b.two", "A.one", "b.One"], 1):
            make(workspace, name, number)
        assert [str(h.alias) for h in workspace.datasets()] == ["A.one", "b.One", "b.two"]
        found = workspace.matching(DatasetPattern.parse("B.%"))
        assert [str(h.alias) for h in found] == ["b.One", "b.two"]
        assert workspace.matching(DatasetPattern.parse("c%")) == []

    def test_names_collide_in_any_case(self, workspace):
        make(workspace, "Prices", 1)
        with pytest.raises(ConflictError, match="named Prices already") as caught:
            make(workspace, "pRICES", 2)
        assert caught.value.exit_code == 5
        assert folders(workspace) == [identity(1).multibase]

    def test_identities_collide(self, workspace):
        make(workspace, "one", 1)
        with pytest.raises(ConflictError, match="here already, as one"):
            make(workspace, "two", 1)
        assert folders(workspace) == [identity(1).multibase]

    def test_a_broken_rule_leaves_nothing(self, workspace):
        with pytest.raises(RuleViolationError):
            workspace.create_dataset(DatasetAlias.parse("x"), [SetInfo("x")], system_time=NOW)
        assert folders(workspace) == []

    def test_strays_are_no_datasets(self, workspace):
        handle = make(workspace, "prices")
        (workspace.datasets_dir / "notes").mkdir()
        (workspace.datasets_dir / ".hidden").mkdir()
        headless = workspace.datasets_dir / identity(2).multibase
        (headless / "blocks").mkdir(parents=True)
        upper = workspace.datasets_dir / f"F{identity(1).to_bytes().hex().upper()}"
        shutil.copytree(handle.path, upper)
        assert workspace.datasets() == [handle]
        make(workspace, "second", 2)  # takes the place of the headless one
        assert len(workspace.datasets()) == 2

    @pytest.mark.parametrize("content", [b"", b"\xff", b"a b", b"../x", b"x" * 500, None])
    def test_a_name_that_cannot_be_read(self, workspace, content):
        handle = make(workspace, "prices")
        path = handle.path / "info" / "alias"
        path.unlink() if content is None else path.write_bytes(content)
        (found,) = workspace.datasets()
        assert str(found.alias) == identity(1).multibase
        workspace.rename_dataset(found.id, DatasetAlias.parse("prices"))
        assert str(workspace.resolve("prices").id) == str(handle.id)

    def test_rename(self, workspace):
        handle = make(workspace, "prices", 1)
        make(workspace, "other", 2)
        head = handle.dataset.head()
        renamed = workspace.rename_dataset(handle.id, DatasetAlias.parse("costs"))
        assert str(renamed.alias) == "costs"
        assert renamed.dataset.head() == head
        assert renamed.dataset.url == "costs"
        workspace.rename_dataset(handle.id, DatasetAlias.parse("COSTS"))
        assert str(workspace.resolve("costs").alias) == "COSTS"
        with pytest.raises(ConflictError):
            workspace.rename_dataset(handle.id, DatasetAlias.parse("OTHER"))
        with pytest.raises(NotFoundError):
            workspace.resolve("prices")

    def test_remove(self, workspace):
        handle = make(workspace, "prices")
        workspace.remove_dataset(handle.id)
        assert workspace.datasets() == []
        assert folders(workspace) == []
        with pytest.raises(NotFoundError):
            workspace.remove_dataset(handle.id)
        make(workspace, "prices")

    def test_what_is_written_to_is_not_removed(self, workspace):
        handle = make(workspace, "prices")
        other = Workspace.find(workspace.root).resolve("prices")
        with other.dataset.lock(), pytest.raises(LockedError):
            workspace.remove_dataset(handle.id)
        assert len(workspace.datasets()) == 1

    def test_what_a_crash_left_is_cleared_by_the_next_change(self, workspace):
        for name in (".new-123", ".trash-456", ".pull-789"):
            (workspace.datasets_dir / name / "blocks").mkdir(parents=True)
        make(workspace, "prices")
        assert folders(workspace) == [".pull-789", identity(1).multibase]

    def test_remote_aliases_are_remembered(self, workspace):
        handle = make(workspace, "prices")
        handle.remember(handle.remote_aliases.with_push("backup/prices"))
        assert workspace.resolve("prices").push_aliases == ("backup/prices",)

    def test_only_one_of_many_gets_a_name(self, workspace):
        gate = threading.Barrier(6)
        made: list[int] = []

        def create(number: int) -> None:
            gate.wait()
            try:
                make(Workspace.find(workspace.root), "prices", number)
            except ConflictError:
                return
            made.append(number)

        threads = [threading.Thread(target=create, args=(n,)) for n in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1
        assert [handle.id for handle in workspace.datasets()] == [identity(made[0])]


class TestReceiving:
    @pytest.fixture
    def origin(self, tmp_path) -> DatasetStores:
        stores = DatasetStores.local(tmp_path / "origin")
        events = [Seed(identity(9), DatasetKind.ROOT), SetInfo("theirs")]
        Dataset.create(stores, events, system_time=NOW)
        return stores

    def receive(self, workspace, origin, name="prices", **options) -> DatasetHandle:
        return workspace.receive_dataset(
            DatasetAlias.parse(name),
            origin.url,
            lambda dataset: sync(origin, dataset, now=NOW),
            **options,
        )

    def test_it_is_remembered_where_it_came_from(self, workspace, origin):
        handle = self.receive(workspace, origin, pull_alias="repo/prices")
        assert handle.id == identity(9)
        assert handle.pull_aliases == ("repo/prices",)
        assert handle.dataset.state().num_blocks == 2
        assert folders(workspace) == [identity(9).multibase]

    def test_or_not(self, workspace, origin):
        assert self.receive(workspace, origin).remote_aliases == RemoteAliases()

    def test_a_taken_name_is_seen_before_anything_travels(self, workspace, origin):
        make(workspace, "prices")
        with pytest.raises(ConflictError, match="named prices"):
            workspace.receive_dataset(DatasetAlias.parse("PRICES"), origin.url, pytest.fail)

    def test_the_same_dataset_under_another_name(self, workspace, origin):
        self.receive(workspace, origin)
        with pytest.raises(ConflictError, match="here already, as prices"):
            self.receive(workspace, origin, "again")
        assert folders(workspace) == [identity(9).multibase]

    def test_what_arrived_before_a_failure_is_found_again(self, workspace, origin):
        def cut(dataset: Dataset) -> None:
            dataset.stores.data.put("arrived", b"x")
            raise TransportError("cut")

        with pytest.raises(TransportError):
            workspace.receive_dataset(DatasetAlias.parse("prices"), origin.url, cut)
        assert workspace.datasets() == []
        handle = self.receive(workspace, origin)
        assert handle.dataset.stores.data.has("arrived")
        assert folders(workspace) == [identity(9).multibase]

    def test_a_damaged_origin_leaves_no_dataset(self, workspace, origin, tmp_path):
        for path in (tmp_path / "origin" / "blocks").iterdir():
            path.write_bytes(b"x")
        with pytest.raises(IntegrityError):
            self.receive(workspace, origin)
        assert workspace.datasets() == []

    def test_nothing_came(self, workspace, origin):
        with pytest.raises(NotFoundError):
            workspace.receive_dataset(DatasetAlias.parse("x"), origin.url, lambda _: None)


def test_a_dataset_folder_is_a_repository_as_it_is(tmp_path):
    """What another implementation finds there: the protocol folders and small text files."""
    handle = make(Workspace.init(tmp_path), "prices")
    copy = Dataset(DatasetStores.local(tmp_path / "copy"))
    shutil.copytree(handle.path, tmp_path / "served", ignore=shutil.ignore_patterns("info"))
    sync(DatasetStores.local(tmp_path / "served", cached=False), copy, now=NOW)
    assert copy.head() == handle.dataset.head()
    assert not os.path.lexists(tmp_path / "served" / "info")
    assert Path(handle.path / "refs" / "head").read_bytes() == str(copy.head()).encode()

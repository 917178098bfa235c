"""Bringing copies up to date: what travels, in which order, and what is refused."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from odf.errors import (
    ConflictError,
    IntegrityError,
    LockedError,
    NotFoundError,
    TransportError,
)
from odf.metadata.flatbuffers import encode_block
from odf.metadata.identity import DatasetID, ReferenceName
from odf.metadata.model import (
    AddData,
    DatasetKind,
    MetadataBlock,
    MetadataEvent,
    Seed,
    SetInfo,
    Timestamp,
)
from odf.metadata.multiformats import Multihash
from odf.repo.dataset import Dataset
from odf.repo.errors import CorruptChainError, DivergedError
from odf.repo.layout import DatasetStores
from odf.repo.sync import Progress, Relation, SyncResult, sync
from odf.repo.urls import RepositoryUrlError, source_at, target_at
from odf.repo.verify import verify_integrity
from odf.store.base import ObjectStore

NOW = Timestamp.parse("2026-06-01T00:00:00Z")


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.parent.name != "info"
    }


@pytest.fixture
def source(tmp_path, maker) -> Dataset:
    """A dataset with a schema, three slices and a checkpoint."""
    dataset = maker.full(DatasetStores.local(tmp_path / "source"))
    maker.add_rows(dataset, checkpoint=b"state of an engine")
    return dataset


@pytest.fixture
def target(tmp_path) -> Dataset:
    return Dataset(DatasetStores.local(tmp_path / "target"))


@pytest.fixture(params=["folder", "http"])
def remote(request, source, tmp_path, serve, client) -> DatasetStores:  # noqa: ARG001 - made first
    """The source as others see it."""
    if request.param == "folder":
        return source_at((tmp_path / "source").as_uri(), client)
    return source_at(serve(tmp_path / "source")[0], client)


def copy(remote: DatasetStores, target: Dataset, **options) -> SyncResult:
    return sync(remote, target, now=NOW, **options)


class Wrapped:
    """A store that does as another one, with reading replaced."""

    def __init__(self, inner: ObjectStore, read: Callable[[str, bytes], bytes]) -> None:
        self._inner = inner
        self._read = read

    def __getattr__(self, name: str):
        return getattr(self._inner, name)

    def get(self, key: str, max_size: int) -> bytes:
        return self._read(key, self._inner.get(key, max_size))

    def chunks(self, key: str, max_size: int) -> Iterator[bytes]:
        yield self._read(key, b"".join(self._inner.chunks(key, max_size)))


class TestCopying:
    def test_a_new_copy_is_the_same_byte_for_byte(self, remote, source, target, tmp_path):
        result = copy(remote, target)
        assert result == SyncResult(
            Relation.AHEAD, None, source.head(), blocks=5, objects=4, bytes=result.bytes
        )
        assert tree(tmp_path / "target") == tree(tmp_path / "source")
        assert result.bytes == sum(
            len(data)
            for name, data in tree(tmp_path / "source").items()
            if name.startswith(("data/", "checkpoints/"))
        )
        assert target.state() == source.state() == target.state(use_cache=False)
        assert verify_integrity(target, now=NOW).findings == ()

    def test_again_nothing_travels(self, remote, source, target):
        copy(remote, target)
        assert copy(remote, target) == SyncResult(Relation.EQUAL, source.head(), source.head())

    def test_only_what_is_new_travels(self, source, target, maker, tmp_path, serve, client):
        url, seen = serve(tmp_path / "source")
        stores = source_at(url, client)
        copy(stores, target)
        old = source.head()
        result = maker.add_rows(source, [("Bern", 5)])
        seen.clear()
        done = copy(stores, target)
        assert (done.relation, done.blocks, done.objects) == (Relation.AHEAD, 1, 1)
        assert (done.old_head, done.new_head) == (old, source.head())
        added = source.block(result.new_head).event
        assert isinstance(added, AddData)
        assert added.new_data is not None
        assert seen == [
            "/refs/head",
            f"/blocks/{result.new_head}",
            f"/data/{added.new_data.physical_hash}",
        ]
        assert tree(tmp_path / "target") == tree(tmp_path / "source")

    def test_objects_are_there_before_blocks_and_the_head_is_last(self, remote, target):
        written: list[str] = []

        class Recorded:
            def __init__(self, inner, name):
                self._inner, self._name = inner, name

            def __getattr__(self, name):
                method = getattr(self._inner, name)

                def call(*args, **kwargs):
                    if name.startswith(("put", "set")):
                        written.append(self._name)
                    return method(*args, **kwargs)

                return call if callable(method) else method

        stores = target.stores
        recorded = replace(
            stores,
            **{
                name: Recorded(getattr(stores, name), name)
                for name in ("blocks", "data", "checkpoints", "refs")
            },
        )
        copy(remote, Dataset(recorded))
        assert written == ["data", "data", "data", "checkpoints", "blocks", "refs"]

    def test_the_bytes_of_blocks_are_kept(self, source, target, maker):
        """A block in a layout that we would not write is still that block."""
        block = MetadataBlock(maker.now, source.head(), 5, SetInfo("aligned"))
        data = encode_block(block, layout=3)
        assert data != encode_block(block)
        at = Multihash.sha3_256(data)
        source.stores.blocks.put(str(at), data)
        source.stores.refs.set("head", str(at), str(source.head()))
        copy(source.stores, target)
        assert target.block_bytes(at) == data

    def test_a_chain_that_is_not_understood_travels(self, source, target, maker):
        opaque = maker.add_unknown_event(source)
        copy(source.stores, target)
        assert target.head() == opaque.head()
        assert target.state().opaque is not None

    def test_push_to_a_folder_and_pull_it_elsewhere(self, source, target, tmp_path, client):
        there = Dataset(target_at((tmp_path / "repo" / "prices").as_uri()))
        copy(source.stores, there)
        copy(source_at(f"{(tmp_path / 'repo').as_uri()}/prices", client), target)
        assert target.head() == source.head()

    def test_a_web_server_cannot_be_pushed_to(self):
        with pytest.raises(RepositoryUrlError, match="not written"):
            target_at("https://example.org/prices")

    def test_progress_is_told(self, remote, target):
        told: list[Progress] = []
        result = copy(remote, target, progress=told.append)
        assert [(one.objects_done, one.objects_total) for one in told] == [
            (1, 4),
            (2, 4),
            (3, 4),
            (4, 4),
        ]
        assert told[-1].bytes_sent == result.bytes

    def test_between_stores_in_memory(self, source):
        there = Dataset(DatasetStores.memory())
        copy(source.stores, there)
        assert there.state() == source.state()

    @pytest.mark.usefixtures("source")
    def test_nothing_is_written_into_the_source(self, target, tmp_path, client):
        before = {path: path.stat().st_mtime_ns for path in (tmp_path / "source").rglob("*")}
        copy(source_at((tmp_path / "source").as_uri(), client), target)
        assert {
            path: path.stat().st_mtime_ns for path in (tmp_path / "source").rglob("*")
        } == before

    @pytest.mark.usefixtures("source")
    def test_the_source_s_own_memory_is_not_believed(self, target, tmp_path, client):
        (tmp_path / "source" / "info" / "chain-state").write_bytes(b"lies")
        copy(source_at((tmp_path / "source").as_uri(), client), target)
        assert (tmp_path / "source" / "info" / "chain-state").read_bytes() == b"lies"


class TestRelations:
    def test_no_dataset_there(self, target, tmp_path, client):
        with pytest.raises(NotFoundError, match="there is no dataset"):
            copy(source_at((tmp_path / "nothing").as_uri(), client), target)

    def test_behind(self, remote, target, maker, tmp_path):
        copy(remote, target)
        maker.describe(target, "here only")
        maker.describe(target, "here only, too")
        before = tree(tmp_path / "target")
        with pytest.raises(ConflictError, match=r"is ahead of .* by 2 blocks") as caught:
            copy(remote, target)
        assert caught.value.exit_code == 5
        assert caught.value.details == {"source_only": 0, "target_only": 2}
        assert "--force" in (caught.value.hint or "")
        assert tree(tmp_path / "target") == before

    def test_diverged(self, remote, source, target, maker, tmp_path):
        copy(remote, target)
        maker.describe(target, "here")
        maker.describe(source, "there")
        maker.describe(source, "there again")
        before = tree(tmp_path / "target")
        with pytest.raises(
            DivergedError, match=r"1 block only at .*target, 2 blocks only at "
        ) as caught:
            copy(remote, target)
        assert caught.value.details == {"source_only": 2, "target_only": 1}
        assert tree(tmp_path / "target") == before

    def test_diverged_at_different_heights(self, source, target, maker):
        copy(source.stores, target)
        for number in range(4):
            maker.describe(target, f"here {number}")
        maker.describe(source, "there")
        with pytest.raises(DivergedError, match=r"4 blocks only at .*target, 1 block only at"):
            copy(source.stores, target)

    @pytest.mark.parametrize("theirs", [0, 1, 3])
    def test_force_takes_theirs_and_keeps_a_backup(self, remote, source, target, maker, theirs):
        copy(remote, target)
        maker.describe(target, "here")
        maker.add_rows(target)
        mine = target.head()
        for number in range(theirs):
            maker.describe(source, f"there {number}")
        result = copy(remote, target, force=True)
        assert target.head() == source.head()
        assert result.backup == "backup-1"
        assert result.relation is (Relation.DIVERGED if theirs else Relation.BEHIND)
        assert result.blocks == theirs
        assert target.reference(ReferenceName("backup-1")) == mine
        assert target.state() == source.state() == target.state(use_cache=False)
        assert target.state_at(target.reference(ReferenceName("backup-1"))).num_blocks == 7

    def test_backups_are_numbered(self, source, target, maker):
        copy(source.stores, target)
        for number in (1, 2, 3):
            maker.describe(target, f"here {number}")
            assert copy(source.stores, target, force=True).backup == f"backup-{number}"
        assert target.stores.refs.names() == ("backup-1", "backup-2", "backup-3", "head")

    def test_force_without_need_keeps_no_backup(self, source, target, maker):
        assert copy(source.stores, target, force=True).backup is None
        maker.describe(source, "there")
        assert copy(source.stores, target, force=True).backup is None

    @pytest.mark.parametrize("force", [False, True])
    def test_another_dataset_is_never_overwritten(self, source, maker, tmp_path, force):
        other = maker.seed(DatasetStores.local(tmp_path / "other"), DatasetID(b"\7" * 32))
        before = tree(tmp_path / "other")
        with pytest.raises(ConflictError, match="holds another dataset"):
            copy(source.stores, other, force=force)
        assert tree(tmp_path / "other") == before

    def test_the_same_identity_with_another_seed(self, source, tmp_path):
        later = Timestamp.parse("2026-01-01T00:00:01Z")
        other = Dataset.create(
            DatasetStores.local(tmp_path / "other"),
            [source.state().seed],
            system_time=later,
        )
        with pytest.raises(DivergedError, match="from the first block"):
            copy(source.stores, other)
        assert copy(source.stores, other, force=True).backup == "backup-1"
        assert other.state() == source.state()

    def test_it_must_be_the_dataset_that_was_asked_for(self, remote, source, target):
        with pytest.raises(ConflictError, match="wanted did:odf:fed010707"):
            copy(remote, target, expected_id=DatasetID(b"\7" * 32))
        assert target.head() is None
        copy(remote, target, expected_id=source.state().dataset_id)

    def test_a_target_that_is_being_written_to(self, source, target, tmp_path):
        copy(source.stores, target)
        other = Dataset(DatasetStores.local(tmp_path / "target", command="odf push"))
        with other.lock(), pytest.raises(LockedError, match="odf push"):
            copy(source.stores, target)


def _flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _cut(data: bytes) -> bytes:
    return data[:-1]


def _emptied(data: bytes) -> bytes:
    return data[:0]


def _longer(data: bytes) -> bytes:
    return data + b"x"


DAMAGES = (_flipped, _cut, _emptied, _longer)


class TestCorruptSources:
    """Nothing of a damaged or lying source becomes part of the target."""

    def damage(self, folder: Path, change: Callable[[bytes], bytes]) -> None:
        folder.write_bytes(change(folder.read_bytes()))

    @pytest.mark.parametrize("number", range(5))
    @pytest.mark.parametrize("change", DAMAGES)
    def test_a_block_that_does_not_hash_to_its_name(
        self, remote, source, target, tmp_path, number, change
    ):
        at = [at for at, _ in source.blocks()][number]
        self.damage(tmp_path / "source" / "blocks" / str(at), change)
        got = Multihash.sha3_256((tmp_path / "source" / "blocks" / str(at)).read_bytes())
        with pytest.raises(IntegrityError) as caught:
            copy(remote, target)
        assert caught.value.exit_code == 7
        for part in (remote.url, f"block {at}", str(got)):
            assert part in caught.value.message
        assert target.head() is None

    @pytest.mark.parametrize("folder", ["data", "checkpoints"])
    @pytest.mark.parametrize("change", DAMAGES)
    def test_an_object_that_does_not_hash_to_its_name(
        self, remote, target, tmp_path, folder, change
    ):
        path = next((tmp_path / "source" / folder).iterdir())
        self.damage(path, change)
        with pytest.raises(IntegrityError) as caught:
            copy(remote, target)
        assert caught.value.exit_code == 7
        for part in (path.name, "block number", "bytes"):
            assert part in caught.value.message
        assert target.head() is None
        assert not target.stores.objects("data" if folder == "data" else "checkpoint").has(
            path.name
        )

    @pytest.mark.parametrize("folder", ["data", "checkpoints", "blocks"])
    def test_what_is_missing_is_named(self, remote, target, tmp_path, folder):
        path = min((tmp_path / "source" / folder).iterdir())
        path.unlink()
        with pytest.raises(IntegrityError, match=path.name):
            copy(remote, target)
        assert target.head() is None

    def test_a_damaged_update_leaves_the_copy_as_it_was(
        self, remote, source, target, maker, tmp_path
    ):
        copy(remote, target)
        before = tree(tmp_path / "target")
        result = maker.add_rows(source, [("Bern", 5)])
        event = source.block(result.new_head).event
        assert isinstance(event, AddData)
        assert event.new_data is not None
        self.damage(
            tmp_path / "source" / "data" / str(event.new_data.physical_hash), lambda d: d[:-1]
        )
        with pytest.raises(IntegrityError):
            copy(remote, target)
        assert tree(tmp_path / "target") == before

    @pytest.mark.parametrize("text", ["", "nothing", "f1220" + "0" * 64])
    def test_a_head_that_is_no_hash(self, remote, target, tmp_path, text):
        (tmp_path / "source" / "refs" / "head").write_text(text)
        with pytest.raises(IntegrityError, match="refs/head"):
            copy(remote, target)

    @pytest.mark.usefixtures("source")
    def test_a_link_out_of_the_folder_is_not_followed(self, target, tmp_path, client):
        secret = tmp_path / "secret"
        secret.write_text("secret")
        path = next((tmp_path / "source" / "data").iterdir())
        path.unlink()
        path.symlink_to(secret)
        with pytest.raises(IntegrityError, match="symbolic link"):
            copy(source_at((tmp_path / "source").as_uri(), client), target)

    @pytest.mark.usefixtures("source")
    def test_a_pipe_does_not_hang(self, target, tmp_path, client):
        path = next((tmp_path / "source" / "data").iterdir())
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(IntegrityError, match="not a plain file"):
            copy(source_at((tmp_path / "source").as_uri(), client), target)

    def forge(self, source: Dataset, *events: MetadataEvent, **header) -> None:
        """Append blocks that no `commit` would make."""
        for event in events:
            head = source.head()
            assert head is not None
            block = MetadataBlock(
                header.get("time", NOW),
                header.get("prev", head),
                header.get("number", source.block(head).sequence_number + 1),
                event,
            )
            data = encode_block(block)
            at = str(Multihash.sha3_256(data))
            source.stores.blocks.put(at, data)
            source.stores.refs.set("head", at, str(head))

    @pytest.mark.parametrize(
        ("event", "rule"),
        [
            (AddData(), "empty"),
            (Seed(DatasetID(b"\1" * 32), DatasetKind.ROOT), "seed"),
            (AddData(prev_offset=77, new_watermark=NOW), "offset"),
        ],
    )
    def test_broken_rules(self, remote, source, target, event, rule):
        self.forge(source, event)
        with pytest.raises(CorruptChainError, match=rule) as caught:
            copy(remote, target)
        assert remote.url in caught.value.message
        assert target.head() is None

    def test_rules_that_are_only_ours_do_not_bind_others(self, source, target):
        same = SetInfo("same")
        self.forge(source, same, same)
        copy(source.stores, target)
        assert target.head() == source.head()

    def test_time_that_goes_back(self, source, target):
        self.forge(source, SetInfo("x"), time=Timestamp.parse("2020-01-01T00:00:00Z"))
        with pytest.raises(CorruptChainError, match="time goes back"):
            copy(source.stores, target)

    def test_time_from_the_future(self, source, target):
        self.forge(source, SetInfo("soon"), time=Timestamp(NOW.epoch_ns + 299 * 10**9))
        copy(source.stores, target)
        self.forge(source, SetInfo("late"), time=Timestamp(NOW.epoch_ns + 301 * 10**9))
        with pytest.raises(CorruptChainError, match="from the future"):
            copy(source.stores, target)

    @pytest.mark.parametrize("number", [4, 7, 2**63])
    def test_numbers_that_jump(self, source, target, number):
        self.forge(source, SetInfo("x"), number=number)
        with pytest.raises(CorruptChainError, match="sequence number"):
            copy(source.stores, target)

    def test_a_chain_without_a_seed(self, target):
        stores = DatasetStores.memory("forged")
        data = encode_block(MetadataBlock(NOW, None, 0, SetInfo("x")))
        stores.blocks.put(str(Multihash.sha3_256(data)), data)
        stores.refs.set("head", str(Multihash.sha3_256(data)), None)
        with pytest.raises(CorruptChainError, match="Seed"):
            copy(stores, target)

    def test_a_source_that_changes_while_it_is_read(self, source, target):
        """The second look at an object finds other bytes than the first: both are hashed."""
        stores = replace(
            source.stores, data=Wrapped(source.stores.data, lambda _, data: data[::-1])
        )
        with pytest.raises(IntegrityError, match="corrupt"):
            copy(stores, target)


class TestInterruptions:
    def cut_after(self, stores: DatasetStores, reads: int) -> DatasetStores:
        """A source that fails after so many objects."""
        left = [reads]

        def read(_: str, data: bytes) -> bytes:
            left[0] -= 1
            if left[0] < 0:
                raise TransportError("cut")
            return data

        return replace(
            stores,
            blocks=Wrapped(stores.blocks, read),
            data=Wrapped(stores.data, read),
            checkpoints=Wrapped(stores.checkpoints, read),
        )

    @pytest.mark.parametrize("reads", range(9))
    def test_the_next_run_goes_on(self, source, target, tmp_path, reads):
        with pytest.raises(TransportError, match="cut"):
            copy(self.cut_after(source.stores, reads), target)
        assert target.head() is None
        there = sum(
            1 for name in tree(tmp_path / "target") if name.startswith(("data", "checkpoints"))
        )
        result = copy(source.stores, target)
        assert result.objects == 4 - there
        assert there == max(0, reads - 5)
        assert tree(tmp_path / "target") == tree(tmp_path / "source")

    def test_what_was_damaged_here_is_brought_again(self, source, target, tmp_path):
        with pytest.raises(TransportError):
            copy(self.cut_after(source.stores, 7), target)
        for path in (tmp_path / "target" / "data").iterdir():
            path.write_bytes(b"damaged")
        assert copy(source.stores, target).objects == 4
        assert tree(tmp_path / "target") == tree(tmp_path / "source")

    @pytest.mark.usefixtures("source")
    def test_blocks_that_are_here_already_do_not_travel(self, target, tmp_path, serve, client):
        blocks = {path.name: path.read_bytes() for path in (tmp_path / "source/blocks").iterdir()}
        target.stores.blocks.put_many(iter(blocks.items()))
        url, seen = serve(tmp_path / "source")
        copy(source_at(url, client), target)
        assert not [path for path in seen if path.startswith("/blocks")]

    def test_a_damaged_block_here_is_replaced(self, source, target, tmp_path):
        for path in (tmp_path / "source" / "blocks").iterdir():
            target.stores.blocks.put(path.name, b"damaged")
        copy(source.stores, target)
        assert tree(tmp_path / "target") == tree(tmp_path / "source")

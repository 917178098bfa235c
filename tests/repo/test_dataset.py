"""Reading a chain, and the one operation that extends it."""

from dataclasses import replace
from pathlib import Path

import pytest

from odf.errors import (
    ConflictError,
    IntegrityError,
    LockedError,
    NotFoundError,
    RuleViolationError,
)
from odf.metadata.chain import EMPTY_STATE
from odf.metadata.flatbuffers import encode_block
from odf.metadata.model import AddData, MetadataBlock, SetInfo, SourceState, Timestamp
from odf.metadata.multiformats import Multihash
from odf.repo.chain_reader import ChainReader
from odf.repo.dataset import Dataset
from odf.repo.errors import CorruptChainError, InvalidIntervalError, OpaqueChainError
from odf.repo.layout import CACHE_KEY, DatasetStores
from odf.repo.state_cache import load_state


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class TestReading:
    def test_nothing_is_there(self, stores):
        dataset = Dataset(stores)
        assert dataset.head() is None
        assert dataset.state() is EMPTY_STATE
        assert list(dataset.blocks()) == []
        with pytest.raises(NotFoundError, match="there is no dataset"):
            Dataset.open(stores)
        with pytest.raises(NotFoundError, match="is not there"):
            dataset.block_bytes(Multihash.sha3_256(b""))

    def test_walks_from_the_newest_to_the_seed(self, stores, maker):
        dataset = maker.full(stores)
        walked = list(dataset.blocks())
        assert [block.sequence_number for _, block in walked] == [3, 2, 1, 0]
        assert walked[0][0] == dataset.head()
        assert [type(block.event).__name__ for _, block in reversed(walked)] == [
            "Seed",
            "SetDataSchema",
            "AddData",
            "AddData",
        ]
        assert dataset.block(walked[1][0]) == walked[1][1]

    def test_walks_an_interval(self, stores, maker):
        dataset = maker.full(stores)
        hashes = [at for at, _ in dataset.blocks()]
        assert [at for at, _ in dataset.blocks(until=hashes[2])] == hashes[:2]
        assert [at for at, _ in dataset.blocks(hashes[1], hashes[3])] == hashes[1:3]
        assert list(dataset.blocks(hashes[1], hashes[1])) == []
        for head, until in ((None, Multihash.sha3_256(b"")), (hashes[2], hashes[0])):
            with pytest.raises(InvalidIntervalError, match="rewritten"):
                list(dataset.blocks(head, until))

    def test_the_head_may_be_written_in_any_encoding(self, maker, local, tmp_path):
        from odf.metadata.multiformats import encode_multibase

        dataset = maker.seed(local)
        head = dataset.head()
        assert head is not None
        (tmp_path / "dataset" / "refs" / "head").write_text(
            encode_multibase(head.to_bytes(), "z") + "\n"
        )
        assert dataset.head() == head
        maker.describe(dataset, "after")
        assert (tmp_path / "dataset" / "refs" / "head").read_text() == str(dataset.head())

    @pytest.mark.parametrize("text", ["", "x", "f1620", "f" * 300, "f1220" + "0" * 64, "\0"])
    def test_a_head_that_is_no_hash(self, maker, local, tmp_path, text):
        dataset = maker.seed(local)
        (tmp_path / "dataset" / "refs" / "head").write_text(text)
        with pytest.raises(IntegrityError) as caught:
            dataset.state()
        assert caught.value.exit_code == 7

    def test_a_damaged_block_is_never_used(self, maker, local, tmp_path):
        dataset = maker.full(local)
        path = tmp_path / "dataset" / "blocks" / str(dataset.head())
        path.write_bytes(path.read_bytes()[:-1] + b"\1")
        for read in (
            lambda: dataset.block_bytes(dataset.head()),
            lambda: list(dataset.blocks()),
            lambda: Dataset(local).state(use_cache=False),
        ):
            with pytest.raises(CorruptChainError, match=f"block {dataset.head()} is corrupt"):
                read()

    def test_a_missing_block_names_the_one_that_refers_to_it(self, maker, local, tmp_path):
        dataset = maker.full(local)
        hashes = [at for at, _ in dataset.blocks()]
        (tmp_path / "dataset" / "blocks" / str(hashes[2])).unlink()
        with pytest.raises(CorruptChainError, match="block number 2 refers to it"):
            list(dataset.blocks())

    def test_bytes_that_are_no_block(self, local):
        junk = b"not a block"
        at = Multihash.sha3_256(junk)
        local.blocks.put(str(at), junk)
        local.refs.set("head", str(at), None)
        with pytest.raises(CorruptChainError, match="cannot be read"):
            Dataset(local).state()

    def test_a_number_that_nobody_counted_to(self, local, maker):
        dataset = maker.seed(local)
        block = MetadataBlock(maker.now, dataset.head(), 2**63, SetInfo("x"))
        data = encode_block(block)
        local.blocks.put(str(Multihash.sha3_256(data)), data)
        local.refs.set("head", str(Multihash.sha3_256(data)), str(dataset.head()))
        with pytest.raises(CorruptChainError, match="at most"):
            list(ChainReader(local).blocks())

    @pytest.mark.parametrize("number", [0, 2])
    def test_numbers_must_count_down(self, local, maker, number):
        dataset = maker.seed(local)
        for value in (1, number + 1):
            data = encode_block(MetadataBlock(maker.now, dataset.head(), value, SetInfo("x")))
            old = local.refs.get("head")
            local.blocks.put(str(Multihash.sha3_256(data)), data)
            local.refs.set("head", str(Multihash.sha3_256(data)), old)
        with pytest.raises(CorruptChainError, match="sequence number"):
            list(dataset.blocks())


class TestState:
    def test_is_the_fold_of_the_chain(self, stores, maker):
        dataset = maker.full(stores)
        state = dataset.state()
        assert (state.num_blocks, state.num_records, state.next_offset) == (4, 4, 4)
        assert state == dataset.state(use_cache=False) == Dataset(stores).state()

    def test_at_an_older_block(self, stores, maker):
        dataset = maker.full(stores)
        hashes = [at for at, _ in dataset.blocks()]
        assert dataset.state_at(hashes[3]).num_blocks == 1
        assert dataset.state_at(hashes[1], dataset.state_at(hashes[3])).num_records == 2
        with pytest.raises(InvalidIntervalError):
            dataset.state_at(hashes[2], dataset.state_at(hashes[1]))

    def test_is_remembered_and_read_without_the_blocks(self, local, maker, tmp_path):
        dataset = maker.full(local)
        for path in (tmp_path / "dataset" / "blocks").iterdir():
            path.unlink()
        assert Dataset(local).state() == dataset.state()
        with pytest.raises(CorruptChainError):
            Dataset(local).state(use_cache=False)

    def test_an_older_memory_shortens_the_walk(self, local, maker, tmp_path):
        dataset = maker.full(local)
        cache = tmp_path / "dataset" / "info" / CACHE_KEY
        old = cache.read_bytes()
        seed = [at for at, _ in dataset.blocks()][-1]
        maker.describe(dataset, "later")
        cache.write_bytes(old)
        (tmp_path / "dataset" / "blocks" / str(seed)).unlink()
        assert Dataset(local).state() == dataset.state()
        assert load_state(local.cache) == dataset.state()

    def test_a_memory_of_another_history_is_forgotten(self, local, maker, tmp_path):
        dataset = maker.full(local)
        cache = (tmp_path / "dataset" / "info" / CACHE_KEY).read_bytes()
        hashes = [at for at, _ in dataset.blocks()]
        local.refs.set("head", str(hashes[1]), str(hashes[0]))
        (tmp_path / "dataset" / "info" / CACHE_KEY).write_bytes(cache)
        assert Dataset(local).state() == dataset.state_at(hashes[1])

    def test_every_damage_of_the_memory_is_noticed(self, local, maker, tmp_path):
        dataset = maker.full(local)
        good = dataset.state()
        path = tmp_path / "dataset" / "info" / CACHE_KEY
        data = path.read_bytes()
        for place in range(0, len(data), 7):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            assert load_state(local.cache) is None
        for damaged in (b"", data[:-1], data + b"x", b"\n", data.partition(b"\n")[2]):
            path.write_bytes(damaged)
            assert Dataset(local).state() == good
            assert path.read_bytes() == data

    @pytest.mark.parametrize(
        "body", [b"{}", b"[]", b"7", b'{"format":1}', b"[" * 100_000, b'{"format":1,"release":"0"}']
    )
    def test_a_memory_with_a_right_checksum_and_wrong_content(self, local, maker, tmp_path, body):
        from odf.repo.state_cache import _checksum

        good = maker.full(local).state()
        path = tmp_path / "dataset" / "info" / CACHE_KEY
        path.write_bytes(_checksum(body) + b"\n" + body)
        assert Dataset(local).state() == good

    def test_it_works_where_nothing_may_be_remembered(self, local, maker):
        good = maker.full(local).state()
        assert Dataset(replace(local, cache=None)).state() == good


class TestCommit:
    def test_the_layout_on_disk(self, local, maker, tmp_path):
        dataset = maker.full(local, 1)
        maker.add_rows(dataset, checkpoint=b"engine state")
        files = tree(tmp_path / "dataset")
        assert {name.partition("/")[0] for name in files} == {
            "blocks",
            "checkpoints",
            "data",
            "info",
            "refs",
        }
        for name, data in files.items():
            folder, _, key = name.partition("/")
            if folder in ("blocks", "checkpoints", "data"):
                assert key == str(Multihash.sha3_256(data))
        assert files["refs/head"] == str(dataset.head()).encode()

    def test_several_events_move_the_head_once(self, stores, maker):
        dataset = maker.seed(stores)
        old = dataset.head()
        result = maker.commit(dataset, SetInfo("one"), SetInfo("two"))
        assert result.old_head == old
        assert result.new_head == dataset.head() == result.hashes[-1]
        walked = [(at, block.event) for at, block in dataset.blocks(until=old)]
        assert walked == [(result.hashes[1], SetInfo("two")), (result.hashes[0], SetInfo("one"))]

    def test_staged_files_are_moved(self, local, maker, tmp_path):
        dataset = maker.seed(local)
        maker.add_rows(dataset)
        assert list((tmp_path / "scratch").iterdir()) == []

    @pytest.mark.parametrize("broken", [0, 1])
    def test_a_rule_broken_by_any_event_changes_nothing(self, local, maker, tmp_path, broken):
        dataset = maker.full(local)
        before = tree(tmp_path / "dataset")
        events = [SetInfo("fine"), AddData(new_source_state=SourceState("a", "b", "c"))]
        events[broken] = AddData()
        with pytest.raises(RuleViolationError):
            maker.commit(dataset, *events)
        assert tree(tmp_path / "dataset") == before

    def test_time_does_not_go_back(self, local, maker, tmp_path):
        dataset = maker.full(local)
        before = tree(tmp_path / "dataset")
        with pytest.raises(RuleViolationError, match="time goes back"):
            maker.commit(dataset, SetInfo("x"), minutes=-1)
        assert tree(tmp_path / "dataset") == before

    def test_nothing_to_commit(self, stores, maker):
        with pytest.raises(RuleViolationError, match="without any event"):
            maker.commit(maker.seed(stores))

    @pytest.mark.parametrize("wrong", ["none", "older", "other"])
    def test_another_head_than_expected(self, stores, maker, wrong):
        dataset = maker.full(stores)
        older = [at for at, _ in dataset.blocks()][1]
        expected = {"none": None, "older": older, "other": Multihash.sha3_256(b"")}[wrong]
        head = dataset.head()
        with pytest.raises(ConflictError, match="changed in the meantime"):
            dataset.commit([SetInfo("x")], expected_head=expected, system_time=maker.now)
        assert dataset.head() == head

    def test_two_datasets_of_one_place(self, stores, maker):
        first = maker.seed(stores)
        second = Dataset(stores)
        assert second.state() == first.state()
        maker.describe(second, "by the second")
        with pytest.raises(ConflictError):
            first.commit(
                [SetInfo("by the first")],
                expected_head=second.block(second.head()).prev_block_hash,
                system_time=maker.now,
            )
        maker.describe(first, "by the first")
        assert second.state().num_blocks == 3

    def test_a_missing_object(self, stores, maker):
        dataset = maker.full(stores)
        event, _ = maker.proposal(dataset, _next_rows(maker, dataset))
        with pytest.raises(IntegrityError, match=r"data/f1620.*missing"):
            maker.commit(dataset, event)
        assert dataset.state().num_records == 4

    def test_a_file_that_is_not_what_was_announced(self, local, maker, tmp_path):
        dataset = maker.full(local)
        before = tree(tmp_path / "dataset")
        event, (staged,) = maker.proposal(dataset, _next_rows(maker, dataset))
        staged.path.write_bytes(staged.path.read_bytes()[:-1] + b"\0")
        with pytest.raises(IntegrityError, match="not the object that it was announced as"):
            maker.commit(dataset, event, objects=[staged])
        assert tree(tmp_path / "dataset") == before

    def test_a_size_that_is_not_that_of_the_file(self, stores, maker):
        dataset = maker.full(stores)
        event, objects = maker.proposal(dataset, _next_rows(maker, dataset))
        assert event.new_data is not None
        wrong = replace(event, new_data=replace(event.new_data, size=event.new_data.size + 1))
        with pytest.raises(IntegrityError, match=r"wanted .* bytes, got"):
            maker.commit(dataset, wrong, objects=objects)

    def test_an_existing_object_is_hashed_before_it_is_relied_on(self, stores, maker):
        dataset = maker.full(stores)
        event, objects = maker.proposal(dataset, _next_rows(maker, dataset))
        assert event.new_data is not None
        stores.data.put(str(event.new_data.physical_hash), b"x" * event.new_data.size)
        with pytest.raises(IntegrityError, match="hash to"):
            maker.commit(dataset, event)
        maker.commit(dataset, event, objects=objects)
        assert Multihash.sha3_256(stores.data.get(str(event.new_data.physical_hash), 2**20)) == (
            event.new_data.physical_hash
        )

    def test_a_right_object_that_exists_is_kept(self, stores, maker):
        dataset = maker.full(stores)
        event, (staged,) = maker.proposal(dataset, _next_rows(maker, dataset))
        stores.data.put(str(staged.hash), staged.path.read_bytes())
        maker.commit(dataset, event, objects=[staged])
        assert not staged.path.exists()
        assert dataset.state().num_records == 6

    def test_a_chain_that_is_not_understood_is_not_written_to(self, local, maker, tmp_path):
        dataset = maker.full(local)
        opaque = maker.add_unknown_event(dataset)
        assert opaque.state().opaque is not None
        before = tree(tmp_path / "dataset")
        with pytest.raises(OpaqueChainError, match="does not understand") as caught:
            opaque.commit(
                [SetInfo("x")],
                expected_head=opaque.head(),
                system_time=Timestamp(maker.now.epoch_ns),
            )
        assert caught.value.hint is not None
        assert tree(tmp_path / "dataset") == before

    def test_a_lock_held_elsewhere(self, local, maker, tmp_path):
        dataset = maker.full(local)
        other = DatasetStores.local(tmp_path / "dataset", name="prices", command="odf pull prices")
        with Dataset(other).lock(), pytest.raises(LockedError, match="odf pull prices"):
            maker.describe(dataset, "x")

    def test_a_lock_of_ones_own(self, local, maker):
        dataset = maker.full(local)
        with dataset.lock():
            maker.describe(dataset, "x")

    def test_create_twice(self, stores, maker):
        maker.seed(stores)
        with pytest.raises(ConflictError):
            maker.seed(stores)

    def test_create_without_a_seed(self, stores, maker):
        with pytest.raises(RuleViolationError, match="Seed"):
            Dataset.create(stores, [SetInfo("x")], system_time=maker.now)
        assert Dataset(stores).head() is None

    def test_received_bytes_are_checked_again(self, stores, maker):
        dataset = maker.seed(stores)
        at = Multihash.sha3_256(b"something else")
        with pytest.raises(IntegrityError, match="hashes to"):
            dataset.append_received(
                [(at, b"x")],
                expected_head=dataset.head(),
                state=replace(dataset.state(), head=at),
            )
        assert dataset.state().num_blocks == 1


def _next_rows(maker, dataset):
    import pyarrow as pa

    start = dataset.state().next_offset
    columns = [
        [start, start + 1],
        [0, 0],
        [0, 0],
        [1_600_000_000_000] * 2,
        ["Bonn", "Kyiv"],
        [3, 4],
    ]
    return pa.table(
        [pa.array(v, f.type) for v, f in zip(columns, maker.schema(), strict=True)],
        schema=maker.schema(),
    )

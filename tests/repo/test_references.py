"""References beside the head: branches that are staged, tags, backups."""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odf.errors import BadInputError, ConflictError, IntegrityError, NotFoundError
from odf.metadata.chain import EMPTY_STATE
from odf.metadata.identity import ReferenceName
from odf.metadata.model import SetInfo
from odf.metadata.multiformats import Multihash, encode_multibase
from odf.repo.chain_reader import ChainReader
from odf.repo.dataset import Dataset
from odf.repo.errors import CorruptChainError, DivergedError
from odf.repo.layout import CACHE_KEY, HEAD_REFERENCE, DatasetStores
from odf.repo.verify import Severity, verify_integrity
from tests.repo.conftest import NOW

BRANCH = ReferenceName("staged")


def add_to_branch(maker, dataset: Dataset, text: str = "staged") -> Multihash:
    """Commit one block to the branch."""
    result = dataset.commit(
        [SetInfo(description=text)],
        expected_head=dataset.reference(BRANCH),
        system_time=maker.next_time(dataset),
        reference=BRANCH,
    )
    return result.new_head


class TestStaging:
    def test_a_branch_begins_at_the_head(self, stores, maker):
        dataset = maker.full(stores)
        assert dataset.references() == {HEAD_REFERENCE: dataset.head()}
        assert dataset.stage(BRANCH) == dataset.head()
        assert dataset.references() == {
            HEAD_REFERENCE: dataset.head(),
            BRANCH: dataset.head(),
        }

    def test_a_tag_on_an_older_block(self, stores, maker):
        dataset = maker.full(stores)
        older = [at for at, _ in dataset.blocks()][2]
        assert dataset.stage(ReferenceName("v1.0"), older) == older
        assert dataset.state(reference=ReferenceName("v1.0")) == dataset.state_at(older)

    def test_commits_leave_the_head_where_it_is(self, stores, maker):
        dataset = maker.full(stores)
        head, before = dataset.head(), dataset.state()
        dataset.stage(BRANCH)
        at = add_to_branch(maker, dataset)
        assert dataset.reference(BRANCH) == at
        assert (dataset.head(), dataset.state()) == (head, before)
        assert dataset.state(reference=BRANCH).info == SetInfo(description="staged")
        assert dataset.block(at).prev_block_hash == head

    def test_a_slice_can_be_staged(self, stores, maker):
        dataset = maker.full(stores)
        event, objects = maker.proposal(dataset, _rows(maker, dataset))
        dataset.stage(BRANCH)
        dataset.commit(
            [event],
            expected_head=dataset.head(),
            system_time=maker.next_time(dataset),
            objects=objects,
            reference=BRANCH,
        )
        assert dataset.state().num_records == 4
        result = dataset.fast_forward(BRANCH, expected_head=dataset.head(), drop=True)
        assert result.new_head == dataset.head()
        assert dataset.state().num_records == 6
        assert dataset.references() == {HEAD_REFERENCE: result.new_head}
        assert verify_integrity(dataset, now=NOW).findings == ()

    def test_what_is_expected_of_a_branch_is_its_own_head(self, stores, maker):
        dataset = maker.full(stores)
        dataset.stage(BRANCH)
        add_to_branch(maker, dataset)
        with pytest.raises(ConflictError, match="changed in the meantime: wanted staged"):
            dataset.commit(
                [SetInfo("x")],
                expected_head=dataset.head(),
                system_time=maker.next_time(dataset),
                reference=BRANCH,
            )

    def test_a_name_that_is_taken(self, stores, maker):
        dataset = maker.full(stores)
        dataset.stage(BRANCH)
        with pytest.raises(ConflictError):
            dataset.stage(BRANCH)

    def test_the_head_is_no_branch(self, stores, maker):
        dataset = maker.full(stores)
        for use in (
            lambda: dataset.stage(HEAD_REFERENCE),
            lambda: dataset.fast_forward(HEAD_REFERENCE, expected_head=dataset.head()),
            lambda: dataset.drop_reference(HEAD_REFERENCE, dataset.head()),
        ):
            with pytest.raises(BadInputError, match="refs/head"):
                use()
        assert dataset.state().num_blocks == 4

    def test_nothing_to_branch_off(self, stores, maker):
        with pytest.raises(NotFoundError, match="there is no dataset"):
            Dataset(stores).stage(BRANCH)
        dataset = maker.seed(stores)
        with pytest.raises(NotFoundError, match="is not there"):
            dataset.stage(BRANCH, Multihash.sha3_256(b"x"))
        assert dataset.reference(BRANCH) is None
        assert dataset.state(reference=BRANCH) is EMPTY_STATE

    def test_references_of_a_web_server(self, maker, local, serve, client, tmp_path):
        dataset = maker.full(local)
        dataset.stage(BRANCH)
        remote = ChainReader(DatasetStores.http(serve(tmp_path / "dataset")[0], client))
        assert remote.references() == {HEAD_REFERENCE: dataset.head()}
        assert remote.reference(BRANCH) == dataset.head()


class TestFastForward:
    def test_moves_the_head_over_all_blocks(self, stores, maker):
        dataset = maker.full(stores)
        head = dataset.head()
        dataset.stage(BRANCH)
        hashes = (add_to_branch(maker, dataset, "1"), add_to_branch(maker, dataset, "2"))
        result = dataset.fast_forward(BRANCH, expected_head=head)
        assert (result.old_head, result.new_head, result.hashes) == (head, hashes[-1], hashes)
        assert dataset.state() == dataset.state(use_cache=False)
        assert dataset.reference(BRANCH) == dataset.head()

    def test_refuses_a_branch_of_another_past(self, stores, maker):
        dataset = maker.full(stores)
        dataset.stage(BRANCH)
        add_to_branch(maker, dataset)
        maker.describe(dataset, "meanwhile")
        head = dataset.head()
        with pytest.raises(DivergedError, match="does not continue the head"):
            dataset.fast_forward(BRANCH, expected_head=head)
        assert dataset.head() == head

    def test_refuses_when_the_head_moved(self, stores, maker):
        dataset = maker.full(stores)
        old = dataset.head()
        dataset.stage(BRANCH)
        add_to_branch(maker, dataset)
        maker.describe(dataset, "meanwhile")
        with pytest.raises(ConflictError, match="changed in the meantime"):
            dataset.fast_forward(BRANCH, expected_head=old)

    def test_refuses_what_has_nothing_new(self, stores, maker):
        dataset = maker.full(stores)
        dataset.stage(BRANCH)
        with pytest.raises(BadInputError, match="is where the head is"):
            dataset.fast_forward(BRANCH, expected_head=dataset.head())
        with pytest.raises(NotFoundError, match="refs/other"):
            dataset.fast_forward(ReferenceName("other"), expected_head=dataset.head())

    def test_refuses_when_an_object_is_gone(self, stores, maker):
        dataset = maker.full(stores)
        event, objects = maker.proposal(dataset, _rows(maker, dataset))
        dataset.stage(BRANCH)
        head = dataset.head()
        time = maker.next_time(dataset)
        dataset.commit(
            [event], expected_head=head, system_time=time, objects=objects, reference=BRANCH
        )
        assert event.new_data is not None
        stores.data.delete(str(event.new_data.physical_hash))
        with pytest.raises(IntegrityError, match="refs/staged refers to, is missing"):
            dataset.fast_forward(BRANCH, expected_head=head)
        assert dataset.head() == head


class TestDropping:
    def test_a_branch_can_be_given_up(self, stores, maker):
        dataset = maker.full(stores)
        dataset.stage(BRANCH)
        at = add_to_branch(maker, dataset)
        with pytest.raises(ConflictError, match="changed by somebody else"):
            dataset.drop_reference(BRANCH, Multihash.sha3_256(b"x"))
        dataset.drop_reference(BRANCH, at)
        assert dataset.references() == {HEAD_REFERENCE: dataset.head()}
        with pytest.raises(ConflictError, match="no reference"):
            dataset.drop_reference(BRANCH, at)

    def test_whatever_encoding_it_was_written_in(self, maker, local, tmp_path):
        dataset = maker.full(local)
        at = dataset.stage(BRANCH)
        text = encode_multibase(at.to_bytes(), "z")
        (tmp_path / "dataset" / "refs" / "staged").write_text(text + "\n")
        dataset.drop_reference(BRANCH, at)
        assert dataset.reference(BRANCH) is None


class TestMemory:
    def test_each_reference_has_its_own(self, maker, local, tmp_path):
        dataset = maker.full(local)
        dataset.stage(BRANCH)
        at = add_to_branch(maker, dataset)
        info = tmp_path / "dataset" / "info"
        assert (info / f"{CACHE_KEY}-staged").is_file()
        fresh = Dataset(local)
        assert fresh.state(reference=BRANCH) == fresh.state_at(at)
        assert fresh.state() == fresh.state_at(fresh.head())
        dataset.drop_reference(BRANCH, at)
        assert not (info / f"{CACHE_KEY}-staged").exists()

    def test_that_of_the_head_shortens_the_walk_of_a_branch(self, maker, local, tmp_path):
        dataset = maker.full(local)
        head = dataset.head()
        dataset.stage(BRANCH)
        add_to_branch(maker, dataset)
        (tmp_path / "dataset" / "info" / f"{CACHE_KEY}-staged").unlink()
        known = dataset.block(head).prev_block_hash
        (tmp_path / "dataset" / "blocks" / str(known)).unlink()
        assert Dataset(local).state(reference=BRANCH).num_blocks == 5

    def test_damage_is_noticed(self, maker, local, tmp_path):
        dataset = maker.full(local)
        dataset.stage(BRANCH)
        at = add_to_branch(maker, dataset)
        (tmp_path / "dataset" / "info" / f"{CACHE_KEY}-staged").write_text("{}")
        assert Dataset(local).state(reference=BRANCH).head == at


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "stage", "forward", "drop", "reopen", "forget"]),
        st.sampled_from(["head", "a", "b"]),
    ),
    max_size=12,
)


class TestLaws:
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(steps=STEPS)
    def test_what_is_remembered_is_what_the_chain_says(self, steps, maker, tmp_path_factory):
        """Whatever is done to branches, states are those of their own blocks."""
        stores = DatasetStores.local(tmp_path_factory.mktemp("law") / "dataset")
        dataset = maker.seed(stores)
        for number, (step, text) in enumerate(steps):
            dataset = _do(dataset, step, ReferenceName(text), number)
            for name, at in dataset.references().items():
                remembered = dataset.state(reference=name)
                assert remembered == dataset.state(reference=name, use_cache=False)
                assert remembered.head == at
        assert verify_integrity(dataset, now=NOW).findings == ()


def _do(dataset: Dataset, step: str, name: ReferenceName, number: int) -> Dataset:
    """Do one step, if it can be done to this reference."""
    at = dataset.reference(name)
    with contextlib.suppress(BadInputError, ConflictError, NotFoundError):
        if step == "commit" and at is not None:
            time = dataset.state(reference=name).system_time
            events = [SetInfo(description=f"{name} {number}")]
            dataset.commit(events, expected_head=at, system_time=time, reference=name)
        elif step == "stage":
            dataset.stage(name)
        elif step == "forward":
            dataset.fast_forward(name, expected_head=dataset.head(), drop=number % 2 == 0)
        elif step == "drop" and at is not None:
            dataset.drop_reference(name, at)
        elif step == "reopen":
            return Dataset(dataset.stores)
        elif step == "forget":
            for key in list(dataset.stores.cache.keys()):
                if key.startswith(CACHE_KEY):
                    dataset.stores.cache.delete(key)
    return dataset


class TestVerification:
    def test_a_sound_branch_is_no_finding(self, stores, maker):
        dataset = maker.full(stores)
        dataset.stage(BRANCH)
        add_to_branch(maker, dataset)
        maker.describe(dataset, "meanwhile")
        report = verify_integrity(dataset, now=NOW)
        assert (report.findings, report.blocks, report.objects) == ((), 6, 2)

    def test_a_damaged_block_of_a_branch(self, maker, local, tmp_path):
        dataset = maker.full(local)
        dataset.stage(BRANCH)
        at = add_to_branch(maker, dataset)
        path = tmp_path / "dataset" / "blocks" / str(at)
        path.write_bytes(path.read_bytes()[:-4] + b"\1\0\0\0")
        report = verify_integrity(dataset, now=NOW)
        assert not report.valid
        [finding] = [f for f in report.findings if "corrupt" in f.message]
        assert finding.message.startswith("in the history of refs/staged: ")
        assert (finding.block, finding.object) == (at, "refs/staged")

    def test_a_missing_slice_of_a_backup(self, maker, local):
        dataset = maker.full(local)
        backup = dataset.keep_backup(dataset.head())
        event = dataset.state().last_add_data
        seed = [at for at, _ in dataset.blocks()][-1]
        local.refs.set("head", str(seed), str(dataset.head()))
        local.data.delete(str(event.new_data.physical_hash))
        report = verify_integrity(Dataset(local), now=NOW)
        [finding] = report.findings
        assert finding.severity is Severity.ERROR
        assert f"refs/{backup}: the slice is missing" in finding.message
        assert finding.object == f"data/{event.new_data.physical_hash}"

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("staged", "rubbish", "wanted the hash of a block"),
            ("staged", str(Multihash.sha3_256(b"x")), "the block is missing"),
            ("Staged_2", str(Multihash.sha3_256(b"x")), "is not a name of a reference"),
        ],
    )
    def test_a_reference_to_nothing(self, maker, local, tmp_path, name, text, message):
        dataset = maker.full(local)
        (tmp_path / "dataset" / "refs" / name).write_text(text)
        report = verify_integrity(dataset, now=NOW)
        assert not report.valid
        assert any(message in f.message and f.object == f"refs/{name}" for f in report.findings)

    def test_every_flipped_bit_of_a_reference_is_found(self, maker, local, tmp_path):
        dataset = maker.seed(local)
        dataset.stage(BRANCH)
        path = tmp_path / "dataset" / "refs" / "staged"
        text = path.read_bytes()
        for bit in range(0, 8 * len(text), 3):
            place, value = divmod(bit, 8)
            flipped = text[place] ^ 1 << value
            path.write_bytes(bytes([*text[:place], flipped, *text[place + 1 :]]))
            report = verify_integrity(dataset, now=NOW)
            found = [finding.object for finding in report.findings]
            assert not report.valid, (place, value)
            assert "refs/staged" in found, (place, value)

    def test_names_that_nobody_gave(self, maker, local, tmp_path):
        dataset = maker.full(local)
        (tmp_path / "dataset" / "refs" / "Staged_2").write_text("x")
        with pytest.raises(CorruptChainError, match="refs/Staged_2"):
            dataset.references()

    def test_a_branch_with_a_wrong_number(self, stores, maker):
        from odf.metadata.flatbuffers import encode_block
        from odf.metadata.model import MetadataBlock

        dataset = maker.full(stores)
        data = encode_block(
            MetadataBlock(maker.next_time(dataset), dataset.head(), 9, SetInfo("x"))
        )
        at = Multihash.sha3_256(data)
        stores.blocks.put(str(at), data)
        stores.refs.set("staged", str(at), None)
        report = verify_integrity(dataset, now=NOW)
        assert any("wanted 4, got 9" in finding.message for finding in report.findings)


def _rows(maker, dataset):
    import pyarrow as pa

    state = dataset.state()
    start, time = state.next_offset, maker.next_time(dataset).epoch_ms
    columns = [[start, start + 1], [0, 0], [time] * 2, [1_600_000_000_000] * 2, ["a", "b"], [1, 2]]
    return pa.table(
        [pa.array(v, f.type) for v, f in zip(columns, maker.schema(), strict=True)],
        schema=maker.schema(),
    )

"""The folded history of a merge: how much it spares, and that it is never believed blindly."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.coordinator.pull import PullRequest, pull
from odf.coordinator.results import PullStatus
from odf.ingest.merge_state import MergeHistory, stretch_to_fold
from odf.limits import MERGE_HISTORY_FILES, MERGE_HISTORY_KINDS, MERGE_HISTORY_ROWS
from odf.metadata.model import MergeStrategyLedger, MergeStrategySnapshot
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.e2e.test_real_series import root_manifest
from tests.transform.hand_made import TinyPool, day

ROUNDS = MERGE_HISTORY_FILES + 3


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    """Somebody with an empty workspace, whose engine is tiny."""
    pool = TinyPool(tmp_path / "engines")
    somebody = Person(tmp_path / "workspace", tmp_path / "home", pool)
    yield somebody
    pool.close()


@pytest.fixture
def grown(person: Person) -> DatasetHandle:
    """A ledger with so many slices that some of them were folded."""
    person.add(root_manifest("log", merge="{kind: Ledger, primaryKey: [id]}"))
    for number in range(1, ROUNDS + 1):
        grow(person, number)
    return person.workspace.resolve("log")


def grow(person: Person, rows: int) -> None:
    """Pull a file with one row more than before."""
    lines = "".join(f"{day(number)},{number},name {number}\n" for number in range(1, rows + 1))
    (person.root / "source.csv").write_text("event_time,id,name\n" + lines)
    assert dict(person.pull("log").records) == {"+A": 1}


def cache_of(person: Person) -> Path:
    """Where the folded history of the only dataset is."""
    found = list((person.workspace.cache_dir / "merge").glob("*/*/index.json"))
    assert len(found) == 1
    return found[0].parent


def files_read(person: Person, handle: DatasetHandle, key: str = "id") -> tuple[Path, ...]:
    """What the next merge would be given."""
    state = handle.dataset.state()
    assert state.head is not None
    folder = person.workspace.cache_dir / "merge" / handle.id.multibase
    merge = MergeStrategyLedger((key,))
    return MergeHistory(handle.dataset, state.head, merge, state.vocab, folder).paths


def test_a_merge_reads_few_files_however_many_slices_there_are(
    person: Person, grown: DatasetHandle
) -> None:
    assert grown.dataset.state().num_slices == ROUNDS
    read = files_read(person, grown)
    folded = [path for path in read if path.parent == cache_of(person)]
    assert len(folded) == 1
    assert len(read) <= MERGE_HISTORY_FILES
    kept = {path.name for path in cache_of(person).iterdir()}
    assert kept == {"index.json", folded[0].name}
    assert person.verify("log").datasets[0].valid


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("which", ["index.json", "*.parquet"])
@pytest.mark.parametrize(
    "damage", [truncate, flip, Path.unlink, lambda path: path.write_bytes(b"")]
)
def test_a_damaged_cache_is_made_anew(
    which: str, damage: Callable[[Path], object], person: Person, grown: DatasetHandle
) -> None:
    victim = next(cache_of(person).glob(which))
    damage(victim)
    slices = grown.path / "data"
    assert {path.parent for path in files_read(person, grown)} == {slices}
    grow(person, ROUNDS + 1)
    grow(person, ROUNDS + 2)
    read = files_read(person, grown)
    assert len(read) <= MERGE_HISTORY_FILES
    assert {path.parent for path in read} == {slices, cache_of(person)}


def test_a_cache_of_another_history_or_merge_is_not_taken(
    person: Person, grown: DatasetHandle
) -> None:
    slices = grown.path / "data"
    assert {path.parent for path in files_read(person, grown, key="name")} == {slices}
    state = grown.dataset.state()
    older = next(
        block_hash
        for block_hash, block in grown.dataset.blocks()
        if block.sequence_number == state.num_blocks // 2
    )
    folder = person.workspace.cache_dir / "merge" / grown.id.multibase
    merge = MergeStrategyLedger(("id",))
    read = MergeHistory(grown.dataset, older, merge, state.vocab, folder).paths
    assert {path.parent for path in read} == {slices}
    snapshot = MergeStrategySnapshot(("id",))
    assert state.head is not None
    read = MergeHistory(grown.dataset, state.head, snapshot, state.vocab, folder).paths
    assert len(read) == ROUNDS


def test_without_the_cache_the_result_is_the_same(person: Person, grown: DatasetHandle) -> None:
    shutil.rmtree(person.workspace.cache_dir / "merge")
    grow(person, ROUNDS + 1)
    assert grown.dataset.state().num_records == ROUNDS + 1


def test_blocks_of_other_commands_between_pulls_do_not_matter(
    person: Person, grown: DatasetHandle
) -> None:
    before = files_read(person, grown)
    person.update(root_manifest("log", merge="{kind: Ledger, primaryKey: [id]}", schema=None))
    assert files_read(person, grown) == before


def test_a_cache_that_cannot_be_written_stops_nothing(person: Person) -> None:
    person.add(root_manifest("log", merge="{kind: Ledger, primaryKey: [id]}"))
    (person.workspace.cache_dir).mkdir(parents=True, exist_ok=True)
    (person.workspace.cache_dir / "merge").write_text("in the way")
    for number in range(1, ROUNDS + 1):
        grow(person, number)
    with person.context("pull") as ctx:
        assert pull(ctx, PullRequest(refs=("log",))).datasets[0].status is PullStatus.UP_TO_DATE


@pytest.mark.usefixtures("grown")
def test_what_was_kept_for_former_merges_goes_in_the_end(person: Person) -> None:
    folder = cache_of(person).parent
    for number in range(MERGE_HISTORY_KINDS + 2):
        (folder / f"former-{number}").mkdir()
    grow(person, ROUNDS + 1)
    assert len(list(folder.iterdir())) == MERGE_HISTORY_KINDS
    assert cache_of(person).is_dir()


@given(st.lists(st.integers(1, 10**7), min_size=1, max_size=40), st.booleans())
def test_a_stretch_reaches_to_the_newest_file(rows: list[int], drops_rows: bool) -> None:
    stretch = stretch_to_fold(rows, drops_rows=drops_rows)
    if stretch is None:
        assert len(rows) <= MERGE_HISTORY_FILES
        if drops_rows:
            newer = sum(rows[1:])
            assert newer < MERGE_HISTORY_ROWS or 2 * newer <= rows[0]
    else:
        assert stretch.stop == len(rows)
        assert len(stretch) > 1


@given(
    st.integers(1, 10**7), st.lists(st.integers(1, 10**4), min_size=50, max_size=400), st.booleans()
)
def test_work_and_files_stay_bounded(first: int, rounds: list[int], drops_rows: bool) -> None:
    """Of rows that all count: each is written a few times, however many rounds there are."""
    files, written = [first], 0
    for rows in rounds:
        stretch = stretch_to_fold(files, drops_rows=drops_rows)
        if stretch is not None:
            size = sum(files[place] for place in stretch)
            files[stretch.start :] = [size]
            written += size
        files.append(rows)
        assert len(files) <= MERGE_HISTORY_FILES + 1
    total = first + sum(rounds)
    levels = len(bin(len(rounds))) - 2
    assert written <= 4 * levels * total

"""Verification runs steps without state beside each other; what it says is as if it did not."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from odf.coordinator.drop_data import drop_data
from odf.coordinator.engines import transform_surroundings
from odf.coordinator.results import VerifiedDataset
from odf.engines.host.engine import Rows, TransformJob
from odf.errors import NotFoundError
from odf.repo.files import slice_paths
from odf.transform.beside import Beside, Running
from odf.transform.verify import replay
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.engines.host.tiny_engine import TinyEngine
from tests.transform.hand_made import TinyPool, add_rows, day, make_derivative, make_root

STEPS = 5


class Meeting(TinyEngine):
    """Goes on only once as many operations run as it can do; may lie about some rows, or fail."""

    def __init__(self, operations: int) -> None:
        super().__init__()
        self.operations = operations
        self.meets = True
        self.lies: tuple[str, ...] = ()
        self.fails = ""
        self.leaves_state = ""
        self.hangs = False
        self.hung = threading.Semaphore(0)
        self.release_all = threading.Event()
        self._met = threading.Event()
        self._counting = threading.Lock()
        self._running = 0

    def transform(self, job: TransformJob) -> Rows:
        with self._counting:
            self._running += 1
            if self._running == self.operations:
                self._met.set()
        if self.hangs:
            self.hung.release()
            self.release_all.wait(60)
        elif self.meets:
            assert self._met.wait(60), "the others did not come"
        table = pa.Table.from_batches(list((made := super().transform(job)).batches), made.schema)
        with self._counting:
            self._running -= 1
        if self.fails in table["name"].to_pylist():
            raise ValueError("the engine broke")
        if self.leaves_state in table["name"].to_pylist():
            assert job.new_checkpoint is not None
            job.new_checkpoint.write_text("a state")
        names = pc.if_else(pc.is_in(table["name"], pa.array(self.lies, pa.string())),
                           "forged", table["name"])  # fmt: skip
        table = table.set_column(table.schema.names.index("name"), "name", names)
        return Rows(table.schema, iter(table.to_batches()))


@pytest.fixture(params=[1, 3], ids=["one at a time", "three at a time"])
def engine(request: pytest.FixtureRequest) -> Meeting:
    return Meeting(request.param)


@pytest.fixture
def person(engine: Meeting, tmp_path: Path) -> Iterator[Person]:
    pool = TinyPool(tmp_path / "engines", engine)
    yield Person(tmp_path / "workspace", tmp_path / "home", pool)
    engine.release_all.set()
    pool.close()


@pytest.fixture
def derived(person: Person, engine: Meeting) -> Callable[..., DatasetHandle]:
    """Makes a derivative of some steps, each of one row; some of them are forged."""

    def make(*forged: str, query: str = "pass") -> DatasetHandle:
        engine.meets, engine.lies = False, forged
        source = make_root(person, "source")
        made = make_derivative(person, "derived", source, query=query)
        for number in range(1, STEPS + 1):
            add_rows(source, f"row {number}", watermark=day(number))
            person.pull("derived")
        engine.meets, engine.lies = True, ()
        return made

    return make


def check(person: Person, blocks: range | None = None) -> VerifiedDataset:
    return person.verify("derived", blocks=blocks).datasets[0]


def test_steps_run_beside_each_other(
    person: Person, derived: Callable[..., DatasetHandle], engine: Meeting
) -> None:
    """The engine goes on only when all that it can do at once is there."""
    derived()
    found = check(person)
    assert (found.valid, found.replayed, found.findings) == (True, STEPS, ())
    assert not list(person.root.rglob("replay-*"))
    engine.meets = False
    assert check(person, range(4, 6)).replayed == 2


def test_forged_slices_are_found_in_the_order_of_the_blocks(
    person: Person, derived: Callable[..., DatasetHandle]
) -> None:
    derived("row 2", "row 4", "row 5")
    found = check(person)
    assert (found.valid, found.replayed) == (False, STEPS)
    assert [finding.sequence_number for finding in found.findings] == [4, 6, 7]
    assert all("logical hash of the rows" in finding.message for finding in found.findings)


@pytest.mark.parametrize(("fails", "replayed"), [("row 1", 0), ("row 3", 2)])
def test_what_came_before_a_failure_is_kept_and_nothing_after_it(
    fails: str,
    replayed: int,
    person: Person,
    derived: Callable[..., DatasetHandle],
    engine: Meeting,
) -> None:
    derived("row 2", "row 4", "row 5")
    engine.fails = fails
    found = check(person)
    assert (found.valid, found.replayed) == (False, replayed)
    assert [finding.sequence_number for finding in found.findings] == [4][:replayed]
    assert found.error is not None
    assert "the engine broke" in found.error.message


def test_what_came_before_a_block_that_cannot_be_read_is_kept(
    person: Person, derived: Callable[..., DatasetHandle], engine: Meeting
) -> None:
    made = derived("row 2")
    engine.meets = False
    names = {block.sequence_number: name for name, block in made.dataset.blocks()}

    def lose(message: str) -> None:
        if message == "replaying block 4":
            (made.path / "blocks" / str(names[5])).unlink()

    found = []
    with person.context("verify") as ctx:
        around = replace(transform_surroundings(ctx, made), report=lose)
        with pytest.raises(NotFoundError, match=str(names[5])):
            found.extend(replay(made, around))
    # What `extend` took before the error stays.
    assert [(step.sequence_number, len(step.differences)) for step in found] == [(3, 0), (4, 1)]


def test_a_state_of_one_step_is_not_held_against_the_next(
    person: Person, derived: Callable[..., DatasetHandle], engine: Meeting
) -> None:
    derived()
    engine.leaves_state = "row 3"
    found = check(person)
    assert [finding.sequence_number for finding in found.findings] == [5]
    assert "checkpoint: recorded none, replayed f1620" in found.findings[0].message


def test_steps_with_state_keep_their_order(
    person: Person, derived: Callable[..., DatasetHandle], engine: Meeting
) -> None:
    made = derived(query="number")
    engine.meets = False
    found = check(person)
    assert (found.valid, found.replayed, found.findings) == (True, STEPS, ())
    assert len(slice_paths(made.dataset)) == STEPS


def test_dropped_slices_come_back(
    person: Person, derived: Callable[..., DatasetHandle], engine: Meeting
) -> None:
    made = derived()
    before = {path.name: path.read_bytes() for path in slice_paths(made.dataset)}
    with person.context("drop-data") as ctx:
        drop_data(ctx, ("derived",))
    engine.meets = False
    person.pull("derived")
    assert {path.name: path.read_bytes() for path in slice_paths(made.dataset)} == before


def test_leaving_early_ends_what_runs(
    person: Person, derived: Callable[..., DatasetHandle], engine: Meeting
) -> None:
    """As an interrupt does: calls to an engine that hangs are given up, and no thread is left."""
    made = derived()
    engine.hangs = True

    def interrupt(message: str) -> None:
        if engine.operations > 1 and message == f"replaying block {2 + engine.operations}":
            # All but one of the operations that fit hang by now.
            for _ in range(engine.operations - 1):
                assert engine.hung.acquire(timeout=60)
            raise KeyboardInterrupt

    with person.context("verify") as ctx:
        around = replace(transform_surroundings(ctx, made), report=interrupt)
        if engine.operations == 1:
            engine.release_all.set()
            assert len(list(replay(made, around))) == STEPS
            return
        with pytest.raises(KeyboardInterrupt):
            list(replay(made, around))
    assert not [one for one in threading.enumerate() if one.name.startswith("beside")]
    assert not engine.release_all.is_set()
    assert not list(person.root.rglob("replay-*"))


def test_work_that_begins_a_call_when_all_is_over_ends_it_at_once() -> None:
    ended, begin = threading.Event(), threading.Event()

    def early(running: Running) -> None:
        with running(begin.set):
            begin.wait(60)

    def late(running: Running) -> None:
        begin.wait(60)
        with running(ended.set):
            assert ended.is_set()

    def leave() -> None:
        with Beside[None]() as beside:
            assert list(beside.add(early, 2)) == list(beside.add(late, 2)) == []
            raise KeyError

    with pytest.raises(KeyError):
        leave()
    assert ended.is_set()

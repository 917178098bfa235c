"""Verification with engines of others, and with an engine in a process of its own."""

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from odf.coordinator.engines import transform_surroundings
from odf.coordinator.provenance import provenance
from odf.coordinator.results import VerifiedDataset
from odf.engines.host.engine import Migration, Rows, TransformJob
from odf.errors import InvalidQueryError
from odf.metadata.model import SetTransform
from odf.runtimes.base import ContainerProgram, EngineHandle
from odf.runtimes.pool import EnginePool, PoolSettings
from odf.runtimes.process import ProcessRuntime
from odf.transform.verify import replay
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.engines.host.tiny_engine import TinyEngine
from tests.runtimes.conftest import tiny_command
from tests.transform.hand_made import (
    TinyPool,
    add_rows,
    day,
    make_derivative,
    make_root,
    set_transform,
)
from tests.transform.test_state import names

STEPS = 4
PINNED = f"example.org/flink@sha256:{'a' * 64}"


class Foreign(TinyEngine):
    """Like an image of somebody else: does one thing at a time, and is asked nothing of ours."""

    operations = 3

    def __init__(self) -> None:
        super().__init__()
        self.started = False
        self.makes_up = ""
        self._working = threading.Lock()

    def __getattribute__(self, name: str) -> object:
        if name == "operations" and object.__getattribute__(self, "started"):
            raise AssertionError("it was asked who it is")
        return object.__getattribute__(self, name)

    def migrate(self, *_: object) -> Migration:
        raise AssertionError("it was asked what to do with a state")

    def transform(self, job: TransformJob) -> Rows:
        assert self._working.acquire(blocking=False), "two operations at once"
        try:
            made = super().transform(job)
            table = pa.Table.from_batches(list(made.batches), made.schema)
            names = pc.replace_substring(table["name"], self.makes_up or "\n", "made up")
            table = table.set_column(table.schema.names.index("name"), "name", names)
            return Rows(table.schema, iter(table.to_batches()))
        finally:
            self._working.release()


class ForeignPool(TinyPool):
    """Has an image by the name of Flink."""

    def __init__(self, run_dir: Path, engine: Foreign) -> None:
        super().__init__(run_dir, engine)
        self._settings = PoolSettings(images={"flink": ContainerProgram("example.org/flink:1")})
        self._foreign = engine

    def _start(self, name: str, key: str, *version: str | None, trusted: bool) -> EngineHandle:
        handle = super()._start(name, key, *version, trusted=trusted)
        self._foreign.started = True
        return handle


@pytest.fixture
def engine() -> Foreign:
    return Foreign()


@pytest.fixture
def foreign(tmp_path: Path, engine: Foreign) -> Iterator[Person]:
    """Somebody with an engine of somebody else."""
    pool = ForeignPool(tmp_path / "engines", engine)
    yield Person(tmp_path / "workspace", tmp_path / "home", pool)
    pool.close()


def for_flink(source: DatasetHandle, query: str, version: str | None = PINNED) -> SetTransform:
    event = set_transform((source.id, "source"), query=query)
    return replace(event, transform=replace(event.transform, engine="flink", version=version))


def change(handle: DatasetHandle, event: SetTransform) -> None:
    """Set another transform at the time of the last block."""
    head = handle.dataset.head()
    assert head is not None
    at = handle.dataset.block(head).system_time
    handle.dataset.commit([event], expected_head=head, system_time=at)


def make(person: Person, query: str, version: str | None = PINNED) -> DatasetHandle:
    source = make_root(person, "source")
    made = make_derivative(person, "derived", source)
    change(made, for_flink(source, query, version))
    for number in range(1, STEPS + 1):
        add_rows(source, f"row {number}", watermark=day(number))
        person.pull("derived")
    return made


def check(person: Person) -> VerifiedDataset:
    (found,) = person.verify("derived").datasets
    return found


@pytest.mark.parametrize("query", ["pass", "number"])
def test_steps_by_an_engine_of_others_are_replayed_one_by_one(query: str, foreign: Person) -> None:
    make(foreign, query)
    found = check(foreign)
    assert (found.valid, found.replayed, found.findings) == (True, STEPS, ())


def test_which_image_ran_what_names_none(foreign: Person) -> None:
    make(foreign, "pass", version=None)
    found = check(foreign)
    assert found.valid
    said = {finding.message for finding in found.findings}
    assert said == {"the transform names no release of its engine; the image here ran it"}


def test_what_an_engine_of_others_made_up_is_found(foreign: Person, engine: Foreign) -> None:
    engine.makes_up = "row 2"
    make(foreign, "pass")
    engine.makes_up = ""
    found = check(foreign)
    assert not found.valid
    (wrong,) = found.findings
    assert "not reproducible" in wrong.message
    assert wrong.sequence_number == 5


def test_a_changed_query_gives_up_the_state_of_an_engine_of_others(foreign: Person) -> None:
    made = make(foreign, "number")
    source = foreign.workspace.resolve("source")
    add_rows(source, "wider", watermark=day(5), size=["wide"])
    foreign.pull("derived")
    assert names(made)[-1] == f"wider {STEPS + 1}"
    change(made, for_flink(source, "number "))
    add_rows(source, "anew", watermark=day(6), size=["wide"])
    (told,) = foreign.pull("derived").warnings
    assert "engines of others cannot be asked" in told
    assert names(made)[-1] == "anew 1"
    found = check(foreign)
    assert (found.valid, found.findings) == (True, ())


def test_an_engine_of_others_tells_no_origins(foreign: Person) -> None:
    make(foreign, "pass")
    with (
        foreign.context("provenance") as ctx,
        pytest.raises(InvalidQueryError, match="'flink' does not tell where rows come from"),
    ):
        provenance(ctx, "derived", 0, 0)


class ChildPool(EnginePool):
    """Starts the tiny engine as a process of its own."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(PoolSettings(), run_dir=run_dir)

    def _start(self, _name: str, key: str, *_version: str | None, trusted: bool) -> EngineHandle:  # noqa: ARG002
        return ProcessRuntime(tiny_command()).start(self._run_dir / key)


@pytest.fixture
def with_child(tmp_path: Path) -> Iterator[Person]:
    pool = ChildPool(tmp_path / "engines")
    yield Person(tmp_path / "workspace", tmp_path / "home", pool)
    pool.close()


def test_a_replay_that_is_left_early_leaves_its_engine_to_others(
    with_child: Person, tmp_path: Path
) -> None:
    """Calls that hang in another process are given up; it goes on serving."""
    person, gate = with_child, tmp_path / "gate"
    gate.write_bytes(b"")
    source = make_root(person, "source")
    made = make_derivative(person, "derived", source, query=f"wait {gate}")
    for number in range(1, STEPS + 1):
        add_rows(source, f"row {number}", watermark=day(number))
        person.pull("derived")
    gate.unlink()
    os.mkfifo(gate)
    begun: list[str] = []
    opened: list[int] = []

    def interrupt(message: str) -> None:
        if not message.startswith("replaying"):
            return
        begun.append(message)
        if len(begun) == TinyEngine.operations + 1:
            # Opens only once the engine reads from the other end: some call hangs in it.
            opened.append(os.open(gate, os.O_WRONLY))
            raise KeyboardInterrupt

    with person.context("verify") as ctx:
        around = replace(transform_surroundings(ctx, made), report=interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(replay(made, around))
    assert not [one for one in threading.enumerate() if one.name.startswith("beside")]
    assert not list(person.root.rglob("replay-*"))
    gate.unlink()
    gate.write_bytes(b"")
    os.close(opened[0])
    assert check(person).valid
    assert check(person).replayed == STEPS

"""What an update of a derivative dataset reads, writes and refuses, with an engine in memory."""

from dataclasses import replace
from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from odf.coordinator.engines import transform_surroundings
from odf.coordinator.pull import PullRequest, pull
from odf.coordinator.results import PullStatus
from odf.errors import ConflictError, EngineError, IntegrityError, InvalidQueryError
from odf.metadata.model import SetDataSchema, Timestamp
from odf.protocol.calls import TransformCall, TransformOutcome
from odf.repo.files import slice_paths
from odf.runtimes.client import EngineClient
from odf.transform.execute import pull_derivative
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.transform.hand_made import (
    add_rows,
    add_watermark,
    day,
    executed,
    make_derivative,
    make_root,
    replace_by_other_rows,
)


def names(handle: DatasetHandle) -> list[str]:
    """The column `name` of all slices, oldest first."""
    tables = [pq.read_table(path) for path in slice_paths(handle.dataset)]
    return [name for table in tables for name in table.column("name").to_pylist()]


def test_several_blocks_of_an_input_are_one_step(person: Person) -> None:
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    for name in ("one", "two", "three"):
        last = add_rows(source, name, f"{name} again", watermark=day(2))
    result = person.pull("derived")
    assert (dict(result.records), result.blocks) == ({"+A": 6}, 2)
    (step,) = executed(derived)
    (read,) = step.query_inputs
    assert (read.prev_block_hash, read.new_block_hash) == (None, last)
    assert (read.prev_offset, read.new_offset) == (None, 5)
    assert names(derived) == names(source)
    assert step.new_watermark == day(2)
    add_rows(source, "four", watermark=day(3))
    assert dict(person.pull("derived").records) == {"+A": 1}
    again = executed(derived)[1]
    assert (again.prev_offset, again.query_inputs[0].prev_offset) == (5, 5)
    assert again.query_inputs[0].prev_block_hash == last
    report = person.verify("derived").datasets[0]
    assert (report.valid, report.replayed, report.findings) == (True, 2, ())


def test_a_step_never_spans_a_change_of_schema(person: Person) -> None:
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    add_rows(source, "one", watermark=day(1))
    before = add_rows(source, "two", watermark=day(2))
    after = add_rows(source, "three", watermark=day(3), size=["big"])
    result = person.pull("derived")
    assert dict(result.records) == {"+A": 3}
    first, second = executed(derived)
    assert [first.query_inputs[0].new_block_hash, second.query_inputs[0].new_block_hash] == [
        before,
        after,
    ]
    assert [first.query_inputs[0].new_offset, second.query_inputs[0].new_offset] == [1, 2]
    kinds = [type(block.event).__name__ for _, block in derived.dataset.blocks()][::-1]
    assert kinds[2:] == ["SetDataSchema", "ExecuteTransform"] * 2
    schemas = [
        block.event
        for _, block in derived.dataset.blocks()
        if isinstance(block.event, SetDataSchema)
    ]
    assert schemas[0] != schemas[1]
    assert person.verify("derived").datasets[0].replayed == 2


def test_the_watermark_is_the_earliest_of_the_inputs_idle_ones_included(person: Person) -> None:
    left, right = make_root(person, "left"), make_root(person, "right")
    derived = make_derivative(person, "derived", left, right)
    add_rows(left, "a", watermark=day(5))
    add_rows(right, "b", watermark=day(9))
    assert person.pull("derived").watermark == day(5)
    add_rows(left, "c", watermark=day(20))
    assert person.pull("derived").watermark == day(9)
    idle = executed(derived)[1].query_inputs[1]
    assert (idle.new_block_hash, idle.new_offset) == (None, None)
    assert idle.prev_block_hash == right.dataset.head()
    assert idle.prev_offset == 0
    assert person.verify("derived").datasets[0].valid


def test_a_watermark_of_an_input_is_a_step_of_its_own(person: Person) -> None:
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    add_rows(source, "one", watermark=day(1))
    person.pull("derived")
    last = add_watermark(source, day(8))
    result = person.pull("derived")
    assert (result.status, dict(result.records), result.blocks) == (PullStatus.UPDATED, {}, 1)
    assert result.watermark == day(8)
    step = executed(derived)[-1]
    assert (step.new_data, step.prev_offset, step.new_watermark) == (None, 0, day(8))
    assert step.query_inputs[0].new_block_hash == last
    assert step.query_inputs[0].new_offset is None
    assert person.pull("derived").status is PullStatus.UP_TO_DATE
    assert person.verify("derived").datasets[0].replayed == 2


def test_rows_that_all_fall_away_still_move_the_inputs_on(person: Person) -> None:
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source, query="empty")
    last = add_rows(source, "one", watermark=day(1))
    person.pull("derived")
    (step,) = executed(derived)
    assert (step.new_data, step.new_watermark) == (None, day(1))
    assert step.query_inputs[0].new_block_hash == last
    assert person.pull("derived").reason == "its inputs have nothing new"


class Liar:
    """An engine's client whose answers about the watermark are not the engine's.

    Args:
        honest: The client of a real engine.
        watermark: What it says instead.
    """

    def __init__(self, honest: EngineClient, watermark: Timestamp | None) -> None:
        self._honest = honest
        self._watermark = watermark

    def execute_transform(self, call: TransformCall, *_: object) -> TransformOutcome:
        return replace(self._honest.execute_transform(call), watermark=self._watermark)


@pytest.mark.parametrize("inputs_have_one", [True, False])
def test_a_watermark_that_the_inputs_do_not_bear_out(
    person: Person, *, inputs_have_one: bool
) -> None:
    source, late = make_root(person, "source"), make_root(person, "late")
    derived = make_derivative(person, "derived", source, late)
    add_rows(source, "one", watermark=day(9))
    add_rows(late, "two", watermark=day(4) if inputs_have_one else None)
    before = derived.dataset.head()
    honest = person.engines.client("spark", dataset="derived", trusted=True)
    with person.context() as ctx:
        around = transform_surroundings(ctx, derived)
        lying = replace(around, engine=lambda _: Liar(honest, day(9)))
        update = pull_derivative(derived, lying)
        assert isinstance(update.error, EngineError)
        wanted = f"{day(4)} at most" if inputs_have_one else "none at most"
        assert f"reported the watermark {day(9)}, wanted {wanted}" in update.error.message
        assert derived.dataset.head() == before
        if inputs_have_one:  # earlier than need be is the engine's right
            modest = replace(around, engine=lambda _: Liar(honest, day(3)))
            assert pull_derivative(derived, modest).watermark == day(3)


def test_an_input_whose_history_was_rewritten(person: Person) -> None:
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    older = add_rows(source, "one", watermark=day(1))
    newer = add_rows(source, "two", watermark=day(2))
    person.pull("derived")
    before = derived.dataset.head()
    source.dataset.stores.refs.set("head", str(older), str(newer))
    for _ in range(2):  # as it is, and with another future
        with pytest.raises(ConflictError, match=rf"input source no longer has block {newer}") as no:
            person.pull("derived")
        assert no.value.exit_code == 5
        assert no.value.details["input"] == str(source.id)
        add_rows(source, "another two", watermark=day(3))
    assert derived.dataset.head() == before


def test_an_input_that_was_never_pulled(person: Person) -> None:
    full, empty = make_root(person, "full"), make_root(person, "empty")
    derived = make_derivative(person, "derived", full, empty)
    add_rows(full, "one", watermark=day(1))
    result = person.pull("derived")
    assert (result.status, result.blocks) == (PullStatus.UP_TO_DATE, 0)
    assert result.reason == "input empty has no data yet"
    assert person.engines.descriptions == {}
    add_rows(empty, "two", watermark=day(1))
    assert dict(person.pull("derived").records) == {"+A": 2}
    assert executed(derived)[0].query_inputs[0].prev_offset is None


def test_a_clock_that_goes_back(person: Person) -> None:
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    add_rows(source, "one", watermark=day(1))
    person.pull("derived")
    last = derived.dataset.state().system_time
    person.clock.at -= timedelta(days=1)
    add_rows(source, "two", watermark=day(2))
    person.pull("derived")
    state = derived.dataset.state()
    assert last is not None
    # Data of two blocks never has the same millisecond.
    wanted = Timestamp.from_epoch_ms(last.epoch_ms + 1)
    assert (state.num_records, state.system_time) == (2, wanted)
    # The check comes from the clock as it was: a day ago these blocks are from the future.
    person.clock.at += timedelta(days=2)
    assert person.verify("derived").datasets[0].valid


def test_steps_before_one_that_fails_are_kept_and_told(person: Person) -> None:
    """The slice that the second step would read is damaged."""
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    first = add_rows(source, "one", "two", watermark=day(1))
    add_rows(source, "three", watermark=day(2), size=["big"])
    victim = replace_by_other_rows(source)
    with person.context("pull") as ctx:
        (result,) = pull(ctx, PullRequest(refs=("derived",))).datasets
    assert result.status is PullStatus.FAILED
    assert isinstance(result.error, IntegrityError)
    assert victim.name in result.error.message
    assert (result.blocks, dict(result.records), result.watermark) == (2, {"+A": 2}, day(1))
    assert result.new_head == derived.dataset.head() != result.old_head
    (step,) = executed(derived)
    assert step.query_inputs[0].new_block_hash == first


def test_an_input_slice_that_was_replaced_is_not_read(person: Person) -> None:
    """By another valid Parquet file: what is derived from it would have the right hashes."""
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source)
    add_rows(source, "one", watermark=day(1))
    before = derived.dataset.head()
    victim = replace_by_other_rows(source)
    with pytest.raises(IntegrityError, match=f"source: data/{victim.name}.*corrupt") as refused:
        person.pull("derived")
    assert refused.value.exit_code == 7
    assert derived.dataset.head() == before
    assert [path.name for path in (derived.path / "data").glob("*")] == []


def test_what_is_refused_leaves_nothing_behind(person: Person) -> None:
    source = make_root(person, "source")
    derived = make_derivative(person, "derived", source, query="no-event-time")
    add_rows(source, "one", watermark=day(1))
    before = derived.dataset.head()
    with pytest.raises(InvalidQueryError, match="no event time column"):
        person.pull("derived")
    assert derived.dataset.head() == before
    runs = person.workspace.root / ".odf" / "run"
    assert list(runs.rglob("slice-*")) == []

"""Whose state the newest one of a chain is, through changes of the source."""

from dataclasses import replace
from pathlib import Path

import pytest

from odf.ingest.source_state import carried_state, known_state, rereads, was_read
from odf.metadata.model import (
    AddData,
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    FetchStepUrl,
    MergeStrategyAppend,
    MetadataEvent,
    ReadStepNdJson,
    SetPollingSource,
    SourceState,
    Timestamp,
)
from odf.workspace.workspace import DatasetHandle
from tests.e2e.conftest import Person
from tests.transform.hand_made import START, add_rows, make_root

SEEN, NEWER = (SourceState("default", "odf/etag", value) for value in ("1", "2"))


def polling(url: str) -> SetPollingSource:
    return SetPollingSource(FetchStepUrl(url), read=ReadStepNdJson(), merge=MergeStrategyAppend())


A, B = polling("https://example.org/a"), polling("https://example.org/b")
PUSH = AddPushSource("desk", ReadStepNdJson(schema=("x INT",)), merge=MergeStrategyAppend())


class Chain:
    """A root dataset whose blocks are written by hand."""

    def __init__(self, person: Person) -> None:
        self.handle: DatasetHandle = make_root(person, "log")

    def say(self, *events: MetadataEvent) -> None:
        dataset = self.handle.dataset
        dataset.commit(events, expected_head=dataset.head(), system_time=START)

    def rows(self, state: SourceState | None) -> None:
        """A row that came with a state."""
        add_rows(self.handle, "x", source_state=state)

    def mark(self, day: int, state: SourceState | None) -> None:
        """A block with nothing but a watermark, or a state."""
        known = self.handle.dataset.state()
        self.say(
            AddData(
                prev_offset=known.last_offset,
                new_watermark=Timestamp.parse(f"2026-01-{day:02}T00:00:00Z"),
                new_source_state=state,
            )
        )

    @property
    def known(self) -> SourceState | None:
        state = self.handle.dataset.state()
        assert state.polling_source is not None
        return known_state(self.handle.dataset, state.polling_source, state)

    @property
    def carried(self) -> SourceState | None:
        state = self.handle.dataset.state()
        assert state.polling_source is not None
        return carried_state(self.handle.dataset, state.polling_source, state)

    def rereads(self, source: SetPollingSource) -> bool:
        return rereads(self.handle.dataset, source, self.handle.dataset.state())

    @property
    def read(self) -> bool:
        state = self.handle.dataset.state()
        assert state.polling_source is not None
        return was_read(self.handle.dataset, state.polling_source, state)


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(Person(tmp_path / "workspace", tmp_path / "home", None))  # type: ignore[arg-type]


def test_a_source_knows_its_state(chain: Chain) -> None:
    chain.say(A)
    assert (chain.known, chain.read) == (None, False)
    chain.rows(SEEN)
    assert (chain.known, chain.read) == (SEEN, True)
    chain.mark(1, NEWER)
    assert (chain.known, chain.read) == (NEWER, True)


def test_another_place_has_no_state(chain: Chain) -> None:
    chain.say(A)
    chain.rows(SEEN)
    chain.say(B)
    assert (chain.known, chain.read) == (None, False)
    chain.mark(1, SEEN)  # carried along with a watermark
    assert (chain.known, chain.read) == (None, False)
    chain.say(A)
    assert (chain.known, chain.read) == (SEEN, True)
    chain.say(B)
    chain.rows(NEWER)
    assert (chain.known, chain.read) == (NEWER, True)


def test_a_state_that_came_without_rows(chain: Chain) -> None:
    chain.say(A)
    chain.rows(SEEN)
    chain.say(B)
    chain.mark(1, NEWER)
    assert chain.known == NEWER
    chain.mark(2, NEWER)
    assert chain.known == NEWER
    chain.say(A)
    assert chain.known is None


def test_another_way_to_read_the_same_place(chain: Chain) -> None:
    chain.say(A)
    chain.rows(SEEN)
    chain.say(replace(A, read=ReadStepNdJson(schema=("x INT",))))
    assert (chain.known, chain.read) == (SEEN, True)


def test_what_is_pushed_in_between_only_carries_it(chain: Chain) -> None:
    chain.say(A)
    chain.rows(SEEN)
    chain.say(DisablePollingSource(), PUSH)
    chain.rows(SEEN)
    chain.say(DisablePushSource("desk"), A)
    assert (chain.known, chain.read) == (SEEN, True)
    chain.say(B)
    assert (chain.known, chain.read) == (None, False)


def test_states_that_others_dropped_or_that_belong_to_others(chain: Chain) -> None:
    chain.say(A)
    chain.rows(SEEN)
    chain.mark(1, None)
    assert chain.known == SEEN
    chain.mark(2, SourceState("desk", "odf/etag", "x"))
    assert chain.known == SEEN


def test_a_moved_place_that_answers_with_the_same_state(chain: Chain) -> None:
    chain.say(A)
    chain.rows(SEEN)
    chain.say(B)
    chain.rows(SEEN)
    assert chain.known == SEEN


def test_a_source_without_a_state_does_not_inherit_one(chain: Chain) -> None:
    chain.say(A)
    assert not chain.carried
    chain.rows(SEEN)
    assert chain.carried == SEEN
    chain.say(B)
    assert not chain.carried
    chain.rows(chain.carried)
    assert (chain.known, chain.read) == (None, True)
    chain.mark(1, chain.handle.dataset.state().last_source_state)  # as a watermark carries it
    assert [chain.known, chain.carried] == [None, None]
    chain.say(A)
    assert (chain.known, chain.carried) == (SEEN, SEEN)


def test_states_of_push_sources_are_carried_by_any_source(chain: Chain) -> None:
    pushed = SourceState("desk", "odf/etag", "x")
    chain.say(A)
    chain.mark(1, pushed)
    assert chain.carried == pushed
    chain.rows(SEEN)
    chain.mark(2, pushed)
    assert chain.carried == SEEN


def test_another_place_is_read_whole(chain: Chain) -> None:
    assert not chain.rereads(A)
    chain.say(A)
    assert not chain.rereads(B)
    chain.rows(None)
    assert (chain.rereads(A), chain.rereads(B)) == (False, True)
    assert not chain.rereads(replace(A, read=ReadStepNdJson(schema=("x INT",))))
    chain.say(DisablePollingSource(), PUSH)
    chain.rows(None)
    assert (chain.rereads(A), chain.rereads(B)) == (False, True)

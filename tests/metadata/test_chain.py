"""ChainState: the fold over blocks."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odf.metadata.chain import EMPTY_STATE, ChainState, apply, fold
from odf.metadata.identity import DatasetID
from odf.metadata.json import from_json, to_json
from odf.metadata.model import (
    AddData,
    AddPushSource,
    Checkpoint,
    DatasetKind,
    DataSlice,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    FetchStepUrl,
    MergeStrategyAppend,
    MetadataBlock,
    OffsetInterval,
    ReadStepCsv,
    Seed,
    SetInfo,
    SetPollingSource,
    SetVocab,
    SourceState,
    UnknownEvent,
)
from odf.metadata.multiformats import Multihash
from odf.metadata.timestamp import Timestamp
from tests.metadata.model_strategies import blocks

POLL = SetPollingSource(fetch=FetchStepUrl("x"), read=ReadStepCsv(), merge=MergeStrategyAppend())


def hash_of(text):
    return Multihash.sha3_256(text.encode())


def slice_of(start, end):
    return DataSlice(hash_of("l"), hash_of("p"), OffsetInterval(start, end), size=100)


def state_after(*events):
    state = EMPTY_STATE
    for number, event in enumerate(events):
        block = MetadataBlock(Timestamp(number), state.head, number, event)
        state = apply(state, block, hash_of(str(number)))
    return state


SEED = Seed(DatasetID(bytes(32)), DatasetKind.ROOT)


def test_an_empty_chain():
    assert EMPTY_STATE.next_offset == 0
    assert EMPTY_STATE.next_sequence_number == 0
    assert EMPTY_STATE.dataset_id is None
    assert EMPTY_STATE.vocab.operation_type_column == "op"


def test_headers_and_identity():
    state = state_after(SEED, SetInfo("x"))
    assert (state.head, state.sequence_number, state.system_time) == (hash_of("1"), 1, Timestamp(1))
    assert (state.dataset_id, state.kind) == (SEED.dataset_id, DatasetKind.ROOT)
    assert state.num_blocks == 2
    assert state.info == SetInfo("x")


def test_data_counts_offsets_and_watermark():
    state = state_after(
        SEED,
        AddData(new_data=slice_of(0, 9), new_watermark=Timestamp(5)),
        AddData(prev_offset=9, new_data=slice_of(10, 10), new_watermark=Timestamp(6)),
        AddData(prev_offset=10, new_watermark=Timestamp(7)),
    )
    assert (state.last_offset, state.next_offset) == (10, 11)
    assert (state.num_slices, state.num_records, state.data_size) == (2, 11, 200)
    assert state.watermark == Timestamp(7)
    assert state.last_data_time == Timestamp(3)


def test_checkpoints_count_where_they_are_new():
    first, second = Checkpoint(hash_of("a"), 10), Checkpoint(hash_of("b"), 20)
    state = state_after(
        SEED,
        ExecuteTransform((), new_checkpoint=first),
        ExecuteTransform((), prev_checkpoint=hash_of("a"), new_checkpoint=first),
        ExecuteTransform((), prev_checkpoint=hash_of("a"), new_checkpoint=second),
    )
    assert state.checkpoint == second
    assert state.checkpoints_size == 30


def test_the_newest_state_of_each_source():
    def add(name, value):
        return AddData(new_source_state=SourceState(name, "odf/etag", value))

    state = state_after(SEED, add("a", "1"), add("b", "2"), add("a", "3"), AddData())
    assert [(s.source_name, s.value) for s in state.source_states] == [("b", "2"), ("a", "3")]
    assert state.last_source_state.value == "3"
    assert state.source_state("b").value == "2"
    assert state.source_state("c") is None


def test_sources_are_replaced_and_disabled():
    def push(name, **options):
        read = ReadStepCsv(schema=("a INT",), **options)
        return AddPushSource(name, read=read, merge=MergeStrategyAppend())

    state = state_after(SEED, push("a"), push("b"), push("a", header=True))
    assert state.push_sources == (push("a", header=True), push("b"))
    state = state_after(SEED, push("a"), push("b"), DisablePushSource("a"))
    assert state.push_sources == (push("b"),)
    assert state_after(SEED, POLL).polling_source == POLL
    assert state_after(SEED, POLL, DisablePollingSource()).polling_source is None


def test_the_vocabulary_is_filled_with_defaults():
    vocab = state_after(SEED, SetVocab(event_time_column="date")).vocab
    assert (vocab.event_time_column, vocab.offset_column) == ("date", "offset")


def test_an_unknown_event_makes_the_chain_opaque_for_good():
    state = state_after(SEED, UnknownEvent(14, "variant 14"), SetInfo("x"))
    assert "block 1" in state.opaque
    assert "variant 14" in state.opaque
    assert state.info == SetInfo("x")
    assert state.num_blocks == 3


def test_a_chain_of_endless_sources_becomes_opaque_and_not_endless(monkeypatch):
    monkeypatch.setattr("odf.metadata.chain.MAX_SOURCES", 2)
    pushes = [AddPushSource(n, read=ReadStepCsv(), merge=MergeStrategyAppend()) for n in "abc"]
    assert state_after(SEED, *pushes[:2]).opaque is None
    state = state_after(SEED, *pushes)
    assert (len(state.push_sources), state.opaque) == (2, "more than 2 push sources")
    states = [AddData(new_source_state=SourceState(n, "k", "v")) for n in "abc"]
    state = state_after(SEED, *states)
    assert (len(state.source_states), state.opaque) == (2, "more than 2 sources have a state")


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(blocks(), max_size=6), st.integers(0, 6))
def test_a_prefix_and_the_rest_make_the_whole_and_states_can_be_kept(chain, cut):
    hashed = [(hash_of(str(index)), block) for index, block in enumerate(chain)]
    prefix = fold(hashed[:cut])
    kept = from_json(ChainState, json.loads(json.dumps(to_json(prefix))))
    assert kept == prefix
    assert fold(hashed[cut:], kept) == fold(hashed)

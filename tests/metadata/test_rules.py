"""Every rule of the chain: one block that breaks it, and that nothing else is refused."""

import re
from dataclasses import replace

import pytest

from odf.errors import RuleViolationError
from odf.metadata.arrow_schema import ArrowField, ArrowType, encode_schema
from odf.metadata.chain import EMPTY_STATE, apply
from odf.metadata.identity import DatasetID
from odf.metadata.model import (
    AddData,
    AddPushSource,
    AttachmentsEmbedded,
    Checkpoint,
    DataField,
    DataSchema,
    DatasetKind,
    DataSlice,
    DataTypeInt64,
    DataTypeOption,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    ExecuteTransformInput,
    FetchStepEthereumLogs,
    FetchStepUrl,
    MergeStrategyAppend,
    MetadataBlock,
    OffsetInterval,
    ReadStepCsv,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SourceState,
    SqlQueryStep,
    TransformInput,
    TransformSql,
    UnknownEvent,
)
from odf.metadata.multiformats import Multihash
from odf.metadata.rules import RULES, broken_rules, check_block, violation_error
from odf.metadata.timestamp import Timestamp

INT = ArrowType("Int", bit_width=64, signed=True)
TEXT = ArrowType("Utf8")
IN1, IN2 = DatasetID(b"1" * 32), DatasetID(b"2" * 32)


def h(text):
    return Multihash.sha3_256(text.encode())


def ts(seconds):
    return Timestamp(seconds * 10**9)


def rows(start, end):
    return DataSlice(h("l"), h("p"), OffsetInterval(start, end), 100)


def schema(*fields):
    return SetDataSchema(encode_schema(fields))


def sql(*queries, **options):
    return TransformSql("spark", queries=tuple(queries), **options)


def transform(*ids, **options):
    inputs = tuple(TransformInput(str(i), f"in{n}") for n, i in enumerate(ids))
    return replace(SetTransform(inputs, sql(SqlQueryStep(query="select 1"))), **options)


def add(name, **options):
    options = {"read": ReadStepCsv(schema=("a INT",)), "merge": MergeStrategyAppend(), **options}
    return AddPushSource(name, **options)


def poll(**options):
    options = {
        "fetch": FetchStepUrl("x"),
        "read": ReadStepCsv(),
        "merge": MergeStrategyAppend(),
        **options,
    }
    return SetPollingSource(**options)


def inp(dataset_id, prev=None, new=None, prev_offset=None, new_offset=None):
    return ExecuteTransformInput(
        dataset_id,
        h(prev) if prev else None,
        h(new) if new else None,
        prev_offset,
        new_offset,
    )


ROOT = Seed(DatasetID(bytes(32)), DatasetKind.ROOT)
DERIVATIVE = Seed(DatasetID(bytes(32)), DatasetKind.DERIVATIVE)
SCHEMA = schema(ArrowField("a", INT))
DATA = AddData(new_data=rows(0, 9), new_watermark=ts(5))
ROOT_WITH_DATA = (ROOT, SCHEMA, DATA)
EXEC = ExecuteTransform(
    (inp(IN1, new="a", new_offset=9), inp(IN2, new="b")),
    new_data=rows(0, 4),
    new_watermark=ts(5),
)
DERIVED = (DERIVATIVE, transform(IN1, IN2), SCHEMA, EXEC)


def next_exec(*inputs, **options):
    if not inputs:
        inputs = (inp(IN1, "a", "c", 9, 12), inp(IN2, "b"))
    options = {"prev_offset": 4, "new_watermark": ts(6), **options}
    return ExecuteTransform(tuple(inputs), **options)


def chain(*events):
    state = EMPTY_STATE
    for number, event in enumerate(events):
        block = MetadataBlock(ts(number), state.head, number, event)
        state = apply(state, block, h(f"block {number}"))
    return state


def following(state, event, **header):
    block = MetadataBlock(
        (state.system_time or ts(0)), state.head, state.sequence_number + 1, event
    )
    return replace(block, **header)


ACCEPTED = {
    "seed": ((), ROOT),
    "first data": ((ROOT, SCHEMA), DATA),
    "more data": (
        ROOT_WITH_DATA,
        AddData(prev_offset=9, new_data=rows(10, 10), new_watermark=ts(5)),
    ),
    "watermark only": (ROOT_WITH_DATA, AddData(prev_offset=9, new_watermark=ts(6))),
    "watermark before any schema": ((ROOT,), AddData(new_watermark=ts(1))),
    "source state only": (
        ROOT_WITH_DATA,
        AddData(
            prev_offset=9, new_watermark=ts(5), new_source_state=SourceState("s", "odf/etag", "1")
        ),
    ),
    "first transform": (DERIVED[:-1], EXEC),
    "next transform": (DERIVED, next_exec(new_data=rows(5, 6))),
    "only inputs advance": (DERIVED, next_exec(new_watermark=ts(5))),
    "changed inputs start from nothing": (
        (*DERIVED, transform(IN2, ROOT_ID := DatasetID(b"3" * 32))),
        next_exec(inp(IN2, "b"), inp(ROOT_ID, new="x"), new_data=rows(5, 5)),
    ),
    "polling after push was disabled": ((ROOT, add("a"), DisablePushSource("a")), poll()),
    "push after polling was disabled": ((ROOT, poll(), DisablePollingSource()), add("a")),
    "another description": ((ROOT, SetInfo("x")), SetInfo("y")),
    "an added nullable column": (
        ROOT_WITH_DATA,
        schema(ArrowField("b", TEXT), ArrowField("a", ArrowType("Int", bit_width=64, signed=True))),
    ),
    "the schema in its new form": (
        ROOT_WITH_DATA,
        SetDataSchema(data_schema=DataSchema((DataField("a", DataTypeInt64()),))),
    ),
    "a vocabulary before data": ((ROOT,), SetVocab(event_time_column="date")),
    "the event after an equal time": ((ROOT,), SetInfo("x")),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case):
    events, event = ACCEPTED[case]
    state = chain(*events)
    check_block(state, following(state, event))


def rejected(rule, events, event, match, **header):
    return pytest.param(rule, events, event, match, header, id=f"{rule}: {match}")


CP = Checkpoint(h("cp"), 5)
REJECTED = [
    rejected("seed-first", (), SetInfo("x"), "expected Seed, got SetInfo"),
    rejected("seed-once", (ROOT,), ROOT, "one seed"),
    rejected("previous-block", (ROOT,), SetInfo("x"), "previous block", prev_block_hash=h("other")),
    rejected("previous-block", (), ROOT, "no previous block", prev_block_hash=h("other")),
    rejected("sequence-start", (), ROOT, "expected 0, got 7", sequence_number=7),
    rejected("sequence-step", (ROOT,), SetInfo("x"), "expected 1, got 3", sequence_number=3),
    rejected("time-monotonic", (ROOT, SetInfo("x")), SetInfo("y"), "goes back", system_time=ts(0)),
    rejected("opaque-chain", (ROOT, UnknownEvent(14, "why")), SetInfo("y"), "block 1 has .*14"),
    rejected("unknown-event", (ROOT,), UnknownEvent(14, "why"), "why"),
    rejected("event-fits-kind", (DERIVATIVE, SCHEMA), DATA, "belongs to root"),
    rejected("event-fits-kind", (ROOT,), transform(IN1), "belongs to derivative"),
    rejected(
        "watermark-monotonic",
        ROOT_WITH_DATA,
        AddData(prev_offset=9, new_data=rows(10, 10)),
        "no watermark",
    ),
    rejected(
        "watermark-monotonic",
        ROOT_WITH_DATA,
        AddData(prev_offset=9, new_data=rows(10, 10), new_watermark=ts(4)),
        "05Z or later",
    ),
    rejected("empty-add-data", (ROOT,), AddData(), "empty"),
    rejected("empty-execute-transform", DERIVED[:-1], ExecuteTransform(EXEC.query_inputs), "empty"),
    rejected("offset-start", (ROOT, SCHEMA), AddData(new_data=rows(1, 2)), "expected 0, got 1"),
    rejected(
        "offset-start",
        ROOT_WITH_DATA,
        AddData(prev_offset=9, new_data=rows(9, 12), new_watermark=ts(5)),
        "expected 10, got 9",
    ),
    rejected(
        "offset-order",
        ROOT_WITH_DATA,
        AddData(prev_offset=9, new_data=rows(10, 9), new_watermark=ts(5)),
        "ends before it starts",
    ),
    rejected(
        "offset-continuity",
        ROOT_WITH_DATA,
        AddData(prev_offset=8, new_data=rows(9, 9), new_watermark=ts(5)),
        "expected 9, got 8",
    ),
    rejected("offset-first", (ROOT, SCHEMA), AddData(prev_offset=8, new_data=rows(9, 9)), "got 8"),
    rejected(
        "checkpoint-continuity",
        ROOT_WITH_DATA,
        AddData(prev_checkpoint=h("cp"), prev_offset=9, new_data=rows(10, 10), new_watermark=ts(5)),
        "expected no checkpoint",
    ),
    rejected(
        "checkpoint-continuity",
        (ROOT, AddData(new_checkpoint=CP)),
        AddData(new_watermark=ts(1)),
        "got no checkpoint",
    ),
    rejected("schema-first", (ROOT,), DATA, "none in the chain"),
    rejected(
        "add-data-advances",
        ROOT_WITH_DATA,
        AddData(prev_offset=9, new_watermark=ts(5)),
        "changes nothing",
    ),
    rejected(
        "execute-transform-advances",
        DERIVED,
        next_exec(inp(IN1, "a", None, 9), inp(IN2, "b"), new_watermark=ts(5)),
        "changes nothing",
    ),
    rejected("transform-declared", (DERIVATIVE, SCHEMA), EXEC, "no transform"),
    rejected(
        "transform-inputs",
        DERIVED,
        next_exec(inp(IN2, "b"), inp(IN1, "a", "c", 9, 12)),
        "not those of the transform",
    ),
    rejected(
        "input-block-interval",
        DERIVED,
        next_exec(inp(IN1, "a", "a", 9), inp(IN2, "b")),
        "empty interval of blocks",
    ),
    rejected(
        "input-offset-interval",
        DERIVED,
        next_exec(inp(IN1, "a", "c", 9, 9), inp(IN2, "b")),
        "empty interval of offsets",
    ),
    rejected(
        "input-block-continuity",
        DERIVED,
        next_exec(inp(IN1, "x", "c", 9, 12), inp(IN2, "b")),
        "does not go on",
    ),
    rejected(
        "input-offset-continuity",
        DERIVED,
        next_exec(inp(IN1, "a", "c", 8, 12), inp(IN2, "b")),
        "expected 9, got 8",
    ),
    rejected(
        "input-offsets-need-blocks",
        DERIVED,
        next_exec(inp(IN1, "a", None, 9, 12), inp(IN2, "b")),
        "without a block",
    ),
    rejected(
        "input-first",
        DERIVED[:-1],
        ExecuteTransform((inp(IN1, "x", "y"), inp(IN2)), new_data=rows(0, 1)),
        "never read before",
    ),
    rejected(
        "input-offsets-ordered",
        DERIVED,
        next_exec(inp(IN1, "a", "c", 9, 3), inp(IN2, "b")),
        "backwards",
    ),
    rejected("transform-has-inputs", (DERIVATIVE,), transform(), "without inputs"),
    rejected(
        "transform-resolved",
        (DERIVATIVE,),
        transform(inputs=(TransformInput("foo", "foo"),)),
        "got foo",
    ),
    rejected(
        "transform-resolved",
        (DERIVATIVE,),
        transform(inputs=(TransformInput(str(IN1)),)),
        "no alias",
    ),
    rejected("transform-inputs-differ", (DERIVATIVE,), transform(IN1, IN1), "2 of did:odf"),
    rejected(
        "transform-aliases-differ",
        (DERIVATIVE,),
        transform(inputs=(TransformInput(str(IN1), "A"), TransformInput(str(IN2), "a"))),
        "one alias",
    ),
    rejected("transform-not-self", (DERIVATIVE,), transform(DERIVATIVE.dataset_id), "own input"),
    rejected(
        "queries-normalized",
        (DERIVATIVE,),
        transform(
            IN1, transform=TransformSql("spark", query="x", queries=(SqlQueryStep(query="x"),))
        ),
        "`query`",
    ),
    rejected("queries-present", (DERIVATIVE,), transform(IN1, transform=sql()), "without queries"),
    rejected("queries-present", (ROOT,), poll(preprocess=TransformSql("spark")), "without queries"),
    rejected(
        "last-query-unnamed",
        (DERIVATIVE,),
        transform(IN1, transform=sql(SqlQueryStep(query="x", alias="a"))),
        "got a",
    ),
    rejected(
        "other-queries-named",
        (ROOT,),
        add("p", preprocess=sql(SqlQueryStep(query="x"), SqlQueryStep(query="y"))),
        "query 1 has no alias",
    ),
    rejected("push-source-schema", (ROOT,), add("p", read=ReadStepCsv()), "push source 'p'"),
    rejected("push-excludes-polling", (ROOT, poll()), add("p"), "polling source"),
    rejected("polling-excludes-push", (ROOT, add("p")), poll(), "got p"),
    rejected("definition-changes", (ROOT, SetInfo("x")), SetInfo("x"), "changes nothing"),
    rejected("definition-changes", (ROOT, add("p")), add("p"), "changes nothing"),
    rejected("definition-changes", (ROOT, poll()), poll(), "changes nothing"),
    rejected("definition-changes", (ROOT, SetVocab("o")), SetVocab("o"), "changes nothing"),
    rejected(
        "definition-changes",
        (ROOT, SetLicense("a", "b", website_url="c")),
        SetLicense("a", "b", website_url="c"),
        "changes nothing",
    ),
    rejected(
        "definition-changes",
        (ROOT, SetAttachments(AttachmentsEmbedded(()))),
        SetAttachments(AttachmentsEmbedded(())),
        "changes nothing",
    ),
    rejected("definition-changes", DERIVED, transform(IN1, IN2), "changes nothing"),
    rejected("definition-changes", ROOT_WITH_DATA, SCHEMA, "changes nothing"),
    rejected(
        "one-read-schema",
        (ROOT,),
        poll(read=ReadStepCsv(schema=("a INT",), data_schema=DataSchema(()))),
        "two schemas",
    ),
    rejected("ethereum-chain-named", (ROOT,), poll(fetch=FetchStepEthereumLogs()), "neither"),
    rejected("disable-active-source", (ROOT,), DisablePollingSource(), "nothing to disable"),
    rejected("disable-active-source", (ROOT, add("p")), DisablePushSource("q"), "got p"),
    rejected("vocabulary-before-data", ROOT_WITH_DATA, SetVocab("o"), "already in use"),
    rejected("schema-readable", (ROOT,), SetDataSchema(b"nonsense"), "cannot be read"),
    rejected("schema-readable", (ROOT,), SetDataSchema(), "no columns"),
    rejected(
        "schema-evolution", ROOT_WITH_DATA, schema(ArrowField("b", TEXT)), "column a .* is gone"
    ),
    rejected(
        "schema-evolution",
        ROOT_WITH_DATA,
        schema(ArrowField("a", TEXT)),
        "column a was Int.64. and is Utf8",
    ),
    rejected(
        "schema-evolution",
        ROOT_WITH_DATA,
        schema(ArrowField("a", INT, nullable=False)),
        "was nullable and is NOT NULL",
    ),
    rejected(
        "schema-evolution",
        ROOT_WITH_DATA,
        schema(ArrowField("a", INT), ArrowField("b", TEXT, nullable=False)),
        "older rows lack it",
    ),
    rejected(
        "schema-evolution",
        ROOT_WITH_DATA,
        SetDataSchema(data_schema=DataSchema((DataField("b", DataTypeOption(DataTypeInt64())),))),
        "is gone",
    ),
]


@pytest.mark.parametrize(("rule", "events", "event", "match", "header"), REJECTED)
def test_rejected(rule, events, event, match, header):
    state = chain(*events)
    block = following(state, event, **header)
    broken = {one.name: (one, why) for one, why in broken_rules(state, block)}
    assert rule in broken
    rule_broken, violation = broken[rule]
    error = violation_error(rule_broken, block, violation)
    assert re.search(match, error.message)
    assert error.message.startswith(f"block {block.sequence_number} (")
    assert {"rule", "block", "expected", "got"} <= error.details.keys()
    with pytest.raises(RuleViolationError):
        check_block(state, block)
    if rule_broken.ours:
        # A finding in what others made, no reason to refuse it.
        assert rule not in {one.name for one, _ in broken_rules(state, block, strict=False)}
    else:
        with pytest.raises(RuleViolationError):
            check_block(state, block, strict=False)


def test_every_rule_has_a_case_and_one_name():
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert set(names) == {case.values[0] for case in REJECTED}


def test_only_the_links_are_checked_in_a_chain_that_is_not_understood():
    state = chain(ROOT, UnknownEvent(14, "why"))
    check_block(state, following(state, AddData()), strict=False)
    with pytest.raises(RuleViolationError, match="sequence-step"):
        check_block(state, following(state, AddData(), sequence_number=9), strict=False)


def test_the_same_input_twice_is_continued_by_place():
    """Chains of old releases may name a dataset twice."""
    state = chain(
        DERIVATIVE,
        transform(IN1, IN1),
        SCHEMA,
        ExecuteTransform((inp(IN1, new="a"), inp(IN1, new="b")), new_data=rows(0, 4)),
    )
    good = ExecuteTransform((inp(IN1, "a", "c"), inp(IN1, "b")), prev_offset=4, new_data=rows(5, 5))
    check_block(state, following(state, good), strict=False)
    swapped = replace(good, query_inputs=(inp(IN1, "b", "c"), inp(IN1, "a")))
    with pytest.raises(RuleViolationError, match="input-block-continuity"):
        check_block(state, following(state, swapped), strict=False)

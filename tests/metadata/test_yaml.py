"""Manifests: exact text, strict reading, messages that say where."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odf.errors import ManifestError, OdfError
from odf.metadata import model
from odf.metadata.model import (
    DatasetKind,
    DatasetSnapshot,
    FetchStep,
    MergeStrategyAppend,
    MetadataBlock,
    MetadataEvent,
    ReadStep,
    ReadStepCsv,
    ReadStepNdJson,
    SetDataSchema,
    SetInfo,
    SetVocab,
    SourceOrdering,
    SourceState,
    TransformSql,
)
from odf.metadata.yaml import dump_yaml, from_json, load_manifests, load_yaml, to_json
from tests.metadata.model_strategies import EVENT_TYPES, aliases, blocks, tables

slow = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


def problems_of(text, source="f.yaml"):
    with pytest.raises(ManifestError) as caught:
        load_manifests(text, source)
    return list(caught.value.problems)


def manifest(*lines):
    head = ["kind: DatasetSnapshot", "version: 1", "content:", "  name: a", "  kind: Root"]
    return "\n".join([*head, "  metadata:", *("  " + line for line in lines)]) + "\n"


def test_yaml_vectors(vectors):
    for vector in vectors("yaml")["vectors"]:
        cls = getattr(model, vector["type"])
        if "expectError" in vector:
            with pytest.raises(ManifestError, match="unsupported version 1"):
                load_yaml(cls, vector["yaml"], "v.yaml")
        else:
            assert dump_yaml(load_yaml(cls, vector["yaml"], "v.yaml")) == vector["yaml"]


def test_spelling_vectors(vectors):
    for vector in vectors("yaml")["spellings"]["vectors"]:
        cls = getattr(model, vector["type"])
        canonical = vector["accepts"][0]
        value = load_yaml(cls, vector["writes"], "v.yaml")
        for spelling in vector["accepts"]:
            text = vector["writes"].replace(canonical, spelling)
            assert load_yaml(cls, text, "v.yaml") == value
        assert dump_yaml(value).strip() == vector["writes"].strip()
        for spelling in vector["rejects"]:
            text = vector["writes"].replace(canonical, spelling)
            with pytest.raises(ManifestError, match=f"did you mean {canonical}"):
                load_yaml(cls, text, "v.yaml")


def test_block_json_of_the_vectors_comes_back(vectors):
    for vector in vectors("metadata-blocks")["vectors"]:
        block = from_json(MetadataBlock, vector["block"])
        assert to_json(block) == vector["block"]


@slow
@given(blocks())
def test_blocks_come_back_from_yaml_and_json(block):
    assert load_yaml(MetadataBlock, dump_yaml(block), "x") == block
    assert from_json(MetadataBlock, json.loads(json.dumps(to_json(block)))) == block


@slow
@given(
    st.builds(
        DatasetSnapshot,
        aliases,
        st.sampled_from(DatasetKind),
        st.lists(st.one_of([tables(cls) for cls in EVENT_TYPES]), max_size=3).map(tuple),
    )
)
def test_snapshots_come_back_from_yaml(snapshot):
    assert load_manifests(dump_yaml(snapshot), "x") == (snapshot,)


@slow
@given(st.one_of([tables(cls) for cls in EVENT_TYPES]))
def test_events_come_back_alone(event):
    assert from_json(MetadataEvent, to_json(event)) == event
    assert from_json(type(event), to_json(event)) == event


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=30))
def test_any_text_survives_as_a_description(text):
    event = SetInfo(description=text, keywords=(text,))
    assert load_yaml(MetadataEvent, dump_yaml(event), "x") == event


@given(st.text("ab:-[]{}&*!|>'\"%@`#,? \n\t\\0~<", max_size=40) | st.text(max_size=30))
def test_any_text_is_a_manifest_or_an_error(text):
    with pytest.raises(OdfError):
        load_manifests(text, "x.yaml")


def test_bare_words_stay_what_was_typed():
    text = manifest(
        "- kind: SetInfo",
        "  description: no",
        "  keywords: [yes, 1.10, 2020-01-01, 0x10, 1_000, 12:30:00, on, =]",
    )
    (snapshot,) = load_manifests(text, "f.yaml")
    keywords = ("yes", "1.10", "2020-01-01", "0x10", "1_000", "12:30:00", "on", "=")
    assert snapshot.metadata == (SetInfo("no", keywords),)


def test_order_of_the_manifest_and_comments_do_not_matter():
    content = "content: {name: A/b, metadata: [], kind: root}"
    text = f"# about\n---\n{content}\nversion: 1\nkind: DatasetSnapshot\n...\n"
    (snapshot,) = load_manifests(text, "f.yaml")
    assert str(snapshot.name) == "A/b"
    assert snapshot.kind is DatasetKind.ROOT


def test_several_documents():
    assert (
        len(
            load_manifests(
                manifest("- kind: SetInfo") + "---\n" + manifest("- kind: SetInfo") + "---\n",
                "f.yaml",
            )
        )
        == 2
    )


def test_all_problems_at_once_with_their_places():
    text = manifest(
        "- kind: SetPollingSource",
        "  fetch: {kind: url, ulr: x}",
        "  read:",
        "    kind: Csv",
        "    header: yes",
        "    Separator: ;",
        "  merge:",
        "    kind: ledgr",
        "- kind: SetVocab",
        "  event_time_column: a",
    )
    assert [line.removeprefix("f.yaml:") for line in problems_of(text)] == [
        "8:24: content.metadata[0].fetch.ulr: FetchStepUrl has no such field; did you mean url?",
        "8:12: content.metadata[0].fetch: `url` is missing",
        (
            "11:15: content.metadata[0].read.header: wanted true or false, got 'yes'; "
            "did you mean true?"
        ),
        (
            "12:7: content.metadata[0].read.Separator: ReadStepCsv has no such field; "
            "did you mean separator?"
        ),
        "14:13: content.metadata[0].merge.kind: 'ledgr' is not known; did you mean Ledger?",
        (
            "16:5: content.metadata[1].event_time_column: SetVocab has no such field; "
            "did you mean eventTimeColumn?"
        ),
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["- kind: SetInfo", "  kind: SetInfo"], "8:5: content.metadata[0].kind: the key is given"),
        (["- description: x"], "`kind` is missing; wanted one of AddData, "),
        (["- kind: SetFoo"], "'SetFoo' is not known; did you mean SetInfo?"),
        (["- kind: Whatever"], "wanted one of AddData"),
        (["- [x]"], "wanted fields of one MetadataEvent, with its `kind`, got a list"),
        (["- kind: SetInfo", "  keywords: a"], "keywords: wanted a list, got 'a'"),
        (["- kind: SetInfo", "  keywords: [a, ~]"], "keywords[1]: has no value; quote it"),
        (["- kind: SetInfo", "  description: null"], "description: has no value; quote it"),
        (["- kind: SetInfo", "  description:"], "description: has no value; quote it"),
        (["- kind: SetInfo", "  description: {a: b}"], "wanted text, got a mapping"),
        (["- kind: SetInfo", "  <<: {a: b}"], "merge keys"),
        (["- kind: SetInfo", "  ? [a]", "  : b"], "a key must be a plain word"),
        (["- kind: SetInfo", "  description: !foo x"], "the tag !foo is not supported"),
        (["- kind: AddData", "  prevOffset: '1'"], "a whole number, got the quoted text '1'"),
        (["- kind: AddData", "  prevOffset: 1_0"], "a whole number, got '1_0'"),
        (["- kind: AddData", "  prevOffset: -1"], "-1 is out of range, wanted 0 to"),
        (["- kind: AddData", "  newWatermark: 2020-01-01"], "'2020-01-01' is not a time"),
        (["- kind: AddData", "  prevCheckpoint: f12"], "'f12' is not a multihash"),
        (["- kind: SetDataSchema", "  schema: '?'"], "'?' is not base64"),
        (["- kind: SetTransform", "  inputs: [a]", "  transform: {kind: sql, engine: s}"],
         "inputs[0]: wanted fields of TransformInput, got 'a'; write `- datasetRef: NAME`"),
        (["- kind: SetTransform", "  inputs: [{datasetRef: a_b}]",
          "  transform: {kind: sql, engine: s}"], "datasetRef: 'a_b' is not a dataset alias"),
        (["- kind: SetTransform", "  inputs: [{id: a}]", "  transform: {kind: sql, engine: s}"],
         "inputs[0].id: is a field of old manifests; write `datasetRef`"),
    ],
)  # fmt: skip
def test_problems(lines, expected):
    assert any(expected in line for line in problems_of(manifest(*lines)))


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ("kind: JsonLines", "'JsonLines' is a kind of old manifests; write `kind: NdJson`"),
        ("kind: csv, enforceSchema: true", "enforceSchema: is a field of old manifests"),
        ("kind: ndjson, multiLine: true", "write `kind: Json`"),
    ],
)
def test_old_read_steps_are_recognised(read, expected):
    with pytest.raises(ManifestError) as caught:
        load_yaml(ReadStep, "{" + read + "}", "f.yaml")
    assert expected in caught.value.message


def test_a_manifest_of_the_first_days_is_recognised():
    text = """\
apiVersion: 1
kind: DatasetSnapshot
content:
  id: com.example
  source:
    kind: root
  vocab:
    eventTimeColumn: date
"""
    lines = problems_of(text)
    assert any("apiVersion" in line and "version: 1" in line for line in lines)
    assert any("content.id" in line and "write `name`" in line for line in lines)
    assert any("content.source" in line and "SetPollingSource" in line for line in lines)
    assert any("content.vocab" in line and "SetVocab" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f.yaml:1:1: no manifest here"),
        ("# nothing\n---\n", "f.yaml:1:1: no manifest here"),
        ("- a", "wanted a manifest with `kind`"),
        ("a: [", "f.yaml:1:5: not YAML"),
        ("a:\n\tb: 1", "f.yaml:2:1: not YAML: tabs cannot indent"),
        ('a:\n  "\x01"', "f.yaml:2:4: not YAML: character U+0001"),
        ("kind: MetadataBlock", "'MetadataBlock' is another kind of manifest; wanted"),
        ("kind: Dataset", "write `kind: DatasetSnapshot`"),
        ("kind: datasetSnapshot", "did you mean DatasetSnapshot"),
        ("version: 1", "`kind` is missing"),
        (
            "kind: DatasetSnapshot\nversion: 2\ncontent: x",
            "unsupported version 2 (supported: 1..1)",
        ),
        ("kind: DatasetSnapshot\ncontent: x", "`version` is missing"),
        ("kind: DatasetSnapshot\nversion: 1", "`content` is missing"),
        ("kind: DatasetSnapshot\nversion: 1\nfoo: 1\ncontent: x", "foo: a manifest has no such"),
        ("[" * 5000, "nested more than 64 deep"),
        ("a: &a [*a]", "nested more than 64 deep"),
    ],
)
def test_files_that_are_no_manifest(text, expected):
    assert any(expected in line for line in problems_of(text))


def test_aliases_are_read_and_bombs_are_not():
    good = manifest("- kind: SetInfo", "  keywords: &k [a, b]", "- kind: SetInfo", "  keywords: *k")
    assert load_manifests(good, "f.yaml")[0].metadata[1].keywords == ("a", "b")
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert any("aliases counted" in line for line in problems_of("\n".join(levels)))


def test_a_file_of_very_many_values_is_not_read_to_its_end():
    (problem,) = problems_of("[a,b]: 1\n" + "- a\n" * 10, "f.yaml")
    assert "not YAML" in problem
    (problem,) = problems_of("- a\n" * 200_000)
    assert problem.startswith("f.yaml:100000:3: not YAML: more than 100000 values")


def test_byte_order_marks_and_other_line_ends_are_read():
    text = "\ufeff" + manifest("- kind: SetInfo", "  description: a b").replace("\n", "\r\n")
    assert load_manifests(text, "f.yaml")[0].metadata == (SetInfo("a b"),)


def test_a_file_that_is_too_large_is_not_parsed():
    assert "at most" in problems_of("#" + "x" * (5 << 20))[0]


def test_a_file_full_of_problems_is_cut_short():
    lines = problems_of(manifest("- kind: SetInfo", *(f"  foo{n}: 1" for n in range(500))))
    assert len(lines) == 101
    assert "not listed" in lines[-1]


def test_both_forms_of_a_schema():
    ddl = load_yaml(ReadStep, "{kind: Csv, schema: [a INT]}", "x")
    assert ddl == ReadStepCsv(schema=("a INT",))
    assert load_yaml(ReadStep, "{kind: Csv, ddlSchema: [a INT]}", "x") == ddl
    both = load_yaml(
        ReadStep,
        "{kind: Csv, ddlSchema: [a INT], schema: {fields: [{name: a, type: Int32}]}}",
        "x",
    )
    assert both.schema == ("a INT",)
    assert both.data_schema.fields[0].name == "a"
    assert set(to_json(both)) == {"kind", "ddlSchema", "schema"}
    assert from_json(SetDataSchema, {"rawArrowSchema": "AAAA"}) == SetDataSchema(b"\0\0\0")
    with pytest.raises(ManifestError, match="the same as `schema`"):
        load_yaml(ReadStep, "{kind: Csv, ddlSchema: [a INT], schema: [b INT]}", "x")


def test_the_short_form_of_unions():
    assert load_yaml(model.MergeStrategy, "append", "x") == MergeStrategyAppend()
    assert load_yaml(ReadStep, "NdJson", "x") == ReadStepNdJson()
    with pytest.raises(ManifestError, match="`url` is missing"):
        load_yaml(FetchStep, "Url", "x")


def test_the_kind_of_a_source_state_is_an_ordinary_field():
    state = SourceState("a", "odf/etag", "x")
    assert to_json(state) == {"sourceName": "a", "kind": "odf/etag", "value": "x"}
    assert from_json(SourceState, to_json(state)) == state


def test_json_nulls_are_absent_fields():
    assert from_json(SetInfo, {"description": None, "keywords": None}) == SetInfo()
    with pytest.raises(ManifestError, match="engine: has no value"):
        from_json(TransformSql, {"engine": None})


@pytest.mark.parametrize(
    "value",
    [1.5, float("nan"), {1: 2}, object(), [[]] * 3, {"eventTimeColumn": 10**5000, "x": 1}],
    ids=lambda value: type(value).__name__,
)
def test_json_of_another_shape_is_an_error(value):
    with pytest.raises(ManifestError):
        from_json(SetVocab, value, "reply")


def test_deep_json_is_an_error():
    value = []
    for _ in range(100):
        value = [value]
    with pytest.raises(ManifestError, match="64 deep"):
        from_json(SetInfo, {"keywords": value})


def test_enums_stand_alone():
    assert load_yaml(SourceOrdering, "byName", "x") is SourceOrdering.BY_NAME
    assert dump_yaml(SourceOrdering.BY_EVENT_TIME) == "ByEventTime\n"


@pytest.mark.parametrize(
    "text", ["...\n", "a\n...\n", "---", "\u2028\n", "a\r\n", "\ufeff", "a \nb"]
)
def test_awkward_texts_come_back(text):
    assert load_yaml(MetadataEvent, dump_yaml(SetInfo(text)), "x") == SetInfo(text)


def test_canonical_text_of_awkward_values():
    event = SetInfo("two\nlines\n", ("true", "12", "1e5", "null", "", " x ", "a: b", "#", "é😀"))
    assert dump_yaml(event) == (
        "kind: SetInfo\ndescription: |\n  two\n  lines\nkeywords:\n- 'true'\n- '12'\n- '1e5'\n"
        "- 'null'\n- ''\n- ' x '\n- 'a: b'\n- '#'\n- é😀\n"
    )


def test_characters_in_two_escaped_halves_are_whole():
    """Manifests may be JSON, which has no other escape for them."""
    text = json.dumps({"kind": "SetInfo", "description": "é😀", "keywords": ["😀"]})
    assert "\\ud83d\\ude00" in text
    assert load_yaml(MetadataEvent, text, "m.json") == SetInfo("é😀", ("😀",))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('kind: SetInfo\ndescription: "a\\ud800b"\n', "2:14: description"),
        ('kind: SetInfo\nkeywords: ["\\udfff"]\n', "2:12: keywords[0]"),
        ('kind: AddData\nextra: {attributes: {a: "\\ud800"}}\n', "2:8: extra"),
    ],
)
def test_half_a_character_is_no_text(text, path):
    """An escape can write it, UTF-8 cannot: it would fail only when the block is written."""
    with pytest.raises(ManifestError, match="half a character") as caught:
        load_yaml(MetadataEvent, text, "m.yaml")
    assert path in caught.value.message


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "SetInfo", "description": 1},
        {"kind": "SetInfo", "keywords": [False]},
        {"kind": "AddData", "newWatermark": 1},
        {"kind": "AddData", "prevCheckpoint": 1},
        {"kind": 1},
    ],
)
def test_numbers_of_json_are_not_text(event):
    with pytest.raises(ManifestError, match="wanted"):
        from_json(MetadataEvent, event)

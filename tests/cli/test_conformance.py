"""`odf conformance`: the golden vectors through the command, and input that is no case at all."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from odf.cli.commands import conformance as command_module
from odf.coordinator.conformance import KINDS
from odf.limits import MAX_CONFORMANCE_CASE_SIZE
from tests.conftest import PROJECT


@pytest.fixture
def answers(run):
    """Put cases through the command; returns one answer for each."""

    def ask(kind: str, *cases: Any) -> list[dict[str, Any]]:
        ran = run("conformance", kind, stdin="".join(json.dumps(case) + "\n" for case in cases))
        assert (ran.code, ran.err) == (0, "")
        return [json.loads(line) for line in ran.out.splitlines()]

    return ask


@pytest.fixture
def result(answers):
    """The result of one case that has one."""

    def ask(kind: str, **case: Any) -> Any:
        (found,) = answers(kind, {"id": "x", **case})
        assert found["ok"], found["error"]
        assert found["id"] == "x"
        assert set(found) == {"id", "ok", "result"}
        return found["result"]

    return ask


@pytest.fixture
def error(answers):
    """The message of one case that fails."""

    def ask(kind: str, **case: Any) -> str:
        (found,) = answers(kind, {"id": "x", **case})
        assert found == {"id": "x", "ok": False, "error": found.get("error")}
        assert isinstance(found["error"], str)
        return found["error"]

    return ask


def test_the_command_knows_all_kinds():
    assert command_module._KINDS == KINDS


# -- The vectors -------------------------------------------------------------------------------


def test_block_vectors(vectors, answers):
    blocks = vectors("metadata-blocks")["vectors"]
    cases = [
        {"id": [vector["name"], layout], "block": vector["block"], "layout": layout}
        for vector in blocks
        for layout in (2, 3)
    ]
    for case, found in zip(cases, answers("block-encode", *cases), strict=True):
        vector = next(v for v in blocks if v["name"] == case["id"][0])[f"v{case['layout']}"]
        assert found == {
            "id": case["id"],
            "ok": True,
            "result": {"bytesHex": vector["bytesHex"], "hash": vector["multihash"]},
        }
        (back,) = answers("block-decode", {"bytesHex": vector["bytesHex"]})
        assert back["result"] == {
            "block": case["block"],
            "layout": case["layout"],
            "hash": vector["multihash"],
        }


def test_layout_2_is_the_default(vectors, result):
    vector = vectors("metadata-blocks")["vectors"][0]
    assert result("block-encode", block=vector["block"])["hash"] == vector["v2"]["multihash"]


def test_yaml_vectors(vectors, answers):
    documents = vectors("yaml")["vectors"]
    found = answers("yaml", *({"type": v["type"], "yaml": v["yaml"]} for v in documents))
    for vector, one in zip(documents, found, strict=True):
        assert one["ok"] == ("expectError" not in vector)
        if one["ok"]:
            assert one["result"]["yaml"] == vector["yaml"]
            assert as_texts(one["result"]["json"]) == vector["parsedAsStrings"]
        else:
            assert "unsupported version 1" in one["error"]


def as_texts(value: Any) -> Any:
    match value:
        case dict():
            return {key: as_texts(item) for key, item in value.items()}
        case list():
            return [as_texts(item) for item in value]
        case str():
            return value
    return json.dumps(value)


def test_spelling_vectors(vectors, answers):
    for vector in vectors("yaml")["spellings"]["vectors"]:
        canonical = vector["accepts"][0]
        cases = [
            {"type": vector["type"], "yaml": vector["writes"].replace(canonical, spelling)}
            for spelling in (*vector["accepts"], *vector["rejects"])
        ]
        found = answers("yaml", *cases)
        accepted = found[: len(vector["accepts"])]
        assert {one["result"]["yaml"].strip() for one in accepted} == {vector["writes"].strip()}
        assert [one["ok"] for one in found[len(accepted) :]] == [False] * len(vector["rejects"])


def test_multihash_vectors(vectors, result):
    from odf.metadata.multiformats import Multihash

    for vector in vectors("multiformats")["multihash"]:
        texts = [vector[key] for key in ("base16", "base58btc") if key in vector]
        for text in (*texts, *vector.get("equal", ())):
            found = result("multihash", text=text)
            assert found["code"] == 0x16
            assert len(found["digestHex"]) == 64
            assert {key: vector.get(key, found[key]) for key in ("base16", "base58btc")} == {
                key: found[key] for key in ("base16", "base58btc")
            }
            if "inputUtf8" in vector:
                digest = Multihash.sha3_256(vector["inputUtf8"].encode()).digest.hex()
                assert found["digestHex"] == digest


def test_did_vectors(vectors, result, error):
    data = vectors("multiformats")
    whole = data["didOdf"][0]
    for text in (whole["didOdf"], whole["acceptsBase58Form"]):
        assert result("did", text=text) == {
            "base16": whole["didOdf"],
            "didKey": whole["didKey"],
            "publicKeyHex": whole["didOdf"].removeprefix("did:odf:fed01"),
        }
    texts = data["didOdf"][1]["notEqual"]
    assert len({result("did", text=text)["publicKeyHex"] for text in texts}) == len(texts)
    for vector in data["seededEd25519"]["vectors"]:
        text = vector.get("didOdf") or vector["didOdfBase58"]
        found = result("did", text=text)
        assert found["base16"] == vector.get("didOdf", found["base16"])
        if "base58btc" in vector:
            assert found["didKey"] == "did:key:" + vector["base58btc"]
    for vector in data["invalidDidKey"]:
        assert "not a dataset identifier" in error("did", text=vector["value"])


def test_reference_vectors(vectors, answers):
    data = vectors("dataset-refs")
    for vector in data["parse"]:
        repos = {"repos": ["repo"]} if vector.get("ifPrefixIsRepo") else {}
        case = {"target": vector["target"], "text": vector["input"], **repos}
        (found,) = answers("ref", case)
        expected = vector["expect"]
        assert found["ok"] == (expected is not None), vector
        if isinstance(expected, str):
            expected = {"name": expected}
        assert found.get("result") == expected


def test_pattern_vectors(vectors, answers):
    data = vectors("dataset-refs")
    for vector in data["namePatternGrammar"]["vectors"]:
        (found,) = answers("ref", {"target": "DatasetNamePattern", "text": vector["input"]})
        assert found["ok"] == (vector["tail"] == ""), vector
    for key, target in (
        ("refPattern", "DatasetRefPattern"),
        ("refAnyPattern", "DatasetRefAnyPattern"),
    ):
        for vector in data[key]:
            (found,) = answers("ref", {"target": target, "text": vector["input"]})
            assert found.get("result") == vector["expect"], vector
    for text in data["specExamples"]["valid"]:
        (found,) = answers("ref", {"target": "DatasetRefAny", "text": text})
        assert found["ok"]


def test_what_repositories_are_known_decides(result):
    case = {"target": "DatasetRefAny", "text": "a/b"}
    assert result("ref", **case)["variant"] == "AmbiguousAlias"
    assert result("ref", **case, repos=None)["variant"] == "AmbiguousAlias"
    local = {"variant": "LocalAlias", "account": "a", "name": "b"}
    assert result("ref", **case, repos=[]) == local
    assert result("ref", **case, repos=["A"])["variant"] == "RemoteAlias"


def test_ddl_vectors(vectors, result):
    for vector in vectors("ddl")["vectors"]:
        found = result("ddl", ddl=vector["ddl"], forceUtc=vector["forceUtc"])
        keys = ("name", "arrow", "nullable")
        assert found == {"columns": [{key: c[key] for key in keys} for c in vector["columns"]]}


def test_types_are_as_declared(result):
    def of(force_utc: bool) -> list[str]:
        found = result(
            "ddl", ddl=["a TIMESTAMP, b TIMESTAMP(3) WITH TIME ZONE"], forceUtc=force_utc
        )
        return [column["arrow"] for column in found["columns"]]

    assert of(True) == ["timestamp[ns, tz=UTC]", "timestamp[ms, tz=UTC]"]
    assert of(False) == ["timestamp[ns]", "timestamp[ms, tz=UTC]"]


def test_digest_vectors(vectors, result):
    data = vectors("arrow-digest")
    for golden in data["golden"]:
        assert result("digest", data=golden["data"]) == {"text": golden["text"]}
    for derived in data["derivedRecords"]:
        assert result("digest", data=derived) == {"text": derived["logicalHash"]}
    for relation in data["recordRelations"]:
        equal = {result("digest", data=one)["text"] for one in relation["equal"]}
        other = {result("digest", data=one)["text"] for one in relation["notEqual"]}
        assert equal == {"f9680c00120" + relation["derivedSha3_256"]}
        assert not equal & other


@pytest.mark.parametrize("group", ["arrayRelations", "derivedArrays"])
def test_every_type_of_the_digest_vectors_can_be_said(vectors, result, group):
    found = set()
    for vector in vectors("arrow-digest")[group]:
        for one in vector.get("equal", [vector]):
            column = {"name": "a", "type": one["type"], "nullable": True}
            found.add(
                result("digest", data={"schema": [column], "batches": [[one["values"]]]})["text"]
            )
    assert len(found) == len(vectors("arrow-digest")[group])


# -- The stream --------------------------------------------------------------------------------

BAD_LINES = [
    b"",
    b"nonsense",
    b"[]",
    b'"text"',
    b"null",
    b"{",
    b"\xff\xfe",
    b'{"text": NaN}',
    b'{"text": "a", "text": "b"}',
    b'{"id": 1e999}',
    b"[" * 100_000,
    b'{"id": ' + b"9" * 5000 + b"}",
    b"\0",
]


def test_bad_lines_are_answered_and_the_rest_goes_on(run):
    good = b'{"id": "last", "text": "did:odf:fed01' + b"00" * 32 + b'"}'
    ran = run("conformance", "did", stdin=b"\n".join([*BAD_LINES, good]))
    assert (ran.code, ran.err) == (0, "")
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert len(found) == len(BAD_LINES) + 1
    for one in found[:-1]:
        assert one == {"id": None, "ok": False, "error": one["error"]}
        assert "internal" not in one["error"]
    assert (found[-1]["id"], found[-1]["ok"]) == ("last", True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "merge"])
@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [1], {"a": 1}, True, "\ud800"])
def test_fields_of_the_wrong_type_are_answered(answers, kind, value):
    names = (
        "block",
        "bytesHex",
        "type",
        "yaml",
        "text",
        "target",
        "repos",
        "ddl",
        "data",
        "layout",
    )
    case = {"id": "\ud800", **dict.fromkeys(names, value)}
    cases = [case, {**case, "type": "MetadataBlock", "target": "DatasetRefAny"}, {"id": "\ud800"}]
    for found in answers(kind, *cases):
        assert found["id"] == "\ud800"
        assert found["ok"] or "internal" not in found["error"]
        assert not found["ok"] or kind in ("ddl", "ref")


def test_a_line_that_is_too_long_is_one_bad_case(run):
    long = b'{"id": 1, "text": "' + b"x" * MAX_CONFORMANCE_CASE_SIZE + b'"}'
    ran = run("conformance", "multihash", stdin=long + b"\n{}\n")
    found = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["ok"] for one in found] == [False, False]
    assert "larger than" in found[0]["error"]


def test_each_answer_comes_before_the_next_case_is_asked(environment, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "odf", "conformance", "multihash"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        cwd=tmp_path,
    ) as process:
        assert process.stdin
        assert process.stdout
        for number in range(3):
            process.stdin.write(json.dumps({"id": number}) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait(60) == 0
    assert list(tmp_path.rglob(".odf")) == []


def test_no_input_is_no_output(run):
    assert run("conformance", "ref", stdin=b"").out == ""


def test_an_unknown_kind_is_a_usage_error(run):
    ran = run("conformance", "nothing", stdin=b"{}\n")
    assert (ran.code, ran.out) == (2, "")
    assert "block-encode" in ran.err


@pytest.mark.parametrize("kind", ["multihash", "yaml", "block-decode"])
def test_metadata_kinds_load_no_arrow_and_no_engine(environment, tmp_path, kind):
    script = (
        "import sys\n"
        "from odf.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        "sys.stderr.write(repr({'pyarrow', 'grpc', 'cryptography'} & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, "conformance", kind],
        input="{}\n",
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        cwd=tmp_path,
        check=False,
    )
    assert '"ok": false' in ran.stdout
    assert ran.stderr == "set()"


# -- Values ------------------------------------------------------------------------------------


def test_what_0_34_1_can_say_has_its_names(result):
    block = {
        "systemTime": "2024-05-01T12:00:00Z",
        "sequenceNumber": 1,
        "prevBlockHash": "f1620" + "00" * 32,
        "event": {"kind": "setDataSchema", "rawArrowSchema": "AAAA"},
    }
    data = result("block-encode", block=block)["bytesHex"]
    event = result("block-decode", bytesHex=data)["block"]["event"]
    assert event == {"kind": "SetDataSchema", "schema": "AAAA"}


def test_a_variant_is_read_by_its_own_name(result, error):
    found = result("yaml", type="ReadStepCsv", yaml="{kind: csv, header: true}")
    assert found == {"json": {"kind": "Csv", "header": True}, "yaml": "kind: Csv\nheader: true\n"}
    assert "wanted ReadStepCsv" in error("yaml", type="ReadStepCsv", yaml="kind: Json")
    assert "no type of the metadata" in error("yaml", type="DatasetID", yaml="x")


@pytest.mark.parametrize(
    ("column", "values", "problem"),
    [
        ("int9", [], "no type"),
        ({"list": "int9"}, [], "no type"),
        ({"decimal128": [99, 1]}, [], "no type"),
        ({"timestamp": "weeks"}, [], "no type"),
        ("int8", [300], "no int8"),
        ("int8", ["1"], "no int8"),
        ("int8", [True], "no int8"),
        ("bool", [1], "no bool"),
        ("binary", ["0"], "no binary"),
        ({"decimal128": [4, 2]}, ["abc"], "no decimal"),
        ({"list": "int8"}, [1], "no list"),
        ({"struct": [{"name": "a", "type": "int8"}]}, [1], "no struct"),
        ("string", 1, "are a list"),
        ({"duration": "ms"}, [1], "duration"),
    ],
)
def test_values_that_are_not_of_their_type(error, column, values, problem):
    schema = [{"name": "a", "type": column, "nullable": True}]
    message = error("digest", data={"schema": schema, "batches": [[values]]})
    assert problem in message
    assert "internal" not in message


def test_batches_have_the_columns_of_the_schema(error):
    schema = [{"name": name, "type": "int8"} for name in "ab"]
    assert "2 columns" in error("digest", data={"schema": schema, "batches": [[[1]]]})
    assert "lengths" in error("digest", data={"schema": schema, "batches": [[[1], []]]})


def test_numbers_and_texts_of_times_are_the_same_value(result):
    def of(dtype: object, value: object) -> str:
        schema = [{"name": "a", "type": dtype}]
        return result("digest", data={"schema": schema, "batches": [[[value]]]})["text"]

    assert of({"timestamp": "ms", "tz": "UTC"}, 1000) == of(
        {"timestamp": "ms", "tz": "UTC"}, "1970-01-01T00:00:01Z"
    )
    assert of("date32", 366) == of("date32", "1971-01-02")
    assert of("float64", "-Infinity") != of("float64", "NaN")


def documented(kind):
    """The example of a kind in the documentation."""
    text = (PROJECT / "docs" / "conformance.md").read_text()
    section = text.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
    assert section, f"{kind} is not documented"
    example = section.partition("```json\n")[2].partition("```")[0]
    return json.loads(example) if example else None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "merge"])
def test_the_documentation_has_examples_that_work(answers, kind):
    case = documented(kind)
    if case is not None:
        (found,) = answers(kind, case)
        assert found["ok"], found


# -- Found by hostile probing ------------------------------------------------------------------

KEY = "ed01" + "00" * 31 + "01"
DID = f"did:odf:f{KEY}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DID, {"variant": "ID", "repo": None, "id": DID}),
        (f"repo/{DID}", {"variant": "ID", "repo": "repo", "id": DID}),
        ("r/a", {"variant": "Alias", "repo": "r", "account": None, "name": "a"}),
        ("r/o/a", {"variant": "Alias", "repo": "r", "account": "o", "name": "a"}),
        ("odf+https://h/p", {"variant": "Url", "url": "odf+https://h/p"}),
    ],
)
def test_references_to_elsewhere(result, text, expected):
    assert result("ref", target="DatasetRefRemote", text=text) == expected


def test_a_bare_name_is_not_elsewhere(error):
    assert "elsewhere" in error("ref", target="DatasetRefRemote", text="a")


@pytest.mark.parametrize("layout", [2.0, True, "2", None, 1, 4])
def test_layouts_that_do_not_exist(error, layout):
    block = {
        "systemTime": "2020-01-01T00:00:00Z",
        "sequenceNumber": 0,
        "event": {"kind": "SetInfo"},
    }
    assert "wanted 2 or 3" in error("block-encode", block=block, layout=layout)


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "SetInfo", "description": 1},
        {"kind": "SetInfo", "keywords": [True]},
        {"kind": "AddData", "newWatermark": 2020},
        {"kind": "DisablePushSource", "sourceName": 1.5},
        {"kind": 8},
        {"kind": "AddData", "prevOffset": "1"},
        {"kind": "AddData", "prevCheckpoint": 1},
    ],
)
def test_json_is_as_typed_as_it_looks(error, event):
    block = {"systemTime": "2020-01-01T00:00:00Z", "sequenceNumber": 0, "event": event}
    assert "wanted" in error("block-encode", block=block)


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        ("ddl", {"ddl": ['"\ud800" INT']}),
        ("digest", {"data": {"schema": [{"name": "\udfff", "type": "int8"}], "batches": []}}),
        ("ref", {"target": "DatasetRefAny", "text": "http://\ud800"}),
        ("yaml", {"type": "ReadStep", "yaml": "\ud800"}),
    ],
)
def test_half_a_surrogate_pair_is_no_text(error, kind, case):
    assert "half a surrogate pair" in error(kind, **case)


def test_a_whole_surrogate_pair_is_a_character(result):
    assert result("ddl", ddl=['"\U0001f642" INT'])["columns"][0]["name"] == "\U0001f642"


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int64", 1.5),
        ("int64", 1.0),
        ("int8", True),
        ("float64", False),
        ({"decimal128": [5, 2]}, True),
        ({"list": "int8"}, [1.5]),
        ("date32", 1.5),
        ({"dictionary": "int32"}, 1.5),
    ],
)
def test_no_value_becomes_another_one(error, dtype, value):
    data = {"schema": [{"name": "c", "type": dtype}], "batches": [[[value]]]}
    assert "a value is no" in error("digest", data=data)


def digest_of(result, dtype, *batches):
    data = {"schema": [{"name": "c", "type": dtype}], "batches": [[values] for values in batches]}
    return result("digest", data=data)["text"]


@pytest.mark.parametrize(
    ("dtype", "same", "values"),
    [
        ("string", ["large_string", "string_view", {"dictionary": "string"}], ["a", None, ""]),
        ("binary", ["large_binary", "binary_view"], ["00ff", None, ""]),
        ({"fixed_binary": 2}, ["binary"], ["00ff", None]),
        ("int32", [{"dictionary": "int32"}], [1, 1, None]),
        (
            {"list": "string"},
            [{"list": "string_view"}, {"list": {"dictionary": "string"}}],
            [["a"]],
        ),
        (
            {"list": "int8"},
            [{"large_list": "int8"}, {"fixed_list": "int8", "size": 2}],
            [[1, None]],
        ),
        ({"timestamp": "ms"}, [{"timestamp": "ms", "tz": ""}], [0, None]),
        (
            {"struct": [{"name": "a", "type": {"dictionary": "string"}}]},
            [{"struct": [{"name": "a", "type": "string", "nullable": False}]}],
            [{"a": "x"}, None],
        ),
    ],
)
def test_forms_of_a_type_hash_alike(result, dtype, same, values):
    wanted = digest_of(result, dtype, values)
    assert digest_of(result, dtype, *([value] for value in values)) == wanted
    assert [digest_of(result, other, values) for other in same] == [wanted] * len(same)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("float64", [0.0]), ("float64", [-0.0])),
        (({"timestamp": "ms", "tz": "UTC"}, [0]), ({"timestamp": "ms", "tz": "+00:00"}, [0])),
        (({"timestamp": "ms", "tz": "UTC"}, [0]), ({"timestamp": "ms"}, [0])),
        (({"decimal128": [5, 2]}, ["1.5"]), ({"decimal64": [5, 2]}, ["1.5"])),
        (({"decimal128": [5, 2]}, ["1.5"]), ({"decimal128": [6, 2]}, ["1.5"])),
        (({"time": "us"}, [1]), ({"time": "ns"}, [1])),
        (("string", [""]), ("string", [None])),
        (({"list": "int8"}, [[]]), ({"list": "int8"}, [None])),
        (("date32", [0]), ("date64", [0])),
        (("int32", [1]), ("uint32", [1])),
    ],
)
def test_what_differs_hashes_apart(result, first, second):
    assert digest_of(result, *first) != digest_of(result, *second)

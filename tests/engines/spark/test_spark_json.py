"""Files that are one JSON document with an array of rows somewhere in it."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.data.datatypes import describe
from odf.data.ddl import parse_ddl
from odf.engines.host.engine import SourceFile
from odf.engines.spark.readers import json_records
from odf.engines.spark.readers.json_format import json_columns
from odf.engines.spark.readers.json_infer import Seen, inferred_columns
from odf.engines.spark.readers.json_records import DocumentError, document_records
from odf.engines.spark.readers.json_text import DECODER, compact
from odf.engines.spark.readers.json_values import ColumnReader
from odf.engines.spark.readers.known import KnownColumns
from odf.engines.spark.readers.time_formats import DEFAULT_FORMATS
from odf.errors import BadInputError
from odf.metadata.model import MergeStrategyLedger, MergeStrategySnapshot, ReadStepJson
from tests.engines.spark.spark_ingestor import Ingestor

Make = Callable[..., Ingestor]


def records(text: str, *path: str) -> list[Any]:
    return [record.value for record in document_records(io.StringIO(text), path, None)]


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
flat = scalars | st.lists(scalars, max_size=3)
objects = st.dictionaries(st.text(max_size=3), flat, max_size=3)
values = flat | objects | st.lists(objects, max_size=2)


@given(
    rows=st.lists(values, max_size=5),
    beside=values,
    indent=st.sampled_from([None, 1]),
    size=st.integers(1, 40),
)
def test_any_document_is_read_through_any_window(
    rows: list[Any], beside: Any, indent: int | None, size: int
) -> None:
    text = json.dumps({"x": beside, "a": {"y": beside, "b": rows}, "z": beside}, indent=indent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_records, "_WINDOW", size)
        assert records(text, "a", "b") == rows
        assert records(json.dumps(rows, indent=indent)) == rows
        with pytest.raises(DocumentError):
            records(text[:-1], "a", "b")


@given(rows=st.lists(st.dictionaries(st.sampled_from("abcd"), values)), cut=st.integers(0, 5))
def test_inferred_columns_do_not_depend_on_how_rows_are_shared_out(
    rows: list[dict[str, Any]], cut: int
) -> None:
    whole, parts = Seen(), [Seen(), Seen(), Seen()]
    for number, row in enumerate(rows):
        whole.add_row(row)
        parts[(number + cut) % 3].add_row(row)
    joined = Seen()
    for part in parts:
        joined.join(part)
    assert inferred_columns(joined, KnownColumns()) == inferred_columns(whole, KnownColumns())


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("180.0", "180.0"), ("1.50", "1.5"), ("-0.0", "-0.0"), ("1e2", "100.0"), ("7", "7"),
        ("1e15", "1000000000000000.0"), ("1e16", "1e16"), ("1.25e21", "1.25e21"),
        ("0.00001", "0.00001"), ("0.0000012", "1.2e-6"), ("1e-7", "1e-7"),
        ("-123456.789", "-123456.789"), ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744073709552e19"), ("-16.067132663642447",) * 2,
        ('{"b":"é\\u0001","a":[null,true]}', '{"a":[null,true],"b":"é\\u0001"}'),
    ],
)  # fmt: skip
def test_compact_text(written: str, wanted: str) -> None:
    assert compact(DECODER.decode(written)) == wanted


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_compact_numbers_keep_their_value(number: float) -> None:
    assert float(compact(DECODER.decode(repr(number)))) == number


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ('{"a":{"c":1}}', "a.b", "the element `a.b` is not found: `a` has `c`"),
        ('{"a":[]}', "x", "the element `x` is not found: the root has `a`"),
        ('{"a":7}', "a.b", "the element `a.b` is not found: `a` is a number, not an object"),
        ('{"a":"t"}', "a", "the element `a` is not an array: it is a text"),
        ('{"a":[]}', "", "the root is not an array: it is an object"),
        ("", "", "the root is not an array: it is nothing at all"),
        ('[{"a":1},\n{"a":2}', "", "not JSON at line 2: it ends early; wanted a comma"),
        ('[{"a":1}\n\n{"a":2}]', "", "not JSON at line 3: wanted a comma or the end of the array"),
        ('[{"a":1}] x', "", "there is something after the end"),
        ('[{"a":tru}]', "", "not JSON at line 1: Expecting value"),
        ('{"a":[],"a":[]}', "a", "`a` occurs twice"),
        ("[" * 100_000, "", "nested too deeply"),
        ("[NaN]", "", "NaN is not JSON"),
    ],
)
def test_documents_that_are_refused(text: str, path: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        records(text, *filter(None, path.split(".")))
    assert message in caught.value.message


@pytest.mark.parametrize("number", ["1e99999999999999999999", "1e-999999999", "1e400", "1" * 50])
def test_numbers_of_any_size_are_no_integers(number: str) -> None:
    columns = json_columns(parse_ddl(["i BIGINT", "d DECIMAL(5,2)"]))
    for column in columns:
        reader = ColumnReader(column, DEFAULT_FORMATS)
        array, bad = reader.read([DECODER.decode(number), DECODER.decode("1.0")])
        is_small = column.name == "d" and "e-" in number
        assert [value.row for value in bad] == ([] if is_small else [0])
        assert array[1].as_py() == 1


@pytest.mark.spark
def test_objects_with_too_many_members_are_refused(ingestor: Make) -> None:
    row = {f"m{n}": n for n in range(10_001)}
    with pytest.raises(BadInputError, match="more than 10000 different members") as caught:
        ingestor(read=ReadStepJson()).text(json.dumps([row]))
    assert "`schema`" in (caught.value.hint or "")
    nested = {"k": 1, "map": {str(n): n for n in range(1_001)}}
    (found,) = ingestor(read=ReadStepJson()).text(json.dumps([nested])).rows
    assert json.loads(found["map"]) == nested["map"]


def test_values_that_are_nested_deeply() -> None:
    deep = DECODER.decode("[" * 450 + "1" + "]" * 450)
    seen = Seen()
    seen.add_row({"a": deep, "b": [[1]]})
    (a, b) = inferred_columns(seen, KnownColumns())
    assert describe(b.type) == "ARRAY<ARRAY<BIGINT>>"
    assert describe(a.type).count("ARRAY") == 10
    column, *_ = json_columns(parse_ddl(["s STRING"]))
    (array, bad) = ColumnReader(column, DEFAULT_FORMATS).read([deep, "\ud800", "x"])
    assert array[2].as_py() == "x"
    assert bad[-1].said == "`s`: it is not Unicode text"


@pytest.mark.spark
def test_rows_below_a_path(ingestor: Make) -> None:
    text = '{"meta":{"a":[9]},"a":{"b":{"c":[{"k":1,"v":"x"},{"k":2}]},"z":null}}\n'
    found = ingestor(read=ReadStepJson(sub_path="a.b.c", schema=("v STRING", "k INT"))).text(text)
    assert [(row["k"], row["v"]) for row in found.rows] == [(1, "x"), (2, None)]
    found = ingestor(read=ReadStepJson(encoding="utf-16")).data(
        '[{"b":1,"a":"é"}]'.encode("utf-16"), '[{"b":2.5}]'.encode("utf-16")
    )
    assert [(row["a"], row["b"]) for row in found.rows] == [("é", 1.0), (None, 2.5)]
    found = ingestor(read=ReadStepJson()).text("[]")
    assert found.rows == []


@pytest.mark.spark
def test_errors_name_file_and_element(ingestor: Make) -> None:
    with pytest.raises(BadInputError) as caught:
        ingestor(read=ReadStepJson(schema=("k INT",))).text('[{"k":1},{"k":"x"},[1]]')
    assert caught.value.problems == (
        "data.csv: element 2: column `k`: 'x' is not an INT",
        "data.csv: element 3: wanted an object, got an array",
    )
    with pytest.raises(BadInputError, match=r"data\.csv: .* `rows` is not found") as caught:
        ingestor(read=ReadStepJson(sub_path="rows")).text('{"data":[]}')
    assert caught.value.reason == "json"
    assert caught.value.hint == "check `subPath`"
    dataset = ingestor(read=ReadStepJson(), merge=MergeStrategyLedger(("k",)))
    with pytest.raises(BadInputError, match=r"data\.csv: element 2: key column `k` is null"):
        dataset.text('[{"k":1},{"k":null}]')


@pytest.mark.spark
@pytest.mark.parametrize("declared", [True, False])
def test_vulnerabilities(declared: bool, ingestor: Make, real_data: Callable[[str], Path]) -> None:
    folder = real_data("a3-snapshot-kev-json")
    schema = ("cveID STRING", "vendorProject STRING", "product STRING",
        "vulnerabilityName STRING", "dateAdded DATE", "shortDescription STRING",
        "requiredAction STRING", "dueDate DATE", "knownRansomwareCampaignUse STRING",
        "notes STRING", "cwes ARRAY<STRING>") if declared else None  # fmt: skip
    dataset = ingestor(
        read=ReadStepJson(sub_path="vulnerabilities", schema=schema),
        merge=MergeStrategySnapshot(("cveID",)),
    )
    for step in json.loads((folder / "expected.json").read_text())["transitions"]:
        path = folder / step["to"]
        found = dataset.files([SourceFile(str(path), path.name)])
        assert found.ops == (
            step["inserted"], step["removed"], step["changed"], step["changed"]
        )  # fmt: skip


@pytest.mark.spark
def test_github_events(ingestor: Make, real_data: Callable[[str], Path]) -> None:
    folder = real_data("d1")
    rows = [
        ingestor(read=ReadStepJson(schema=("id STRING", "payload STRING", "public BOOLEAN")))
        .files([SourceFile(str(folder / "github_events.json"), "github_events.json")])
        .rows
    ]
    assert len(rows[0]) == 30
    events = json.loads((folder / "github_events.json").read_text())
    assert [json.loads(row["payload"]) for row in rows[0]] == [e["payload"] for e in events]

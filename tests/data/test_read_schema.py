"""Columns that read steps declare: as DDL, and in the structured form of later releases."""

import pytest

from odf.data.ddl import parse_ddl
from odf.data.read_schema import declared_columns
from odf.errors import BadInputError
from odf.metadata.model import DatasetSnapshot, ReadStep, SetPollingSource
from odf.metadata.yaml import load_manifests

MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: data
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: Url, url: "file:a.csv"}}
      read: {read}
      merge: {{kind: Append}}
"""


def read_step(read: str) -> ReadStep:
    snapshot: DatasetSnapshot = load_manifests(MANIFEST.format(read=read), "m.yaml")[0]
    (source,) = snapshot.metadata
    assert isinstance(source, SetPollingSource)
    return source.read


def structured(kind: str, *fields: str) -> ReadStep:
    return read_step(f"{{kind: {kind}, schema: {{fields: [{', '.join(fields)}]}}}}")


@pytest.mark.parametrize(
    ("written", "ddl"),
    [
        ("Int64", "BIGINT NOT NULL"),
        ("{kind: Int32}", "INT NOT NULL"),
        ("{kind: Option, inner: {kind: UInt8}}", "TINYINT UNSIGNED"),
        ("{kind: Option, inner: {kind: Option, inner: {kind: Bool}}}", "BOOLEAN"),
        ("{kind: Option, inner: {kind: Date}}", "DATE"),
        ("{kind: Option, inner: {kind: Float64}}", "DOUBLE"),
        ("{kind: Option, inner: {kind: String}}", "STRING"),
        ("{kind: Option, inner: {kind: Binary}}", "BINARY"),
        ("{kind: Option, inner: {kind: Time}}", "TIME"),
        ("{kind: Option, inner: {kind: Timestamp}}", "TIMESTAMP(3)"),
        (
            "{kind: Option, inner: {kind: Timestamp, unit: Nanosecond, timezone: Europe/Rome}}",
            "TIMESTAMP",
        ),
        ("{kind: Decimal, precision: 18, scale: 4}", "DECIMAL(18,4) NOT NULL"),
        (
            "{kind: Option, inner: {kind: List, itemType: {kind: Int16}}}",
            "ARRAY<SMALLINT NOT NULL>",
        ),
        (
            "{kind: Option, inner: {kind: Struct, fields: [{name: x, type: Float32}]}}",
            "STRUCT<x FLOAT NOT NULL>",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["Csv", "NdJson", "Parquet", "EsriShapefile"])
def test_both_forms_mean_the_same(kind: str, written: str, ddl: str) -> None:
    found = declared_columns(structured(kind, f"{{name: c, type: {written}}}"))
    assert found == parse_ddl([f"c {ddl}"])


@pytest.mark.parametrize("read", ["{kind: Csv}", "{kind: Csv, schema: []}", "{kind: Parquet}"])
def test_nothing_is_declared(read: str) -> None:
    assert declared_columns(read_step(read)) is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (["{name: a, type: {kind: Duration}}"], "column a: Duration is a type that no source"),
        (["{name: a, type: {kind: Null}}"], "column a: Null is a type"),
        (["{name: a, type: {kind: Int8}}", "{name: A, type: {kind: Int8}}"], "by case only"),
        (["{name: '', type: {kind: Int8}}"], "it has no name"),
        (["{name: a, type: {kind: Decimal, precision: 99, scale: 0}}"], "no decimal has 99"),
        (
            ["{name: a, type: {kind: Struct, fields: [{name: b, type: {kind: Float16}}]}}"],
            r"column a\.b: Float16",
        ),
    ],
)
def test_what_cannot_be_read_is_named(fields: list[str], said: str) -> None:
    with pytest.raises(BadInputError, match=said) as refused:
        declared_columns(structured("Csv", *fields))
    assert refused.value.hint

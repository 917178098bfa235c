"""GeoJSON: properties and geometries of features as rows."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from odf.engines.host.engine import SourceFile
from odf.errors import BadInputError
from odf.metadata.model import (
    MergeStrategyAppend,
    MergeStrategySnapshot,
    ReadStepGeoJson,
    ReadStepNdGeoJson,
)
from tests.engines.spark.spark_ingestor import Ingestor

pytestmark = pytest.mark.spark

Make = Callable[..., Ingestor]

POINT = '{"type":"Point","coordinates":[1, 2.50,-1e-7]}'
FEATURES = [
    f'{{"type":"Feature","id":7,"properties":{{"name":"a","n":1}},"geometry":{POINT}}}',
    '{"geometry":null,"type":"Feature","properties":null}',
]


def test_both_forms(ingestor: Make) -> None:
    collection = f'{{"features":[{",".join(FEATURES)}],"bbox":[0],"type":"FeatureCollection"}}'
    whole = ingestor(read=ReadStepGeoJson()).text(collection)
    assert [row["geometry"] for row in whole.rows] == [
        '{"coordinates":[1,2.5,-1e-7],"type":"Point"}',
        None,
    ]
    assert [(row["name"], row["n"]) for row in whole.rows] == [("a", 1), (None, None)]
    assert list(whole.rows[0])[4:] == ["geometry", "n", "name"]
    read = ReadStepNdGeoJson(schema=("n STRING", "geometry STRING"))
    lines = ingestor(read=read).text("\n".join(FEATURES))
    assert [row["n"] for row in lines.rows] == ["1", None]
    assert [row["geometry"] for row in lines.rows] == [row["geometry"] for row in whole.rows]


@pytest.mark.parametrize(
    ("lines", "text", "message"),
    [
        (False, '{"type":"Feature","features":[]}', 'not a FeatureCollection: its `type` is "Feat'),
        (False, '{"type":"FeatureCollection"}', "the element `features` is not found"),
        (False, "[]", "the element `features` is not found: the root is an array"),
        (False, '{"features":[{"type":"Point"}],"type":"FeatureCollection"}',
         "data.csv: feature 1: wanted a GeoJSON Feature, got `type` 'Point'"),
        (True, '{"type":"Feature","properties":[]}', "data.csv:1: `properties` of a Feature is an"),
        (True, '{"type":"Feature","properties":{"geometry":1}}', "has the name `geometry`"),
    ],
)  # fmt: skip
def test_refusals(lines: bool, text: str, message: str, ingestor: Make) -> None:
    read = ReadStepNdGeoJson() if lines else ReadStepGeoJson()
    with pytest.raises(BadInputError) as caught:
        ingestor(read=read).text(text)
    assert message in caught.value.message


def test_countries_are_the_same_in_both_forms(
    ingestor: Make, real_data: Callable[[str], Path]
) -> None:
    folder = real_data("c1")
    found = []
    for read, suffix in ((ReadStepGeoJson(), "geojson"), (ReadStepNdGeoJson(), "ndgeojson")):
        path = folder / f"ne_110m_admin_0_countries.{suffix}"
        dataset = ingestor(read=read, merge=MergeStrategyAppend())
        found.append(dataset.files([SourceFile(str(path), path.name)]))
    whole, lines = found
    assert len(whole.rows) == 177
    assert whole.rows == lines.rows
    assert whole.schema == lines.schema
    assert len(whole.schema) == 4 + 94 + 1
    originals = (folder / "ne_110m_admin_0_countries.ndgeojson").read_text().splitlines()
    for row, line in zip(whole.rows, originals, strict=True):
        feature = json.loads(line)
        assert json.loads(row["geometry"]) == feature["geometry"]
        assert row["NAME_AR"] == feature["properties"]["NAME_AR"]
        assert row["UN_A3"] == str(feature["properties"]["UN_A3"])


def test_another_edition_of_the_countries(ingestor: Make, real_data: Callable[[str], Path]) -> None:
    folder = real_data("c1")
    schema = ("NAME STRING", "POP_EST BIGINT", "ISO_A3 STRING", "geometry STRING")
    dataset = ingestor(read=ReadStepGeoJson(schema=schema), merge=MergeStrategySnapshot(("NAME",)))
    first = folder / "ne_110m_admin_0_countries-martynafford.json"
    assert dataset.files([SourceFile(str(first), first.name)]).ops == (177, 0, 0, 0)
    second = folder / "ne_110m_admin_0_countries.geojson"
    found = dataset.files([SourceFile(str(second), second.name)])
    names = [
        {f["properties"]["NAME"] for f in json.loads(path.read_text())["features"]}
        for path in (first, second)
    ]
    assert found.ops[0] == len(names[1] - names[0])
    assert found.ops[1] == len(names[0] - names[1])

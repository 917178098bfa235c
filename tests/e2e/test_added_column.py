"""A derivative of an input that gained a column, made before and after it did."""

from collections.abc import Callable
from typing import Any

import pytest

from odf.errors import InvalidQueryError
from odf.repo.files import slice_paths
from tests.e2e.conftest import Person

pytestmark = pytest.mark.spark

ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: source
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: 'files/*.csv', order: ByName}
      read: {kind: Csv, header: true, schema: [event_time TIMESTAMP, v INT%s]}
      merge: {kind: Append}
"""
DERIVATIVE = """
kind: DatasetSnapshot
version: 1
content:
  name: %s
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: source}]
      transform: {kind: Sql, engine: spark, query: "%s"}
"""


def put(person: Person, name: str, text: str) -> None:
    folder = person.root / "files"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


@pytest.fixture
def grown(person: Person) -> Callable[[], Person]:
    """A source with rows; called, it gains a column and a row that has it."""
    put(person, "1.csv", "event_time,v\n2024-01-01T00:00:00Z,1\n")
    person.add(ROOT % "")
    person.pull("source")

    def grow() -> Person:
        from odf.coordinator.add import AddOptions, Existing, ManifestText, add_manifests

        with person.context("add") as ctx:
            options = AddOptions(existing=Existing.UPDATE)
            add_manifests(ctx, [ManifestText("m.yaml", ROOT % ", w INT")], options=options)
        put(person, "2.csv", "event_time,v,w\n2024-01-02T00:00:00Z,2,20\n")
        person.pull("source")
        return person

    return grow


def rows(person: Person, name: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    found = []
    for path in slice_paths(person.workspace.resolve(name).dataset):
        for row in pq.read_table(path).to_pylist():
            del row["offset"], row["op"], row["system_time"], row["event_time"]
            found.append(row)
    return found


def test_one_made_later_reads_older_rows_with_null(grown: Callable[[], Person]) -> None:
    person = grown()
    person.add(DERIVATIVE % ("derived", "SELECT event_time, v, w FROM source"))
    assert dict(person.pull("derived").records) == {"+A": 2}
    assert rows(person, "derived") == [{"v": 1, "w": None}, {"v": 2, "w": 20}]
    assert person.verify("derived").datasets[0].complete


def test_one_made_before_gains_it_as_nullable(person: Person, grown: Callable[[], Person]) -> None:
    star = "SELECT * EXCEPT (offset, op, system_time) FROM source"
    person.add(DERIVATIVE % ("derived", star))
    person.pull("derived")
    grown()
    assert dict(person.pull("derived").records) == {"+A": 1}
    assert rows(person, "derived") == [{"v": 1}, {"v": 2, "w": 20}]
    assert person.verify("derived").datasets[0].complete


def test_a_query_that_is_wrong_with_every_schema_is_refused(
    grown: Callable[[], Person],
) -> None:
    person = grown()
    with pytest.raises(InvalidQueryError, match="nothing"):
        person.add(DERIVATIVE % ("derived", "SELECT event_time, nothing FROM source"))

"""An aggregate over a dataset whose rows are corrected and retracted, through the whole path."""

from typing import Any

import pyarrow.parquet as pq
import pytest

from odf.repo.files import slice_paths
from tests.e2e.conftest import Person

pytestmark = pytest.mark.spark

ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: registry
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: Url, url: 'file://registry.csv'}
      read: {kind: Csv, header: true, schema: [id INT, town STRING, size INT]}
      merge: {kind: Snapshot, primaryKey: [id]}
"""
SMALLEST = """
kind: DatasetSnapshot
version: 1
content:
  name: smallest
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{datasetRef: registry}]
      transform:
        kind: Sql
        engine: spark
        query: >
          SELECT max(event_time) AS event_time, town, min(size) AS smallest
          FROM registry GROUP BY town
"""


def publish(person: Person, *rows: str) -> None:
    (person.root / "registry.csv").write_text("\n".join(["id,town,size", *rows]) + "\n")


def current(person: Person) -> dict[str, int]:
    """What the changelog of the derivative adds up to."""
    found: dict[str, int] = {}
    for path in slice_paths(person.workspace.resolve("smallest").dataset):
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        for row in rows:
            if row["op"] in {0, 3}:
                found[row["town"]] = row["smallest"]
            else:
                assert found.pop(row["town"]) == row["smallest"]
    return found


def test_a_minimum_survives_the_retraction_of_its_row(person: Person) -> None:
    publish(person, "1,ash,5", "2,ash,7", "3,elm,9")
    person.add(ROOT, SMALLEST)
    person.pull("registry")
    person.pull("smallest")
    assert current(person) == {"ash": 5, "elm": 9}
    publish(person, "2,ash,7", "3,elm,4")
    person.pull("registry")
    person.pull("smallest")
    assert current(person) == {"ash": 7, "elm": 4}
    publish(person, "2,ash,7", "3,ash,4")
    person.pull("registry")
    person.pull("smallest")
    assert current(person) == {"ash": 4}
    report = person.verify("smallest", recursive=True)
    assert all(dataset.complete for dataset in report.datasets)

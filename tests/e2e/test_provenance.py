"""Rows explained down to the root datasets, through a windowed aggregate and a map over it."""

import json

import pytest

from odf.coordinator.provenance import ExplainedDataset, provenance
from odf.errors import BadInputError, InvalidQueryError, NotFoundError, UsageError
from tests.e2e.conftest import Person

pytestmark = pytest.mark.spark

ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: readings
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: 'days/*.csv', order: ByName}
      read: {kind: Csv, header: true, schema: [event_time TIMESTAMP, k STRING, v BIGINT]}
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
      inputs: [{datasetRef: %s}]
      transform: {kind: Sql, engine: spark, query: %s}
"""
DAILY = (
    "SELECT window.start AS event_time, k, sum(v) AS total FROM readings "
    "GROUP BY window(event_time, '1 day'), k"
)
DOUBLED = "SELECT event_time, k, total * 2 AS twice FROM daily"
RANKED = "SELECT max(event_time) AS event_time, k, sum(v) AS total FROM readings GROUP BY k"


def put(person: Person, name: str, *rows: str) -> None:
    folder = person.root / "days"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.csv").write_text("\n".join(["event_time,k,v", *rows]) + "\n")


def explain(
    person: Person, name: str, first: int, last: int, *, recursive: bool = False
) -> tuple[ExplainedDataset, ...]:
    with person.context("provenance") as ctx:
        return provenance(ctx, name, first, last, recursive=recursive)


@pytest.fixture
def pipeline(person: Person) -> Person:
    put(person, "1", "2024-01-01T01:00:00Z,x,1", "2024-01-01T02:00:00Z,y,2")
    put(person, "2", "2024-01-01T03:00:00Z,x,4", "2024-01-02T01:00:00Z,x,8")
    put(person, "3", "2024-01-03T01:00:00Z,x,16")
    person.add(
        ROOT,
        DERIVATIVE % ("daily", "readings", json.dumps(DAILY)),
        DERIVATIVE % ("doubled", "daily", json.dumps(DOUBLED)),
        DERIVATIVE % ("by-key", "readings", json.dumps(RANKED)),
    )
    for name in ("readings", "daily", "doubled", "by-key"):
        person.pull(name)
    return person


def test_a_row_is_explained_down_to_the_roots(pipeline: Person) -> None:
    found = explain(pipeline, "doubled", 0, 1, recursive=True)
    assert [(str(one.handle.alias), one.offsets) for one in found] == [
        ("doubled", (0, 1)),
        ("daily", (0, 1)),
        ("readings", (0, 1, 2)),
    ]
    mapped, summed, root = found
    assert [(row.offset, row.sources) for row in mapped.steps[0].rows] == [
        (0, ((0, 0),)),
        (1, ((0, 1),)),
    ]
    assert [(row.offset, row.sources) for row in summed.steps[0].rows] == [
        (0, ((0, 0), (0, 2))),
        (1, ((0, 1),)),
    ]
    assert root.steps == ()
    assert "windowed aggregate" in summed.steps[0].how
    origins = {origin.column: origin.sources for origin in summed.steps[0].columns}
    assert [(one.input, one.column) for one in origins["total"]] == [("readings", "v")]


def test_without_recursion_it_is_one_step_down(pipeline: Person) -> None:
    (found,) = explain(pipeline, "doubled", 1, 1)
    assert found.steps[0].rows[0].sources == ((0, 1),)


def test_rows_of_a_later_run_name_rows_of_an_earlier_one(pipeline: Person) -> None:
    put(pipeline, "4", "2024-01-02T05:00:00Z,z,7", "2024-01-04T01:00:00Z,x,32")
    pipeline.pull("readings")
    pipeline.pull("daily")
    head = pipeline.workspace.resolve("daily").dataset.state().last_offset
    assert head is not None
    (found,) = explain(pipeline, "daily", head, head)
    assert found.steps[0].rows[0].sources == ((0, 4),)


def test_rows_after_a_change_of_the_query_do_not_go_on_with_its_state(pipeline: Person) -> None:
    changed = DAILY.replace("sum(v)", "sum(v + 1)")
    pipeline.update(DERIVATIVE % ("daily", "readings", json.dumps(changed)))
    put(pipeline, "4", "2024-01-05T05:00:00Z,z,7", "2024-01-06T01:00:00Z,x,32")
    pipeline.pull("readings")
    pipeline.pull("daily")
    head = pipeline.workspace.resolve("daily").dataset.state().last_offset
    assert head is not None
    (found,) = explain(pipeline, "daily", head, head)
    assert found.steps[0].rows[0].sources == ((0, 5),)
    (found,) = explain(pipeline, "daily", 0, 0)
    assert found.steps[0].rows[0].sources == ((0, 0), (0, 2))


def test_what_cannot_be_explained_is_said(pipeline: Person) -> None:
    before = pipeline.workspace.resolve("by-key").dataset.head()
    with pytest.raises(InvalidQueryError, match="cannot be told"):
        explain(pipeline, "by-key", 0, 0)
    with pytest.raises(BadInputError, match="readings is a root dataset"):
        explain(pipeline, "readings", 0, 0)
    with pytest.raises(NotFoundError, match="has no row at offset 99"):
        explain(pipeline, "doubled", 99, 99)
    with pytest.raises(UsageError, match="got 3 to 2"):
        explain(pipeline, "doubled", 3, 2)
    assert pipeline.workspace.resolve("by-key").dataset.head() == before

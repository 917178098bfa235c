"""Real series through the whole path, with queries for DataFusion."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odf.coordinator.results import PullStatus
from odf.errors import BadInputError, EngineUnavailableError, InvalidQueryError
from odf.metadata.model import AddData, ExecuteTransform, SetTransform
from odf.protocol.releases import RELEASES
from tests.e2e.conftest import Person
from tests.e2e.test_real_series import expected, publish, root_manifest

pytestmark = pytest.mark.spark  # which reads the source files

UNION = """
SELECT `Date` AS day, 'WTI' AS grade, `Price` AS price FROM wti
UNION ALL
SELECT `Date` AS day, 'Brent' AS grade, `Price` AS price FROM brent
"""
DEAR = "SELECT day, grade, price, round(price) AS rounded FROM oil WHERE price > 100"
VIX_COLUMNS = ("OPEN", "CLOSE")


def derivative(
    name: str, query: str, *inputs: str, engine: str = "datafusion", version: str | None = None
) -> str:
    transform = {"kind": "Sql", "engine": engine, "query": query}
    if version is not None:
        transform["version"] = version
    return json.dumps(
        {
            "kind": "DatasetSnapshot",
            "version": 1,
            "content": {
                "name": name,
                "kind": "Derivative",
                "metadata": [
                    {"kind": "SetVocab", "eventTimeColumn": "day"},
                    {
                        "kind": "SetTransform",
                        "inputs": [{"datasetRef": source} for source in inputs],
                        "transform": transform,
                    },
                ],
            },
        }
    )


def oil(person: Person) -> None:
    for name in ("wti", "brent"):
        person.add(
            root_manifest(
                name,
                fetch=f"{{kind: Url, url: 'file://{name}.csv'}}",
                merge="{kind: Ledger, primaryKey: [Date]}",
                schema=["Date DATE", "Price DOUBLE"],
                event_time="Date",
            )
        )


def publish_oil(person: Person, folder: Path, export: str, at: int) -> None:
    for name in ("wti", "brent"):
        publish(person, folder / f"{name}-daily-{export}.csv", at, f"{name}.csv")
        person.pull(name)


def slices(person: Person, name: str) -> list[str]:
    """List the logical hashes of a dataset's slices, oldest first."""
    found = []
    for _, block in person.workspace.resolve(name).dataset.blocks():
        if isinstance(block.event, AddData | ExecuteTransform) and block.event.new_data:
            found.append(str(block.event.new_data.logical_hash))
    return found[::-1]


def transform_version(person: Person, name: str) -> str | None:
    for _, block in person.workspace.resolve(name).dataset.blocks():
        if isinstance(block.event, SetTransform):
            return block.event.transform.version
    return None


def test_unions_and_maps_give_what_spark_gives(
    person: Person, real_data: Callable[[str], Path]
) -> None:
    folder = real_data("g2")
    oil(person)
    person.add(derivative("oil", UNION, "wti", "brent"))
    person.add(derivative("oil-spark", UNION, "wti", "brent", engine="spark"))
    person.add(derivative("dear", DEAR, "oil"))
    ledger = expected(folder)["ledger"]
    for at, (export, count) in enumerate((("2025-02", "first_rows"), ("2026-08", "inserted"))):
        publish_oil(person, folder, export, 1_700_000_000 + at)
        wanted = sum(ledger[name][count] for name in ("wti", "brent"))
        assert dict(person.pull("oil").records) == {"+A": wanted}
        person.pull("oil-spark")
        person.pull("dear")
    assert transform_version(person, "oil") == RELEASES["datafusion"]
    assert len(slices(person, "oil")) == 2
    assert slices(person, "oil") == slices(person, "oil-spark")
    assert person.pull("oil").status is PullStatus.UP_TO_DATE
    report = person.verify("dear", recursive=True)
    assert all(dataset.valid for dataset in report.datasets)
    assert [dataset.replayed for dataset in report.datasets[-2:]] == [2, 2]


def test_stateful_queries_are_refused_when_they_are_added(person: Person) -> None:
    oil(person)
    publish_empty(person)
    query = "SELECT max(`Date`) AS day, count(*) AS n FROM wti GROUP BY date_part('year', `Date`)"
    with pytest.raises(InvalidQueryError, match="needs state") as refused:
        person.add(derivative("yearly", query, "wti"))
    assert "engine: spark" in (refused.value.hint or "")


def publish_empty(person: Person) -> None:
    (person.root / "wti.csv").write_text("Date,Price\n")
    person.pull("wti")


def test_inputs_without_data_are_checked_later(person: Person) -> None:
    oil(person)
    report = person.add(derivative("yearly", "SELECT max(`Date`) AS day FROM wti", "wti"))
    assert any("first pulled" in line for line in report.added[0].warnings)
    (person.root / "wti.csv").write_text("Date,Price\n2020-01-01,5\n")
    person.pull("wti")
    with pytest.raises(InvalidQueryError, match="needs state"):
        person.pull("yearly")


@pytest.mark.parametrize("engine", ["spark", "datafusion"])
def test_what_the_author_should_know_is_told_with_the_first_pull(
    engine: str, person: Person
) -> None:
    oil = root_manifest(
        "wti",
        fetch="{kind: Url, url: 'file://wti.csv'}",
        merge="{kind: Snapshot, primaryKey: [Date]}",
        schema=["Date DATE", "Price DOUBLE"],
        event_time="Date",
    )
    query = "SELECT `Date` AS day, `Price` AS price FROM wti"
    report = person.add(oil, derivative("map", query, "wti", engine=engine))
    assert not any("drops `op`" in line for entry in report.added for line in entry.warnings)
    (person.root / "wti.csv").write_text("Date,Price\n2020-01-01,5\n")
    person.pull("wti")
    [warning] = person.pull("map").warnings
    assert "the query drops `op`" in warning
    (person.root / "wti.csv").write_text("Date,Price\n2020-01-01,6\n")
    os.utime(person.root / "wti.csv", (1_800_000_000, 1_800_000_000))
    person.pull("wti")
    assert person.pull("map").warnings == ()


def test_an_unknown_engine_is_told_when_it_is_added(person: Person) -> None:
    oil(person)
    report = person.add(derivative("later", "SELECT 1", "wti", engine="flink"))
    assert any("'flink'" in line and "datafusion" in line for line in report.added[0].warnings)


def test_another_release_is_not_replaced(person: Person) -> None:
    oil(person)
    publish_empty(person)
    query = "SELECT `Date` AS day FROM wti"
    person.add(derivative("old", query, "wti", version="odf-datafusion/0.9.0"))
    (person.root / "wti.csv").write_text("Date,Price\n2020-01-01,5\n")
    person.pull("wti")
    assert transform_version(person, "old") == "odf-datafusion/0.9.0"
    with pytest.raises(EngineUnavailableError, match=r"odf-datafusion/0\.9\.0"):
        person.pull("old")


def preprocessed(name: str, engine: str, query: str, merge: str) -> str:
    manifest = root_manifest(name, merge=merge, preprocess=query)
    return manifest.replace("engine: spark", f"engine: {engine}")


def test_a_preprocess_query_gives_what_spark_gives(
    person: Person, real_data: Callable[[str], Path]
) -> None:
    folder = real_data("b1")
    merge = "{kind: Ledger, primaryKey: [event_time]}"
    rest = ", cast(OPEN AS DOUBLE) AS open, cast(CLOSE AS DOUBLE) AS close FROM input"
    spark = (
        "SELECT coalesce(try_to_date(DATE, 'MM/dd/yyyy'), try_to_date(DATE, 'yyyy-MM-dd')) "
        f"AS event_time{rest}"
    )
    fusion = f"SELECT to_date(`DATE`, '%m/%d/%Y', '%Y-%m-%d') AS event_time{rest}"
    person.add(preprocessed("vix-spark", "spark", spark, merge))
    person.add(preprocessed("vix", "datafusion", fusion, merge))
    added = []
    for number, export in enumerate(expected(folder)["exports"]):
        publish(person, folder / export["file"], 1_700_000_000 + number)
        added.append(person.pull("vix").records["+A"])
        person.pull("vix-spark")
    assert added == [8588, 203, 204, 160, 80]
    assert slices(person, "vix") == slices(person, "vix-spark")


def test_snapshots_are_preprocessed_as_a_whole(
    person: Person, real_data: Callable[[str], Path]
) -> None:
    folder = real_data("a1")
    merge = "{kind: Snapshot, primaryKey: [id]}"
    person.add(preprocessed("registry", "datafusion", "SELECT * FROM input", merge))
    for number, step in enumerate(expected(folder)["transitions"][:3]):
        publish(person, folder / step["to"], 1_700_000_000 + number)
        found = dict(person.pull("registry").records)
        changes = (step["inserted"], step["removed"], step["changed"], step["changed"])
        wanted = dict(zip(("+A", "-R", "-C", "+C"), changes, strict=True))
        assert found == {operation: n for operation, n in wanted.items() if n}


def test_preprocess_queries_may_look_at_all_rows(person: Person) -> None:
    query = (
        "SELECT to_timestamp(day) AS event_time, k, sum(cast(n AS BIGINT)) AS total "
        "FROM input GROUP BY day, k"
    )
    person.add(preprocessed("totals", "datafusion", query, "{kind: Append}"))
    (person.root / "source.csv").write_text(
        "day,k,n\n2020-01-02,b,1\n2020-01-01,a,2\n2020-01-02,b,3\n"
    )
    assert dict(person.pull("totals").records) == {"+A": 2}


@pytest.mark.parametrize("rows", ["", "day,n\n"])
def test_nothing_to_preprocess(person: Person, rows: str) -> None:
    query = "SELECT to_timestamp(day) AS event_time, cast(n AS INT) AS n FROM input"
    person.add(preprocessed("quiet", "datafusion", query, "{kind: Append}"))
    (person.root / "source.csv").write_text(rows)
    result = person.pull("quiet", allow_empty=True)
    assert dict(result.records) == {}


def test_bad_values_and_bad_results_are_told(person: Person) -> None:
    query = "SELECT to_timestamp(day) AS event_time, n FROM input"
    merge = "{kind: Ledger, primaryKey: [n]}"
    person.add(preprocessed("odd", "datafusion", query, merge))
    source = person.root / "source.csv"
    source.write_text("day,n\nsoon,1\n")
    with pytest.raises(InvalidQueryError, match="soon"):
        person.pull("odd")
    source.write_text("day,n\n2020-01-01,1\n2020-01-02,\n")
    with pytest.raises(BadInputError, match="null") as bad:
        person.pull("odd")
    assert any("row 2 of the preprocess" in line for line in bad.value.problems)


def test_a_preprocess_query_is_checked_when_it_is_added(person: Person) -> None:
    with pytest.raises(InvalidQueryError, match="depends on when"):
        person.add(
            preprocessed("odd", "datafusion", "SELECT now() AS t FROM input", "{kind: Append}")
        )

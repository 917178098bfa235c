"""Real series with the second engine in the path: the same counts and the same rows."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odf.repo.files import slice_paths
from tests.e2e.conftest import Person

pytestmark = pytest.mark.spark

ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - {{kind: SetVocab, eventTimeColumn: {event_time}}}
    - kind: SetPollingSource
      fetch: {fetch}
      read: {{kind: Csv, header: true}}
      preprocess:
        kind: Sql
        engine: {engine}
        query: {query}
      merge: {merge}
"""
DERIVATIVE = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: {inputs}
      transform:
        kind: Sql
        engine: {engine}
        query: {query}
"""


def root(
    name: str,
    query: str,
    *,
    merge: str,
    engine: str = "datafusion",
    fetch: str = "{kind: Url, url: 'file://source.csv'}",
    event_time: str = "event_time",
) -> str:
    return ROOT.format(
        name=name,
        fetch=fetch,
        engine=engine,
        query=json.dumps(query),
        merge=merge,
        event_time=event_time,
    )


def derivative(name: str, query: str, inputs: list[str], engine: str = "datafusion") -> str:
    references = json.dumps([{"datasetRef": one} for one in inputs])
    return DERIVATIVE.format(name=name, inputs=references, engine=engine, query=json.dumps(query))


def publish(person: Person, file: Path, at: int, name: str = "source.csv") -> None:
    target = person.root / name
    shutil.copyfile(file, target)
    os.utime(target, (at, at))


def expected(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text())


@pytest.mark.parametrize(
    ("series", "key", "query"),
    [
        (
            "a1",
            "id",
            "SELECT cast(id AS BIGINT) AS id, code, name, continent, keywords FROM input",
        ),
        ("a2", "ACT Symbol", 'SELECT * FROM input WHERE "ACT Symbol" IS NOT NULL'),
    ],
    ids=["countries", "listings"],
)
def test_snapshots(
    series: str, key: str, query: str, person: Person, real_data: Callable[[str], Path]
) -> None:
    folder = real_data(series)
    merge = f"{{kind: Snapshot, primaryKey: [{json.dumps(key)}]}}"
    person.add(root("registry", query, merge=merge))
    for number, step in enumerate(expected(folder)["transitions"]):
        publish(person, folder / step["to"], 1_700_000_000 + number)
        found = dict(person.pull("registry").records)
        assert found.get("+A", 0) == step["inserted"], step["to"]
        assert found.get("-R", 0) == step["removed"], step["to"]
        assert found.get("+C", 0) == step["changed"], step["to"]
    assert person.verify("registry").datasets[0].valid


def test_a_ledger_whose_dates_change_their_format(
    person: Person, real_data: Callable[[str], Path]
) -> None:
    folder = real_data("b1")
    query = (
        "SELECT CASE WHEN \"DATE\" LIKE '%/%' THEN to_date(\"DATE\", '%m/%d/%Y') "
        'ELSE to_date("DATE") END AS event_time, '
        'cast("OPEN" AS DOUBLE) AS open, cast("CLOSE" AS DOUBLE) AS close FROM input'
    )
    person.add(root("vix", query, merge="{kind: Ledger, primaryKey: [event_time]}"))
    added = []
    for number, export in enumerate(expected(folder)["exports"]):
        publish(person, folder / export["file"], 1_700_000_000 + number)
        added.append(person.pull("vix").records["+A"])
    assert added == [8588, 203, 204, 160, 80]


def test_a_file_a_day(person: Person, real_data: Callable[[str], Path]) -> None:
    import pyarrow.parquet as pq

    days = person.root / "days"
    days.mkdir()
    for file in sorted(real_data("b4").glob("*.csv")):
        shutil.copy(file, days)
    query = (
        "SELECT to_timestamp(data) AS event_time, denominazione_regione, "
        "cast(nuovi_positivi AS BIGINT) AS nuovi_positivi, note FROM input"
    )
    glob = "{kind: FilesGlob, path: 'days/*.csv', order: ByName}"
    person.add(root("regions", query, merge="{kind: Append}", fetch=glob))
    assert dict(person.pull("regions").records) == {"+A": 630}
    slices = slice_paths(person.workspace.resolve("regions").dataset)
    columns = [pq.read_table(path, columns=["nuovi_positivi"])[0] for path in slices]
    assert sum(sum(column.to_pylist()) for column in columns) == 599_587


def test_a_union_and_a_map_over_it_are_the_same_rows_with_either_engine(
    person: Person, real_data: Callable[[str], Path]
) -> None:
    folder = real_data("g2")
    typed = 'SELECT cast("Date" AS DATE) AS event_time, cast("Price" AS DOUBLE) AS price FROM input'
    for name in ("wti", "brent"):
        fetch = f"{{kind: Url, url: 'file://{name}.csv'}}"
        merge = "{kind: Ledger, primaryKey: [event_time]}"
        person.add(root(name, typed, merge=merge, fetch=fetch))
    for engine, quote in (("spark", "`"), ("datafusion", '"')):
        union = " UNION ALL ".join(
            f"SELECT event_time, '{name}' AS grade, price FROM {name}" for name in ("wti", "brent")
        )
        doubled = (
            f"SELECT event_time, upper(grade) AS {quote}Grade{quote}, price * 2 AS twice "
            f"FROM {quote}oil.{engine}{quote} WHERE price > 50"
        )
        person.add(derivative(f"oil.{engine}", union, ["wti", "brent"], engine))
        person.add(derivative(f"high.{engine}", doubled, [f"oil.{engine}"], engine))
    ledger = expected(folder)["ledger"]
    for number, export in enumerate(("2025-02", "2026-08")):
        for name in ("wti", "brent"):
            file = folder / f"{name}-daily-{export}.csv"
            publish(person, file, 1_700_000_000 + number, f"{name}.csv")
            rows = ledger[name]["inserted"] if number else ledger[name]["first_rows"]
            assert dict(person.pull(name).records) == {"+A": rows}
        for engine in ("spark", "datafusion"):
            for name in (f"oil.{engine}", f"high.{engine}"):
                person.pull(name)
    for name in ("oil", "high"):
        assert _logical_hashes(person, f"{name}.spark") == _logical_hashes(
            person, f"{name}.datafusion"
        )
    assert all(
        dataset.valid for dataset in person.verify("high.datafusion", recursive=True).datasets
    )


def _logical_hashes(person: Person, name: str) -> list[str]:
    events = [block.event for _, block in person.workspace.resolve(name).dataset.blocks()]
    return [
        str(event.new_data.logical_hash)
        for event in events
        if getattr(event, "new_data", None) is not None
    ]

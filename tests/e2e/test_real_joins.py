"""Joins of real daily series, run after run: oil prices of two places, and the VIX.

What comes out is compared with another engine over the exports themselves, and in the end with
the expected files. What one runtime pulled is replayed in the other one.
"""

import csv
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.clock import FixedClock
from odf.coordinator.results import VerifyReport
from odf.repo.files import slice_paths
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.pool import EnginePool, PoolSettings
from odf.runtimes.select import RuntimeChoice
from tests.e2e.conftest import Person
from tests.e2e.test_real_series import publish
from tests.runtimes.conftest import tiny_command

pytestmark = pytest.mark.spark

RUNTIMES: Final[tuple[RuntimeChoice, ...]] = ("process", "bubblewrap")
EXPORTS = ("2025-02", "2026-08")
ROOTS = {
    "wti": "SELECT CAST(Date AS DATE) AS event_time, 'WTI' AS grade,"
    " CAST(Price AS DECIMAL(9, 2)) AS price FROM input",
    "brent": "SELECT CAST(Date AS DATE) AS event_time, CAST(Price AS DECIMAL(9, 2)) AS price"
    " FROM input",
    "vix": "SELECT CAST(DATE AS DATE) AS event_time, CAST(CLOSE AS DECIMAL(9, 2)) AS close"
    " FROM input",
}
DERIVATIVES = {
    "asof": "SELECT v.event_time, v.close AS vix_close, w.event_time AS wti_day,"
    " w.price AS wti_price FROM vix v ASOF JOIN wti w"
    " MATCH_CONDITION (v.event_time >= w.event_time) WHERE v.event_time >= DATE '2026-01-01'",
    "temporal": "SELECT v.event_time, v.close AS vix_close, wti.event_time AS wti_day,"
    " wti.price AS wti_price FROM vix v LEFT JOIN wti ON wti.grade = 'WTI'",
    "spread": "SELECT b.event_time, b.price AS brent, w.price AS wti"
    " FROM brent b JOIN wti w ON b.event_time = w.event_time",
    "spread-monthly": "SELECT max(event_time) AS event_time,"
    " substr(CAST(event_time AS STRING), 1, 7) AS month, count(*) AS days,"
    " round(avg(brent - wti), 6) AS avg_spread, min(wti) AS min_wti, max(brent) AS max_brent"
    " FROM spread GROUP BY 2",
    "presence": "SELECT coalesce(b.event_time, w.event_time) AS event_time,"
    " b.price AS brent, w.price AS wti"
    " FROM brent b FULL OUTER JOIN wti w ON b.event_time = w.event_time",
    "presence-yearly": "SELECT max(event_time) AS event_time, year(event_time) AS year,"
    " sum(CASE WHEN brent IS NOT NULL AND wti IS NOT NULL THEN 1 ELSE 0 END) AS both_days,"
    " sum(CASE WHEN wti IS NULL THEN 1 ELSE 0 END) AS brent_only,"
    " sum(CASE WHEN brent IS NULL THEN 1 ELSE 0 END) AS wti_only FROM presence GROUP BY 2",
}
INPUTS = {
    "asof": ("vix", "wti"),
    "temporal": ("vix", "wti"),
    "spread": ("brent", "wti"),
    "spread-monthly": ("spread",),
    "presence": ("brent", "wti"),
    "presence-yearly": ("presence",),
}
EXPECTED = {
    "asof": "query3_asof_2026.expected.csv",
    "spread-monthly": "query1_spread_monthly.expected.csv",
    "presence-yearly": "query2_presence_yearly.expected.csv",
}
AS_OF_BY_DUCKDB = (
    "SELECT v.DATE, v.CLOSE, w.Date, w.Price FROM vix v ASOF {} JOIN wti w ON v.DATE >= w.Date"
    " WHERE v.DATE <= least((SELECT max(Date) FROM wti), (SELECT max(DATE) FROM vix)) AND {}"
)


def root(name: str) -> str:
    return f"""
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: Url, url: 'file://{name}.csv'}}
      read: {{kind: Csv, header: true}}
      preprocess: {{kind: Sql, engine: spark, query: "{ROOTS[name]}"}}
      merge: {{kind: Ledger, primaryKey: [event_time]}}
"""


def derivative(name: str) -> str:
    inputs = ", ".join(f"{{datasetRef: {source}}}" for source in INPUTS[name])
    tables = "temporalTables: [{name: wti, primaryKey: [grade]}]" if name == "temporal" else ""
    return f"""
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{inputs}]
      transform:
        kind: Sql
        engine: spark
        query: "{DERIVATIVES[name]}"
        {tables}
"""


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, EnginePool]]:
    """A Spark host in each runtime that works here."""
    sandboxed = BubblewrapRuntime(tiny_command()).why_not() is None
    made = {
        name: EnginePool(
            PoolSettings(runtime=name), run_dir=tmp_path_factory.mktemp(f"engines-{name}")
        )
        for name in (RUNTIMES if sandboxed else RUNTIMES[:1])
    }
    yield made
    for pool in made.values():
        pool.close()


@pytest.fixture(params=["process", pytest.param("bubblewrap", marks=pytest.mark.sandbox)])
def runtime(request: pytest.FixtureRequest, pools: dict[str, EnginePool]) -> str:
    """Where rows are pulled; they are replayed in the other one."""
    name: str = request.param
    if name not in pools:
        pytest.skip("bubblewrap does not work here")
    return name


@pytest.fixture
def trader(runtime: str, pools: dict[str, EnginePool], tmp_path: Path) -> Person:
    return Person(tmp_path / "workspace", tmp_path / "home", pools[runtime])


def pull_exports(
    person: Person, folder: Path, number: int, names: tuple[str, ...]
) -> duckdb.DuckDBPyConnection:
    """Pull an export of each series and what derives from it; return another engine over them."""
    person.clock = FixedClock(datetime(2026, 9, 1 + number, tzinfo=UTC))
    db = duckdb.connect()
    roots = {source for name in names for source in INPUTS[name] if source in ROOTS}
    for name in sorted(roots):
        file = folder / (
            "vix-daily-2026-07.csv" if name == "vix" else f"{name}-daily-{EXPORTS[number]}.csv"
        )
        publish(person, file, 1_700_000_000 + number, f"{name}.csv")
        person.pull(name)
        db.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{file}')")
    for name in names:
        person.pull(name)
    return db


def rows(person: Person, name: str) -> list[tuple[Any, ...]]:
    """The current rows of a dataset, by the operations of all that it ever had."""
    dataset = person.workspace.resolve(name).dataset
    current: list[tuple[Any, ...]] = []
    for path in slice_paths(dataset):
        table = pq.read_table(path)
        hidden = {"offset", "op", "system_time"}
        data = table.select([column for column in table.schema.names if column not in hidden])
        columns = [_plain(column) for column in data.columns]
        for op, row in zip(table["op"].to_pylist(), zip(*columns, strict=True), strict=True):
            if op in (0, 3):
                current.append(row)
            else:
                current.remove(row)
    return sorted(current, key=repr)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return [None if value is None else value.date() for value in column.to_pylist()]
    return column.to_pylist()


def exact(found: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    """Rows whose numbers have lost the marks of their types."""
    return sorted(tuple(_text(value) for value in row) for row in found)


def _text(value: object) -> str:
    if isinstance(value, float):
        value = Decimal(repr(value))
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


def from_csv(path: Path) -> list[tuple[str, ...]]:
    with path.open() as file:
        lines = [tuple(line) for line in csv.reader(file)][1:]
    return sorted(tuple(_number(text) for text in line) for line in lines)


def _number(text: str) -> str:
    return f"{Decimal(text).normalize():f}" if "." in text else text


def replayed(person: Person, pools: dict[str, EnginePool], runtime: str) -> VerifyReport:
    """Verify everything, if possible in another runtime than the one that pulled."""
    person.engines = next((pool for name, pool in pools.items() if name != runtime), pools[runtime])
    return person.verify(everything=True)


def assert_replayed(report: VerifyReport, steps: int) -> None:
    problems = [(d.name, f.message) for d in report.datasets for f in d.findings]
    assert problems == []
    assert all(dataset.valid for dataset in report.datasets)
    assert sum(dataset.replayed for dataset in report.datasets) == steps


def test_as_of_joins(
    trader: Person, runtime: str, pools: dict[str, EnginePool], real_data: Callable[[str], Path]
) -> None:
    folder = real_data("g2")
    names = ("asof", "temporal")
    trader.add(*map(root, ("wti", "vix")), *map(derivative, names))
    for number in range(len(EXPORTS)):
        db = pull_exports(trader, folder, number, names)
        since = "v.DATE >= DATE '2026-01-01'"
        wanted = {
            "asof": db.execute(AS_OF_BY_DUCKDB.format("", since)).fetchall(),
            "temporal": db.execute(AS_OF_BY_DUCKDB.format("LEFT", "true")).fetchall(),
        }
        assert bool(wanted["asof"]) == (number == 1)  # none of 2026 at first
        for name in names:
            assert exact(rows(trader, name)) == exact(wanted[name]), name
    expected = from_csv(folder / EXPECTED["asof"])
    assert exact(rows(trader, "asof")) == expected
    assert [row for row in exact(rows(trader, "temporal")) if row[0] >= "2026"] == expected
    assert_replayed(replayed(trader, pools, runtime), steps=4)


@pytest.mark.parametrize(
    ("names", "by_duckdb"),
    [
        (("spread", "spread-monthly"), "query1_spread_monthly.sql"),
        (("presence", "presence-yearly"), "query2_presence_yearly.sql"),
    ],
    ids=["inner", "full"],
)
def test_join_and_the_aggregate_over_it(
    names: tuple[str, str],
    by_duckdb: str,
    trader: Person,
    runtime: str,
    pools: dict[str, EnginePool],
    real_data: Callable[[str], Path],
) -> None:
    folder = real_data("g2")
    trader.add(*map(root, ("wti", "brent")), *map(derivative, names))
    for number in range(len(EXPORTS)):
        db = pull_exports(trader, folder, number, names)
        for name in ("brent", "wti"):
            db.execute(f"ALTER TABLE {name} RENAME TO {name}_as_read")
            db.execute(
                f"CREATE TABLE {name} AS SELECT Date AS day, CAST(Price AS DECIMAL(9, 2)) AS price"
                f" FROM {name}_as_read"
            )
        wanted = db.execute((folder / by_duckdb).read_text()).fetchall()
        found = [row[1:] for row in rows(trader, names[1])]  # without the event time
        assert exact(found) == exact(wanted)
    assert exact(found) == from_csv(folder / EXPECTED[names[1]])
    assert_replayed(replayed(trader, pools, runtime), steps=4)

"""Oil prices: days with both quotes, and over them a row for each month that changes."""

import csv
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odf.engines.spark.engine import SparkEngine
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.changelogs import Changelog
from tests.engines.spark.stateful.replay import Block, Replay, Shape

pytestmark = pytest.mark.spark

QUOTES = Shape(pa.schema([("event_time", pa.date32()), ("price", pa.decimal128(9, 2))]))
PAIRS = Shape(
    pa.schema(
        [
            ("event_time", pa.timestamp("ms", "UTC")),
            ("brent", pa.decimal128(9, 2)),
            ("wti", pa.decimal128(9, 2)),
        ]
    )
)
PAIRED = (
    "SELECT CAST(b.event_time AS TIMESTAMP) AS event_time, b.price AS brent, w.price AS wti "
    "FROM b JOIN w ON b.event_time = w.event_time"
)
MONTHS = (
    "SELECT max(event_time) AS event_time, date_format(event_time, 'yyyy-MM') AS month, "
    "count(*) AS days, avg(brent - wti) AS avg_spread, min(wti) AS min_wti, "
    "max(brent) AS max_brent FROM p GROUP BY date_format(event_time, 'yyyy-MM')"
)


def quotes(path: Path, after: date) -> list[dict[str, Any]]:
    with path.open() as file:
        rows: list[dict[str, Any]] = [
            {"event_time": date.fromisoformat(one["Date"]), "price": Decimal(one["Price"])}
            for one in csv.DictReader(file)
        ]
    return [one for one in rows if one["event_time"] > after]


def watermark(rows: list[dict[str, Any]]) -> int:
    day = max(one["event_time"] for one in rows)
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def test_monthly_spread(
    engine: SparkEngine, tmp_path: Path, real_data: Callable[[str], Path]
) -> None:
    folder = real_data("g2")
    paired = Replay(engine, tmp_path / "p", sql(PAIRED), {"b": QUOTES, "w": QUOTES})
    months = Replay(engine, tmp_path / "m", sql(MONTHS), {"p": PAIRS})
    changelog = Changelog()
    last = {"b": date.min, "w": date.min}
    for number, export in enumerate(("2025-02", "2026-08")):
        blocks = []
        for alias, name in (("b", "brent"), ("w", "wti")):
            rows = quotes(folder / f"{name}-daily-{export}.csv", last[alias])
            last[alias] = rows[-1]["event_time"]
            blocks.append((number, Block(alias, tuple(rows), watermark(rows))))
        pairs = paired.run(blocks)
        changelog.take(months.run([(number, Block("p", tuple(pairs)))]))
    with (folder / "query1_spread_monthly.expected.csv").open() as file:
        wanted = {
            one["month"]: tuple(Decimal(value) for name, value in one.items() if name != "month")
            for one in csv.DictReader(file)
        }
    newest = {one["month"]: one for one in changelog.rows if one["op"] in (0, 3)}
    found = {
        month: (one["days"], one["avg_spread"], one["min_wti"], one["max_brent"])
        for month, one in newest.items()
    }
    assert sum(changelog.current.values()) == len(newest)
    assert found == wanted

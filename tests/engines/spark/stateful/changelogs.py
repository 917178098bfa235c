"""Changelogs of results: folded to what is current, and checked on the way."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odf.engines.host.engine import InputView
from odf.engines.spark.engine import SparkEngine
from odf.metadata.model import TransformSql
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.replay import MOMENT, Block, Replay, Shape

COLUMNS = pa.schema(
    [
        ("event_time", MOMENT),
        ("k", pa.string()),
        ("v", pa.int64()),
        ("d", pa.float64()),
        ("m", pa.decimal128(9, 2)),
    ]
)
NEW_YEAR = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


def row(
    hours: int, k: str | None, v: int | None = 0, d: float | None = 0.0, op: int = 0, **more: Any
) -> Row:
    """A row of `COLUMNS`; its decimal is a quarter of `v`."""
    m = None if v is None or abs(v) > 1 << 20 else Decimal(v) / 4
    return {"op": op, "event_time": time(hours), "k": k, "v": v, "d": d, "m": m, **more}


def time(hours: int) -> datetime:
    """A time around 1970."""
    return NEW_YEAR + timedelta(hours=hours)


class Knowing(Replay):
    """A dataset whose inputs are known to hold retractions, or known not to."""

    has_retractions: bool | None = None

    def _view(self, alias: str, blocks: list[tuple[int, Block]], folder: Path) -> InputView:
        found = super()._view(alias, blocks, folder)
        return replace(found, has_retractions=self.has_retractions)


class Changelog:
    """The rows that a dataset gave out, and those of them that are current."""

    def __init__(self, operation: str = "op") -> None:
        self.current: Counter[str] = Counter()
        self.rows: list[Row] = []
        self._operation = operation

    def take(self, rows: Sequence[Row]) -> None:
        """Take the rows of a run; what is retracted has to be there, and pairs to be together."""
        operations = [found[self._operation] for found in rows]
        for number, found in enumerate(rows):
            text = visible(found, self._operation)
            op = operations[number]
            if op in (1, 2):
                assert self.current[text] > 0, f"{found} is retracted and is not there"
                self.current[text] -= 1
            else:
                self.current[text] += 1
            if op == 2:
                assert operations[number + 1 : number + 2] == [3], "a -C without its +C"
                assert visible(rows[number + 1], self._operation) != text, "a correction of nothing"
            if op == 3:
                assert operations[max(number - 1, 0)] == 2, "a +C without its -C"
        self.current = +self.current
        self.rows += rows


def visible(found: Mapping[str, Any], operation: str = "op") -> str:
    """A row as text; 0.0 and -0.0 are two texts, nan is one."""
    return repr([_plain(value) for name, value in found.items() if name != operation])


def _plain(value: object) -> object:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def one_input(
    engine: SparkEngine, folder: Path, query: TransformSql, columns: pa.Schema = COLUMNS
) -> Replay:
    """A dataset over the input `t`."""
    return Replay(engine, folder, query, {"t": Shape(columns)})


def run(replay: Replay, *rows: Row, alias: str = "t") -> list[Row]:
    """One more run over rows of one input."""
    blocks = [(replay.runs + 1, Block(alias, rows))] if rows else []
    return replay.run(blocks)


def folded(runs: Iterable[Sequence[Row]], operation: str = "op") -> Changelog:
    """The changelog of some runs."""
    changelog = Changelog(operation)
    for rows in runs:
        changelog.take(rows)
    return changelog


def net(rows: Sequence[Row], *, strict: bool = True) -> list[Row]:
    """The current rows of an input, the oldest of equal ones being the first to be retracted.

    Retractions of rows that are not there are left out, or a mistake if `strict`.
    """
    current: list[Row] = []
    for found in rows:
        plain = {**found, "op": 0}
        if found["op"] in (1, 2):
            same = [n for n, other in enumerate(current) if repr(other) == repr(plain)]
            assert same or not strict
            del current[slice(*(same[0], same[0] + 1) if same else (0, 0))]
        else:
            current.append(plain)
    return current


def computed(
    engine: SparkEngine, query: str, rows: Sequence[Row], folder: Path, columns: pa.Schema = COLUMNS
) -> Counter[str]:
    """What Spark makes of rows at once, by a query over the view `input`."""
    folder.mkdir(parents=True)
    path = folder / "rows.parquet"
    schema = pa.schema([("offset", pa.int64()), ("op", pa.int32()), *columns])
    made = [{"offset": number, **found} for number, found in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(made, schema), path)
    found = engine.raw_query(sql(query), [str(path)], folder / "scratch")
    table = pa.Table.from_batches(found.batches, found.schema)
    return Counter(map(visible, table.to_pylist()))

"""0.0 and -0.0 are equal and are not the same: which of them comes out must not be chance."""

import tarfile
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.engines.spark.engine import SparkEngine
from odf.metadata.model import TransformSql
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.changelogs import Changelog, Row, one_input, row, run
from tests.engines.spark.stateful.replay import MOMENT, Block, Replay, Shape

pytestmark = pytest.mark.spark

ORDERS = ((0.0, -0.0, -0.0), (-0.0, 0.0, -0.0), (-0.0, -0.0, 0.0))
EXTREMES = "SELECT max(event_time) AS event_time, k, max(d) AS a, min(d) AS b FROM t GROUP BY k"
NESTED = (
    "SELECT max(event_time) AS event_time, k, max(struct(d, 1)).d AS a, min(array(d))[0] AS b "
    "FROM t GROUP BY k"
)
WITH_LIST = EXTREMES.replace(" FROM", ", collect_list(v) AS vs FROM")
WINDOWED = (
    "SELECT window.end AS event_time, k, max(d) AS a, min(d) AS b FROM t "
    "GROUP BY window(event_time, '100 hours'), k"
)
RANKED = f"SELECT event_time, k, a, b, rank() OVER (ORDER BY k) AS r FROM ({EXTREMES})"


def values(rows: list[Row]) -> set[str]:
    """What extremes came out, as texts that tell zeros apart."""
    return {repr(found[name]) for found in rows for name in ("a", "b")}


@pytest.mark.parametrize("query", [EXTREMES, NESTED, WITH_LIST, RANKED])
def test_extremes_are_the_same_for_any_split(
    query: str, engine: SparkEngine, tmp_path: Path
) -> None:
    for number, zeros in enumerate(ORDERS):
        rows = [row(hour, "a", hour, zero) for hour, zero in enumerate(zeros)]
        together = one_input(engine, tmp_path / f"whole-{number}", sql(query))
        apart = one_input(engine, tmp_path / f"split-{number}", sql(query))
        whole, split = Changelog(), Changelog()
        whole.take(run(together, *rows))
        for one in rows:
            split.take(run(apart, one))
        assert whole.current == split.current
        assert values(whole.rows) == values(split.rows) == {"0.0"}


def test_a_zero_that_was_kept_can_be_retracted(engine: SparkEngine, tmp_path: Path) -> None:
    query = (
        "SELECT timestamp'2020-01-01' AS event_time, k, count(*) AS n, max(d) AS a FROM t "
        "GROUP BY k"
    )
    replay = one_input(engine, tmp_path / "d", sql(query))
    run(replay, row(1, "a", 1, -0.0), row(2, "a", 2, 0.0), row(3, "a", 3, 0.0))
    found = run(replay, row(3, "a", 3, 0.0, op=1), row(1, "a", 1, -0.0, op=1))
    assert [(one["op"], one["n"], repr(one["a"])) for one in found] == [
        (2, 3, "0.0"),
        (3, 1, "0.0"),
    ]


def with_negative_zeros(checkpoint: Path, columns: list[str]) -> None:
    """Write -0.0 into a state, as one has it that another implementation left."""
    with tarfile.open(checkpoint) as archive:
        members = {item.name: archive.extractfile(item).read() for item in archive}  # type: ignore[union-attr]
    groups = pq.read_table(pa.BufferReader(members["groups.parquet"]))
    for name in columns:
        place = groups.schema.get_field_index(name)
        negative = pa.array([-0.0] * groups.num_rows, groups.schema.field(name).type)
        groups = groups.set_column(place, groups.schema.field(name), negative)
    sink = pa.BufferOutputStream()
    pq.write_table(groups, sink)
    members["groups.parquet"] = sink.getvalue().to_pybytes()
    checkpoint.unlink()
    with tarfile.open(checkpoint, "x:", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            item = tarfile.TarInfo(name)
            item.size = len(content)
            archive.addfile(item, BytesIO(content))


def test_a_negative_zero_in_a_state_is_corrected(engine: SparkEngine, tmp_path: Path) -> None:
    replay = one_input(engine, tmp_path / "d", sql(EXTREMES))
    run(replay, row(1, "a", 1, 0.0))
    assert replay.checkpoint is not None
    with_negative_zeros(replay.checkpoint, ["m1", "m2"])
    found = run(replay, row(2, "a", 1, None))
    assert [(one["op"], repr(one["a"]), repr(one["b"])) for one in found] == [
        (2, "-0.0", "-0.0"),
        (3, "0.0", "0.0"),
    ]
    again = run(replay, row(3, "a", 1, -0.0))
    assert values(again) == {"0.0"}


def test_extremes_of_windows(engine: SparkEngine, tmp_path: Path) -> None:
    for number, zeros in enumerate([(0.0, -0.0), (-0.0, 0.0)]):
        replay = one_input(engine, tmp_path / f"d-{number}", sql(WINDOWED))
        rows = tuple(row(hour, "a", 1, zero) for hour, zero in enumerate(zeros))
        found = replay.run([(1, Block("t", rows, 200 * 3_600_000))])
        assert values(found) == {"0.0"}


def collated(engine: SparkEngine, folder: Path, query: TransformSql) -> Replay:
    columns = pa.schema([("event_time", MOMENT), ("k", pa.string())])
    return Replay(engine, folder, query, {"t": Shape(columns), "u": Shape(columns)})


def test_equal_texts_of_a_collation_by_the_order_of_the_input(
    engine: SparkEngine, tmp_path: Path
) -> None:
    query = sql(
        "SELECT window.end AS event_time, CAST(max(k COLLATE UTF8_LCASE) AS STRING) AS k FROM "
        "(SELECT event_time, k FROM t UNION ALL SELECT event_time, k FROM u) "
        "GROUP BY window(event_time, '1 hour')"
    )
    for number, (first, second) in enumerate([("X", "x"), ("x", "X")]):
        replay = collated(engine, tmp_path / f"d-{number}", query)
        blocks = [
            (1, Block("u", ({"event_time": 0, "k": second},), 7_200_000)),
            (1, Block("t", ({"event_time": 1, "k": first},), 7_200_000)),
        ]
        (found,) = replay.run(blocks)
        assert found["k"] == first

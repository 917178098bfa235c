"""Merging inside a task, through Spark's SQL, and over a folded history: always the same rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from odf.engines.spark.engine import SparkEngine
from odf.metadata.model import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepCsv,
)
from tests.engines.spark.conftest import through_sql
from tests.engines.spark.spark_ingestor import Ingestor, Round

pytestmark = pytest.mark.spark

KEY = ("k", "n")
STRATEGIES: tuple[MergeStrategy, ...] = (
    MergeStrategyAppend(),
    MergeStrategyChangelogStream(KEY),
    MergeStrategyLedger(KEY),
    MergeStrategySnapshot(KEY),
    MergeStrategySnapshot(KEY, ("f",)),
    MergeStrategyUpsertStream(KEY),
)
COLUMNS = ("op INT", "event_time TIMESTAMP", "k STRING", "n BIGINT", "f DOUBLE", "d DECIMAL(9,2)")

KEYS = st.tuples(st.sampled_from(["a", "é", "Z", "z"]), st.integers(-1, 2))
VALUES = st.tuples(
    st.sampled_from(["", "2021-01-01 00:00:00", "2021-01-02 00:00:00.5", "1969-12-31 23:59:59.9"]),
    st.sampled_from(["", "0.0", "-0.0", "NaN", "1.5", "Infinity"]),
    st.sampled_from(["", "1.10", "-3"]),
)
ROWS = st.lists(st.tuples(st.integers(0, 3), KEYS, VALUES), max_size=12)


@dataclass(frozen=True)
class Step:
    """New rows, and a stretch of the history to fold meanwhile."""

    rows: list[Any]
    start: int
    length: int


STEPS = st.lists(
    st.builds(Step, ROWS, st.integers(0, 3), st.integers(0, 4)), min_size=3, max_size=5
)


def csv_of(rows: Sequence[Any], merge: MergeStrategy) -> str:
    """Write rows down; each key once where a snapshot wants that."""
    with_op = isinstance(merge, MergeStrategyChangelogStream | MergeStrategyUpsertStream)
    if isinstance(merge, MergeStrategySnapshot):
        rows = list({key: (op, key, values) for op, key, values in rows}.values())
    lines = []
    for op, (k, n), (time, f, d) in rows:
        lines.append(f"{f'{op},' if with_op else ''}{time},{k},{n},{f},{d}")
    return "".join(f"{line}\n" for line in lines)


def datasets(engine: SparkEngine, folder: Path, merge: MergeStrategy) -> list[Ingestor]:
    """One dataset for each way to merge; the last one gets its history folded."""
    with_op = isinstance(merge, MergeStrategyChangelogStream | MergeStrategyUpsertStream)
    read = ReadStepCsv(schema=COLUMNS if with_op else COLUMNS[1:])
    ways = (engine, through_sql(engine), engine)
    found = []
    for number, way in enumerate(ways):
        place = folder / f"way-{number}"
        place.mkdir(parents=True)
        found.append(Ingestor(way, place, read=read, merge=merge))
    return found


def shown(found: Round) -> object:
    """All that a round gives, comparable although NaN is not equal to itself."""
    counts = replace(found.ingested, rows=None)  # type: ignore[arg-type]
    return repr((found.rows, counts, found.schema, found.warnings))


@pytest.mark.parametrize("merge", STRATEGIES, ids=lambda merge: type(merge).__name__[13:])
def test_every_way_gives_the_same(
    merge: MergeStrategy, engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @settings(
        max_examples=3,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(STEPS)
    def check(steps: list[Step]) -> None:
        ways = datasets(engine, tmp_path_factory.mktemp("ways"), merge)
        keeps = isinstance(merge, MergeStrategyAppend | MergeStrategyChangelogStream)
        for step in steps:
            text = csv_of(step.rows, merge)
            history = len(ways[2].history)
            stretch = range(step.start, min(step.start + step.length, history))
            ways[2].stretch = stretch if stretch and not keeps else None
            rounds = [dataset.text(text, allow_retract=True, allow_empty=True) for dataset in ways]
            assert len({shown(one) for one in rounds}) == 1, [shown(one) for one in rounds]

    check()


def test_a_fold_keeps_what_counts_and_nothing_else(engine: SparkEngine, tmp_path: Path) -> None:
    read = ReadStepCsv(schema=("k STRING", "n BIGINT", "v INT"))
    for number, way in enumerate((engine, through_sql(engine))):
        folder = tmp_path / str(number)
        folder.mkdir()
        dataset = Ingestor(way, folder, read=read, merge=MergeStrategySnapshot(KEY))
        dataset.text("a,1,1\nb,1,1\n", allow_retract=True)
        dataset.text("a,1,2\n", allow_retract=True)
        dataset.text("c,1,1\n", allow_retract=True)
        dataset.stretch = range(1, 3)
        dataset.text("c,1,2\n", allow_retract=True)
        kept = pq.read_table(dataset.history[1]).to_pylist()
        # Not the oldest files: a retraction there still hides rows of older ones.
        assert [(row["offset"], row["op"], row["k"], row["v"]) for row in kept] == [
            (4, 1, "b", 1),
            (5, 1, "a", 2),
            (6, 0, "c", 1),
        ]
        dataset.stretch = range(2)
        dataset.text("c,1,2\n")
        kept = pq.read_table(dataset.history[0]).to_pylist()
        assert [(row["offset"], row["op"], row["k"], row["v"]) for row in kept] == [(6, 0, "c", 1)]
        assert "system_time" not in kept[0]
        assert dataset.text("c,1,2\n").rows == []

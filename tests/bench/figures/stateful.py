"""Runs of queries that keep state, over a thousand new rows."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from odf.workspace.workspace import Workspace
from tests.bench.datasets import add_datasets, derivative_of
from tests.bench.figure import BenchError, Contestant, Figure, Goal, Sample, Setup
from tests.bench.history import PER_HOUR, History, with_histories
from tests.bench.workbench import Workbench

_MB = 1_000_000
_NAME = "result"
_KEYS = 100
_WINDOWED = (
    "SELECT window.end AS event_time, k, count(*) AS n, sum(v) AS total "
    "FROM readings GROUP BY window(event_time, '1 hour'), k"
)
_WINDOWED_DUCKDB = (
    "SELECT time_bucket(INTERVAL 1 HOUR, event_time) + INTERVAL 1 HOUR AS event_time, k, "
    "count(*) AS n, sum(v) AS total FROM readings GROUP BY ALL"
)
_GROUPS = (
    "SELECT max(event_time) AS event_time, k, count(*) AS n, sum(v) AS total "
    "FROM readings GROUP BY k"
)
_ASOF = (
    "SELECT readings.event_time, readings.k, readings.v, prices.v AS price "
    "FROM readings LEFT ASOF JOIN prices "
    "MATCH_CONDITION (readings.event_time >= prices.event_time) ON readings.k = prices.k"
)
_ASOF_DUCKDB = (
    "SELECT readings.event_time, readings.k, readings.v, prices.v AS price "
    "FROM readings ASOF LEFT JOIN prices "
    "ON readings.k = prices.k AND readings.event_time >= prices.event_time"
)
_TIMED = (
    "`odf pull NAME` of a derivative whose inputs have 1,000 new rows each, with an engine that "
    "stayed and has run the query before, from process start to exit; the run counts only if that "
    "engine was used and the rows that came out are as many as expected."
)
_YARDSTICK = (
    "The yardstick has no state: DuckDB, on two threads and from process start to exit, runs the "
    "same query over all rows of the inputs into a Parquet file."
)


class Pipeline:
    """A stateful derivative of histories, pulled up to date.

    Args:
        bench: Where.
        query: The query, over `readings` and maybe `prices`.
        inputs: Their names.
        keys: How many keys they have.
        lag: How many rows their watermarks stay behind.
        rows: How many rows they have in the beginning.
    """

    def __init__(
        self, bench: Workbench, query: str, inputs: Sequence[str], *, keys: int, lag: int, rows: int
    ) -> None:
        self._bench = bench
        self.root = bench.fresh("workspace")
        self.histories: Mapping[str, History] = dict(
            zip(
                inputs,
                with_histories(bench, self.root, *inputs, keys=keys, lag=lag, rows=rows),
                strict=True,
            )
        )
        bench.use(bench.kept_warm(self.root))
        add_datasets(bench, self.root, derivative_of(_NAME, inputs, query))
        bench.odf(self.root, "pull", "-q", _NAME, warm=True)

    def step(self, expected: Mapping[str, int] | None = None) -> Sample:
        """Give the inputs new rows and run the query over them, timed."""
        for history in self.histories.values():
            history.add(PER_HOUR)
        ran, (pulled,) = self._bench.warm_pull(self.root, _NAME)
        if expected is not None and pulled["records"] != expected:
            raise BenchError(f"wanted {expected} rows, got {pulled['records']}")
        return Sample(ran.seconds, {"datasets' own s": float(pulled["seconds"])})

    def checkpoint_mb(self) -> float:
        """Return the size of what is kept at the moment."""
        folder = Workspace.find(self.root).resolve(_NAME).path / "checkpoints"
        newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return newest.stat().st_size / _MB


class _Incremental(Figure):
    """A run over new rows; subclasses say of what."""

    heavy: ClassVar = True
    untimed: ClassVar = False
    query: ClassVar[str]
    duckdb: ClassVar[str]
    inputs: ClassVar[tuple[str, ...]] = ("readings",)
    expected: ClassVar[Mapping[str, int]]

    def _setup(self, bench: Workbench, size: str, *, keys: int, lag: int, rows: int) -> Setup:
        pipeline = Pipeline(bench, self.query, self.inputs, keys=keys, lag=lag, rows=rows)
        # The first steps complete less, and the engine has not seen such a run yet.
        for _ in range(2):
            pipeline.step()

        def yardstick() -> Sample:
            views = {name: f"{found.slices}/*" for name, found in pipeline.histories.items()}
            return bench.duckdb(self.duckdb, **views)

        contestants = [
            Contestant("odf", lambda: pipeline.step(self.expected)),
            Contestant("DuckDB, all rows", yardstick),
        ]
        return Setup(contestants, size)


class Windowed(_Incremental):
    """A windowed aggregate."""

    name: ClassVar = "stateful-window"
    title: ClassVar = "Run of a windowed aggregate over 1,000 new rows"
    compares: ClassVar = (
        f"{_TIMED} Sum and count by hour and key; the watermark stays so far behind that the rows "
        f"of many open hours are kept, and each run completes one hour. {_YARDSTICK}"
    )
    goals: ClassVar = (Goal(1.5, "value", "s"),)
    query: ClassVar = _WINDOWED
    duckdb: ClassVar = _WINDOWED_DUCKDB
    expected: ClassVar = {"+A": _KEYS}

    def prepare(self, bench: Workbench) -> Setup:
        """Make the retained rows."""
        kept = bench.sizes.retained
        return self._setup(bench, f"{kept:,} retained rows", keys=_KEYS, lag=kept, rows=kept)


class Groups(_Incremental):
    """An aggregate of many groups."""

    name: ClassVar = "stateful-groups"
    title: ClassVar = "Run of an aggregate without a window over 1,000 new rows"
    compares: ClassVar = (
        f"{_TIMED} Newest time, count and sum of each key; 1,000 of the groups change, each from "
        f"one row to the next (`-C`, `+C`). {_YARDSTICK}"
    )
    goals: ClassVar = (Goal(5.0, "value", "s"),)
    query: ClassVar = _GROUPS
    duckdb: ClassVar = _GROUPS
    expected: ClassVar = {"-C": PER_HOUR, "+C": PER_HOUR}

    def prepare(self, bench: Workbench) -> Setup:
        """Make the groups."""
        groups = bench.sizes.groups
        return self._setup(bench, f"{groups:,} groups", keys=groups, lag=0, rows=groups)


class AsOf(_Incremental):
    """An as-of join."""

    name: ClassVar = "stateful-asof"
    title: ClassVar = "Run of an as-of join over 1,000 new rows"
    compares: ClassVar = (
        f"{_TIMED} Both sides have one and the same key, and watermarks so far behind that as many "
        "rows wait as versions are kept; each run completes 1,000 rows, each of which meets the "
        f"version of its moment. {_YARDSTICK}"
    )
    goals: ClassVar = (Goal(3.0, "value", "s"),)
    query: ClassVar = _ASOF
    duckdb: ClassVar = _ASOF_DUCKDB
    inputs: ClassVar = ("readings", "prices")
    expected: ClassVar = {"+A": PER_HOUR}

    def prepare(self, bench: Workbench) -> Setup:
        """Make the rows that wait, and the versions."""
        kept = bench.sizes.retained
        size = f"one key, {kept:,} rows of each side kept"
        return self._setup(bench, size, keys=1, lag=kept, rows=kept)


class CheckpointSize(Figure):
    """What a stateful query keeps after many runs."""

    name: ClassVar = "checkpoint-size"
    title: ClassVar = "Checkpoint of a windowed query after many runs"
    compares: ClassVar = (
        "Size of the checkpoint file of the windowed aggregate after many runs of 1,000 new rows "
        "each, of which as many stay open all the time; beside its size after the second run."
    )
    unit: ClassVar = "MB"
    goals: ClassVar = (Goal(1.3, "ratio"),)
    heavy: ClassVar = True
    untimed: ClassVar = False

    def prepare(self, bench: Workbench) -> Setup:
        """Run it as often as it takes."""
        kept, runs = 5 * PER_HOUR, bench.sizes.runs
        pipeline = Pipeline(bench, _WINDOWED, ["readings"], keys=_KEYS, lag=kept, rows=kept)
        sizes = []
        for _ in range(runs):
            pipeline.step()
            sizes.append(pipeline.checkpoint_mb())
        contestants = [
            Contestant("odf", lambda: Sample(sizes[-1])),
            Contestant("after 2 runs", lambda: Sample(sizes[1])),
        ]
        return Setup(contestants, f"{runs} runs", rounds=1)


class VerifyReplay(Figure):
    """Running transforms again, to see whether they were run honestly."""

    name: ClassVar = "verify-replay"
    title: ClassVar = "`odf verify` of a derivative"
    compares: ClassVar = (
        "`odf verify NAME` of the windowed aggregate after several runs of 1,000 new rows: hashes, "
        "rules, and every run again with the engine that stayed; beside the same runs when they "
        "were made, with the same engine. Both without the start of the command, as the commands "
        "themselves report it. The original runs are made once, so theirs is one number."
    )
    goals: ClassVar = (Goal(1.2, "ratio"),)
    heavy: ClassVar = True

    def prepare(self, bench: Workbench) -> Setup:
        """Make the runs."""
        kept, runs = 5 * PER_HOUR, bench.sizes.replayed
        # A first derivative of the kind takes what only the first run in a session costs.
        warm_up = Pipeline(bench, _WINDOWED, ["readings"], keys=_KEYS, lag=kept, rows=kept)
        for _ in range(2):
            warm_up.step()
        root = warm_up.root
        add_datasets(bench, root, derivative_of("again", ["readings"], _WINDOWED))
        seconds = _runs(bench, root, warm_up.histories["readings"], runs)
        ours = Contestant("odf", _verified(bench, root, runs))
        return Setup(
            [ours, Contestant("the runs themselves", lambda: Sample(seconds))], f"{runs} runs"
        )


def _runs(bench: Workbench, root: Path, history: History, count: int) -> float:
    found = 0.0
    for _ in range(count):
        history.add(PER_HOUR)
        _, (pulled,) = bench.warm_pull(root, "again")
        found += float(pulled["seconds"])
    return found


def _verified(bench: Workbench, root: Path, runs: int) -> Callable[[], Sample]:
    def work() -> Sample:
        said: Mapping[str, Any] = bench.odf_json(root, "verify", "again", warm=True)
        (found,) = said["datasets"]
        if not found["valid"] or not found["complete"] or found["replayed"] < runs:
            raise BenchError(f"wanted {runs} runs replayed, got {found}")
        return Sample(float(found["seconds"]))

    return work

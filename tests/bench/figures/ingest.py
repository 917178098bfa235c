"""A large file, from CSV to a committed slice, beside those who only convert it."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tests.bench import data
from tests.bench.datasets import add_datasets, new_workspace, root_manifest
from tests.bench.figure import BenchError, Contestant, Figure, Goal, Rate, Sample, Setup
from tests.bench.figures.cold_pull import stage_seconds
from tests.bench.processes import Ran
from tests.bench.spark import java, spark_ddl
from tests.bench.workbench import Workbench

_MB = 1_000_000
_LEAST = 100
_WARMING_ROWS = 1_000
_WHOLE = "process start to exit s"
_QUERY = (
    "SELECT id, at, upper(city) AS city, amount * quantity AS total, returned, code, note "
    f"FROM input WHERE quantity > {_LEAST}"
)
_DUCKDB_TYPES = {"STRING": "VARCHAR", "INT": "INTEGER", "TIMESTAMP": "TIMESTAMPTZ"}


class _Csv:
    """The generated file.

    Args:
        bench: Where it is made.
    """

    def __init__(self, bench: Workbench) -> None:
        self.path = bench.place("large") / "orders.csv"
        self.path.parent.mkdir()
        size = bench.sizes.csv_mb * _MB
        self.rows = data.write_csv(self.path, seed=bench.options.seed, size=size)
        self.mb = self.path.stat().st_size / _MB

    @property
    def words(self) -> str:
        return f"{self.mb:.0f} MB, {self.rows:,} rows, {len(data.DDL)} columns"


def _csv(bench: Workbench) -> _Csv:
    return bench.shared("csv", lambda: _Csv(bench))


def _pull(bench: Workbench, *, watched: bool = False, query: str | None = None) -> Ran:
    csv, rows = _csv(bench), _rows(bench, query)
    manifest = root_manifest("orders", str(csv.path), preprocess=query)
    root = new_workspace(bench, bench.fresh("workspace"), manifest)
    ran = bench.odf(root, "pull", "orders", stages=True, watched=watched)
    if f" {rows:,} +A" not in ran.out:
        raise BenchError(f"wanted {rows:,} rows, got: {ran.out}")
    shutil.rmtree(root)
    return ran


def _spark(bench: Workbench, *, watched: bool = False, query: str | None = None) -> Ran:
    csv, target = _csv(bench), bench.fresh("parts")
    words: list[str | Path] = [
        bench.script("spark_convert.py"),
        java(),
        csv.path,
        spark_ddl(),
        target,
    ]
    ran = bench.run_python(*words, *([] if query is None else [query]), watched=watched)
    _check_rows(list(target.glob("*.parquet")), _rows(bench, query))
    shutil.rmtree(target)
    return ran


def _rows(bench: Workbench, query: str | None) -> int:
    """Return how many rows come out, by Arrow's count."""
    csv = _csv(bench)
    if query is None:
        return csv.rows
    return bench.shared("passing", lambda: _passing(csv))


def _passing(csv: _Csv) -> int:
    found = 0
    with pa_csv.open_csv(csv.path) as batches:
        for batch in batches:
            found += pc.sum(pc.greater(batch.column("quantity"), _LEAST)).as_py()
    return found


def _duckdb(bench: Workbench) -> Ran:
    csv, target = _csv(bench), bench.fresh("orders.parquet")
    columns = [word for column in data.DDL for word in column.split()]
    types = [_DUCKDB_TYPES.get(word, word) for word in columns]
    ran = bench.run_python(bench.script("duckdb_convert.py"), csv.path, target, *types)
    _check_rows([target], csv.rows)
    return ran


def _alone(ran: Ran) -> float:
    """Return what a yardstick says of its seconds without its start."""
    seconds: float = json.loads(ran.out.splitlines()[-1])["seconds"]
    return seconds


def _check_rows(parts: list[Path], wanted: int) -> None:
    found = sum(pq.read_metadata(path).num_rows for path in parts)
    if found != wanted:
        raise BenchError(f"the yardstick wrote {found} rows, wanted {wanted}")


class Ingest(Figure):
    """Throughput of an append."""

    name: ClassVar = "ingest"
    title: ClassVar = "Ingest of a large CSV (append)"
    compares: ClassVar = (
        "Whole processes, from start to exit: `odf pull` of a new dataset (engine started cold; "
        "typed, ordered by event time, one slice with system columns, both hashes, inspected, "
        "committed); Spark's own `read.csv(…).write.parquet(…)` on the same Java with stock "
        "options, which writes parts, no hashes and no offsets; DuckDB on two threads writing one "
        "Snappy file without hashes. Beside them the yardsticks' time without their start."
    )
    # 1.4 times the speed of Spark, and 0.7 times that of DuckDB.
    goals: ClassVar = (
        Goal(round(1 / 1.4, 3), "ratio", yardstick="Spark"),
        Goal(round(1 / 0.7, 3), "ratio", yardstick="DuckDB"),
    )
    heavy: ClassVar = True
    untimed: ClassVar = False

    def prepare(self, bench: Workbench) -> Setup:
        """Write the file."""
        csv = _csv(bench)

        def ours() -> Sample:
            ran = _pull(bench)
            return Sample(ran.seconds, stage_seconds(ran))

        def yardstick(work: Callable[[Workbench], Ran]) -> Sample:
            ran = work(bench)
            return Sample(ran.seconds, {"conversion alone s": _alone(ran)})

        contestants = [
            Contestant("odf", ours),
            Contestant("Spark CSV → Parquet", lambda: yardstick(_spark)),
            Contestant("DuckDB CSV → Parquet", lambda: yardstick(_duckdb)),
        ]
        return Setup(contestants, csv.words, Rate("MB/s", csv.mb))


class IngestWarm(Figure):
    """Throughput of an append by an engine that stayed, without anybody's start."""

    name: ClassVar = "ingest-warm"
    title: ClassVar = "Ingest of that CSV by a warm engine, conversion alone"
    compares: ClassVar = (
        "The same pull where an engine stayed from an earlier command, from the file to the "
        "committed block: the part between taking and giving back the dataset's lock, with both "
        "hashes and the inspection of the slice. The yardsticks are the same programs as above, "
        "without their start and end: the seconds from the first statement about the file to the "
        "last. From process start to exit is beside each. The run counts only if the engine that "
        "stayed was used; it has pulled 1,000 rows before."
    )
    heavy: ClassVar = True
    slow: ClassVar = True
    untimed: ClassVar = False

    def prepare(self, bench: Workbench) -> Setup:
        """Write the file, and make an engine warm."""
        csv, root = _csv(bench), new_workspace(bench, bench.fresh("workspace"))
        bench.use(bench.kept_warm(root))
        data.write_csv(root / "small.csv", rows=_WARMING_ROWS, seed=bench.options.seed)
        add_datasets(bench, root, root_manifest("small", "small.csv"))
        bench.odf(root, "pull", "-q", "small", warm=True)
        numbers = itertools.count()

        def ours() -> Sample:
            name = f"orders{next(numbers)}"
            add_datasets(bench, root, root_manifest(name, str(csv.path)))
            ran, (pulled,) = bench.warm_pull(root, name)
            if sum(pulled["records"].values()) != csv.rows:
                raise BenchError(f"wanted {csv.rows:,} rows, got: {pulled['records']}")
            bench.odf(root, "delete", "-q", "--yes", name)
            return Sample(pulled["seconds"], {_WHOLE: ran.seconds})

        def yardstick(work: Callable[[Workbench], Ran]) -> Sample:
            ran = work(bench)
            return Sample(_alone(ran), {_WHOLE: ran.seconds})

        contestants = [
            Contestant("odf, warm", ours),
            Contestant("Spark CSV → Parquet, alone", lambda: yardstick(_spark)),
            Contestant("DuckDB CSV → Parquet, alone", lambda: yardstick(_duckdb)),
        ]
        return Setup(contestants, csv.words, Rate("MB/s", csv.mb))


class IngestPreprocessed(Figure):
    """Throughput of an append whose rows go through a query."""

    name: ClassVar = "ingest-preprocess"
    title: ClassVar = "Ingest of that CSV through a preprocess query"
    compares: ClassVar = (
        "Whole processes, from start to exit: `odf pull` of a new dataset whose source has a "
        "preprocess query (a filter that nine rows of ten pass, two computed columns); Spark's own "
        "reader, the same SQL, and `write.parquet`, on the same Java with stock options, which "
        "writes parts, no hashes and no offsets. Megabytes are those of the CSV."
    )
    # 0.6 times the speed of Spark.
    goals: ClassVar = (Goal(round(1 / 0.6, 3), "ratio", yardstick="Spark"),)
    heavy: ClassVar = True
    untimed: ClassVar = False

    def prepare(self, bench: Workbench) -> Setup:
        """Write the file."""
        csv = _csv(bench)
        _rows(bench, _QUERY)

        def ours() -> Sample:
            ran = _pull(bench, query=_QUERY)
            return Sample(ran.seconds, stage_seconds(ran))

        def yardstick() -> Sample:
            ran = _spark(bench, query=_QUERY)
            return Sample(ran.seconds, {"conversion alone s": _alone(ran)})

        contestants = [Contestant("odf", ours), Contestant("Spark, the same SQL", yardstick)]
        return Setup(contestants, csv.words, Rate("MB/s", csv.mb))


class IngestMemory(Figure):
    """Peak of memory of an append."""

    name: ClassVar = "ingest-memory"
    title: ClassVar = "Memory of that ingest"
    compares: ClassVar = (
        "Peak of the memory of all processes of the same pull at one moment, sampled ten times a "
        "second and added up (proportional: a page that processes share is divided among them, "
        "pages of mapped files count), with the peak of each kind of process beside it, and that "
        "of all Python processes together; the yardstick is Spark's own conversion, its Python "
        "and its JVM."
    )
    unit: ClassVar = "MB"
    goals: ClassVar = (Goal(400, "Python MB", "MB"),)
    heavy: ClassVar = True
    slow: ClassVar = True
    untimed: ClassVar = False
    max_rounds: ClassVar = 2

    def prepare(self, bench: Workbench) -> Setup:
        """Write the file."""
        csv = _csv(bench)

        def sample(work: Callable[..., Ran]) -> Sample:
            peaks = dict(work(bench, watched=True).memory)
            total = peaks.pop("total", 0.0)
            return Sample(total, {f"{role} MB": size for role, size in sorted(peaks.items())})

        contestants = [
            Contestant("odf", lambda: sample(_pull)),
            Contestant("Spark CSV → Parquet", lambda: sample(_spark)),
        ]
        return Setup(contestants, csv.words)

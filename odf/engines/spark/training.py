"""The work that a JVM does while its class archive is made: a bit of everything that users do.

What runs here starts quickly afterwards; anything else runs as before. The data is made up and
small: it is classes that are remembered, not speed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from odf.engines.host.engine import (
    IngestJob,
    InputView,
    Rows,
    SourceFile,
    TransformJob,
    ValidatedInput,
)
from odf.engines.host.finish import SliceOrder, finish
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.session import SparkSettings
from odf.metadata.model import (
    DEFAULT_VOCAB,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepCsv,
    SqlQueryStep,
    Timestamp,
    TransformSql,
)

_TIME: Final = Timestamp.parse("2024-01-01T00:00:00Z")
_ROWS: Final = 1_000
_SCHEMA: Final = (
    "event_time TIMESTAMP",
    "id BIGINT",
    "city STRING",
    "price DOUBLE",
    "amount DECIMAL(18, 4)",
    "open BOOLEAN",
)
_PREPROCESS: Final = (
    "select event_time, id, upper(city) as city, price, amount, open from input",
    (
        "select max(event_time) as event_time, max(id) as id, city, avg(price) as price, "
        "cast(sum(amount) as decimal(18, 4)) as amount, max(open) as open from input "
        "group by city order by city"
    ),
)
_TRANSFORMS: Final = (
    ("select event_time, id, city from a where price > 10",),
    (
        (
            "select event_time, id, cast(price as decimal(10, 2)) as price, "
            "case when open then 'yes' else 'no' end as open from a where city like 'c%'"
        ),
        "select *, concat(open, '-', coalesce(cast(id as string), '')) as tag from step_0",
    ),
    (
        (
            "select event_time, id, price * 2 as twice, year(event_time) as y, "
            "date_format(event_time, 'yyyy-MM') as month, regexp_replace(city, 'c', 'C') as c "
            "from a "
            "union all select event_time, id, 0 as twice, 0 as y, '' as month, city as c from b"
        ),
    ),
)
_RAW: Final = (
    (
        "select city, count(*) as n, sum(price) as total, min(event_time) as first from input "
        "group by city having count(*) > 1 order by n desc limit 10"
    ),
    "select *, row_number() over (partition by city order by event_time, id) as n from input",
    "select l.id, r.city from input l join input r on l.id = r.id where l.price > 1",
    "with x as (select distinct city from input) select city, length(city) as n from x",
)


class _Silent:
    """A reporter that nobody reads."""

    def progress(self, stage: str, rows: int | None = None) -> None:
        """Drop it."""

    def warning(self, message: str) -> None:
        """Drop it."""


def train(settings: SparkSettings) -> None:
    """Do the work, and end Spark in good order so that the archive is written.

    Args:
        settings: With `train` set.
    """
    # Merges that go inside one task need no more of Java than reading does; the others do.
    engine = SparkEngine(settings, task_bytes=-1)
    try:
        engine.warm_up()
        slices = _ingest(engine, settings.scratch)
        _query(engine, settings.scratch, slices)
    finally:
        engine.close()


def _ingest(engine: SparkEngine, folder: Path) -> list[tuple[Path, pa.Schema]]:
    """Run two rounds of each merge strategy and return the slices of the first."""
    strategies: list[MergeStrategy] = [
        MergeStrategyAppend(),
        MergeStrategyLedger(primary_key=("id",)),
        MergeStrategySnapshot(primary_key=("id",)),
    ]
    slices: list[tuple[Path, pa.Schema]] = []
    queries = (None, *(_sql(query) for query in _PREPROCESS))
    for number, merge in enumerate(strategies):
        history: list[tuple[Path, pa.Schema]] = []
        for turn, query in enumerate(queries):
            made = _round(engine, folder / f"ingest-{number}-{turn}", merge, query, history)
            history += made
        if number == 0:
            slices = history
    return slices


def _round(
    engine: SparkEngine,
    folder: Path,
    merge: MergeStrategy,
    query: TransformSql | None,
    history: Sequence[tuple[Path, pa.Schema]],
) -> list[tuple[Path, pa.Schema]]:
    folder.mkdir(parents=True)
    source = folder / "source.csv"
    source.write_text(_csv(shift=len(history)))
    output = folder / "slice.parquet"
    next_offset = len(history) * _ROWS
    job = IngestJob(
        dataset_alias="training",
        files=(SourceFile(str(source), source.name),),
        read=ReadStepCsv(header=True, schema=_SCHEMA),
        preprocess=query,
        merge=merge,
        vocab=DEFAULT_VOCAB,
        system_time=_TIME,
        source_event_time=_TIME,
        next_offset=next_offset,
        dataset_schema=history[0][1] if history else None,
        history_paths=tuple(str(path) for path, _ in history),
        output_path=str(output),
        scratch=folder / "scratch",
        allow_retract=True,
        allow_empty=False,
        max_retract_share=1.0,
        min_rows_for_retract_guard=_ROWS,
    )
    rows = engine.ingest(job, _Silent()).rows
    return _finish(rows, output, next_offset, from_query=False)


def _finish(
    rows: Rows, output: Path, next_offset: int, *, from_query: bool
) -> list[tuple[Path, pa.Schema]]:
    order = SliceOrder(DEFAULT_VOCAB, next_offset, _TIME, output, from_query=from_query)
    made = finish(rows, order)
    return [(output, made.schema)] if output.exists() else []


def _query(engine: SparkEngine, folder: Path, slices: list[tuple[Path, pa.Schema]]) -> None:
    path, schema = slices[0]
    views = [
        InputView(name, (str(path),), str(path), DEFAULT_VOCAB, 0, _ROWS - 1) for name in ("a", "b")
    ]
    inputs = [ValidatedInput(name, schema, has_retractions=False) for name in ("a", "b")]
    for number, steps in enumerate(_TRANSFORMS):
        query = _sql(*steps)
        used = slice(2 if "from b" in steps[-1] else 1)
        engine.validate(query, inputs[used], DEFAULT_VOCAB, preprocess=False)
        scratch = folder / f"transform-{number}"
        job = TransformJob(query, tuple(views[used]), DEFAULT_VOCAB, scratch)
        rows = engine.transform(job)
        _finish(rows, folder / f"transform-{number}.parquet", 0, from_query=True)
    for number, text in enumerate(_RAW):
        rows = engine.raw_query(_sql(text), [str(path)], folder / f"raw-{number}")
        for _ in rows.batches:
            pass


def _csv(shift: int) -> str:
    lines = ["event_time,id,city,price,amount,open"]
    lines += [
        f"2024-01-{row % 28 + 1:02} 10:00:00,{row + shift * 10},city-{row % 7},"
        f"{row * 1.5 + shift},{row}.25,{'true' if row % 2 else 'false'}"
        for row in range(_ROWS)
    ]
    return "\n".join(lines) + "\n"


def _sql(*steps: str) -> TransformSql:
    named = [
        SqlQueryStep(query=query, alias=f"step_{number}") for number, query in enumerate(steps[:-1])
    ]
    return TransformSql("spark", queries=(*named, SqlQueryStep(query=steps[-1])))

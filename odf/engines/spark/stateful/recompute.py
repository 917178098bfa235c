"""Queries that only all rows together can answer: computed anew by each run, and compared.

What is given out is the difference between two results as multisets of rows: those that are gone
are retracted, those that are new appended. So the cost of a run grows with the history, and both
the rows that are kept and those of the result are limited.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from odf.data.types import slice_type
from odf.engines.host.engine import Rows
from odf.engines.spark.collect import SMALL_ROWS, collect
from odf.engines.spark.merge.frames import read_parquet
from odf.engines.spark.query.inputs import PreparedInput
from odf.engines.spark.stateful.base import StatefulRun
from odf.engines.spark.stateful.diff import comparable
from odf.engines.spark.stateful.kinds import Derived, Question, Stateful
from odf.engines.spark.stateful.nodes import Nodes
from odf.engines.spark.stateful.order import by_time_then_values, sorted_in_one_partition
from odf.engines.spark.stateful.ordered import TotalOrder, keep_row_order
from odf.engines.spark.stateful.tables import (
    NO_POSITIONS,
    arrow_schema_of,
    column_not_kept,
    compress,
    compute,
    write_table,
)
from odf.errors import BadInputError, InvalidQueryError
from odf.limits import MAX_RECOMPUTED_ROWS
from odf.metadata.model import OperationType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_GIVEN_OUT: Final = "given-out"
_COUNT: Final = "n"
_OP: Final = "op"
_HINT: Final = (
    "add a time window or a range of event times, or use ASOF JOIN for the version valid at a "
    "time: then the engine keeps only the rows that are needed"
)


def derive_whole_history(question: Question, found: Stateful | str) -> Derived | str:
    """Tell whether a query can be computed anew by each run (see `classify`).

    Args:
        question: The query.
        found: Its only stateful node, or why there is none.

    Raises:
        InvalidQueryError: It can, but has a column that the engine makes itself.
    """
    if question.transform.temporal_tables:
        return "temporal tables are only for joins that look for a version"
    plan = question.analysed.plan
    if any(node.kind == "AsOfJoin" for node in plan.walk(question.views)):
        return found if isinstance(found, str) else "it has an as-of join"
    column = column_not_kept(question.analysed.frame)
    if column is not None:
        return f"its result has the column {column}, a type that cannot be kept"
    operation = question.vocab.operation_type_column
    for name in question.analysed.frame.columns:
        if name.casefold() == operation.casefold():
            raise InvalidQueryError(
                f"the result has a column `{name}`, but the rows of a query that looks at the "
                "whole history get their operations from the engine",
                hint="leave it out, or rename it with AS",
            )
    words = (
        "computed anew from the whole history by each run, keeps all rows of its inputs "
        f"({MAX_RECOMPUTED_ROWS:,} at most)"
    )
    return Derived(None, words)


def run_whole_history(run: StatefulRun) -> Rows:
    """Compute the result anew and give out what changed; the new state is written on return.

    Args:
        run: The run.

    Raises:
        BadInputError: There are too many rows, or the state is damaged.
    """
    frame = run.analyse().frame
    columns = arrow_schema_of(frame)
    operation = run.job.vocab.operation_type_column
    fields = [pa.field(field.name, slice_type(field.type)) for field in columns]
    schema = pa.schema([*fields, pa.field(operation, pa.int32())])
    if not any(given.rows for given in run.new):
        if run.state is not None:
            run.save(run.state.meta, run.state.tables)
        return Rows(schema, iter(()))
    live = [
        run.live_view(number, run.retained(number, f"rows-{number}"), drop_late=False)
        for number in range(len(run.new))
    ]
    _check_count(sum(given.rows for given in live), "its inputs have")
    return Rows(schema, _changes(run, live, columns, schema))


def _changes(
    run: StatefulRun, live: list[PreparedInput], columns: pa.Schema, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    scratch = run.job.scratch
    # A join may make many rows of few.
    small = sum(given.rows for given in live) <= SMALL_ROWS // 10
    new = compute(run.spark, _result(run, live), scratch / "result", small=small)
    _check_count(new.rows, "its result has")
    old = None
    if run.state is not None and (path := run.state.table(_GIVEN_OUT, columns)) is not None:
        old = read_parquet(run.spark, [str(path)], columns)
    names = [f"c{number}" for number in range(len(columns))]
    found = collect(
        _difference(
            None if old is None else old.toDF(*names),
            new.frame.toDF(*names),
            names[columns.names.index(run.job.vocab.event_time_column)],
        ),
        scratch / "changes",
        small=small,
    )
    given_out = scratch / "given-out.parquet"
    write_table(given_out, columns, None, NO_POSITIONS, new.collected.batches(columns))
    rows = {
        f"rows-{number}": compress(Path(given.path), scratch / f"kept-{number}.parquet")
        for number, given in enumerate(live)
    }
    run.save({}, {_GIVEN_OUT: given_out, **rows})
    return found.batches(schema)


def _result(run: StatefulRun, live: list[PreparedInput]) -> "DataFrame":
    """Return the result over all current rows, the same whatever partitions they are in."""
    keep_row_order(run.spark)
    run.register_views(*live)
    nodes = Nodes(run.spark)
    offsets = {view.alias.casefold(): view.vocab.offset_column for view in run.inputs}
    plan = TotalOrder(nodes, offsets).rewrite(run.analyse().plan)
    return nodes.frame(plan).limit(MAX_RECOMPUTED_ROWS + 1)


def _difference(old: "DataFrame | None", new: "DataFrame", event_time: str) -> "DataFrame":
    """Return the rows that are gone and those that are new, with their operations, in order.

    Args:
        old: The result of the last run, or None.
        new: The result of this run, in the same columns.
        event_time: Name of the event time column in them.
    """
    names = new.columns
    both = new.selectExpr("*", f"1L AS {_COUNT}")
    if old is not None:
        both = old.selectExpr("*", f"-1L AS {_COUNT}").unionAll(both)
    types = {field.name: field.dataType for field in new.schema}
    groups = [f"{comparable(name, types[name])} AS g_{name}" for name in names]
    found = (
        both.selectExpr("*", *groups)
        .groupBy(*[f"g_{name}" for name in names])
        .agg(*_aggregates(names))
        .where(f"{_COUNT} <> 0")
        .selectExpr(
            *names,
            f"IF({_COUNT} < 0, {int(OperationType.RETRACT)}, {int(OperationType.APPEND)}) AS {_OP}",
            f"explode(array_repeat(0, CAST(abs({_COUNT}) AS INT))) AS {_COUNT}",
        )
        .drop(_COUNT)
    )
    return sorted_in_one_partition(found, by_time_then_values(found, event_time, _OP))


def _aggregates(names: list[str]) -> list["Column"]:
    from pyspark.sql import functions  # noqa: PLC0415

    # Equal rows differ at most in what a slice does not hold.
    values = [functions.first(name).alias(name) for name in names]
    return [functions.sum(_COUNT).alias(_COUNT), *values]


def _check_count(rows: int, what: str) -> None:
    if rows > MAX_RECOMPUTED_ROWS:
        raise BadInputError(
            f"the query is computed anew from the whole history by each run, and {what} more than "
            f"{MAX_RECOMPUTED_ROWS:,} rows",
            reason="too_many_rows",
            hint=_HINT,
        )

"""The upsert strategy: rows are new states of their keys, or say that a key is gone.

Of several rows with one key in a batch the last one in input order counts. It is held against the
newest state in the history; a row that says what is known already is not written.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odf.engines.host.engine import IngestedRows, Rows
from odf.engines.spark.collect import Collected, collect
from odf.engines.spark.merge.checks import refuse_null_keys, refuse_unknown_operations
from odf.engines.spark.merge.context import MergeContext
from odf.engines.spark.merge.event_time import filled
from odf.engines.spark.merge.frames import OP, ROW, history_frame, names_of, new_frame
from odf.engines.spark.merge.layout import PRIMARY_KEY, MergeLayout
from odf.engines.spark.merge.small import merge_in_task
from odf.engines.spark.merge.snapshot import project_state
from odf.metadata.model import MergeStrategyUpsertStream, OperationType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_APPEND, _RETRACT, _FROM, _TO = (int(kind) for kind in OperationType)


def upsert(merge: MergeContext, strategy: MergeStrategyUpsertStream) -> IngestedRows:
    """Merge new states of keys (merge-strategies.md "UpsertStream", design §7).

    Rows whose operation is a retraction delete their key, all others set it; without an operation
    column all set theirs.

    Args:
        merge: The rows and where they go.
        strategy: The primary key.

    Raises:
        BadInputError: A key column is missing or null, or an operation is.
    """
    new, layout = merge.new, merge.layout
    keys = layout.positions(strategy.primary_key, PRIMARY_KEY)
    refuse_null_keys(new, layout, keys)
    if layout.has_op:
        refuse_unknown_operations(new, layout)
    merged = merge_in_task(merge, strategy, keys, _compared(layout, keys))
    found = _by_sql(merge, keys) if merged is None else merged[0]
    written = sum(found.count(OP, operation) for operation in (_APPEND, _RETRACT, _TO))
    schema = layout.output_schema(layout.vocab.operation_type_column, keeps_not_null=keys)
    return IngestedRows(
        Rows(schema, found.batches(schema)),
        rows_read=new.parts.rows,
        rows_unchanged=new.parts.rows - written,
    )


def _compared(layout: MergeLayout, keys: Sequence[int]) -> list[int]:
    return [
        position
        for position, column in enumerate(layout.columns)
        if position not in keys and column.in_new
    ]


def _by_sql(merge: MergeContext, keys: Sequence[int]) -> Collected:
    _newest(merge, keys).createOrReplaceTempView("odf_new")
    changes = _changes(merge, keys) if merge.history else _first(merge)
    order = [f"c{key}" for key in keys]
    return collect(changes.sort(*order, OP), merge.scratch / "merged", small=merge.small)


def _newest(merge: MergeContext, keys: Sequence[int]) -> "DataFrame":
    """Return the last row of each key."""
    rows = new_frame(merge.spark, merge.new, merge.layout)
    if not merge.layout.has_op:
        rows = rows.selectExpr("*", f"{_APPEND} AS {OP}")
    by_key = ", ".join(f"c{key}" for key in keys)
    return (
        rows.selectExpr("*", f"row_number() OVER (PARTITION BY {by_key} ORDER BY {ROW} DESC) AS n")
        .where("n = 1")
        .drop("n", ROW)
    )


def _first(merge: MergeContext) -> "DataFrame":
    return (
        merge.spark.table("odf_new")
        .where(f"{OP} <> {_RETRACT}")
        .selectExpr(
            f"{_APPEND} AS {OP}",
            f"{filled('c0', merge.layout, merge.event_time)} AS c0",
            *names_of(merge.layout)[1:],
        )
    )


def _changes(merge: MergeContext, keys: Sequence[int]) -> "DataFrame":
    layout, spark = merge.layout, merge.spark
    names = names_of(layout)
    history = history_frame(spark, merge.history, layout, range(len(layout.columns)))
    state = project_state(history, keys).selectExpr("true AS here", *names)
    state.createOrReplaceTempView("odf_old")
    same = [
        f"(n.c{position} IS NULL OR n.c{position} <=> o.c{position})"
        if position == 0  # an event time counts only where the new row has one
        else f"n.c{position} <=> o.c{position}"
        for position in _compared(layout, keys)
    ]
    changed = f"NOT ({' AND '.join(same)})" if same else "false"
    old_values = ", ".join(f"o.{name} AS {name}" for name in names)
    new_values = ", ".join(
        [f"{filled('n.c0', layout, merge.event_time)} AS c0", *(f"n.{n} AS {n}" for n in names[1:])]
    )

    def row(operation: int, values: str) -> str:
        return f"struct({operation} AS {OP}, {values})"

    deletes, known = f"n.{OP} = {_RETRACT}", "o.here IS NOT NULL"
    on = " AND ".join(f"o.c{key} = n.c{key}" for key in keys)
    return spark.sql(
        f"""SELECT inline(CASE
              WHEN {deletes} THEN array({row(_RETRACT, old_values)})
              WHEN {known} THEN array({row(_FROM, old_values)}, {row(_TO, new_values)})
              ELSE array({row(_APPEND, new_values)}) END)
            FROM odf_new n LEFT JOIN odf_old o ON {on}
            WHERE CASE WHEN {deletes} THEN {known}
                       WHEN {known} THEN {changed} ELSE true END"""  # noqa: S608  # names are c0, …
    )

"""The snapshot strategy: what changed between the current state and a new full copy.

State and copy meet in one null-safe outer join. A row that is on one side only is new or gone
whatever its values are; one that is on both sides changed if a compared column is distinct.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odf.engines.host.engine import IngestedRows, Rows
from odf.engines.spark.collect import collect
from odf.engines.spark.merge.checks import refuse_duplicate_keys, refuse_null_keys
from odf.engines.spark.merge.context import MergeContext
from odf.engines.spark.merge.event_time import filled
from odf.engines.spark.merge.frames import OFFSET, OP, history_frame, names_of, new_frame
from odf.engines.spark.merge.layout import PRIMARY_KEY, MergeLayout
from odf.engines.spark.merge.small import merge_in_task
from odf.errors import BadInputError
from odf.metadata.model import MergeStrategySnapshot, OperationType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class RetractGuard:
    """How much a snapshot may lose before it has to be allowed (design §7).

    Attributes:
        allowed: Whether any loss is.
        max_share: Share of the state's rows that may be retracted.
        min_rows: Size of the state from which that share counts.
    """

    allowed: bool
    max_share: float
    min_rows: int


def snapshot(
    merge: MergeContext, strategy: MergeStrategySnapshot, guard: RetractGuard
) -> IngestedRows:
    """Merge a snapshot (merge-strategies.md "Snapshot", design §7).

    Args:
        merge: The rows and where they go.
        strategy: The primary key and the compared columns.
        guard: How much may be lost.

    Raises:
        BadInputError: A key column is missing, null or not unique, a compared column is missing,
            or more is lost than the guard lets pass.
    """
    new, layout = merge.new, merge.layout
    keys = layout.positions(strategy.primary_key, PRIMARY_KEY)
    compared = _compared(layout, strategy, keys)
    refuse_null_keys(new, layout, keys)
    refuse_duplicate_keys(new, layout, keys)
    merged = merge_in_task(merge, strategy, keys, compared)
    if merged is not None:
        found, state_rows = merged[0], merged[1].state_rows
    else:
        frame = _changes(merge, keys, compared) if merge.history else _first(merge)
        order = [f"c{key}" for key in keys]
        found = collect(frame.sort(*order, OP), merge.scratch / "merged", small=merge.small)
        state_rows = None
    retracted = found.count(OP, OperationType.RETRACT)
    if retracted and not guard.allowed:
        _check_loss(merge, retracted, keys, guard, state_rows)
    written = found.count(OP, OperationType.APPEND) + found.count(OP, OperationType.CORRECT_TO)
    schema = layout.output_schema(layout.vocab.operation_type_column, keeps_not_null=keys)
    return IngestedRows(
        Rows(schema, found.batches(schema)),
        rows_read=new.parts.rows,
        rows_unchanged=new.parts.rows - written,
    )


def project_state(history: "DataFrame", keys: Sequence[int]) -> "DataFrame":
    """Return the newest row of each key, unless it is a retraction.

    Args:
        history: A frame as `history_frame` makes it.
        keys: Positions of the key columns in it.
    """
    by_key = ", ".join(f"c{key}" for key in keys)
    return (
        history.selectExpr(
            "*", f"row_number() OVER (PARTITION BY {by_key} ORDER BY {OFFSET} DESC) AS n"
        )
        .where(f"n = 1 AND {OP} <> {int(OperationType.RETRACT)}")
        .drop("n")
    )


def _compared(
    layout: MergeLayout, strategy: MergeStrategySnapshot, keys: Sequence[int]
) -> tuple[int, ...]:
    if strategy.compare_columns:
        return layout.positions(strategy.compare_columns, "compared")
    return tuple(
        position
        for position, column in enumerate(layout.columns)
        if position not in keys and column.in_new
    )


def _first(merge: MergeContext) -> "DataFrame":
    return new_frame(merge.spark, merge.new, merge.layout).selectExpr(
        f"{int(OperationType.APPEND)} AS {OP}",
        f"{filled('c0', merge.layout, merge.event_time)} AS c0",
        *names_of(merge.layout)[1:],
    )


def _changes(merge: MergeContext, keys: Sequence[int], compared: Sequence[int]) -> "DataFrame":
    spark, layout = merge.spark, merge.layout
    names = names_of(layout)
    new = new_frame(spark, merge.new, layout)
    old = project_state(history_frame(spark, merge.history, layout, range(len(names))), keys)
    old.selectExpr("true AS here", *names).createOrReplaceTempView("odf_old")
    new.selectExpr("true AS here", *names).createOrReplaceTempView("odf_new")
    gone, appeared = "n.here IS NULL", "o.here IS NULL"
    same = [
        f"(n.c{position} IS NULL OR n.c{position} <=> o.c{position})"
        if position == 0  # an event time counts only where the new row has one
        else f"n.c{position} <=> o.c{position}"
        for position in compared
    ]
    changed = f"NOT ({' AND '.join(same)})" if same else "false"
    old_values = ", ".join(f"o.{name} AS {name}" for name in names)
    new_values = ", ".join(
        [f"{filled('n.c0', layout, merge.event_time)} AS c0", *(f"n.{n} AS {n}" for n in names[1:])]
    )

    def row(operation: OperationType, values: str) -> str:
        return f"struct({int(operation)} AS {OP}, {values})"

    on = " AND ".join(f"o.c{key} <=> n.c{key}" for key in keys)
    return spark.sql(
        f"""SELECT inline(CASE
              WHEN {gone} THEN array({row(OperationType.RETRACT, old_values)})
              WHEN {appeared} THEN array({row(OperationType.APPEND, new_values)})
              ELSE array({row(OperationType.CORRECT_FROM, old_values)},
                         {row(OperationType.CORRECT_TO, new_values)}) END)
            FROM odf_old o FULL OUTER JOIN odf_new n ON {on}
            WHERE {gone} OR {appeared} OR {changed}"""  # noqa: S608  # names are c0, c1, …
    )


def _check_loss(
    merge: MergeContext,
    retracted: int,
    keys: Sequence[int],
    guard: RetractGuard,
    state: int | None,
) -> None:
    if state is None:
        history = history_frame(merge.spark, merge.history, merge.layout, keys)
        state = project_state(history, keys).count()
    rows = merge.new.parts.rows
    if rows and (state < guard.min_rows or retracted <= guard.max_share * state):
        return
    what = "the snapshot is empty" if not rows else f"the snapshot has {rows} rows"
    raise BadInputError(
        f"{what}: it would retract {retracted} of the {state} current rows; nothing was ingested",
        reason="retract_guard",
        hint="look at the source; if this is right, accept it with --allow-retract, or for good "
        "with `ingest.<name>.maxRetract` in the configuration",
        details={"retracted": retracted, "state": state, "rows": rows},
    )

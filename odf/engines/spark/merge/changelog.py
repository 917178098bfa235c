"""The changelog strategy: the rows say themselves what each of them does to its key.

They are written as they are, by key, and what happens to one key stays in its order. Only halves
of corrections that stand alone are settled, as in every slice that we write (design §7): a lone
`-C` is a `-R`, a lone `+C` a `+A`.
"""

from collections.abc import Sequence
from dataclasses import replace

from odf.engines.host.engine import IngestedRows, Reporter, Rows
from odf.engines.spark.collect import Collected, collect
from odf.engines.spark.merge.checks import refuse_null_keys, refuse_unknown_operations
from odf.engines.spark.merge.context import MergeContext
from odf.engines.spark.merge.event_time import filled
from odf.engines.spark.merge.frames import OP, ROW, names_of, new_frame
from odf.engines.spark.merge.layout import PRIMARY_KEY
from odf.engines.spark.merge.small import merge_in_task
from odf.errors import BadInputError
from odf.metadata.model import MergeStrategyChangelogStream, OperationType

_APPEND, _RETRACT, _FROM, _TO = (int(kind) for kind in OperationType)
_LONE = "lone"


def changelog(
    merge: MergeContext, strategy: MergeStrategyChangelogStream, report: Reporter
) -> IngestedRows:
    """Take in a stream of changes (merge-strategies.md "ChangelogStream", design §7).

    Args:
        merge: The rows and where they go.
        strategy: The primary key.
        report: Is told about halves of corrections.

    Raises:
        BadInputError: A key column is missing or null, or an operation is.
    """
    new, layout = merge.new, merge.layout
    keys = layout.positions(strategy.primary_key, PRIMARY_KEY)
    op_column = layout.vocab.operation_type_column
    if not layout.has_op and new.parts.rows:
        raise BadInputError(
            f"the merge strategy ChangelogStream needs the column `{op_column}`, which says what "
            f"each row does; the data has {', '.join(f'`{c.name}`' for c in layout.columns)}",
            reason="missing_key",
            hint="for rows that are new states of their keys use UpsertStream, for full copies "
            "Snapshot",
        )
    refuse_null_keys(new, layout, keys)
    if layout.has_op:
        refuse_unknown_operations(new, layout)
    merged = merge_in_task(merge, strategy, keys)
    if merged is not None:
        found, lone = merged[0], merged[1].lone
    else:
        found, lone = _by_sql(merge, keys)
    if lone:
        report.warning(
            f"{lone} halves of corrections have no other half beside them: a lone -C was taken "
            "as -R, a lone +C as +A"
        )
    schema = layout.output_schema(op_column, keeps_not_null=range(len(layout.columns)))
    return IngestedRows(Rows(schema, found.batches(schema)), new.parts.rows)


def _by_sql(merge: MergeContext, keys: Sequence[int]) -> tuple[Collected, int]:
    """Return the rows, and how many operations were settled."""
    layout = merge.layout
    by_key = ", ".join(f"c{key}" for key in keys)
    within = f"OVER (PARTITION BY {by_key} ORDER BY {ROW})"
    rows = new_frame(merge.spark, merge.new, layout)
    if not layout.has_op:
        rows = rows.selectExpr("*", f"{_APPEND} AS {OP}")
    settled = (
        f"CASE WHEN {OP} = {_FROM} AND NOT (lead({OP}) {within} <=> {_TO}) THEN {_RETRACT} "
        f"WHEN {OP} = {_TO} AND NOT (lag({OP}) {within} <=> {_FROM}) THEN {_APPEND} "
        f"ELSE {OP} END"
    )
    frame = (
        rows.selectExpr(f"{settled} AS s", "*")
        .selectExpr(
            f"s AS {OP}",
            f"{filled('c0', layout, merge.event_time)} AS c0",
            *names_of(layout)[1:],
            f"CASE WHEN s = {OP} THEN 0 ELSE 1 END AS {_LONE}",
            *[f"c{key} AS k{key}" for key in keys],
            ROW,
        )
        .sort(*[f"k{key}" for key in keys], ROW)
        .drop(ROW, *[f"k{key}" for key in keys])
    )
    found = collect(frame, merge.scratch / "merged", small=merge.small)
    lone = found.count(_LONE, 1)
    visible = found.schema.remove(found.schema.get_field_index(_LONE))
    return replace(found, schema=visible), lone

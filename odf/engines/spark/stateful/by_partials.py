"""Changing aggregates from partial results: a state of one row for each group.

The partial results of the new rows are added to those that were kept of the same groups. What the
query makes of the kept ones is what was given out, so that needs no table of its own.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.spark.collect import SMALL_ROWS, Collected
from odf.engines.spark.required import sound_batch
from odf.engines.spark.stateful.base import StatefulRun
from odf.engines.spark.stateful.carry import Carrier
from odf.engines.spark.stateful.diff import Changes, find_changes
from odf.engines.spark.stateful.grouped import GroupedQuery
from odf.engines.spark.stateful.groups import (
    GROUPS,
    WEIGHT_COLUMN,
    GroupTable,
    group_meta,
    key_labels,
)
from odf.engines.spark.stateful.partials import WEIGHT, Partials
from odf.engines.spark.stateful.tables import (
    NO_POSITIONS,
    POSITION,
    Computed,
    compute,
    positions,
    read_table,
    rows_with_keys,
    write_table,
)
from odf.errors import BadInputError

BY_PARTIALS: Final = "partial results"
"""What a state says that is made this way."""


def run_by_partials(run: StatefulRun, query: GroupedQuery, kept: GroupTable | None) -> Changes:
    """Add the new rows to the partial results, and write the new state.

    Args:
        run: The run.
        query: The query over the new rows with their weights.
        kept: The partial results of the last run, or None in a first run.

    Raises:
        BadInputError: A retraction takes an extreme away and the next one is not known.
    """
    partials = Partials(query)
    scratch = run.job.scratch
    small = sum(given.rows for given in run.new) <= SMALL_ROWS
    carrier = Carrier(
        query.nodes, {view: [WEIGHT_COLUMN] for view in query.offsets}, [WEIGHT_COLUMN]
    )
    carried = carrier.carry(query.child)
    of_rows = partials.of_rows(carried.plan, carried.columns[0])
    delta = compute(run.spark, of_rows, scratch / "delta", small=small)
    schema = pa.schema([delta.collected.schema.field(name) for name in partials.names])
    labels = [*key_labels(query.key_names), *partials.labels]
    path = old = matched = None
    if kept is not None:
        path = kept.fitted(labels, schema, scratch / "fitted.parquet")
        same = rows_with_keys(read_table(run.spark, path), delta.frame, query.key_columns)
        matched = compute(run.spark, same, scratch / "matched", small=small)
        old = partials.results(matched.frame).selectExpr("*", f"-1L AS {POSITION}")
    together = partials.merged(delta.frame, matched.frame if matched else None)
    merged = compute(run.spark, together, scratch / "merged", small=small) if matched else delta
    _check_extremes(query, partials, merged)
    _tell_overdrawn(run, merged.collected)
    changes = find_changes(
        old,
        partials.results(merged.frame),
        query.key_columns,
        query.value_columns,
        scratch / "changes",
        small=small,
    )
    removed = positions(matched.collected) if matched else NO_POSITIONS
    table = scratch / "groups.parquet"
    write_table(table, schema, path, removed, _to_keep(partials, merged.collected, schema))
    run.save(group_meta(BY_PARTIALS, labels), {GROUPS: table})
    return changes


def _to_keep(partials: Partials, merged: Collected, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Return the groups that rows, or retractions without rows, are known of."""
    for batch in merged.batches(merged.schema):
        something = pa.repeat(pa.scalar(value=False), batch.num_rows)
        for name in partials.sums:
            something = pc.or_(something, pc.not_equal(batch.column(name), 0))
        yield sound_batch(batch.select(schema.names).filter(something), schema)


def _tell_overdrawn(run: StatefulRun, merged: Collected) -> None:
    """Leave a line in the log if more rows of a group were retracted than it had."""
    weight = merged.schema.get_field_index(WEIGHT)
    groups = sum(
        pc.sum(pc.less(batch.column(weight), 0)).as_py() or 0
        for batch in merged.batches(merged.schema)
    )
    if groups:
        run.job.log(
            f"in {groups} groups more rows were retracted than there were: retractions of rows "
            "that are not there, which is a fault of the input (odf verify tells where); they are "
            "taken off rows that come later"
        )


def _check_extremes(query: GroupedQuery, partials: Partials, merged: Computed) -> None:
    if not partials.has_extremes:
        return
    if not any(_has_values(merged.collected, name) for name in partials.retracted):
        return
    lost = merged.frame.where(partials.is_lost).select(*query.key_columns).limit(1).collect()
    if lost:
        group = ", ".join(
            f"{name} = {value}" for name, value in zip(query.key_names, lost[0], strict=True)
        )
        raise BadInputError(
            "a retraction takes away the row that min or max found in a group, and the rows "
            f"beside it were not kept: {group}",
            reason="retraction",
            hint="reset the dataset and pull it again: a first run that sees retractions keeps "
            "the rows",
        )


def _has_values(found: Collected, name: str) -> bool:
    position = found.schema.get_field_index(name)
    return any(
        batch.column(position).null_count < batch.num_rows for batch in found.batches(found.schema)
    )

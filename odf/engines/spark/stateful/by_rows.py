"""Changing aggregates from retained rows: exact for every function.

All current rows of the inputs are kept. Only groups that new rows or retractions belong to are
computed again, each from its rows in one order; that is what a single run over all rows computes.
Where the group of a retraction can be another one than that of its row, a run with retractions
computes all again.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.engines.spark.collect import SMALL_ROWS
from odf.engines.spark.stateful.base import StatefulRun
from odf.engines.spark.stateful.diff import Changes, find_changes
from odf.engines.spark.stateful.grouped import GroupedQuery
from odf.engines.spark.stateful.groups import (
    GROUPS,
    GroupTable,
    group_meta,
    key_labels,
    value_labels,
)
from odf.engines.spark.stateful.ordered import (
    group_in_order,
    keep_row_order,
    keyed,
    offset_carrier,
)
from odf.engines.spark.stateful.tables import (
    arrow_schema_of,
    compress,
    compute,
    read_table,
    rows_with_keys,
    write_table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BY_ROWS: Final = "rows"
"""What a state says that is made this way."""


def run_by_rows(
    run: StatefulRun, query: GroupedQuery, kept: GroupTable | None, *, retracts: bool
) -> Changes:
    """Compute the groups that are touched, and write the new state.

    Args:
        run: The run.
        query: The query over the new rows, retractions among them.
        kept: The rows that were given out, one for each group, or None in a first run.
        retracts: Whether some row is retracted.
    """
    keep_row_order(run.spark)
    scratch = run.job.scratch
    small = sum(given.rows for given in run.new) <= SMALL_ROWS
    touched = None
    if kept is not None and not (retracts and query.reads_places):
        found = compute(run.spark, query.keys_of(query.child), scratch / "touched", small=small)
        touched = found.frame
    live = [
        run.live_view(number, run.retained(number, _rows_of(number)), drop_late=False)
        for number in range(len(run.new))
    ]
    run.register_views(*live)
    new = _results(GroupedQuery.of(run), touched)
    keys, values = query.key_columns, query.value_columns
    labels = [*key_labels(query.key_names), *value_labels(query.columns)]
    schema = arrow_schema_of(new.select(*keys, *values))
    path = old = None
    if kept is not None:
        path = kept.fitted(labels, schema, scratch / "fitted.parquet")
        old = read_table(run.spark, path)
        old = old if touched is None else rows_with_keys(old, touched, keys)
    changes = find_changes(old, new, keys, values, scratch / "changes", small=small)
    table = scratch / "groups.parquet"
    write_table(table, schema, path, changes.old_positions(), changes.new_rows())
    rows = {
        _rows_of(number): compress(Path(given.path), scratch / f"kept-{number}.parquet")
        for number, given in enumerate(live)
    }
    run.save(group_meta(BY_ROWS, labels), {GROUPS: table, **rows})
    return changes


def _results(query: GroupedQuery, touched: "DataFrame | None") -> "DataFrame":
    """Return what the query makes of the groups, or of those that are touched."""
    nodes, parts = query.nodes, query.parts
    carried = offset_carrier(nodes, query.offsets).carry(query.child)
    rows = keyed(nodes, parts, carried.plan)
    if touched is not None:
        some = nodes.analysed(touched)
        pairs = [
            (key.toAttribute(), attribute)
            for key, (_, attribute) in zip(parts.keys, some.output, strict=True)
        ]
        rows = nodes.semi_join(rows, some, pairs)
    return query.results(group_in_order(nodes, parts, rows, carried.hidden))


def _rows_of(number: int) -> str:
    """Return the name of the table of an input's rows in the state."""
    return f"rows-{number}"

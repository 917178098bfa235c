"""Snapshot and upsert over tables: what changed against the current state."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.spark.merge.in_task.keyed import differing, look_up, names_of, one_per_key, pairs
from odf.engines.spark.merge.in_task.rows import filled
from odf.engines.spark.merge.in_task.tables import OFFSET, OP, ROW, all_rows, no_rows, pieces
from odf.engines.spark.merge.layout import MergeLayout
from odf.metadata.model import OperationType

_APPEND, _RETRACT, _FROM, _TO = (int(kind) for kind in OperationType)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a state and new rows make.

    Attributes:
        rows: The changes, ordered by key, then operation.
        state_rows: How many rows the state had, as far as it was looked at.
    """

    rows: pa.Table
    state_rows: int


def snapshot(
    new: pa.Table,
    history: Sequence[str],
    layout: MergeLayout,
    keys: Sequence[int],
    compared: Sequence[int],
    fill: pa.Scalar,
) -> Changed | None:
    """Hold a full copy against the current state.

    Args:
        new: The rows of the copy, one of each key.
        history: The slices in chain order.
        layout: The columns.
        keys: Positions of the key columns.
        compared: Positions of the columns that tell whether a row changed.
        fill: Event time of rows that have none.

    Returns:
        The changes; None if a row of the history has no key.
    """
    names = names_of(keys)
    rows = all_rows(history, layout)
    if any(rows.column(name).null_count for name in names):
        return None
    old = _present(one_per_key(rows, names, OFFSET, first=False))
    here, there = pairs(new, old, names, "full outer")
    both = pc.and_(here.is_valid(), there.is_valid())
    here_of_both, there_of_both = here.filter(both), there.filter(both)
    changed = differing(new, here_of_both, old, there_of_both, compared)
    rows = _changes(
        filled(new, fill),
        old,
        names_of(range(len(layout.columns))),
        names,
        gone=there.filter(here.is_null()),
        appeared=here.filter(there.is_null()),
        changed=(here_of_both.filter(changed), there_of_both.filter(changed)),
    )
    return Changed(rows, old.num_rows)


def upsert(
    new: pa.Table,
    history: Sequence[str],
    layout: MergeLayout,
    keys: Sequence[int],
    compared: Sequence[int],
    fill: pa.Scalar,
) -> Changed:
    """Hold the last row of each key against the current state; see `snapshot`."""
    names, everything = names_of(keys), range(len(layout.columns))
    if OP not in new.column_names:
        new = new.append_column(OP, pa.repeat(pa.scalar(_APPEND, pa.int32()), new.num_rows))
    new = one_per_key(new, names, ROW, first=False).combine_chunks()
    newest_first = reversed(list(pieces(history, layout)))
    known = look_up(newest_first, new, keys, everything, first=False)
    old = no_rows(layout, everything) if known is None else _present(known)
    here, there = pairs(new, old, names, "left outer")
    deletes = pc.equal(new.column(OP).combine_chunks().take(here), _RETRACT)
    is_known = there.is_valid()
    sets = pc.and_not(is_known, deletes)
    here_of_both, there_of_both = here.filter(sets), there.filter(sets)
    changed = differing(new, here_of_both, old, there_of_both, compared)
    rows = _changes(
        filled(new, fill),
        old,
        names_of(everything),
        names,
        gone=there.filter(pc.and_(is_known, deletes)),
        appeared=here.filter(pc.invert(pc.or_(is_known, deletes))),
        changed=(here_of_both.filter(changed), there_of_both.filter(changed)),
    )
    return Changed(rows, old.num_rows)


def _present(rows: pa.Table) -> pa.Table:
    is_present = pc.not_equal(rows.column(OP), _RETRACT)
    # Leaving out nothing would copy everything.
    return rows if pc.all(is_present).as_py() in (True, None) else rows.filter(is_present)


def _changes(
    new: pa.Table,
    old: pa.Table,
    columns: Sequence[str],
    keys: Sequence[str],
    *,
    gone: pa.Array,
    appeared: pa.Array,
    changed: tuple[pa.Array, pa.Array],
) -> pa.Table:
    """Write down changes, by key, then operation."""
    changed_new, changed_old = changed
    places = [
        (_RETRACT, old, gone),
        (_FROM, old, changed_old),
        (_APPEND, new, appeared),
        (_TO, new, changed_new),
    ]
    rows = pa.concat_tables(
        table.select(columns)
        .take(place)
        .append_column(OP, pa.repeat(pa.scalar(operation, pa.int32()), len(place)))
        for operation, table, place in places
    )
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*keys, OP)])
    return rows.take(order)

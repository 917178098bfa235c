"""Append, ledger and changelog over tables: rows come out as they went in, or not at all."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.spark.merge.in_task.keyed import (
    column,
    differing,
    look_up,
    names_of,
    one_per_key,
    pairs,
)
from odf.engines.spark.merge.in_task.tables import OP, ROW, column_name, pieces
from odf.engines.spark.merge.layout import MergeLayout
from odf.metadata.model import OperationType

_APPEND, _RETRACT, _FROM, _TO = (int(kind) for kind in OperationType)
_EVENT_TIME = column_name(0)


def append(new: pa.Table, fill: pa.Scalar) -> pa.Table:
    """Order all rows by event time, then by their place in the input.

    Args:
        new: The rows.
        fill: Event time of rows that have none.
    """
    return _appended(new, fill)


def ledger(
    new: pa.Table,
    history: Sequence[str],
    layout: MergeLayout,
    keys: Sequence[int],
    values: Sequence[int],
    fill: pa.Scalar,
) -> tuple[pa.Table, int, int]:
    """Keep the first row of each key that the history does not know.

    Args:
        new: The rows.
        history: The slices in chain order.
        layout: The columns.
        keys: Positions of the key columns.
        values: Positions of the columns whose change is a revision.
        fill: Event time of rows that have none.

    Returns:
        The rows, how many keys came with other values than when they were first seen, and how
        many keys the history knows.
    """
    names = names_of(keys)
    first = one_per_key(new, names, ROW, first=True)
    known = look_up(pieces(history, layout), first, keys, (*keys, *values), first=True)
    kept = first
    if known is not None:
        kept = first.join(known.select(names), names, join_type="left anti", use_threads=False)
    revised = 0
    if kept.num_rows < new.num_rows and values:
        revised = _count_revised(new, first, known, keys, values)
    return _appended(kept, fill), revised, 0 if known is None else known.num_rows


def changelog(new: pa.Table, keys: Sequence[int], fill: pa.Scalar) -> tuple[pa.Table, int]:
    """Order changes by key and their place in the input, and settle halves of corrections.

    Args:
        new: The rows, with their operations if they have any.
        keys: Positions of the key columns.
        fill: Event time of rows that have none.

    Returns:
        The rows, and how many operations were settled.
    """
    if OP not in new.column_names:
        new = new.append_column(OP, pa.repeat(pa.scalar(_APPEND, pa.int32()), new.num_rows))
    rows = new.sort_by([(name, "ascending") for name in (*names_of(keys), ROW)]).combine_chunks()
    if not rows.num_rows:
        return rows, 0
    operations = rows.column(OP).combine_chunks()
    is_from, is_to = pc.equal(operations, _FROM), pc.equal(operations, _TO)
    last = rows.num_rows - 1
    pair = pc.and_(is_from.slice(0, last), is_to.slice(1))
    for key in keys:
        values = column(rows, key)
        pair = pc.and_(pair, pc.equal(values.slice(0, last), values.slice(1)))
    no = pa.array([False])
    lone_from = pc.and_not(is_from, pa.concat_arrays([pair, no]))
    lone_to = pc.and_not(is_to, pa.concat_arrays([no, pair]))
    settled = pc.if_else(lone_from, pa.scalar(_RETRACT, pa.int32()), operations)
    settled = pc.if_else(lone_to, pa.scalar(_APPEND, pa.int32()), settled)
    lone = pc.sum(pc.or_(lone_from, lone_to)).as_py()
    rows = rows.set_column(rows.column_names.index(OP), OP, settled)
    return filled(rows, fill), lone


def filled(rows: pa.Table, fill: pa.Scalar) -> pa.Table:
    """Give rows without event time that of the source."""
    times = pc.fill_null(column(rows, 0), fill)
    return rows.set_column(rows.column_names.index(_EVENT_TIME), _EVENT_TIME, times)


def _appended(rows: pa.Table, fill: pa.Scalar) -> pa.Table:
    ordered = filled(rows, fill).sort_by([(_EVENT_TIME, "ascending"), (ROW, "ascending")])
    operations = pa.repeat(pa.scalar(_APPEND, pa.int32()), ordered.num_rows)
    return ordered.append_column(OP, operations)


def _count_revised(
    new: pa.Table,
    first: pa.Table,
    known: pa.Table | None,
    keys: Sequence[int],
    values: Sequence[int],
) -> int:
    """Count the keys of which a row differs from the row that was seen first.

    A value that is not there is not another one.
    """
    names = names_of(keys)
    columns = [*names, *names_of(at for at in values if at not in keys)]
    reference = first.select(columns)
    if known is not None:
        unknown = first.join(known.select(names), names, join_type="left anti", use_threads=False)
        reference = pa.concat_tables([known.select(columns), unknown.select(columns)])
    rows, seen = pairs(new, reference, names, "inner")
    differs = differing(new, rows, reference, seen, values, nulls=False)
    return int(pc.count_distinct(seen.filter(differs)).as_py())

"""What all strategies with a primary key ask: which rows share it, which of them counts."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.spark.merge.in_task.tables import OFFSET, Piece, column_name

NEW = "i"
"""Column of `pairs`: place of a row in the first table."""

OLD = "j"
"""Column of `pairs`: place of a row in the second table."""


def names_of(positions: Iterable[int]) -> list[str]:
    """Return the names of columns."""
    return [column_name(position) for position in positions]


def one_per_key(table: pa.Table, keys: Sequence[str], by: str, *, first: bool) -> pa.Table:
    """Keep one row of each key.

    Args:
        table: Rows; nulls in keys count as one value.
        keys: Names of the key columns.
        by: A column without a value twice; it decides which row is kept.
        first: Whether that is the row with the lowest value, rather than the highest.
    """
    how = "min" if first else "max"
    kept = table.group_by(list(keys), use_threads=False).aggregate([(by, how)])
    if kept.num_rows == table.num_rows:
        return table
    return table.filter(
        pc.is_in(table.column(by), value_set=kept.column(f"{by}_{how}").combine_chunks())
    )


def pairs(new: pa.Table, old: pa.Table, keys: Sequence[str], how: str) -> tuple[pa.Array, pa.Array]:
    """Bring rows with equal keys together.

    Args:
        new: Rows.
        old: Other rows, at most one of a key.
        keys: Names of the key columns, which hold no null.
        how: The kind of join.

    Returns:
        Places in the first and in the second table, pair by pair; null where there is none.
    """
    left = new.select(keys).append_column(NEW, pa.arange(0, new.num_rows))
    right = old.select(keys).append_column(OLD, pa.arange(0, old.num_rows))
    joined = left.join(right, list(keys), join_type=how, use_threads=False)
    return joined.column(NEW).combine_chunks(), joined.column(OLD).combine_chunks()


def look_up(
    history: Iterable[Piece],
    wanted: pa.Table,
    keys: Sequence[int],
    values: Sequence[int],
    *,
    first: bool,
) -> pa.Table | None:
    """Find the rows of some keys in the history, one of each.

    Values are read only where there is such a key, and nothing is read once all are found.

    Args:
        history: Pieces in chain order for the first rows of keys, the other way for the last.
        wanted: The keys, each once, without nulls.
        keys: Positions of the key columns.
        values: Positions of all columns to return, the key columns among them.
        first: Whether the first row of a key is wanted, rather than the last.
    """
    names = names_of(keys)
    missing = wanted.select(names)
    found: list[pa.Table] = []
    for piece in history:
        if not missing.num_rows:
            break
        # The few wanted keys are what is hashed; the many known ones only pass by.
        there = piece.read(keys).join(missing, names, join_type="left semi", use_threads=False)
        if not there.num_rows:
            continue
        best = one_per_key(there, names, OFFSET, first=first)
        rows = piece.read(values)
        offsets = best.column(OFFSET).combine_chunks()
        found.append(rows.filter(pc.is_in(rows.column(OFFSET), value_set=offsets)))
        missing = missing.join(best, names, join_type="left anti", use_threads=False).select(names)
    return pa.concat_tables(found) if found else None


def same(left: pa.Array, right: pa.Array) -> pa.Array:
    """Tell for each row whether two values are equal; null equals null, NaN equals NaN."""
    equal = pc.fill_null(pc.equal(left, right), fill_value=False)
    equal = pc.or_(equal, pc.and_(left.is_null(), right.is_null()))
    if pa.types.is_floating(left.type):
        both = pc.and_(pc.is_nan(left), pc.is_nan(right))
        equal = pc.or_(equal, pc.fill_null(both, fill_value=False))
    return equal


def column(table: pa.Table, position: int) -> pa.Array:
    """Return a column in one piece."""
    found = table.column(column_name(position))
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()


def differing(
    new: pa.Table,
    new_rows: pa.Array,
    old: pa.Table,
    old_rows: pa.Array,
    compared: Sequence[int],
    *,
    nulls: bool = True,
) -> pa.Array:
    """Tell for each pair of rows whether a compared column is distinct.

    An event time counts only where the new row has one.

    Args:
        new: Rows.
        new_rows: Places in it, pair by pair.
        old: Other rows.
        old_rows: Places in those.
        compared: Positions of the columns.
        nulls: Whether null is distinct from a value.
    """
    found = pa.repeat(pa.scalar(False), len(new_rows))
    for position in compared:
        now, before = column(new, position).take(new_rows), column(old, position).take(old_rows)
        distinct = pc.invert(same(now, before))
        if position == 0 or not nulls:
            distinct = pc.and_(distinct, now.is_valid())
        if not nulls:
            distinct = pc.and_(distinct, before.is_valid())
        found = pc.or_(found, distinct)
    return found

"""What has to hold for new rows before they are merged; looked up in the parts with Arrow."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.data.types import conform, loses_digits
from odf.engines.host.engine import Reporter
from odf.engines.spark.merge.layout import MergeLayout, NewRows
from odf.engines.spark.parts import ROW_COLUMN
from odf.errors import BadInputError
from odf.metadata.model import OperationType

_MOST: Final = 10
_LONGEST_VALUE: Final = 60


CUT_DIGITS: Final = (
    "column `{}` has timestamps finer than milliseconds; they were cut to milliseconds, towards "
    "the past"
)
"""What is said of a column whose times had more digits than a slice keeps."""


def refuse_null_keys(new: NewRows, layout: MergeLayout, keys: Sequence[int]) -> None:
    """Refuse rows that have no key.

    Raises:
        BadInputError: With the first of them.
    """
    names = [layout.columns[key].name for key in keys]
    rows: list[int] = []
    which: list[str] = []
    count = 0
    for table in new.parts.tables([*names, ROW_COLUMN]):
        if not any(table.column(name).null_count for name in names):
            continue
        is_null = [table.column(name).is_null() for name in names]
        any_null = is_null[0]
        for other in is_null[1:]:
            any_null = pc.or_(any_null, other)
        count += pc.sum(any_null).as_py()
        for row in table.filter(any_null).slice(0, _MOST - len(rows)).to_pylist():
            rows.append(row[ROW_COLUMN])
            which.append(next(name for name in names if row[name] is None))
    if not count:
        return
    problems = [
        f"{label}: key column `{name}` is null"
        for label, name in zip(new.label(rows), which, strict=True)
    ]
    raise BadInputError(
        f"{problems[0]} ({count} row{'s' if count > 1 else ''} without a key); "
        "nothing was ingested",
        reason="null_key",
        problems=problems,
        hint="leave such rows out in the preprocess query, or choose another primary key",
        details={"rows": count},
    )


def refuse_unknown_operations(new: NewRows, layout: MergeLayout) -> None:
    """Refuse rows whose operation is missing or is none.

    Raises:
        BadInputError: With the first of them.
    """
    name = layout.vocab.operation_type_column
    first, last = int(OperationType.APPEND), int(OperationType.CORRECT_TO)
    found: list[tuple[int, object]] = []
    count = 0
    for table in new.parts.tables([name, ROW_COLUMN]):
        values = table.column(name).cast(pa.int64(), safe=False)
        known = pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last))
        bad = table.filter(pc.invert(known.fill_null(False)))
        count += bad.num_rows
        rows = bad.slice(0, _MOST - len(found)).to_pylist()
        found += [(row[ROW_COLUMN], row[name]) for row in rows]
    if not count:
        return
    labels = new.label([row for row, _ in found])
    problems = [
        f"{label}: the operation `{name}` is {'null' if value is None else value}"
        for label, (_, value) in zip(labels, found, strict=True)
    ]
    raise BadInputError(
        f"{problems[0]} ({count} row{'s' if count > 1 else ''} without a known operation); "
        "nothing was ingested",
        reason="bad_rows",
        problems=problems,
        hint="operations are 0 append, 1 retract, 2 correct from and 3 correct to",
        details={"rows": count},
    )


def refuse_duplicate_keys(new: NewRows, layout: MergeLayout, keys: Sequence[int]) -> None:
    """Refuse a snapshot in which two rows have the same key.

    Raises:
        BadInputError: With the first of them.
    """
    names = [layout.columns[key].name for key in keys]
    tables = list(new.parts.tables([*names, ROW_COLUMN]))
    if not tables:
        return
    table = pa.concat_tables(tables)
    for at, position in enumerate(keys):
        found = _as_compared(table.column(at), layout.columns[position].field.type)
        table = table.set_column(at, names[at], found)
    grouped = table.group_by(names).aggregate(
        [(ROW_COLUMN, "count"), (ROW_COLUMN, "min"), (ROW_COLUMN, "max")]
    )
    twice = grouped.filter(pc.greater(grouped.column(f"{ROW_COLUMN}_count"), 1))
    if not twice.num_rows:
        return
    first = twice.sort_by(f"{ROW_COLUMN}_min").slice(0, _MOST).to_pylist()
    labels = new.label([row[f"{ROW_COLUMN}_{end}"] for row in first for end in ("min", "max")])
    problems = []
    for row, here, there in zip(first, labels[::2], labels[1::2], strict=True):
        key = ", ".join(f"`{name}` = {_short(row[name])}" for name in names)
        problems.append(
            f"{here} and {there}: the same key {key}, {row[f'{ROW_COLUMN}_count']} times"
        )
    raise BadInputError(
        f"{problems[0]} ({twice.num_rows} key{'s' if twice.num_rows > 1 else ''} more than once "
        "in a snapshot); nothing was ingested",
        reason="duplicate_key",
        problems=problems,
        hint="keep one row for each key in the preprocess query, or choose a longer primary key",
        details={"keys": twice.num_rows},
    )


def _as_compared(values: pa.ChunkedArray, stored: pa.DataType) -> pa.ChunkedArray:
    """Return keys so that those are equal which are one key to the merge."""
    if pa.types.is_timestamp(stored):
        # Less than a millisecond is not stored.
        return pa.chunked_array([conform(chunk, stored) for chunk in values.chunks], stored)
    if pa.types.is_floating(stored):
        # Minus zero becomes zero.
        return pc.add(values, pa.scalar(0.0, values.type))
    return values


def warn_of_cut_digits(new: NewRows, layout: MergeLayout, report: Reporter) -> None:
    """Warn once for each timestamp column with more digits than the milliseconds of a slice."""
    names = [
        column.name
        for column in layout.columns
        if column.in_new
        and pa.types.is_timestamp(new.parts.schema.field(column.name).type)
        and new.parts.schema.field(column.name).type.unit in ("us", "ns")
    ]
    for name in names:
        if any(loses_digits(table.column(name)) for table in new.parts.tables([name])):
            report.warning(CUT_DIGITS.format(name))


def _short(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"

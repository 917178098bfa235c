"""The order of results (design §7): by values, the same for whoever computes them.

Ascending, nulls first, text by its UTF-8 bytes, NaN last.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_SIMPLE: Final = "string"


def sort_keys(frame: "DataFrame", names: Sequence[str]) -> list["Column"]:
    """Return sort keys that put any two different rows in one order.

    Args:
        frame: The rows.
        names: The columns by which they are sorted, the most important first; no two may have
            the same name.
    """
    from pyspark.sql import functions  # noqa: PLC0415

    from odf.engines.spark.merge.frames import quoted  # noqa: PLC0415

    types = {field.name: field.dataType for field in frame.schema}
    keys = [_comparable(functions.col(quoted(name)), types[name]) for name in names]
    # Spark takes 0.0 and -0.0 for equal; as texts they are not.
    ties = [
        functions.col(quoted(name)).cast("string") for name in names if _may_hold_zeros(types[name])
    ]
    return [functions.asc_nulls_first(key) for key in (*keys, *ties)]


def by_time_then_values(frame: "DataFrame", event_time: str, operation: str) -> list[str]:
    """Return the names of a result's columns in the order in which they decide.

    Args:
        frame: The result.
        event_time: Name of its event time column.
        operation: Name of its operation column, which it need not have.
    """
    others = [name for name in frame.columns if name not in (event_time, operation)]
    last = [operation] if operation in frame.columns else []
    return [event_time, *others, *last]


def sorted_in_one_partition(frame: "DataFrame", names: Sequence[str]) -> "DataFrame":
    """Return the rows in their one order.

    Args:
        frame: The rows.
        names: The columns by which they are sorted; others do not count.
    """
    return frame.repartition(1).sortWithinPartitions(*sort_keys(frame, names))


def _comparable(column: "Column", dtype: "DataType") -> "Column":
    from pyspark.sql import functions  # noqa: PLC0415
    from pyspark.sql.types import StringType  # noqa: PLC0415

    if isinstance(dtype, StringType):
        return column if dtype.simpleString() == _SIMPLE else column.cast("binary")
    if _holds_map(dtype):
        # Maps have no order; their text has one.
        return functions.to_json(functions.struct(column))
    return column


def _holds_map(dtype: "DataType") -> bool:
    return "map<" in dtype.simpleString()


def _may_hold_zeros(dtype: "DataType") -> bool:
    from pyspark.sql.types import DoubleType, FloatType  # noqa: PLC0415

    if isinstance(dtype, DoubleType | FloatType):
        return True
    text = dtype.simpleString()
    return ("double" in text or "float" in text) and not _holds_map(dtype)

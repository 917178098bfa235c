"""The event time that rows get which have none: the source's (data-slices.md §2.6)."""

import pyarrow as pa

from odf.engines.spark.merge.layout import MergeLayout
from odf.metadata.model import Timestamp

_MILLIS_PER_DAY = 86_400_000


def fill_value(stored: pa.DataType, event_time: Timestamp) -> pa.Scalar:
    """Return the source's event time as a value of the event time column; a date keeps the day."""
    millis = event_time.epoch_ms
    if pa.types.is_date32(stored):
        return pa.scalar(millis // _MILLIS_PER_DAY, pa.int32()).cast(stored)
    if pa.types.is_date64(stored):
        return pa.scalar(millis - millis % _MILLIS_PER_DAY, pa.int64()).cast(stored)
    return pa.scalar(millis, pa.int64()).cast(stored)


def filled(expression: str, layout: MergeLayout, event_time: Timestamp) -> str:
    """Return SQL for an event time with nulls replaced by the source's."""
    millis = event_time.epoch_ms
    if pa.types.is_date(layout.event_time.field.type):
        value = f"date_from_unix_date({millis // _MILLIS_PER_DAY})"
    else:
        value = f"timestamp_millis({millis})"
    return f"coalesce({expression}, {value})"

"""The append strategy: every row is new; ordered by event time, then input position."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from odf.data.types import conform
from odf.engines.host.engine import IngestedRows, Rows
from odf.engines.spark.collect import collect, fit
from odf.engines.spark.merge.context import MergeContext
from odf.engines.spark.merge.event_time import fill_value, filled
from odf.engines.spark.merge.frames import ROW, names_of, new_frame
from odf.engines.spark.merge.layout import MergeLayout, NewRows
from odf.engines.spark.merge.small import merge_in_task
from odf.metadata.model import MergeStrategyAppend, Timestamp

_APPEND = 0


def append(merge: MergeContext) -> IngestedRows:
    """Merge rows by appending them (merge-strategies.md "Append")."""
    new, layout = merge.new, merge.layout
    schema = layout.output_schema(
        layout.vocab.operation_type_column, keeps_not_null=range(len(layout.columns))
    )
    if _is_sorted(new, layout, merge.event_time):
        batches = _as_they_are(new, layout, merge.event_time, schema)
        return IngestedRows(Rows(schema, batches), new.parts.rows)
    merged = merge_in_task(merge, MergeStrategyAppend())
    if merged is not None:
        return IngestedRows(Rows(schema, merged[0].batches(schema)), new.parts.rows)
    frame = (
        new_frame(merge.spark, new, layout)
        .selectExpr(
            f"{_APPEND} AS op",
            f"{filled('c0', layout, merge.event_time)} AS c0",
            *names_of(layout)[1:],
            ROW,
        )
        .sort("c0", ROW)
        .drop(ROW)
    )
    found = collect(frame, merge.scratch / "merged", small=merge.small)
    return IngestedRows(Rows(schema, found.batches(schema)), new.parts.rows)


def _is_sorted(new: NewRows, layout: MergeLayout, event_time: Timestamp) -> bool:
    """Tell whether the rows are in order already, which most files are."""
    column = layout.event_time
    if not column.in_new:
        return True
    last = None
    for table in new.parts.tables([column.name]):
        if not table.num_rows:
            continue
        times = _event_times(table.column(0).combine_chunks(), column.field.type, event_time)
        ticks = times.cast(pa.int32() if pa.types.is_date32(times.type) else pa.int64())
        if len(ticks) > 1 and not pc.all(pc.less_equal(ticks[:-1], ticks[1:])).as_py():
            return False
        if last is not None and ticks[0].as_py() < last:
            return False
        last = ticks[-1].as_py()
    return True


def _as_they_are(
    new: NewRows, layout: MergeLayout, event_time: Timestamp, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    column = layout.event_time
    names = [c.name for c in layout.columns if c.in_new]
    for table in new.parts.tables(names):
        for batch in table.to_batches():
            if column.in_new:
                times = _event_times(batch.column(0), column.field.type, event_time)
                others = batch.columns[1:]
            else:
                times = pa.repeat(fill_value(column.field.type, event_time), batch.num_rows)
                others = batch.columns
            ops = pa.repeat(pa.scalar(_APPEND, pa.int32()), batch.num_rows)
            arrays = [ops, times, *others]
            plain = pa.RecordBatch.from_arrays(arrays, names=schema.names)
            yield fit(plain, schema)


def _event_times(array: pa.Array, stored: pa.DataType, event_time: Timestamp) -> pa.Array:
    return conform(array, stored).fill_null(fill_value(stored, event_time))

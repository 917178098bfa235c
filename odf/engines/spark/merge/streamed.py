"""The append strategy over rows that are still being read.

Most files are in order of event time already; then their rows can go into the slice as they come.
If a row turns up that is too early, what was given out so far does not count, and the rows are
read and sorted the other way.
"""

from collections.abc import Callable, Iterator
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.host.engine import IngestedRows, Reporter, Rows, StartOver
from odf.engines.spark.collect import fit
from odf.engines.spark.merge.checks import CUT_DIGITS
from odf.engines.spark.merge.event_time import fill_value
from odf.engines.spark.merge.layout import MergeLayout
from odf.engines.spark.readers.csv import CutInsideQuotes
from odf.engines.spark.readers.csv_stream import CsvStream
from odf.metadata.model import OperationType, Timestamp


def append_streamed(
    stream: CsvStream,
    layout: MergeLayout,
    event_time: Timestamp,
    report: Reporter,
    otherwise: Callable[[], Rows],
) -> IngestedRows:
    """Append rows as they are read (merge-strategies.md "Append").

    Args:
        stream: The rows.
        layout: Their columns.
        event_time: For rows that have none.
        report: Is told of times that were cut, after the last row.
        otherwise: Reads and sorts the rows where they do not come in order.
    """
    schema = layout.output_schema(
        layout.vocab.operation_type_column, keeps_not_null=range(len(layout.columns))
    )

    def batches() -> Iterator[pa.RecordBatch]:
        last: int | None = None
        try:
            with closing(stream.batches()) as read:
                for batch in read:
                    arranged = _arranged(batch, layout, event_time, schema)
                    last = _last_if_sorted(arranged.column(1), last)
                    if last is None and batch.num_rows:
                        raise StartOver(otherwise)
                    yield arranged
        except CutInsideQuotes:
            raise StartOver(otherwise) from None
        for name in stream.cut:
            report.warning(CUT_DIGITS.format(name))

    return IngestedRows(Rows(schema, batches()), rows_read=None)


def _arranged(
    batch: pa.RecordBatch, layout: MergeLayout, event_time: Timestamp, schema: pa.Schema
) -> pa.RecordBatch:
    """Add the operation, fill the event time and put it first."""
    column = layout.event_time
    fill = fill_value(column.field.type, event_time)
    if column.in_new:
        times = pc.fill_null(batch.column(column.name), fill)
    else:
        times = pa.repeat(fill, batch.num_rows)
    others = [batch.column(other.name) for other in layout.columns[1:]]
    operations = pa.repeat(pa.scalar(int(OperationType.APPEND), pa.int32()), batch.num_rows)
    plain = pa.RecordBatch.from_arrays([operations, times, *others], names=schema.names)
    return fit(plain, schema)


def _last_if_sorted(times: pa.Array, before: int | None) -> int | None:
    """Return the last of some event times if they ascend and none is before an earlier one."""
    if not len(times):
        return before
    ticks = times.cast(pa.int32() if pa.types.is_date32(times.type) else pa.int64())
    if before is not None and ticks[0].as_py() < before:
        return None
    if len(ticks) > 1 and not pc.all(pc.less_equal(ticks[:-1], ticks[1:])).as_py():
        return None
    found: int = ticks[-1].as_py()
    return found

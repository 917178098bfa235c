"""Small slices for tests."""

import pyarrow as pa

from odf.data.slices import SliceWriter, slice_schema
from odf.data.types import TIMESTAMP_MS_UTC
from odf.metadata.model import DEFAULT_VOCAB

CITIES = pa.schema([("city", pa.string()), ("population", pa.int64())])


def system_columns(ops, start, times, system_time=1_000):
    return [
        pa.arange(start, start + len(ops)),
        pa.array(ops, pa.int32()),
        pa.array([system_time] * len(ops), TIMESTAMP_MS_UTC),
        pa.array(times or [7] * len(ops), TIMESTAMP_MS_UTC),
    ]


def batch(rows, start=0, data=CITIES, times=None, system_time=1_000):
    """Rows are tuples of the operation and the data columns."""
    schema = slice_schema(data, DEFAULT_VOCAB)
    columns = system_columns([row[0] for row in rows], start, times, system_time)
    for index, field in enumerate(data, 1):
        columns.append(pa.array([row[index] for row in rows], field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write(path, rows, start=0, data=CITIES, times=None, system_time=1_000):
    made = batch(rows, start, data, times, system_time)
    with SliceWriter(path, made.schema) as writer:
        writer.write(made)
    return path

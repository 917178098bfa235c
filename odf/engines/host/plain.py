"""Results that are no slices: rows without system columns, as Parquet files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.types import conform, slice_type
from odf.engines.host.engine import Rows


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a result with the types of a slice."""
    return pa.schema([field.with_type(slice_type(field.type)) for field in schema])


def write_plain(rows: Rows, path: Path, schema: pa.Schema) -> int:
    """Write rows without system columns; no file if there are none.

    Args:
        rows: The rows.
        path: The file.
        schema: Its columns, which the rows have in some other type perhaps.

    Returns:
        How many there were.
    """
    writer: pq.ParquetWriter | None = None
    count = 0
    try:
        for batch in rows.batches:
            if batch.num_rows:
                writer = writer or pq.ParquetWriter(path, schema, version="1.0")
                columns = [conform(batch.column(f.name), f.type) for f in schema]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
                count += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return count

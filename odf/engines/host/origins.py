"""Where the rows of a result come from, as a file and as columns of the result itself."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.engines.host.engine import HIDDEN_BRANCH, HIDDEN_OFFSET, ORIGINS

_FILE: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("input", pa.int32(), nullable=False),
        pa.field("input_offset", pa.int64(), nullable=False),
    ]
)


def write_origins(origins: Iterator[pa.RecordBatch], next_offset: int, path: Path) -> None:
    """Write down which rows of inputs the rows of a step come from; nothing if it has none.

    Args:
        origins: Batches of the schema `ORIGINS`.
        next_offset: Offset of the first row of the step.
        path: Where the file goes.
    """
    writer = None
    try:
        for batch in origins:
            if batch.num_rows == 0:
                continue
            writer = writer or pq.ParquetWriter(path, _FILE)
            row, number, origin = batch.columns
            writer.write_batch(
                pa.RecordBatch.from_arrays([pc.add(row, next_offset), number, origin], schema=_FILE)
            )
    finally:
        if writer is not None:
            writer.close()


def one_origin_each(
    batches: Iterator[pa.RecordBatch], inputs: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Read the origins of rows that come from one row each off their hidden columns.

    Args:
        batches: The rows, with both hidden columns.
        inputs: For each branch the position of the input that it reads.
    """
    numbers = pa.array(inputs, pa.int32())
    row = 0
    for batch in batches:
        rows = pa.array(range(row, row + batch.num_rows), pa.int64())
        taken = numbers.take(batch.column(HIDDEN_BRANCH))
        yield pa.RecordBatch.from_arrays(
            [rows, taken, batch.column(HIDDEN_OFFSET).cast(pa.int64())], schema=ORIGINS
        )
        row += batch.num_rows

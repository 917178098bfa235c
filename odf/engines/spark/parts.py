"""Rows on their way through the engine: Parquet files in scratch, in order.

Parts are written quickly rather than small: nobody keeps them. Their last column is hidden and
says where a row stood in the input; it ascends from part to part.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

ROW_COLUMN: Final = "__odf_row"
"""Hidden Int64 column: position of a row in the input, ascending but not without gaps."""

_ROWS_PER_GROUP: Final = 128 * 1024
_ROWS_PER_BATCH: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class Parts:
    """A table that lies in several files.

    Attributes:
        paths: The files in row order. They may be empty tables, and there may be none.
        schema: The columns without the hidden one.
        rows: How many rows there are.
    """

    paths: tuple[str, ...]
    schema: pa.Schema
    rows: int

    def tables(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Read part by part, in order.

        Args:
            columns: Which columns to read; all but the hidden one if None.
        """
        names = self.schema.names if columns is None else columns
        for path in self.paths:
            yield pq.read_table(path, columns=names, use_threads=True, memory_map=True)


class PartWriter:
    """Writes one part.

    Args:
        path: The file to make.
        schema: The columns, with the hidden one.
    """

    _rows_at_once = _ROWS_PER_GROUP

    def __init__(self, path: str, schema: pa.Schema) -> None:
        self._schema = schema
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._writer = self._open(path)

    def _open(self, path: str) -> pq.ParquetWriter | pa.ipc.RecordBatchFileWriter:
        return pq.ParquetWriter(
            path, self._schema, compression="none", use_dictionary=False, write_statistics=False
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        if self._pending_rows >= self._rows_at_once:
            self._flush()

    def close(self) -> None:
        """Write what is pending and finish the file."""
        self._flush()
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self._writer.close()

    def _flush(self) -> None:
        if self._pending_rows:
            table = pa.Table.from_batches(self._pending, self._schema)
            self._writer.write_table(self._arranged(table))
        self._pending, self._pending_rows = [], 0

    def _arranged(self, table: pa.Table) -> pa.Table:
        return table


class StreamedPartWriter(PartWriter):
    """Writes one part that is read while others are still written, and only once.

    It is there under its name when it is whole, and it is an Arrow file, which costs next to
    nothing to write and to read.
    """

    _rows_at_once = _ROWS_PER_BATCH

    def _open(self, path: str) -> pa.ipc.RecordBatchFileWriter:
        self._path = path
        return pa.ipc.new_file(f"{path}.unfinished", self._schema)

    def close(self) -> None:
        """Write what is pending, finish the file and give it its name."""
        super().close()
        Path(f"{self._path}.unfinished").rename(self._path)

    def _arranged(self, table: pa.Table) -> pa.Table:
        # Readers take the batches as they are, and many small ones are slow to work with.
        return table.combine_chunks()

"""The two halves of an ingest whose preprocess query runs in another engine.

Between them lies one plain Parquet file each way; see the private protocol's `IngestHalf`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.types import conform, from_arrow, slice_type
from odf.engines.host.engine import HIDDEN_PREFIX, IngestedRows, Rows, SourceFile
from odf.engines.spark.merge.layout import NewRows
from odf.engines.spark.parts import ROW_COLUMN, Parts, PartWriter
from odf.engines.spark.preprocess import result_labels
from odf.errors import BadInputError, InvalidQueryError


def rows_as_read(new: NewRows) -> IngestedRows:
    """Give out rows in their order, with all digits, for another engine to go on with."""
    parts = new.parts
    batches = (batch for table in parts.tables() for batch in table.to_batches())
    return IngestedRows(Rows(parts.schema, batches), rows_read=parts.rows)


def read_result(files: Sequence[SourceFile], scratch: Path) -> NewRows:
    """Read the result of a preprocess query as rows that are to be merged.

    Args:
        files: Plain Parquet files of the same columns, in row order.
        scratch: Folder for the rows; it must not exist yet.

    Raises:
        InvalidQueryError: A column has a name or type that a dataset cannot have.
    """
    scratch.mkdir(parents=True)
    schema = _part_schema(pq.read_schema(files[0].path))
    with_rows = schema.append(pa.field(ROW_COLUMN, pa.int64(), nullable=False))
    path = scratch / "part-000000.parquet"
    rows = 0
    with PartWriter(str(path), with_rows) as writer:
        for batch in _batches(files):
            columns = [conform(batch.column(field.name), field.type) for field in schema]
            ordinals = pa.arange(rows, rows + batch.num_rows)
            rows += batch.num_rows
            writer.write(pa.RecordBatch.from_arrays([*columns, ordinals], schema=with_rows))
    stored = pa.schema([pa.field(field.name, slice_type(field.type)) for field in schema])
    return NewRows(Parts((str(path),), schema, rows), stored, result_labels)


def _batches(files: Sequence[SourceFile]) -> Iterator[pa.RecordBatch]:
    for source in files:
        with pq.ParquetFile(source.path, memory_map=True) as file:
            yield from file.iter_batches()


def _part_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the rows; timestamps keep their digits until they are merged."""
    fields = []
    for field in schema.remove_metadata():
        if field.name.casefold().startswith(HIDDEN_PREFIX):
            raise InvalidQueryError(
                f"column `{field.name}` of the preprocess query: the name is reserved"
            )
        try:
            from_arrow(field.type)
        except BadInputError as error:
            raise InvalidQueryError(
                f"column `{field.name}` of the preprocess query: {error.message}"
            ) from error
        is_timestamp = pa.types.is_timestamp(field.type)
        kept = field.type if is_timestamp else slice_type(field.type)
        fields.append(pa.field(field.name, kept))
    return pa.schema(fields)

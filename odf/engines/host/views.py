"""Slices as queries see them: the same columns and types, whoever wrote the slices."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.types import conform, slice_type
from odf.engines.host.engine import InputView
from odf.metadata.model import DatasetVocabulary


def view_schema(view: InputView) -> pa.Schema:
    """Return the columns of an input: those of its schema file, and any that slices have more."""
    schemas = [pq.read_schema(path) for path in (view.schema_path, *view.paths)]
    return even_schema(united_schema(schemas), view.vocab)


def united_schema(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the columns of the first schema, and any that later ones have more."""
    fields: dict[str, pa.Field] = {}
    for schema in schemas:
        for field in schema:
            fields.setdefault(field.name, field)
    return pa.schema(list(fields.values()))


def even_schema(schema: pa.Schema, vocab: DatasetVocabulary) -> pa.Schema:
    """Return columns with signed system columns and the types of our own slices.

    Args:
        schema: Columns of some slices.
        vocab: Names of the system columns in them.
    """
    signed = {vocab.offset_column: pa.int64(), vocab.operation_type_column: pa.int32()}
    return pa.schema(
        [
            pa.field(field.name, signed.get(field.name, slice_type(field.type)))
            for field in schema.remove_metadata()
        ]
    )


def fit_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Bring rows to the columns of a schema, by the rules of design §7; missing ones are null."""
    arrays = []
    for field in schema:
        position = batch.schema.get_field_index(field.name)
        if position < 0:
            arrays.append(pa.nulls(batch.num_rows, field.type))
        else:
            arrays.append(conform(batch.column(position), field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

"""Kinds of `odf conformance` about data: column declarations and logical hashes."""

from typing import Any, Final

import pyarrow as pa

from odf.coordinator.conformance import Case, Rule, list_of, object_of, texts_of
from odf.coordinator.conformance_types import read_schema, read_values
from odf.data.digest import logical_hash
from odf.data.types import arrow_name, parse_ddl, to_arrow
from odf.errors import BadInputError


def ddl(case: Case) -> object:
    """`ddl`: the columns that declarations make, with their types as declared.

    Raises:
        OdfError: A declaration cannot be read.
    """
    force_utc = case.get("forceUtc", True)
    if not isinstance(force_utc, bool):
        raise BadInputError(f"`forceUtc` is {force_utc!r}, wanted true or false")
    columns = parse_ddl(texts_of(case, "ddl"), force_utc=force_utc)
    return {
        "columns": [
            {
                "name": column.name,
                "arrow": arrow_name(to_arrow(column.type)),
                "nullable": column.nullable,
            }
            for column in columns
        ]
    }


def digest(case: Case) -> object:
    """`digest`: the logical hash of a table in batches.

    Raises:
        OdfError: The table makes no sense, or has a type without a logical hash.
    """
    data = object_of(case, "data")
    schema = read_schema(list_of(data, "schema"))
    batches = [_batch(schema, columns) for columns in list_of(data, "batches")]
    return {"text": str(logical_hash(schema, batches))}


def _batch(schema: pa.Schema, columns: Any) -> pa.RecordBatch:
    if not isinstance(columns, list) or len(columns) != len(schema):
        raise BadInputError(f"a batch is a list of {len(schema)} columns, one for each of `schema`")
    arrays = [read_values(field.type, one) for field, one in zip(schema, columns, strict=True)]
    if len({len(array) for array in arrays}) > 1:
        raise BadInputError("the columns of a batch have different lengths")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


RULES: Final[dict[str, Rule]] = {"ddl": ddl, "digest": digest}
"""The rules by kind."""

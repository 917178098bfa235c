"""The logical hash of a table: arrow-digest version 0 over SHA3-256 (wire-format.md §d).

Owns the answer to "do these rows equal those rows", whatever file, encoding, compression or batch
they come in. Knows nothing of files or of the meaning of columns.

Columns become bytes in `row_bytes`; here they are hashed, and records made of them. Arrow's kernels
and `hashlib` both release the interpreter lock, so columns run in threads.
"""

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.data.column_queues import ColumnQueues
from odf.data.digest_types import UnsupportedTypeError, plain_type, type_header, zero_bytes
from odf.data.row_bytes import (
    LARGE,
    NULL,
    PIECE_BYTES,
    encode_rows,
    payload,
    pieces,
    raw_values,
    row_bytes,
)
from odf.errors import BadInputError
from odf.limits import MAX_TYPE_DEPTH
from odf.metadata.multiformats import ARROW0_SHA3_256, Multihash

__all__ = [
    "NESTED_BATCH_ROWS",
    "RecordDigest",
    "UnsupportedTypeError",
    "array_digest",
    "logical_hash",
    "type_header",
]

NESTED_BATCH_ROWS: Final = 10_000
"""Rows of a batch in which the nulls of structs are combined; what the reference reads at once."""

_PARALLEL_BYTES: Final = 1 << 18  # below this, handing work to threads costs more than it saves
_MAX_THREADS: Final = 4


class _ColumnHasher:
    """Hashes one column that is not a struct."""

    def __init__(self, dtype: pa.DataType) -> None:
        self.header = type_header(dtype)
        self._hasher = hashlib.sha3_256(self.header)
        self._zero = pa.scalar(zero_bytes(dtype), LARGE)

    def update(self, array: pa.Array, parent_valid: pa.BooleanArray | None = None) -> None:
        """Add rows; `parent_valid` says which rows exist where a struct above has nulls."""
        if len(array) == 0:
            return
        if parent_valid is not None:
            rows = pc.if_else(array.is_valid(), encode_rows(array), self._zero)
            rows = pc.if_else(parent_valid, rows, pa.scalar(NULL, LARGE))
            self._hasher.update(payload(rows))
        elif (raw := raw_values(array)) is not None:
            self._hasher.update(raw)
        elif pa.types.is_dictionary(array.type):
            self._update_dictionary(array)
        else:
            for piece in pieces(array):
                self._hasher.update(row_bytes(piece))

    def _update_dictionary(self, array: pa.DictionaryArray) -> None:
        values = encode_rows(array.dictionary)
        lengths = pc.binary_length(values)
        stack = [array.indices]
        while stack:
            indices = stack.pop()
            # A small file can stand for huge rows, so what is made at once is counted first.
            size = pc.sum(lengths.take(indices)).as_py() or 0
            if size > PIECE_BYTES and len(indices) > 1:
                half = len(indices) // 2
                stack += [indices.slice(half), indices.slice(0, half)]
            else:
                self._hasher.update(payload(values.take(indices).fill_null(NULL)))

    def digest(self) -> bytes:
        """Return the 32 bytes of the column."""
        return self._hasher.digest()


class RecordDigest:
    """The logical hash of a sequence of record batches of one schema.

    The result does not depend on how rows are split into batches, nor on how columns are stored
    (dictionary, view, large or run-end encoded). Nullability, metadata and the order in which
    threads run do not enter either. Columns of structs are cut anew into batches of 10,000 rows
    from the first row on, since the rule makes the nulls of a struct depend on the batch.

    Args:
        schema: Names and types of the columns; types enter the hash, with time units and zones.

    Raises:
        UnsupportedTypeError: A column has a type without a logical hash; the message names it.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._names = list(schema.names)
        self._hasher = hashlib.sha3_256()
        self._columns = [self._new_column(field) for field in schema]
        self._queues: ColumnQueues | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def _new_column(self, field: pa.Field) -> "_Plain | _Struct":
        leaves: list[_ColumnHasher] = []
        self._add_field(field, 0, leaves, field.name)
        if pa.types.is_struct(field.type):
            return _Struct(field.type, leaves)
        return _Plain(leaves[0])

    def _add_field(
        self, field: pa.Field, level: int, leaves: list[_ColumnHasher], where: str
    ) -> None:
        if level > MAX_TYPE_DEPTH:
            raise UnsupportedTypeError(
                f"column {where[:80]!r} is nested deeper than {MAX_TYPE_DEPTH} levels"
            )
        name = field.name.encode()
        self._hasher.update(struct.pack("<Q", len(name)) + name + struct.pack("<Q", level))
        if pa.types.is_struct(field.type):
            for child in field.type:
                self._add_field(child, level + 1, leaves, f"{where}.{child.name}")
            return
        try:
            leaves.append(_ColumnHasher(field.type))
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(
                f"column {where!r}: {error.message}", hint=error.hint
            ) from None

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch.

        Large batches are hashed in the background; they must not be changed meanwhile, which
        Arrow data never is. Small ones wait for company.

        Raises:
            BadInputError: The batch has other columns than the schema.
        """
        self._check(batch)
        if not batch.num_rows:
            return
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= _PARALLEL_BYTES:
            if self._queues is None:
                threads = min(_MAX_THREADS, os.cpu_count() or 1, len(self._columns))
                self._queues = ColumnQueues([column.update for column in self._columns], threads)
            self._release(self._queues.add)

    def _release(self, add: Callable[[Sequence[pa.Array]], None]) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        for batch in held:
            add(batch.columns)

    def _add_here(self, arrays: Sequence[pa.Array]) -> None:
        for column, array in zip(self._columns, arrays, strict=True):
            column.update(array)

    def _check(self, batch: pa.RecordBatch) -> None:
        if batch.schema.names != self._names:
            raise BadInputError(
                f"a batch has the columns {batch.schema.names}, wanted {self._names}",
                reason="schema",
            )
        for column, field in zip(self._columns, batch.schema, strict=True):
            column.check(field)

    def close(self) -> None:
        """Stop the threads; for those who give up before `finish`."""
        if self._queues is not None:
            self._queues.stop()
            self._queues = None
        self._held = []

    def finish(self) -> Multihash:
        """Return the logical hash of all rows added so far; nothing can be added afterwards."""
        if self._queues is None:
            self._release(self._add_here)
        else:
            self._release(self._queues.add)
            self._queues.finish()
            self._queues = None
        for column in self._columns:
            for leaf in column.finish():
                self._hasher.update(leaf.digest())
        return Multihash(ARROW0_SHA3_256, self._hasher.digest())


class _Plain:
    """A column that is hashed as it comes, whatever the batches."""

    def __init__(self, hasher: _ColumnHasher) -> None:
        self._leaf = hasher
        self.update = hasher.update

    def check(self, field: pa.Field) -> None:
        if pa.types.is_struct(field.type) or type_header(field.type) != self._leaf.header:
            raise BadInputError(
                f"column {field.name!r} of a batch has the type {field.type}, not the schema's",
                reason="schema",
            )

    def finish(self) -> list[_ColumnHasher]:
        return [self._leaf]


class _Struct:
    """A column of structs: collects rows and hands them on in batches of `NESTED_BATCH_ROWS`."""

    def __init__(self, dtype: pa.StructType, leaves: list[_ColumnHasher]) -> None:
        self._type = plain_type(dtype)
        self._leaves = leaves
        self._pending: list[pa.Array] = []
        self._rows = 0

    def check(self, field: pa.Field) -> None:
        if plain_type(field.type) != self._type:
            raise BadInputError(
                f"column {field.name!r} of a batch has the type {field.type}, not the schema's",
                reason="schema",
            )

    def update(self, array: pa.Array) -> None:
        if array.type != self._type:
            array = array.cast(self._type)
        while len(array):
            piece = array.slice(0, NESTED_BATCH_ROWS - self._rows)
            array = array.slice(len(piece))
            self._pending.append(piece)
            self._rows += len(piece)
            if self._rows == NESTED_BATCH_ROWS:
                self._flush()

    def finish(self) -> list[_ColumnHasher]:
        self._flush()
        return self._leaves

    def _flush(self) -> None:
        if self._pending:
            whole = pa.concat_arrays(self._pending)
            self._pending, self._rows = [], 0
            for leaf, (array, valid) in zip(self._leaves, _flatten(whole, None), strict=True):
                leaf.update(array, valid)


def _flatten(
    array: pa.Array, parent_valid: pa.BooleanArray | None
) -> Iterator[tuple[pa.Array, pa.BooleanArray | None]]:
    """Yield the leaf columns of a struct with the validity that they inherit, if any.

    The reference combines the validity of parent and child by OR where both have nulls in a batch,
    and takes that of the one that has nulls otherwise (wire-format.md §d.5). A value under a null
    struct is itself null in every file, so OR leaves just the parent's nulls.
    """
    if not pa.types.is_struct(array.type):
        yield array, parent_valid
        return
    if parent_valid is None and array.null_count:
        parent_valid = array.is_valid()
    for index in range(array.type.num_fields):
        yield from _flatten(array.field(index), parent_valid)


def logical_hash(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Multihash:
    """Return the logical hash of a table (ODF "Physical and Logical Hashes"; wire-format.md §d).

    Args:
        schema: The columns; zero batches are a valid table.
        batches: The rows in order.

    Raises:
        UnsupportedTypeError: A column has a type without a logical hash.
        BadInputError: A batch has other columns than the schema.
    """
    digest = RecordDigest(schema)
    try:
        for batch in batches:
            digest.update(batch)
        return digest.finish()
    finally:
        digest.close()


def array_digest(array: pa.Array | pa.ChunkedArray) -> bytes:
    """Return the 32 bytes of the digest of one column alone, without name and record."""
    hasher = _ColumnHasher(array.type)
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        hasher.update(chunk)
    return hasher.digest()

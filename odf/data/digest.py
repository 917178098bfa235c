"""The logical hash of a table: arrow-digest version 0 over SHA3-256 (wire-format.md §d).

Owns the answer to "do these rows equal those rows", whatever file, encoding, compression or batch
they come in. Knows nothing of files or of the meaning of columns.

The rule is written row by row in the reference; here each column is turned into the bytes of the
rule with a few Arrow kernels and handed to the hasher in pieces, because a loop over values would
be a hundred times slower. The trick is one: a binary array stores its values back to back, so a
binary array whose i-th value is "the bytes of row i" has in its value buffer what is to be hashed.
Arrow's kernels and `hashlib` both release the interpreter lock, so columns run in threads.
"""

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.data.column_queues import ColumnQueues
from odf.errors import BadInputError
from odf.limits import MAX_TYPE_DEPTH
from odf.metadata.multiformats import ARROW0_SHA3_256, Multihash

NESTED_BATCH_ROWS: Final = 10_000
"""Rows of a batch in which the nulls of structs are combined; what the reference reads at once."""

_PIECE_BYTES: Final = 1 << 20  # of hashed bytes at a time: stays in the processor's cache
_PIECE_ROWS: Final = 1 << 16
_SMALL_BYTES: Final = 1 << 30  # well within the reach of offsets of four bytes
_COUNT_BYTES: Final = 8
_PARALLEL_BYTES: Final = 1 << 18  # below this, handing work to threads costs more than it saves
_MAX_THREADS: Final = 4

_NULL: Final = b"\0"
_LARGE = pa.large_binary()
_EMPTY = pa.scalar(b"", _LARGE)
_NULL_AND_NOTHING = pa.array([_NULL, b""], pa.binary())
_UNITS: Final = {"s": 0, "ms": 1, "us": 2, "ns": 3}


class UnsupportedTypeError(BadInputError):
    """A column has a type for which no logical hash is defined."""

    kind = "unsupported_type"


def type_header(dtype: pa.DataType) -> bytes:
    """Return the bytes that open the hash of a column of this type (wire-format.md §d.1).

    Dictionary, run-end encoded and extension types have the header of what they stand for, as
    they are ways to store a value and not other values.

    Raises:
        UnsupportedTypeError: The type has no logical hash, for example a map.
    """
    return _header(dtype, 0)


def _header(dtype: pa.DataType, depth: int) -> bytes:
    if depth > MAX_TYPE_DEPTH:
        raise UnsupportedTypeError(f"a type is nested deeper than {MAX_TYPE_DEPTH} levels")
    t = pa.types
    if isinstance(dtype, pa.BaseExtensionType):
        return _header(dtype.storage_type, depth)
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return _header(dtype.value_type, depth)
    if _is_list(dtype):
        return struct.pack("<H", 11) + _header(dtype.value_type, depth + 1)
    if _is_binary(dtype) or t.is_fixed_size_binary(dtype):
        return struct.pack("<H", 3)
    if _is_text(dtype):
        return struct.pack("<H", 4)
    if t.is_null(dtype):
        return struct.pack("<H", 0)
    if t.is_boolean(dtype):
        return struct.pack("<H", 5)
    return _number_header(dtype) or _time_header(dtype)


def _number_header(dtype: pa.DataType) -> bytes | None:
    t = pa.types
    if t.is_integer(dtype):
        return struct.pack("<HBQ", 1, t.is_signed_integer(dtype), dtype.bit_width)
    if t.is_floating(dtype):
        return struct.pack("<HQ", 2, dtype.bit_width)
    if t.is_decimal(dtype):
        return struct.pack("<HQQq", 6, dtype.bit_width, dtype.precision, dtype.scale)
    return None


def _time_header(dtype: pa.DataType) -> bytes:
    t = pa.types
    if t.is_date32(dtype):
        return struct.pack("<HQH", 7, 32, 0)
    if t.is_date64(dtype):
        return struct.pack("<HQH", 7, 64, 1)
    if t.is_time(dtype):
        return struct.pack("<HQH", 8, dtype.bit_width, _UNITS[dtype.unit])
    if t.is_timestamp(dtype):
        head = struct.pack("<HH", 9, _UNITS[dtype.unit])
        if dtype.tz is None:
            return head + b"\0"
        zone: bytes = dtype.tz.encode()
        return head + struct.pack("<Q", len(zone)) + zone
    raise UnsupportedTypeError(
        f"no logical hash is defined for values of type {dtype}",
        hint="turn the column into text, numbers, dates or lists of these",
    )


def _is_text(dtype: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(dtype) or t.is_large_string(dtype) or t.is_string_view(dtype))


def _is_binary(dtype: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_binary(dtype) or t.is_large_binary(dtype) or t.is_binary_view(dtype))


def _is_list(dtype: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_list(dtype) or t.is_large_list(dtype) or t.is_fixed_size_list(dtype))


# --- values to bytes ---------------------------------------------------------------------------


def _encode(array: pa.Array) -> pa.LargeBinaryArray:
    """Return for each row the bytes of its value or of its being null (wire-format.md §d.2)."""
    dtype = array.type
    t = pa.types
    if isinstance(dtype, pa.BaseExtensionType):
        return _encode(array.storage)
    if t.is_run_end_encoded(dtype):
        return _encode(pc.run_end_decode(array))
    if t.is_dictionary(dtype):
        return _encode_dictionary(array)
    if _is_list(dtype):
        return _encode_list(array)
    if t.is_fixed_size_binary(dtype) or _is_text(dtype) or _is_binary(dtype):
        values = array.cast(_LARGE)
        return _prefixed(pc.binary_length(values), values)
    if t.is_null(dtype):
        raise UnsupportedTypeError("no logical hash is defined for values of type null")
    if t.is_boolean(dtype):
        array = pc.add(array.cast(pa.uint8()), pa.scalar(1, pa.uint8()))
    return array.view(pa.binary(array.type.byte_width)).cast(_LARGE).fill_null(_NULL)


def _prefixed(counts: pa.Int64Array, values: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return each value behind its count; a null count makes the whole row null."""
    prefixes = counts.view(pa.binary(8)).cast(_LARGE)
    if counts.null_count:
        values = pc.if_else(counts.is_valid(), values, _EMPTY)
        prefixes = prefixes.fill_null(_NULL)
    # Taking counts and values in turn is more than twice as fast as joining them row by row.
    order, ends = _weave(len(values))
    woven = pa.concat_arrays([prefixes, values]).take(order)
    return _rows(_offsets(woven).take(ends), woven)


@lru_cache(maxsize=8)
def _weave(rows: int) -> tuple[pa.Int32Array, pa.Int32Array]:
    """Return the order 0, rows, 1, rows + 1 and so on, and the ends of its pairs 0, 2, 4."""
    places = pa.arange(0, 2 * rows)
    halves = pc.multiply(pc.bit_wise_and(places, 1), rows)
    order = pc.add(pc.shift_right(places, 1), halves)
    return order.cast(pa.int32()), pa.arange(0, 2 * rows + 1, 2).cast(pa.int32())


def _rows(offsets: pa.Int64Array, values: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Return a binary array over the bytes of another, cut at other places."""
    data = values.buffers()[2] or pa.py_buffer(b"")
    return pa.LargeBinaryArray.from_buffers(
        _LARGE, len(offsets) - 1, [None, offsets.buffers()[1], data]
    )


def _encode_dictionary(array: pa.DictionaryArray) -> pa.LargeBinaryArray:
    if len(array.dictionary) > len(array):
        return _encode(array.dictionary_decode())
    return _encode(array.dictionary).take(array.indices).fill_null(_NULL)


def _encode_list(array: pa.Array) -> pa.LargeBinaryArray:
    """Encode lists: the count, then the bytes of the elements, which lie back to back already."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        first = pa.scalar(array.offset, pa.int64())
        offsets = pc.multiply(pc.add(pa.arange(0, len(array) + 1), first), size)
    else:
        offsets = array.offsets.cast(pa.int64())
    # Elements outside of this slice of the lists are not worth encoding.
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    items = _encode(array.values.slice(start, stop - start))
    joined = _rows(_offsets(items).take(pc.subtract(offsets, start)), items)
    counts = pc.subtract(offsets[1:], offsets[:-1])
    if array.null_count:
        counts = pc.if_else(array.is_valid(), counts, pa.scalar(None, pa.int64()))
    return _prefixed(counts, joined)


def _offsets(array: pa.LargeBinaryArray) -> pa.Int64Array:
    return pa.Array.from_buffers(
        pa.int64(), len(array) + 1, [None, array.buffers()[1]], offset=array.offset
    )


def _zero(dtype: pa.DataType) -> bytes:
    """Return the bytes of the value that stands under a null: zero, or empty (design §7)."""
    t = pa.types
    if isinstance(dtype, pa.BaseExtensionType):
        return _zero(dtype.storage_type)
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return _zero(dtype.value_type)
    if t.is_fixed_size_list(dtype):
        size: int = dtype.list_size
        return struct.pack("<Q", size) + size * _zero(dtype.value_type)
    if t.is_boolean(dtype):
        return b"\1"
    if t.is_fixed_size_binary(dtype):
        return struct.pack("<Q", dtype.byte_width) + bytes(dtype.byte_width)
    if _is_list(dtype) or _is_text(dtype) or _is_binary(dtype) or t.is_null(dtype):
        return bytes(8)
    return bytes(dtype.byte_width)


def _payload(array: pa.LargeBinaryArray) -> memoryview:
    """Return the values of a binary array without nulls, back to back, without copying."""
    if len(array) == 0:
        return memoryview(b"")
    offsets = _offsets(array)
    return memoryview(array.buffers()[2] or b"")[offsets[0].as_py() : offsets[-1].as_py()]


# --- one column --------------------------------------------------------------------------------


class _ColumnHasher:
    """Hashes one column that is not a struct."""

    def __init__(self, dtype: pa.DataType) -> None:
        self.header = type_header(dtype)
        self._hasher = hashlib.sha3_256(self.header)
        self._zero = pa.scalar(_zero(dtype), _LARGE)

    def update(self, array: pa.Array, parent_valid: pa.BooleanArray | None = None) -> None:
        """Add rows; `parent_valid` says which rows exist where a struct above has nulls."""
        if len(array) == 0:
            return
        if parent_valid is not None:
            rows = pc.if_else(array.is_valid(), _encode(array), self._zero)
            rows = pc.if_else(parent_valid, rows, pa.scalar(_NULL, _LARGE))
            self._hasher.update(_payload(rows))
        elif (raw := _raw_values(array)) is not None:
            self._hasher.update(raw)
        elif pa.types.is_dictionary(array.type):
            self._update_dictionary(array)
        else:
            for piece in _pieces(array):
                self._hasher.update(_row_bytes(piece))

    def _update_dictionary(self, array: pa.DictionaryArray) -> None:
        values = _encode(array.dictionary)
        lengths = pc.binary_length(values)
        stack = [array.indices]
        while stack:
            indices = stack.pop()
            # A small file can stand for huge rows, so what is made at once is counted first.
            size = pc.sum(lengths.take(indices)).as_py() or 0
            if size > _PIECE_BYTES and len(indices) > 1:
                half = len(indices) // 2
                stack += [indices.slice(half), indices.slice(0, half)]
            else:
                self._hasher.update(_payload(values.take(indices).fill_null(_NULL)))

    def digest(self) -> bytes:
        """Return the 32 bytes of the column."""
        return self._hasher.digest()


def _raw_values(array: pa.Array) -> memoryview | None:
    """Return the value buffer of a fixed-width array without nulls: the rule's very bytes."""
    dtype, t = array.type, pa.types
    fixed = (t.is_primitive(dtype) and not t.is_boolean(dtype)) or t.is_decimal(dtype)
    if array.null_count or not fixed:
        return None
    width = dtype.byte_width
    start = array.offset * width
    return memoryview(array.buffers()[1])[start : start + len(array) * width]


def _row_bytes(array: pa.Array) -> memoryview:
    """Return the bytes of all rows back to back: those of `_encode`, by shorter ways if any."""
    dtype, t = array.type, pa.types
    if t.is_boolean(dtype):
        codes = pc.add(array.cast(pa.uint8()), pa.scalar(1, pa.uint8())).fill_null(0)
        return memoryview(codes.buffers()[1])[codes.offset : codes.offset + len(codes)]
    is_short = t.is_string(dtype) or t.is_binary(dtype)
    is_long = t.is_large_string(dtype) or t.is_large_binary(dtype)
    if (is_short or is_long) and array.nbytes < _SMALL_BYTES:
        return _text_bytes(array.cast(pa.binary()) if is_long else array)
    return _payload(_encode(array))


def _text_bytes(values: pa.Array) -> memoryview:
    """Return texts back to back, each behind its length in eight bytes; a zero byte for nulls.

    Lengths and values are taken in turn from one array that has first all of these, then all of
    those: less than half the time of joining them row by row.

    Args:
        values: At most `_PIECE_ROWS` texts, with offsets of four bytes.
    """
    rows = len(values)
    counts = pc.binary_length(values).cast(pa.int64())
    count_bytes = counts.buffers()[1].slice(_COUNT_BYTES * counts.offset)
    _, ends, data = values.buffers()
    sources = [
        _binary(rows, _steps(), count_bytes),
        _binary(rows, ends, data or pa.py_buffer(b""), values.offset),
    ]
    places = _places(rows)
    if values.null_count:
        sources.append(_NULL_AND_NOTHING)
        null = pa.scalar(2 * rows | (2 * rows + 1) << 32, pa.int64())
        places = pc.if_else(values.is_valid(), places, null)
    order = pa.Array.from_buffers(
        pa.int32(), 2 * rows, [None, places.buffers()[1]], offset=2 * places.offset
    )
    woven = pc.take(pa.concat_arrays(sources), order, boundscheck=False)
    _, ends, data = woven.buffers()
    last = pa.Array.from_buffers(pa.int32(), 1, [None, ends], offset=2 * rows)[0].as_py()
    return memoryview(data or b"")[:last]


def _binary(rows: int, ends: pa.Buffer, data: pa.Buffer, offset: int = 0) -> pa.BinaryArray:
    """Return buffers as a binary array without nulls; what is under a null counts as a value."""
    return pa.Array.from_buffers(pa.binary(), rows, [None, ends, data], offset=offset)


@lru_cache(maxsize=1)
def _steps() -> pa.Buffer:
    """Return the offsets 0, 8, 16 and so on, for a piece of any length."""
    steps = pc.multiply(pa.arange(0, _PIECE_ROWS + 1), _COUNT_BYTES)
    return steps.cast(pa.int32()).buffers()[1]


@lru_cache(maxsize=16)
def _places(rows: int) -> pa.Int64Array:
    """Return where the length and the value of each row are: two places of four bytes, as one."""
    numbers = pa.arange(0, rows)
    return pc.bit_wise_or(numbers, pc.shift_left(pc.add(numbers, rows), 32))


def _pieces(array: pa.Array) -> Iterator[pa.Array]:
    per_row = array.nbytes // len(array) + 8
    rows = max(1, min(_PIECE_ROWS, _PIECE_BYTES // per_row))
    for start in range(0, len(array), rows):
        yield array.slice(start, rows)


# --- records -----------------------------------------------------------------------------------


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
        self._type = _plain_type(dtype)
        self._leaves = leaves
        self._pending: list[pa.Array] = []
        self._rows = 0

    def check(self, field: pa.Field) -> None:
        if _plain_type(field.type) != self._type:
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


def _plain_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type without the ways of storing it: what batches of one column have in common."""
    t = pa.types
    if isinstance(dtype, pa.BaseExtensionType):
        return _plain_type(dtype.storage_type)
    if t.is_dictionary(dtype) or t.is_run_end_encoded(dtype):
        return _plain_type(dtype.value_type)
    if t.is_struct(dtype):
        return pa.struct([pa.field(f.name, _plain_type(f.type)) for f in dtype])
    if t.is_fixed_size_list(dtype):
        return pa.list_(_plain_type(dtype.value_type), dtype.list_size)
    if _is_list(dtype):
        return pa.large_list(_plain_type(dtype.value_type))
    if _is_text(dtype):
        return pa.large_string()
    if _is_binary(dtype):
        return _LARGE
    return dtype


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

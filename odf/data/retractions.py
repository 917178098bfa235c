"""Finds retractions that do not say what they take back.

A `-R` or `-C` row carries the values of the row that it retracts: the newest row of its key, which
is an append or the second half of a correction (ODF "Representation of retractions and
corrections"). Knowing that takes the whole history of each key, so rows are boiled down to two
short hashes (of key and of values), sorted by key, and compared with their neighbours. Above a
bound they wait on disk, split by key; memory stays the same however long the history is.
"""

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.data.parquet import batches, guarded, open_parquet
from odf.data.row_bytes import encode_rows
from odf.errors import BadInputError
from odf.metadata.model import DatasetVocabulary, OperationType

_HASH_SIZE: Final = 16
_HELD_ROWS: Final = 1 << 20  # about 60 MB
_SHARES: Final = 64  # files on disk, each with the history of its share of the keys

_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary(_HASH_SIZE)),
        ("offset", pa.int64()),
        ("op", pa.int64()),
        ("values", pa.binary(_HASH_SIZE)),
        ("judged", pa.bool_()),
    ]
)
_PRESENT: Final = pa.array([int(OperationType.APPEND), int(OperationType.CORRECT_TO)], pa.int64())
_RETRACTING: Final = pa.array(
    [int(OperationType.RETRACT), int(OperationType.CORRECT_FROM)], pa.int64()
)


@dataclass(frozen=True, slots=True)
class WrongRetraction:
    """A retraction that is not what it retracts.

    Attributes:
        offset: Where it is.
        op: What it is.
        retracted: Offset of the row of its key that is there before it, with other values; None
            if there is no row of its key to retract.
    """

    offset: int
    op: OperationType
    retracted: int | None

    def __str__(self) -> str:
        sign = "-R" if self.op is OperationType.RETRACT else "-C"
        if self.retracted is None:
            return f"{sign} at offset {self.offset} has no row of its key to retract"
        return f"{sign} at offset {self.offset} differs from the row at offset {self.retracted}"


def wrong_retractions(
    slices: Iterable[tuple[Path, bool]],
    primary_key: Sequence[str],
    vocab: DatasetVocabulary,
    scratch: Path,
) -> Iterator[WrongRetraction]:
    """Find the wrong retractions in a history, in no particular order.

    Args:
        slices: The slices of the history, oldest first, and whether wrong retractions in them are
            told of. Each is read before the next one is asked for.
        primary_key: The columns that tell rows apart.
        vocab: The names of the system columns.
        scratch: A folder for what does not fit into memory.

    Raises:
        NotFoundError: A slice file is missing.
        IntegrityError: A slice file cannot be read.
        BadInputError: A key column or a system column does not exist.
    """
    check = RetractionCheck(primary_key, vocab, scratch)
    try:
        for path, judged in slices:
            with guarded(path), open_parquet(path) as file:
                for batch in batches(path, file):
                    check.add(batch, judged=judged)
        yield from check.finish()
    finally:
        check.close()


class RetractionCheck:
    """Takes the rows of a dataset in order and tells which retractions are wrong.

    A column that a slice lacks is null there, so rows from before and after a column was added
    compare equal if nothing else differs. System columns do not count, key columns do not either:
    they are equal by definition.

    Args:
        primary_key: The columns that tell rows apart; null is a key like any other.
        vocab: The names of the system columns.
        scratch: A folder for what does not fit into memory.
        held_rows: How many rows are in memory at most.
    """

    def __init__(
        self,
        primary_key: Sequence[str],
        vocab: DatasetVocabulary,
        scratch: Path,
        held_rows: int = _HELD_ROWS,
    ) -> None:
        self._key = tuple(primary_key)
        self._vocab = vocab
        self._scratch = scratch
        self._held_rows = held_rows
        self._ignored = {
            vocab.offset_column,
            vocab.operation_type_column,
            vocab.system_time_column,
            vocab.event_time_column,
            *primary_key,
        }
        self._labels: dict[tuple[str, ...], bytes] = {}
        # With a key that nobody can foresee, nobody can make rows that look alike.
        self._secret = secrets.token_bytes(16)
        self._held: list[pa.RecordBatch] = []
        self._num_held = 0
        self._shares: list[pa.ipc.RecordBatchStreamWriter] = []
        self._open_files = ExitStack()

    def add(self, batch: pa.RecordBatch, *, judged: bool = True) -> None:
        """Take the next rows.

        Args:
            batch: The rows of a slice, system columns included.
            judged: Whether wrong retractions among them are told of; the others are history only.

        Raises:
            BadInputError: A key column or a system column does not exist.
        """
        names = batch.schema.names
        wanted = (*self._key, self._vocab.offset_column, self._vocab.operation_type_column)
        for name in wanted:
            if names.count(name) != 1:
                raise BadInputError(f"there is no single column {name!r} among {names}")
        values = [name for name in names if name not in self._ignored]
        columns = [
            self._hashes(batch, self._key),
            batch.column(self._vocab.offset_column).cast(pa.int64()),
            batch.column(self._vocab.operation_type_column).cast(pa.int64()),
            self._hashes(batch, values),
            pa.repeat(pa.scalar(judged), batch.num_rows),
        ]
        self._held.append(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
        self._num_held += batch.num_rows
        if self._num_held > self._held_rows:
            self._spill()

    def finish(self) -> Iterator[WrongRetraction]:
        """Yield what is wrong, in no particular order; nothing can be added afterwards."""
        try:
            if not self._shares:
                yield from _wrong(pa.Table.from_batches(self._held, _SCHEMA))
                return
            self._spill()
            self._open_files.close()
            for number in range(_SHARES):
                with pa.OSFile(os.fsencode(self._share(number)), "rb") as file:
                    yield from _wrong(pa.ipc.open_stream(file).read_all())
                self._share(number).unlink()
        finally:
            self.close()

    def close(self) -> None:
        """Give up what is held; for those who stop before `finish`."""
        self._open_files.close()
        self._held = []

    def _hashes(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
        """Return a hash for each row, over those of the columns that are not null."""
        parts: list[pa.Array] = []
        for name in names:
            parts += self._parts(batch.column(name), (name,))
        rows = [b""] * batch.num_rows
        if parts:
            nothing = pa.scalar(b"", pa.large_binary())
            rows = pc.binary_join_element_wise(*parts, nothing).to_pylist()
        size, key = _HASH_SIZE, self._secret
        hashes = [hashlib.blake2b(row, digest_size=size, key=key).digest() for row in rows]
        return pa.array(hashes, pa.binary(_HASH_SIZE))

    def _parts(self, array: pa.Array, path: tuple[str, ...]) -> Iterator[pa.Array]:
        """Yield bytes for each row: nothing for null, else which column it is, then its value.

        Values of one column have one length, or their length before them, so that the parts of a
        row cannot be mistaken for those of another.
        """
        label = self._labels.setdefault(path, len(self._labels).to_bytes(4, "little"))
        large = pa.large_binary()
        nothing = pa.scalar(b"", large)
        valid = array.is_valid()
        yield pc.if_else(valid, pa.scalar(label, large), nothing)
        if pa.types.is_struct(array.type):
            for child, field in zip(array.flatten(), array.type, strict=True):
                yield from self._parts(child, (*path, field.name))
            return
        values = encode_rows(_plain_numbers(array))
        yield pc.if_else(valid, values, nothing) if array.null_count else values

    def _spill(self) -> None:
        """Append what is held to the files of its keys' shares."""
        if not self._shares:
            for number in range(_SHARES):
                file = self._open_files.enter_context(
                    pa.OSFile(os.fsencode(self._share(number)), "wb")
                )
                writer = pa.ipc.new_stream(file, _SCHEMA)
                self._shares.append(self._open_files.enter_context(writer))
        table = pa.Table.from_batches(self._held, _SCHEMA)
        self._held, self._num_held = [], 0
        first = pc.binary_slice(table["key"].cast(pa.binary()), 0, 1)
        shares = pc.bit_wise_and(
            first.cast(pa.binary(1)).combine_chunks().view(pa.uint8()), _SHARES - 1
        )
        for number, writer in enumerate(self._shares):
            writer.write_table(table.filter(pc.equal(shares, number)))

    def _share(self, number: int) -> Path:
        return self._scratch / f"retractions-{number}"


def _plain_numbers(array: pa.Array) -> pa.Array:
    """Make equal what counts as equal in a merge: both zeros, and every kind of NaN."""
    if not pa.types.is_floating(array.type) or array.type == pa.float16():
        return array
    zero, nan = pa.scalar(0.0, array.type), pa.scalar(float("nan"), array.type)
    return pc.if_else(pc.is_nan(array), nan, pc.add(array, zero))


def _wrong(rows: pa.Table) -> Iterator[WrongRetraction]:
    """Compare each retraction with the row of its key before it."""
    if rows.num_rows == 0:
        return
    rows = rows.sort_by([("key", "ascending"), ("offset", "ascending")]).combine_chunks()
    here, before = rows, rows.slice(0, rows.num_rows - 1)
    key, op, values, offset = (_shifted(before[name]) for name in ("key", "op", "values", "offset"))
    there = pc.and_(pc.equal(here["key"], key), pc.is_in(op, value_set=_PRESENT)).fill_null(False)
    same = pc.and_(there, pc.equal(here["values"], values).fill_null(False))
    retracting = pc.and_(here["judged"], pc.is_in(here["op"], value_set=_RETRACTING))
    wrong = pc.and_not(retracting, same)
    found = pa.table(
        {
            "offset": here["offset"],
            "op": here["op"],
            "retracted": pc.if_else(there, offset, pa.scalar(None, pa.int64())),
        }
    ).filter(wrong)
    for batch in found.to_batches(max_chunksize=1 << 12):
        for row in batch.to_pylist():
            yield WrongRetraction(row["offset"], OperationType(row["op"]), row["retracted"])


def _shifted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Put a null before the first value: what stood one row earlier."""
    return pa.chunked_array([pa.nulls(1, column.type), *column.chunks], column.type)

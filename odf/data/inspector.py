"""Looks at a slice file once and says everything about it that the chain can be checked against.

The inspector believes nothing: an engine proposes a slice, this module finds out what it is
(data-slices.md §1, §6; ODF "Common Data Schema"). What it finds wrong it reports; whether that
refuses a commit or is only told to the user, callers decide.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.data.digest import RecordDigest
from odf.data.parquet import batches, guarded, open_parquet, physical_hash
from odf.data.types import TIMESTAMP_MS_UTC, arrow_name
from odf.errors import OdfError
from odf.metadata.model import DatasetVocabulary, OperationType
from odf.metadata.multiformats import Multihash
from odf.metadata.timestamp import Timestamp

OFFSET_TYPES: Final = (pa.int64(), pa.uint64())
"""Types of the offset column: what everyone writes, and what the specification says."""

OPERATION_TYPES: Final = (pa.int32(), pa.uint8(), pa.uint32())
"""Types of the operation column, likewise."""

EVENT_TIME_TYPES: Final = (TIMESTAMP_MS_UTC, pa.date32(), pa.date64())
"""Types of the event time column."""

_SHOWN: Final = 5  # places that are named of those where a pair is broken
_DAY_MS: Final = 86_400_000
_BUSY_WITH_HASHING: Final = 2  # processors


@dataclass(frozen=True, slots=True)
class SliceInfo:
    """What a slice file is.

    Attributes:
        num_records: Rows in the file.
        offset_start: Lowest offset, `None` if there are no rows or no readable offsets.
        offset_end: Highest offset, inclusive.
        size: Bytes of the file.
        physical_hash: SHA3-256 of the file's bytes.
        logical_hash: arrow-digest of the rows, with the file's own types.
        schema: The columns as the file has them, without metadata.
        max_event_time: Latest event time; a date counts as its midnight, UTC.
        min_system_time: Earliest system time of a row.
        max_system_time: Latest system time of a row.
        ops: Rows by operation; operations that do not occur are absent.
        problems: What breaks the contract of a slice, in words; empty for a good one.
        unpaired: Corrections without their other half, in words. Binding for what is written
            here, a finding about what others wrote.
    """

    num_records: int
    offset_start: int | None
    offset_end: int | None
    size: int
    physical_hash: Multihash
    logical_hash: Multihash
    schema: pa.Schema
    max_event_time: Timestamp | None
    min_system_time: Timestamp | None
    max_system_time: Timestamp | None
    ops: dict[OperationType, int]
    problems: tuple[str, ...]
    unpaired: tuple[str, ...]


def inspect_slice(
    path: Path,
    vocab: DatasetVocabulary,
    hashed: Callable[[Path], tuple[Multihash, int]] = physical_hash,
) -> SliceInfo:
    """Read a slice file once, in bounded memory, and report what it is.

    Args:
        path: The Parquet file.
        vocab: The names of the system columns.
        hashed: Gives the hash and the size of a file.

    Returns:
        The facts, with all breaches of the contract in `problems` and `unpaired`.

    Raises:
        NotFoundError: There is no such file.
        MalformedSliceError: It cannot be read as Parquet.
        UnsupportedTypeError: A column has a type that has no logical hash.
    """
    with guarded(path), ThreadPoolExecutor(1, "odf-hash") as pool:
        # The bytes are hashed beside the rows: the second reader finds them in the page cache.
        hashing = pool.submit(hashed, path)
        file = open_parquet(path)
        schema = strip_metadata(file.schema_arrow)
        checks = _Checks(schema, vocab)
        digest = RecordDigest(schema)
        # To decode on more threads than there are processors only lets them wait for each other.
        has_spare = (os.cpu_count() or 1) > _BUSY_WITH_HASHING
        try:
            for batch in batches(path, file, use_threads=has_spare):
                digest.update(batch)
                checks.add(batch)
            logical = digest.finish()
        finally:
            digest.close()
            file.close()
        physical, size = hashing.result()
        return checks.result(size, physical, logical)


def strip_metadata(schema: pa.Schema) -> pa.Schema:
    """Return the schema with names, types and nullability only."""
    return pa.schema([field.remove_metadata() for field in schema])


class _Checks:
    """Accumulates everything but the hashes, batch by batch."""

    def __init__(self, schema: pa.Schema, vocab: DatasetVocabulary) -> None:
        self._schema = schema
        self._vocab = vocab
        self._problems = list(schema_problems(schema, vocab))
        self._rows = 0
        self._offsets = _Offsets(vocab.offset_column)
        self._ops = _Operations(vocab.operation_type_column)
        self._nulls = {vocab.offset_column: 0, vocab.operation_type_column: 0}
        self._nulls[vocab.system_time_column] = 0
        self._max_event_time: int | None = None
        self._system_times: tuple[int, int] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at the system columns of the next rows."""
        self._rows += batch.num_rows
        for name in self._nulls:
            if (column := self._column(batch, name)) is not None:
                self._nulls[name] += column.null_count
        vocab = self._vocab
        offsets = self._column(batch, vocab.offset_column, OFFSET_TYPES)
        if offsets is not None:
            self._offsets.add(offsets.cast(pa.int64()))
        ops = self._column(batch, vocab.operation_type_column, OPERATION_TYPES)
        if ops is not None:
            self._ops.add(ops.cast(pa.int64()), offsets)
        times = self._column(batch, vocab.event_time_column, EVENT_TIME_TYPES)
        if times is not None:
            self._add_event_times(times)
        system_times = self._column(batch, vocab.system_time_column, (TIMESTAMP_MS_UTC,))
        if system_times is not None:
            self._add_system_times(system_times)

    def _column(
        self, batch: pa.RecordBatch, name: str, types: tuple[pa.DataType, ...] = ()
    ) -> pa.Array | None:
        index = self._schema.get_field_index(name)  # -1 if there are two of the name, too
        if index < 0 or (types and self._schema.field(index).type not in types):
            return None
        return batch.column(index)

    def _add_event_times(self, times: pa.Array) -> None:
        ticks = times.cast(pa.int32() if pa.types.is_date32(times.type) else pa.int64())
        latest = pc.max(ticks).as_py()
        if latest is not None:
            if pa.types.is_date32(times.type):
                latest *= _DAY_MS
            known = self._max_event_time
            self._max_event_time = latest if known is None else max(latest, known)

    def _add_system_times(self, times: pa.Array) -> None:
        bounds = pc.min_max(times.cast(pa.int64()))
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None:
            known = self._system_times or (low, high)
            self._system_times = min(low, known[0]), max(high, known[1])

    def result(self, size: int, physical: Multihash, logical: Multihash) -> SliceInfo:
        """Return what was found."""
        problems = list(self._problems)
        if self._rows == 0:
            problems.append("the file has no rows; a block without new data has no file")
        for name, nulls in self._nulls.items():
            if nulls:
                problems.append(f"column {name!r} is null in {nulls} rows, wanted a value in each")
        problems += self._offsets.problems
        problems += self._ops.problems()
        system_low, system_high = self._system_times or (None, None)
        vocab = self._vocab
        times = {
            "max_event_time": self._time(self._max_event_time, vocab.event_time_column, problems),
            "min_system_time": self._time(system_low, vocab.system_time_column, problems),
            "max_system_time": self._time(system_high, vocab.system_time_column, problems),
        }
        return SliceInfo(
            num_records=self._rows,
            offset_start=self._offsets.lowest,
            offset_end=self._offsets.highest,
            size=size,
            physical_hash=physical,
            logical_hash=logical,
            schema=self._schema,
            **times,
            ops=self._ops.counts(),
            problems=tuple(problems),
            unpaired=self._ops.unpaired(),
        )

    def _time(self, epoch_ms: int | None, column: str, problems: list[str]) -> Timestamp | None:
        if epoch_ms is None:
            return None
        try:
            return Timestamp.from_epoch_ms(epoch_ms)
        except OdfError as error:
            problems.append(f"column {column!r}: {error.message}")
            return None


class _Offsets:
    """Offsets must count up by one from row to row."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next: int | None = None
        self.lowest: int | None = None
        self.highest: int | None = None
        self.problems: list[str] = []

    def add(self, offsets: pa.Array) -> None:
        """Look at the offsets of the next rows."""
        bounds = pc.min_max(offsets)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is None:
            return
        self.lowest = low if self.lowest is None else min(low, self.lowest)
        self.highest = high if self.highest is None else max(high, self.highest)
        if self.problems:
            return
        if low < 0:
            self.problems.append(f"column {self._name!r} has the negative offset {low}")
            return
        first = offsets[0].as_py() if self._next is None else self._next
        if first is None:
            return
        self._next = first + len(offsets)
        wanted = pa.arange(first, self._next)
        row = pc.index(pc.equal(offsets, wanted), pa.scalar(False)).as_py()
        if row >= 0:
            got, after = offsets[row].as_py(), first + row
            self.problems.append(
                f"column {self._name!r} does not count up by one: wanted offset {after}, got {got}"
            )


class _Operations:
    """Operations are 0 to 3, and the two halves of a correction follow one another."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts: dict[int, int] = {}
        self._rows = 0
        self._open: str | None = None  # where a -C waits for its +C
        self._broken = 0
        self._places: list[str] = []

    def add(self, ops: pa.Array, offsets: pa.Array | None) -> None:
        """Look at the operations of the next rows."""
        if len(ops) == 0 or self._is_plain(ops):
            return
        for entry in pc.value_counts(ops.drop_null()).to_pylist():
            code = entry["values"]
            self._counts[code] = self._counts.get(code, 0) + entry["counts"]
        ops = ops.fill_null(-1)
        starts = pc.equal(ops, int(OperationType.CORRECT_FROM))
        ends = pc.equal(ops, int(OperationType.CORRECT_TO))
        before = pa.concat_arrays(
            [pa.array([self._open is not None]), starts.slice(0, len(ops) - 1)]
        )
        broken = pc.indices_nonzero(pc.xor(before, ends))
        self._broken += len(broken)
        for row in broken.slice(0, _SHOWN - len(self._places)).to_pylist():
            self._report(row, ends[row].as_py(), offsets)
        last = len(ops) - 1
        self._open = self._place(last, offsets) if starts[last].as_py() else None
        self._rows += len(ops)

    def _is_plain(self, ops: pa.Array) -> bool:
        """Count rows if all have one operation that has no other half, as most have."""
        bounds = pc.min_max(ops)
        code = bounds["min"].as_py()
        if ops.null_count or self._open is not None or code != bounds["max"].as_py():
            return False
        if code in (OperationType.CORRECT_FROM, OperationType.CORRECT_TO):
            return False
        self._counts[code] = self._counts.get(code, 0) + len(ops)
        self._rows += len(ops)
        return True

    def _report(self, row: int, is_end: bool, offsets: pa.Array | None) -> None:
        if is_end:
            self._places.append(f"+C at {self._place(row, offsets)} has no -C directly before it")
        else:
            start = self._place(row - 1, offsets) if row else self._open
            self._places.append(f"-C at {start} has no +C directly after it")

    def _place(self, row: int, offsets: pa.Array | None) -> str:
        offset = offsets[row].as_py() if offsets is not None else None
        return f"row {self._rows + row}" if offset is None else f"offset {offset}"

    def counts(self) -> dict[OperationType, int]:
        """Return the rows of each known operation."""
        return {op: self._counts[op] for op in OperationType if op in self._counts}

    def problems(self) -> Iterator[str]:
        """Yield what is not an operation at all."""
        known = {int(op) for op in OperationType}
        strange = {code: n for code, n in sorted(self._counts.items()) if code not in known}
        if strange:
            codes = ", ".join(map(str, list(strange)[:_SHOWN]))
            yield (
                f"column {self._name!r} has operations that do not exist in "
                f"{sum(strange.values())} rows: got {codes}, wanted 0 (+A), 1 (-R), 2 (-C), 3 (+C)"
            )

    def unpaired(self) -> tuple[str, ...]:
        """Return the corrections that miss their other half, the first ones by place."""
        places, broken = list(self._places), self._broken
        if self._open is not None:
            broken += 1
            places.append(f"-C at {self._open} has no +C directly after it")
        shown = places[:_SHOWN]
        if broken > len(shown):
            shown.append(f"and {broken - len(shown)} more")
        return tuple(shown)


def schema_problems(schema: pa.Schema, vocab: DatasetVocabulary) -> Iterator[str]:
    """Yield what is wrong with the columns of a slice: system columns, their types and order.

    Nullability is not demanded, since implementations differ; nulls themselves are counted.
    """
    yield from _name_problems(schema.names)
    wanted = (
        (vocab.offset_column, OFFSET_TYPES),
        (vocab.operation_type_column, OPERATION_TYPES),
        (vocab.system_time_column, (TIMESTAMP_MS_UTC,)),
        (vocab.event_time_column, EVENT_TIME_TYPES),
    )
    for place, (name, types) in enumerate(wanted):
        index = schema.get_field_index(name)
        if index < 0:
            if name not in schema.names:
                yield f"there is no column {name!r}"
            continue
        if index != place:
            yield f"column {name!r} is at position {index + 1}, wanted {place + 1}"
        got = schema.field(index).type
        if got not in types:
            names = " or ".join(arrow_name(t) for t in types)
            yield f"column {name!r} has the type {arrow_name(got)}, wanted {names}"
    system = {name for name, _ in wanted}
    for field in schema:
        timed = pa.types.is_timestamp(field.type) and field.name not in system
        if timed and field.type != TIMESTAMP_MS_UTC:
            yield (
                f"column {field.name!r} has the type {arrow_name(field.type)}, "
                f"wanted {arrow_name(TIMESTAMP_MS_UTC)}"
            )


def _name_problems(names: list[str]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.casefold(), name)) != name:
            yield f"columns {other!r} and {name!r} differ by case only"
    for name, count in Counter(names).items():
        if count > 1:
            yield f"there are {count} columns {name!r}, wanted one"

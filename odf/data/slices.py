"""What a slice file must look like, and the only writer of such files.

See data-slices.md §1-3 and design §7. The same settings hold for every slice that anything in this
project writes: Parquet format version 1.0 with version 1.0 pages, Snappy, the Arrow schema
embedded, row groups of up to a million rows. `inspect_slice` is the way back: it lives in
`inspector` and is re-exported here.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.arrow_fields import arrow_schema_to_fields
from odf.data.digest import type_header
from odf.data.inspector import SliceInfo, inspect_slice, schema_problems, strip_metadata
from odf.data.parquet import MalformedSliceError, guarded, open_parquet, physical_hash
from odf.data.types import TIMESTAMP_MS_UTC, arrow_name, from_arrow, slice_type
from odf.errors import BadInputError, ConflictError, TransportError
from odf.metadata.model import DatasetVocabulary
from odf.metadata.schema_evolution import schema_differences

__all__ = [
    "MalformedSliceError",
    "SliceInfo",
    "SliceWriter",
    "compare_schemas",
    "inspect_slice",
    "physical_hash",
    "schema_from_file",
    "schema_problems",
    "slice_schema",
]

_ROW_GROUP_ROWS: Final = 1 << 20
_ROW_GROUP_BYTES: Final = 32 << 20  # of Arrow data that the writer holds back at most
_SAMPLE_ROWS: Final = 1 << 16  # that decide on the encoding of their column
_TELLING_ROWS: Final = 1 << 13  # fewer say little about those to come, and cost little either way


class SliceSchemaError(BadInputError):
    """Columns that no slice can have, or that differ from what the dataset has."""

    kind = "slice_schema"


def slice_schema(
    data_schema: pa.Schema,
    vocab: DatasetVocabulary,
    event_time_type: pa.DataType | None = None,
) -> pa.Schema:
    """Return the schema of the slice that holds the given data.

    Columns are offset, operation, system time, event time and then the data in its order; the
    types are those of design §7. The first three are never null, the others as declared.

    Args:
        data_schema: The columns of the data. Those named like system columns are not taken over,
            but an event time column among them gives its type and nullability.
        vocab: The names of the system columns.
        event_time_type: Type of the event time where the data has none: a date, or by default
            milliseconds UTC.

    Raises:
        SliceSchemaError: Two columns have one name or differ by case only, the event time is
            neither a timestamp nor a date, or a type has no logical hash.
    """
    names = [vocab.offset_column, vocab.operation_type_column, vocab.system_time_column]
    fields = [
        pa.field(names[0], pa.int64(), nullable=False),
        pa.field(names[1], pa.int32(), nullable=False),
        pa.field(names[2], TIMESTAMP_MS_UTC, nullable=False),
        _event_time_field(data_schema, vocab, event_time_type),
    ]
    names.append(vocab.event_time_column)
    fields += [
        pa.field(field.name, slice_type(field.type), field.nullable)
        for field in data_schema
        if field.name not in names
    ]
    seen: dict[str, str] = {}
    for field in fields:
        if (other := seen.get(field.name.casefold())) is not None:
            raise SliceSchemaError(
                f"columns {other!r} and {field.name!r} of one dataset differ by case only"
                if other != field.name
                else f"there are two columns {field.name!r}",
                hint="rename one of them in the query, or the system column with SetVocab",
            )
        seen[field.name.casefold()] = field.name
        check_type(field)
    return pa.schema(fields)


def _event_time_field(
    data: pa.Schema, vocab: DatasetVocabulary, default: pa.DataType | None
) -> pa.Field:
    name = vocab.event_time_column
    index = data.get_field_index(name)
    dtype = data.field(index).type if index >= 0 else default or TIMESTAMP_MS_UTC
    nullable = data.field(index).nullable if index >= 0 else True
    if pa.types.is_date(dtype):
        return pa.field(name, pa.date32(), nullable)
    if pa.types.is_timestamp(dtype):
        return pa.field(name, TIMESTAMP_MS_UTC, nullable)
    raise SliceSchemaError(
        f"column {name!r} has the type {arrow_name(dtype)}, wanted a timestamp or a date",
        hint="cast it, or name another column in the merge strategy or SetVocab",
    )


def check_type(field: pa.Field) -> None:
    """Check that a slice can hold a column.

    Args:
        field: The column, of a type that `slice_type` can return.

    Raises:
        BadInputError: It cannot: there is no such column type, or it has no logical hash.
    """
    from_arrow(field.type)
    for leaf in _leaves(field):
        try:
            type_header(leaf.type)
        except BadInputError as error:
            raise SliceSchemaError(
                f"column {field.name!r}: {error.message}", hint=error.hint
            ) from error


def _leaves(field: pa.Field) -> Iterator[pa.Field]:
    if pa.types.is_struct(field.type):
        for child in field.type:
            yield from _leaves(child)
    else:
        yield field


class SliceWriter:
    """Writes one slice file; a context manager.

    The file comes into being with the first row and is complete when the block ends without error.
    Otherwise, or when there were no rows, there is no file afterwards. Never more than one row
    group is in memory.

    Args:
        path: Where to write; must not exist.
        schema: The columns, as `slice_schema` gives them.

    Raises:
        SliceSchemaError: A column has a type that would not come back from the file as it is.

    Attributes:
        num_records: Rows written so far.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.schema = strip_metadata(schema)
        for field in self.schema:
            if field.type != slice_type(field.type):
                raise SliceSchemaError(
                    f"column {field.name!r} has the type {arrow_name(field.type)}, in a slice that "
                    f"is {arrow_name(slice_type(field.type))}"
                )
        self.num_records = 0
        self._writer: pq.ParquetWriter | None = None
        self._file: pa.NativeFile | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._held_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows.

        Raises:
            SliceSchemaError: Columns differ from the schema in name, order or type, or there is a
                null in one that is declared NOT NULL.
            ConflictError: There is a file at the path already.
            TransportError: The file cannot be written, for example as the disk is full.
        """
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        for batch in batches:
            self._check(batch)
            start = 0
            while start < batch.num_rows:
                piece = batch.slice(start, _ROW_GROUP_ROWS - self._held_rows)
                start += piece.num_rows
                self._hold(piece)

    def _check(self, batch: pa.RecordBatch) -> None:
        if batch.schema.names != self.schema.names:
            raise SliceSchemaError(
                f"rows have the columns {batch.schema.names}, wanted {self.schema.names}"
            )
        for want, got, column in zip(self.schema, batch.schema, batch.columns, strict=True):
            if not _same_type(want, got) or pa.types.is_dictionary(got.type):
                raise SliceSchemaError(
                    f"column {want.name!r} has the type {arrow_name(got.type)}, "
                    f"wanted {arrow_name(want.type)}"
                )
            if not want.nullable and column.null_count:
                raise SliceSchemaError(
                    f"column {want.name!r} is declared NOT NULL and has {column.null_count} nulls"
                )

    def _hold(self, batch: pa.RecordBatch) -> None:
        columns = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, self.schema, strict=True)
        ]
        self._held.append(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        self._held_rows += batch.num_rows
        self._held_bytes += batch.nbytes
        self.num_records += batch.num_rows
        if self._held_rows >= _ROW_GROUP_ROWS or self._held_bytes >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held, self.schema)
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        with self._guarded():
            writer = self._writer or self._open(table)
            writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        if self.path.exists():
            raise ConflictError(f"slice file {self.path.name} cannot be written: it exists already")
        self._file = pa.OSFile(os.fsencode(self.path), "wb")
        self._writer = pq.ParquetWriter(
            self._file,
            self.schema,
            version="1.0",
            data_page_version="1.0",
            compression="snappy",
            use_dictionary=_dictionary_paths(first),
            write_statistics=True,
            store_schema=True,
        )
        return self._writer

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, MemoryError) as error:
            self.abort()
            raise TransportError(
                f"slice file {self.path.name} cannot be written: {error}",
                hint="is the disk full?",
            ) from error

    def close(self) -> None:
        """Finish the file; without rows there is none.

        Raises:
            TransportError: The file cannot be written, for example as the disk is full.
        """
        self._flush()
        with self._guarded():
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            if self._file is not None:
                self._file.close()
                self._file = None

    def abort(self) -> None:
        """Give up and leave no file."""
        self._held = []
        writer, file = self._writer, self._file
        self._writer = self._file = None
        if file is not None:
            with contextlib.suppress(pa.ArrowException, OSError):
                if writer is not None:
                    writer.close()
                file.close()
            self.path.unlink(missing_ok=True)


def _dictionary_paths(first: pa.Table) -> list[str]:
    """Return the Parquet paths of the columns that are written as dictionaries.

    To look for values that repeat costs several times as much as to write them, and is in vain
    where hardly any does. The first rows tell which columns these are. The offset is one of them
    by its nature (data-slices.md §3).

    Args:
        first: The rows of the first row group.
    """
    sample = first.slice(0, _SAMPLE_ROWS)
    tells = len(sample) >= _TELLING_ROWS
    return [
        path
        for field, column in list(zip(first.schema, sample.columns, strict=True))[1:]
        if not tells or pa.types.is_nested(field.type) or _repeats(column)
        for path in _paths(field, "")
    ]


def _repeats(column: pa.ChunkedArray) -> bool:
    """Tell whether at most half of the values of a column are new."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    return 2 * len(column.unique()) <= len(column)


def _paths(field: pa.Field, prefix: str) -> Iterator[str]:
    """Yield the Parquet paths of the leaves of a column."""
    path = prefix + field.name
    if pa.types.is_struct(field.type):
        for child in field.type:
            yield from _paths(child, f"{path}.")
    elif pa.types.is_list(field.type):
        yield from _paths(field.type.value_field.with_name("element"), f"{path}.list.")
    elif not pa.types.is_boolean(field.type):  # one bit each already
        yield path


def schema_from_file(path: Path) -> pa.Schema:
    """Return the columns of a slice file with the file's own types, without metadata.

    Raises:
        NotFoundError: There is no such file.
        MalformedSliceError: It cannot be read as Parquet.
    """
    with guarded(path), open_parquet(path) as file:
        return strip_metadata(file.schema_arrow)


def compare_schemas(recorded: pa.Schema, got: pa.Schema) -> tuple[str, ...]:
    """Say in words how the columns of a slice differ from those that the chain records.

    Nullable columns that were added behind the recorded ones are no difference, as older rows read
    as null there (design §7, "Schema evolution"). Nullability of recorded columns, metadata, names
    of list elements, and large, view or dictionary forms do not count.

    Args:
        recorded: The schema of `SetDataSchema`.
        got: The schema of the slice.

    Returns:
        One line for each difference; empty if the slice fits.
    """
    try:
        old, new = arrow_schema_to_fields(recorded), arrow_schema_to_fields(got)
    except BadInputError as error:  # a type that no record can have fits none
        return (error.message,)
    return schema_differences(old, new, ignore_nullability=True, same_layout=True)


def _same_type(want: pa.Field, got: pa.Field) -> bool:
    """Compare types; forms that differ in memory only are the same."""
    return want.type == got.type or not compare_schemas(pa.schema([want]), pa.schema([got]))

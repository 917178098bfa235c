"""Opens Parquet files that somebody else may have written, in bounded memory.

Owns two promises for everything in this package that reads: whatever is wrong with a file comes out
as an `OdfError` that names the file, and no more of a file is in memory than a few batches.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.errors import IntegrityError, NotFoundError
from odf.limits import MAX_SLICE_COLUMNS, MAX_SLICE_FOOTER_TEXT, MAX_TYPE_DEPTH
from odf.metadata.multiformats import SHA3_256, Multihash

_BATCH_BYTES: Final = 16 << 20  # of values in a batch, as far as can be told beforehand
_MAX_BATCH_ROWS: Final = 1 << 15
_READ_BUFFER: Final = 1 << 20
_LARGEST_NUMBER: Final = 8
_LEVELS_PER_TYPE: Final = 3  # a list is three nested groups in Parquet


class MalformedSliceError(IntegrityError):
    """A file that should be a slice is not a Parquet file that can be read."""

    kind = "malformed_slice"


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Turn whatever pyarrow raises over a bad file into an error that names the file.

    Raises:
        NotFoundError: There is no such file.
        MalformedSliceError: The file is damaged, hostile, or no Parquet file at all.
    """
    if not path.is_file():
        raise NotFoundError(f"no slice file {path.name} in {path.parent}")
    try:
        yield
    except (
        pa.ArrowException,
        OSError,
        ValueError,  # with Unicode errors
        ArithmeticError,
        LookupError,
        TypeError,
        MemoryError,
        RecursionError,
    ) as error:
        what = " ".join(str(error).split())[:200] or type(error).__name__
        raise MalformedSliceError(
            f"slice file {path.name} cannot be read: {what}",
            hint="get the file again from where it came; `odf verify` names all damaged ones",
            details={"file": str(path)},
        ) from error


def open_parquet(path: Path, *, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """Open a file for reading, to be used inside `guarded`.

    Args:
        path: The file.
        dictionaries: Parquet paths of leaves to read as dictionary arrays.
    """
    # Only the schema and the row groups of the footer are looked at: pyarrow ends the process over
    # some damaged column metadata, where the path that reads rows raises.
    return pq.ParquetFile(
        pa.OSFile(os.fsencode(path), "rb"),
        read_dictionary=list(dictionaries),
        pre_buffer=False,  # would hold whole row groups
        buffer_size=_READ_BUFFER,
        thrift_string_size_limit=MAX_SLICE_FOOTER_TEXT,
        thrift_container_size_limit=MAX_SLICE_COLUMNS,
        schema_depth_limit=_LEVELS_PER_TYPE * MAX_TYPE_DEPTH,
    )


def batches(
    path: Path,
    file: pq.ParquetFile,
    *,
    columns: Sequence[str] | None = None,
    row_groups: Sequence[int] | None = None,
    use_threads: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Read rows in order, in batches of bounded size, each checked for consistency.

    The check covers what readers would otherwise trust: text that is not UTF-8, offsets and
    dictionary indices that point outside of their buffers.

    Args:
        path: The file.
        file: The same file, opened.
        columns: Names of the columns to read, all by default.
        row_groups: The row groups to read, all by default.
        use_threads: Whether columns are decoded side by side.
    """
    sizes = _RowSizes(path, file)
    for group in range(file.metadata.num_row_groups) if row_groups is None else row_groups:
        rows = max(1, min(_MAX_BATCH_ROWS, _BATCH_BYTES // sizes.most(group)))
        for batch in file.iter_batches(
            batch_size=rows, columns=columns, row_groups=[group], use_threads=use_threads
        ):
            batch.validate(full=True)
            yield batch


class _RowSizes:
    """Tells how large rows can become in memory.

    The footer says how many bytes the encoded rows have. Texts that are dictionary encoded can be
    far larger, as one long text may stand in millions of rows for two bytes each; so the longest
    text of each dictionary counts too.
    """

    def __init__(self, path: Path, file: pq.ParquetFile) -> None:
        self._metadata = file.metadata
        schema = self._metadata.schema
        leaves = [schema.column(index) for index in range(self._metadata.num_columns)]
        self._texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        self._fixed: int = sum(max(leaf.length, _LARGEST_NUMBER) for leaf in leaves)
        self._probe = open_parquet(path, dictionaries=self._texts) if self._texts else None

    def most(self, group: int) -> int:
        """Return the bytes of a row of this row group, rather too many than too few."""
        metadata = self._metadata.row_group(group)
        encoded = int(metadata.total_byte_size // max(1, metadata.num_rows))
        # At least one: a file need not have columns.
        return max(1, encoded, self._fixed + self._longest_texts(group))

    def _longest_texts(self, group: int) -> int:
        if self._probe is None:
            return 0
        # The first row comes with the whole dictionary of its row group.
        rows = self._probe.iter_batches(batch_size=1, columns=self._texts, row_groups=[group])
        first = next(rows, None)
        return 0 if first is None else sum(_longest(column) for column in first.columns)


def _longest(array: pa.Array) -> int:
    """Return the length of the longest text in the dictionaries of a column, nested ones too."""
    t = pa.types
    if t.is_dictionary(array.type):
        words = array.dictionary
        binary = t.is_binary(words.type) or t.is_string(words.type) or t.is_large_string(words.type)
        return int(pc.max(pc.binary_length(words)).as_py() or 0) if binary else 0
    if t.is_struct(array.type):
        return sum(_longest(array.field(i)) for i in range(array.type.num_fields))
    if t.is_list(array.type) or t.is_large_list(array.type):
        return _longest(array.values)
    return 0


def physical_hash(path: Path) -> tuple[Multihash, int]:
    """Hash the bytes of a file (wire-format.md §e).

    Returns:
        The SHA3-256 multihash and the size in bytes.

    Raises:
        NotFoundError: There is no such file.
        IntegrityError: The file cannot be read.
    """
    with guarded(path), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha3_256").digest()
        return Multihash(SHA3_256, digest), file.tell()

"""Inputs as tables: the slices of an interval, read as they are, one after the other.

A folder of numbered links stands for the slices, because DataFusion reads the files of a table in
the order of their names. A slice that differs from the others (columns that were added later,
unsigned system columns, timestamps of other units) is brought to the common columns by the rules
of design §7 before, since DataFusion would cut digits towards zero.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.engines.datafusion.session import quoted
from odf.engines.host.engine import HIDDEN_PREFIX, InputView
from odf.engines.host.queries import RAW_INPUT
from odf.engines.host.views import fit_batch, united_schema, view_schema

if TYPE_CHECKING:
    from datafusion import SessionContext

SCAN_PREFIX: Final = f"{HIDDEN_PREFIX}input_"
"""Leaves of plans are scans with this name and the number of the input."""


def register_view(context: "SessionContext", number: int, view: InputView, scratch: Path) -> None:
    """Make an input of a transform a table that has the rows of its interval.

    Args:
        context: The session.
        number: Which input it is.
        view: The input.
        scratch: A folder for this input; it must not exist yet.
    """
    from datafusion import col, lit  # noqa: PLC0415

    schema = view_schema(view)
    if view.offset_start is None or view.offset_end is None:
        register_empty(context, number, view.alias, schema)
        return
    name = f"{SCAN_PREFIX}{number}"
    _register_files(context, name, view.paths, schema, scratch)
    offset = col(quoted(view.vocab.offset_column))
    inside = (offset >= lit(view.offset_start)) & (offset <= lit(view.offset_end))
    _rename(context, name, view.alias, context.table(name).filter(inside))


def register_empty(context: "SessionContext", number: int, alias: str, schema: pa.Schema) -> None:
    """Make a table without rows.

    Args:
        context: The session.
        number: Which input it is.
        alias: Its name in queries.
        schema: Its columns.
    """
    name = f"{SCAN_PREFIX}{number}"
    empty = pa.RecordBatch.from_arrays(
        [pa.array([], field.type) for field in schema], schema=schema
    )
    context.register_record_batches(name, [[empty]])
    _rename(context, name, alias, context.table(name))


def register_raw(context: "SessionContext", paths: Sequence[str], scratch: Path) -> None:
    """Make plain Parquet files the table `input`, in the order given.

    Args:
        context: The session.
        paths: The files; there is at least one.
        scratch: A folder for links; it must not exist yet.
    """
    schema = united_schema(pq.read_schema(path) for path in paths).remove_metadata()
    plain = pa.schema([pa.field(field.name, field.type) for field in schema])
    name = f"{SCAN_PREFIX}0"
    _register_files(context, name, paths, plain, scratch)
    _rename(context, name, RAW_INPUT, context.table(name))


def _register_files(
    context: "SessionContext", name: str, paths: Sequence[str], schema: pa.Schema, scratch: Path
) -> None:
    scratch.mkdir(parents=True)
    for number, path in enumerate(paths):
        place = scratch / f"{number:09d}.parquet"
        if _fits(pq.read_schema(path), schema):
            place.symlink_to(Path(path).absolute())
        else:
            _write_even(Path(path), place, schema)
    # The slash makes it a folder.
    context.register_listing_table(name, f"{scratch}/", file_extension=".parquet", schema=schema)


def _fits(found: pa.Schema, schema: pa.Schema) -> bool:
    """Tell whether DataFusion reads a file as it has to be; columns that it lacks are null."""
    return all(schema.field(field.name).type == field.type for field in found)


def _write_even(source: Path, target: Path, schema: pa.Schema) -> None:
    with (
        pq.ParquetFile(source, memory_map=True) as file,
        pq.ParquetWriter(target, schema, compression="lz4") as writer,
    ):
        for batch in file.iter_batches():
            writer.write_batch(fit_batch(batch, schema))


def _rename(context: "SessionContext", name: str, alias: str, frame: object) -> None:
    """Leave the rows reachable by the name of the input only."""
    context.register_view(quoted(alias), frame)
    context.deregister_table(name)

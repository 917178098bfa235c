"""An ingest whose preprocess query belongs to another engine than the one that reads and merges.

It is cut in two: the reading engine writes the rows as they are read to one Parquet file, the
other engine runs `ExecuteRawQuery` over it, and the reading engine merges the result
(engine-protocol.md §5). So any engine of the ODF protocol can preprocess.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from odf.errors import EngineError
from odf.metadata.arrow_schema import decode_schema
from odf.metadata.model import DEFAULT_VOCAB, TransformSql
from odf.protocol.calls import (
    CallFile,
    EngineEvent,
    EngineProgress,
    IngestCall,
    IngestHalf,
    IngestOutcome,
    QueryInput,
    RawQueryCall,
)
from odf.repo.accept import write_schema_file

if TYPE_CHECKING:  # grpc is loaded when an engine is needed
    from odf.runtimes.client import EngineClient

READING_ENGINE: Final = "spark"
"""The engine that reads and merges; its own preprocess queries need no cut."""

_INPUT: Final = "input"


def ingest(
    call: IngestCall,
    engine: "Callable[[], EngineClient]",
    query_engine: "Callable[[TransformSql], EngineClient]",
    on_event: Callable[[EngineEvent], None],
) -> IngestOutcome:
    """Read, preprocess and merge, wherever the preprocess query runs.

    Args:
        call: What to do, as a whole.
        engine: Starts the engine that reads and merges, or gives the one that runs.
        query_engine: The same for the engine that a query asks for.
        on_event: Is told what the engines report.

    Raises:
        OdfError: Of every kind that the engines raise.
    """
    query = call.preprocess
    if query is None or query.engine.lower() == READING_ENGINE:
        return engine().ingest(call, on_event)
    # A missing engine is told before anything is read.
    preprocessor = query_engine(query)
    with TemporaryDirectory(dir=call.output.parent, prefix="preprocess-") as folder:
        rows = Path(folder) / "rows.parquet"
        half = replace(
            call, preprocess=None, half=IngestHalf.READ, history=(), folding=None, output=rows
        )
        read = engine().ingest(half, on_event)
        if read.slice_path is None:
            write_schema_file(rows, read.schema)
        result = Path(folder) / "result.parquet"
        if decode_schema(read.schema):
            on_event(EngineProgress("preprocess", read.rows_read))
            _preprocess(preprocessor, query, rows, read.schema, result)
        else:
            # Files that are empty to the last byte have no columns to query.
            result = rows
        files = (CallFile(result, ", ".join(file.name for file in call.files)),)
        merge = replace(call, preprocess=None, half=IngestHalf.MERGE, files=files, quarantine=None)
        merged = engine().ingest(merge, on_event)
        return replace(merged, bad_rows=read.bad_rows, quarantine=read.quarantine)


def _preprocess(
    engine: "EngineClient", query: TransformSql, rows: Path, schema: bytes, result: Path
) -> None:
    """Run the query; its result is there afterwards, be it empty."""
    outcome = engine.execute_raw_query(RawQueryCall((rows,), query, result))
    if outcome.output is not None:
        return
    columns = _columns(engine, query, schema)
    write_schema_file(result, columns)


def _columns(engine: "EngineClient", query: TransformSql, schema: bytes) -> bytes:
    """Ask for the columns of a result that has no rows to tell them."""
    view = QueryInput(alias=_INPUT, schema=schema)
    found = engine.validate_query(query, (view,), DEFAULT_VOCAB, preprocess=True)
    if found.output_schema is None:
        raise EngineError("the engine did not say which columns an empty result has")
    return found.output_schema

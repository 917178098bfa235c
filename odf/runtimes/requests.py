"""From calls, with paths of this side, to requests, with paths of the engine's side."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from odf.protocol import RETRACTIONS_HEADER
from odf.protocol.calls import Folding, IngestCall, TransformCall, TransformCallInput
from odf.protocol.messages import TransformRequest, TransformRequestInput
from odf.protocol.private import IngestRequest, RequestFile, RequestFolding
from odf.runtimes.exchange import Operation

OUTPUT: Final = "data"
"""Name of the slice that an engine writes."""

FOLDED: Final = "folded"
"""Name of the file that an engine makes of a stretch of the history."""

QUARANTINE: Final = "quarantine"
"""Name of the file with rows that were set aside."""

CHECKPOINT: Final = "checkpoint"
"""Name of the state that an engine leaves."""


def headers(call: TransformCall) -> tuple[tuple[str, str], ...]:
    """Return the gRPC metadata of a step: what its request has no place for."""
    known = {None: "-", True: "1", False: "0"}
    return ((RETRACTIONS_HEADER, "".join(known[view.has_retractions] for view in call.inputs)),)


def ingest_request(call: IngestCall, operation: Operation) -> IngestRequest:
    """Show an ingest's files to the engine, and return the request that names them."""
    files = tuple(
        RequestFile(operation.add_input(file.path, f"file-{number:06d}"), file.name)
        for number, file in enumerate(call.files)
    )
    return IngestRequest(
        dataset_alias=call.dataset_alias,
        files=files,
        read=call.read,
        preprocess=call.preprocess,
        merge=call.merge,
        vocab=call.vocab,
        system_time=call.system_time,
        source_event_time=call.source_event_time,
        next_offset=call.next_offset,
        dataset_schema=call.dataset_schema,
        history_paths=show_all(operation, call.history, "history"),
        output_path=operation.output(OUTPUT)[1],
        scratch_path=operation.scratch(),
        allow_retract=call.allow_retract,
        allow_empty=call.allow_empty,
        max_retract_share=call.max_retract_share,
        min_rows_for_retract_guard=call.min_rows_for_retract_guard,
        half=call.half,
        folding=_requested_folding(call.folding, operation),
        quarantine_path=(None if call.quarantine is None else operation.output(QUARANTINE)[1]),
    )


def _requested_folding(folding: Folding | None, operation: Operation) -> RequestFolding | None:
    if folding is None:
        return None
    return RequestFolding(folding.first, folding.count, operation.output(FOLDED)[1])


def transform_request(call: TransformCall, operation: Operation) -> TransformRequest:
    """Show a step's files to the engine, and return the request that names them."""
    inputs = tuple(
        _transform_input(view, operation, f"input-{number:03d}")
        for number, view in enumerate(call.inputs)
    )
    previous = call.prev_checkpoint
    return TransformRequest(
        dataset_id=call.dataset_id,
        dataset_alias=call.dataset_alias,
        system_time=call.system_time,
        vocab=call.vocab,
        transform=call.transform,
        query_inputs=inputs,
        next_offset=call.next_offset,
        prev_checkpoint_path=(
            None if previous is None else operation.add_input(previous, "prev-checkpoint")
        ),
        new_checkpoint_path=operation.output(CHECKPOINT)[1],
        new_data_path=operation.output(OUTPUT)[1],
    )


def _transform_input(
    view: TransformCallInput, operation: Operation, prefix: str
) -> TransformRequestInput:
    return TransformRequestInput(
        dataset_id=view.dataset_id,
        dataset_alias=view.dataset_alias,
        query_alias=view.query_alias,
        vocab=view.vocab,
        offset_interval=view.offset_interval,
        data_paths=show_all(operation, view.data, f"{prefix}-slice"),
        schema_file=operation.add_input(view.schema_file, f"{prefix}-schema.parquet"),
        explicit_watermarks=view.explicit_watermarks,
    )


def show_all(operation: Operation, paths: Iterable[Path], prefix: str) -> tuple[str, ...]:
    """Show Parquet files to the engine; return their paths on its side."""
    return tuple(
        operation.add_input(path, f"{prefix}-{number:06d}.parquet")
        for number, path in enumerate(paths)
    )

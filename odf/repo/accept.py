"""What an engine proposes, checked before it may become part of a chain.

An engine hands over a slice file and says what is in it. Nothing of what it says is believed: the
file is read, hashed and compared with the chain, and only then described as a `DataSlice`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.arrow_fields import arrow_schema_to_fields, fields_to_arrow_schema
from odf.data.slices import SliceInfo, compare_schemas, inspect_slice
from odf.errors import BadInputError, EngineError, OdfError
from odf.metadata.arrow_schema import decode_schema, encode_schema
from odf.metadata.chain import ChainState
from odf.metadata.model import (
    DataSlice,
    OffsetInterval,
    OperationType,
    SetDataSchema,
    Timestamp,
)
from odf.metadata.multiformats import Multihash
from odf.repo.objects import StagedObject


@dataclass(frozen=True, slots=True)
class AcceptedSlice:
    """A slice that may be committed.

    Attributes:
        data: Its description for the event.
        staged: The file, to be moved into the dataset by the commit.
        info: What the inspection found.
        schema_event: The `SetDataSchema` that has to come before it; None if the chain's fits.
    """

    data: DataSlice
    staged: StagedObject
    info: SliceInfo
    schema_event: SetDataSchema | None


@dataclass(frozen=True, slots=True)
class DatasetUpdate:
    """What one pull of a dataset changed.

    Attributes:
        old_head: Head before.
        new_head: Head after; the same if nothing changed.
        blocks: Blocks that were committed.
        records: Rows that were committed, by operation.
        watermark: The watermark after.
        warnings: What a person should know although it worked.
        reason: Why nothing changed, if so.
    """

    old_head: Multihash | None
    new_head: Multihash | None
    blocks: int = 0
    records: Mapping[OperationType, int] = field(default_factory=dict)
    watermark: Timestamp | None = None
    warnings: tuple[str, ...] = ()
    reason: str | None = None


def accept_slice(path: Path, state: ChainState) -> AcceptedSlice:
    """Inspect a slice that an engine proposes and compare it with the chain.

    Args:
        path: The file, already out of the engine's reach.
        state: The chain that it would continue.

    Raises:
        EngineError: If the file breaks the engine contract: offsets with gaps or not where the
            chain ends, missing system columns, broken correction pairs.
        BadInputError: If its columns do not fit the chain's schema; lists the differences.
    """
    info = inspect_slice(path, state.vocab)
    problems = (*info.problems, *info.unpaired)
    if problems or info.offset_start is None or info.offset_end is None:
        what = problems[0] if problems else "it has no rows"
        raise EngineError(
            f"the engine produced a slice that breaks its contract: {what}",
            details={"problems": list(problems)},
        )
    if info.offset_start != state.next_offset:
        raise EngineError(
            f"the engine produced offsets from {info.offset_start}, wanted {state.next_offset}"
        )
    return AcceptedSlice(
        data=DataSlice(
            logical_hash=info.logical_hash,
            physical_hash=info.physical_hash,
            offset_interval=OffsetInterval(start=info.offset_start, end=info.offset_end),
            size=info.size,
        ),
        staged=StagedObject(kind="data", path=path, hash=info.physical_hash),
        info=info,
        schema_event=schema_event(info.schema, state),
    )


def schema_event(schema: pa.Schema, state: ChainState) -> SetDataSchema | None:
    """Return the `SetDataSchema` that has to precede data of this schema, if one has to.

    Raises:
        BadInputError: If the schema takes columns away, renames or retypes them.
    """
    encoded = encode_schema(arrow_schema_to_fields(schema))
    known = schema_bytes(state.schema)
    if known is None:
        return SetDataSchema(schema=encoded)
    recorded = fields_to_arrow_schema(decode_schema(known))
    differences = compare_schemas(recorded, schema)
    if differences:
        raise BadInputError(
            "the columns of the new data differ from those of the dataset: "
            + "; ".join(differences),
            reason="schema",
            problems=differences if len(differences) > 1 else (),
            hint="only added columns that may be null are accepted; adapt the source's schema or "
            "its preprocess step, or start a new dataset",
        )
    return None if len(schema) == len(recorded) else SetDataSchema(schema=encoded)


def schema_bytes(event: SetDataSchema | None) -> bytes | None:
    """Return the Arrow schema that an event records; None without an event.

    Raises:
        OdfError: If it has the structured form of later versions only.
    """
    if event is None:
        return None
    if event.schema is None:
        raise OdfError(
            "the dataset's schema is recorded in the structured form of ODF 0.37 only, which this "
            "release can keep and exchange but not use",
            hint="a newer release of odf may be able to",
        )
    return event.schema


def write_schema_file(path: Path, schema: bytes) -> None:
    """Write a Parquet file without rows, which tells an engine the columns of an idle input.

    Args:
        path: Where to.
        schema: Content of the `SetDataSchema` in force.
    """
    columns = fields_to_arrow_schema(decode_schema(schema))
    pq.write_table(columns.empty_table(), path)


def later(first: Timestamp | None, second: Timestamp | None) -> Timestamp | None:
    """Return the later of two watermarks; None counts as before everything."""
    if first is None or second is None:
        return first or second
    return max(first, second)

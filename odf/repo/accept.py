"""What an engine proposes, checked before it may become part of a chain.

An engine hands over a slice file and says what is in it. Nothing of what it says is believed: the
file is read, hashed and compared with the chain, and only then described as a `DataSlice`.

Arrow is loaded when there is something to look at: most pulls find that nothing changed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.data.readers import OWN_READER, SliceReader
from odf.errors import BadInputError, EngineError, OdfError
from odf.metadata.arrow_schema import decode_schema, encode_schema
from odf.metadata.chain import ChainState
from odf.metadata.model import (
    DataSlice,
    OffsetInterval,
    SetDataSchema,
    Timestamp,
)
from odf.repo.objects import FileStamp, StagedObject

if TYPE_CHECKING:
    import pyarrow as pa

    from odf.data.slices import SliceInfo

_WORTH_A_STAMP: Final = 8 << 20
"""Bytes of a file from which on hashing it again takes longer than a stamp."""


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
    info: "SliceInfo"
    schema_event: SetDataSchema | None


def accept_slice(
    path: Path,
    state: ChainState,
    system_time: Timestamp,
    reader: SliceReader = OWN_READER,
) -> AcceptedSlice:
    """Inspect a slice that an engine proposes and compare it with the chain.

    A slice that is refused is removed.

    Args:
        path: The file, already out of the engine's reach.
        state: The chain that it would continue.
        system_time: System time of the block that it is for; cut to milliseconds, every row's.
        reader: Reads it.

    Raises:
        EngineError: If the file breaks the engine contract: it cannot be read, offsets have gaps
            or do not start where the chain ends, system columns are missing or wrong, correction
            pairs are broken.
        BadInputError: If its columns do not fit the chain's schema; lists the differences.
    """
    try:
        return _accepted(path, state, system_time, reader)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _accepted(
    path: Path, state: ChainState, system_time: Timestamp, reader: SliceReader
) -> AcceptedSlice:
    try:
        is_large = path.is_file() and path.stat().st_size >= _WORTH_A_STAMP
        stamp = FileStamp.settled(path) if is_large else None
        info = reader.inspect(path, state.vocab)
    except OdfError as error:
        raise EngineError(
            f"the engine produced a file that is no slice: {error.message}"
        ) from error
    start, end = info.offset_start, info.offset_end
    problems = (*info.problems, *info.unpaired, *_out_of_time(info, system_time))
    if problems or start is None or end is None:
        what = problems[0] if problems else "it has no rows"
        raise EngineError(
            f"the engine produced a slice that breaks its contract: {what}",
            details={"problems": list(problems)},
        )
    if start != state.next_offset:
        raise EngineError(f"the engine produced offsets from {start}, wanted {state.next_offset}")
    return AcceptedSlice(
        data=DataSlice(
            logical_hash=info.logical_hash,
            physical_hash=info.physical_hash,
            offset_interval=OffsetInterval(start=start, end=end),
            size=info.size,
        ),
        staged=StagedObject("data", path, info.physical_hash, stamp),
        info=info,
        schema_event=schema_event(info.schema, state),
    )


def _out_of_time(info: "SliceInfo", system_time: Timestamp) -> tuple[str, ...]:
    wanted = Timestamp.from_epoch_ms(system_time.epoch_ms)
    return tuple(
        f"rows have the system time {got}, wanted {wanted}"
        for got in {info.min_system_time, info.max_system_time}
        if got is not None and got != wanted
    )


def schema_event(schema: "pa.Schema", state: ChainState) -> SetDataSchema | None:
    """Return the `SetDataSchema` that has to precede data of this schema, if one has to.

    A column that is recorded as NOT NULL has to stay so. One that may be null is free to have no
    nulls in a slice; what is recorded of it does not change.

    Raises:
        BadInputError: If the schema takes columns away, renames or retypes them, or lets a column
            be null that was not.
    """
    from odf.data.arrow_fields import (  # noqa: PLC0415
        arrow_schema_to_fields,
        fields_to_arrow_schema,
    )
    from odf.data.slices import compare_schemas  # noqa: PLC0415

    known = schema_bytes(state.schema)
    fields = arrow_schema_to_fields(schema)
    if known is None:
        return SetDataSchema(schema=encode_schema(fields))
    recorded = {field.name: field for field in decode_schema(known)}
    differences = [*compare_schemas(fields_to_arrow_schema(tuple(recorded.values())), schema)]
    differences += [
        f"column {field.name} may be null, wanted NOT NULL as recorded"
        for field in fields
        if field.nullable and field.name in recorded and not recorded[field.name].nullable
    ]
    if differences:
        raise BadInputError(
            "the columns of the new data differ from those of the dataset: "
            + "; ".join(differences),
            reason="schema",
            problems=differences if len(differences) > 1 else (),
            hint="only added columns that may be null are accepted; adapt the source's schema or "
            "its preprocess step, or start a new dataset",
        )
    if len(fields) == len(recorded):
        return None
    return SetDataSchema(schema=encode_schema(tuple(recorded.get(one.name, one) for one in fields)))


def unseen_schema(encoded: bytes, state: ChainState) -> SetDataSchema | None:
    """Return the event that records a schema that an engine announces without any rows.

    Args:
        encoded: The Arrow schema as the engine sent it.
        state: The chain.

    Returns:
        None if the chain has a schema: added columns are recorded with the first rows.

    Raises:
        EngineError: If it cannot be read, or is not that of a slice.
        BadInputError: If it does not fit the chain's schema, as with rows.
    """
    known = schema_bytes(state.schema)
    if encoded == known:
        return None
    from odf.data.arrow_fields import fields_to_arrow_schema  # noqa: PLC0415
    from odf.data.slices import schema_problems  # noqa: PLC0415

    try:
        schema = fields_to_arrow_schema(decode_schema(encoded))
    except OdfError as error:
        raise EngineError(f"the engine announced a schema that is none: {error.message}") from error
    problems = tuple(schema_problems(schema, state.vocab))
    if problems:
        raise EngineError(
            f"the engine announced a schema that breaks its contract: {problems[0]}",
            details={"problems": list(problems)},
        )
    found = schema_event(schema, state)
    return found if known is None else None


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
    import pyarrow.parquet as pq  # noqa: PLC0415

    from odf.data.arrow_fields import fields_to_arrow_schema  # noqa: PLC0415

    columns = fields_to_arrow_schema(decode_schema(schema))
    pq.write_table(columns.empty_table(), path)


def later(first: Timestamp | None, second: Timestamp | None) -> Timestamp | None:
    """Return the later of two watermarks; None counts as before everything."""
    if first is None or second is None:
        return first or second
    return max(first, second)

"""What passes between `odf.data.apart` and its child: lines of JSON, each side's own types again.

The child may have become a stranger's: what it answers is read like a stranger's file. Only rows
travel otherwise, as a stream of Arrow's that is checked before anybody looks at them.
"""

import base64
from typing import Any, Final

import pyarrow as pa

from odf.data.arrow_fields import arrow_schema_to_fields, fields_to_arrow_schema
from odf.data.inspector import SliceInfo
from odf.data.parquet import MalformedSliceError
from odf.data.retractions import WrongRetraction
from odf.errors import BadInputError, IntegrityError, NotFoundError, OdfError
from odf.limits import MAX_READING_ANSWER
from odf.metadata.arrow_schema import decode_schema, encode_schema
from odf.metadata.model import DatasetVocabulary, OperationType
from odf.metadata.multiformats import SHA3_256, Multihash
from odf.metadata.timestamp import Timestamp

NO_HASH: Final = Multihash(SHA3_256, bytes(32))
"""Stands for the hash of the file's bytes, which is never asked of the child."""

_BAD_INPUT: Final = "bad_input"
_INTEGRITY: Final = "integrity"
_MALFORMED: Final = "malformed_slice"
_TIMES: Final = ("max_event_time", "min_system_time", "max_system_time")


def info_to_json(info: SliceInfo) -> dict[str, Any]:
    """Write what an inspection found, but for the hash and the size of the file."""
    times = {name: getattr(info, name) for name in _TIMES}
    return {
        "rows": info.num_records,
        "offsets": [info.offset_start, info.offset_end],
        "logical_hash": str(info.logical_hash),
        "schema": base64.b64encode(encode_schema(arrow_schema_to_fields(info.schema))).decode(),
        "times": {name: None if time is None else time.epoch_ms for name, time in times.items()},
        "ops": {str(int(op)): count for op, count in info.ops.items()},
        "problems": list(info.problems),
        "unpaired": list(info.unpaired),
    }


def info_from_json(found: Any, physical: Multihash, size: int) -> SliceInfo:
    """Read it.

    Args:
        found: What the child says.
        physical: Hash of the file, which this side has seen for itself.
        size: Its bytes, likewise.

    Raises:
        ValueError, LookupError, TypeError, OdfError: It is no such thing.
    """
    start, end = found["offsets"]
    times = {
        name: None
        if found["times"][name] is None
        else Timestamp.from_epoch_ms(found["times"][name])
        for name in _TIMES
    }
    return SliceInfo(
        num_records=int(found["rows"]),
        offset_start=None if start is None else int(start),
        offset_end=None if end is None else int(end),
        size=size,
        physical_hash=physical,
        logical_hash=Multihash.parse(found["logical_hash"]),
        schema=fields_to_arrow_schema(decode_schema(base64.b64decode(found["schema"]))),
        **times,
        ops={OperationType(int(op)): int(count) for op, count in found["ops"].items()},
        problems=tuple(map(str, found["problems"])),
        unpaired=tuple(map(str, found["unpaired"])),
    )


def wrong_to_json(wrong: WrongRetraction) -> list[int | None]:
    """Write a wrong retraction."""
    return [wrong.offset, int(wrong.op), wrong.retracted]


def wrong_from_json(found: Any) -> WrongRetraction:
    """Read it.

    Raises:
        ValueError, TypeError: It is no such thing.
    """
    offset, op, retracted = found
    return WrongRetraction(
        int(offset), OperationType(op), None if retracted is None else int(retracted)
    )


def vocab_to_json(vocab: DatasetVocabulary) -> list[str]:
    """Write the names of the system columns."""
    return [
        vocab.offset_column,
        vocab.operation_type_column,
        vocab.system_time_column,
        vocab.event_time_column,
    ]


def vocab_from_json(found: list[str]) -> DatasetVocabulary:
    """Read them."""
    return DatasetVocabulary(*found)


def error_to_json(error: OdfError) -> dict[str, Any]:
    """Write what went wrong."""
    match error:
        case MalformedSliceError():
            kind = _MALFORMED
        case IntegrityError() | NotFoundError():
            kind = _INTEGRITY
        case _:
            kind = _BAD_INPUT
    reason = error.reason if isinstance(error, BadInputError) else None
    return {"kind": kind, "message": error.message, "hint": error.hint, "reason": reason}


def error_from_json(found: Any) -> OdfError:
    """Read it; whatever the child says, it is about the file.

    Raises:
        ValueError, LookupError, TypeError: It is no such thing.
    """
    message = str(found["message"])
    hint = None if found["hint"] is None else str(found["hint"])
    match found["kind"]:
        case "malformed_slice":
            return MalformedSliceError(message, hint=hint)
        case "integrity":
            return IntegrityError(message, hint=hint)
        case "bad_input":
            return BadInputError(message, reason=str(found["reason"] or "unreadable"), hint=hint)
        case other:
            raise ValueError(f"unknown kind {other!r}")


def table_to_bytes(table: pa.Table) -> pa.Buffer:
    """Write rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def table_from_bytes(data: bytes | bytearray) -> pa.Table:
    """Read rows, and make sure that looking at them is safe.

    Raises:
        ArrowException: They are not what they claim to be.
    """
    with pa.ipc.open_stream(data) as stream:
        table = stream.read_all()
    table.validate(full=True)
    return table


def check_size(size: int, most: int = MAX_READING_ANSWER) -> None:
    """Refuse what is too large to be an answer.

    Raises:
        ValueError: It is.
    """
    if not 0 <= size <= most:
        raise ValueError(f"an answer of {size} bytes, wanted at most {most}")

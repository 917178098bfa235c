"""The messages of the ODF engine service: FlatBuffers tables, declared like the metadata model.

Field names and slots are those of wire-format.md §a.2; what they mean is in engine-protocol.md.
`to_bytes` and `from_bytes` make and read the finished buffers that travel in the `flatbuffer`
field of every gRPC message.
"""

from dataclasses import dataclass
from typing import Annotated, TypeVar

from odf.metadata.declare import At, UInt64, Variants
from odf.metadata.flatbuffers import decode_table, encode_table
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    DatasetVocabulary,
    OffsetInterval,
    Timestamp,
    Transform,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RawQueryRequest:
    """Run a query over plain Parquet files, which form the view `input`."""

    input_data_paths: Annotated[tuple[str, ...], At(0)]
    transform: Annotated[Transform, At(1)]
    output_data_path: Annotated[str, At(3)]


@dataclass(frozen=True, slots=True)
class RawQueryResponseProgress:
    """Still at work; ignored."""


@dataclass(frozen=True, slots=True)
class RawQueryResponseSuccess:
    """Done. Some engines write no file when there are no records."""

    num_records: Annotated[UInt64, At(0)]


@dataclass(frozen=True, slots=True)
class RawQueryResponseInvalidQuery:
    """The query cannot be accepted."""

    message: Annotated[str, At(0)]


@dataclass(frozen=True, slots=True)
class RawQueryResponseInternalError:
    """The engine failed."""

    message: Annotated[str, At(0)]
    backtrace: Annotated[str | None, At(1)] = None


RawQueryResponse = Annotated[
    RawQueryResponseProgress
    | RawQueryResponseSuccess
    | RawQueryResponseInvalidQuery
    | RawQueryResponseInternalError,
    Variants("RawQueryResponse"),
]


@dataclass(frozen=True, slots=True)
class RawQueryResponseRoot:
    """Root table of an answer: FlatBuffers has no unions as roots."""

    value: Annotated[RawQueryResponse, At(0)]


@dataclass(frozen=True, slots=True)
class Watermark:
    """A watermark of an input, with the system time of the block that set it."""

    system_time: Annotated[Timestamp, At(0)]
    event_time: Annotated[Timestamp, At(1)]


@dataclass(frozen=True, slots=True)
class TransformRequestInput:
    """One input of a transformation; paths are the engine's. `offset_interval` is inclusive."""

    dataset_id: Annotated[DatasetID, At(0)]
    dataset_alias: Annotated[DatasetAlias, At(1)]
    query_alias: Annotated[str, At(2)]
    vocab: Annotated[DatasetVocabulary, At(3)]
    offset_interval: Annotated[OffsetInterval | None, At(4)]
    data_paths: Annotated[tuple[str, ...], At(5)]
    schema_file: Annotated[str, At(6)]
    explicit_watermarks: Annotated[tuple[Watermark, ...], At(7)]


@dataclass(frozen=True, slots=True)
class TransformRequest:
    """Run one step of a derivative dataset; paths are the engine's."""

    dataset_id: Annotated[DatasetID, At(0)]
    dataset_alias: Annotated[DatasetAlias, At(1)]
    system_time: Annotated[Timestamp, At(2)]
    vocab: Annotated[DatasetVocabulary, At(3)]
    transform: Annotated[Transform, At(4)]
    query_inputs: Annotated[tuple[TransformRequestInput, ...], At(6)]
    next_offset: Annotated[UInt64, At(7)]
    prev_checkpoint_path: Annotated[str | None, At(8)]
    new_checkpoint_path: Annotated[str, At(9)]
    new_data_path: Annotated[str, At(10)]


@dataclass(frozen=True, slots=True)
class TransformResponseProgress:
    """Still at work; ignored."""


@dataclass(frozen=True, slots=True)
class TransformResponseSuccess:
    """Done. There is a file at `new_data_path` exactly if there is an interval."""

    new_offset_interval: Annotated[OffsetInterval | None, At(0)] = None
    new_watermark: Annotated[Timestamp | None, At(1)] = None


@dataclass(frozen=True, slots=True)
class TransformResponseInvalidQuery:
    """The query cannot be accepted."""

    message: Annotated[str, At(0)]


@dataclass(frozen=True, slots=True)
class TransformResponseInternalError:
    """The engine failed."""

    message: Annotated[str, At(0)]
    backtrace: Annotated[str | None, At(1)] = None


TransformResponse = Annotated[
    TransformResponseProgress
    | TransformResponseSuccess
    | TransformResponseInvalidQuery
    | TransformResponseInternalError,
    Variants("TransformResponse"),
]


@dataclass(frozen=True, slots=True)
class TransformResponseRoot:
    """Root table of an answer: FlatBuffers has no unions as roots."""

    value: Annotated[TransformResponse, At(0)]


def to_bytes(message: object) -> bytes:
    """Make the finished buffer of a message."""
    return encode_table(message)


def from_bytes(cls: type[T], data: bytes) -> T:
    """Read a finished buffer.

    Raises:
        MalformedBlockError: If the bytes are not such a message.
    """
    return decode_table(cls, data)

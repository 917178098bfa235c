"""Every object of the format, declared once (spec, "Metadata Reference"; wire-format.md §a).

The annotations are the schema: FlatBuffers, YAML, JSON, JSON Schemas and the `.fbs` file all come
from them (see `odf.metadata.declare`). Class names are table names; absent is `None`. Steps of
sources live in `odf.metadata.sources`, structured schemas in `odf.metadata.data_types`; both are
re-exported here.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Final

from odf.metadata.data_types import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBinary,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeFloat16,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeNull,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt16,
    DataTypeUInt32,
    DataTypeUInt64,
    ExtraAttributes,
    TimeUnit,
    TimeUnitEnum,
)
from odf.metadata.declare import At, DatasetRefText, Int32, Int64, UInt64, Variants, WireEnum
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.multiformats import Multihash
from odf.metadata.sources import (
    CompressionFormat,
    EnvVar,
    EventTimeSource,
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    MqttQos,
    MqttTopicSubscription,
    PrepStep,
    PrepStepDecompress,
    PrepStepPipe,
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
    RequestHeader,
    SourceCaching,
    SourceCachingForever,
    SourceOrdering,
    SqlQueryStep,
    TemporalTable,
    Transform,
    TransformSql,
)
from odf.metadata.timestamp import Timestamp


class DatasetKind(WireEnum):
    """Whether a dataset takes data from outside or derives it from other datasets."""

    ROOT = 0
    DERIVATIVE = 1


class OperationType(IntEnum):
    """What a row of a slice says about the row before it (spec, "Retractions")."""

    APPEND = 0
    RETRACT = 1
    CORRECT_FROM = 2
    CORRECT_TO = 3

    @property
    def sign(self) -> str:
        """The short form for people: `+A`, `-R`, `-C` or `+C`."""
        return ("+A", "-R", "-C", "+C")[self]


@dataclass(frozen=True, slots=True)
class OffsetInterval:
    """A closed interval of row offsets."""

    start: Annotated[UInt64, At(0)]
    end: Annotated[UInt64, At(1)]

    @property
    def num_records(self) -> int:
        """Rows in the interval."""
        return self.end - self.start + 1


@dataclass(frozen=True, slots=True)
class DataSlice:
    """A data file added to a dataset. `size` is in bytes."""

    logical_hash: Annotated[Multihash, At(0)]
    physical_hash: Annotated[Multihash, At(1)]
    offset_interval: Annotated[OffsetInterval, At(2)]
    size: Annotated[UInt64, At(3)]

    @property
    def num_records(self) -> int:
        """Rows in the slice."""
        return self.offset_interval.num_records


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A file with the state of an engine. `size` is in bytes."""

    physical_hash: Annotated[Multihash, At(0)]
    size: Annotated[UInt64, At(1)]


@dataclass(frozen=True, slots=True)
class SourceState:
    """How far a source was read, for example the ETag of the last file."""

    source_name: Annotated[str, At(0)]
    kind: Annotated[str, At(1)]
    value: Annotated[str, At(2)]


@dataclass(frozen=True, slots=True)
class AddData:
    """Data was ingested into a root dataset."""

    prev_checkpoint: Annotated[Multihash | None, At(0)] = None
    prev_offset: Annotated[UInt64 | None, At(1)] = None
    new_data: Annotated[DataSlice | None, At(2)] = None
    new_checkpoint: Annotated[Checkpoint | None, At(3)] = None
    new_watermark: Annotated[Timestamp | None, At(4)] = None
    new_source_state: Annotated[SourceState | None, At(5)] = None
    extra: Annotated[ExtraAttributes | None, At(6, since="0.37")] = None


@dataclass(frozen=True, slots=True)
class ExecuteTransformInput:
    """The part of an input that went into a transformation.

    Both intervals are half-open: from behind `prev` up to and including `new`.
    """

    dataset_id: Annotated[DatasetID, At(0)]
    prev_block_hash: Annotated[Multihash | None, At(1)] = None
    new_block_hash: Annotated[Multihash | None, At(2)] = None
    prev_offset: Annotated[UInt64 | None, At(3)] = None
    new_offset: Annotated[UInt64 | None, At(4)] = None

    @property
    def last_block_hash(self) -> Multihash | None:
        """The input's last block that has been taken in so far."""
        return self.new_block_hash or self.prev_block_hash

    @property
    def last_offset(self) -> int | None:
        """The input's last row that has been taken in so far."""
        return self.prev_offset if self.new_offset is None else self.new_offset


@dataclass(frozen=True, slots=True)
class ExecuteTransform:
    """Data was derived from the inputs of a derivative dataset."""

    query_inputs: Annotated[tuple[ExecuteTransformInput, ...], At(0)]
    prev_checkpoint: Annotated[Multihash | None, At(1)] = None
    prev_offset: Annotated[UInt64 | None, At(2)] = None
    new_data: Annotated[DataSlice | None, At(3)] = None
    new_checkpoint: Annotated[Checkpoint | None, At(4)] = None
    new_watermark: Annotated[Timestamp | None, At(5)] = None


@dataclass(frozen=True, slots=True)
class Seed:
    """The first event of every chain: which dataset this is."""

    dataset_id: Annotated[DatasetID, At(0)]
    dataset_kind: Annotated[DatasetKind, At(1)]


@dataclass(frozen=True, slots=True)
class SetPollingSource:
    """How data of a root dataset is fetched from outside."""

    fetch: Annotated[FetchStep, At(0)]
    prepare: Annotated[tuple[PrepStep, ...] | None, At(2)] = field(default=None, kw_only=True)
    read: Annotated[ReadStep, At(3)]
    preprocess: Annotated[Transform | None, At(5)] = field(default=None, kw_only=True)
    merge: Annotated[MergeStrategy, At(7)]


@dataclass(frozen=True, slots=True)
class AddPushSource:
    """How data that is pushed into a root dataset is read."""

    source_name: Annotated[str, At(0)]
    read: Annotated[ReadStep, At(1)]
    preprocess: Annotated[Transform | None, At(3)] = field(default=None, kw_only=True)
    merge: Annotated[MergeStrategy, At(5)]


@dataclass(frozen=True, slots=True)
class DisablePushSource:
    """A push source is used no more."""

    source_name: Annotated[str, At(0)]


@dataclass(frozen=True, slots=True)
class DisablePollingSource:
    """The polling source is used no more."""


@dataclass(frozen=True, slots=True)
class TransformInput:
    """A dataset that a transform reads.

    Attributes:
        dataset_ref: A reference as people write it; in a chain always an identifier.
        alias: The name that queries use for it.
    """

    dataset_ref: Annotated[DatasetRefText, At(0)]
    alias: Annotated[str | None, At(1)] = None


@dataclass(frozen=True, slots=True)
class SetTransform:
    """How a derivative dataset is made from its inputs."""

    inputs: Annotated[tuple[TransformInput, ...], At(0)]
    transform: Annotated[Transform, At(1)]


@dataclass(frozen=True, slots=True)
class SetVocab:
    """Names of the system columns where they differ from the defaults."""

    offset_column: Annotated[str | None, At(0)] = None
    operation_type_column: Annotated[str | None, At(1)] = None
    system_time_column: Annotated[str | None, At(2)] = None
    event_time_column: Annotated[str | None, At(3)] = None


@dataclass(frozen=True, slots=True)
class DatasetVocabulary:
    """Names of all system columns."""

    offset_column: Annotated[str, At(0)] = "offset"
    operation_type_column: Annotated[str, At(1)] = "op"
    system_time_column: Annotated[str, At(2)] = "system_time"
    event_time_column: Annotated[str, At(3)] = "event_time"


DEFAULT_VOCAB: Final = DatasetVocabulary()
"""The names of a dataset that sets none."""


@dataclass(frozen=True, slots=True)
class AttachmentEmbedded:
    """A text file kept in the chain."""

    path: Annotated[str, At(0)]
    content: Annotated[str, At(1)]


@dataclass(frozen=True, slots=True)
class AttachmentsEmbedded:
    """Text files kept in the chain."""

    items: Annotated[tuple[AttachmentEmbedded, ...], At(0)]


Attachments = Annotated[AttachmentsEmbedded, Variants("Attachments")]


@dataclass(frozen=True, slots=True)
class SetAttachments:
    """Files that go with the dataset, for example a README."""

    attachments: Annotated[Attachments, At(0)]


@dataclass(frozen=True, slots=True)
class SetInfo:
    """What the dataset is about."""

    description: Annotated[str | None, At(0)] = None
    keywords: Annotated[tuple[str, ...] | None, At(1)] = None


@dataclass(frozen=True, slots=True)
class SetLicense:
    """The licence of the data."""

    short_name: Annotated[str, At(0)]
    name: Annotated[str, At(1)]
    spdx_id: Annotated[str | None, At(2)] = field(default=None, kw_only=True)
    website_url: Annotated[str, At(3)]


@dataclass(frozen=True, slots=True)
class SetDataSchema:
    """The columns of the slices that follow.

    Attributes:
        schema: A bare Arrow `Schema` flatbuffer (see `odf.metadata.arrow_schema`); what we write.
        data_schema: The same in the structured form of 0.37 and later, which may come alone.
    """

    schema: Annotated[bytes | None, At(0, aliases=("rawArrowSchema",))] = None
    data_schema: Annotated[DataSchema | None, At(1, since="0.37", name="schema")] = None


MetadataEvent = Annotated[
    AddData
    | ExecuteTransform
    | Seed
    | SetPollingSource
    | SetTransform
    | SetVocab
    | SetAttachments
    | SetInfo
    | SetLicense
    | SetDataSchema
    | AddPushSource
    | DisablePushSource
    | DisablePollingSource,
    Variants("MetadataEvent", prefix=""),
]


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event that this release cannot understand; its block can be kept and passed on.

    Attributes:
        tag: Its number in the `MetadataEvent` union.
        reason: What was not understood, and which ODF version could have it.
    """

    tag: int
    reason: str


@dataclass(frozen=True, slots=True)
class MetadataBlock:
    """One link of the chain.

    Attributes:
        system_time: When it was made.
        prev_block_hash: The block before it; `None` in the first one.
        sequence_number: 0 in the first block, then one more each.
        event: What happened.
    """

    system_time: Annotated[Timestamp, At(0)]
    prev_block_hash: Annotated[Multihash | None, At(1)]
    sequence_number: Annotated[UInt64, At(2)]
    event: Annotated[MetadataEvent | UnknownEvent, At(3)]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a block file holds: a block, with what it is and in which layout.

    Attributes:
        kind: Multicodec of the content.
        version: Layout of the content, 2 or 3.
        content: A finished buffer of its own.
    """

    kind: Annotated[Int64, At(0)]
    version: Annotated[Int32, At(1)]
    content: Annotated[bytes, At(2)]


@dataclass(frozen=True, slots=True)
class DatasetSnapshot:
    """A dataset as people write it down in a manifest; YAML and JSON only."""

    name: DatasetAlias
    kind: DatasetKind
    metadata: tuple[MetadataEvent, ...]


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """Statistics that the reference implementation keeps beside a dataset; only read, YAML only."""

    id: DatasetID
    kind: DatasetKind
    last_block_hash: Multihash
    dependencies: tuple[DatasetID, ...]
    last_pulled: Timestamp | None = field(default=None, kw_only=True)
    num_records: UInt64
    data_size: UInt64
    checkpoints_size: UInt64


DataEvent = AddData | ExecuteTransform
"""The events that can add data."""

AnyEvent = MetadataEvent | UnknownEvent
"""What `MetadataBlock.event` can be."""

__all__ = [
    "DEFAULT_VOCAB",
    "AddData",
    "AddPushSource",
    "AnyEvent",
    "AttachmentEmbedded",
    "Attachments",
    "AttachmentsEmbedded",
    "Checkpoint",
    "CompressionFormat",
    "DataEvent",
    "DataField",
    "DataSchema",
    "DataSlice",
    "DataType",
    "DataTypeBinary",
    "DataTypeBool",
    "DataTypeDate",
    "DataTypeDecimal",
    "DataTypeDuration",
    "DataTypeFloat16",
    "DataTypeFloat32",
    "DataTypeFloat64",
    "DataTypeInt8",
    "DataTypeInt16",
    "DataTypeInt32",
    "DataTypeInt64",
    "DataTypeList",
    "DataTypeMap",
    "DataTypeNull",
    "DataTypeOption",
    "DataTypeString",
    "DataTypeStruct",
    "DataTypeTime",
    "DataTypeTimestamp",
    "DataTypeUInt8",
    "DataTypeUInt16",
    "DataTypeUInt32",
    "DataTypeUInt64",
    "DatasetKind",
    "DatasetSnapshot",
    "DatasetSummary",
    "DatasetVocabulary",
    "DisablePollingSource",
    "DisablePushSource",
    "EnvVar",
    "EventTimeSource",
    "EventTimeSourceFromMetadata",
    "EventTimeSourceFromPath",
    "EventTimeSourceFromSystemTime",
    "ExecuteTransform",
    "ExecuteTransformInput",
    "ExtraAttributes",
    "FetchStep",
    "FetchStepContainer",
    "FetchStepEthereumLogs",
    "FetchStepFilesGlob",
    "FetchStepMqtt",
    "FetchStepUrl",
    "Manifest",
    "MergeStrategy",
    "MergeStrategyAppend",
    "MergeStrategyChangelogStream",
    "MergeStrategyLedger",
    "MergeStrategySnapshot",
    "MergeStrategyUpsertStream",
    "MetadataBlock",
    "MetadataEvent",
    "MqttQos",
    "MqttTopicSubscription",
    "OffsetInterval",
    "OperationType",
    "PrepStep",
    "PrepStepDecompress",
    "PrepStepPipe",
    "ReadStep",
    "ReadStepCsv",
    "ReadStepEsriShapefile",
    "ReadStepGeoJson",
    "ReadStepJson",
    "ReadStepNdGeoJson",
    "ReadStepNdJson",
    "ReadStepParquet",
    "RequestHeader",
    "Seed",
    "SetAttachments",
    "SetDataSchema",
    "SetInfo",
    "SetLicense",
    "SetPollingSource",
    "SetTransform",
    "SetVocab",
    "SourceCaching",
    "SourceCachingForever",
    "SourceOrdering",
    "SourceState",
    "SqlQueryStep",
    "TemporalTable",
    "TimeUnit",
    "TimeUnitEnum",
    "Timestamp",
    "Transform",
    "TransformInput",
    "TransformSql",
    "UnknownEvent",
]

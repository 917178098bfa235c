"""How external data comes in: fetch, prepare, read, transform and merge steps.

Tables of wire-format.md §a.2 with the additions of §a.7. Slots are fixed for ever; new fields are
appended.
"""

from dataclasses import dataclass, field
from typing import Annotated

from odf.metadata.data_types import DataSchema
from odf.metadata.declare import At, Int32, UInt64, Variants, WireEnum

_DDL = At(0, aliases=("ddlSchema",))


class SourceOrdering(WireEnum):
    """In which order files are ingested."""

    BY_EVENT_TIME = 0
    BY_NAME = 1


class CompressionFormat(WireEnum):
    """How a file is compressed."""

    GZIP = 0
    ZIP = 1


class MqttQos(WireEnum):
    """Quality of service of an MQTT subscription."""

    AT_MOST_ONCE = 0
    AT_LEAST_ONCE = 1
    EXACTLY_ONCE = 2


@dataclass(frozen=True, slots=True)
class ReadStepCsv:
    """Reader for comma-separated files."""

    schema: Annotated[tuple[str, ...] | None, _DDL] = None
    separator: Annotated[str | None, At(1)] = None
    encoding: Annotated[str | None, At(2)] = None
    quote: Annotated[str | None, At(3)] = None
    escape: Annotated[str | None, At(4)] = None
    header: Annotated[bool | None, At(5)] = None
    infer_schema: Annotated[bool | None, At(6)] = None
    null_value: Annotated[str | None, At(7)] = None
    date_format: Annotated[str | None, At(8)] = None
    timestamp_format: Annotated[str | None, At(9)] = None
    data_schema: Annotated[DataSchema | None, At(10, since="0.38", name="schema")] = None


@dataclass(frozen=True, slots=True)
class ReadStepGeoJson:
    """Reader for a GeoJSON file that holds one FeatureCollection."""

    schema: Annotated[tuple[str, ...] | None, _DDL] = None
    data_schema: Annotated[DataSchema | None, At(1, since="0.38", name="schema")] = None


@dataclass(frozen=True, slots=True)
class ReadStepEsriShapefile:
    """Reader for ESRI Shapefiles."""

    schema: Annotated[tuple[str, ...] | None, _DDL] = None
    sub_path: Annotated[str | None, At(1)] = None
    data_schema: Annotated[DataSchema | None, At(2, since="0.38", name="schema")] = None


@dataclass(frozen=True, slots=True)
class ReadStepParquet:
    """Reader for Apache Parquet files."""

    schema: Annotated[tuple[str, ...] | None, _DDL] = None
    data_schema: Annotated[DataSchema | None, At(1, since="0.38", name="schema")] = None


@dataclass(frozen=True, slots=True)
class ReadStepJson:
    """Reader for a JSON file that holds an array of objects."""

    sub_path: Annotated[str | None, At(0)] = None
    schema: Annotated[tuple[str, ...] | None, At(1, aliases=("ddlSchema",))] = None
    date_format: Annotated[str | None, At(2)] = None
    encoding: Annotated[str | None, At(3)] = None
    timestamp_format: Annotated[str | None, At(4)] = None
    data_schema: Annotated[DataSchema | None, At(5, since="0.38", name="schema")] = None


@dataclass(frozen=True, slots=True)
class ReadStepNdJson:
    """Reader for files with one JSON object a line."""

    schema: Annotated[tuple[str, ...] | None, _DDL] = None
    date_format: Annotated[str | None, At(1)] = None
    encoding: Annotated[str | None, At(2)] = None
    timestamp_format: Annotated[str | None, At(3)] = None
    data_schema: Annotated[DataSchema | None, At(4, since="0.38", name="schema")] = None


@dataclass(frozen=True, slots=True)
class ReadStepNdGeoJson:
    """Reader for files with one GeoJSON feature a line."""

    schema: Annotated[tuple[str, ...] | None, _DDL] = None
    data_schema: Annotated[DataSchema | None, At(1, since="0.38", name="schema")] = None


ReadStep = Annotated[
    ReadStepCsv
    | ReadStepGeoJson
    | ReadStepEsriShapefile
    | ReadStepParquet
    | ReadStepJson
    | ReadStepNdJson
    | ReadStepNdGeoJson,
    Variants("ReadStep"),
]


@dataclass(frozen=True, slots=True)
class SqlQueryStep:
    """One query of a transform; all but the last have an alias that later ones can read."""

    alias: Annotated[str | None, At(0)] = field(default=None, kw_only=True)
    query: Annotated[str, At(1)]


@dataclass(frozen=True, slots=True)
class TemporalTable:
    """A stream whose rows are versions of what a key names: a table that changes over time."""

    name: Annotated[str, At(0)]
    primary_key: Annotated[tuple[str, ...], At(1)]


@dataclass(frozen=True, slots=True)
class TransformSql:
    """A transformation in an SQL dialect.

    People write `query` or `queries`; in a chain there is only `queries`.
    """

    engine: Annotated[str, At(0)]
    version: Annotated[str | None, At(1)] = None
    query: Annotated[str | None, At(2)] = None
    queries: Annotated[tuple[SqlQueryStep, ...] | None, At(3)] = None
    temporal_tables: Annotated[tuple[TemporalTable, ...] | None, At(4)] = None


Transform = Annotated[TransformSql, Variants("Transform")]


@dataclass(frozen=True, slots=True)
class MergeStrategyAppend:
    """New data is appended as it is."""


@dataclass(frozen=True, slots=True)
class MergeStrategyLedger:
    """New data is appended except for rows whose key was seen before."""

    primary_key: Annotated[tuple[str, ...], At(0)]


@dataclass(frozen=True, slots=True)
class MergeStrategySnapshot:
    """New data is the whole current state; differences to the last one become events."""

    primary_key: Annotated[tuple[str, ...], At(0)]
    compare_columns: Annotated[tuple[str, ...] | None, At(1)] = None


@dataclass(frozen=True, slots=True)
class MergeStrategyChangelogStream:
    """New data carries its own operation types."""

    primary_key: Annotated[tuple[str, ...], At(0)]


@dataclass(frozen=True, slots=True)
class MergeStrategyUpsertStream:
    """New data holds new states of keys; retractions are worked out."""

    primary_key: Annotated[tuple[str, ...], At(0)]


MergeStrategy = Annotated[
    MergeStrategyAppend
    | MergeStrategyLedger
    | MergeStrategySnapshot
    | MergeStrategyChangelogStream
    | MergeStrategyUpsertStream,
    Variants(
        "MergeStrategy",
        since=(("MergeStrategyChangelogStream", "0.37"), ("MergeStrategyUpsertStream", "0.37")),
    ),
]


@dataclass(frozen=True, slots=True)
class EventTimeSourceFromMetadata:
    """Event time is what the source says of itself, for example its modification time."""


@dataclass(frozen=True, slots=True)
class EventTimeSourceFromPath:
    """Event time is in the file's path: the first group of `pattern`."""

    pattern: Annotated[str, At(0)]
    timestamp_format: Annotated[str | None, At(1)] = None


@dataclass(frozen=True, slots=True)
class EventTimeSourceFromSystemTime:
    """Event time is the time of ingestion."""


EventTimeSource = Annotated[
    EventTimeSourceFromMetadata | EventTimeSourceFromPath | EventTimeSourceFromSystemTime,
    Variants("EventTimeSource"),
]


@dataclass(frozen=True, slots=True)
class SourceCachingForever:
    """A source that was ingested once is never fetched again."""


SourceCaching = Annotated[SourceCachingForever, Variants("SourceCaching")]


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """A header of an HTTP request."""

    name: Annotated[str, At(0)]
    value: Annotated[str, At(1)]


@dataclass(frozen=True, slots=True)
class EnvVar:
    """An environment variable of a container; without a value it is passed through."""

    name: Annotated[str, At(0)]
    value: Annotated[str | None, At(1)] = None


@dataclass(frozen=True, slots=True)
class FetchStepUrl:
    """Gets one file by its URL."""

    url: Annotated[str, At(0)]
    event_time: Annotated[EventTimeSource | None, At(1)] = None
    cache: Annotated[SourceCaching | None, At(3)] = None
    headers: Annotated[tuple[RequestHeader, ...] | None, At(5)] = None


@dataclass(frozen=True, slots=True)
class FetchStepFilesGlob:
    """Takes files of the local file system that match a pattern."""

    path: Annotated[str, At(0)]
    event_time: Annotated[EventTimeSource | None, At(1)] = None
    cache: Annotated[SourceCaching | None, At(3)] = None
    order: Annotated[SourceOrdering | None, At(5)] = None


@dataclass(frozen=True, slots=True)
class FetchStepContainer:
    """Runs a container that writes the data to its standard output."""

    image: Annotated[str, At(0)]
    command: Annotated[tuple[str, ...] | None, At(1)] = None
    args: Annotated[tuple[str, ...] | None, At(2)] = None
    env: Annotated[tuple[EnvVar, ...] | None, At(3)] = None


@dataclass(frozen=True, slots=True)
class MqttTopicSubscription:
    """A topic to subscribe to."""

    path: Annotated[str, At(0)]
    qos: Annotated[MqttQos | None, At(1)] = None


@dataclass(frozen=True, slots=True)
class FetchStepMqtt:
    """Subscribes to topics of an MQTT broker."""

    host: Annotated[str, At(0)]
    port: Annotated[Int32, At(1)]
    username: Annotated[str | None, At(2)] = field(default=None, kw_only=True)
    password: Annotated[str | None, At(3)] = field(default=None, kw_only=True)
    topics: Annotated[tuple[MqttTopicSubscription, ...], At(4)]


@dataclass(frozen=True, slots=True)
class FetchStepEthereumLogs:
    """Reads logs of an Ethereum chain."""

    chain_id: Annotated[UInt64 | None, At(0)] = None
    node_url: Annotated[str | None, At(1)] = None
    filter: Annotated[str | None, At(2)] = None
    signature: Annotated[str | None, At(3)] = None


FetchStep = Annotated[
    FetchStepUrl | FetchStepFilesGlob | FetchStepContainer | FetchStepMqtt | FetchStepEthereumLogs,
    Variants("FetchStep", since=(("FetchStepMqtt", "0.35"), ("FetchStepEthereumLogs", "0.36"))),
]


@dataclass(frozen=True, slots=True)
class PrepStepDecompress:
    """Unpacks an archive or a compressed file."""

    format: Annotated[CompressionFormat, At(0)]
    sub_path: Annotated[str | None, At(1)] = None


@dataclass(frozen=True, slots=True)
class PrepStepPipe:
    """Sends the data through a command."""

    command: Annotated[tuple[str, ...], At(0)]


PrepStep = Annotated[PrepStepDecompress | PrepStepPipe, Variants("PrepStep")]

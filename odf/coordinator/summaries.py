"""One line for each kind of event, in words."""

from functools import singledispatch

from odf.errors import OdfError
from odf.metadata.arrow_schema import decode_schema
from odf.metadata.model import (
    AddData,
    AddPushSource,
    DataSlice,
    DisablePushSource,
    ExecuteTransform,
    FetchStepFilesGlob,
    FetchStepUrl,
    MetadataEvent,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    Timestamp,
    UnknownEvent,
)

_ARROW = " → "


def event_kind(event: MetadataEvent | UnknownEvent) -> str:
    """Return the name of an event's kind in the specification; `Unknown` for later versions."""
    return "Unknown" if isinstance(event, UnknownEvent) else type(event).__name__


@singledispatch
def summarize(event: object) -> str:  # noqa: ARG001
    """Say in a few words what an event does; nothing where its kind says it all.

    Args:
        event: An event of a block.
    """
    return ""


@summarize.register
def _(event: Seed) -> str:
    return f"{event.dataset_kind.name.lower()} {event.dataset_id}"


@summarize.register
def _(event: AddData) -> str:
    return _data(event.new_data, event.new_watermark)


@summarize.register
def _(event: ExecuteTransform) -> str:
    read = sum(1 for entry in event.query_inputs if entry.new_block_hash is not None)
    inputs = f"{read} of {len(event.query_inputs)} inputs moved"
    return f"{_data(event.new_data, event.new_watermark)}, {inputs}"


@summarize.register
def _(event: SetPollingSource) -> str:
    fetch = event.fetch
    where = type(fetch).__name__.removeprefix("FetchStep")
    if isinstance(fetch, FetchStepUrl):
        where = fetch.url
    elif isinstance(fetch, FetchStepFilesGlob):
        where = fetch.path
    steps = [where, _short(event.read, "ReadStep")]
    if event.preprocess is not None:
        steps.append("SQL")
    return _ARROW.join([*steps, _short(event.merge, "MergeStrategy")])


@summarize.register
def _(event: AddPushSource) -> str:
    steps = [event.source_name, _short(event.read, "ReadStep")]
    return _ARROW.join([*steps, _short(event.merge, "MergeStrategy")])


@summarize.register
def _(event: DisablePushSource) -> str:
    return event.source_name


@summarize.register
def _(event: SetTransform) -> str:
    inputs = ", ".join(entry.alias or entry.dataset_ref for entry in event.inputs)
    version = f" {event.transform.version}" if event.transform.version else ""
    return f"{inputs}{_ARROW}{event.transform.engine}{version}"


@summarize.register
def _(event: SetDataSchema) -> str:
    if event.schema is None:
        return "in the form of a later version"
    try:
        fields = decode_schema(event.schema)
    except OdfError as error:  # somebody else's schema is no reason not to show the block
        return error.message
    noun = "column" if len(fields) == 1 else "columns"
    return f"{len(fields)} {noun}: {', '.join(field.name for field in fields)}"


@summarize.register
def _(event: SetInfo) -> str:
    return event.description or ", ".join(event.keywords or ())


@summarize.register
def _(event: SetLicense) -> str:
    return event.short_name


@summarize.register
def _(event: SetVocab) -> str:
    names = {
        "offset": event.offset_column,
        "op": event.operation_type_column,
        "system time": event.system_time_column,
        "event time": event.event_time_column,
    }
    return ", ".join(f"{what}: {name}" for what, name in names.items() if name is not None)


@summarize.register
def _(event: SetAttachments) -> str:
    return ", ".join(item.path for item in event.attachments.items)


@summarize.register
def _(event: UnknownEvent) -> str:
    return event.reason


def _data(data: DataSlice | None, watermark: Timestamp | None) -> str:
    said = []
    if data is None:
        said.append("no rows")
    else:
        rows, interval = data.num_records, data.offset_interval
        noun = "row" if rows == 1 else "rows"
        said.append(f"{rows:,} {noun} ({interval.start} to {interval.end})")
    if watermark is not None:
        said.append(f"watermark {watermark}")
    return ", ".join(said)


def _short(step: object, prefix: str) -> str:
    return type(step).__name__.removeprefix(prefix)

"""Rules about events that define something: sources, transforms, vocabulary, schema, texts."""

from collections import Counter

from odf.metadata.buffers import MalformedBufferError
from odf.metadata.chain import ChainState
from odf.metadata.identity import DatasetID
from odf.metadata.model import (
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    FetchStepEthereumLogs,
    MetadataBlock,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformSql,
)
from odf.metadata.rule_base import Violation, canonical_ref
from odf.metadata.schema_evolution import schema_differences, schema_fields


def transform_has_inputs(_: ChainState, block: MetadataBlock) -> Violation | None:
    """A transform has inputs."""
    if isinstance(block.event, SetTransform) and not block.event.inputs:
        return Violation("a transform without inputs", "at least one input", "none")
    return None


def transform_resolved(_: ChainState, block: MetadataBlock) -> Violation | None:
    """Inputs are dataset identifiers with aliases."""
    if not isinstance(block.event, SetTransform):
        return None
    for one in block.event.inputs:
        if not canonical_ref(one.dataset_ref).startswith("did:odf:"):
            return Violation("an input is not resolved", "a did:odf:… identifier", one.dataset_ref)
        if one.alias is None:
            return Violation(f"input {one.dataset_ref} has no alias", "an alias", "none")
    return None


def transform_inputs_differ(_: ChainState, block: MetadataBlock) -> Violation | None:
    """No dataset is an input twice."""
    if not isinstance(block.event, SetTransform):
        return None
    counts = Counter(canonical_ref(one.dataset_ref) for one in block.event.inputs)
    for ref, count in counts.items():
        if count > 1:
            return Violation("a dataset is an input twice", "one entry", f"{count} of {ref}")
    return None


def transform_aliases_differ(_: ChainState, block: MetadataBlock) -> Violation | None:
    """No two inputs have names that queries cannot tell apart."""
    if not isinstance(block.event, SetTransform):
        return None
    counts = Counter((one.alias or one.dataset_ref).casefold() for one in block.event.inputs)
    for alias, count in counts.items():
        if count > 1:
            return Violation("two inputs have one alias", "different aliases", alias)
    return None


def _transform_of(block: MetadataBlock) -> TransformSql | None:
    match block.event:
        case SetTransform() as event:
            return event.transform
        case SetPollingSource() | AddPushSource() as event:
            return event.preprocess
        case _:
            return None


def queries_normalized(_: ChainState, block: MetadataBlock) -> Violation | None:
    """The short form `query` is for manifests only."""
    transform = _transform_of(block)
    if transform is not None and transform.query is not None:
        return Violation("queries are not normalized", "`queries`", "`query`")
    return None


def queries_present(_: ChainState, block: MetadataBlock) -> Violation | None:
    """A transform has a query."""
    transform = _transform_of(block)
    if transform is not None and not transform.queries:
        return Violation("a transform without queries", "at least one query", "none")
    return None


def last_query_unnamed(_: ChainState, block: MetadataBlock) -> Violation | None:
    """The last query is the output and has no alias."""
    transform = _transform_of(block)
    if transform is not None and transform.queries and transform.queries[-1].alias is not None:
        return Violation("the last query has an alias", "none", transform.queries[-1].alias)
    return None


def other_queries_named(_: ChainState, block: MetadataBlock) -> Violation | None:
    """All queries but the last have an alias."""
    transform = _transform_of(block)
    if transform is None:
        return None
    for number, step in enumerate((transform.queries or ())[:-1], 1):
        if step.alias is None:
            return Violation(f"query {number} has no alias", "an alias", "none")
    return None


def push_source_schema(_: ChainState, block: MetadataBlock) -> Violation | None:
    """What is pushed has a declared schema."""
    event = block.event
    if isinstance(event, AddPushSource) and (
        event.read.schema is None and event.read.data_schema is None
    ):
        return Violation(
            f"push source {event.source_name!r} does not say what it reads",
            "a schema in its read step",
            "none",
        )
    return None


def push_excludes_polling(state: ChainState, block: MetadataBlock) -> Violation | None:
    """A dataset with a polling source takes no pushes."""
    if isinstance(block.event, AddPushSource) and state.polling_source is not None:
        return Violation(
            "the dataset has a polling source",
            "no active polling source",
            "one",
            hint="end it with DisablePollingSource first",
        )
    return None


def polling_excludes_push(state: ChainState, block: MetadataBlock) -> Violation | None:
    """A dataset with push sources polls nothing."""
    if isinstance(block.event, SetPollingSource) and state.push_sources:
        return Violation(
            "the dataset has push sources",
            "no active push source",
            ", ".join(one.source_name for one in state.push_sources[:5]),
            hint="end them with DisablePushSource first",
        )
    return None


def disable_active_source(state: ChainState, block: MetadataBlock) -> Violation | None:
    """Only an active source can be disabled."""
    match block.event:
        case DisablePollingSource() if state.polling_source is None:
            return Violation("nothing to disable", "an active polling source", "none")
        case DisablePushSource(name) if state.push_source(name) is None:
            known = ", ".join(one.source_name for one in state.push_sources[:5]) or "none"
            return Violation(f"no push source {name!r} to disable", "an active one", known)
        case _:
            return None


def one_read_schema(_: ChainState, block: MetadataBlock) -> Violation | None:
    """A read step has one schema."""
    event = block.event
    if isinstance(event, SetPollingSource | AddPushSource) and (
        event.read.schema is not None and event.read.data_schema is not None
    ):
        return Violation("the read step has two schemas", "one", "`schema` and `ddlSchema`")
    return None


def ethereum_chain_named(_: ChainState, block: MetadataBlock) -> Violation | None:
    """A source of logs says of which chain."""
    event = block.event
    if isinstance(event, SetPollingSource) and isinstance(event.fetch, FetchStepEthereumLogs):
        fetch = event.fetch
        if fetch.chain_id is None and fetch.node_url is None:
            return Violation("no chain to read", "chainId or nodeUrl", "neither")
    return None


def definition_changes(state: ChainState, block: MetadataBlock) -> Violation | None:
    """An event that defines something is not the repetition of the current one."""
    event = block.event
    current: object
    match event:
        case SetInfo():
            current = state.info
        case SetLicense():
            current = state.license
        case SetAttachments():
            current = state.attachments
        case SetVocab():
            current = state.set_vocab
        case SetPollingSource():
            current = state.polling_source
        case SetTransform():
            current = state.transform
        case SetDataSchema():
            current = state.schema
        case AddPushSource(source_name=name):
            current = state.push_source(name)
        case _:
            return None
    if event == current:
        return Violation("the event changes nothing", "another content", "the current one")
    return None


def vocabulary_before_data(state: ChainState, block: MetadataBlock) -> Violation | None:
    """System columns are named before there is a schema or data."""
    if isinstance(block.event, SetVocab) and (state.schema is not None or state.num_slices):
        return Violation(
            "the names of system columns are already in use",
            "SetVocab before SetDataSchema and data",
            "SetVocab after them",
        )
    return None


def schema_readable(_: ChainState, block: MetadataBlock) -> Violation | None:
    """A schema is there and can be read."""
    event = block.event
    if not isinstance(event, SetDataSchema):
        return None
    try:
        fields = schema_fields(event)
    except MalformedBufferError as error:
        return Violation("the schema cannot be read", "an Arrow schema", error.message)
    if not fields:
        return Violation("the schema has no columns", "at least one column", "none")
    return None


def schema_evolution(state: ChainState, block: MetadataBlock) -> Violation | None:
    """A new schema only adds nullable columns."""
    event = block.event
    if not isinstance(event, SetDataSchema) or state.schema is None:
        return None
    # The two forms of a schema do not agree on nullability; moving from one to the other is free.
    loose = (event.schema is None) != (state.schema.schema is None)
    try:
        differences = schema_differences(
            schema_fields(state.schema), schema_fields(event), ignore_nullability=loose
        )
    except MalformedBufferError as error:
        return Violation("the schemas cannot be compared", "Arrow schemas", error.message)
    if differences:
        return Violation(
            "the schema changes more than it may",
            "only added nullable columns",
            "; ".join(differences),
        )
    return None


def transform_not_self(state: ChainState, block: MetadataBlock) -> Violation | None:
    """A dataset is not its own input."""
    if not isinstance(block.event, SetTransform) or state.dataset_id is None:
        return None
    own: DatasetID = state.dataset_id
    if str(own) in {canonical_ref(one.dataset_ref) for one in block.event.inputs}:
        return Violation("a dataset is its own input", "other datasets", own)
    return None

"""Checking what a manifest asks of engines and readers, before a dataset is made from it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from odf.coordinator.context import Context
from odf.coordinator.read_checks import check_read, read_warnings
from odf.data.datatypes import Column
from odf.errors import BadInputError, OdfError, in_context
from odf.ingest.fetch import check_step
from odf.ingest.prepare import check_steps
from odf.metadata.arrow_schema import decode_schema, encode_schema
from odf.metadata.chain import ChainState
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    AddPushSource,
    DatasetVocabulary,
    FetchStepMqtt,
    MergeStrategyAppend,
    MergeStrategySnapshot,
    SetPollingSource,
    SetTransform,
    TransformInput,
    TransformSql,
)
from odf.protocol.calls import QueryInput, QueryOutcome
from odf.protocol.releases import RELEASES
from odf.repo.accept import schema_bytes
from odf.workspace.workspace import DatasetHandle

_UNSEEN: Final = (
    "an input has no data yet, so that the query is checked in full when it is first pulled"
)

_MESSAGES_REPLACE: Final = (
    "the messages of one pull count as the whole snapshot: keys that are not among them are "
    "retracted; UpsertStream keeps them"
)

PREPROCESS_INPUT = "input"
"""Name of the view that a preprocess query reads."""


@dataclass(frozen=True, slots=True)
class QueryCheck:
    """What came of checking a query.

    Attributes:
        query_class: What kind of query it is, in a word or two; None if it could not be checked.
        warnings: What its author should know.
        columns: Names of the columns that a transform gives, but for those that the host adds;
            None if they are not known.
        description: The kind in words, with what is kept between runs; empty if there is no more
            to say.
    """

    query_class: str | None
    warnings: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    description: str = ""


def pinned(event: SetTransform) -> SetTransform:
    """Fill in the engine's release where the author left it open.

    A value of the author's own is kept. Only our own engines have releases that stand for
    something; for others the exact image has to be said.
    """
    transform = event.transform
    release = RELEASES.get(transform.engine.lower())
    if release is None or transform.version is not None:
        return event
    return replace(event, transform=replace(transform, version=release))


def check_transform(
    ctx: Context,
    name: DatasetAlias,
    event: SetTransform,
    vocab: DatasetVocabulary,
    drafts: Mapping[DatasetID, ChainState],
) -> QueryCheck:
    """Have the engine check the query of a derivative dataset.

    Args:
        ctx: The workspace.
        name: The dataset.
        event: Its transform, with inputs resolved.
        vocab: Its vocabulary.
        drafts: States of datasets that are made by the same command.

    Raises:
        InvalidQueryError: If the query is not accepted.
        EngineUnavailableError: If no engine can be started to check it.
    """
    if event.transform.engine.lower() not in RELEASES:
        return QueryCheck(None, (_other_engine(ctx, event.transform),))
    inputs = [
        _query_input(source, _state_of(ctx, DatasetID.parse(source.dataset_ref), drafts))
        for source in event.inputs
    ]
    ctx.progress(str(name), "checking the query")
    outcome = _validate(ctx, name, event.transform, inputs, vocab, preprocess=False)
    columns = None
    if outcome.output_schema:
        columns = tuple(field.name for field in decode_schema(outcome.output_schema))
    # Without the columns of all inputs the engine has seen the text of the query only.
    known = columns is not None
    return QueryCheck(
        outcome.query_class if known else None,
        outcome.warnings if known else (*outcome.warnings, _UNSEEN),
        columns,
        outcome.description if known else "",
    )


def check_source(
    ctx: Context,
    name: DatasetAlias,
    source: SetPollingSource | AddPushSource,
    vocab: DatasetVocabulary,
) -> QueryCheck:
    """Check what can be known about a root dataset's source before any data is there.

    Raises:
        BadInputError: If the key is empty, names a column twice or one that is not among those
            that are declared, or a fetch, prepare or read step can never work.
        InvalidQueryError: If the preprocess query is not accepted.
        EngineUnavailableError: If no engine can be started to check it.
    """
    _check_key_lists(name, source)
    declared = check_read(name, source, vocab)
    columns = None if declared is None else [column.name for column in declared]
    warnings: list[str] = list(read_warnings(name, source.read))
    if isinstance(source, SetPollingSource):
        warnings += _source_warnings(name, source)
        if isinstance(source.fetch, FetchStepMqtt) and isinstance(
            source.merge, MergeStrategySnapshot
        ):
            warnings.append(_MESSAGES_REPLACE)
    preprocess = source.preprocess
    if preprocess is None:
        _check_keys(name, source, columns)
    elif preprocess.engine.lower() not in RELEASES:
        warnings.append(_other_engine(ctx, preprocess))
    else:
        ctx.progress(str(name), "checking the query")
        schema = None if declared is None else _encoded(declared)
        outcome = _validate(
            ctx,
            name,
            preprocess,
            [QueryInput(alias=PREPROCESS_INPUT, schema=schema)],
            vocab,
            preprocess=True,
        )
        warnings += outcome.warnings
        if outcome.output_schema:
            fields = decode_schema(outcome.output_schema)
            _check_keys(name, source, [field.name for field in fields])
    return QueryCheck(None, tuple(warnings))


def _validate(
    ctx: Context,
    name: DatasetAlias,
    transform: TransformSql,
    inputs: Sequence[QueryInput],
    vocab: DatasetVocabulary,
    *,
    preprocess: bool,
) -> QueryOutcome:
    client = ctx.engines.client(transform.engine, dataset=str(name), trusted=True)
    try:
        return client.validate_query(transform, inputs, vocab, preprocess=preprocess)
    except OdfError as error:
        raise in_context(error, f"dataset {name}") from error


def _state_of(
    ctx: Context, dataset_id: DatasetID, drafts: Mapping[DatasetID, ChainState]
) -> ChainState:
    if dataset_id in drafts:
        return drafts[dataset_id]
    return ctx.workspace.resolve(str(dataset_id)).dataset.state()


def query_input(
    source: TransformInput, find_dataset: Callable[[DatasetID], DatasetHandle]
) -> QueryInput:
    """Describe an input of a transform, as it is in the workspace, to who checks the query.

    Raises:
        NotFoundError: If it is not there.
    """
    handle = find_dataset(DatasetID.parse(source.dataset_ref))
    return _query_input(source, handle.dataset.state())


def _query_input(source: TransformInput, state: ChainState) -> QueryInput:
    return QueryInput(
        alias=source.alias or source.dataset_ref,
        schema=schema_bytes(state.schema),
        has_retractions=state.may_retract,
        vocab=state.vocab,
    )


def _encoded(columns: Sequence[Column]) -> bytes:
    """Return the columns that a preprocess query will see."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and most manifests have no preprocess step

    from odf.data.arrow_fields import arrow_schema_to_fields  # noqa: PLC0415
    from odf.data.types import to_arrow  # noqa: PLC0415

    schema = pa.schema(
        [pa.field(column.name, to_arrow(column.type), column.nullable) for column in columns]
    )
    return encode_schema(arrow_schema_to_fields(schema))


def _key_lists(source: SetPollingSource | AddPushSource) -> dict[str, Sequence[str]]:
    """Return the lists of columns that a merge strategy names, by their settings."""
    merge = source.merge
    if isinstance(merge, MergeStrategyAppend):
        return {}
    found: dict[str, Sequence[str]] = {"primaryKey": merge.primary_key}
    if isinstance(merge, MergeStrategySnapshot) and merge.compare_columns:
        found["compareColumns"] = merge.compare_columns
    return found


def _check_key_lists(name: DatasetAlias, source: SetPollingSource | AddPushSource) -> None:
    """Refuse keys that tell no rows apart, and columns that are named twice."""
    for setting, keys in _key_lists(source).items():
        if not keys:
            raise BadInputError(
                f"dataset {name}: merge.{setting} names no column, wanted at least one",
                reason="missing_key",
                hint="name the columns that tell rows apart; rows without a key go with "
                "`kind: Append`",
            )
        twice = [key for key, times in Counter(keys).items() if times > 1]
        if twice:
            raise BadInputError(
                f"dataset {name}: merge.{setting} names columns more than once: {', '.join(twice)}",
                reason="duplicate_key",
            )


def _check_keys(
    name: DatasetAlias, source: SetPollingSource | AddPushSource, columns: Sequence[str] | None
) -> None:
    if columns is None:
        return
    for setting, keys in _key_lists(source).items():
        missing = [key for key in keys if key not in columns]
        if missing:
            raise BadInputError(
                f"dataset {name}: merge.{setting} names columns that the data does not have: "
                f"{', '.join(missing)}; it has {', '.join(columns)}",
                reason="missing_key",
                hint="column names are compared with their case",
            )


def _source_warnings(name: DatasetAlias, source: SetPollingSource) -> tuple[str, ...]:
    try:
        return (*check_step(source.fetch), *check_steps(source.prepare or ()))
    except BadInputError as error:
        raise in_context(error, f"dataset {name}") from error


def _other_engine(ctx: Context, transform: TransformSql) -> str:
    configured = ctx.workspace.config.engine_images or {}
    name = transform.engine.lower()
    if name in configured:
        return (
            f"engine {transform.engine!r} runs from the image {configured[name].image}, which "
            "checks no queries: whether this one can be run is seen when it is"
        )
    return (
        f"it asks for engine {transform.engine!r}, which is not here (there is "
        f"{', '.join((*RELEASES, *configured))}): it can be kept and exchanged, but not pulled "
        "before an image is named for it in the configuration: "
        f"engine: {{images: {{{name}: {{image: …, port: …}}}}}} (docs/engines.md)"
    )

"""`odf show`: one dataset, from its cached chain state."""

from dataclasses import dataclass

from odf.coordinator.context import Context
from odf.coordinator.lineage import inputs_of
from odf.coordinator.query_record import QueryRecord, known_query
from odf.coordinator.summaries import summarize
from odf.errors import NotFoundError, OdfError
from odf.metadata.chain import ChainState
from odf.metadata.schema_evolution import schema_fields
from odf.repo.dropped import missing_slices
from odf.workspace.workspace import DatasetHandle


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column of a dataset.

    Attributes:
        name: Its name.
        type: Its Arrow type, in words.
        nullable: Whether it may hold nulls.
    """

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class ShownDataset:
    """What there is to say about a dataset.

    Attributes:
        handle: The dataset.
        state: What its chain says.
        sources: Its polling source and its push sources, each in one line.
        inputs: Names of what it is derived from, or their identities if they are not here.
        query: What is known about its query; None if it has none.
        columns: Its columns; None as long as it has no data, or if the schema cannot be read.
        dropped: Number of slices whose data was dropped.
    """

    handle: DatasetHandle
    state: ChainState
    sources: tuple[str, ...]
    inputs: tuple[str, ...]
    query: QueryRecord | None
    columns: tuple[ShownColumn, ...] | None
    dropped: int


def show(ctx: Context, ref: str) -> ShownDataset:
    """Describe a dataset. No engine is started.

    Args:
        ctx: The workspace.
        ref: Its name or identity.

    Raises:
        NotFoundError: There is no such dataset.
        CorruptChainError: Its chain cannot be read.
    """
    handle = ctx.workspace.resolve(ref)
    state = handle.dataset.state()
    declared = (state.polling_source, *state.push_sources)
    return ShownDataset(
        handle=handle,
        state=state,
        sources=tuple(summarize(source) for source in declared if source is not None),
        inputs=tuple(_name(ctx, str(source)) for source in inputs_of(handle)),
        query=known_query(handle, state.transform) if state.transform else None,
        columns=_columns(state),
        dropped=len(missing_slices(handle.dataset)),
    )


def _name(ctx: Context, ref: str) -> str:
    try:
        return str(ctx.workspace.resolve(ref).alias)
    except NotFoundError:
        return ref


def _columns(state: ChainState) -> tuple[ShownColumn, ...] | None:
    if state.schema is None:
        return None
    try:
        fields = schema_fields(state.schema)
    except OdfError:  # somebody else's schema is no reason to show nothing
        return None
    return tuple(ShownColumn(field.name, str(field.type), field.nullable) for field in fields)

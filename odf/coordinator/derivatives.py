"""The pull of one derivative dataset, and what may have to come before it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from odf.coordinator.context import Context
from odf.coordinator.drop_data import bring_back
from odf.coordinator.engines import transform_surroundings
from odf.coordinator.lineage import inputs_of
from odf.coordinator.query_record import check_recompute, keep_query, known_query
from odf.errors import NotFoundError
from odf.metadata.model import TransformSql
from odf.protocol.releases import RELEASES
from odf.repo.restart import restart
from odf.repo.update import DatasetUpdate, next_time
from odf.transform.execute import TransformSurroundings, pull_derivative
from odf.transform.plan import DivergedInputError
from odf.workspace.workspace import DatasetHandle

if TYPE_CHECKING:  # grpc is loaded when an engine is needed, not to find that nothing changed
    from odf.runtimes.client import EngineClient


def pull_derived(ctx: Context, handle: DatasetHandle, *, reset_if_diverged: bool) -> DatasetUpdate:
    """Process whatever the inputs of a derivative dataset have new.

    Data that was dropped, of it or of its inputs, is made again first.

    Args:
        ctx: The workspace.
        handle: The dataset.
        reset_if_diverged: Begin its history anew if an input has become another one.

    Raises:
        LockedError: Another process is writing.
        IntegrityError, ConflictError: Dropped data cannot be made again.
    """
    for source in inputs_of(handle):
        try:
            bring_back(ctx, ctx.workspace.resolve(str(source)))
        except NotFoundError:
            continue  # who needs it says so
    made_again = 0
    try:
        made_again = bring_back(ctx, handle)
    except DivergedInputError:
        if not reset_if_diverged:
            raise
    with handle.dataset.lock(ctx.settings.lock_timeout):
        said: list[str] = []
        around = _checking(handle, transform_surroundings(ctx, handle), said)
        update = pull_derivative(handle, around)
        if not (reset_if_diverged and isinstance(update.error, DivergedInputError)):
            update = replace(update, warnings=(*said, *update.warnings))
            return _with_made_again(update, made_again)
        why = update.error.message
        old_head = handle.dataset.head()
        state = handle.dataset.state()
        backup = restart(handle.dataset, next_time(state, ctx.clock))
        again = pull_derivative(handle, around)
        warning = f"{why}; its history was begun anew, the old one is kept as refs/{backup}"
        return replace(again, old_head=old_head, warnings=(warning, *said, *again.warnings))


def _with_made_again(update: DatasetUpdate, slices: int) -> DatasetUpdate:
    """Say that dropped data is back, where nothing else is new to tell."""
    if not slices or update.blocks or update.error is not None:
        return update
    what = "slice was" if slices == 1 else "slices were"
    said = f"{slices} dropped {what} made again"
    return replace(update, reason=f"{said}; {update.reason}" if update.reason else said)


def _checking(
    handle: DatasetHandle, around: TransformSurroundings, said: list[str]
) -> TransformSurroundings:
    """Have a query checked before its first step, if that was not possible when it was added.

    Args:
        handle: The dataset.
        around: Where its steps happen.
        said: What its author should know is added to this.
    """
    start = around.engine
    checked: set[int] = set()

    def engine(transform: TransformSql) -> "EngineClient":
        client = start(transform)
        if id(transform) not in checked and transform.engine.lower() in RELEASES:
            checked.add(id(transform))
            said.extend(_check_query(handle, around, client))
        return client

    return replace(around, engine=engine)


def _check_query(
    handle: DatasetHandle, around: TransformSurroundings, client: "EngineClient"
) -> tuple[str, ...]:
    """Check a query that nobody has checked yet; return what its author should know."""
    state = handle.dataset.state()
    if state.transform is None:
        return ()
    warnings: tuple[str, ...] = ()
    record = known_query(handle, state.transform)
    if record.query_class is None:
        from odf.coordinator.queries import query_input  # noqa: PLC0415  # once for each query

        outcome = client.validate_query(
            state.transform.transform,
            [query_input(source, around.find_dataset) for source in state.transform.inputs],
            state.vocab,
        )
        warnings = outcome.warnings
        record = replace(record, query_class=outcome.query_class, description=outcome.description)
        keep_query(handle, state.transform, record)
    check_recompute(handle.alias, record, warnings)
    return warnings

"""`odf drop-data`, and the way back: a derivative's rows can be made again from its inputs.

See the spec, "Derivative Data Transience".
"""

from collections import deque
from collections.abc import Sequence

from odf.coordinator.context import Context
from odf.coordinator.engines import require_transform_engine, transform_surroundings
from odf.coordinator.lineage import inputs_of
from odf.coordinator.results import DroppedDataset
from odf.coordinator.selection import select_local
from odf.errors import (
    BadInputError,
    ConflictError,
    EngineUnavailableError,
    IntegrityError,
    NotFoundError,
)
from odf.metadata.model import (
    DatasetKind,
    DataSlice,
    ExecuteTransform,
    SetTransform,
    TransformSql,
)
from odf.repo.dropped import drop_slices, missing_slices, restore_slice
from odf.repo.errors import InvalidIntervalError
from odf.repo.objects import StagedObject
from odf.transform.plan import DivergedInputError
from odf.workspace.workspace import DatasetHandle


def drop_data(
    ctx: Context, refs: Sequence[str], *, force: bool = False
) -> tuple[DroppedDataset, ...]:
    """Remove the slices of derivative datasets; their chains and checkpoints stay.

    Args:
        ctx: The workspace.
        refs: Names, DIDs or patterns.
        force: Also where an engine that made the data is not here to make it again.

    Returns:
        What was freed, dataset by dataset.

    Raises:
        NotFoundError: If a name is unknown.
        BadInputError: If one of them is a root dataset. Nothing is removed then.
        ConflictError: If an input is not here, or has become another one, so that the data could
            not be made again. Nothing is removed then.
        EngineUnavailableError: If an engine that made some of the data is not here, or not in its
            release. Nothing is removed then.
        LockedError: If another process writes to one of them.
    """
    handles = select_local(ctx, refs)
    for handle in handles:
        _check_can_be_made_again(ctx, handle)
        if not force:
            _check_engines(ctx, handle)
    freed = []
    for handle in handles:
        with handle.dataset.lock(ctx.settings.lock_timeout):
            gone = drop_slices(handle.dataset)
        freed.append(DroppedDataset(str(handle.alias), handle.id, gone.slices, gone.size))
    return tuple(freed)


def bring_back(ctx: Context, handle: DatasetHandle) -> int:
    """Make the dropped slices of a dataset again, those of its inputs first.

    The caller does not hold the dataset's lock.

    Returns:
        How many slices are back.

    Raises:
        ConflictError: If that is not possible: an input is not here, or has become another one.
        IntegrityError: If the rows that come out are not those that the chain records.
        EngineUnavailableError, EngineError: If the engine does not do it.
    """
    wanted = {data.logical_hash: data for data in missing_slices(handle.dataset)}
    if not wanted:
        return 0
    _check_can_be_made_again(ctx, handle)
    from odf.transform.verify import replay  # noqa: PLC0415  # every pull comes by here

    for source in inputs_of(handle):
        bring_back(ctx, ctx.workspace.resolve(str(source)))
    ctx.progress(str(handle.alias), "making its dropped data again")
    count = len(wanted)

    def keep(data: DataSlice, made: StagedObject) -> None:
        if wanted.pop(data.logical_hash, None) is not None:
            restore_slice(handle.dataset, data, made)

    with handle.dataset.lock(ctx.settings.lock_timeout):
        around = transform_surroundings(ctx, handle)
        for step in replay(handle, around, keep=keep):
            if step.differences or step.unchecked:
                why = step.unchecked or step.differences[0]
                raise IntegrityError(
                    f"{handle.alias}: the dropped data of block {step.sequence_number} cannot be "
                    f"made again: {why}",
                    hint="pull the dataset from a repository that has its data",
                )
            if not wanted:
                break
    return count


def _check_can_be_made_again(ctx: Context, handle: DatasetHandle) -> None:
    if handle.dataset.state().kind is not DatasetKind.DERIVATIVE:
        raise BadInputError(
            f"{handle.alias} is a root dataset: its data comes from outside and could not be made "
            "again",
            reason="root_dataset",
            hint="only the data of derivative datasets can be dropped",
        )
    for source in inputs_of(handle):
        try:
            ctx.workspace.resolve(str(source))
        except NotFoundError as error:
            raise ConflictError(
                f"{handle.alias}: its data could not be made again: the input {source} is not in "
                "this workspace",
                hint="pull the input first",
            ) from error
    _check_not_diverged(ctx, handle)


def _check_engines(ctx: Context, handle: DatasetHandle) -> None:
    """Make sure that every engine is here that made some of the data."""
    for transform in _transforms_with_data(handle):
        try:
            require_transform_engine(ctx, handle, transform)
        except EngineUnavailableError as error:
            raise EngineUnavailableError(
                f"{handle.alias}: its data could not be made again here: {error.message}",
                hint=f"{error.hint + '; or ' if error.hint else ''}drop it all the same: "
                f"odf drop-data --force {handle.alias}",
                details=error.details,
            ) from error


def _transforms_with_data(handle: DatasetHandle) -> list[TransformSql]:
    """Return the transforms that were in force when rows were derived, the newest first."""
    found: list[TransformSql] = []
    made_rows = False
    for _, block in handle.dataset.blocks():
        event = block.event
        if isinstance(event, ExecuteTransform):
            made_rows = made_rows or event.new_data is not None
        elif isinstance(event, SetTransform):
            if made_rows and event.transform not in found:
                found.append(event.transform)
            made_rows = False
    return found


def _check_not_diverged(ctx: Context, handle: DatasetHandle) -> None:
    """Make sure that the inputs still have what the newest step read, and so all before it."""
    for read in handle.dataset.state().query_inputs or ():
        if read.last_block_hash is None:
            continue
        source = ctx.workspace.resolve(str(read.dataset_id))
        try:
            deque(source.dataset.walk_bytes(until=read.last_block_hash), maxlen=0)
        except InvalidIntervalError as error:
            raise DivergedInputError(
                f"{handle.alias}: its data could not be made again: its input {source.alias} no "
                f"longer has block {read.last_block_hash}: it was reset or compacted",
                hint="with --reset-derivatives-on-diverged-input odf pull starts this dataset anew",
                details={"input": str(source.id), "block": str(read.last_block_hash)},
            ) from error

"""`odf list`: what is in the workspace, read from cached chain states."""

from odf.coordinator.context import Context
from odf.coordinator.results import ListedDataset
from odf.errors import OdfError
from odf.workspace.workspace import DatasetHandle

LOCAL = "local"
"""The origin of datasets that were made here."""

UNKNOWN = "unknown"
"""The origin of datasets whose record of it cannot be read."""


def list_datasets(ctx: Context) -> list[ListedDataset]:
    """Describe every dataset of the workspace, by name.

    A dataset that cannot be read is described by its name and its problem; one that is understood
    only in part by all that is known of it, and the problem.

    Args:
        ctx: The workspace.
    """
    return [_describe(handle) for handle in ctx.workspace.datasets()]


def dataset_names(ctx: Context) -> list[str]:
    """Return the names of all datasets, sorted, without reading any chain."""
    return [str(handle.alias) for handle in ctx.workspace.datasets()]


def _describe(handle: DatasetHandle) -> ListedDataset:
    origin, problem = _origin(handle)
    try:
        state = handle.dataset.state()
    except (OdfError, OSError) as error:
        return ListedDataset(
            alias=handle.alias,
            id=handle.id,
            kind=None,
            origin=origin,
            head=None,
            problem=_reason(error),
        )
    if state.head is None:
        problem = "it has no blocks"
    elif state.opaque:
        problem = f"understood only in part: {state.opaque}"
    return ListedDataset(
        alias=handle.alias,
        id=handle.id,
        kind=state.kind,
        origin=origin,
        head=state.head,
        blocks=state.num_blocks,
        records=state.num_records,
        size=state.data_size,
        last_update=state.last_data_time,
        watermark=state.watermark,
        problem=problem,
    )


def _origin(handle: DatasetHandle) -> tuple[str, str | None]:
    """Return where a dataset comes from, and why that cannot be told, if so."""
    try:
        return next(iter(handle.pull_aliases), LOCAL), None
    except (OdfError, OSError) as error:
        return UNKNOWN, f"where it comes from cannot be told: {_reason(error)}"


def _reason(error: OdfError | OSError) -> str:
    return error.message if isinstance(error, OdfError) else f"cannot be read: {error}"

"""What a dataset is derived from, as far as the workspace knows."""

from collections.abc import Iterable

from odf.coordinator.context import Context
from odf.errors import NotFoundError, OdfError
from odf.metadata.identity import DatasetID
from odf.workspace.workspace import DatasetHandle


def inputs_of(handle: DatasetHandle) -> list[DatasetID]:
    """The identities of a dataset's inputs; none for a root or an unreadable dataset."""
    try:
        transform = handle.dataset.state().transform
        if transform is None:
            return []
        return [DatasetID.parse(source.dataset_ref) for source in transform.inputs]
    except OdfError:
        return []


def with_inputs(ctx: Context, handles: Iterable[DatasetHandle]) -> list[DatasetHandle]:
    """Return datasets with all that they are derived from, without doubles.

    Inputs that are not in the workspace are left out: whoever needs their data says so.
    """
    found: dict[DatasetID, DatasetHandle] = {}
    waiting = list(handles)
    while waiting:
        handle = waiting.pop(0)
        if handle.id in found:
            continue
        found[handle.id] = handle
        for source in inputs_of(handle):
            try:
                waiting.append(ctx.workspace.resolve(str(source)))
            except NotFoundError:
                continue
    return list(found.values())

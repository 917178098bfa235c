"""`odf provenance`: where rows come from, down to the roots if that is wanted."""

from collections import defaultdict
from dataclasses import dataclass

from odf.coordinator.context import Context
from odf.coordinator.drop_data import bring_back
from odf.coordinator.engines import transform_surroundings
from odf.coordinator.lineage import inputs_of
from odf.coordinator.ordering import inputs_first
from odf.errors import BadInputError, UsageError
from odf.limits import MAX_EXPLAINED_ROWS
from odf.metadata.identity import DatasetID
from odf.metadata.model import DatasetKind
from odf.transform.origins import ExplainedStep, explain
from odf.workspace.workspace import DatasetHandle

__all__ = ["ExplainedDataset", "ExplainedStep", "provenance"]


@dataclass(frozen=True, slots=True)
class ExplainedDataset:
    """Rows of one dataset, and where they come from.

    Attributes:
        handle: The dataset.
        offsets: The rows, ascending.
        steps: Where they come from; none for a root dataset, whose rows come from outside.
    """

    handle: DatasetHandle
    offsets: tuple[int, ...]
    steps: tuple[ExplainedStep, ...]


def provenance(
    ctx: Context, ref: str, first: int, last: int, *, recursive: bool = False
) -> tuple[ExplainedDataset, ...]:
    """Say where rows of a derivative dataset come from.

    Args:
        ctx: The workspace.
        ref: Name or identity of the dataset.
        first: Offset of the first row.
        last: Offset of the last one.
        recursive: Go on with the rows found, down to the roots.

    Returns:
        The dataset, then those that its rows come from, each before its own inputs.

    Raises:
        NotFoundError: There is no such dataset, row or input.
        BadInputError: It is a root dataset.
        InvalidQueryError: That cannot be told for a query.
    """
    if not 0 <= first <= last:
        raise UsageError(f"offsets go from 0 up, the first one first; got {first} to {last}")
    if last - first >= MAX_EXPLAINED_ROWS:
        raise UsageError(f"{last - first + 1} rows are more than {MAX_EXPLAINED_ROWS} at once")
    handle = ctx.workspace.resolve(ref)
    if not _is_derivative(handle):
        raise BadInputError(
            f"{handle.alias} is a root dataset: its rows come from outside",
            reason="root_dataset",
            hint=f"odf log {handle.alias} shows when they came",
        )
    wanted: dict[DatasetID, set[int]] = defaultdict(set)
    wanted[handle.id].update(range(first, last + 1))
    order = _outputs_first(ctx, handle) if recursive else [handle]
    found = []
    for one in order:
        offsets = tuple(sorted(wanted[one.id]))
        if not offsets:
            continue
        steps = _steps(ctx, one, frozenset(offsets)) if _is_derivative(one) else ()
        found.append(ExplainedDataset(one, offsets, steps))
        for step in steps:
            for row in step.rows:
                for number, offset in row.sources:
                    wanted[step.inputs[number].id].add(offset)
    return tuple(found)


def _steps(
    ctx: Context, handle: DatasetHandle, offsets: frozenset[int]
) -> tuple[ExplainedStep, ...]:
    for source in inputs_of(handle):
        bring_back(ctx, ctx.workspace.resolve(str(source)))
    return tuple(explain(handle, transform_surroundings(ctx, handle), offsets))


def _outputs_first(ctx: Context, handle: DatasetHandle) -> list[DatasetHandle]:
    handles: dict[DatasetID, DatasetHandle] = {}
    waiting = [handle]
    while waiting:
        one = waiting.pop()
        if one.id not in handles:
            handles[one.id] = one
            waiting += [ctx.workspace.resolve(str(source)) for source in inputs_of(one)]
    ordered = inputs_first(
        list(handles), lambda node: inputs_of(handles[node]), lambda node: str(handles[node].alias)
    )
    return [handles[node] for node in reversed(ordered)]


def _is_derivative(handle: DatasetHandle) -> bool:
    return handle.dataset.state().kind is DatasetKind.DERIVATIVE

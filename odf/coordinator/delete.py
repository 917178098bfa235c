"""`odf delete`: datasets go, with all of their data, unless others are derived from them."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from odf.coordinator.context import Context
from odf.coordinator.lineage import inputs_of
from odf.coordinator.ordering import inputs_first
from odf.coordinator.results import DeletedDataset, DeleteReport
from odf.coordinator.selection import select_local
from odf.errors import AuthError, ConflictError, OdfError
from odf.metadata.identity import DatasetID
from odf.workspace.workspace import DatasetHandle

Confirm = Callable[[Sequence[DeletedDataset]], bool]
"""Shows what will be lost, and says whether that is what its user wants."""


class NotConfirmedError(AuthError):
    """Data would be lost, and nobody said that this is wanted."""

    kind = "not_confirmed"


def delete(
    ctx: Context,
    refs: Sequence[str],
    *,
    recursive: bool = False,
    dry_run: bool = False,
    confirm: Confirm | None = None,
) -> DeleteReport:
    """Remove datasets from the workspace; their private keys stay.

    Args:
        ctx: The workspace.
        refs: Names, DIDs or patterns.
        recursive: Remove what is derived from them too.
        dry_run: Remove nothing, only say what would go.
        confirm: Asked before anything goes; None where nobody can be asked.

    Returns:
        What is gone, derivatives before their inputs.

    Raises:
        NotFoundError: If a name is unknown.
        ConflictError: If other datasets of the workspace are derived from them; lists those.
        NotConfirmedError: If the answer is no, or nobody can be asked.
        LockedError: If another process writes to one of them; nothing is removed then.
    """
    chosen = {handle.id: handle for handle in select_local(ctx, refs)}
    dependents = dependents_of(ctx, chosen)
    if dependents and not recursive:
        raise _in_use(chosen.values(), dependents, "deleted", hint="odf delete -r takes them too")
    handles = {**chosen, **{handle.id: handle for handle in dependents}}
    ordered = inputs_first(
        list(handles), lambda node: inputs_of(handles[node]), lambda node: str(handles[node].alias)
    )
    doomed = [handles[node] for node in reversed(ordered)]
    lost = tuple(loss(ctx, handle) for handle in doomed)
    if not dry_run:
        confirmed(lost, confirm)
        with contextlib.ExitStack() as locks:
            for handle in doomed:
                locks.enter_context(handle.dataset.lock(ctx.settings.lock_timeout))
            for handle in doomed:
                ctx.workspace.remove_dataset(handle.id)
    return DeleteReport(datasets=lost, dry_run=dry_run)


def dependents_of(ctx: Context, chosen: Iterable[DatasetID]) -> list[DatasetHandle]:
    """Return the datasets of the workspace that are derived, directly or not, from some."""
    handles = {handle.id: handle for handle in ctx.workspace.datasets()}
    derived: dict[DatasetID, list[DatasetID]] = defaultdict(list)
    for handle in handles.values():
        for source in inputs_of(handle):
            derived[source].append(handle.id)
    seen = set(chosen)
    waiting = list(seen)
    found: list[DatasetHandle] = []
    while waiting:
        for dependent in derived[waiting.pop(0)]:
            if dependent not in seen:
                seen.add(dependent)
                waiting.append(dependent)
                found.append(handles[dependent])
    return sorted(found, key=lambda handle: handle.alias)


def refuse_in_use(ctx: Context, chosen: Sequence[DatasetHandle], what: str) -> None:
    """Refuse to take datasets away that others are derived from.

    Raises:
        ConflictError: Listing those others.
    """
    dependents = dependents_of(ctx, [handle.id for handle in chosen])
    if dependents:
        raise _in_use(chosen, dependents, what, hint=f"these have to be {what} too, or deleted")


def _in_use(
    chosen: Iterable[DatasetHandle], dependents: Sequence[DatasetHandle], what: str, *, hint: str
) -> ConflictError:
    names = [str(handle.alias) for handle in dependents]
    return ConflictError(
        f"{', '.join(str(handle.alias) for handle in chosen)} cannot be {what}: derived from it "
        f"{'is' if len(names) == 1 else 'are'} {', '.join(names)}",
        hint=hint,
        details={"dependents": names},
    )


def loss(ctx: Context, handle: DatasetHandle) -> DeletedDataset:
    """Say what is lost with a dataset; one that cannot be read can be lost too."""
    problem = None
    blocks = records = size = 0
    kind = None
    try:
        state = handle.dataset.state()
        kind, blocks, records = state.kind, state.num_blocks, state.num_records
        size = state.data_size + state.checkpoints_size
    except OdfError as error:
        problem = error.message
    places: list[str] = []
    with contextlib.suppress(OdfError):
        places = [*handle.pull_aliases, *handle.push_aliases]
    return DeletedDataset(
        alias=handle.alias,
        id=handle.id,
        kind=kind,
        blocks=blocks,
        records=records,
        size=size,
        elsewhere=tuple(dict.fromkeys(places)),
        key=ctx.keys.has(handle.id),
        problem=problem,
    )


def confirmed(lost: Sequence[DeletedDataset], confirm: Confirm | None) -> None:
    """Make sure that the user wants to lose datasets.

    Raises:
        NotConfirmedError: They do not, or nobody can be asked.
    """
    names = ", ".join(str(dataset.alias) for dataset in lost)
    if confirm is None:
        raise NotConfirmedError(
            f"{names}: all data would be lost, which needs your consent; nothing was done",
            hint="say -y if that is what you want, or --dry-run to see what would be lost",
        )
    if not confirm(lost):
        raise NotConfirmedError(f"{names}: nothing was done")

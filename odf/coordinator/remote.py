"""Datasets of others: bringing them here, and keeping them up to date."""

from collections.abc import Callable
from contextlib import closing

from odf.coordinator.context import Context
from odf.coordinator.places import Place, explained, locate
from odf.coordinator.results import PulledDataset, PullStatus
from odf.coordinator.selection import parse_alias
from odf.errors import ConflictError, NotFoundError, OdfError, UsageError
from odf.metadata.chain import ChainState
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.repo.sync import Progress, Relation, SyncResult, sync
from odf.repo.urls import source_at
from odf.store.http import HttpClient
from odf.workspace.workspace import DatasetHandle


def pull_remote(
    ctx: Context, text: str, *, as_name: str | None, force: bool = False
) -> PulledDataset:
    """Bring a dataset from elsewhere up to date, or here for the first time.

    Args:
        ctx: The workspace.
        text: `repo/name`, `repo/account/name`, a URL, or the path of a folder.
        as_name: What to call a new dataset here; its name there if None.
        force: Drop local blocks that contradict the other side's history.

    Raises:
        UsageError: If a URL or path is given without a name for the new dataset.
        NotFoundError: If there is no such repository or dataset.
        ConflictError: If the name is taken, or the histories diverged.
        IntegrityError: If what comes does not hash to its name or breaks a rule.
    """
    place = locate(ctx, text)
    wanted = parse_alias(as_name) if as_name is not None else None
    known = _known(ctx, place)
    with closing(HttpClient()) as client:
        source = source_at(place.url, client)
        if known is not None:
            if wanted is not None and wanted != known.alias:
                raise UsageError(f"{text} is here already, as {known.alias}")
            try:
                result = _brought(ctx, source, known.dataset, known.alias, force, known.id)
            except NotFoundError as error:
                raise explained(error, source, place) from error
            return _pulled(known, result)
        alias = _free_name(ctx, text, wanted or place.name)
        results: list[SyncResult] = []

        def fill(dataset: Dataset) -> None:
            results.append(_brought(ctx, source, dataset, alias, force, None))

        try:
            handle = ctx.workspace.receive_dataset(
                alias, place.url, fill, pull_alias=place.reference
            )
        except NotFoundError as error:
            raise explained(error, source, place) from error
        return _pulled(handle, results[0])


def _brought(
    ctx: Context,
    source: DatasetStores,
    target: Dataset,
    name: DatasetAlias,
    force: bool,
    expected_id: DatasetID | None,
) -> SyncResult:
    return sync(
        source,
        target,
        now=ctx.now(),
        force=force,
        expected_id=expected_id,
        lock_timeout=ctx.settings.lock_timeout,
        progress=sync_reporter(ctx, str(name)),
    )


def _known(ctx: Context, place: Place) -> DatasetHandle | None:
    """Find the dataset that was pulled from a place before."""
    for handle in ctx.workspace.datasets():
        try:
            references = handle.pull_aliases
        except OdfError:
            continue  # damage to one dataset's record is no reason not to pull another
        if any(place.is_named(reference) for reference in references):
            return handle
    return None


def _free_name(ctx: Context, text: str, alias: DatasetAlias | None) -> DatasetAlias:
    """Return the name for a new dataset, which must not be taken."""
    hint = f"odf pull {text} --as NAME"
    if alias is None:
        raise UsageError(f"{text}: a dataset from a URL or folder needs a name here", hint=hint)
    for handle in ctx.workspace.datasets():
        if handle.alias == alias:
            raise ConflictError(
                f"{text}: there is a dataset named {handle.alias} already ({handle.id})",
                hint=f"give this one another name: {hint}",
            )
    return alias


def sync_reporter(ctx: Context, name: str) -> Callable[[Progress], None]:
    """Return what tells a transfer's progress in a dataset's name."""

    def report(progress: Progress) -> None:
        ctx.progress(name, f"object {progress.objects_done} of {progress.objects_total}")

    return report


def _pulled(handle: DatasetHandle, result: SyncResult) -> PulledDataset:
    warnings = []
    if result.backup:
        warnings.append(f"the history that was here is kept as refs/{result.backup}")
    state: ChainState = handle.dataset.state()
    return PulledDataset(
        name=str(handle.alias),
        id=handle.id,
        kind="remote",
        status=PullStatus.UP_TO_DATE if result.relation is Relation.EQUAL else PullStatus.UPDATED,
        old_head=result.old_head,
        new_head=result.new_head,
        blocks=result.blocks,
        watermark=state.watermark,
        warnings=tuple(warnings),
        reason="it has the same head there" if result.relation is Relation.EQUAL else None,
    )

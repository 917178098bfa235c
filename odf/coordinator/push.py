"""`odf push`: send datasets to a repository; only what is missing there travels."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from odf.coordinator.context import Context
from odf.coordinator.guard import guarded
from odf.coordinator.remote import sync_reporter
from odf.coordinator.results import PullStatus, PushedDataset, PushReport
from odf.coordinator.selection import select_local
from odf.errors import OdfError, UsageError
from odf.metadata.identity import IdentityError, RepoName
from odf.repo.dataset import Dataset
from odf.repo.dropped import DataDroppedError, missing_slices
from odf.repo.sync import Relation, SyncResult, sync
from odf.repo.urls import parse_repository_url, target_at
from odf.workspace.workspace import DatasetHandle


def push(
    ctx: Context,
    refs: Sequence[str],
    repository: str,
    *,
    force: bool = False,
    done: Callable[[PushedDataset], None] | None = None,
) -> PushReport:
    """Send datasets to a repository.

    Args:
        ctx: The workspace.
        refs: Names, DIDs or patterns.
        repository: Name of a registered repository; or the URL of the place of a single dataset.
        force: Overwrite a history over there that contradicts this one.
        done: Told of each dataset as it ends.

    Raises:
        NotFoundError: If a dataset or the repository is unknown.
        UsageError: If nothing was asked for, or several datasets shall go to one place.
    """
    handles = select_local(ctx, refs)
    place_of = _places(ctx, repository, len(handles))
    results = []
    for handle in handles:
        result = _push_one(ctx, handle, place_of(handle), force=force)
        results.append(result)
        if done is not None:
            done(result)
    return PushReport(datasets=tuple(results))


def _push_one(ctx: Context, handle: DatasetHandle, url: str, *, force: bool) -> PushedDataset:
    result = PushedDataset(
        name=str(handle.alias), id=handle.id, url=url, status=PullStatus.UP_TO_DATE
    )

    def send() -> SyncResult:
        if missing_slices(handle.dataset):
            raise DataDroppedError(
                f"{handle.alias}: its data was dropped here, so that it cannot be sent",
                hint=f"odf pull {handle.alias} makes it again",
            )
        return sync(
            handle.dataset.stores,
            Dataset(target_at(url, command=ctx.command)),
            now=ctx.now(),
            force=force,
            expected_id=handle.id,
            lock_timeout=ctx.settings.lock_timeout,
            progress=sync_reporter(ctx, str(handle.alias)),
        )

    sent = guarded(ctx, str(handle.alias), send)
    if isinstance(sent, OdfError):
        return replace(result, status=PullStatus.FAILED, error=sent)
    changed = sent.relation is not Relation.EQUAL
    return replace(
        result,
        status=PullStatus.UPDATED if changed else PullStatus.UP_TO_DATE,
        blocks=sent.blocks,
        objects=sent.objects,
        bytes=sent.bytes,
        backup=sent.backup,
    )


def _places(ctx: Context, text: str, count: int) -> Callable[[DatasetHandle], str]:
    """Return what says where each dataset goes."""
    try:
        name = RepoName.parse(text)
    except IdentityError:
        url = parse_repository_url(text)
        if count != 1:
            raise UsageError(
                f"{count} datasets cannot all be pushed to {url}",
                hint="register it as a repository (odf repo add NAME URL) and push to its name",
            ) from None
        return lambda _handle: url
    repository = ctx.workspace.repositories.get(name)
    return lambda handle: repository.dataset_url(str(handle.alias))

"""`odf pull`: bring datasets up to date, inputs before what is derived from them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from odf.coordinator.context import Context
from odf.coordinator.guard import guarded
from odf.coordinator.lineage import inputs_of, with_inputs
from odf.coordinator.ordering import inputs_first
from odf.coordinator.results import PulledDataset, PullReport, PullStatus
from odf.coordinator.selection import Remote, select
from odf.errors import OdfError, UsageError
from odf.metadata.identity import DatasetID
from odf.metadata.model import DatasetKind, Timestamp
from odf.repo.update import DatasetUpdate
from odf.workspace.workspace import DatasetHandle


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What `odf pull` was asked for.

    Attributes:
        refs: Names, DIDs, patterns, `repo/name` or URLs.
        all: Every dataset of the workspace.
        recursive: The inputs of what is asked for, too.
        as_name: What to call a dataset that comes from elsewhere.
        allow_retract: Accept snapshots that lose any number of rows.
        allow_empty: Accept source files without any content.
        take_late: Take files that came after their turn, too.
        reread_reorganised: Read blocks of a chain again that was re-organised behind them.
        force: Take the other side's history even where it contradicts the local one.
        reset_diverged: Begin the history of derivatives anew whose input has become another one.
        set_watermark: Only say that one root dataset is complete up to this time.
        quarantine: Set rows that cannot be read aside, rather than stop at them.
    """

    refs: tuple[str, ...] = ()
    all: bool = False
    recursive: bool = False
    as_name: str | None = None
    allow_retract: bool = False
    allow_empty: bool = False
    take_late: bool = False
    reread_reorganised: bool = False
    force: bool = False
    reset_diverged: bool = False
    set_watermark: Timestamp | None = None
    quarantine: bool = False


def pull(
    ctx: Context,
    request: PullRequest,
    *,
    done: Callable[[PulledDataset], None] | None = None,
) -> PullReport:
    """Update datasets: roots from their sources, derivatives from their inputs, others by sync.

    One dataset's failure does not stop the others, but what is derived from it is skipped.

    Args:
        ctx: Where to work.
        request: What to pull.
        done: Told of each dataset as it ends.

    Raises:
        UsageError: If nothing or something contradictory was asked for.
        NotFoundError: If a name is unknown; nothing has been done then.
    """
    if request.all == bool(request.refs):
        raise UsageError(
            "say either which datasets to pull or --all", hint="odf pull --all, or odf pull NAME"
        )
    local, remote = select(ctx, request.refs, everything=request.all)
    if request.as_name and (local or len(remote) != 1):
        raise UsageError("--as names one dataset that is pulled from a repository or URL")
    if request.recursive:
        local = with_inputs(ctx, local)
    if request.set_watermark is not None:
        _refuse_more_than_one(request, local, remote)
    results: list[PulledDataset] = []

    def finish(result: PulledDataset) -> None:
        results.append(result)
        if done is not None:
            done(result)

    for entry in remote:
        from odf.coordinator.remote import pull_remote  # noqa: PLC0415  # see `_update`

        bring = partial(pull_remote, ctx, entry.text, as_name=request.as_name, force=request.force)
        finish(_timed(ctx, bring, entry.text, None, Kind.REMOTE))
    _pull_local(ctx, request, local, finish)
    return PullReport(datasets=tuple(results))


def _pull_local(
    ctx: Context,
    request: PullRequest,
    handles: Sequence[DatasetHandle],
    finish: Callable[[PulledDataset], None],
) -> None:
    by_id = {handle.id: handle for handle in handles}
    kinds = {handle.id: _kind(ctx, handle) for handle in handles}

    def sources(dataset_id: DatasetID) -> list[DatasetID]:
        return inputs_of(by_id[dataset_id]) if kinds[dataset_id] == Kind.DERIVATIVE else []

    ordered = inputs_first(
        list(by_id), sources, lambda node: str(by_id[node].alias), allow_circles=True
    )
    failed: dict[DatasetID, str] = {}
    for dataset_id in ordered:
        handle, kind = by_id[dataset_id], kinds[dataset_id]
        blocked = [failed[source] for source in sources(dataset_id) if source in failed]
        if blocked:
            result = PulledDataset(
                name=str(handle.alias),
                id=handle.id,
                kind=kind,
                status=PullStatus.SKIPPED,
                reason=f"its input {blocked[0]} could not be pulled",
            )
        else:
            work = partial(_pull_one, ctx, request, handle, kind)
            result = _timed(ctx, work, str(handle.alias), handle.id, kind)
        if result.status in {PullStatus.FAILED, PullStatus.SKIPPED}:
            failed[handle.id] = str(handle.alias)
        finish(result)


class Kind(StrEnum):
    """How a dataset gets new data, as results name it."""

    ROOT = "root"
    DERIVATIVE = "derivative"
    REMOTE = "remote"


def _kind(ctx: Context, handle: DatasetHandle) -> Kind:
    """Say how a dataset gets new data; what is wrong with it comes to light when it is pulled."""

    def find() -> Kind:
        if handle.pull_aliases:
            return Kind.REMOTE
        is_derivative = handle.dataset.state().kind is DatasetKind.DERIVATIVE
        return Kind.DERIVATIVE if is_derivative else Kind.ROOT

    found = guarded(ctx, str(handle.alias), find)
    return found if isinstance(found, Kind) else Kind.ROOT


def _pull_one(
    ctx: Context, request: PullRequest, handle: DatasetHandle, kind: Kind
) -> PulledDataset:
    if request.set_watermark is not None:
        from odf.coordinator.watermark import check_writable  # noqa: PLC0415  # see `_update`

        check_writable(handle, "its watermark cannot be set")
    # Not `kind`: whether it comes from elsewhere must be known for certain, or it is not touched.
    if handle.pull_aliases:
        return _pull_from_elsewhere(ctx, request, handle)
    update = _update(ctx, request, handle, kind)
    status = PullStatus.UPDATED if update.blocks else PullStatus.UP_TO_DATE
    return PulledDataset(
        name=str(handle.alias),
        id=handle.id,
        kind=kind,
        status=PullStatus.FAILED if update.error else status,
        old_head=update.old_head,
        new_head=update.new_head,
        blocks=update.blocks,
        records={operation.sign: count for operation, count in update.records.items() if count},
        watermark=update.watermark,
        warnings=update.warnings,
        reason=update.reason,
        error=update.error,
        set_aside=update.set_aside,
    )


def _pull_from_elsewhere(
    ctx: Context, request: PullRequest, handle: DatasetHandle
) -> PulledDataset:
    from odf.coordinator.drop_data import bring_back  # noqa: PLC0415  # see `_update`
    from odf.coordinator.remote import pull_remote  # noqa: PLC0415

    result = pull_remote(ctx, handle.pull_aliases[0], as_name=None, force=request.force)
    try:
        bring_back(ctx, handle)
    except OdfError as error:
        # What is new came all the same.
        return replace(result, warnings=(*result.warnings, error.message))
    return result


def _update(ctx: Context, request: PullRequest, handle: DatasetHandle, kind: Kind) -> DatasetUpdate:
    """Bring one dataset up to date.

    What a kind of dataset needs is loaded for it: most pulls are of few kinds, and all of it takes
    longer than to find that nothing is new.
    """
    if kind == Kind.DERIVATIVE and request.set_watermark is None:
        from odf.coordinator.derivatives import pull_derived  # noqa: PLC0415

        return pull_derived(ctx, handle, reset_if_diverged=request.reset_diverged)
    with handle.dataset.lock(ctx.settings.lock_timeout):
        if request.set_watermark is not None:
            from odf.coordinator.watermark import set_watermark  # noqa: PLC0415

            return set_watermark(ctx, handle, request.set_watermark)
        from odf.coordinator.ingesting import (  # noqa: PLC0415
            ingest_options,
            ingest_surroundings,
        )
        from odf.ingest.pipeline import pull_root  # noqa: PLC0415

        return pull_root(
            handle.dataset,
            str(handle.alias),
            ingest_options(
                ctx,
                handle,
                allow_retract=request.allow_retract,
                allow_empty=request.allow_empty,
                take_late=request.take_late,
                reread_reorganised=request.reread_reorganised,
                quarantine=request.quarantine,
            ),
            ingest_surroundings(ctx, handle),
        )


def _refuse_more_than_one(
    request: PullRequest, local: Sequence[DatasetHandle], remote: Sequence[Remote]
) -> None:
    if request.all or request.recursive or request.force or len(local) + len(remote) != 1:
        raise UsageError(
            "--set-watermark is for exactly one dataset, without --all, --recursive and --force",
            hint="odf pull NAME --set-watermark 2024-01-31T00:00:00Z",
        )
    if remote:
        raise UsageError(
            f"{remote[0].text} is not a dataset of this workspace, so its watermark cannot be set"
        )


def _timed(
    ctx: Context,
    work: Callable[[], PulledDataset],
    name: str,
    dataset_id: DatasetID | None,
    kind: Kind,
) -> PulledDataset:
    started = time.monotonic()
    result = guarded(ctx, name, work)
    if isinstance(result, OdfError):
        result = PulledDataset(
            name=name, id=dataset_id, kind=kind, status=PullStatus.FAILED, error=result
        )
    return replace(result, seconds=time.monotonic() - started)

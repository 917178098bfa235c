"""Which engine works for which dataset."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from odf.coordinator.compat_record import compatible_releases
from odf.coordinator.context import Context
from odf.coordinator.reading import is_own, slice_reader
from odf.errors import EngineUnavailableError
from odf.metadata.model import DatasetSnapshot, SetTransform, TransformSql
from odf.protocol.releases import COMPATIBLE, RELEASES
from odf.transform.execute import TransformSurroundings
from odf.workspace.workspace import DatasetHandle

if TYPE_CHECKING:
    from odf.runtimes.client import EngineClient

SPARK = "spark"


def transform_engine(
    ctx: Context, handle: DatasetHandle
) -> "Callable[[TransformSql], EngineClient]":
    """Return what starts the engine that a query of a dataset asks for.

    Raises:
        EngineUnavailableError: When called, if this release has no such engine, or another
            release of it than the transform is pinned to.
    """

    def start(transform: TransformSql) -> "EngineClient":
        _require_release(handle, transform)
        return ctx.engines.client(
            transform.engine,
            dataset=str(handle.alias),
            trusted=is_own(ctx, handle),
            version=transform.version,
        )

    return start


def require_transform_engine(ctx: Context, handle: DatasetHandle, transform: TransformSql) -> None:
    """Make sure that the engine that a query of a dataset asks for is here; starts nothing.

    Raises:
        EngineUnavailableError: If it is not, or only in another release than the transform is
            pinned to.
    """
    _require_release(handle, transform)
    ctx.engines.require(transform.engine, dataset=str(handle.alias), version=transform.version)


def _require_release(handle: DatasetHandle, transform: TransformSql) -> None:
    pinned, name = transform.version, transform.engine.lower()
    if pinned is not None and name in RELEASES and not _stands_in(handle, name, pinned):
        raise EngineUnavailableError(
            f"dataset {handle.alias} is pinned to engine release {pinned}; this is "
            f"{RELEASES[name]}, whose results may differ",
            hint="run it with the release of odf that has this engine, or find out whether "
            f"this one does: odf engine compat {handle.alias} --engine {RELEASES[name]}",
        )


def _stands_in(handle: DatasetHandle, engine: str, pinned: str) -> bool:
    """Say whether the release that is here gives what the pinned one gave."""
    if pinned in COMPATIBLE[engine]:
        return True
    return RELEASES[engine] in compatible_releases(handle).get(pinned, frozenset())


def with_pinned_images(ctx: Context, snapshot: DatasetSnapshot) -> DatasetSnapshot:
    """Fill in which image runs a transform, for engines of others, where its author left it open.

    A tag can be moved to another image; `image@sha256:…` cannot.

    Raises:
        EngineUnavailableError: If the image is not on this machine.
    """
    configured = ctx.workspace.config.engine_images or {}
    events = tuple(
        replace(
            event,
            transform=replace(event.transform, version=ctx.engines.pin(event.transform.engine)),
        )
        if isinstance(event, SetTransform)
        and event.transform.version is None
        and event.transform.engine.lower() in configured
        else event
        for event in snapshot.metadata
    )
    return snapshot if events == snapshot.metadata else replace(snapshot, metadata=events)


def transform_surroundings(ctx: Context, handle: DatasetHandle) -> TransformSurroundings:
    """Return where steps of a derivative dataset happen, be it an update or a replay."""
    return TransformSurroundings(
        find_dataset=lambda dataset_id: ctx.workspace.resolve(str(dataset_id)),
        staging_dir=ctx.staging_dir,
        clock=ctx.clock,
        engine=transform_engine(ctx, handle),
        report=lambda message: ctx.progress(str(handle.alias), message),
        reader=slice_reader(ctx, handle),
    )


def ingest_engine(ctx: Context, handle: DatasetHandle) -> "Callable[[], EngineClient]":
    """Return what starts the engine that reads and merges a root dataset's data."""

    def start() -> "EngineClient":
        return ctx.engines.client(SPARK, dataset=str(handle.alias), trusted=is_own(ctx, handle))

    return start

"""What every ingest is given, be its data fetched or pushed."""

from functools import partial

from odf.coordinator.consent import permitted
from odf.coordinator.context import Context
from odf.coordinator.engines import SPARK, ingest_engine, transform_engine
from odf.coordinator.reading import is_own, slice_reader
from odf.ingest.surroundings import DEFAULT_RETRACT_SHARE, IngestOptions, IngestSurroundings
from odf.runtimes.commands import CommandRunner
from odf.runtimes.source_container import ContainerRunner
from odf.workspace.workspace import DatasetHandle


def ingest_options(
    ctx: Context,
    handle: DatasetHandle,
    *,
    allow_retract: bool,
    allow_empty: bool,
    take_late: bool = False,
    reread_reorganised: bool = False,
    quarantine: bool = False,
) -> IngestOptions:
    """Return what is allowed: what the caller says, and what the configuration says."""
    settings = ctx.workspace.config.ingest_of(handle.alias.name)
    lag = settings.watermark_lag
    return IngestOptions(
        allow_retract=allow_retract,
        allow_empty=allow_empty,
        max_retract_share=DEFAULT_RETRACT_SHARE
        if settings.max_retract is None
        else settings.max_retract,
        take_late=take_late,
        reread_reorganised=reread_reorganised,
        quarantine_dir=ctx.workspace.quarantine_of(handle.alias) if quarantine else None,
        watermark_lag_ms=0 if lag is None else int(lag.total_seconds() * 1000),
    )


def ingest_surroundings(ctx: Context, handle: DatasetHandle) -> IngestSurroundings:
    """Return where an ingest into a dataset happens."""
    return IngestSurroundings(
        workspace_root=ctx.workspace.root,
        cache_dir=ctx.workspace.cache_dir / "fetch" / handle.id.multibase,
        staging_dir=ctx.staging_dir,
        clock=ctx.clock,
        engine=ingest_engine(ctx, handle),
        query_engine=transform_engine(ctx, handle),
        report=lambda message: ctx.progress(str(handle.alias), message),
        permitted=partial(permitted, handle, variables=ctx.settings.variables),
        commands=CommandRunner(
            ctx.workspace.root, ctx.run_dir / "commands", runtime=ctx.runtime_choice
        ),
        proxies=ctx.settings.environment,
        containers=ContainerRunner(ctx.runtime_choice),
        ethereum_nodes=ctx.workspace.config.ethereum_nodes or {},
        expect_work=partial(_start_early, ctx, handle),
        merge_dir=ctx.workspace.cache_dir / "merge" / handle.id.multibase,
        reader=slice_reader(ctx, handle),
    )


def _start_early(ctx: Context, handle: DatasetHandle) -> None:
    """Start the engine while the data is still on its way."""
    ctx.engines.start_early(SPARK, dataset=str(handle.alias), trusted=is_own(ctx, handle))

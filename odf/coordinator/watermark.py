"""`odf pull NAME --set-watermark TIME`: say that a root dataset is complete up to a time."""

from odf.coordinator.context import Context
from odf.errors import ConflictError, UsageError
from odf.metadata.model import DatasetKind, Timestamp
from odf.repo.update import DatasetUpdate, UpdateTally, next_time
from odf.workspace.workspace import DatasetHandle


def check_writable(handle: DatasetHandle, consequence: str) -> None:
    """Refuse to write to datasets whose blocks are made elsewhere or by a query.

    Args:
        handle: The dataset.
        consequence: What is not possible, for the message.

    Raises:
        ConflictError: It is pulled from elsewhere.
        UsageError: It is a derivative.
    """
    if origin := handle.pull_aliases:
        raise ConflictError(
            f"dataset {handle.alias} is pulled from {origin[0]}: {consequence} here, because "
            "blocks of our own would part its history from the one there",
            hint="do it there, or add a dataset of your own under another name",
        )
    if handle.dataset.state().kind is DatasetKind.DERIVATIVE:
        raise UsageError(
            f"dataset {handle.alias} is derived from others by its query: {consequence}",
            hint=f"work on its inputs, then: odf pull {handle.alias}",
        )


def set_watermark(ctx: Context, handle: DatasetHandle, watermark: Timestamp) -> DatasetUpdate:
    """Write a block that has nothing new but the watermark (chain-rules.md §6).

    The caller holds the dataset's lock. The newest source state is carried along, so that the
    next pull goes on where the last one stopped.

    Args:
        ctx: Gives the time.
        handle: A root dataset of this workspace.
        watermark: The time up to which its data is complete.

    Returns:
        What changed: nothing if the watermark is there already, or is later.
    """
    # Arrow and all of an ingest hang on it; listing does not need them.
    from odf.ingest.rounds import carried  # noqa: PLC0415

    dataset = handle.dataset
    tally = UpdateTally(dataset)
    state = dataset.state()
    if state.watermark is not None and watermark <= state.watermark:
        return tally.update(f"its watermark is {state.watermark} already")
    system_time = next_time(state, ctx.clock)
    if watermark > system_time:
        tally.warn(f"the watermark {watermark} is in the future, and can never be taken back")
    event = carried(state, watermark=watermark, source_state=state.last_source_state)
    result = dataset.commit([event], expected_head=state.head, system_time=system_time)
    tally.committed(result, None)
    return tally.update()

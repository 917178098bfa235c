"""How a replayed step differs from the recorded one, in words."""

from collections.abc import Iterator

from odf.metadata.model import Checkpoint, DataSlice, ExecuteTransform, Timestamp
from odf.repo.accept import AcceptedSlice
from odf.transform.plan import Step


def differences_of(
    event: ExecuteTransform,
    step: Step,
    accepted: AcceptedSlice | None,
    watermark: Timestamp | None,
) -> Iterator[str]:
    """Compare what was recorded with what came out, in words.

    Args:
        event: What was recorded.
        step: The step.
        accepted: The rows that came out.
        watermark: The watermark after them.
    """
    recorded, replayed = event.new_data, accepted.data if accepted else None
    if recorded is None or replayed is None:
        if recorded is not replayed:
            yield f"rows: recorded {_rows(recorded)}, replayed {_rows(replayed)}"
    else:
        if recorded.logical_hash != replayed.logical_hash:
            yield (
                f"logical hash of the rows: recorded {recorded.logical_hash}, "
                f"replayed {replayed.logical_hash}"
            )
        if recorded.offset_interval != replayed.offset_interval:
            yield f"offsets: recorded {_rows(recorded)}, replayed {_rows(replayed)}"
    if event.new_watermark != watermark:
        yield f"watermark: recorded {event.new_watermark}, replayed {watermark}"
    if event.prev_offset != step.prev_offset:
        yield f"previous offset: recorded {event.prev_offset}, in the chain {step.prev_offset}"


def state_differences(
    event: ExecuteTransform, step: Step, left: Checkpoint | None, *, exact: bool
) -> Iterator[str]:
    """Compare the state that was recorded with the one that came out, in words.

    Args:
        event: What was recorded.
        step: The step.
        left: The state that came out.
        exact: Whether it has to be the same byte for byte.
    """
    before = step.prev_checkpoint.physical_hash if step.prev_checkpoint else None
    if event.prev_checkpoint != before:
        yield f"previous checkpoint: recorded {event.prev_checkpoint}, in the chain {before}"
    recorded = event.new_checkpoint
    if (recorded is None) != (left is None) or (exact and recorded != left):
        yield f"checkpoint: recorded {_state(recorded)}, replayed {_state(left)}"


def _state(checkpoint: Checkpoint | None) -> str:
    return "none" if checkpoint is None else str(checkpoint.physical_hash)


def _rows(data: DataSlice | None) -> str:
    if data is None:
        return "none"
    interval = data.offset_interval
    return f"{interval.end - interval.start + 1} at offsets {interval.start} to {interval.end}"

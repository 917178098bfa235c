"""Which rows come late, and up to which event time all rows are there (spark-stateful.md §3).

A row is late by the watermark of its own input that was in force before its block. Rows and
watermarks carry the system time of their blocks, so how blocks are grouped into runs, and what
other inputs do, does not matter.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.host.engine import InputWatermark

_NEVER = -(1 << 62)
"""An event time before all that a slice can hold."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known about the watermark of an input: all that later blocks can need.

    Attributes:
        highest: The highest watermark in milliseconds, or None if there was none.
        reached_at: System time of the first block that set it.
        before: The highest watermark of blocks before that time, or None.
    """

    highest: int | None = None
    reached_at: int | None = None
    before: int | None = None

    def with_new(self, new: Iterable[InputWatermark]) -> "Steps":
        """Return the course of the watermark over the blocks of a run.

        Args:
            new: Watermarks of the run. Those that are known already do no harm.
        """
        known = [] if self.before is None else [(_NEVER, self.before)]
        if self.highest is not None and self.reached_at is not None:
            known.append((self.reached_at, self.highest))
        known += [(mark.system_time_ms, mark.event_time_ms) for mark in new]
        rising: list[tuple[int, int]] = []
        for at, height in sorted(known):
            if not rising or height > rising[-1][1]:
                rising.append((at, height))
        return Steps(tuple(rising))

    def to_json(self) -> dict[str, int | None]:
        """Return it as it stands in a checkpoint."""
        return {"highest": self.highest, "reached_at": self.reached_at, "before": self.before}

    @classmethod
    def from_json(cls, found: object) -> Self:
        """Read it from a checkpoint.

        Raises:
            ValueError: It is something else.
        """
        names = ("highest", "reached_at", "before")
        if not isinstance(found, dict) or set(found) != set(names):
            raise ValueError(f"wanted an object with {', '.join(names)}")
        values = [found[name] for name in names]
        if any(value is not None and type(value) is not int for value in values):
            raise ValueError(f"wanted whole numbers, got {values}")
        return cls(*values)


@dataclass(frozen=True, slots=True)
class Steps:
    """How a watermark rose: by system time, each step higher than the one before.

    Attributes:
        rising: Pairs of the system time from which it holds and the watermark.
    """

    rising: tuple[tuple[int, int], ...]

    @property
    def highest(self) -> int | None:
        """The watermark at the end."""
        return self.rising[-1][1] if self.rising else None

    def marks(self) -> Marks:
        """Return what is to be remembered."""
        if not self.rising:
            return Marks()
        at, height = self.rising[-1]
        # A later block may have the system time of the last one: what was in force before it
        # counts for its rows.
        earlier = [lower for since, lower in self.rising[:-1] if since < at]
        return Marks(height, at, earlier[-1] if earlier else None)

    def is_late(self, system_times: pa.Array, event_times: pa.Array) -> pa.Array:
        """Tell for each row whether it is late.

        Args:
            system_times: System times of the rows' blocks.
            event_times: Timestamps or dates. Where one is missing the answer is null.
        """
        at, event = as_milliseconds(system_times), as_milliseconds(event_times)
        late = pa.repeat(pa.scalar(value=False), len(event))
        for since, height in self.rising:
            in_force = pc.greater(at, since)
            late = pc.or_(late, pc.and_(in_force, pc.less_equal(event, height)))
        return late


def as_milliseconds(times: pa.Array) -> pa.Array:
    """Return timestamps or dates as milliseconds since 1970, cut towards the past."""
    if pa.types.is_date(times.type):
        return pc.multiply(times.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), 86_400_000)
    unit = times.type.unit
    if unit == "ms":
        return times.cast(pa.int64())
    if unit == "s":
        return pc.multiply(times.cast(pa.int64()), 1000)
    return (
        pc.floor_temporal(times, unit="millisecond")
        .cast(pa.timestamp("ms", times.type.tz))
        .cast(pa.int64())
    )


def common_watermark(steps: Sequence[Steps]) -> int | None:
    """Return the event time up to which all inputs are there; None if one has no watermark."""
    reached = [given.highest for given in steps]
    known = [height for height in reached if height is not None]
    return min(known) if known and len(known) == len(reached) else None

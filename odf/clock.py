"""Where the time comes from, so that tests can say what time it is."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Something that knows the current time."""

    def now(self) -> datetime:
        """Return the current time, timezone aware, in UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the machine's current time in UTC."""
        return datetime.now(UTC)


class FixedClock:
    """A clock that stands still until it is moved.

    Args:
        at: The time it shows, timezone aware.
    """

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        """Return the time the clock was set to."""
        return self.at

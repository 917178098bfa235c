"""How long rows are kept, in words."""

from collections.abc import Sequence
from typing import Final

_UNITS: Final = (
    ("day", 86_400_000),
    ("hour", 3_600_000),
    ("minute", 60_000),
    ("second", 1000),
    ("millisecond", 1),
)


def duration(milliseconds: int) -> str:
    """Return a length of time in words, for example `1 day 12 hours`.

    Args:
        milliseconds: The length; not negative.
    """
    rest, parts = milliseconds, []
    for name, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {name}{'s' if count > 1 else ''}")
    return " ".join(parts) or "no time"


def kept_rows(kept_ms: Sequence[int | None]) -> str:
    """Say how long the rows of inputs are kept.

    Args:
        kept_ms: The length for each input, None if it is not read.
    """
    longest = max((length for length in kept_ms if length is not None), default=0)
    if longest == 0:
        return "keeps the rows after the watermark"
    return f"keeps {duration(longest)} of rows"

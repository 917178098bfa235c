"""Lengths of time as people write them, in the configuration and on the command line alike."""

import re
from typing import Final

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)?")
_SECONDS: Final = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
    "w": 604_800.0,
}


def parse_duration(text: str) -> float | None:
    """Read a length of time: `0`, `30`, `30s`, `10m`, `1.5h`, `250ms`, `2d`, `1w`.

    Returns:
        Seconds, or None when the text is none.
    """
    match = _DURATION.fullmatch(text)
    return float(match[1]) * _SECONDS[match[2] or "s"] if match else None

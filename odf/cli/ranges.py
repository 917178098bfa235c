"""Numbers from one to another, as options take them: `42` or `40..49`."""

import re
from typing import Final

from odf.errors import UsageError

_RANGE: Final = re.compile(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?")


def number_range(text: str, option: str) -> tuple[int, int]:
    """Read a range; both ends belong to it.

    Args:
        text: What was written.
        option: The option, for the message.

    Raises:
        UsageError: It is no range, or ends before it begins.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise UsageError(f"{option} is {text!r}; wanted a number such as 42, or 40..49")
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    if last < first:
        raise UsageError(f"{option} is {text!r}: it ends before it begins")
    return first, last

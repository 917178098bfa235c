"""How values look to a person: harmless on a terminal, and short."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # a help text needs no metadata
    from odf.metadata.model import Timestamp

_DANGEROUS: Final = re.compile(
    # C0 and C1 controls and DEL drive terminals; the bidi controls make text lie about its
    # order; line and paragraph separators break lines; lone surrogates cannot be written.
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_LAST_BYTE: Final = 0xFF
_KIBI: Final = 1024
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")
# Where rounding would bring one digit more.
_ONE_DIGIT: Final = 9.95
_TWO_DIGITS: Final = 99.5
_THREE_DIGITS: Final = 999.5
_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def clean(text: str) -> str:
    r"""Make text from anywhere safe to print: one line, nothing that a terminal would obey.

    Args:
        text: Anything, for example a cell of a stranger's data or a server's error message.

    Returns:
        The text with every control character as a visible escape (`\\x1b`, `\\n`, `\\u202e`).
    """
    return _DANGEROUS.sub(_visible, text)


def one_line(text: str) -> str:
    """Fold line breaks to blanks, then clean: for messages, which promise to be one line."""
    return clean(" ".join(part.strip() for part in text.splitlines() if part.strip()))


def json_safe(document: str) -> str:
    """Escape what JSON allows in strings but a terminal obeys (DEL, C1, bidi, surrogates).

    Args:
        document: A finished JSON document. Outside strings it holds none of these characters
            but line feeds, which are left alone.
    """
    return _DANGEROUS.sub(lambda m: m[0] if m[0] == "\n" else f"\\u{ord(m[0]):04x}", document)


def count(number: int) -> str:
    """Write a count with thousands separators."""
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Write a count with its noun: `1 block`, `2 blocks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def begins_with(message: str, name: str) -> bool:
    """Tell whether a message already says what it is about: `prices: …` or `prices is …`."""
    return message.startswith((f"{name}:", f"{name} "))


def enumeration(names: Sequence[str], most: int = 8) -> str:
    """Write names with commas, the first ones only where there are many: `a, b and 5 more`."""
    said = ", ".join(names[:most])
    return said if len(names) <= most else f"{said} and {len(names) - most:,} more"


def size(number: int) -> str:
    """Write a number of bytes with three digits or so: `512 B`, `1.2 KiB`."""
    if number < _KIBI:
        return f"{number} B"
    value = float(number)
    for unit in _UNITS:
        value /= _KIBI
        if value < _THREE_DIGITS or unit == _UNITS[-1]:
            break
    return f"{value:.1f} {unit}" if value < _TWO_DIGITS else f"{value:.0f} {unit}"


def seconds(time: "Timestamp | None") -> str:
    """Write a time to the second, in UTC: `2024-05-01 12:30:05`; a dash when there is none."""
    if time is None:
        return "-"
    return str(time)[:19].replace("T", " ")


def duration(value: float) -> str:
    """Write a duration: `0.4 s`, `12 s`, `3 min 5 s`."""
    if value < _TWO_DIGITS:
        return f"{value:.1f} s" if value < _ONE_DIGIT else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def _visible(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    code = ord(character)
    return f"\\x{code:02x}" if code <= _LAST_BYTE else f"\\u{code:04x}"

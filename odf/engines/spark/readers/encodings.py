"""The option `encoding` of read steps: copies of files in UTF-8.

A copy is made piece by piece, so that its size does not count. A byte that means nothing in the
encoding of a file is kept in the copy behind a byte that is in no UTF-8 text at all, so that the
readers, which know where records are, find it there.
"""

import codecs
import re
from pathlib import Path
from typing import Final

from odf.data.read_options import UTF8
from odf.engines.host.engine import SourceFile
from odf.errors import BadInputError

_PIECE: Final = 1 << 20

_NEVER_UTF8: Final = "\udcff"
"""The byte 0xFF, as `surrogateescape` writes it."""

_BAD_BYTE: Final = re.compile("[\udc80-\udcff]")

_MARKED: Final = re.compile(f"{_NEVER_UTF8}([\udc80-\udcff])")

_MARK_BAD_BYTES: Final = "odf-mark"
_FIRST_HIGH: Final = 0x80

_UNITS: Final = ("utf-16", "utf-32", "utf-7")
"""Encodings in which nothing is known about what comes after a bad byte."""


def as_utf8(file: SourceFile, encoding: str, copy: Path, kind: str) -> str:
    """Return where a file is in UTF-8, which is a copy if it was in anything else.

    Args:
        file: The file.
        encoding: As `encoding_name` gives it.
        copy: Where a copy may be made.
        kind: The read step, for messages.

    Raises:
        BadInputError: The file is not in that encoding.
    """
    if encoding == UTF8:
        return file.path
    errors = "strict" if encoding.startswith(_UNITS) else _MARK_BAD_BYTES
    try:
        with (
            Path(file.path).open(encoding=encoding, errors=errors, newline="") as read,
            copy.open("w", encoding="utf-8", errors="surrogateescape", newline="") as written,
        ):
            while piece := read.read(_PIECE):
                written.write(piece)
    except UnicodeError as error:
        raise BadInputError(
            f"{file.name} is not {encoding}: {_reason(error)}",
            reason=kind.lower(),
            hint="check `encoding`; a file without a byte order mark is utf-16-le or utf-16-be, "
            "not utf-16"
            if encoding.startswith(_UNITS)
            else "check `encoding`",
        ) from None
    return str(copy)


def is_unicode(text: str) -> bool:
    """Tell whether a text read with `surrogateescape` has no bytes that are no characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown_bytes(text: str, encoding: str) -> str:
    """Return a text read with `surrogateescape` with its bad bytes as escapes.

    Args:
        text: The text.
        encoding: Of the file; a copy of one that was not in UTF-8 has marks.
    """
    if encoding != UTF8:
        text = _MARKED.sub(lambda found: found[1], text)
    # Each by itself: where something was taken out between them, two may make a character.
    return _BAD_BYTE.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def _reason(error: UnicodeError) -> str:
    return error.reason if isinstance(error, UnicodeDecodeError) else str(error)


def _mark(error: UnicodeError) -> tuple[str, int]:
    """Keep the first byte that means nothing, and go on behind it."""
    if not isinstance(error, UnicodeDecodeError) or error.object[error.start] < _FIRST_HIGH:
        raise error
    bad = bytes([error.object[error.start]])
    return _NEVER_UTF8 + bad.decode("ascii", "surrogateescape"), error.start + 1


codecs.register_error(_MARK_BAD_BYTES, _mark)

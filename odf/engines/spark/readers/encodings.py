"""The option `encoding` of read steps: names of character sets, and copies in UTF-8.

A copy is made piece by piece, so that its size does not count.
"""

import codecs
from pathlib import Path
from typing import Final

from odf.engines.host.engine import SourceFile
from odf.errors import BadInputError

UTF8: Final = codecs.lookup("utf-8").name
"""What readers work on."""

_PIECE: Final = 1 << 20


def encoding_name(given: str | None, kind: str) -> str:
    """Return the name of an encoding as Python knows it.

    Args:
        given: As in the manifest; nothing is UTF-8.
        kind: The read step, for messages: `CSV` or `JSON`.

    Raises:
        BadInputError: There is no such encoding of texts.
    """
    if not given:
        return UTF8
    try:
        found = codecs.lookup(given)
        # Some codecs of Python turn bytes into bytes; this one call refuses them.
        "".encode(given)
    except LookupError:
        raise BadInputError(
            f"{kind} encoding {given!r} is not known",
            reason=kind.lower(),
            hint="for example utf-8, utf-16, latin-1, cp1252, gb18030",
        ) from None
    return found.name


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
    try:
        with (
            Path(file.path).open(encoding=encoding, newline="") as read,
            copy.open("w", encoding="utf-8", newline="") as written,
        ):
            while piece := read.read(_PIECE):
                written.write(piece)
    except UnicodeError as error:
        raise BadInputError(
            f"{file.name} is not {encoding}: {error}",
            reason=kind.lower(),
            hint="check `encoding`",
        ) from None
    return str(copy)

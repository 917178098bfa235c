"""Data that comes through a pipe, kept in a file: it can be read more than once there."""

import secrets
from pathlib import Path
from typing import BinaryIO

from odf.errors import BadInputError, TransportError
from odf.limits import MAX_SPOOLED_SIZE

_CHUNK = 1024 * 1024


def spool(stream: BinaryIO, name: str, folder: Path, *, max_size: int = MAX_SPOOLED_SIZE) -> Path:
    """Copy a stream to its end into a new file, in constant memory.

    Args:
        stream: What to read.
        name: What messages call it.
        folder: Where the file goes; made if it is missing.
        max_size: Bytes that it may have.

    Returns:
        The file, which the caller deletes.

    Raises:
        BadInputError: There are more bytes than allowed.
        TransportError: The stream cannot be read, or the file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"spool-{secrets.token_hex(8)}"
    try:
        _copy(stream, name, path, max_size)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def _copy(stream: BinaryIO, name: str, path: Path, max_size: int) -> None:
    size = 0
    try:
        with path.open("xb") as file:
            while piece := stream.read(_CHUNK):
                size += len(piece)
                if size > max_size:
                    raise BadInputError(
                        f"{name}: there are more than {max_size} bytes; nothing was ingested",
                        reason="too_large",
                        hint="push it in several files",
                    )
                file.write(piece)
    except OSError as error:
        raise TransportError(
            f"{name}: cannot be copied to {path}: {error.strerror}",
            hint="is there room on the disk?",
        ) from None

"""Files that sources without a body of their own are written to."""

import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from odf.errors import TransportError

_SUFFIX = ".data"


def new_spool(folder: Path, kind: str) -> tuple[Path, BinaryIO]:
    """Make an empty file for what a source of this kind gives.

    Raises:
        TransportError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=f"{kind}-", suffix=_SUFFIX)
    except OSError as error:
        raise TransportError(
            f"cannot write into {folder}: {error.strerror}", hint="is there room on the disk?"
        ) from None
    return Path(name), os.fdopen(handle, "wb")


def remove_spools(folder: Path, kind: str) -> None:
    """Delete what pulls that were killed left; their dataset must be locked."""
    for path in folder.glob(f"{kind}-*{_SUFFIX}"):
        path.unlink(missing_ok=True)

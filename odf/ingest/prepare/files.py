"""The file that a chain of prepare steps begins with."""

from pathlib import Path

from odf.errors import TransportError
from odf.limits import PREPARE_CHUNK


class FileStream:
    """Reads a file.

    Args:
        path: The file.
        name: What messages call it.

    Raises:
        TransportError: It cannot be opened.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        try:
            self._size = path.stat().st_size
            self.file = path.open("rb")
        except OSError as error:
            raise self._unreadable(error) from None

    def read(self) -> bytes:
        """Return the next piece; see `Stream`."""
        try:
            return self.file.read(PREPARE_CHUNK)
        except OSError as error:
            raise self._unreadable(error) from None

    def weight(self) -> int:
        """Return the size of the file."""
        return self._size

    def cancel(self) -> None:
        """Do nothing: reading a file never waits for long."""

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _unreadable(self, error: OSError) -> TransportError:
        return TransportError(
            f"{self._name}: cannot be read: {error.strerror}",
            hint="check the permissions of the file",
        )

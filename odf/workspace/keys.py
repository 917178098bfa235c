"""The private keys of one's own datasets.

A dataset belongs to whoever holds its key; a dataset whose key is here is one's own. Keys are not
caches: they can never be made again, so none is removed with its dataset.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from odf.errors import ConflictError
from odf.metadata.identity import DatasetID, IdentityError
from odf.store.files import make_folder, os_errors, write_file

_KEY_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


@dataclass(frozen=True, slots=True)
class DraftKey:
    """A key pair that is not on disk yet.

    Attributes:
        id: The identity that its public half gives.
        private_pem: Its private half, as PEM; never shown.
    """

    id: DatasetID
    private_pem: bytes = field(repr=False)


class KeyStore:
    """Private keys as PEM files (PKCS #8) in `odf/keys` below the user's data folder.

    Args:
        data_home: The user's data folder, for example `~/.local/share`.
    """

    def __init__(self, data_home: Path) -> None:
        self._folder = data_home / "odf" / "keys"

    @property
    def folder(self) -> Path:
        """Where the keys are."""
        return self._folder

    def draft(self) -> "DraftKey":
        """Make a new ed25519 key pair that exists in memory only, until it is kept."""
        from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415 - heavy
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - heavy

        private = ed25519.Ed25519PrivateKey.generate()
        content = private.private_bytes(
            forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
        )
        return DraftKey(DatasetID(private.public_key().public_bytes_raw()), content)

    def keep(self, key: "DraftKey") -> None:
        """Write a key pair down.

        It has to be on disk before the dataset is: a dataset without its key could never be
        extended by its owner again, a key without a dataset does no harm.

        Raises:
            ConflictError: The same key exists already, which only a broken machine can make.
        """
        self._write(key.id, key.private_pem)

    def generate(self) -> DatasetID:
        """Make and keep a new key pair, and return the identity that it gives; see `keep`."""
        key = self.draft()
        self.keep(key)
        return key.id

    def has(self, identity: DatasetID) -> bool:
        """Tell whether the dataset is one's own."""
        return self._path(identity).is_file()

    def list(self) -> tuple[DatasetID, ...]:
        """Return the identities of all keys, sorted."""
        return tuple(sorted(self._found()))

    def _found(self) -> Iterator[DatasetID]:
        if not self._folder.is_dir():
            return
        for path in self._folder.iterdir():
            try:
                yield DatasetID.parse(f"did:odf:{path.name}")
            except IdentityError:
                continue  # not a key: an editor's backup, a file being written

    def _path(self, identity: DatasetID) -> Path:
        return self._folder / identity.multibase

    def _write(self, identity: DatasetID, content: bytes) -> None:
        path = self._path(identity)
        with os_errors("write", path):
            make_folder(self._folder.parent, _FOLDER_MODE)
            make_folder(self._folder, _FOLDER_MODE)
            # The folder may have been made by hand, with the permissions of other folders.
            self._folder.chmod(_FOLDER_MODE)
            if path.exists():
                raise ConflictError(f"the private key of {identity} exists already")
            write_file(path, content, mode=_KEY_MODE)

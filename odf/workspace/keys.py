"""The private keys of one's own datasets.

A dataset belongs to whoever holds its key; a dataset whose key is here is one's own. Keys are not
caches: they can never be made again, so none is removed with its dataset.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from odf.errors import AuthError, BadInputError, ConflictError, IntegrityError, NotFoundError
from odf.limits import MAX_KEY_FILE_SIZE
from odf.metadata.identity import DatasetID, IdentityError
from odf.store.files import make_folder, os_errors, write_file

if TYPE_CHECKING:  # heavy, and needed by few commands
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_KEY_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_ENCRYPTED: Final = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_DID_LINE: Final = re.compile(rb"^Dataset: (did:odf:\S+)\s*$", re.MULTILINE)


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
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - heavy

        return _draft(ed25519.Ed25519PrivateKey.generate())

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

    def export(self, identity: DatasetID, passphrase: str) -> bytes:
        """Return a key to be kept elsewhere: encrypted PKCS #8 in PEM, below a line with its DID.

        Args:
            identity: The dataset's.
            passphrase: Encrypts the key.

        Raises:
            NotFoundError: The key is not here.
            IntegrityError: What is here under its name is no key, or another one.
            BadInputError: The passphrase is empty.
        """
        from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415 - heavy

        if not passphrase:
            raise BadInputError("the passphrase is empty", reason="passphrase")
        private = self._read(identity)
        content = private.private_bytes(
            forms.Encoding.PEM,
            forms.PrivateFormat.PKCS8,
            forms.BestAvailableEncryption(passphrase.encode()),
        )
        return f"Dataset: {identity}\n".encode() + content

    def check(self, identity: DatasetID) -> None:
        """Make sure that a key is here and is the dataset's.

        Raises:
            NotFoundError: It is not here.
            IntegrityError: What is here under its name is no key, or another one.
        """
        self._read(identity)

    def take(self, key: "DraftKey") -> bool:
        """Keep a key that was made elsewhere.

        Returns:
            False if the same key is here already.

        Raises:
            ConflictError: Something else is here under its name; it is left as it is.
        """
        if self.has(key.id):
            try:
                self._read(key.id)
            except IntegrityError as error:
                raise ConflictError(
                    f"{error.message}; it is not overwritten",
                    hint=f"look at {self._path(key.id)}, and move it away",
                ) from error
            return False
        self.keep(key)
        return True

    def _read(self, identity: DatasetID) -> "Ed25519PrivateKey":
        """Read a key of the store, and see that it is the dataset's."""
        path = self._path(identity)
        if not path.is_file():
            raise NotFoundError(
                f"the private key of {identity} is not here",
                hint="odf key list shows the keys; odf key import brings one from elsewhere",
            )
        with os_errors("read", path), path.open("rb") as file:
            content = file.read(MAX_KEY_FILE_SIZE + 1)
        try:
            private = _load(content, None)
        except BadInputError as error:
            raise IntegrityError(f"{path}: {error.message}") from error
        got = DatasetID(private.public_key().public_bytes_raw())
        if got != identity:
            raise IntegrityError(f"{path}: this is the key of {got}, wanted that of {identity}")
        return private

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


def is_encrypted(content: bytes) -> bool:
    """Tell whether a key file needs a passphrase."""
    return _ENCRYPTED in content


def read_key(content: bytes, passphrase: str | None) -> DraftKey:
    """Read a key file: PKCS #8 in PEM, as `KeyStore.export` and other tools write it.

    Args:
        content: The file.
        passphrase: Needed where `is_encrypted`, ignored elsewhere.

    Raises:
        BadInputError: It is no ed25519 private key, or not that of the dataset it says.
        AuthError: The passphrase is wrong.
    """
    private = _load(content, passphrase if is_encrypted(content) else None)
    key = _draft(private)
    said = _DID_LINE.search(content)
    if said is not None:
        try:
            named = DatasetID.parse(said[1].decode())
        except (IdentityError, UnicodeDecodeError):
            named = None
        if named != key.id:
            raise BadInputError(
                f"the file says that its key is that of {said[1].decode(errors='replace')}; it is "
                f"the key of {key.id}",
                reason="key",
            )
    return key


def _load(content: bytes, passphrase: str | None) -> "Ed25519PrivateKey":
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - heavy
    from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415 - heavy
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415 - heavy

    if len(content) > MAX_KEY_FILE_SIZE:
        raise BadInputError(f"larger than a private key ({MAX_KEY_FILE_SIZE} bytes)", reason="key")
    try:
        key = forms.load_pem_private_key(
            content, None if passphrase is None else passphrase.encode()
        )
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if passphrase is not None:
            raise AuthError(
                "the key cannot be read: the passphrase is wrong, or the file is damaged"
            ) from error
        raise BadInputError("not a private key in PEM (PKCS #8)", reason="key") from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise BadInputError("a private key of another kind, wanted ed25519", reason="key")
    return key


def _draft(private: "Ed25519PrivateKey") -> DraftKey:
    from cryptography.hazmat.primitives import serialization as forms  # noqa: PLC0415 - heavy

    content = private.private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    )
    return DraftKey(DatasetID(private.public_key().public_bytes_raw()), content)

"""`odf key`: the private keys of one's own datasets, and copies of them elsewhere."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from odf.coordinator.context import Settings
from odf.errors import BadInputError, ConflictError
from odf.limits import MAX_KEY_FILE_SIZE
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.store.files import os_errors
from odf.workspace.keys import KeyStore, is_encrypted, read_key
from odf.workspace.workspace import Workspace

Passphrase = Callable[[], str]
"""Asks for a passphrase; called only when one is needed."""


@dataclass(frozen=True, slots=True)
class ListedKey:
    """A key that is here, or that should be.

    Attributes:
        id: The dataset's identity.
        alias: The dataset's name in the workspace, if it is there.
        present: Whether the key is in the key store.
    """

    id: DatasetID
    alias: DatasetAlias | None
    present: bool


@dataclass(frozen=True, slots=True)
class ImportedKey:
    """What an import did.

    Attributes:
        id: The identity that the key gives.
        added: False if the same key was here already.
    """

    id: DatasetID
    added: bool


def list_keys(settings: Settings, workspace: Workspace | None) -> list[ListedKey]:
    """Return all keys, and the datasets made in this workspace whose key is missing.

    A dataset that was pulled from elsewhere is somebody else's: its key is not missed.

    Args:
        settings: Where the keys are.
        workspace: The workspace, if there is one here.

    Returns:
        Datasets of the workspace by name, then keys of other datasets by identity.
    """
    store = KeyStore(settings.data_home)
    handles = workspace.datasets() if workspace is not None else []
    here = set(store.list())
    known = [
        ListedKey(handle.id, handle.alias, handle.id in here)
        for handle in handles
        if handle.id in here or not handle.pull_aliases
    ]
    others = here - {key.id for key in known}
    return known + [ListedKey(identity, None, present=True) for identity in sorted(others)]


def export_key(settings: Settings, identity: DatasetID, passphrase: Passphrase) -> bytes:
    """Return a key as encrypted PEM.

    Args:
        settings: Where the keys are.
        identity: The dataset's.
        passphrase: Asks for the passphrase, once it is known that there is something to encrypt.

    Raises:
        NotFoundError: The key is not here.
        IntegrityError: What is here under its name is no key, or another one.
        BadInputError: The passphrase is empty.
    """
    store = KeyStore(settings.data_home)
    store.check(identity)
    return store.export(identity, passphrase())


def write_export(path: Path, content: bytes) -> None:
    """Write an exported key to a new file that only its owner can read.

    Raises:
        ConflictError: The file exists.
        NotFoundError, AuthError, TransportError: It cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os_errors("write", path):
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileExistsError:
            raise ConflictError(
                f"{path} exists already", hint="choose another file, or move this one away"
            ) from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def read_file(path: Path) -> bytes:
    """Read a file with a key.

    Raises:
        NotFoundError, AuthError, TransportError: It cannot be read.
        BadInputError: It is too large.
    """
    with os_errors("read", path), path.open("rb") as file:
        content = file.read(MAX_KEY_FILE_SIZE + 1)
    if len(content) > MAX_KEY_FILE_SIZE:
        raise BadInputError(f"{path}: larger than a private key ({MAX_KEY_FILE_SIZE} bytes)")
    return content


def import_key(
    settings: Settings, content: bytes, passphrase: Passphrase, wanted: DatasetID | None
) -> ImportedKey:
    """Take a key into the key store.

    Args:
        settings: Where the keys are.
        content: A file as `export_key` makes it, or any ed25519 key in PEM.
        passphrase: Asks for the passphrase, if the key is encrypted.
        wanted: The dataset that it has to be the key of; None takes what the file says.

    Raises:
        BadInputError: It is no such key, or the key of another dataset.
        AuthError: The passphrase is wrong.
        ConflictError: Something else is in the store under its name.
    """
    key = read_key(content, passphrase() if is_encrypted(content) else None)
    if wanted is not None and key.id != wanted:
        raise BadInputError(f"the key is that of {key.id}, wanted that of {wanted}", reason="key")
    return ImportedKey(key.id, KeyStore(settings.data_home).take(key))

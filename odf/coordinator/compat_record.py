"""Which releases of engines are known to stand in for the one that a dataset is pinned to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from odf.errors import NotFoundError
from odf.workspace.settings_files import SettingsError, read_manifest
from odf.workspace.workspace import DatasetHandle

ATTACHMENT: Final = ".odf/engine-compat.json"
"""Path of the attachment of one's own datasets."""

KIND: Final = "EngineCompatibility"
"""Kind of the record in the workspace."""

_FIELDS: Final = ("compatible",)


def compatible_releases(handle: DatasetHandle) -> Mapping[str, frozenset[str]]:
    """Return which releases are known to stand in for others, by the one that is pinned."""
    found = dict(_from_attachment(handle))
    for pinned, releases in _from_workspace(handle).items():
        found[pinned] = found.get(pinned, frozenset()) | releases
    return found


def _from_attachment(handle: DatasetHandle) -> Mapping[str, frozenset[str]]:
    attachments = handle.dataset.state().attachments
    for item in attachments.attachments.items if attachments else ():
        if item.path == ATTACHMENT:
            try:
                return _parsed(json.loads(item.content)["compatible"])
            except (ValueError, KeyError, TypeError, RecursionError):
                # Somebody else's text: what cannot be read says nothing.
                return {}
    return {}


def _from_workspace(handle: DatasetHandle) -> Mapping[str, frozenset[str]]:
    path = record_path(handle)
    try:
        return _parsed(read_manifest(path, KIND, _FIELDS).get("compatible"))
    except NotFoundError:
        return {}
    except TypeError as error:
        raise SettingsError(f"{path}: content.compatible: wanted lists of releases") from error


def _parsed(value: object) -> Mapping[str, frozenset[str]]:
    """Read lists of releases by release.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(value, dict):
        raise TypeError
    found = {}
    for pinned, releases in value.items():
        if not isinstance(releases, list):
            raise TypeError
        found[str(pinned)] = frozenset(map(str, releases))
    return found


def record_path(handle: DatasetHandle) -> Path:
    """Return where the workspace keeps what is known about a dataset."""
    return handle.path / "info" / "engine-compat"

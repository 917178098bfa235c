"""Small YAML files of ours: read strictly, written whole."""

import difflib
from collections.abc import Collection, Mapping
from pathlib import Path

from odf.errors import BadInputError, ConflictError, NotFoundError
from odf.limits import MAX_SETTINGS_SIZE
from odf.store.files import make_folder, os_errors, write_file


class SettingsError(BadInputError):
    """A file of settings that cannot be taken as it is."""

    kind = "settings"


def read_yaml(path: Path) -> object:
    """Read a YAML file of plain values.

    Raises:
        NotFoundError: There is no such file.
        SettingsError: It is no YAML, or too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SETTINGS_SIZE + 1)
    except FileNotFoundError:
        raise NotFoundError(f"{path}: there is no such file") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_SETTINGS_SIZE:
        raise SettingsError(f"{path}: larger than {MAX_SETTINGS_SIZE} bytes")
    import yaml  # noqa: PLC0415 - most commands find no file to read

    try:
        return yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first_line = str(error).partition("\n")[0]
        where = getattr(error, "problem_mark", None)
        place = f":{where.line + 1}:{where.column + 1}" if where else ""
        problem = getattr(error, "problem", None) or first_line
        raise SettingsError(f"{path}{place}: not YAML: {problem}") from error


def write_yaml(path: Path, value: object) -> None:
    """Write plain values as a YAML file, durably."""
    import yaml  # noqa: PLC0415 - see read_yaml

    with os_errors("write", path):
        make_folder(path.parent)
        write_file(path, yaml.safe_dump(value, sort_keys=False, allow_unicode=True).encode())


def read_manifest(path: Path, kind: str, fields: Collection[str]) -> dict[str, object]:
    """Read the content of a `kind`, `version`, `content` file of version 1.

    Args:
        path: The file.
        kind: The kind that it must be.
        fields: The fields that its content may have.

    Raises:
        NotFoundError: There is no such file.
        SettingsError: It is something else, with the file and the difference.
    """
    manifest = mapping(read_yaml(path), path, "the file")
    known(manifest, ("kind", "version", "content"), path, "")
    if manifest.get("kind") != kind or manifest.get("version") != 1:
        raise SettingsError(
            f"{path}: wanted kind {kind} version 1, got kind {manifest.get('kind')} "
            f"version {manifest.get('version')}"
        )
    content = mapping(manifest.get("content"), path, "content")
    known(content, fields, path, "content.")
    return content


def write_manifest(path: Path, kind: str, content: Mapping[str, object]) -> None:
    """Write what `read_manifest` reads."""
    write_yaml(path, {"kind": kind, "version": 1, "content": dict(content)})


def mapping(value: object, path: Path, where: str) -> dict[str, object]:
    """Return the value if it is a mapping with text keys."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise SettingsError(f"{path}: {where}: wanted names with values, got {value!r:.60}")
    return value


def known(value: Mapping[str, object], names: Collection[str], path: Path, where: str) -> None:
    """Refuse names that mean nothing here; a typo must not be silence."""
    for name in value:
        if name not in names:
            raise SettingsError(
                f"{path}: {where}{name}: there is no such setting",
                hint=did_you_mean(name, names) or f"there is: {', '.join(sorted(names))}",
            )


def did_you_mean(text: str, names: Collection[str]) -> str | None:
    """Suggest the known names that are nearest to what was typed, for a hint."""
    folded = {name.lower(): name for name in names}
    found = difflib.get_close_matches(text.lower(), folded, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(folded[name] for name in found)}?" if found else None


def remove_file(path: Path, what: str) -> None:
    """Remove a file that must be there."""
    try:
        path.unlink()
    except FileNotFoundError:
        raise NotFoundError(f"{what} does not exist") from None


def refuse_existing(path: Path, what: str) -> None:
    """Refuse to write over a file."""
    if path.exists():
        raise ConflictError(f"{what} exists already")

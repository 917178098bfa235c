"""The settings of a workspace: `config.yaml`, its known keys and their meaning.

Several files are laid over each other, the first one wins (design: flag, environment, workspace,
user, default). What comes from flags and the environment is handed in as plain values.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from odf.errors import NotFoundError
from odf.metadata.identity import DatasetName, IdentityError
from odf.workspace.settings_files import SettingsError, known, mapping, read_yaml

_SIZE: Final = re.compile(r"([0-9]+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SIZE_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_DURATION: Final = re.compile(r"([0-9]+)\s*(s|m|h|d|w)")
_DURATION_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")

ENGINE_KEYS: Final = ("runtime", "memory")
INGEST_KEYS: Final = ("maxRetract", "watermarkLag")


class EngineRuntime(StrEnum):
    """How an engine is run on this machine."""

    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """Settings of the ingest of one dataset.

    Attributes:
        max_retract: Share of the current rows, 0 to 1, that one snapshot may retract; None leaves
            the built-in guard.
        watermark_lag: How much the watermark that is written stays behind.
    """

    max_retract: float | None = None
    watermark_lag: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """All settings.

    Attributes:
        engine_runtime: `engine.runtime`.
        engine_memory: `engine.memory` in bytes; None leaves the choice to the engine.
        ingest: `ingest.<name>`, by the dataset's name.
    """

    engine_runtime: EngineRuntime = EngineRuntime.AUTO
    engine_memory: int | None = None
    ingest: Mapping[DatasetName, IngestSettings] | None = None

    @classmethod
    def load(cls, files: Sequence[Path], overrides: Mapping[str, str] | None = None) -> Self:
        """Read settings.

        Args:
            files: Configuration files, the strongest first; those that do not exist are skipped.
            overrides: Values that win over all files, by dotted key, for example
                `engine.runtime`.

        Raises:
            SettingsError: An unknown key or a value that does not fit, with file and key.
        """
        values: dict[str, _Value] = {}
        flags = [_override(key, value) for key, value in (overrides or {}).items()]
        for value in (*flags, *(value for file in files for value in _read(file))):
            values.setdefault(value.key.lower(), value)
        return cls._from_values(values)

    def ingest_of(self, name: DatasetName) -> IngestSettings:
        """Return the ingest settings of a dataset."""
        return (self.ingest or {}).get(name, IngestSettings())

    @classmethod
    def _from_values(cls, values: Mapping[str, "_Value"]) -> Self:
        runtime, memory = EngineRuntime.AUTO, None
        ingest: dict[DatasetName, IngestSettings] = {}
        for value in values.values():
            section, _, rest = value.key.partition(".")
            if value.key == "engine.runtime":
                runtime = value.runtime()
            elif value.key == "engine.memory":
                memory = value.size()
            elif section == "ingest":
                text, _, setting = rest.rpartition(".")
                name = value.dataset_name(text)
                old = ingest.get(name, IngestSettings())
                ingest[name] = (
                    IngestSettings(value.share(), old.watermark_lag)
                    if setting == "maxRetract"
                    else IngestSettings(old.max_retract, value.duration())
                )
        return cls(runtime, memory, ingest)


@dataclass(frozen=True, slots=True)
class _Value:
    """One setting as it was written.

    Attributes:
        value: Text or number.
        file: Where it was written.
        key: Its dotted key.
    """

    value: object
    file: Path
    key: str

    def runtime(self) -> EngineRuntime:
        try:
            return EngineRuntime(str(self.value).lower())
        except ValueError:
            raise self._wrong(", ".join(EngineRuntime)) from None

    def size(self) -> int:
        if not (match := _SIZE.fullmatch(str(self.value))):
            raise self._wrong("a size, for example 4g or 512m")
        return int(match[1]) * _SIZE_UNITS[match[2].lower()]

    def duration(self) -> timedelta:
        if not (match := _DURATION.fullmatch(str(self.value))):
            raise self._wrong("a length of time, for example 36h or 2d")
        try:
            return timedelta(**{_DURATION_UNITS[match[2]]: int(match[1])})
        except OverflowError:
            raise self._wrong("a length of time in this millennium") from None

    def share(self) -> float:
        text = str(self.value)
        try:
            percent = _PERCENT.fullmatch(text)
            share = float(percent[1]) / 100 if percent else float(text)
        except ValueError:
            share = -1.0
        if isinstance(self.value, bool) or not 0 <= share <= 1:
            raise self._wrong("a share from 0 to 1, or 0% to 100%")
        return share

    def dataset_name(self, text: str) -> DatasetName:
        try:
            return DatasetName(text)
        except IdentityError as error:
            raise SettingsError(f"{self.file}: {self.key}: {error.message}") from error

    def _wrong(self, wanted: str) -> SettingsError:
        return SettingsError(f"{self.file}: {self.key}: wanted {wanted}, got {self.value!r}")


def _override(key: str, value: str) -> _Value:
    """Check a key that came from a flag or the environment."""
    file = Path("command line or environment")
    section, _, rest = key.partition(".")
    keys = {"engine": ENGINE_KEYS, "ingest": INGEST_KEYS}
    known({section: value}, keys, file, "")
    known({rest.rpartition(".")[2]: value}, keys[section], file, f"{section}.")
    return _Value(value, file, key)


def _read(file: Path) -> list[_Value]:
    """Flatten a configuration file into dotted keys, and refuse unknown ones."""
    try:
        content = read_yaml(file)
    except NotFoundError:
        return []
    if content is None:
        return []
    top = mapping(content, file, "the file")
    known(top, ("engine", "ingest"), file, "")
    found: list[_Value] = []
    if "engine" in top:
        found += _section(top["engine"], ENGINE_KEYS, file, "engine")
    if "ingest" in top:
        for name, settings in mapping(top["ingest"], file, "ingest").items():
            found += _section(settings, INGEST_KEYS, file, f"ingest.{name}")
    return found


def _section(value: object, keys: tuple[str, ...], file: Path, where: str) -> list[_Value]:
    settings = mapping(value, file, where)
    known(settings, keys, file, f"{where}.")
    for key, setting in settings.items():
        if not isinstance(setting, str | int | float):
            raise SettingsError(f"{file}: {where}.{key}: wanted one value, got {setting!r:.60}")
    return [_Value(setting, file, f"{where}.{key}") for key, setting in settings.items()]

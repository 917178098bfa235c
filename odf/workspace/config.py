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

from odf.durations import parse_duration
from odf.errors import NotFoundError
from odf.metadata.identity import DatasetName, IdentityError
from odf.workspace.settings_files import SettingsError, known, mapping, read_yaml

_OWN_ENGINES: Final = ("spark", "datafusion")
_ENGINE_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_IMAGE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,499}")
_FOLDER: Final = re.compile(r"/[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_LAST_PORT: Final = 65_535
_SIZE: Final = re.compile(r"([0-9]+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SIZE_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_MASTER: Final = re.compile(r"(?:spark|k8s)://[A-Za-z0-9.:/,\[\]-]+|yarn|local-cluster\[[0-9,]+\]")
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")

ENGINE_KEYS: Final = ("runtime", "memory", "idleTimeout")
IMAGE_KEYS: Final = ("image", "port", "input", "output", "scratch")
SPARK_KEYS: Final = ("master",)
INGEST_KEYS: Final = ("maxRetract", "watermarkLag")
ETHEREUM_KEYS: Final = ("nodeUrl",)


class EngineRuntime(StrEnum):
    """How an engine is run on this machine."""

    AUTO = "auto"
    DOCKER = "docker"
    PODMAN = "podman"
    BUBBLEWRAP = "bubblewrap"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class EngineImage:
    """An engine of others, run from an image.

    Attributes:
        image: Its name: with a tag, or `name@sha256:…`.
        port: The TCP port on which it serves.
        input_folder: Where it is to find the files to read.
        output_folder: Where it is to write.
        scratch: Further folders that it has to write; in memory, gone with the engine.
    """

    image: str
    port: int = 5544
    input_folder: str = "/opt/engine/in"
    output_folder: str = "/opt/engine/out"
    scratch: tuple[str, ...] = ()


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
        engine_idle_timeout: `engine.idleTimeout`; None leaves it to the command.
        ingest: `ingest.<name>`, by the dataset's name.
        spark_master: `spark.master`; None runs Spark's tasks on this machine.
        ethereum_nodes: `ethereum.<chainId>.nodeUrl`, by the number of the chain.
        engine_images: `engine.images.<name>`: engines of others, by the name in manifests.
    """

    engine_runtime: EngineRuntime = EngineRuntime.AUTO
    engine_memory: int | None = None
    engine_idle_timeout: timedelta | None = None
    ingest: Mapping[DatasetName, IngestSettings] | None = None
    engine_images: Mapping[str, EngineImage] | None = None
    ethereum_nodes: Mapping[int, str] | None = None
    spark_master: str | None = None

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
        idle: timedelta | None = None
        master: str | None = None
        ingest: dict[DatasetName, IngestSettings] = {}
        images: dict[str, EngineImage] = {}
        nodes: dict[int, str] = {}
        for value in values.values():
            section, _, rest = value.key.partition(".")
            if value.key == "engine.runtime":
                runtime = value.runtime()
            elif value.key == "engine.memory":
                memory = value.size()
            elif value.key == "engine.idleTimeout":
                idle = value.duration()
            elif value.key == "spark.master":
                master = value.master()
            elif isinstance(value.value, EngineImage):
                images[rest.rpartition(".")[2]] = value.value
            elif section == "ethereum":
                nodes[value.chain(rest.rpartition(".")[0])] = str(value.value)
            elif section == "ingest":
                text, _, setting = rest.rpartition(".")
                name = value.dataset_name(text)
                old = ingest.get(name, IngestSettings())
                ingest[name] = (
                    IngestSettings(value.share(), old.watermark_lag)
                    if setting == "maxRetract"
                    else IngestSettings(old.max_retract, value.duration())
                )
        return cls(runtime, memory, idle, ingest, images, nodes or None, master)


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
        text = str(self.value)
        seconds = parse_duration(text)
        # A number alone may be meant in any unit.
        if seconds is None or (seconds and text[-1].isdigit()):
            raise self._wrong("a length of time, for example 36h or 2d")
        try:
            return timedelta(seconds=seconds)
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

    def master(self) -> str:
        if not _MASTER.fullmatch(text := str(self.value)):
            raise self._wrong("the address of a Spark cluster, for example spark://host:7077")
        return text

    def chain(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20):  # noqa: PLR2004 - 64 bits
            raise SettingsError(
                f"{self.file}: {self.key}: wanted the number of a chain, got {text!r}"
            )
        return int(text)

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
    keys = {"engine": ENGINE_KEYS, "ingest": INGEST_KEYS, "ethereum": ETHEREUM_KEYS}
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
    known(top, ("engine", "spark", "ingest", "ethereum"), file, "")
    found: list[_Value] = []
    if "engine" in top:
        engine = dict(mapping(top["engine"], file, "engine"))
        known(engine, (*ENGINE_KEYS, "images"), file, "engine.")
        found += _images(engine.pop("images", {}), file)
        found += _section(engine, ENGINE_KEYS, file, "engine")
    if "spark" in top:
        found += _section(top["spark"], SPARK_KEYS, file, "spark")
    if "ingest" in top:
        for name, settings in mapping(top["ingest"], file, "ingest").items():
            found += _section(settings, INGEST_KEYS, file, f"ingest.{name}")
    if "ethereum" in top:
        chains = top["ethereum"]
        if isinstance(chains, dict):  # numbers are no names yet
            chains = {str(chain): settings for chain, settings in chains.items()}
        for chain, settings in mapping(chains, file, "ethereum").items():
            found += _section(settings, ETHEREUM_KEYS, file, f"ethereum.{chain}")
    return found


def _images(value: object, file: Path) -> list[_Value]:
    """Read the engines of others; each is one setting: a stronger file replaces it whole."""
    found: list[_Value] = []
    for name, settings in mapping(value, file, "engine.images").items():
        where = f"engine.images.{name}"
        if not _ENGINE_NAME.fullmatch(str(name)):
            raise SettingsError(
                f"{file}: {where}: wanted an engine's name as manifests write it, in lower case"
            )
        if name in _OWN_ENGINES:
            raise SettingsError(
                f"{file}: {where}: {name} comes with odf and is not replaced by an image of others",
                hint="give it another name, and use that in the manifests",
            )
        found.append(_Value(_image(settings, file, where), file, where))
    return found


def _image(value: object, file: Path, where: str) -> EngineImage:
    settings = mapping(value, file, where)
    known(settings, IMAGE_KEYS, file, f"{where}.")
    defaults = EngineImage("")
    port = settings.get("port", defaults.port)
    if type(port) is not int or not 0 < port <= _LAST_PORT:
        raise SettingsError(f"{file}: {where}.port: wanted a port, for example 5544; got {port!r}")
    scratch = settings.get("scratch", [])
    if not isinstance(scratch, list):
        raise SettingsError(f"{file}: {where}.scratch: wanted a list of folders, got {scratch!r}")

    def text(key: str, grammar: re.Pattern[str], written: object, wanted: str) -> str:
        if not isinstance(written, str) or not grammar.fullmatch(written):
            raise SettingsError(f"{file}: {where}.{key}: wanted {wanted}, got {written!r}")
        return written

    folder = "a folder in the image, for example /opt/engine/in"
    return EngineImage(
        text("image", _IMAGE_NAME, settings.get("image"), "an image, for example name:tag"),
        port,
        text("input", _FOLDER, settings.get("input", defaults.input_folder), folder),
        text("output", _FOLDER, settings.get("output", defaults.output_folder), folder),
        tuple(text("scratch", _FOLDER, one, folder) for one in scratch),
    )


def _section(value: object, keys: tuple[str, ...], file: Path, where: str) -> list[_Value]:
    settings = mapping(value, file, where)
    known(settings, keys, file, f"{where}.")
    for key, setting in settings.items():
        if not isinstance(setting, str | int | float):
            raise SettingsError(f"{file}: {where}.{key}: wanted one value, got {setting!r:.60}")
    return [_Value(setting, file, f"{where}.{key}") for key, setting in settings.items()]

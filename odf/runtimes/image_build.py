"""Building the images of our engines.

The folder that an image is built from is made here: the package's own source, and what the engine
needs, installed for the Python and the C library of the base image. So the build itself fetches
nothing, needs no network, and cannot take other versions than those that are installed here.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from odf.errors import EngineUnavailableError
from odf.limits import ENGINE_LOG_TAIL_LINES, IMAGE_BUILD_SECONDS
from odf.runtimes.container_cli import ContainerCli, resource_limits
from odf.runtimes.images import (
    ENGINE_LABEL,
    ImageSpec,
    dockerfile,
    image_name,
    pins,
    source_files,
    source_root,
)
from odf.runtimes.sandbox import SandboxLimits, machine_memory
from odf.runtimes.text import last_lines

DEFAULT_BASE: Final = "python:3.11-slim-bookworm"
"""What images are built on unless told otherwise: Debian with a Python."""

IMAGES_KEPT: Final = 2
"""How many images of an engine stay: the one in use, and the one before."""

_FIRST_PYTHON: Final = (3, 11)
_LAST_GLIBC: Final = 17
_LIST_OF_JARS: Final = Path("engines/spark/jars.txt")
# Spark comes as source only: a wheel of it is made first, which fits everywhere.
_SOURCE_ONLY: Final = "pyspark"
# Not part of what runs: examples, tests, headers.
_LEFT_OUT: Final = (
    "bin",
    "share",
    "pyspark/examples",
    "pyspark/data",
    "pyspark/pandas/tests",
    "pyarrow/tests",
    "pyarrow/include",
    "pyarrow/src",
)
_LOOK: Final = (
    "import json, platform, sys; print(json.dumps("
    "[list(sys.version_info[:2]), platform.machine(), platform.libc_ver()]))"
)


@dataclass(frozen=True, slots=True)
class BasePlatform:
    """What packages have to fit.

    Attributes:
        python: Version of the base image's Python, for example 3.11.
        machine: Name of the processor's kind, for example `x86_64`.
        glibc: Version of its C library.
    """

    python: tuple[int, int]
    machine: str
    glibc: tuple[int, int]

    def pip_options(self) -> list[str]:
        """Write it as pip takes it: every older C library will do as well."""
        major, minor = self.glibc
        options = ["--python-version", ".".join(map(str, self.python))]
        options += ["--platform", f"manylinux2014_{self.machine}"]
        for version in range(minor, _LAST_GLIBC - 1, -1):
            options += ["--platform", f"manylinux_{major}_{version}_{self.machine}"]
        return options


def build_image(
    cli: ContainerCli,
    spec: ImageSpec,
    *,
    base: str = DEFAULT_BASE,
    log: Path,
    report: Callable[[str], None],
) -> str:
    """Build the image of an engine for this installation, and drop old ones.

    Args:
        cli: What builds it.
        spec: What goes into it.
        base: A Linux with Python 3.11 or later and glibc, on this machine or in a registry.
        log: File for what the tools say.
        report: Told what is being done.

    Returns:
        The image's name.

    Raises:
        EngineUnavailableError: The base does not fit, packages cannot be had, or it cannot be
            built; says which, with the log.
    """
    name = image_name(spec)
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    platform = look_at_base(cli, base, log)
    with tempfile.TemporaryDirectory(prefix="odf-image-") as folder:
        context = Path(folder)
        report(f"getting the packages of {spec.release}")
        _get_packages(spec, platform, context, log)
        _copy_source(context)
        shutil.copyfile(dockerfile(), context / "Dockerfile")
        _let_anybody_read(context)
        report(f"building the image {name}")
        _build(cli, spec, name, base, context, log)
    _drop_old_images(cli, spec)
    return name


def look_at_base(cli: ContainerCli, base: str, log: Path) -> BasePlatform:
    """Ask a base image what packages have to fit; fetches it if it is not here.

    Raises:
        EngineUnavailableError: It cannot be had, or does not fit.
    """
    hint = (
        "name a Linux with Python 3.11 or later and glibc: odf engine build --base IMAGE; "
        "docs/engines.md shows how to make one without a registry"
    )
    limits = resource_limits(SandboxLimits(machine_memory()))
    arguments = ["run", "--rm", "--network", "none", *limits, "--entrypoint", "python3", base]
    done = cli.call(*arguments, "-c", _LOOK, seconds=IMAGE_BUILD_SECONDS)
    with log.open("ab") as file:
        file.write(done.stderr)
    if done.returncode != 0:
        raise EngineUnavailableError(
            f"{cli.name} cannot run python3 in the base image {base}: {cli.complaint(done)}",
            hint=hint,
        )
    try:
        python, machine, (library, version) = json.loads(done.stdout)
        glibc = tuple(int(part) for part in version.split(".")[:2]) if library == "glibc" else ()
    except (ValueError, TypeError) as error:
        raise EngineUnavailableError(
            f"the base image {base} gives no sense: {error}", hint=hint
        ) from error
    if tuple(python) < _FIRST_PYTHON or len(glibc) != len(_FIRST_PYTHON):
        raise EngineUnavailableError(
            f"the base image {base} has Python {python[0]}.{python[1]} and the C library "
            f"{library or 'musl'}; wanted Python 3.11 or later and glibc",
            hint=hint,
        )
    return BasePlatform((python[0], python[1]), str(machine), (glibc[0], glibc[1]))


def _get_packages(spec: ImageSpec, platform: BasePlatform, context: Path, log: Path) -> None:
    packages, wheels = context / "packages", context / "wheels"
    wanted = pins(spec)
    common = ["--quiet", "--disable-pip-version-check", "--no-deps"]
    if _SOURCE_ONLY in wanted:
        source = f"{_SOURCE_ONLY}=={wanted[_SOURCE_ONLY]}"
        _pip(["wheel", *common, "--wheel-dir", str(wheels), source], log)
    options = [*common, "--no-compile", "--only-binary", ":all:", "--find-links", str(wheels)]
    options += ["--target", str(packages), *platform.pip_options()]
    _pip(["install", *options, *(f"{name}=={version}" for name, version in wanted.items())], log)
    # Not to be sent to whoever builds.
    shutil.rmtree(wheels, ignore_errors=True)
    for name in _LEFT_OUT:
        shutil.rmtree(packages / name, ignore_errors=True)
    _drop_jars(packages / "pyspark" / "jars")


def _drop_jars(jars: Path) -> None:
    """Leave out the jars that the engine does not load, if the list fits this Spark."""
    lines = (source_root() / _LIST_OF_JARS).read_text(encoding="utf-8").splitlines()
    listed = {line.strip() for line in lines if line.strip() and not line.startswith("#")}
    found = {path.name: path for path in jars.glob("*.jar")}
    if listed <= found.keys():
        for name in found.keys() - listed:
            found[name].unlink()


def _copy_source(context: Path) -> None:
    root = source_root()
    for path in source_files():
        target = context / "odf" / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def _let_anybody_read(folder: Path) -> None:
    """Engines run as any user, whatever the umask was when their files were made."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode
            executable = path.is_dir() or mode & 0o100
            path.chmod(mode | (0o555 if executable else 0o444))


def _build(
    cli: ContainerCli, spec: ImageSpec, name: str, base: str, context: Path, log: Path
) -> None:
    limits = resource_limits(SandboxLimits(machine_memory()))
    argv = [cli.program or cli.name, "build", *limits, "--network", "none", "--tag", name]
    argv += ["--label", f"{ENGINE_LABEL}={spec.release}"]
    argv += ["--build-arg", f"BASE={base}", "--build-arg", f"ENGINE={spec.engine}", str(context)]
    _run(argv, cli.environment(), log, f"{cli.name} could not build the image {name}")


def _pip(arguments: list[str], log: Path) -> None:
    argv = [sys.executable, "-m", "pip", *arguments]
    _run(argv, os.environ, log, "the engine's packages could not be had")


def _run(argv: list[str], environment: Mapping[str, str], log: Path, failure: str) -> None:
    with log.open("ab") as file:
        file.write(f"$ {' '.join(argv)}\n".encode())
        file.flush()
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                timeout=IMAGE_BUILD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EngineUnavailableError(
                f"{failure} within {IMAGE_BUILD_SECONDS:g} s", hint=f"Its log: {log}"
            ) from None
    if done.returncode != 0:
        lines = last_lines(log.read_bytes(), ENGINE_LOG_TAIL_LINES)
        raise EngineUnavailableError(
            f"{failure}: {lines[-1] if lines else 'no word why'}",
            hint=f"Its log: {log}",
            details={"log": str(log), "lines": list(lines)},
        )


def _drop_old_images(cli: ContainerCli, spec: ImageSpec) -> None:
    """Remove images of other sources or versions, but for the newest; those in use stay."""
    listed = cli.call("images", "--format", "{{.Repository}}:{{.Tag}}", spec.repository)
    # The newest comes first.
    names = listed.stdout.decode("utf-8", "replace").split()
    for name in names[IMAGES_KEPT:]:
        cli.call("rmi", name)

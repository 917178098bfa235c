"""A small real image with a shell, made of this machine's own programs."""

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from odf.runtimes.container_cli import ContainerCli, ContainerToolName

NAME = "odf-source-test:1"
_PROGRAMS = ("sh", "cat", "head", "tail", "seq", "id", "ln", "sleep", "env", "mkdir", "chmod", "ls")


def make_image(tool: ContainerToolName) -> str:
    """Return the name of the image; skips where the tool does not work."""
    cli = ContainerCli(tool)
    reason = cli.why_not()
    if reason is not None:
        pytest.skip(f"no containers under {tool} here: {reason}")
    if cli.image(NAME) is None:
        done = subprocess.run(
            [tool, "import", "-", NAME], input=_root(), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    return NAME


def _root() -> bytes:
    """Pack the programs and the libraries that they need."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        seen: set[str] = set()
        for name in _PROGRAMS:
            program = shutil.which(name)
            assert program is not None, name
            _add(tar, seen, Path(program), f"bin/{name}")
            listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
            for library in re.findall(r"(/\S+)", listed.stdout):
                _add(tar, seen, Path(library), library.lstrip("/"))
        temporary = tarfile.TarInfo("tmp")
        temporary.type, temporary.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(temporary)
    return packed.getvalue()


def _add(tar: tarfile.TarFile, seen: set[str], path: Path, name: str) -> None:
    if name not in seen:
        seen.add(name)
        tar.add(path.resolve(), name)

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from odf.ingest.prepare import Bounds, PrepareContext, prepare
from odf.metadata.model import CompressionFormat, PrepStep, PrepStepDecompress, PrepStepPipe
from odf.runtimes.commands import CommandRunner
from odf.runtimes.sandbox import Sandbox

GUNZIP = PrepStepDecompress(format=CompressionFormat.GZIP)
UNZIP = PrepStepDecompress(format=CompressionFormat.ZIP)


def unzip(sub_path: str) -> PrepStepDecompress:
    return PrepStepDecompress(format=CompressionFormat.ZIP, sub_path=sub_path)


def pipe(*command: str) -> PrepStepPipe:
    return PrepStepPipe(command=command)


@dataclass
class Kitchen:
    """Prepares data, and knows what it left behind."""

    root: Path
    runtime: str = "auto"
    bounds: Bounds = field(default_factory=Bounds)
    said: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.root / "cache"

    def runner(self) -> CommandRunner:
        return CommandRunner(self.root, self.root / "scratch", runtime=self.runtime)

    def context(self) -> PrepareContext:
        return PrepareContext(self.folder, self.runner(), self.said.append, self.bounds)

    def file(self, data: bytes) -> Path:
        path = self.root / f"source-{secrets.token_hex(4)}"
        path.write_bytes(data)
        return path

    def cook(self, data: bytes | Path, *steps: PrepStep) -> bytes:
        """Prepare data, and take the result away."""
        source = data if isinstance(data, Path) else self.file(data)
        result = prepare(steps, source, "the-source", self.context())
        content = result.read_bytes()
        result.unlink()
        return content

    @property
    def leftovers(self) -> Sequence[Path]:
        return list(self.folder.iterdir()) if self.folder.exists() else []


@pytest.fixture
def kitchen(tmp_path: Path) -> Kitchen:
    """Commands run in the sandbox where it works."""
    return Kitchen(tmp_path)


@pytest.fixture(params=["process", pytest.param("bubblewrap", marks=pytest.mark.sandbox)])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Kitchen:
    """Commands run as plain processes, then in the sandbox."""
    if request.param == "bubblewrap" and (reason := Sandbox({}).why_not()):
        pytest.skip(f"bubblewrap does not work here: {reason}")
    return Kitchen(tmp_path, runtime=request.param)

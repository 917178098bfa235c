"""A workspace with a real engine behind it, for tests of the whole path."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from odf.clock import FixedClock
from odf.coordinator.add import AddOptions, Existing, ManifestText, add_manifests
from odf.coordinator.context import Context, Progress, Settings
from odf.coordinator.ingest import IngestRequest, ingest
from odf.coordinator.pull import PullRequest, pull
from odf.coordinator.results import (
    AddReport,
    IngestReport,
    PulledDataset,
    PullStatus,
    VerifyReport,
)
from odf.coordinator.verify import verify
from odf.errors import OdfError
from odf.runtimes.pool import EnginePool, PoolSettings
from odf.workspace.workspace import Workspace


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EnginePool]:
    """One real Spark host for all tests of the session, in the sandbox where that works."""
    # Where no sandbox works the tests' own queries are run without one.
    pool = EnginePool(
        PoolSettings(allow_unsandboxed=True), run_dir=tmp_path_factory.mktemp("engines")
    )
    yield pool
    pool.close()


class Person:
    """Somebody with a workspace, a key store and a clock.

    Args:
        root: The workspace's folder.
        home: Where the keys live.
        engines: Engines to use.
    """

    def __init__(self, root: Path, home: Path, engines: EnginePool) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.clock = FixedClock(datetime(2026, 1, 1, 12, tzinfo=UTC))
        self.settings = Settings(data_home=home, cache_home=home / "cache", config_home=home)
        self.workspace = Workspace.init(root)
        self.engines = engines

    def context(self, command: str = "test", progress: Progress | None = None) -> Context:
        """Return the surroundings of one command."""
        return Context(
            self.workspace,
            self.settings,
            command=command,
            clock=self.clock,
            engines=self.engines,
            progress=progress,
        )

    def add(self, *manifests: str, options: AddOptions | None = None) -> AddReport:
        """Add datasets from manifests."""
        texts = [ManifestText(f"manifest-{n}.yaml", text) for n, text in enumerate(manifests, 1)]
        with self.context("add") as ctx:
            return add_manifests(ctx, texts, options=options)

    def update(self, *manifests: str) -> AddReport:
        """Apply what manifests change in datasets that are there."""
        return self.add(*manifests, options=AddOptions(Existing.UPDATE))

    def pull(
        self, *refs: str, progress: Progress | None = None, **options: object
    ) -> PulledDataset:
        """Pull one dataset and return how it went; failures raise."""
        with self.context("pull", progress) as ctx:
            report = pull(ctx, PullRequest(refs=refs, **options))  # type: ignore[arg-type]
        result = report.datasets[-1]
        if result.status is PullStatus.FAILED:
            assert isinstance(result.error, OdfError)
            raise result.error
        return result

    def ingest(
        self, ref: str, *files: str | Path, stdin: bytes = b"", **options: object
    ) -> IngestReport:
        """Push files into a dataset and return how it went; failures raise."""
        names = tuple(str(file) for file in files)
        with self.context("ingest") as ctx:
            request = IngestRequest(ref, names, **options)  # type: ignore[arg-type]
            report = ingest(ctx, request, io.BytesIO(stdin))
        for file in report.files:
            if file.error is not None:
                raise file.error
        return report

    def verify(self, *refs: str, **options: object) -> VerifyReport:
        """Verify datasets."""
        with self.context("verify") as ctx:
            return verify(ctx, refs, **options)  # type: ignore[arg-type]


@pytest.fixture
def person(tmp_path: Path, engines: EnginePool) -> Person:
    """Somebody with an empty workspace."""
    return Person(tmp_path / "workspace", tmp_path / "home", engines)

"""Somebody with a workspace, and no engine: whatever needs one fails the test."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from odf.clock import FixedClock
from odf.coordinator.add import AddOptions, Existing, ManifestText, add_manifests
from odf.coordinator.consent import Grants
from odf.coordinator.context import Context, Settings
from odf.coordinator.results import AddReport
from odf.workspace.workspace import Workspace

Event = dict[str, object]

SOURCE: Event = {
    "kind": "SetPollingSource",
    "fetch": {"kind": "FilesGlob", "path": "a/*.csv"},
    "read": {"kind": "Csv", "header": True, "schema": ["id BIGINT", "city STRING"]},
    "merge": {"kind": "Ledger", "primaryKey": ["id"]},
}
PUSH: Event = {
    "kind": "AddPushSource",
    "sourceName": "sensors",
    "read": {"kind": "NdJson", "schema": ["id BIGINT"]},
    "merge": {"kind": "Append"},
}


def manifest(name: str, *events: Event, kind: str = "Root") -> str:
    """Return a manifest."""
    content = {"name": name, "kind": kind, "metadata": list(events)}
    return json.dumps({"kind": "DatasetSnapshot", "version": 1, "content": content})


def transform(*inputs: str, query: str = "select * from x", **more: object) -> Event:
    """Return a transform of an engine that cannot be asked, so that no engine is started."""
    return {
        "kind": "SetTransform",
        "inputs": [{"datasetRef": one, "alias": f"in_{one}"} for one in inputs],
        "transform": {"kind": "Sql", "engine": "flink", "query": query, **more},
    }


class Maker:
    """Somebody who adds manifests."""

    def __init__(self, root: Path) -> None:
        self.root = root / "workspace"
        self.workspace = Workspace.init(self.root)
        home = root / "home"
        self.settings = Settings(data_home=home, cache_home=home / "cache", config_home=home)
        self.clock = FixedClock(datetime(2026, 1, 1, 12, tzinfo=UTC))

    def context(self) -> Context:
        """Return the surroundings of one command."""
        return Context(self.workspace, self.settings, command="test", clock=self.clock)

    def add(
        self,
        *manifests: str,
        existing: Existing = Existing.FAIL,
        dry_run: bool = False,
        confirm: Callable[..., bool] | None = None,
        grants: Grants | None = None,
    ) -> AddReport:
        """Add manifests."""
        texts = [ManifestText(f"{number}.yaml", text) for number, text in enumerate(manifests, 1)]
        with self.context() as ctx:
            return add_manifests(ctx, texts, grants, AddOptions(existing, dry_run, confirm))

    def update(self, *manifests: str, dry_run: bool = False) -> AddReport:
        """Update from manifests."""
        return self.add(*manifests, existing=Existing.UPDATE, dry_run=dry_run)

    def events(self, name: str) -> list[object]:
        """Return the events of a chain, oldest first."""
        blocks = self.workspace.resolve(name).dataset.blocks()
        return [block.event for _, block in blocks][::-1]

    def names(self) -> list[str]:
        """Return the names of all datasets."""
        return [str(handle.alias) for handle in self.workspace.datasets()]


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    """Somebody with an empty workspace."""
    return Maker(tmp_path)

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from odf.clock import FixedClock
from odf.ingest.fetch import FetchContext
from odf.metadata.model import Timestamp
from tests.ingest.fetch.hostile_server import HostileServer

NOW = datetime(2024, 6, 1, 12, 0, 0, tzinfo=UTC)


@dataclass
class Around:
    """A fetch context with what it was told and how long it was asked to wait."""

    root: Path
    said: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    def ctx(self, **changes: Any) -> FetchContext:
        settings: dict[str, Any] = {
            "workspace_root": self.root,
            "cache_dir": self.root / ".odf/cache/fetch",
            "clock": FixedClock(NOW),
            "system_time": Timestamp.from_datetime(NOW),
            "environment": {},
            "report": self.said.append,
            "is_first": True,
            "sleep": self.slept.append,
        }
        return FetchContext(**(settings | changes))

    @property
    def leftovers(self) -> list[str]:
        cache = self.root / ".odf/cache/fetch"
        return sorted(path.name for path in cache.iterdir()) if cache.is_dir() else []


@pytest.fixture
def around(tmp_path: Path) -> Around:
    return Around(tmp_path)


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with HostileServer() as running:
        yield running


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a file below the workspace root; `at` is its modification time in whole seconds."""
    import os

    def make(name: str, content: str = "x\n", at: float = 1_700_000_000.0) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        os.utime(path, ns=(int(at * 1000) * 1_000_000,) * 2)
        return path

    return make

"""How long engines stay: what was said for this command, for the workspace, or who is there."""

from dataclasses import replace
from pathlib import Path

import pytest

from odf.coordinator.context import Context, Settings
from odf.workspace.workspace import Workspace


@pytest.mark.parametrize(
    ("stays", "configured", "said", "wanted"),
    [
        (False, None, None, 0.0),
        (True, None, None, 600.0),
        (False, "5m", None, 300.0),
        (True, "0s", None, 0.0),
        (True, "5m", 7.0, 7.0),
        (True, "5m", 0.0, 0.0),
    ],
)
def test_how_long_engines_stay(
    stays: bool, configured: str | None, said: float | None, wanted: float, tmp_path: Path
) -> None:
    workspace = Workspace.init(tmp_path / "workspace")
    if configured is not None:
        config = tmp_path / "workspace" / ".odf" / "config.yaml"
        config.write_text(f"engine: {{idleTimeout: {configured}}}\n")
    settings = Settings(data_home=tmp_path, cache_home=tmp_path, config_home=tmp_path)
    settings = replace(settings, stays=stays, idle_timeout=said)
    with Context(workspace, settings, command="test") as ctx:
        assert ctx.idle_seconds == wanted

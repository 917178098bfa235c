import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from odf.cli.main import cli
from odf.metadata.model import Timestamp


@dataclass(frozen=True)
class Ran:
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on standard output; more than one would not parse."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error object on standard error."""
        return json.loads(self.err)["error"]


PRICES = """\
kind: DatasetSnapshot
version: 1
content:
  name: prices
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch:
        kind: FilesGlob
        path: data/*.csv
      read:
        kind: Csv
        header: true
        schema:
          - fruit STRING
      merge:
        kind: Append
"""

Run = Callable[..., Ran]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment that knows nothing of the machine's own workspaces and keys."""
    home = tmp_path / "home"
    home.mkdir()
    cleared = {name: "" for name in os.environ if name.startswith(("ODF_", "XDG_", "CLICOLOR"))}
    return {**cleared, "HOME": str(home), "NO_COLOR": "", "TERM": "xterm"}


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line in this process, in an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def go(
        *arguments: str, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None
    ) -> Ran:
        result = CliRunner().invoke(
            cli, list(arguments), input=stdin, env={**environment, **(env or {})}
        )
        return Ran(result.exit_code, result.stdout, result.stderr)

    return go


@pytest.fixture
def odf(environment: dict[str, str], tmp_path: Path) -> Run:
    """Run a command line in a process of its own, in an empty folder."""
    folder = tmp_path / "there"
    folder.mkdir()

    def go(*arguments: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Ran:
        result = subprocess.run(
            [sys.executable, "-m", "odf", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **environment, **(env or {})},
            cwd=folder,
            check=False,
            timeout=120,
        )
        return Ran(result.returncode, result.stdout, result.stderr)

    return go


@pytest.fixture
def manifest_text() -> str:
    """The manifest of the dataset `prices`."""
    return PRICES


MOMENT = Timestamp.parse("2024-05-01T12:00:00Z")


@pytest.fixture
def prices(run: Run, tmp_path: Path) -> Path:
    """A workspace with one dataset, `prices`, that has two slices of two rows each."""
    root = tmp_path / "workspace"
    assert run("init", "-q", str(root)).code == 0
    manifest = root / "prices.yaml"
    manifest.write_text(PRICES)
    added = run("-C", str(root), "add", "-q", str(manifest), env={"ODF_SYSTEM_TIME": str(MOMENT)})
    assert added == Ran(0, "", "")
    for name in ("apples", ""):
        append(root, "prices", [name, None])
    return root


def append(root: Path, name: str, texts: list[str | None]) -> None:
    """Commit one slice of rows to a dataset, without any engine."""
    import pyarrow as pa

    from odf.data.slices import SliceWriter, slice_schema
    from odf.metadata.model import AddData
    from odf.repo.accept import accept_slice
    from odf.workspace.workspace import Workspace

    dataset = Workspace.find(root).resolve(name).dataset
    state = dataset.state()
    schema = slice_schema(pa.schema([("fruit", pa.string())]), state.vocab)
    path = root / "slice.parquet"
    count = len(texts)
    columns = [
        range(state.next_offset, state.next_offset + count),
        [0] * count,
        [MOMENT.epoch_ms] * count,
        [MOMENT.epoch_ms] * count,
        texts,
    ]
    with SliceWriter(path, schema) as writer:
        writer.write(
            pa.table(
                [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)],
                schema=schema,
            )
        )
    accepted = accept_slice(path, state, MOMENT)
    data = AddData(prev_offset=state.last_offset, new_data=accepted.data, new_watermark=MOMENT)
    events = [accepted.schema_event, data] if accepted.schema_event else [data]
    dataset.commit(events, expected_head=state.head, system_time=MOMENT, objects=[accepted.staged])

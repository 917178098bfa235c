"""What is remembered of runtimes: believed for a day, and never when it makes no sense."""

import json
import time
from pathlib import Path

import pytest

from odf.runtimes.select import REMEMBERED_SECONDS, RuntimeMemory
from tests.runtimes.conftest import container_command


def test_what_was_kept_is_recalled_for_a_day(tmp_path: Path) -> None:
    memory, command = RuntimeMemory(tmp_path), container_command()
    assert memory.recall(command) is None
    memory.keep(command, "docker")
    assert memory.recall(command) == "docker"
    memory.forget()
    assert memory.recall(command) is None


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(lambda: time.time() - REMEMBERED_SECONDS - 1, id="old"),
        pytest.param(lambda: time.time() + 3600, id="from the future"),
        pytest.param(lambda: "yesterday", id="no time"),
        pytest.param(lambda: None, id="null"),
    ],
)
def test_what_makes_no_sense_is_not_believed(then, tmp_path: Path) -> None:
    memory, command = RuntimeMemory(tmp_path), container_command()
    memory.keep(command, "docker")
    path = tmp_path / "runtime.json"
    content = {key: value | {"time": then()} for key, value in json.loads(path.read_text()).items()}
    path.write_text(json.dumps(content))
    assert memory.recall(command) is None
    memory.keep(command, "podman")
    assert memory.recall(command) == "podman"


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"a": 3}', "\udcff"])
def test_a_damaged_note_says_nothing(text: str, tmp_path: Path) -> None:
    memory, command = RuntimeMemory(tmp_path), container_command()
    (tmp_path / "runtime.json").write_text(text, errors="surrogateescape")
    assert memory.recall(command) is None
    memory.keep(command, "docker")
    assert memory.recall(command) == "docker"

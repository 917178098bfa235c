"""The engines of one run: told of, and replaced when they die. With the engine that starts fast."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from odf.coordinator.context import Context
from odf.errors import EngineError
from odf.runtimes.pool import EnginePool, PoolSettings
from tests.e2e.conftest import Person

pytest.importorskip("datafusion", reason="the engine datafusion is not installed")

ENGINE = "datafusion"


def test_an_engine_that_died_is_replaced(tmp_path: Path) -> None:
    pool = EnginePool(PoolSettings(runtime="process"), run_dir=tmp_path / "run")
    try:
        first = pool.client(ENGINE, dataset="a", trusted=True)
        assert pool.client(ENGINE, dataset="b", trusted=True) is first
        (pid,) = pool.pids
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(EngineError):  # the call that meets its end still fails
            first.describe()
        second = pool.client(ENGINE, dataset="b", trusted=True)
        assert second.describe().release.startswith(f"odf-{ENGINE}/")
        assert len(pool.pids) == 1
        assert pool.pids != (pid,)
    finally:
        pool.close()
    assert pool.pids == ()


def test_a_run_tells_which_runtime_it_took(person: Person) -> None:
    said: list[tuple[str, str]] = []
    settings = replace(person.settings, runtime="process")
    with Context(
        person.workspace,
        settings,
        command="test",
        progress=lambda name, text: said.append((name, text)),
    ) as ctx:
        for dataset in "ab":
            ctx.engines.client(ENGINE, dataset=dataset, trusted=True)
    assert said == [("engine", f"engine {ENGINE} in process (chosen by the configuration)")]

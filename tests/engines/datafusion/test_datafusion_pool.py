"""How the DataFusion engine is found, started and told apart."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from odf.data.slices import SliceWriter
from odf.errors import EngineUnavailableError, InvalidQueryError
from odf.metadata.model import SqlQueryStep, TransformSql
from odf.protocol.calls import TransformCall
from odf.protocol.releases import COMPATIBLE, RELEASES
from odf.runtimes import pool as pool_module
from odf.runtimes.pool import ENGINES, EnginePool, PoolSettings
from tests.engines.datafusion.test_datafusion_engine import slice_of
from tests.runtimes.conftest import one_input, transform_call

MakePool = Callable[..., EnginePool]
STATEFUL = "SELECT max(event_time) AS event_time FROM a"


@pytest.fixture
def make_pool(tmp_path: Path) -> Iterator[MakePool]:
    pools: list[EnginePool] = []

    def make(**settings: object) -> EnginePool:
        pool = EnginePool(
            PoolSettings(runtime="process", **settings),  # type: ignore[arg-type]
            tmp_path / f"run-{len(pools)}",
        )
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        pool.close()


def stateful_call(folder: Path, output: str) -> TransformCall:
    table, path = slice_of(), folder / f"slice-for-{output}"
    with SliceWriter(path, table.schema) as writer:
        writer.write(table)
    call = transform_call("", folder / output, one_input(path, 0, 0))
    query = (SqlQueryStep(alias=None, query=STATEFUL),)
    return replace(call, transform=TransformSql(engine="datafusion", queries=query))


def test_every_engine_has_a_release_that_reproduces_itself() -> None:
    assert set(RELEASES) == set(COMPATIBLE) == set(ENGINES)
    for engine, release in RELEASES.items():
        assert release in COMPATIBLE[engine]


def test_the_engine_answers_to_its_release(make_pool: MakePool) -> None:
    client = make_pool().client("DataFusion", dataset="mine", trusted=True)
    found = client.describe()
    assert (found.engine, found.release) == ("datafusion", RELEASES["datafusion"])


def test_own_datasets_share_a_host_and_strangers_do_not(make_pool: MakePool) -> None:
    pool = make_pool(allow_unsandboxed=True)
    mine = pool.client("datafusion", dataset="mine", trusted=True)
    assert pool.client("datafusion", dataset="mine-too", trusted=True) is mine
    assert pool.client("datafusion", dataset="theirs", trusted=False) is not mine
    assert sorted(pool.descriptions) == ["datafusion", "datafusion-theirs"]


def test_only_strangers_queries_may_run_slice_by_slice(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(allow_unsandboxed=True, memory=1 << 28)
    with pytest.raises(InvalidQueryError, match="needs state"):
        pool.client("datafusion", dataset="mine", trusted=True).execute_transform(
            stateful_call(tmp_path, "none")
        )
    outcome = pool.client("datafusion", dataset="theirs", trusted=False).execute_transform(
        stateful_call(tmp_path, "result")
    )
    assert outcome.slice_path is not None


def test_a_missing_package_gives_the_command_that_installs_it(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "find_spec", lambda _name: None)
    with pytest.raises(EngineUnavailableError) as missing:
        make_pool().client("datafusion", dataset="mine", trusted=True)
    assert missing.value.exit_code == 9
    assert "pip install 'opendatafabric[datafusion]'" in (missing.value.hint or "")


def test_an_unknown_engine_is_named_with_those_that_are_here(make_pool: MakePool) -> None:
    with pytest.raises(EngineUnavailableError, match=r"flink.*spark, datafusion") as unknown:
        make_pool().client("flink", dataset="mine", trusted=True)
    assert unknown.value.exit_code == 9

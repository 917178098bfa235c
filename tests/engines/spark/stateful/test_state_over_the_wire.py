"""State through the real host and client: checkpoints that move, and what is said of them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.data.arrow_fields import arrow_schema_to_fields
from odf.errors import BadInputError, InvalidQueryError
from odf.metadata.arrow_schema import encode_schema
from odf.metadata.model import DEFAULT_VOCAB, SqlQueryStep, TransformSql
from odf.protocol.calls import DiscardedRows, QueryInput, TransformCallInput, TransformOutcome
from odf.runtimes.base import EngineHandle, python_command
from odf.runtimes.client import EngineClient
from odf.runtimes.process import ProcessRuntime
from tests.runtimes.conftest import idle, one_input, transform_call, with_watermarks

pytestmark = pytest.mark.spark

DAILY = "SELECT window.end AS event_time, sum(n) AS s FROM a GROUP BY window(event_time, '1 day')"
OTHER = DAILY.replace("sum", "max")
MOMENT = pa.timestamp("ms", "UTC")
DAY = 86_400_000

Derive = Callable[..., tuple[TransformOutcome, list[dict[str, Any]]]]


def sql(query: str) -> TransformSql:
    return TransformSql(engine="spark", queries=(SqlQueryStep(query=query),))


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host")


@pytest.fixture(scope="module")
def engine(run_folder: Path) -> Iterator[EngineHandle]:
    runtime = ProcessRuntime(python_command("odf.engines.spark"))
    with runtime.start(run_folder) as handle:
        yield handle


@pytest.fixture
def client(engine: EngineHandle) -> EngineClient:
    return engine.client


@pytest.fixture
def derive(client: EngineClient, tmp_path: Path) -> Derive:
    numbers = count()

    def run(
        query: str, view: TransformCallInput, before: Path | None = None
    ) -> tuple[TransformOutcome, list[dict[str, Any]]]:
        number = next(numbers)
        call = replace(
            transform_call("", tmp_path / f"slice-{number}", view),
            transform=sql(query),
            prev_checkpoint=before,
            new_checkpoint=tmp_path / f"checkpoint-{number}",
        )
        outcome = client.execute_transform(call)
        rows = pq.read_table(outcome.slice_path).to_pylist() if outcome.slice_path else []
        return outcome, rows

    return run


@pytest.fixture
def three_days(tmp_path: Path) -> TransformCallInput:
    """One row on each of three days."""
    path = tmp_path / "input"
    table = pa.table(
        {
            "offset": [0, 1, 2],
            "op": pa.array([0, 0, 0], pa.int32()),
            "system_time": pa.array([0, 0, 0], MOMENT),
            "event_time": pa.array([0, DAY, 2 * DAY], MOMENT),
            "n": pa.array([1, 2, 3], pa.int32()),
        }
    )
    pq.write_table(table, path)
    return one_input(path, 0, 2)


def as_input(view: TransformCallInput) -> list[QueryInput]:
    schema = encode_schema(arrow_schema_to_fields(pq.read_schema(view.schema_file)))
    return [QueryInput(view.query_alias, schema, vocab=view.vocab)]


def test_state_travels_in_the_checkpoint(derive: Derive, three_days: TransformCallInput) -> None:
    view = with_watermarks(three_days, "1970-01-03T00:00:00Z")
    first, rows = derive(DAILY, view)
    assert [row["s"] for row in rows] == [1, 2]
    assert first.watermark == view.explicit_watermarks[0].event_time
    second, rows = derive(
        DAILY, idle(with_watermarks(three_days, "1970-01-09T00:00:00Z")), first.checkpoint
    )
    assert [row["s"] for row in rows] == [3]
    assert second.checkpoint is not None
    stateless, _ = derive("SELECT event_time, n FROM a", view)
    assert stateless.checkpoint is None


def test_a_description_comes_with_the_kind(
    client: EngineClient, three_days: TransformCallInput
) -> None:
    found = client.validate_query(sql(DAILY), as_input(three_days), DEFAULT_VOCAB)
    assert found.query_class == "bounded"
    assert found.description == "windowed aggregate, keeps 1 day of rows"


def test_migration_says_what_goes_on_and_what_is_lost(
    client: EngineClient, derive: Derive, three_days: TransformCallInput
) -> None:
    checkpoint = derive(DAILY, three_days)[0].checkpoint
    assert checkpoint is not None
    inputs = as_input(three_days)
    assert client.migrate_query(sql(f"{DAILY} -- x"), inputs, DEFAULT_VOCAB, checkpoint).kept
    found = client.migrate_query(sql(OTHER), inputs, DEFAULT_VOCAB, checkpoint)
    assert (found.kept, found.discarded) == (False, (DiscardedRows("input-0", 3),))
    assert "its query is" in found.reason


def test_another_querys_state_and_a_broken_one(
    client: EngineClient, derive: Derive, three_days: TransformCallInput, tmp_path: Path
) -> None:
    checkpoint = derive(DAILY, three_days)[0].checkpoint
    assert checkpoint is not None
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InvalidQueryError, match="belongs to another query"):
        derive(OTHER, idle(three_days), checkpoint)
    broken = tmp_path / "broken"
    broken.write_bytes(checkpoint.read_bytes()[:700])
    with pytest.raises(InvalidQueryError, match="the checkpoint is damaged"):
        derive(DAILY, idle(three_days), broken)
    with pytest.raises(BadInputError, match="the checkpoint is damaged"):
        client.migrate_query(sql(DAILY), as_input(three_days), DEFAULT_VOCAB, broken)
    assert sorted(tmp_path.iterdir()) == sorted([*before, broken])


def test_late_rows_are_counted_in_the_log(
    run_folder: Path, derive: Derive, three_days: TransformCallInput, tmp_path: Path
) -> None:
    first, _ = derive(DAILY, with_watermarks(three_days, "1970-01-03T00:00:00Z"))
    # The watermark was set at the system time of the calls; these rows come years later.
    table = pq.read_table(three_days.data[0])
    later = pa.array([2_000_000_000_000] * 3, MOMENT)
    moved = table.set_column(0, "offset", pa.array([3, 4, 5])).set_column(2, "system_time", later)
    pq.write_table(moved, tmp_path / "late")
    derive(DAILY, one_input(tmp_path / "late", 3, 5), first.checkpoint)
    logs = [path.read_text() for path in run_folder.rglob("*.txt")]
    assert any("input 'a': 3 of 3 rows came late" in log for log in logs)

"""The same inputs give the same logical hash, however many tasks work on them and wherever."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odf.data.slices import SliceInfo, inspect_slice
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    DEFAULT_VOCAB,
    MergeStrategySnapshot,
    OffsetInterval,
    ReadStepCsv,
    SqlQueryStep,
    Timestamp,
    TransformSql,
)
from odf.protocol.calls import CallFile, IngestCall, TransformCall, TransformCallInput
from odf.runtimes.base import EngineHandle, python_command
from odf.runtimes.client import EngineClient
from odf.runtimes.pool import EnginePool
from odf.runtimes.process import ProcessRuntime

pytestmark = pytest.mark.spark

NOW = Timestamp.parse("2026-01-01T12:00:00Z")
RANGE = 16 * 1024 * 1024
ROWS = 210_000  # more than are sorted in one partition
QUERY = """
SELECT op, event_time, id, upper(name) AS name, price * 1.1 AS price FROM a WHERE id % 3 = 0
UNION ALL
SELECT op, event_time, id, name, price FROM a WHERE price < 300
"""


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineHandle]:
    """An engine with one task at a time, without a sandbox."""
    command = python_command("odf.engines.spark", "--cores", "1", "--task-bytes", "-1")
    with ProcessRuntime(command).start(tmp_path_factory.mktemp("single")) as handle:
        yield handle


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineHandle]:
    """An engine with two tasks at a time, which merges nothing inside one of them."""
    command = python_command("odf.engines.spark", "--cores", "2", "--task-bytes", "-1")
    with ProcessRuntime(command).start(tmp_path_factory.mktemp("double")) as handle:
        yield handle


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A file that is cut into two ranges, and a later one without some of its rows."""
    folder = tmp_path_factory.mktemp("files")
    filler = "x" * 60
    lines = []
    for number in range(ROWS):
        key = number * 7919 % ROWS  # every key once, in no order
        name = f'"quoted, {key}\n{filler}"' if number % 5 == 0 else f"name {key} {filler}"
        lines.append(f"2025-01-{number % 28 + 1:02} 10:00:00,{key},{name},{key / 7:.3f}\n")
    header = "event_time,id,name,price\n"
    first, second = folder / "first.csv", folder / "second.csv"
    first.write_text(header + "".join(lines))
    kept = [line for number, line in enumerate(lines) if number % 4]
    changed = [
        line.replace("name ", "title ") if n % 9 == 0 else line for n, line in enumerate(kept)
    ]
    second.write_text(header + "".join(reversed(changed)))
    assert first.stat().st_size > RANGE
    return first, second


def ingest(
    client: EngineClient, file: Path, output: Path, merge: object, *, history: tuple[Path, ...] = ()
) -> SliceInfo:
    start = sum(inspect_slice(path, DEFAULT_VOCAB).num_records for path in history)
    client.ingest(
        IngestCall(
            dataset_alias="data",
            files=(CallFile(file, file.name),),
            read=ReadStepCsv(
                schema=("event_time TIMESTAMP", "id BIGINT", "name STRING", "price DOUBLE"),
                header=True,
            ),
            preprocess=None,
            merge=merge,  # type: ignore[arg-type]
            vocab=DEFAULT_VOCAB,
            system_time=NOW,
            source_event_time=NOW,
            next_offset=start,
            dataset_schema=None,
            history=history,
            allow_retract=True,
            allow_empty=False,
            max_retract_share=1.0,
            min_rows_for_retract_guard=20,
            output=output,
        )
    )
    return inspect_slice(output, DEFAULT_VOCAB)


def derive(client: EngineClient, source: Path, rows: int, output: Path) -> SliceInfo:
    view = TransformCallInput(
        dataset_id=DatasetID(bytes(32)),
        dataset_alias=DatasetAlias.parse("a"),
        query_alias="a",
        vocab=DEFAULT_VOCAB,
        offset_interval=OffsetInterval(0, rows - 1),
        data=(source,),
        schema_file=source,
        explicit_watermarks=(),
    )
    client.execute_transform(
        TransformCall(
            dataset_id=DatasetID(bytes(range(32))),
            dataset_alias=DatasetAlias.parse("derived"),
            system_time=NOW,
            vocab=DEFAULT_VOCAB,
            transform=TransformSql(
                engine="spark", queries=(SqlQueryStep(alias=None, query=QUERY),)
            ),
            inputs=(view,),
            next_offset=0,
            output=output,
        )
    )
    return inspect_slice(output, DEFAULT_VOCAB)


def everything(
    client: EngineClient, files: tuple[Path, Path], folder: Path
) -> dict[str, SliceInfo]:
    """A first snapshot, the changes of a second one, and a query."""
    folder.mkdir()
    first, second = files
    snapshot = MergeStrategySnapshot(("id",))
    found = {
        "snapshot": ingest(client, first, folder / "snapshot", snapshot),
    }
    history = (folder / "snapshot",)
    found["changes"] = ingest(client, second, folder / "changes", snapshot, history=history)
    found["query"] = derive(client, folder / "snapshot", ROWS, folder / "query")
    return found


def test_one_core_or_two_in_a_sandbox_or_not_in_one_task_or_several(
    single: EngineHandle,
    double: EngineHandle,
    engines: EnginePool,
    files: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    one = everything(single.client, files, tmp_path / "one")
    client = engines.client("spark", dataset="data", trusted=True)
    for place, other in (("two", double.client), ("sandbox", client)):
        several = everything(other, files, tmp_path / place)
        for name, info in one.items():
            assert info.problems == ()
            assert info.logical_hash == several[name].logical_hash, name
            assert info.ops == several[name].ops
    assert one["snapshot"].num_records == ROWS
    assert set(one["changes"].ops) == {1, 2, 3}
    assert len({info.logical_hash for info in one.values()}) == len(one)

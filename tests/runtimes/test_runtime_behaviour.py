"""What every runtime does alike: one suite over a process, a sandbox and this process."""

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.data.slices import inspect_slice
from odf.errors import BadInputError, EngineError, InvalidQueryError, NotFoundError
from odf.metadata.arrow_schema import decode_schema
from odf.metadata.model import (
    DEFAULT_VOCAB,
    MergeStrategyAppend,
    OffsetInterval,
    ReadStepCsv,
    Timestamp,
)
from odf.protocol import PROTOCOL_VERSION
from odf.protocol.calls import (
    CallFile,
    DiscardedRows,
    EngineEvent,
    EngineProgress,
    EngineWarning,
    IngestCall,
    QueryInput,
    RawQueryCall,
)
from odf.runtimes.base import EngineHandle
from tests.runtimes.conftest import (
    SYSTEM_TIME,
    idle,
    one_input,
    sql,
    transform_call,
    with_watermarks,
)

MakeSlice = Callable[..., Path]
CSV = "event_time,v\n2024-01-01 00:00:00,x\n2024-01-02 00:00:00.123456,y\n"


def ingest_call(output: Path, *files: Path, history: tuple[Path, ...] = ()) -> IngestCall:
    return IngestCall(
        dataset_alias="rooted",
        files=tuple(CallFile(path, path.name) for path in files),
        read=ReadStepCsv(header=True),
        preprocess=None,
        merge=MergeStrategyAppend(),
        vocab=DEFAULT_VOCAB,
        system_time=SYSTEM_TIME,
        source_event_time=None,
        next_offset=5,
        dataset_schema=None,
        history=history,
        output=output,
    )


def left_behind(engine: EngineHandle) -> list[Path]:
    exchange = engine.client._exchange
    return [
        path
        for folder in (exchange.host_in, exchange.host_out)
        for path in folder.iterdir()
        if path.name != "home"
    ]


def test_describes_itself(engine: EngineHandle) -> None:
    found = engine.client.describe()
    assert (found.engine, found.release) == ("tiny", "tiny/1.0.0")
    assert found.protocol_version == PROTOCOL_VERSION
    assert found.versions == {"pyarrow": pa.__version__}


def test_derives_a_slice(engine: EngineHandle, make_slice: MakeSlice, tmp_path: Path) -> None:
    path = make_slice([0, 0, 0, 0], ["a", "b", "c", "d"])
    output = tmp_path / "result"
    call = transform_call("pass", output, one_input(path, 1, 3), next_offset=10)

    outcome = engine.client.execute_transform(call)

    assert outcome.slice_path == output
    assert outcome.offset_interval == OffsetInterval(10, 12)
    assert outcome.checkpoint is None
    table = pq.read_table(output)
    assert table.schema.names == ["offset", "op", "system_time", "event_time", "v"]
    assert table["v"].to_pylist() == ["b", "c", "d"]
    assert table["system_time"].unique().to_pylist() == [SYSTEM_TIME.to_datetime()]
    info = inspect_slice(output, DEFAULT_VOCAB)
    assert (info.offset_start, info.offset_end, info.problems) == (10, 12, ())
    assert left_behind(engine) == []


def test_same_inputs_give_the_same_logical_hash(
    engine: EngineHandle, make_slice: MakeSlice, tmp_path: Path
) -> None:
    path = make_slice([0, 2, 3, 1], ["a", "b", "c", "d"])
    hashes = set()
    for name in ("one", "two"):
        output = tmp_path / name
        engine.client.execute_transform(transform_call("pass", output, one_input(path, 0, 3)))
        hashes.add(inspect_slice(output, DEFAULT_VOCAB).logical_hash)
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("query", "ops", "expected"),
    [
        ("pass", [0, 2, 3, 1], [0, 2, 3, 1]),
        ("drop-op", [0, 2, 3, 1], [0, 0, 0, 0]),
        ("keep 2", [0, 2, 3, 2, 3], [1, 1]),
        ("keep 3", [0, 2, 3, 2, 3], [0, 0]),
    ],
)
def test_pairs_of_corrections_stay_whole(
    engine: EngineHandle,
    make_slice: MakeSlice,
    tmp_path: Path,
    *,
    query: str,
    ops: list[int],
    expected: list[int],
) -> None:
    path = make_slice(ops, ["v"] * len(ops))
    output = tmp_path / "result"
    engine.client.execute_transform(transform_call(query, output, one_input(path, 0, len(ops) - 1)))
    assert pq.read_table(output)["op"].to_pylist() == expected


def test_watermark_is_that_of_the_slowest_input(
    engine: EngineHandle, make_slice: MakeSlice, tmp_path: Path
) -> None:
    a = with_watermarks(
        one_input(make_slice([0], ["a"]), 0, 0), "2024-01-05T00:00:00Z", "2024-01-03T00:00:00Z"
    )
    b = with_watermarks(
        one_input(make_slice([0], ["b"], name="b"), 0, 0, alias="b"), "2024-01-04T00:00:00.5Z"
    )
    outcome = engine.client.execute_transform(transform_call("pass", tmp_path / "r", a, b))
    assert outcome.watermark == Timestamp.parse("2024-01-04T00:00:00.5Z")


def test_no_watermark_if_an_input_never_had_one(
    engine: EngineHandle, make_slice: MakeSlice, tmp_path: Path
) -> None:
    a = with_watermarks(one_input(make_slice([0], ["a"]), 0, 0), "2024-01-05T00:00:00Z")
    b = one_input(make_slice([0], ["b"], name="b"), 0, 0, alias="b")
    outcome = engine.client.execute_transform(transform_call("pass", tmp_path / "r", a, b))
    assert outcome.watermark is None


def test_an_idle_input_gives_its_schema_and_holds_the_watermark(
    engine: EngineHandle, make_slice: MakeSlice, tmp_path: Path
) -> None:
    a = with_watermarks(one_input(make_slice([0], ["a"]), 0, 0), "2024-01-05T00:00:00Z")
    b = idle(
        with_watermarks(
            one_input(make_slice([0], ["b"], name="b"), 0, 0, alias="b"), "2024-01-02T00:00:00Z"
        )
    )
    outcome = engine.client.execute_transform(transform_call("pass", tmp_path / "r", a, b))
    assert outcome.offset_interval == OffsetInterval(0, 0)
    assert outcome.watermark == Timestamp.parse("2024-01-02T00:00:00Z")


def test_no_rows_no_file(engine: EngineHandle, make_slice: MakeSlice, tmp_path: Path) -> None:
    view = with_watermarks(one_input(make_slice([0], ["a"]), 0, 0), "2024-01-05T00:00:00Z")
    output = tmp_path / "result"
    outcome = engine.client.execute_transform(transform_call("empty", output, view))
    assert (outcome.slice_path, outcome.offset_interval) == (None, None)
    assert outcome.watermark == Timestamp.parse("2024-01-05T00:00:00Z")
    assert not output.exists()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("invalid", "no such word: invalid.*say pass"),
        ("star", "'offset' conflicts with the system column"),
        ("no-event-time", "no event time column 'event_time'; it has 'op', 'v'"),
        ("text-event-time", "'event_time' has the type string"),
        ("op-7", "'op' holds 7 to 7"),
    ],
)
def test_bad_queries_are_the_users(
    engine: EngineHandle, make_slice: MakeSlice, tmp_path: Path, query: str, message: str
) -> None:
    output = tmp_path / "result"
    call = transform_call(query, output, one_input(make_slice([0], ["a"]), 0, 0))
    with pytest.raises(InvalidQueryError, match=message):
        engine.client.execute_transform(call)
    assert not output.exists()
    assert left_behind(engine) == []


def test_defects_are_the_engines_and_it_lives_on(
    engine: EngineHandle, make_slice: MakeSlice, tmp_path: Path
) -> None:
    view = one_input(make_slice([0], ["a"]), 0, 0)
    with pytest.raises(EngineError, match="ValueError: the tiny engine has a defect") as caught:
        engine.client.execute_transform(transform_call("fail", tmp_path / "r", view))
    assert "Traceback" in str(caught.value.details["backtrace"])
    if engine.runtime != "memory":
        assert caught.value.hint is not None
        log = Path(caught.value.hint.removeprefix("Its log: "))
        # What a container says comes here by way of its daemon.
        deadline = time.monotonic() + 30
        while "the tiny engine has a defect" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
    engine.client.execute_transform(transform_call("pass", tmp_path / "r", view))


def test_an_output_that_is_a_link_is_refused(
    engine: EngineHandle, make_slice: MakeSlice, tmp_path: Path
) -> None:
    output = tmp_path / "result"
    call = transform_call("symlink", output, one_input(make_slice([0], ["a"]), 0, 0))
    with pytest.raises(EngineError, match="left a symbolic link"):
        engine.client.execute_transform(call)
    assert not output.is_symlink()
    assert not output.exists()
    assert Path("/etc/passwd").is_file()


def test_a_missing_input_is_found_before_the_call(engine: EngineHandle, tmp_path: Path) -> None:
    call = transform_call("pass", tmp_path / "r", one_input(tmp_path / "gone", 0, 0))
    with pytest.raises(NotFoundError, match="gone"):
        engine.client.execute_transform(call)


def test_validates(engine: EngineHandle) -> None:
    schema = b""
    outcome = engine.client.validate_query(
        sql("pass"), [QueryInput("a", None, has_retractions=True)], DEFAULT_VOCAB
    )
    assert outcome.query_class == "map"
    assert outcome.output_schema is None
    assert outcome.warnings == ("a retracts; op is dropped",)
    with pytest.raises(InvalidQueryError, match="no such word") as caught:
        engine.client.validate_query(sql("invalid"), [QueryInput("a", None)], DEFAULT_VOCAB)
    assert caught.value.hint == "say pass"
    with pytest.raises(EngineError, match="the tiny engine has a defect"):
        engine.client.validate_query(sql("fail"), [QueryInput("a", schema or None)], DEFAULT_VOCAB)


def test_migrates(engine: EngineHandle, tmp_path: Path) -> None:
    checkpoint, inputs = tmp_path / "checkpoint", [QueryInput("a", None, vocab=DEFAULT_VOCAB)]
    checkpoint.write_text(f"pass {DEFAULT_VOCAB} offset")
    client = engine.client
    assert client.migrate_query(sql("pass"), inputs, DEFAULT_VOCAB, checkpoint).kept
    checkpoint.write_text("another\x1b[31m query")
    found = client.migrate_query(sql("pass"), inputs, DEFAULT_VOCAB, checkpoint)
    assert (found.kept, found.discarded) == (False, (DiscardedRows("input-0", 7),))
    assert "another" in found.reason
    assert "\x1b" not in found.reason
    with pytest.raises(InvalidQueryError, match="no such word"):
        client.migrate_query(sql("invalid"), inputs, DEFAULT_VOCAB, checkpoint)
    checkpoint.write_text("broken")
    with pytest.raises(BadInputError, match="damaged"):
        client.migrate_query(sql("pass"), inputs, DEFAULT_VOCAB, checkpoint)
    with pytest.raises(NotFoundError):
        client.migrate_query(sql("pass"), inputs, DEFAULT_VOCAB, tmp_path / "gone")


def test_ingests(engine: EngineHandle, tmp_path: Path) -> None:
    source = tmp_path / "source.csv"
    source.write_text(CSV)
    events: list[EngineEvent] = []

    outcome = engine.client.ingest(ingest_call(tmp_path / "slice", source), events.append)

    assert outcome.slice_path == tmp_path / "slice"
    assert (outcome.rows_read, outcome.rows_unchanged, outcome.counts.append) == (2, 0, 2)
    assert [field.name for field in decode_schema(outcome.schema)] == [
        *("offset", "op", "system_time", "event_time", "v"),
    ]
    table = pq.read_table(outcome.slice_path)
    assert table["offset"].to_pylist() == [5, 6]
    assert str(table["event_time"][1]) == "2024-01-02 00:00:00.123000+00:00"
    assert EngineProgress("merging", 2) in events
    warnings = [event.message for event in events if isinstance(event, EngineWarning)]
    assert warnings[0] == "read under\N{REPLACEMENT CHARACTER}[31m rooted"
    assert "'event_time' has times finer than milliseconds" in warnings[1]
    assert left_behind(engine) == []

    again = engine.client.ingest(
        ingest_call(tmp_path / "next", source, history=(outcome.slice_path,))
    )
    assert (again.slice_path, again.counts.total, again.rows_unchanged) == (None, 0, 2)
    assert again.schema == outcome.schema


def test_bad_source_data_comes_back_whole(engine: EngineHandle, tmp_path: Path) -> None:
    source = tmp_path / "bad.csv"
    source.write_text(CSV)
    with pytest.raises(BadInputError, match=r"2 rows of bad\.csv") as caught:
        engine.client.ingest(ingest_call(tmp_path / "slice", source))
    assert caught.value.reason == "bad_rows"
    assert caught.value.hint == "repair the file"
    assert caught.value.problems[1] == "bad.csv:4: 'y' is no number"


def test_a_source_with_a_system_column_is_bad_input(engine: EngineHandle, tmp_path: Path) -> None:
    source = tmp_path / "source.csv"
    source.write_text("event_time,offset\n2024-01-01 00:00:00,1\n")
    with pytest.raises(BadInputError, match="'offset' conflicts") as caught:
        engine.client.ingest(ingest_call(tmp_path / "slice", source))
    assert caught.value.reason == "system_column"
    assert not (tmp_path / "slice").exists()


def test_a_defect_while_ingesting(engine: EngineHandle, tmp_path: Path) -> None:
    source = tmp_path / "defect.csv"
    source.write_text(CSV)
    with pytest.raises(EngineError, match="ingested into rooted: RuntimeError: the reader has"):
        engine.client.ingest(ingest_call(tmp_path / "slice", source))


def test_raw_queries(engine: EngineHandle, make_slice: MakeSlice, tmp_path: Path) -> None:
    path = make_slice([0, 0], ["a", "b"])
    outcome = engine.client.execute_raw_query(
        RawQueryCall((path, path), sql("count"), tmp_path / "rows")
    )
    assert outcome.num_records == 1
    assert pq.read_table(tmp_path / "rows")["rows"].to_pylist() == [4]
    nothing = engine.client.execute_raw_query(RawQueryCall((), sql("count"), tmp_path / "none"))
    assert (nothing.output, nothing.num_records) == (None, 0)
    with pytest.raises(InvalidQueryError):
        engine.client.execute_raw_query(RawQueryCall((), sql("invalid"), tmp_path / "none"))

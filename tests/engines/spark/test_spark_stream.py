"""Rows that are written while the file is still being read equal those that are read first."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.engines.host.engine import Rows, SourceFile, StartOver
from odf.engines.host.finish import SliceOrder, finish
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.merge.layout import NewRows, make_layout
from odf.engines.spark.merge.streamed import append_streamed
from odf.engines.spark.parts import Parts
from odf.engines.spark.readers.csv import open_csv
from odf.engines.spark.readers.csv_cut import RANGE_SIZE
from odf.engines.spark.readers.csv_format import parse_format
from odf.engines.spark.readers.csv_stream import CsvStream
from odf.errors import BadInputError
from odf.metadata.model import (
    DEFAULT_VOCAB,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    ReadStepCsv,
)
from tests.engines.spark.spark_ingestor import SOURCE_TIME, SYSTEM_TIME, Ingestor, Notes, Round

pytestmark = pytest.mark.spark

Make = Callable[..., Ingestor]
TIMED = ReadStepCsv(
    schema=("id INT NOT NULL", "event_time TIMESTAMP", "f DOUBLE", "u UUID", "n STRING"),
    header=True,
)
DATED = ReadStepCsv(schema=("event_time DATE", "id INT"), header=True)
PLAIN = ReadStepCsv(header=True)
UUID = "123e4567-e89b-12d3-a456-426614174000"


def timed(row: int, time: str = "") -> str:
    return f"{row},{time or f'2024-01-01 00:{row // 60:02}:{row % 60:02}'},{row}.5,{UUID},é{row}\n"


def streamed(engine: SparkEngine, folder: Path, read: ReadStepCsv, text: str) -> Round:
    """Ingest a file in ranges of a few rows, streamed."""
    folder.mkdir()
    path = folder / "data.csv"
    path.write_text(text)
    source = open_csv(
        [SourceFile(str(path), "data.csv")], parse_format(read), folder, range_size=100
    )
    assert len(source.ranges) > 5
    stored = pa.schema([pa.field(c.name, c.stored, c.nullable) for c in source.columns])
    columns = NewRows(Parts((), stored, 0), stored, lambda _: [])
    layout = make_layout(columns, DEFAULT_VOCAB, None)
    notes = Notes()

    def otherwise() -> Rows:
        raise StartedOver

    with engine._runtime.operation() as spark:
        stream = CsvStream(spark, source, folder / "parts")
        made = append_streamed(stream, layout, SOURCE_TIME, notes, otherwise)
        output = folder / "slice.parquet"
        order = SliceOrder(DEFAULT_VOCAB, 0, SYSTEM_TIME, output, from_query=False)
        try:
            finished = finish(made.rows, order)
        finally:
            assert not list((folder / "parts").glob("*.unfinished"))
    assert not list((folder / "parts").iterdir())
    return Round(pq.read_table(output).to_pylist(), made, finished.schema, notes.warnings)


class StartedOver(Exception):  # noqa: N818  # nothing went wrong
    """The rows did not come in order."""


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (TIMED, "h,h,h,h,h\n" + "".join(timed(row) for row in range(50))),
        (
            TIMED,
            "h,h,h,h,h\n" + "".join(timed(row, "2024-01-01 00:00:00.1234") for row in range(50)),
        ),
        (TIMED, "h,h,h,h,h\n" + "".join(f"{row},,,,\n" for row in range(200))),
        (DATED, "h,h\n" + "".join(f"2024-01-{row // 3 + 1:02},{row}\n" for row in range(60))),
        (PLAIN, "id,n\n" + "".join(f"{row},x\n" for row in range(200))),
    ],
    ids=["times", "digits", "no times", "dates", "no event time"],
)
def test_streamed_rows_equal_others(
    read: ReadStepCsv, text: str, engine: SparkEngine, ingestor: Make, tmp_path: Path
) -> None:
    found = streamed(engine, tmp_path / "streamed", read, text)
    wanted = ingestor(read=read).text(text)
    assert found.rows == wanted.rows
    assert found.schema == wanted.schema
    assert found.warnings == wanted.warnings


@pytest.mark.parametrize("late", [1, 30, 49])
def test_rows_out_of_order_start_over(late: int, engine: SparkEngine, tmp_path: Path) -> None:
    lines = [timed(row, "2023-01-01 00:00:00" if row == late else "") for row in range(50)]
    with pytest.raises(StartedOver):
        streamed(engine, tmp_path / "streamed", TIMED, "h,h,h,h,h\n" + "".join(lines))
    assert not (tmp_path / "streamed" / "slice.parquet").exists()


@pytest.mark.parametrize("bad", ["x,,,,\n", ",,,,\n", "1,2\n"])
def test_bad_rows_are_told_as_ever(
    bad: str, engine: SparkEngine, ingestor: Make, tmp_path: Path
) -> None:
    text = "h,h,h,h,h\n" + "".join(timed(row) for row in range(20)) + bad
    text += "".join(timed(row) for row in range(20, 40))
    with pytest.raises(BadInputError) as streamed_error:
        streamed(engine, tmp_path / "streamed", TIMED, text)
    with pytest.raises(BadInputError) as error:
        ingestor(read=TIMED).text(text)
    assert streamed_error.value.message == error.value.message
    assert streamed_error.value.problems == error.value.problems
    assert not (tmp_path / "streamed" / "slice.parquet").exists()


def test_who_stops_listening_ends_the_reading(engine: SparkEngine, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("h,h,h,h,h\n" + "".join(timed(row) for row in range(2000)))
    source = open_csv(
        [SourceFile(str(path), "data.csv")], parse_format(TIMED), tmp_path, range_size=1000
    )
    with engine._runtime.operation() as spark:
        stream = CsvStream(spark, source, tmp_path / "parts")
        with closing(stream.batches()) as rows:
            assert next(rows).num_rows
        assert not [one for one in threading.enumerate() if one.name.startswith("read-")]


def large(times: Callable[[int], str]) -> Iterator[str]:
    """Lines of a file that is read in several ranges."""
    yield "id,event_time,f,u,n\n"
    for row in range(RANGE_SIZE // 2**20 + 4):
        yield f"{row},{times(row)},,,{'x' * 2**20}\n"


@pytest.mark.parametrize("ordered", [True, False])
def test_a_large_file(ordered: bool, ingestor: Make) -> None:
    """The engine chooses by itself; rows out of order are sorted all the same."""

    def time(row: int) -> str:
        return f"2024-01-{row + 1 if ordered else 28 - row:02} 00:00:00"

    found = ingestor(read=TIMED).text("".join(large(time)))
    ids = [row["id"] for row in found.rows]
    assert len(ids) == RANGE_SIZE // 2**20 + 4
    assert ids == sorted(ids, reverse=not ordered)
    assert {len(row["n"]) for row in found.rows} == {2**20}


def test_start_over_gives_only_the_new_rows(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("event_time", pa.timestamp("ms", "UTC")), ("x", pa.int32())])
    rows = [
        pa.RecordBatch.from_pylist(
            [{"event_time": 0, "x": x} for x in range(start, start + 3)], schema
        )
        for start in (0, 10)
    ]

    def first() -> Iterator[pa.RecordBatch]:
        yield rows[0]
        raise StartOver(lambda: Rows(schema, iter(rows[1:])))

    order = SliceOrder(DEFAULT_VOCAB, 7, SYSTEM_TIME, tmp_path / "slice", from_query=False)
    assert finish(Rows(schema, first()), order).counts.total == 3
    found = pq.read_table(tmp_path / "slice")
    assert found.column("offset").to_pylist() == [7, 8, 9]
    assert found.column("x").to_pylist() == [10, 11, 12]


@pytest.mark.parametrize("merge", [MergeStrategyAppend(), MergeStrategyLedger(("a",))])
def test_a_large_file_that_was_cut_inside_quotes(merge: MergeStrategy, ingestor: Make) -> None:
    """A lone quote makes the opening one of a long field look like a closing one."""
    filler = "".join(f"{row},{'y' * 2**20}\n" for row in range(RANGE_SIZE // 2**20 - 1))
    long = "more\n" * 400_000
    read = ReadStepCsv(schema=("a STRING", "b STRING"))
    found = ingestor(read=read, merge=merge).text(f'x,5" pipe\n{filler}z,"{long}"\n')
    assert len(found.rows) == RANGE_SIZE // 2**20 + 1
    assert found.rows[0]["b"] == '5" pipe'
    assert {row["b"] for row in found.rows if row["a"] == "z"} == {long}

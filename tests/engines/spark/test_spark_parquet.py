"""Parquet files: columns as they are, or selected and cast."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.engines.host.engine import SourceFile
from odf.errors import BadInputError
from odf.metadata.model import MergeStrategyLedger, MergeStrategySnapshot, ReadStepParquet
from tests.engines.spark.spark_ingestor import Ingestor

pytestmark = pytest.mark.spark

Make = Callable[..., Ingestor]
Find = Callable[[str], Path]


def parquet(*schema: str) -> ReadStepParquet:
    return ReadStepParquet(schema=schema or None)


def written(tmp_path: Path, *tables: pa.Table, **options: Any) -> list[SourceFile]:
    files = []
    for number, table in enumerate(tables):
        path = tmp_path / f"source-{number}.parquet"
        pq.write_table(table, path, **options)
        files.append(SourceFile(str(path), f"data-{number}.parquet"))
    return files


def test_columns_of_the_file(ingestor: Make, tmp_path: Path) -> None:
    nanos = pa.array([-1, 1_500_001_999], pa.timestamp("ns"))
    table = pa.table(
        {
            "event_time": nanos,
            "u": pa.array([1, None], pa.uint32()),
            "d": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "word": pa.array(["x", "x"]).dictionary_encode(),
            "s": pa.array([{"a": [1, None]}, None], pa.struct([("a", pa.list_(pa.int16()))])),
        }
    )
    found = ingestor(read=parquet()).files(written(tmp_path, table, table, row_group_size=1))
    assert len(found.rows) == 4
    assert found.ingested.rows_read == 4
    moments = [row["event_time"] for row in found.rows]
    assert moments == sorted(moments)
    assert moments[0] == datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)
    assert moments[3] == datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)
    assert [found.rows[0][name] for name in ("u", "d", "word", "s")] == [
        1, Decimal("1.50"), "x", {"a": [1, None]},
    ]  # fmt: skip
    assert len(found.warnings) == 1


def test_columns_are_selected_by_name_and_cast(ingestor: Make, tmp_path: Path) -> None:
    table = pa.table(
        {
            "n": pa.array([1.0, 2.0]),
            "t": pa.array(["2024-01-02", None]),
            "at": pa.array([0, 1], pa.timestamp("ms", "UTC")),
            "more": pa.array([1, 2]),
            "b": pa.array([b"x", b"y"]),
        }
    )
    read = parquet("at STRING", "t DATE", "n INT NOT NULL", "b STRING")
    found = ingestor(read=read, merge=MergeStrategyLedger(("n",))).files(written(tmp_path, table))
    assert list(found.rows[0])[4:] == ["at", "t", "n", "b"]
    assert [(row["t"], row["n"], row["b"]) for row in found.rows] == [
        (date(2024, 1, 2), 1, "x"),
        (None, 2, "y"),
    ]
    assert found.rows[1]["at"] == "1970-01-01 00:00:00.001Z"
    assert not found.schema.field("n").nullable


def test_bad_values_are_named(ingestor: Make, tmp_path: Path) -> None:
    table = pa.table({"a": ["1", "x", None], "f": [1.0, 2.5, 3.0], "k": [1, 2, 3]})
    files = written(tmp_path, table, table, row_group_size=2)
    with pytest.raises(BadInputError) as caught:
        ingestor(read=parquet("a INT NOT NULL", "f BIGINT", "k TIMESTAMP")).files(files[:1])
    assert caught.value.details["count"] == 6
    assert caught.value.problems == (
        "data-0.parquet: row 1: column `k`: 1 is not a TIMESTAMP",
        "data-0.parquet: row 2: column `a`: 'x' is not an INT",
        "data-0.parquet: row 2: column `f`: 2.5 is not a BIGINT",
        "data-0.parquet: row 2: column `k`: 2 is not a TIMESTAMP",
        "data-0.parquet: row 3: column `a`: null in a column that is NOT NULL",
        "data-0.parquet: row 3: column `k`: 3 is not a TIMESTAMP",
    )
    dataset = ingestor(read=parquet(), merge=MergeStrategySnapshot(("k",)))
    with pytest.raises(BadInputError, match=r"data-0.parquet: row 1 and data-1.parquet: row 1"):
        dataset.files(files)


@pytest.mark.parametrize(
    ("read", "table", "message"),
    [
        (parquet("A INT"), pa.table({"a": [1]}), "data-0.parquet has no column `A`; it has `a`"),
        (parquet(), pa.table({"op": [1]}), "system column `op`"),
        (parquet(), pa.table({"__odf_row": [1]}), "keeps for itself"),
        (parquet(), pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}),
         "data-0.parquet: column `m`: no column type holds"),
    ],
)  # fmt: skip
def test_refusals(
    read: ReadStepParquet, table: pa.Table, message: str, ingestor: Make, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError) as caught:
        ingestor(read=read).files(written(tmp_path, table))
    assert message in caught.value.message


def test_what_is_no_parquet_file_or_a_cut_one(ingestor: Make, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"data\.csv cannot be read as Parquet"):
        ingestor(read=parquet()).text("a,b\n1,2\n")
    one, two = pa.table({"a": [1]}), pa.table({"a": ["x"]})
    with pytest.raises(BadInputError, match=r"data-1.parquet has other columns than data-0"):
        ingestor(read=parquet()).files(written(tmp_path, one, two))
    found = ingestor(read=parquet("a STRING")).files(written(tmp_path, one, two))
    assert [row["a"] for row in found.rows] == ["1", "x"]


def one_file(folder: Path, name: str) -> list[SourceFile]:
    return [SourceFile(str(folder / name), name)]


def test_int96_and_bytes(ingestor: Make, real_data: Find) -> None:
    folder = real_data("e1")
    files = one_file(folder, "alltypes_plain.snappy.parquet")
    found = ingestor(read=parquet()).files(files)
    original = pq.read_table(files[0].path)
    assert [row["timestamp_col"] for row in found.rows] == [
        value.to_pydatetime().replace(tzinfo=UTC) if hasattr(value, "to_pydatetime")
        else value.replace(tzinfo=UTC)
        for value in original.column("timestamp_col").to_pylist()
    ]  # fmt: skip
    assert [row["string_col"] for row in found.rows] == original.column("string_col").to_pylist()
    read = parquet("id BIGINT", "date_string_col STRING", "timestamp_col TIMESTAMP")
    found = ingestor(read=read).files(files)
    assert [row["date_string_col"] for row in found.rows] == [
        value.decode() for value in original.column("date_string_col").to_pylist()
    ]


def test_nested_lists(ingestor: Make, real_data: Find) -> None:
    folder = real_data("e1")
    found = ingestor(read=parquet()).files(one_file(folder, "nested_lists.snappy.parquet"))
    original = pq.read_table(folder / "nested_lists.snappy.parquet").to_pylist()
    assert [{"a": row["a"], "b": row["b"]} for row in found.rows] == original


def test_geoparquet(ingestor: Make, real_data: Find) -> None:
    folder = real_data("e1")
    files = one_file(folder, "geoparquet-example.parquet")
    dataset = ingestor(read=parquet(), merge=MergeStrategySnapshot(("name",)))
    assert dataset.files(files).ops == (5, 0, 0, 0)
    assert dataset.files(files).rows == []


def test_flights(ingestor: Make, real_data: Find) -> None:
    folder = real_data("e1")
    expected = json.loads((folder / "expected.json").read_text())
    assert "231083" in json.dumps(expected)
    found = ingestor(read=parquet()).files(one_file(folder, "flights-200k.parquet"))
    assert len(found.rows) == 231083
    original = pq.read_table(folder / "flights-200k.parquet")
    assert [row["delay"] for row in found.rows] == original.column("delay").to_pylist()


def test_a_column_without_any_value_is_text_or_what_it_was(ingestor: Make, tmp_path: Path) -> None:
    nothing = pa.table({"n": pa.nulls(2), "m": pa.nulls(2)})
    numbers = pa.table({"n": [1, 2], "m": pa.nulls(2)})
    dataset = ingestor(read=parquet())
    dataset.files(written(tmp_path, numbers))
    found = dataset.files(written(tmp_path, nothing))
    assert [(row["n"], row["m"]) for row in found.rows] == [(None, None)] * 2
    assert (found.schema.field("n").type, found.schema.field("m").type) == (pa.int64(), pa.string())
    declared = ingestor(read=parquet("n TIMESTAMP", "m DECIMAL(5,2)"))
    found = declared.files(written(tmp_path, nothing))
    assert [(row["n"], row["m"]) for row in found.rows] == [(None, None)] * 2

"""Files with quotes in several pieces: the same rows as in one, or no rows at all."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from odf.engines.host.engine import SourceFile
from odf.engines.spark.parts import ROW_COLUMN
from odf.engines.spark.readers.csv import CsvSource, CutInsideQuotes, check_cuts, open_csv
from odf.engines.spark.readers.csv_format import parse_format
from odf.engines.spark.readers.csv_task import CsvTask, RangeResult, read_range
from odf.metadata.model import ReadStepCsv

TWO = ("a STRING", "b STRING")
FIELDS = st.lists(st.sampled_from(["x", '"', '""', "\n", ",", '"y"', '"a\nb"', "é"]), max_size=6)


def opened(folder: Path, text: str, **options: Any) -> CsvSource:
    path = folder / "data.csv"
    path.write_text(text, newline="")
    step = ReadStepCsv(schema=TWO, escape=options.pop("escape", None))
    return open_csv([SourceFile(str(path), "data.csv")], parse_format(step), folder, **options)


def read(source: CsvSource, folder: Path) -> tuple[list[Any], list[RangeResult]]:
    """Read all ranges one after the other, as tasks would."""
    rows: list[Any] = []
    results = []
    for piece in source.ranges:
        output = folder / f"part-{piece.index}"
        task = CsvTask(piece, source.form, source.columns, str(output), 0)
        results.append(read_range(task))
        rows += pq.read_table(output).drop_columns([ROW_COLUMN]).to_pylist()
    check_cuts(source, results)
    return rows, results


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(FIELDS, max_size=30), st.integers(1, 30))
@example([['"a\nb"', ","], ['"', ","], ['"a\nb"', ","]] * 5, 3)
def test_pieces_give_what_the_whole_gives(
    tmp_path: Path, fields: list[list[str]], range_size: int
) -> None:
    text = "".join("".join(line) + ",\n" for line in fields)
    whole, wanted = read(opened(tmp_path, text, cut_quoted=False), tmp_path)
    try:
        found, results = read(opened(tmp_path, text, range_size=range_size), tmp_path)
    except CutInsideQuotes:
        return
    failed = any(result.failure for result in wanted)
    assert any(result.failure for result in results) == failed
    if not failed:
        rows, ragged = (
            {sum(getattr(result, what) for result in one) for one in (results, wanted)}
            for what in ("rows", "ragged")
        )
        assert len(rows) == len(ragged) == 1
    if all(result.is_good for result in wanted):
        assert found == whole


def test_paired_quotes_are_cut_right(tmp_path: Path) -> None:
    text = "".join(f'"line {n}\nand ""more""",{n}\n' for n in range(100))
    source = opened(tmp_path, text, range_size=50)
    assert len(source.ranges) > 30
    rows, results = read(source, tmp_path)
    assert rows == [{"a": f'line {n}\nand "more"', "b": str(n)} for n in range(100)]
    assert all(result.is_good for result in results)


def test_pieces_without_quotes_need_no_proof(tmp_path: Path) -> None:
    text = "x,y\n" * 50 + '"x",y\n' + "x,y\n" * 50
    source = opened(tmp_path, text, range_size=40)
    assert [piece.has_quotes for piece in source.ranges].count(True) == 1
    assert len(read(source, tmp_path)[0]) == 101


def test_a_lone_quote_stops_no_cut(tmp_path: Path) -> None:
    text = 'x,5" pipe\n' + "x,y\n" * 400_000
    source = opened(tmp_path, text, range_size=100_000)
    assert len(source.ranges) > 5
    rows, _ = read(source, tmp_path)
    assert len(rows) == 400_001
    assert rows[0] == {"a": "x", "b": '5" pipe'}


def test_a_wrong_cut_is_noticed(tmp_path: Path) -> None:
    # Two lone quotes make a pair, so the first cut falls inside the quoted field.
    text = 'x,5" pipe\n' + 'x,"one\ntwo"\n' + 'x,6" pipe\n' + "x,y\n" * 10
    with pytest.raises(CutInsideQuotes):
        read(opened(tmp_path, text, range_size=14), tmp_path)
    whole, _ = read(opened(tmp_path, text, range_size=14, cut_quoted=False), tmp_path)
    assert len(whole) == 13


def test_a_quote_that_is_never_closed_is_the_files_own_fault(tmp_path: Path) -> None:
    text = "x,y\n" * 10 + 'x,"y\n'
    source = opened(tmp_path, text, cut_quoted=False)
    _, results = read(source, tmp_path)
    assert [result.failure for result in results] == ["quote"]


def test_with_an_escape_character_nothing_is_cut(tmp_path: Path) -> None:
    text = "x,y\\\nz\n" + "x,y\n" * 100
    assert len(opened(tmp_path, text, range_size=50, escape="\\").ranges) == 1
    assert len(opened(tmp_path, "x,y\n" * 100, range_size=50, escape="\\").ranges) > 5

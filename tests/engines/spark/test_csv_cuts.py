"""Files with quotes in several pieces: the same rows as in one, or no rows at all."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from odf.engines.host.engine import SourceFile
from odf.engines.spark.parts import ROW_COLUMN
from odf.engines.spark.readers.csv import CsvSource, CutInsideQuotes, check_cuts, open_csv
from odf.engines.spark.readers.csv_errors import refuse_bad_rows
from odf.engines.spark.readers.csv_format import parse_format
from odf.engines.spark.readers.csv_task import MAX_PROBLEMS, CsvTask, RangeResult, read_range
from odf.errors import BadInputError
from odf.metadata.model import ReadStepCsv

TWO = ("a STRING", "b STRING")
FIELDS = st.lists(st.sampled_from(["x", '"', '""', "\n", ",", '"y"', '"a\nb"', "é"]), max_size=6)


ESCAPED = st.lists(
    st.sampled_from(
        ["x", '"', '\\"', "\\", "\\\\", "\\\n", "\n", ",", '"y"', '"a\nb"', '"\\"\n"', "\r"]
    ),
    max_size=6,
)


def opened(folder: Path, text: str, **options: Any) -> CsvSource:
    path = folder / "data.csv"
    path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
    quote = options.pop("quote", None)
    step = ReadStepCsv(schema=TWO, escape=options.pop("escape", None), quote=quote)
    return open_csv([SourceFile(str(path), "data.csv")], parse_format(step), folder, **options)


def read(source: CsvSource, folder: Path) -> tuple[list[Any], list[RangeResult]]:
    """Read all ranges one after the other, as tasks would."""
    rows: list[Any] = []
    results = []
    for piece in source.ranges:
        output = folder / f"part-{piece.index}"
        task = CsvTask(piece, source.form, source.columns, str(output), 0)
        results.append(read_range(task))
        if results[-1].failure is None:
            rows += pq.read_table(output).drop_columns([ROW_COLUMN]).to_pylist()
    check_cuts(source, results)
    return rows, results


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(FIELDS, max_size=30), st.integers(1, 30))
@example([['"a\nb"', ","], ['"', ","], ['"a\nb"', ","]] * 5, 3)
def test_pieces_give_what_the_whole_gives(
    tmp_path: Path, fields: list[list[str]], range_size: int
) -> None:
    compare(tmp_path, "".join("".join(line) + ",\n" for line in fields), range_size)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(ESCAPED, max_size=30),
    st.integers(1, 30),
    st.sampled_from([None, ""]),
    st.sampled_from([",\n", "\n", ",\r\n"]),
)
@example([["x", "\\\n"], ["x", ","]] * 9, 3, None, "\n")
@example([["x", "\\"], ["x", ","]] * 9, 3, "", "\n")
def test_pieces_with_escapes_give_what_the_whole_gives(
    tmp_path: Path, fields: list[list[str]], range_size: int, quote: str | None, line_end: str
) -> None:
    text = "".join("".join(line) + line_end for line in fields)
    compare(tmp_path, text, range_size, escape="\\", quote=quote)


def compare(tmp_path: Path, text: str, range_size: int, **form: Any) -> None:
    whole, wanted = read(opened(tmp_path, text, cut_quoted=False, **form), tmp_path)
    try:
        found, results = read(opened(tmp_path, text, range_size=range_size, **form), tmp_path)
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


def test_escaped_line_ends_are_no_cuts(tmp_path: Path) -> None:
    text = "".join(f'"line \\"{n}\\" \\\\",and\\\nmore\n' for n in range(100))
    source = opened(tmp_path, text, range_size=50, escape="\\")
    assert len(source.ranges) > 20
    rows, results = read(source, tmp_path)
    assert rows == [{"a": f'line "{n}" \\', "b": "and\nmore"} for n in range(100)]
    assert all(result.is_good for result in results)


def test_a_cut_behind_an_escape_is_noticed(tmp_path: Path) -> None:
    """Where escapes are is only guessed: a range that ends within a record says so."""
    text = "x,y\\\nz\n" + "x,y\n" * 9
    source = opened(tmp_path, text, range_size=100, escape="\\")
    cut = len("x,y\\\n")
    (whole,) = source.ranges
    ranges = (replace(whole, end=cut, goes_on=True), replace(whole, index=1, start=cut))
    with pytest.raises(CutInsideQuotes):
        read(replace(source, ranges=ranges), tmp_path)


def refused(source: CsvSource, folder: Path) -> tuple[list[str], str]:
    """Return what is said of files that cannot be read: the problems and their counts."""
    _, results = read(source, folder)
    with pytest.raises(BadInputError) as caught:
        refuse_bad_rows(source, results)
    return list(caught.value.problems), str(caught.value.details["counts"])


def test_what_follows_bytes_that_are_no_text_is_not_told(tmp_path: Path) -> None:
    """A range with such bytes proves nothing, and this one ends inside the quoted field."""
    text = 'x,5" pi\udcffpe\n' + 'x,"one\ntwo"\n' + 'x,6" pipe\n' + "x,y\n" * 10
    cut = opened(tmp_path, text, range_size=14)
    assert len(cut.ranges) > 3
    assert text.encode(errors="surrogateescape")[: cut.ranges[0].end].endswith(b'"one\n')
    said = refused(cut, tmp_path)
    assert said == refused(opened(tmp_path, text, cut_quoted=False), tmp_path)
    assert said == (["data.csv:1: not utf-8"], "the rest of the file was not looked at")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.sampled_from(["x", '"', "\n", ",", '"a\nb"', "é", "\udcc3"]), max_size=60),
    st.integers(5, 30),
)
def test_pieces_with_bytes_that_are_no_text_fail_where_the_whole_does(
    tmp_path: Path, pieces: list[str], range_size: int
) -> None:
    text = "x,y\n" + "".join(pieces) + "\udcff\n" + "x,y\n" * 9
    wanted, _ = refused(opened(tmp_path, text, cut_quoted=False), tmp_path)
    try:
        found, _ = refused(opened(tmp_path, text, range_size=range_size), tmp_path)
    except CutInsideQuotes:
        return
    told = [problem for problem in found if "wanted 2 fields" not in problem]
    assert told == wanted or len(found) == MAX_PROBLEMS
    assert found[-1] in (*told, *found[MAX_PROBLEMS - 1 :])


def test_other_files_are_told_of_nevertheless(tmp_path: Path) -> None:
    files = []
    for name, data in (("a", b"1\n\xff,2\n\xff\n"), ("b", b"1\n")):
        (tmp_path / name).write_bytes(data)
        files.append(SourceFile(str(tmp_path / name), name))
    source = open_csv(files, parse_format(ReadStepCsv(schema=TWO)), tmp_path, range_size=2)
    assert len(source.ranges) == 4
    problems, counts = refused(source, tmp_path)
    assert problems == ["a:1: wanted 2 fields, got 1", "a:2: not utf-8", *problems[2:]]
    assert problems[2:] == ["b:1: wanted 2 fields, got 1"]
    assert counts == (
        "2 records with a wrong number of fields, the rest of the file was not looked at"
    )


@pytest.mark.parametrize(("text", "escape"), [('"x\udcc3"\udc81', None), ("x\udcc3\\\udc8f", "\\")])
def test_bytes_on_both_sides_of_a_mark_are_no_character(
    text: str, escape: str | None, tmp_path: Path
) -> None:
    source = opened(tmp_path, f'1,"a"\n2,{text}\n', escape=escape)
    assert refused(source, tmp_path)[0] == ["data.csv:2: not utf-8"]

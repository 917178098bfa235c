"""The benchmark program works; how quick anything is, no test says."""

import json
import os
import subprocess
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq
import pytest

from odf.workspace.workspace import Workspace
from tests.bench import data
from tests.bench.figure import (
    BenchError,
    Contestant,
    Figure,
    Goal,
    LeftOut,
    Rate,
    Sample,
    Setup,
)
from tests.bench.figures import FIGURES
from tests.bench.figures.blocks import EncodeBlocks
from tests.bench.figures.chain import ChainFromCache
from tests.bench.figures.startup import Version
from tests.bench.history import with_histories
from tests.bench.options import QUICK, Options
from tests.bench.processes import memory_now, run
from tests.bench.program import main
from tests.bench.results import Result, Series
from tests.bench.workbench import Workbench


class Broken(Figure):
    name: ClassVar = "broken"
    title: ClassVar = "A figure that cannot be taken"
    compares: ClassVar = "Nothing."

    def prepare(self, bench):
        bench.fresh("left-behind").mkdir()
        raise BenchError("there is nothing to measure")


class Absent(Figure):
    name: ClassVar = "absent"
    title: ClassVar = "A figure for another machine"
    compares: ClassVar = "Nothing."

    def prepare(self, _bench):
        raise LeftOut("there is no such | thing here\nreally")


class Counted(Figure):
    """As many rounds as it says itself, and a goal about something that it saw."""

    name: ClassVar = "counted"
    title: ClassVar = "A figure with rounds of its own"
    compares: ClassVar = "Nothing."
    goals: ClassVar = (Goal(3, "seen MB", "MB"), Goal(9, "rate", "rows/s"))

    def prepare(self, _bench):
        ours = Contestant("odf", lambda: Sample(0.5, {"seen MB": 4.0}))
        rate = Rate("rows/s", 10)
        return Setup([ours, Contestant("bare", lambda: Sample(1.0))], rate=rate, rounds=3)


@pytest.fixture
def go(tmp_path):
    """Run the program on given figures and return its exit code, its page and its lines."""

    def take(*figures):
        work, page, lines = tmp_path / "work", tmp_path / "perf.md", tmp_path / "perf.jsonl"
        work.mkdir()
        words = ["--quick", "--wait", "0", "--rounds", "2", "--work", str(work)]
        code = main([*words, "--page", str(page), "--lines", str(lines)], figures)
        assert list(work.iterdir()) == []
        return code, page.read_text(), [json.loads(line) for line in lines.read_text().splitlines()]

    return take


def _options(tmp_path):
    (tmp_path / "work").mkdir()
    return Options(
        QUICK, [], 1, 1, quick=True, wait=0, test_seconds=None, work=None, page=None, lines=None
    )


def test_cheap_figures_are_taken_and_written_down(go):
    code, page, lines = go(Version, EncodeBlocks, ChainFromCache)
    assert code == 0
    assert [line["figure"] for line in lines] == ["version", "blocks", "chain-cached"]
    for line in lines:
        assert line["status"] == "ok"
        assert [len(series["samples"]) for series in line["series"]] == [2, 2]
        assert line["series"][1]["ratio"] > 0
    assert "| `odf --version`" in page
    assert "blocks/s" in page
    assert {"cores", "memory", "kernel"} <= lines[0]["machine"].keys()
    assert {"python", "java", "pyspark", "pyarrow", "odf"} <= lines[0]["versions"].keys()


def test_a_figure_that_fails_does_not_stop_the_others(go):
    code, page, lines = go(Broken, EncodeBlocks)
    assert code == 1
    assert [line["status"] for line in lines] == ["failed", "ok"]
    assert "**failed**: BenchError: there is nothing to measure" in page


def test_what_a_machine_lacks_is_no_failure(go):
    code, page, lines = go(Absent, Counted)
    assert code == 0
    assert [line["status"] for line in lines] == ["left out", "ok"]
    assert "| left out: there is no such \\| thing here |" in page


def test_what_takes_long_is_left_out_of_quick_runs(go):
    class Slow(Counted):
        slow: ClassVar = True

    _, page, (line,) = go(Slow)
    assert line["status"] == "left out"
    assert "too long for a quick run; --only counted takes it" in page


def test_goals_say_what_was_reached(go):
    _, page, (line,) = go(Counted)
    assert [len(series["samples"]) for series in line["series"]] == [3, 3]
    assert "≤ 3 MB (seen MB): **no** (4); ≥ 9 rows/s: yes (20)" in page


def test_a_page_is_made_of_the_newest_of_every_figure(tmp_path):
    page, lines = tmp_path / "perf.md", tmp_path / "perf.jsonl"
    words = ["--wait", "0", "--rounds", "1", "--page", str(page), "--lines", str(lines)]
    figures = (Counted, Absent, Broken)
    assert main([*words, "--only", "absent", "counted"], figures) == 0
    assert main([*words, "--quick", "--only", "broken"], figures) == 1
    assert "cannot be taken" in page.read_text()
    assert main([*words, "--only", "absent", "--merge"], figures) == 0
    merged = page.read_text()
    assert merged.index("| A figure with rounds of its own") < merged.index("left out:")
    assert "* taken 20" in merged
    assert "cannot be taken" not in merged


def test_the_memory_of_commands_is_seen_once_more(tmp_path):
    bench = Workbench(_options(tmp_path), tmp_path / "work")
    with bench.watching() as peaks:
        bench.odf(tmp_path, "--version")
    # A short command may be gone before it is looked at.
    assert len(peaks) <= 1
    with bench.watching() as peaks:
        bench.odf(tmp_path, "engine", "list")
    assert len(peaks) == 1
    assert 5 < peaks[0] < 2_000


def test_memory_is_that_of_a_process_and_its_children():
    held = bytearray(os.urandom(1)) * 50_000_000
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            found = memory_now(os.getpid())
        finally:
            child.kill()
    assert len(held) / 1e6 < found["coordinator"] < 5_000
    assert 0 < found["other"] < 50


def test_histories_continue_where_they_were(tmp_path):
    bench = Workbench(_options(tmp_path), tmp_path / "work")
    (history,) = with_histories(bench, tmp_path / "workspace", "readings", keys=7, lag=50, rows=100)
    history.add(20)
    found = pq.read_table(history.slices).sort_by("offset")
    assert found.column("offset").to_pylist() == list(range(120))
    assert len(set(found.column("event_time").to_pylist())) == 120
    assert set(found.column("k").to_pylist()) == set(range(7))
    state = Workspace.find(tmp_path / "workspace").resolve("readings").dataset.state()
    assert state.watermark is not None
    assert state.watermark.to_datetime() == found.column("event_time")[69].as_py()


def test_revisions_of_a_table_differ_in_two_rows_of_a_hundred(tmp_path):
    paths = [tmp_path / f"{number}.csv" for number in (1, 2)]
    for number, path in enumerate(paths, 1):
        assert data.write_csv(path, seed=1, rows=1_000, revision=number) == 1_000
    first, second = (path.read_text().splitlines() for path in paths)
    assert sum(a != b for a, b in zip(first, second, strict=True)) == 20


def test_errors_in_json_are_shown(tmp_path):
    said = tmp_path / "said.json"
    said.write_text('{"error": {\n  "message": "no such thing",\n  "details": {}\n}}\n')
    with pytest.raises(BenchError, match=r"ended with 4: +.message.: .no such thing"):
        run(["sh", "-c", f"cat {said} >&2; exit 4"], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})


def test_figures_have_names_of_their_own():
    names = [figure.name for figure in FIGURES]
    assert len(set(names)) == len(names)


def test_numbers_are_made_round_by_round():
    def series(name, *values):
        return Series(name, [Sample(value, {"part s": value / 2}) for value in values])

    ours, theirs = series("odf", 2.0, 9.0, 4.0), series("bare", 1.0, 3.0, 4.0)
    result = Result(EncodeBlocks(), [ours, theirs], rate=Rate("blocks/s", 8.0))
    assert (ours.best, ours.median, ours.spread) == (2.0, 4.0, 7 / 4)
    assert ours.extras == {"part s": 2.0}
    assert result.ratio(theirs) == 2.0
    assert result.keeps(Goal(2.0, "ratio", yardstick="bare")) is True
    assert result.keeps(Goal(1.9, "ratio")) is False
    assert result.keeps(Goal(2.1, "rate")) is False
    assert result.keeps(Goal(1.0, "ratio", yardstick="another")) is None


def test_what_a_program_leaves_running_is_ended(tmp_path: Path):
    left = tmp_path / "left"
    script = f"sleep 600 & echo $! > {left}; exit 3"
    with pytest.raises(BenchError, match="ended with 3"):
        run(["sh", "-c", script], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})
    state = Path(f"/proc/{left.read_text().strip()}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "XZ"

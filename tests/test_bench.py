"""The benchmark program works; how quick anything is, no test says."""

import json
from pathlib import Path
from typing import ClassVar

import pytest

from tests.bench.figure import BenchError, Figure, Goal, Rate, Sample
from tests.bench.figures import FIGURES
from tests.bench.figures.blocks import EncodeBlocks
from tests.bench.figures.chain import ChainFromCache
from tests.bench.figures.startup import Version
from tests.bench.processes import run
from tests.bench.program import main
from tests.bench.results import Result, Series


class Broken(Figure):
    name: ClassVar = "broken"
    title: ClassVar = "A figure that cannot be taken"
    compares: ClassVar = "Nothing."

    def prepare(self, bench):
        bench.fresh("left-behind").mkdir()
        raise BenchError("there is nothing to measure")


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

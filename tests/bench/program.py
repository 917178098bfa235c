"""The program: command line in, page and lines out."""

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.figure import Figure
from tests.bench.figures import FIGURES
from tests.bench.machine import describe_machine, describe_versions, load
from tests.bench.merge import newest
from tests.bench.options import QUICK, Options, Sizes
from tests.bench.report import Run, lines, page, table
from tests.bench.results import Result
from tests.bench.runner import take_all
from tests.bench.workbench import Workbench

_PROJECT = Path(__file__).resolve().parent.parent.parent
_LONG_COMMITS = 10_000
_LONG_CHAIN = 100_000


def main(arguments: Sequence[str], figures: Sequence[type[Figure]] = FIGURES) -> int:
    """Take figures as the command line says.

    Args:
        arguments: The command line without the program.
        figures: What there is to take.

    Returns:
        0, or 1 if a figure failed.
    """
    options = _parse(arguments, figures)
    wanted = [one() for one in figures if not options.only or one.name in options.only]
    run = take(options, wanted)
    failed = any(result.failure is not None for result in run.results)
    sys.stdout.write("\n" + table(run.results))
    if options.lines is not None:
        with options.lines.open("a", encoding="utf-8") as file:
            file.write(lines(run))
    if options.merge and options.lines is not None:
        run = replace(run, results=_merged(run.results, newest(options.lines, figures)))
    if options.page is not None:
        options.page.write_text(page(run), encoding="utf-8")
        sys.stdout.write(f"\nwrote {options.page}\n")
    return int(failed)


def _merged(taken: Sequence[Result], earlier: Sequence[Result]) -> list[Result]:
    """Put what this run took into its place among the newest of every figure."""
    mine = {result.figure.name: result for result in taken}
    return [mine.get(result.figure.name, result) for result in earlier]


def take(options: Options, figures: Sequence[Figure]) -> Run:
    """Take figures, and leave nothing behind but the result."""
    started, before = datetime.now(UTC), load()
    with (
        _terminated_as_interrupted(),
        tempfile.TemporaryDirectory(prefix="odf-bench-", dir=options.work) as folder,
    ):
        bench = Workbench(options, Path(folder).resolve())
        machine, versions = describe_machine(bench.folder), describe_versions()
        results = []
        for result in take_all(figures, bench, _tell):
            _tell(table([result]).splitlines()[2])
            results.append(result)
    return Run(
        started=started,
        machine=machine,
        versions=versions,
        load_before=before,
        load_after=load(),
        results=results,
        rounds=(options.rounds, options.heavy_rounds),
        quick=options.quick,
        test_seconds=options.test_seconds,
    )


def _parse(arguments: Sequence[str], figures: Sequence[type[Figure]]) -> Options:
    names = [one.name for one in figures]
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure odf beside yardsticks in the same run and write docs/perf.md.",
        epilog="Figures: " + ", ".join(names),
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=[])
    parser.add_argument("--rounds", type=_positive, help="of every figure (5; 3 with Spark)")
    parser.add_argument("--quick", action="store_true", help="small data, under three minutes")
    parser.add_argument("--long", action="store_true", help="10,000 commits, 100,000 blocks")
    parser.add_argument("--csv-mb", type=_positive, help="size of the ingested CSV (500)")
    parser.add_argument("--table-mb", type=_positive, help="size of the hashed table (256)")
    parser.add_argument("--wait", type=float, help="seconds to wait for a quiet machine (300)")
    parser.add_argument("--test-seconds", type=float, help="how long `make test` took")
    parser.add_argument("--work", type=Path, help="where to make data (a temporary folder)")
    parser.add_argument("--page", type=Path, help="page to write; docs/perf.md by a full run")
    parser.add_argument(
        "--merge", action="store_true", help="page of the newest of every figure in the lines"
    )
    parser.add_argument("--lines", type=Path, default=_PROJECT / "perf.jsonl")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    # Half a page must not replace the whole one, nor rough numbers the good ones.
    full = not given.quick and (given.merge or not given.only)
    if given.quick and given.merge:
        parser.error("--merge is for the page, and quick figures do not go there")
    return Options(
        sizes=_sizes(given),
        only=given.only,
        rounds=given.rounds or (3 if given.quick else 5),
        heavy_rounds=given.rounds or (1 if given.quick else 3),
        quick=given.quick,
        wait=given.wait if given.wait is not None else (10.0 if given.quick else 300.0),
        test_seconds=given.test_seconds,
        work=given.work,
        page=given.page or (_PROJECT / "docs" / "perf.md" if full else None),
        lines=given.lines,
        merge=given.merge,
        seed=given.seed,
    )


def _sizes(given: argparse.Namespace) -> Sizes:
    sizes = QUICK if given.quick else Sizes()
    if given.long:
        sizes = replace(sizes, commits=_LONG_COMMITS, chain=_LONG_CHAIN)
    if given.csv_mb:
        sizes = replace(sizes, csv_mb=given.csv_mb)
    if given.table_mb:
        sizes = replace(sizes, table_mb=given.table_mb)
    return sizes


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("wanted a number above 0")
    return number


def _tell(message: str) -> None:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM clean up as Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

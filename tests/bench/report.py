"""From results to `docs/perf.md`, `perf.jsonl` and what the terminal shows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tests.bench.figure import Goal
from tests.bench.machine import is_quiet
from tests.bench.results import Result, Series

_INTRODUCTION = """\
# Performance

Written by `make bench`; edits are lost with its next run. Each figure is taken beside a yardstick
in the same run, in turns, every other round in the opposite order, because numbers of two runs or
two machines cannot be compared: the ratio is what counts. Data is made from a seed. A dagger (†)
marks figures that were taken while other programs kept more than a quarter of a core busy, which
is looked at between the rounds.

* **median** and **best** are over the rounds; **spread** is largest minus smallest value, as a
  share of the median.
* **ratio** is our time (or memory) through that of the yardstick, round by round, and the median
  of that: below 1 we are quicker.
* **goal** is what was promised, whether it was met, and in brackets what was reached. It is a
  ratio where no unit is given. *left out* is what this machine cannot show.
* **cold** is a command that starts its own engine, **warm** one that finds the engine of an earlier
  command (`engine.idleTimeout`). Engines run in bubblewrap, or as plain processes where that does
  not work; the start of containers is a figure of its own, and no other one uses them.
* Where a figure runs commands, its section has the peak of their memory, all processes added up,
  seen in a further run that is not timed. An engine that stayed is not in it.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the program.

    Attributes:
        started: When.
        machine: What it ran on.
        versions: What was measured.
        load_before: Load averages of 1, 5 and 15 minutes at its start.
        load_after: The same at its end.
        results: The figures.
        rounds: Rounds of light and heavy figures.
        quick: Whether sizes were small.
        test_seconds: How long `make test` took, if somebody said so.
    """

    started: datetime
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    load_before: Sequence[float]
    load_after: Sequence[float]
    results: Sequence[Result]
    rounds: tuple[int, int]
    quick: bool
    test_seconds: float | None = None


def page(run: Run) -> str:
    """Return the page for people."""
    parts = [_INTRODUCTION, _surroundings(run), "## Figures\n", table(run.results)]
    if run.test_seconds is not None:
        parts.append(
            f"`make test` took {run.test_seconds:.0f} s, measured by hand before this run.\n"
        )
    parts.append("## What is compared\n")
    parts += [_section(result) for result in run.results]
    return "\n".join(parts).rstrip() + "\n"


def table(results: Sequence[Result]) -> str:
    """Return the table of all figures."""
    lines = [
        "| figure | odf: median (best, spread) | yardstick: median (best, spread) | ratio | goal |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        if (missing := _missing(result)) is not None:
            said = missing.replace("|", "\\|")[:200]
            lines.append(f"| {result.figure.title} | {said} | | | |")
            continue
        mark = "" if is_quiet(result.others) else " †"
        title = f"{result.figure.title}: {result.size}" if result.size else result.figure.title
        ours = _numbers(result, result.series[0])
        goals = "; ".join(_goal(result, goal) for goal in result.figure.goals)
        for place, yardstick in enumerate(result.series[1:]):
            first = place == 0
            lines.append(
                f"| {title + mark if first else ''} | {ours if first else ''} "
                f"| {yardstick.name}: {_numbers(result, yardstick)} "
                f"| {result.ratio(yardstick):.2f} | {goals if first else ''} |"
            )
    return "\n".join(lines) + "\n"


def _missing(result: Result) -> str | None:
    """Say why there is no figure, if there is none."""
    if result.left_out is not None:
        return f"left out: {result.left_out.splitlines()[0]}"
    return None if result.failure is None else f"**failed**: {result.failure.splitlines()[0]}"


def lines(run: Run) -> str:
    """Return a line of JSON for each figure, raw samples included."""
    shared = {
        "started": run.started.isoformat(timespec="seconds"),
        "machine": run.machine,
        "versions": run.versions,
        "quick": run.quick,
    }
    return "".join(json.dumps({**shared, **_plain(one)}) + "\n" for one in run.results)


def _plain(result: Result) -> dict[str, object]:
    return {
        "figure": result.figure.name,
        "status": _status(result),
        "failure": result.failure,
        "left_out": result.left_out,
        "size": result.size,
        "unit": result.figure.unit,
        "rate": {"unit": result.rate.unit, "amount": result.rate.amount} if result.rate else None,
        "load_before": result.load_before,
        "load_after": result.load_after,
        "others_cores": round(result.others, 3),
        "under_load": not is_quiet(result.others),
        "seconds": round(result.seconds, 3),
        "series": [
            {
                "name": one.name,
                "best": one.best,
                "median": one.median,
                "spread": one.spread,
                "ratio": result.ratio(one) if place else None,
                "samples": [{"value": s.value, **s.extras} for s in one.samples],
            }
            for place, one in enumerate(result.series)
        ],
        "extras": dict(result.extras),
        "goals": [
            {"goal": goal_text(goal), "reached": result.reached(goal), "kept": result.keeps(goal)}
            for goal in result.figure.goals
        ],
    }


def _status(result: Result) -> str:
    if result.left_out is not None:
        return "left out"
    return "ok" if result.failure is None else "failed"


def goal_text(goal: Goal) -> str:
    """Say what was promised."""
    if goal.of == "rate":
        return f"≥ {goal.limit:,.0f} {goal.unit}"
    if goal.of == "ratio":
        return f"≤ {goal.limit:g} of {goal.yardstick}" if goal.yardstick else f"≤ {goal.limit:g}"
    named = f" ({goal.of})" if goal.of not in {"value", "ratio"} else ""
    return f"≤ {goal.limit:g} {goal.unit}".rstrip() + named


def _goal(result: Result, goal: Goal) -> str:
    kept = result.keeps(goal)
    verdict = {True: "yes", False: "**no**", None: "not known"}[kept]
    reached = result.reached(goal)
    got = "" if reached is None else f" ({_plain_number(reached)})"
    return f"{goal_text(goal)}: {verdict}{got}"


def _surroundings(run: Run) -> str:
    rows = [
        ("date", run.started.strftime("%Y-%m-%d %H:%M UTC")),
        *run.machine.items(),
        *run.versions.items(),
        ("rounds", f"{run.rounds[0]}; {run.rounds[1]} of figures that start Spark"),
        ("load average before", " ".join(f"{value:.2f}" for value in run.load_before)),
        ("load average after", " ".join(f"{value:.2f}" for value in run.load_after)),
    ]
    said = "\n".join(f"| {name} | {value} |" for name, value in rows)
    quick = "**A quick run: small sizes, few rounds, first-run costs included.**\n\n"
    return f"{quick if run.quick else ''}| | |\n|---|---|\n{said}\n"


def _section(result: Result) -> str:
    figure = result.figure
    parts = [f"### {figure.title} (`{figure.name}`)\n", figure.compares + "\n"]
    if (missing := _missing(result)) is not None:
        parts.append(f"In this run: {missing}\n")
        return "\n".join(parts)
    more = [
        *(
            f"* {one.name}: {name}: {_plain_number(value)}"
            for one in result.series
            for name, value in one.extras.items()
        ),
        *(f"* {name}: {_plain_number(value)}" for name, value in result.extras.items()),
    ]
    load = (
        f"* load average {result.load_before:.2f} before, {result.load_after:.2f} after; others "
        f"kept {result.others:.2f} cores busy between the rounds"
    )
    taken = [f"* taken {result.taken}"] if result.taken else []
    return "\n".join([*parts, *more, load, *taken]) + "\n"


def _numbers(result: Result, series: Series) -> str:
    median, best = (_shown(result, value) for value in (series.median, series.best))
    return f"{median} ({best}, {series.spread:.0%})"


def _shown(result: Result, value: float) -> str:
    if result.rate is not None and value > 0:
        rate = result.rate.amount / value
        return f"{rate:,.0f} {result.rate.unit}" if rate >= 10 else f"{rate:.1f} {result.rate.unit}"
    if result.figure.unit == "MB":
        return f"{value:,.0f} MB" if value >= 10 else f"{value:.3f} MB"
    if value < 0.1:
        return f"{value * 1000:.2f} ms" if value < 0.01 else f"{value * 1000:.0f} ms"
    return f"{value:.2f} s"


def _plain_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

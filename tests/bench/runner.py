"""Takes figures one after the other; one that fails does not stop the others."""

import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Sequence

from tests.bench.figure import Contestant, Figure, LeftOut, Sample, Setup
from tests.bench.machine import load, others_now, wait_until_quiet
from tests.bench.options import Options
from tests.bench.results import Result, Series
from tests.bench.workbench import Workbench


def take_all(
    figures: Sequence[Figure], bench: Workbench, tell: Callable[[str], None]
) -> Iterator[Result]:
    """Take figures in turn and give each as it is done.

    Args:
        figures: What to take.
        bench: Where.
        tell: Told what is being done.
    """
    budget = bench.options.wait
    for figure in figures:
        if figure.slow and bench.options.quick and figure.name not in bench.options.only:
            reason = f"too long for a quick run; --only {figure.name} takes it"
            yield Result(figure, left_out=reason)
            continue
        budget -= wait_until_quiet(budget)
        tell(f"{figure.name} …")
        result = _take(figure, bench)
        yield result


def _take(figure: Figure, bench: Workbench) -> Result:
    started = time.monotonic()
    before = load()[0]
    try:
        with bench.scope():
            setup = figure.prepare(bench)
            series, others = _rounds(figure, setup, bench.options)
            extras = {**figure.conclude(), **_memory(setup, bench)}
    except LeftOut as error:
        return Result(figure, left_out=str(error), seconds=time.monotonic() - started)
    except Exception as error:  # noqa: BLE001  # whatever it is, the other figures are still wanted
        traceback.print_exc()
        return Result(
            figure,
            failure=f"{type(error).__name__}: {error}",
            load_before=before,
            load_after=load()[0],
            seconds=time.monotonic() - started,
        )
    return Result(
        figure,
        series,
        setup.size,
        setup.rate,
        extras,
        others=others,
        load_before=before,
        load_after=load()[0],
        seconds=time.monotonic() - started,
    )


def _rounds(figure: Figure, setup: Setup, options: Options) -> tuple[list[Series], float]:
    """Run all contestants in each round; every other round in the opposite order.

    Returns:
        The samples, and how many cores others kept busy between the rounds.
    """
    samples: dict[str, list[Sample]] = {one.name: [] for one in setup.contestants}
    if figure.untimed and not options.quick:
        for contestant in setup.contestants:
            contestant.run()
    others = []
    for number in range(setup.rounds or _count(figure, options)):
        others.append(others_now())
        order: Sequence[Contestant] = setup.contestants
        for contestant in order if number % 2 == 0 else order[::-1]:
            samples[contestant.name].append(contestant.run())
    others.append(others_now())
    return [Series(name, found) for name, found in samples.items()], statistics.fmean(others)


def _memory(setup: Setup, bench: Workbench) -> dict[str, float]:
    """Run ours once more, untimed, and see what its processes take: looking costs time."""
    if bench.options.quick:
        return {}
    with bench.watching() as peaks:
        setup.contestants[0].run()
    return {"peak memory of its commands MB": max(peaks)} if peaks else {}


def _count(figure: Figure, options: Options) -> int:
    if figure.fixed_rounds is not None:
        return figure.fixed_rounds
    wanted = options.heavy_rounds if figure.heavy else options.rounds
    return min(wanted, figure.max_rounds or wanted)

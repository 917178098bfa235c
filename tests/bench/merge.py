"""Earlier figures, from their lines: so that a run of some of them can renew the page."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.figure import Figure, Rate, Sample
from tests.bench.results import Result, Series


def newest(path: Path, figures: Sequence[type[Figure]]) -> list[Result]:
    """Read the newest lines of figures.

    Lines of quick runs, and of figures that there are no more, are passed over.

    Args:
        path: The file with a line of JSON for each figure that was taken.
        figures: What there is to take; the results have their order.
    """
    found: dict[str, dict[str, Any]] = {}
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        line = json.loads(text)
        if not line["quick"]:
            found[line["figure"]] = line
    return [_result(one(), found[one.name]) for one in figures if one.name in found]


def _result(figure: Figure, line: dict[str, Any]) -> Result:
    rate = line["rate"]
    return Result(
        figure,
        [Series(one["name"], [_sample(s) for s in one["samples"]]) for one in line["series"]],
        line["size"],
        Rate(rate["unit"], rate["amount"]) if rate else None,
        line["extras"],
        others=line["others_cores"],
        load_before=line["load_before"],
        load_after=line["load_after"],
        seconds=line["seconds"],
        failure=line["failure"],
        left_out=line.get("left_out"),
        taken=f"{line['started'][:16].replace('T', ' ')} UTC, commit {line['versions']['commit']}",
    )


def _sample(sample: dict[str, float]) -> Sample:
    extras = dict(sample)
    return Sample(extras.pop("value"), extras)

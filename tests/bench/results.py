"""What was measured, and the numbers that are made of it."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.bench.figure import Figure, Goal, Rate, Sample


@dataclass(frozen=True, slots=True)
class Series:
    """All samples of one contestant.

    Attributes:
        name: The contestant's.
        samples: One for each round.
    """

    name: str
    samples: Sequence[Sample]

    @property
    def values(self) -> list[float]:
        """The samples without their extras."""
        return [sample.value for sample in self.samples]

    @property
    def best(self) -> float:
        """The smallest value."""
        return min(self.values)

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Distance of the largest and the smallest value, as a share of the median."""
        return (max(self.values) - self.best) / self.median if self.median else 0.0

    @property
    def extras(self) -> dict[str, float]:
        """Medians of what else was seen."""
        names = dict.fromkeys(name for sample in self.samples for name in sample.extras)
        return {
            name: statistics.median(s.extras[name] for s in self.samples if name in s.extras)
            for name in names
        }


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a figure.

    Attributes:
        figure: The figure.
        series: Ours first, then the yardsticks; empty if it failed or was left out.
        size: What it was taken on, in words.
        rate: How to show values as a rate.
        extras: What only all rounds together show.
        others: Cores that others kept busy, between the rounds.
        load_before: Load average of one minute at its start.
        load_after: The same at its end.
        seconds: What it took, with preparation.
        failure: Why there is no figure.
        left_out: Why none was tried: what this machine lacks.
        taken: When, and at which commit, if that was in an earlier run.
    """

    figure: Figure
    series: Sequence[Series] = ()
    size: str = ""
    rate: Rate | None = None
    extras: Mapping[str, float] = field(default_factory=dict)
    others: float = 0.0
    load_before: float = 0.0
    load_after: float = 0.0
    seconds: float = 0.0
    failure: str | None = None
    left_out: str | None = None
    taken: str = ""

    def ratio(self, yardstick: Series) -> float:
        """Return our value through the yardstick's: the median over the rounds."""
        pairs = zip(self.series[0].values, yardstick.values, strict=True)
        return statistics.median(ours / other if other else float("inf") for ours, other in pairs)

    def reached(self, goal: Goal) -> float | None:
        """Return the number that a goal is about; None if this run does not have it."""
        if not self.series:
            return None
        if goal.of == "value":
            return self.series[0].median
        if goal.of == "rate":
            return self.rate.amount / self.series[0].median if self.rate else None
        if goal.of != "ratio":
            return {**self.series[0].extras, **self.extras}.get(goal.of)
        found = [one for one in self.series[1:] if one.name.startswith(goal.yardstick)]
        return self.ratio(found[0]) if found else None

    def keeps(self, goal: Goal) -> bool | None:
        """Say whether a goal is reached; None if this run cannot tell."""
        reached = self.reached(goal)
        if reached is None:
            return None
        return reached >= goal.limit if goal.of == "rate" else reached <= goal.limit

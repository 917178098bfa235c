"""What a figure is: something of ours that is timed, and a yardstick for it in the same run.

A figure prepares whatever it needs and gives contestants, ours first. The runner runs them in
turns, so that what disturbs the machine disturbs all of them. A sample is one number of which
less is better (seconds, or megabytes of memory); rates are made of it only for print.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from tests.bench.workbench import Workbench

Unit = Literal["s", "MB"]


class BenchError(Exception):
    """A figure could not be taken; the message says why."""


class LeftOut(Exception):  # noqa: N818  # nothing is wrong
    """This machine lacks what a figure is about; the message says what."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement.

    Attributes:
        value: In the figure's unit; less is better.
        extras: What else was seen, by name (the unit is part of the name).
    """

    value: float
    extras: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contestant:
    """What is measured: ours, or a yardstick.

    Attributes:
        name: As the page shows it.
        run: Measures once; preparing and cleaning up are not part of the value.
    """

    name: str
    run: Callable[[], Sample]


@dataclass(frozen=True, slots=True)
class Rate:
    """How seconds are shown as a rate.

    Attributes:
        unit: For example `MB/s`.
        amount: What one run handles, for example its megabytes.
    """

    unit: str
    amount: float


@dataclass(frozen=True, slots=True)
class Setup:
    """A figure that is ready to be taken.

    Attributes:
        contestants: Ours first, then yardsticks.
        size: What was made for it, in words, for example `1,000 rows`.
        rate: How to show values as a rate, if that says more than seconds.
        rounds: How many rounds it has, whatever the command line says.
    """

    contestants: Sequence[Contestant]
    size: str = ""
    rate: Rate | None = None
    rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """What was promised.

    Attributes:
        limit: The largest ratio or value, or the smallest rate, that keeps the promise.
        of: What is compared: `ratio` to a yardstick, `value`, `rate`, or the name of an extra.
        unit: For print.
        yardstick: Beginning of the yardstick's name; the first one by default.
    """

    limit: float
    of: str
    unit: str = ""
    yardstick: str = ""


class Figure(abc.ABC):
    """One figure; subclasses are in `tests.bench.figures`, one file for each subject."""

    name: ClassVar[str]
    """What `--only` takes."""

    title: ClassVar[str]
    compares: ClassVar[str]
    """One honest paragraph on what is compared with what."""

    unit: ClassVar[Unit] = "s"
    goals: ClassVar[tuple[Goal, ...]] = ()
    heavy: ClassVar[bool] = False
    """A round takes many seconds: few rounds, and only one in a quick run."""

    untimed: ClassVar[bool] = True
    """Every contestant runs once beforehand, so that files are in memory."""

    slow: ClassVar[bool] = False
    """Takes so long that a quick run leaves it out, unless it is asked for by name."""

    max_rounds: ClassVar[int | None] = None
    fixed_rounds: ClassVar[int | None] = None
    """Rounds whatever the command line says, for figures that have parts of their own."""

    @abc.abstractmethod
    def prepare(self, bench: "Workbench") -> Setup:
        """Make the data and the contestants."""

    def conclude(self) -> Mapping[str, float]:
        """Give what only all rounds together show, by name."""
        return {}

"""How far the event times of two joined rows can be apart, from the condition of the join.

Every comparison is taken for a sum of columns and of a constant that is known within limits:
`b.t < a.t + INTERVAL 1 MONTH` says that `b.t - a.t` is at most 31 days. Limits are never too
narrow, so what follows from them is safe: rows are kept a little longer than they would have to.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from odf.engines.spark.catalyst import Expression
from odf.engines.spark.stateful.eventtime import DAY_MS

_AND: Final = "And"
_AT_MOST: Final = frozenset({"LessThan", "LessThanOrEqual"})
_AT_LEAST: Final = frozenset({"GreaterThan", "GreaterThanOrEqual"})
_EQUAL: Final = frozenset({"EqualTo", "EqualNullSafe"})
_REPLACED: Final = frozenset({"DatetimeSub", "DatetimeAdd", "KnownNotNull", "KnownNullable"})
_PLUS: Final = frozenset(
    {"TimestampAddInterval", "TimeAdd", "DateAddInterval", "TimestampAddYMInterval",
     "DateAddYMInterval", "DateAdd"}
)  # fmt: skip
_MINUS: Final = frozenset({"DateSub", "SubtractTimestamps", "SubtractDates", "DateDiff"})
_TRUNCATED: Final = {
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": DAY_MS,
    "dd": DAY_MS,
    "week": 7 * DAY_MS,
    "month": 31 * DAY_MS,
    "mon": 31 * DAY_MS,
    "mm": 31 * DAY_MS,
    "quarter": 92 * DAY_MS,
    "year": 366 * DAY_MS,
    "yyyy": 366 * DAY_MS,
    "yy": 366 * DAY_MS,
}
_SHORTEST_MONTH: Final = 28 * DAY_MS
_LONGEST_MONTH: Final = 31 * DAY_MS


@dataclass(frozen=True, slots=True)
class Range:
    """Limits of the right side's event time minus the left side's, in milliseconds.

    Attributes:
        lower: The least, or None if there is no limit.
        upper: The most, or None if there is no limit.
    """

    lower: int | None = None
    upper: int | None = None

    def also(self, lower: int | None, upper: int | None) -> "Range":
        """Return the limits of what is within these limits and others."""
        lowers = [limit for limit in (self.lower, lower) if limit is not None]
        uppers = [limit for limit in (self.upper, upper) if limit is not None]
        return Range(max(lowers) if lowers else None, min(uppers) if uppers else None)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of columns (with a factor each) and of a constant between two limits."""

    columns: tuple[tuple[int, int], ...]
    low: int
    high: int

    def plus(self, other: "_Sum") -> "_Sum":
        merged: dict[int, int] = dict(self.columns)
        for column, factor in other.columns:
            merged[column] = merged.get(column, 0) + factor
        kept = tuple(sorted((c, factor) for c, factor in merged.items() if factor))
        return _Sum(kept, self.low + other.low, self.high + other.high)

    def negated(self) -> "_Sum":
        columns = tuple((column, -factor) for column, factor in self.columns)
        return _Sum(columns, -self.high, -self.low)


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """Yield the parts of a condition that all have to hold."""
    if condition.kind == "Between":
        # What it stands for mentions its first argument by a number of its own.
        java = condition.java
        value, lower, upper = (Expression(java.input()), Expression(java.lower()),
                               Expression(java.upper()))  # fmt: skip
        yield _Comparison("GreaterThanOrEqual", value, lower)
        yield _Comparison("LessThanOrEqual", value, upper)
    elif condition.kind == _AND:
        for part in condition.children:
            yield from conjuncts(part)
    else:
        yield condition


class _Comparison(Expression):
    """A comparison that no expression of the plan is."""

    def __init__(self, kind: str, left: Expression, right: Expression) -> None:
        self.kind = kind
        self._sides = [left, right]

    @property
    def children(self) -> list[Expression]:
        return self._sides


def range_of(
    conditions: Iterator[Expression], left: Mapping[int, Any], right: Mapping[int, Any]
) -> Range:
    """Find how far the event times of the sides of a join can be apart.

    Args:
        conditions: What has to hold for two rows to be joined.
        left: Columns of the left side that are its event time, by id.
        right: The same of the right side.
    """
    found = Range()
    for condition in conditions:
        if condition.kind not in _AT_MOST | _AT_LEAST | _EQUAL:
            continue
        first, second = (_sum(side) for side in condition.children)
        if first is None or second is None:
            continue
        difference = first.plus(second.negated())
        if condition.kind in _AT_LEAST:
            difference = difference.negated()
        found = _narrowed(found, difference, left, right)
        if condition.kind in _EQUAL:
            found = _narrowed(found, difference.negated(), left, right)
    return found


def _narrowed(
    found: Range, at_most_zero: _Sum, left: Mapping[int, Any], right: Mapping[int, Any]
) -> Range:
    """Use that a sum is zero or less."""
    plus = [column for column, factor in at_most_zero.columns if factor == 1]
    minus = [column for column, factor in at_most_zero.columns if factor == -1]
    if len(plus) != 1 or len(minus) != 1 or len(at_most_zero.columns) != 2:  # noqa: PLR2004
        return found
    if plus[0] in right and minus[0] in left:
        return found.also(None, -at_most_zero.low)
    if plus[0] in left and minus[0] in right:
        return found.also(at_most_zero.low, None)
    return found


def _sum(expression: Expression) -> _Sum | None:
    kind = expression.kind
    if expression.attribute_id is not None:
        return _Sum(((expression.attribute_id, 1),), 0, 0)
    if expression.is_constant:
        return _constant(expression)
    children = expression.children
    if kind in _REPLACED:
        return _sum(children[0])
    if kind == "Cast":
        return _cast(expression)
    if kind in _PLUS | _MINUS:
        first, second = _sum(children[0]), _sum(children[1])
        if first is None or second is None:
            return None
        return first.plus(second if kind in _PLUS else second.negated())
    if kind == "AddMonths":
        return _months_later(*children)
    if kind in ("TruncTimestamp", "TruncDate"):
        return _truncated(expression)
    return None


def _cast(expression: Expression) -> _Sum | None:
    inner = expression.children[0]
    found = _sum(inner)
    if found is None:
        return None
    before, after = inner.type_name, expression.type_name
    if before.startswith("timestamp") and after == "date":
        return found.plus(_Sum((), -DAY_MS, 0))
    kept = after in ("timestamp", "timestamp_ntz", "date") or after.startswith("interval")
    return found if kept else None


def _truncated(expression: Expression) -> _Sum | None:
    parts = expression.children
    unit, value = (parts[0], parts[1]) if expression.kind == "TruncTimestamp" else parts[1::-1]
    found = _sum(value)
    length = _TRUNCATED.get(str(unit.value).casefold()) if unit.is_constant else None
    if found is None or length is None:
        return None
    return found.plus(_Sum((), -length, 0))


def _constant(expression: Expression) -> _Sum | None:
    """Return the limits of a constant number of days or of an interval."""
    value, dtype = expression.value, expression.type_name
    if value is None:
        return None
    if dtype in ("int", "smallint", "tinyint"):
        return _Sum((), int(value) * DAY_MS, int(value) * DAY_MS)
    if dtype == "interval":
        days, micros = int(value.days) * DAY_MS, int(value.microseconds)
        months = _months(int(value.months))
        exact = _Sum((), days + micros // 1000, days - (-micros // 1000))
        return exact.plus(months)
    if dtype.startswith("interval") and ("year" in dtype or "month" in dtype):
        return _months(int(value))
    if dtype.startswith("interval"):
        return _Sum((), int(value) // 1000, -(-int(value) // 1000))
    return None


def _months_later(day: Expression, months: Expression) -> _Sum | None:
    """Return a day some months later; in a shorter month it is the last one."""
    found = _sum(day)
    if found is None or not months.is_constant or months.value is None:
        return None
    return found.plus(_months(int(months.value)))


def _months(count: int) -> _Sum:
    ends = (count * _SHORTEST_MONTH, count * _LONGEST_MONTH)
    return _Sum((), min(ends), max(ends))

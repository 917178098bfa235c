"""Joins within a range of event times: when their rows are complete, and which rows they need.

`d` is the right side's event time minus the left side's; the condition keeps it between a lower
limit `L` and an upper limit `U`. A pair is complete when both of its rows are. A row of the left
side that met none is known to stay alone when the watermark has passed its event time plus `U`;
one of the right side at its event time minus `L`.

Rows are kept as long as a result that is not complete can need them. In an outer join that is
longer: a row that waits must still find the rows that it has met, or it would be taken for alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from odf.engines.host.engine import HIDDEN_PREFIX
from odf.engines.spark.catalyst import Expression, Plan
from odf.engines.spark.stateful.eventtime import event_time_of
from odf.engines.spark.stateful.kinds import Question, Stateful
from odf.engines.spark.stateful.ranges import conjuncts, range_of
from odf.engines.spark.stateful.words import duration

_LEFT: Final = f"{HIDDEN_PREFIX}left"
_RIGHT: Final = f"{HIDDEN_PREFIX}right"
_NAMES: Final = {
    "Inner": "inner join",
    "Cross": "inner join",
    "LeftOuter": "left join",
    "RightOuter": "right join",
    "FullOuter": "full join",
    "LeftSemi": "semi join",
    "LeftAnti": "anti join",
}
_INNER: Final = frozenset({"Inner", "Cross"})
_LEFT_STAYS: Final = frozenset({"LeftOuter", "FullOuter", "LeftSemi", "LeftAnti"})
_RIGHT_STAYS: Final = frozenset({"RightOuter", "FullOuter"})


@dataclass(frozen=True, slots=True)
class JoinTimes:
    """When the rows of a join are complete, and how long rows are kept for it.

    Attributes:
        hidden: Names and attributes of the columns that tell it.
        completion: The completion time over these columns, in SQL, in milliseconds.
        left_inputs: Positions of the inputs on the left side.
        right_inputs: The same for the right side.
        kept_left_ms: How long rows of the left side are kept.
        kept_right_ms: The same for the right side.
        words: The join in words.
        equal: Whether both sides have the same event time.
    """

    hidden: tuple[tuple[str, Any], ...]
    completion: str
    left_inputs: frozenset[int]
    right_inputs: frozenset[int]
    kept_left_ms: int
    kept_right_ms: int
    words: str
    equal: bool


def derive_join(question: Question, found: Stateful) -> JoinTimes | str:
    """Tell when the rows of a join are complete, from its condition.

    Args:
        question: The query.
        found: The join and its surroundings.

    Returns:
        That, or why it cannot be told.
    """
    join_type = found.node.join_type
    if join_type not in _NAMES:
        return f"a {join_type} join"
    left = _event_times(question, found.below[0])
    right = _event_times(question, found.below[1])
    if not left or not right:
        return "a side of the join does not hand on the event time of its input"
    limits = range_of(_conditions(found), _renamed(found, left), _renamed(found, right))
    if limits.lower is None or limits.upper is None:
        return (
            "the join has no range of event times on both sides: add for example AND "
            "r.event_time BETWEEN l.event_time AND l.event_time + INTERVAL 1 DAY"
        )
    after, before = max(limits.upper, 0), max(-limits.lower, 0)
    kept_left, kept_right = after, before
    if join_type in _LEFT_STAYS:
        kept_right = max(kept_right, after - limits.lower)
    if join_type in _RIGHT_STAYS:
        kept_left = max(kept_left, before + limits.upper)
    hidden = [(_LEFT, _first(left))]
    if join_type not in ("LeftSemi", "LeftAnti"):
        hidden.append((_RIGHT, _first(right)))
    return JoinTimes(
        tuple(hidden),
        _completion(join_type, after, before),
        _inputs(left),
        _inputs(right),
        kept_left,
        kept_right,
        _words(join_type, limits.lower, limits.upper),
        limits.lower == limits.upper == 0,
    )


def _event_times(question: Question, side: Plan) -> dict[int, tuple[Any, frozenset[int]]]:
    """Return the columns of a side that are event times: attribute and inputs by id."""
    found = {}
    for attribute in side.attributes:
        inputs = event_time_of(question, side, attribute.output_id)
        if inputs:
            found[attribute.output_id] = (attribute.java, inputs)
    return found


def _conditions(found: Stateful) -> Iterator[Expression]:
    """Yield what has to hold for two rows to be joined.

    A filter above an inner join is a part of its condition.
    """
    nodes = [found.node]
    if found.node.join_type in _INNER:
        nodes += [node for node in found.above if node.kind == "Filter"]
    for node in nodes:
        if node.condition is not None:
            yield from conjuncts(node.condition)


def _renamed(
    found: Stateful, times: dict[int, tuple[Any, frozenset[int]]]
) -> dict[int, tuple[Any, frozenset[int]]]:
    """Return the event times of a side, also as they are called above the join."""
    known = dict(times)
    for node in reversed(found.above):
        for java in node.projected if node.kind == "Project" else ():
            named = Expression(java)
            inner = named.children[0].attribute_id if named.kind == "Alias" else None
            if inner in known:
                known[named.output_id] = known[inner]
    return known


def _completion(join_type: str, after: int, before: int) -> str:
    left, right = (f"unix_millis(CAST({name} AS TIMESTAMP))" for name in (_LEFT, _RIGHT))
    if join_type in ("LeftSemi", "LeftAnti"):
        return f"{left} + {after}L"
    if join_type in _INNER:
        return f"greatest({left}, {right})"
    return (
        f"CASE WHEN {_RIGHT} IS NULL THEN {left} + {after}L "
        f"WHEN {_LEFT} IS NULL THEN {right} + {before}L ELSE greatest({left}, {right}) END"
    )


def _first(times: dict[int, tuple[Any, frozenset[int]]]) -> Any:
    return next(iter(times.values()))[0]


def _inputs(times: dict[int, tuple[Any, frozenset[int]]]) -> frozenset[int]:
    return frozenset().union(*(inputs for _, inputs in times.values()))


def _words(join_type: str, lower: int, upper: int) -> str:
    if lower == upper == 0:
        return f"{_NAMES[join_type]} by equal event time"
    return f"{_NAMES[join_type]} within {duration(max(upper, -lower, upper - lower))}"

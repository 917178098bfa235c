"""Event time in a plan: which columns are it, which windows and ranges are made of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from odf.engines.spark.catalyst import Expression, Plan
from odf.engines.spark.stateful.kinds import Question
from odf.engines.spark.stateful.lineage import PASSING, origins

DAY_MS: Final = 86_400_000
_TIMES: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
_CONVERSION: Final = "PreciseTimestampConversion"


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A window of event time that rows are put into.

    Attributes:
        inputs: Positions of the inputs whose event time it is.
        length_ms: How long it is, rounded up; None for session windows.
    """

    inputs: frozenset[int]
    length_ms: int | None


def event_time_of(question: Question, plan: Plan, attribute_id: int) -> frozenset[int]:
    """Return the inputs whose event time a column is; empty if it is anything else.

    Args:
        question: The query.
        plan: A node of its plan, under which each row is mapped by itself.
        attribute_id: A column of the node.
    """
    found = origins(plan, attribute_id, question.views)
    numbers = set()
    for origin in found:
        number = question.number_of(origin.view)
        if origin.column != question.inputs[number].vocab.event_time_column:
            return frozenset()
        numbers.add(number)
    return frozenset(numbers)


def time_window_of(question: Question, plan: Plan, attribute_id: int) -> TimeWindow | None:
    """Return the window of event time that a column is, or None if it is anything else.

    Args:
        question: The query.
        plan: A node of its plan, under which each row is mapped by itself.
        attribute_id: A column of the node.
    """
    made = list(_computed(question, plan, attribute_id))
    windows = [
        None if expression is None else _window(question, expression, below)
        for expression, below in made
    ]
    known = [window for window in windows if window is not None]
    if not known or len(known) < len(windows) or len({w.length_ms is None for w in known}) > 1:
        return None
    lengths = [window.length_ms for window in known if window.length_ms is not None]
    inputs = frozenset().union(*(window.inputs for window in known))
    return TimeWindow(inputs, max(lengths) if lengths else None)


def _computed(
    question: Question, plan: Plan, attribute_id: int
) -> Iterator[tuple[Expression | None, Plan]]:
    """Yield what computes a column, in each branch of a union; None if a view has it."""
    if plan.kind == "View" and plan.view_name.casefold() in question.views:
        yield None, plan
    elif plan.kind == "Project":
        for java in plan.projected:
            named = Expression(java)
            if named.output_id == attribute_id:
                yield from _computed_by(question, named, plan.children[0])
    elif plan.kind == "Expand":
        position = plan.output_ids.index(attribute_id)
        for values in plan.expand_lists:
            yield from _computed_by(question, values[position], plan.children[0])
    elif plan.kind == "Union":
        position = plan.output_ids.index(attribute_id)
        for child in plan.children:
            yield from _computed(question, child, child.output_ids[position])
    elif plan.kind in PASSING and attribute_id in plan.children[0].output_ids:
        yield from _computed(question, plan.children[0], attribute_id)
    else:
        yield None, plan


def _computed_by(
    question: Question, expression: Expression, below: Plan
) -> Iterator[tuple[Expression | None, Plan]]:
    inner = expression.children[0] if expression.kind == "Alias" else expression
    if inner.attribute_id is not None:
        yield from _computed(question, below, inner.attribute_id)
    else:
        yield inner, below


def _window(question: Question, expression: Expression, below: Plan) -> TimeWindow | None:
    """Recognise what Spark makes of `window` and `session_window`.

    Nothing else makes the conversions that are in there: no function that queries can call does.
    """
    while expression.kind == "KnownNullable":
        expression = expression.children[0]
    if expression.kind != "CreateNamedStruct" or len(expression.children) != 4:  # noqa: PLR2004
        return None
    _, start, _, end = expression.children
    times = [part.children[0] for part in start.walk() if part.kind == _CONVERSION]
    innermost = [time for time in times if not _converts(time)]
    if not innermost:
        return None
    column = plain_time(innermost[0])
    inputs = frozenset() if column is None else event_time_of(question, below, column)
    if not inputs:
        return None
    if len(times) == 2 and not innermost[1:] and times[0].kind == _CONVERSION:  # noqa: PLR2004
        return TimeWindow(inputs, None)
    length = _length_ms(end)
    return None if length is None else TimeWindow(inputs, length)


def _converts(expression: Expression) -> bool:
    return any(part.kind == _CONVERSION for part in expression.walk())


def _length_ms(end: Expression) -> int | None:
    """Return the length of a window: what its end adds last to its start, in microseconds."""
    inner = end
    while inner.kind in ("KnownNullable", _CONVERSION):
        inner = inner.children[0]
    if inner.kind != "Add" or inner.children[1].kind != "Literal":
        return None
    return -(-int(inner.children[1].value) // 1000)


def plain_time(expression: Expression) -> int | None:
    """Return the column that an expression is, past casts between times that change no moment."""
    date_between = False
    inner = expression
    while inner.kind == "Cast":
        if inner.type_name not in _TIMES:
            return None
        date_between = date_between or inner.type_name == "date"
        inner = inner.children[0]
    if inner.attribute_id is None or inner.type_name not in _TIMES:
        return None
    if date_between and inner.type_name != "date":
        return None
    return inner.attribute_id

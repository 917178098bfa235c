"""Whether the rows of a result come in time for queries that read it by event time.

A row leaves when it is complete, and the watermark of its block says that nothing earlier is to
come. Who reads the result takes a row for late whose event time the watermark of an earlier block
has passed. That cannot happen if the event time of the result is its completion time.
"""

from dataclasses import dataclass
from typing import Final

from odf.engines.spark.catalyst import Expression
from odf.engines.spark.stateful.eventtime import event_time_of
from odf.engines.spark.stateful.kinds import Question, Stateful

_END: Final = "end"
_INNER: Final = frozenset({"Inner", "Cross"})


def window_warnings(question: Question, found: Stateful, window: int) -> tuple[str, ...]:
    """Warn if the event time of a windowed aggregate is not the end of the window.

    Args:
        question: The query.
        found: The aggregate and its surroundings.
        window: The column of the window.
    """
    made = _event_time(question, found)
    if made is not None and (made.field, made.expression.attribute_id) == (_END, window):
        return ()
    return (_warning(question, "the end of its window", "window.end"),)


def key_warnings(question: Question, found: Stateful, key: int) -> tuple[str, ...]:
    """Warn if the event time of groups by event time is another.

    Args:
        question: The query.
        found: The aggregate or distinct rows, and their surroundings.
        key: The column of the event time.
    """
    made = _event_time(question, found)
    if made is not None and (made.field, made.expression.attribute_id) == (None, key):
        return ()
    return (_warning(question, "that of its rows", question.inputs[0].vocab.event_time_column),)


def join_warnings(question: Question, found: Stateful, *, equal: bool) -> tuple[str, ...]:
    """Warn if the event time of a join's rows is not the later one of both sides.

    Args:
        question: The query.
        found: The join and its surroundings.
        equal: Whether both sides have the same event time.
    """
    made = _event_time(question, found)
    if made is not None:
        later = made.expression.kind == "Greatest"
        combined = later or made.expression.kind == "Coalesce"
        parts = made.expression.children if combined else [made.expression]
        if all(_is_event_time(question, found, part) for part in parts) and (
            equal or (later and found.node.join_type in _INNER)
        ):
            return ()
    example = "greatest(l.event_time, r.event_time)"
    return (_warning(question, "the later one of both sides", example),)


def _warning(question: Question, what: str, example: str) -> str:
    name = question.vocab.event_time_column
    return (
        f"the `{name}` of the result can be earlier than the time when a row is complete: a query "
        f"with a window, a range join or an as-of join over it would take rows for late; make it "
        f"{what}, for example {example} AS {name}"
    )


@dataclass(frozen=True, slots=True)
class _Made:
    """What a column is made of: an expression, or one field of it."""

    expression: Expression
    field: str | None = None


def _event_time(question: Question, found: Stateful) -> _Made | None:
    """Return what computes the event time of the result over the columns of the stateful node."""
    root = (*found.above, found.node)[0]
    name = question.vocab.event_time_column
    made = next((_Made(item) for item in root.attributes if item.name == name), None)
    for node in found.above:
        if node.kind == "Project" and made is not None:
            made = _projected([Expression(java) for java in node.projected], made)
    if made is not None and found.node.kind == "Aggregate":
        made = _projected(found.node.aggregates, made)
    return made


def _projected(columns: list[Expression], made: _Made) -> _Made | None:
    """Go on from columns of a projection to what they are made of."""
    number = made.expression.attribute_id
    if number is None:
        # It is computed above, of columns that have to be handed on as they are.
        handed_on = {column.output_id for column in columns if column.attribute_id is not None}
        return made if made.expression.mentioned <= handed_on else None
    for column in columns:
        if column.output_id == number:
            inner = column.children[0] if column.kind == "Alias" else column
            if inner.kind == "GetStructField" and made.field is None:
                return _Made(inner.children[0], str(inner.java.extractFieldName()))
            return _Made(inner, made.field)
    return None


def _is_event_time(question: Question, found: Stateful, part: Expression) -> bool:
    number = part.attribute_id
    return number is not None and any(
        number in side.output_ids and bool(event_time_of(question, side, number))
        for side in found.below
    )

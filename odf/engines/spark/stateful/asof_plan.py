"""As-of joins in an analysed plan: where they are, what they consist of, what is refused.

An as-of join finds, for each row of its left side, the version of the right side that was valid
at the row's event time. It may stand under nodes that map each row by itself, and its left side
may be an as-of join again (rows enriched from one table after the other).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from odf.engines.spark.catalyst import AS_OF_HINT, Expression, Plan
from odf.engines.spark.query.plans import is_stateless, stateful_construct
from odf.engines.spark.stateful.lineage import origins_of, views_below, without_casts
from odf.errors import InvalidQueryError

_TRANSPARENT: Final = frozenset({"Filter", "Generate", "PipeOperator", "Project", "SubqueryAlias"})
_OUTER: Final = {"Inner": False, "LeftOuter": True}
_CHAIN_HINT: Final = (
    "make the as-of join a derivative of its own, and this one a derivative over its rows"
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """One of the equalities by which versions are found.

    Attributes:
        left: What it compares of the left side.
        right: What it compares of the right side.
        null_safe: Whether null equals null (`<=>`).
    """

    left: Expression
    right: Expression
    null_safe: bool


@dataclass(frozen=True, slots=True)
class AsOfNode:
    """An as-of join, however it was written.

    Attributes:
        left: The rows.
        right: The versions.
        left_time: Event time of the rows.
        right_time: Event time of the versions, of the same type.
        keys: By what versions are found; none for one series of versions.
        inclusive: Whether a version is valid at its very event time.
        outer: Whether rows without a version stay.
    """

    left: Plan
    right: Plan
    left_time: Expression
    right_time: Expression
    keys: tuple[KeyPair, ...]
    inclusive: bool
    outer: bool


def chain_nodes(plan: Plan, inputs: Mapping[str, str]) -> Iterator[Plan]:
    """Yield the as-of joins of a plan that consists of them and of nodes that map each row.

    Args:
        plan: An analysed plan with `AsOfJoin` nodes.
        inputs: Names of the input views, casefolded, each with its event time column.

    Raises:
        InvalidQueryError: Something else is above, below or beside them.
    """
    construct = stateful_construct(plan)
    if plan.kind == "AsOfJoin":
        left, right = plan.children
        if not is_stateless(left, inputs):
            yield from chain_nodes(left, inputs)
        _check_versions(right, inputs)
        yield plan
    elif construct is not None:
        raise InvalidQueryError(
            f"the query: {construct} stands together with an as-of join",
            hint=_CHAIN_HINT,
            details={"construct": construct},
        )
    elif plan.kind == "View" and plan.view_name.casefold() in inputs:
        raise InvalidQueryError(
            f"the query: a branch of the union reads `{plan.view_name}` without an as-of join, "
            "another branch has one",
            hint="make each of the branches a derivative of its own",
        )
    elif plan.kind in _TRANSPARENT or plan.kind in {"Union", "View"}:
        for child in plan.children:
            yield from chain_nodes(child, inputs)
    else:
        raise InvalidQueryError(
            f"the query: the construct {plan.kind} stands together with an as-of join",
            hint=_CHAIN_HINT,
        )


def take_apart(node: Plan, inputs: Mapping[str, str]) -> AsOfNode:
    """Say what an `AsOfJoin` consists of.

    Args:
        node: The node.
        inputs: Names of the input views, casefolded, each with its event time column.

    Raises:
        InvalidQueryError: It is not of the kind that can be run bit by bit.
    """
    left, right = node.children
    if node.join_type not in _OUTER:
        raise InvalidQueryError(f"the query: an as-of join cannot be {node.join_type}")
    match = node.match_condition
    if match.kind not in {"GreaterThanOrEqual", "GreaterThan"}:
        raise InvalidQueryError(
            f"the query: MATCH_CONDITION {match} looks for a version that comes later; wanted the "
            "one that was valid at the row's event time",
            hint=AS_OF_HINT,
        )
    left_time, right_time = match.children
    for side, time in ((left, left_time), (right, right_time)):
        if not is_event_time(side, time, inputs):
            raise InvalidQueryError(
                f"the query: MATCH_CONDITION {match} compares {time}, which is not the event time "
                "of an input as it is",
                hint=AS_OF_HINT,
            )
    return AsOfNode(
        left=left,
        right=right,
        left_time=left_time,
        right_time=right_time,
        keys=tuple(key_pairs(node)),
        inclusive=match.kind == "GreaterThanOrEqual",
        outer=_OUTER[node.join_type],
    )


def key_pairs(node: Plan) -> Iterator[KeyPair]:
    """Yield the equalities of a join.

    Args:
        node: A `Join` or an `AsOfJoin`.

    Raises:
        InvalidQueryError: Its condition says something else too.
    """
    if node.condition is None:
        return
    left, right = (set(child.output_ids) for child in node.children)
    for part in conjuncts(node.condition):
        pair = _key_pair(part, left, right)
        if pair is None:
            raise InvalidQueryError(
                f"the query: ON of an as-of join says {part}; wanted equalities of a column of "
                "each side only",
                hint="filter the versions in a subquery, or the result in WHERE",
            )
        yield pair


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """Yield what a condition joins by AND."""
    if condition.kind == "And":
        for child in condition.children:
            yield from conjuncts(child)
    else:
        yield condition


def is_event_time(plan: Plan, expression: Expression, inputs: Mapping[str, str]) -> bool:
    """Tell whether an expression is the event time of the inputs below a plan, handed on as it is.

    Args:
        plan: The node that has it.
        expression: The expression; a date may be cast to a timestamp.
        inputs: Names of the input views, casefolded, each with its event time column.
    """
    if expression.kind == "Cast" and expression.type_name == "date":
        return False  # Rows of one day would be equal, although more of that day may come.
    found = origins_of(plan, without_casts(expression), inputs)
    return bool(found) and all(
        origin.column.casefold() == inputs[origin.view].casefold() for origin in found
    )


def has_as_of_join(plan: Plan, inputs: Mapping[str, str]) -> bool:
    """Tell whether there is an `AsOfJoin` anywhere in a plan."""
    return any(node.kind == "AsOfJoin" for node in plan.walk(inputs))


def left_and_right(plan: Plan, inputs: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """Return the names of the inputs whose rows are enriched, and of those that give versions.

    Args:
        plan: A plan that `chain_nodes` accepts.
        inputs: Names of the input views, casefolded.
    """
    rows: set[str] = set()
    versions: set[str] = set()
    for node in chain_nodes(plan, inputs):
        left, right = node.children
        versions.update(views_below(right, inputs))
        if is_stateless(left, inputs):
            rows.update(views_below(left, inputs))
    return rows, versions


def _key_pair(part: Expression, left: set[int], right: set[int]) -> KeyPair | None:
    if part.kind not in {"EqualTo", "EqualNullSafe"}:
        return None
    null_safe = part.kind == "EqualNullSafe"
    one, other = part.children
    for rows, versions in ((one, other), (other, one)):
        # What is compared with the versions may be a constant.
        if versions.mentioned and versions.mentioned <= right and rows.mentioned <= left:
            return KeyPair(rows, versions, null_safe)
    return None


def _check_versions(right: Plan, inputs: Mapping[str, str]) -> None:
    if not is_stateless(right, inputs):
        found = (stateful_construct(node) for node in right.walk(inputs))
        construct = next((words for words in found if words), "another construct")
        raise InvalidQueryError(
            f"the query: the versions of an as-of join come from {construct}",
            hint="make that a derivative of its own, and join with its rows",
            details={"construct": construct},
        )
    if any(node.kind == "Generate" for node in right.walk(inputs)):
        raise InvalidQueryError(
            "the query: LATERAL VIEW makes several versions of one row, whose order is not defined",
            hint="make that a derivative of its own, and join with its rows",
        )

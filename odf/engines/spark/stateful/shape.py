"""The shape of a plan: the one node that looks at more than one row, and what is around it."""

from collections.abc import Collection
from typing import Final

from odf.engines.spark.catalyst import Plan
from odf.engines.spark.query.plans import stateful_construct
from odf.engines.spark.stateful.kinds import Stateful

_UNARY: Final = frozenset(
    {"Filter", "Generate", "PipeOperator", "Project", "SubqueryAlias", "View"}
)


def find_stateful(plan: Plan, views: Collection[str]) -> Stateful | str:
    """Find the only node of a plan that looks at more than one row.

    Args:
        plan: The analysed plan of a query that is not stateless.
        views: Names of the views that are inputs, casefolded.

    Returns:
        The node and its surroundings, or which two constructs are in the way of that.
    """
    above: list[Plan] = []
    node = plan
    while node.kind in _UNARY and not _is_input(node, views):
        if (construct := stateful_construct(node)) is not None:
            return f"it has {construct}"
        above.append(node)
        node = node.children[0]
    below = tuple(node.children)
    here = "UNION ALL of such" if node.kind == "Union" else stateful_construct(node)
    for part in node.expressions:
        if any(inner.plan is not None for inner in part.walk()):
            return f"it has {here} with a subquery"
    for child in below:
        for other in child.walk(views):
            construct = None if other.kind == "Expand" else stateful_construct(other)
            if construct is not None and construct != here:
                return f"it has {here} over {construct}"
            if construct is not None:
                return f"it has {here}"
    return Stateful(tuple(above), node, below)


def _is_input(node: Plan, views: Collection[str]) -> bool:
    return node.kind == "View" and node.view_name.casefold() in views

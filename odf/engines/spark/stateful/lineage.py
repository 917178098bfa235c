"""Where columns of a plan come from: which of them are a view's own, handed on as they are."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from odf.engines.spark.catalyst import Expression, Plan

PASSING: Final = frozenset({"Filter", "Generate", "PipeOperator", "SubqueryAlias", "View"})
"""Nodes whose columns are those of their child (and, with `Generate`, new ones)."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A column of a view.

    Attributes:
        view: Name of the view, casefolded.
        column: Name of the column, as the view has it.
    """

    view: str
    column: str


def origins(plan: Plan, attribute_id: int, views: Collection[str]) -> frozenset[Origin]:
    """Find the columns of views that a column of a plan is.

    Args:
        plan: An analysed plan that has the column.
        attribute_id: The column.
        views: Names of the views at which the search ends, casefolded.

    Returns:
        One column, or one for each branch of a union; none if the column is computed, or comes
        from elsewhere in some branch, such as the versions of an as-of join.
    """
    if plan.kind == "View" and plan.view_name.casefold() in views:
        name = plan.output[plan.output_ids.index(attribute_id)][0]
        return frozenset({Origin(plan.view_name.casefold(), name)})
    if plan.kind == "Project":
        return _through_projection(plan, attribute_id, views)
    if plan.kind == "Union":
        position = plan.output_ids.index(attribute_id)
        found = [origins(child, child.output_ids[position], views) for child in plan.children]
        return frozenset().union(*found) if all(found) else frozenset()
    if plan.kind == "AsOfJoin" or plan.kind in PASSING:
        child = plan.children[0]
        if attribute_id in child.output_ids:
            return origins(child, attribute_id, views)
    return frozenset()


def origins_of(plan: Plan, expression: Expression, views: Collection[str]) -> frozenset[Origin]:
    """Find the columns of views that an expression over a plan is; see `origins`."""
    attribute_id = expression.attribute_id
    return frozenset() if attribute_id is None else origins(plan, attribute_id, views)


def without_casts(expression: Expression) -> Expression:
    """Return what is below the casts that an analyser puts around the sides of a comparison."""
    while expression.kind == "Cast":
        expression = expression.children[0]
    return expression


def views_below(plan: Plan, views: Collection[str]) -> list[str]:
    """Return the names, casefolded, of the views that a plan reads, from left to right.

    Args:
        plan: An analysed plan; a view that it reads twice is named twice.
        views: Names of the views, casefolded; they are not entered.
    """
    return [
        node.view_name.casefold()
        for node in plan.walk(views)
        if node.kind == "View" and node.view_name.casefold() in views
    ]


def columns_read(plan: Plan, wanted: Collection[int], views: Collection[str]) -> frozenset[Origin]:
    """Find the columns of views that decide on columns of a plan: their values, and which rows.

    Args:
        plan: An analysed plan that maps each row by itself.
        wanted: The columns.
        views: Names of the views at which the search ends, casefolded.
    """
    if plan.kind == "View" and plan.view_name.casefold() in views:
        return frozenset(
            Origin(plan.view_name.casefold(), name)
            for (name, _), number in zip(plan.output, plan.output_ids, strict=True)
            if number in wanted
        )
    if plan.kind == "Union":
        places = [place for place, number in enumerate(plan.output_ids) if number in wanted]
        below = [{child.output_ids[place] for place in places} for child in plan.children]
    else:
        below = [_mentioned_for(plan, set(wanted))] * len(plan.children)
    found = (
        columns_read(child, numbers & set(child.output_ids), views)
        for child, numbers in zip(plan.children, below, strict=True)
    )
    return frozenset().union(*found)


def _mentioned_for(plan: Plan, wanted: set[int]) -> set[int]:
    """Return the columns below a node that decide on some of its columns."""
    match plan.kind:
        case "Project":
            named = [item for item in plan.expressions if item.output_id in wanted]
            return set().union(*(item.mentioned for item in named))
        case "Expand":
            places = [place for place, number in enumerate(plan.output_ids) if number in wanted]
            values = [values[place] for values in plan.expand_lists for place in places]
            return set().union(*(value.mentioned for value in values))
        case "Filter" | "Generate":
            return wanted.union(*(item.mentioned for item in plan.expressions))
    return wanted


def _through_projection(plan: Plan, attribute_id: int, views: Collection[str]) -> frozenset[Origin]:
    for named in plan.expressions:
        if named.output_id == attribute_id:
            inner = named.children[0] if named.kind == "Alias" else named
            return origins_of(plan.children[0], inner, views)
    return frozenset()


def _through_lists(plan: Plan, attribute_id: int, views: Collection[str]) -> frozenset[Origin]:
    """Each row becomes one row of each list: in all of them the column has to be one of a view."""
    position = plan.output_ids.index(attribute_id)
    values = [values[position] for values in plan.expand_lists]
    found = [origins_of(plan.children[0], value, views) for value in values]
    return frozenset().union(*found) if all(found) else frozenset()

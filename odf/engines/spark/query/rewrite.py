"""Hidden columns through a stateless query: where each row of the result came from.

The analysed plan is built anew with two more columns in every node (spark-stateful.md §1 "Hidden
keys"). So the order of the result and the pairs of corrections are known whatever the query does
with the visible columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odf.engines.host.engine import HIDDEN_BRANCH, HIDDEN_OFFSET
from odf.engines.spark.catalyst import Catalyst, Plan


@dataclass(frozen=True, slots=True)
class _Tracked:
    """A node that has the hidden columns among its output, with their attributes."""

    plan: Plan
    branch: Any
    position: Any


class Rewriter:
    """Adds the hidden columns to one plan.

    Args:
        catalyst: Spark's analyser.
        inputs: Names of the views that are inputs, casefolded, each with the name of the column
            that says where a row stands; that may be hidden from the query.
    """

    def __init__(self, catalyst: Catalyst, inputs: Mapping[str, str]) -> None:
        self._catalyst = catalyst
        self._inputs = inputs
        self._branches = 0

    def rewrite(self, plan: Plan) -> Plan:
        """Return the plan with `HIDDEN_BRANCH` and `HIDDEN_OFFSET` after its own columns.

        Branches count the inputs as the query names them, from left to right.

        Args:
            plan: An analysed plan that is stateless and has no rows of its own.
        """
        visible = [attribute for _, attribute in plan.output]
        found = self._track(plan)
        return self._catalyst.project([*visible, found.branch, found.position], found.plan)

    def _track(self, node: Plan) -> _Tracked:
        match node.kind:
            case "View" if node.view_name.casefold() in self._inputs:
                branch = self._branches
                self._branches += 1
                position = self._inputs[node.view_name.casefold()]
                return self._input(node.children[0], branch, position)
            case "View" | "SubqueryAlias" | "PipeOperator":
                return self._track(node.children[0])
            case "Project":
                child = self._track(node.children[0])
                return self._project(node, child)
            case "Filter" | "Generate":
                child = self._track(node.children[0])
                over = self._catalyst.with_child(node, child.plan)
                return _Tracked(over, child.branch, child.position)
            case "Union":
                children = [self._track(child).plan for child in self._same_columns(node)]
                union = self._catalyst.with_children(node, children)
                (_, branch), (_, position) = union.output[-2:]
                return _Tracked(union, branch, position)
        raise TypeError(f"a {node.kind} cannot carry hidden columns")

    def _same_columns(self, union: Plan) -> list[Plan]:
        """Return the branches of a union, each as a projection.

        Below a projection hidden columns may be anywhere; it puts them last.
        """
        return [
            self._catalyst.project([attribute for _, attribute in child.output], child)
            for child in union.children
        ]

    def _project(self, node: Plan, child: _Tracked) -> _Tracked:
        columns = [*self._catalyst.project_list(node), child.branch, child.position]
        over = self._catalyst.project(columns, child.plan)
        return _Tracked(over, child.branch, child.position)

    def _input(self, node: Plan, branch: int, position_column: str) -> _Tracked:
        output = dict(node.output)
        position = output.get(position_column)
        if position is None:
            # The column is hidden from the query: it is below the projection that hides it.
            return self._project(node, self._input(node.children[0], branch, position_column))
        named_branch = self._catalyst.named(self._catalyst.integer(branch), HIDDEN_BRANCH)
        named_position = self._catalyst.named(position, HIDDEN_OFFSET)
        columns = [attribute for _, attribute in node.output]
        over = self._catalyst.project([*columns, named_branch, named_position], node)
        (_, branch_attribute), (_, position_attribute) = over.output[-2:]
        return _Tracked(over, branch_attribute, position_attribute)

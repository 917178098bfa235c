"""Columns of the inputs, brought along through a plan that maps each row by itself.

The analysed plan is built anew with more columns in every node (spark-stateful.md §1 "Hidden
keys"), whatever the query does with the visible ones.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from odf.engines.host.engine import HIDDEN_BRANCH
from odf.engines.spark.catalyst import Plan
from odf.engines.spark.query.plans import STATELESS_ANALYSED, stateful_construct
from odf.engines.spark.stateful.nodes import Nodes

_ROW_BY_ROW: Final = STATELESS_ANALYSED | {"Expand"}


@dataclass(frozen=True, slots=True)
class Carried:
    """A node that has the carried columns among its output.

    Attributes:
        plan: The node.
        branch: Attribute of the number of the branch of the union that a row comes from.
        columns: Attributes of the carried columns, in the order in which they were asked for.
    """

    plan: Plan
    branch: Any
    columns: tuple[Any, ...]

    @property
    def hidden(self) -> tuple[Any, ...]:
        """All attributes that the query itself does not have."""
        return (self.branch, *self.columns)


def is_row_by_row(plan: Plan, inputs: Collection[str]) -> bool:
    """Tell whether a plan makes its rows of one row of an input each, possibly several.

    Args:
        plan: An analysed plan.
        inputs: Names of the input views, casefolded.
    """
    return all(
        node.kind == "Expand" or (node.kind in _ROW_BY_ROW and stateful_construct(node) is None)
        for node in plan.walk(inputs)
    )


class Carrier:
    """Carries columns through one plan.

    Args:
        nodes: Spark's analyser.
        inputs: Names of the views that are inputs, casefolded, each with the columns to carry;
            these may be hidden from the query below the view's own projection.
        names: What the columns are called on their way.
    """

    def __init__(
        self, nodes: Nodes, inputs: Mapping[str, Sequence[str]], names: Sequence[str]
    ) -> None:
        self._nodes = nodes
        self._inputs = inputs
        self._names = names
        self._branches = 0

    def carry(self, node: Plan) -> Carried:
        """Return a node with the columns after its own, or anywhere among them.

        Branches count the inputs as the query names them, from left to right.

        Args:
            node: A plan for which `is_row_by_row` holds.
        """
        match node.kind:
            case "View" if node.view_name.casefold() in self._inputs:
                branch = self._branches
                self._branches += 1
                wanted = self._inputs[node.view_name.casefold()]
                return self._input(node.children[0], branch, wanted)
            case "View" | "SubqueryAlias" | "PipeOperator":
                return self.carry(node.children[0])
            case "Project":
                return self._project(node, self.carry(node.children[0]))
            case "Filter" | "Generate":
                child = self.carry(node.children[0])
                return self._over(self._nodes.with_child(node, child.plan), child)
            case "Expand":
                child = self.carry(node.children[0])
                return self._over(self._nodes.expand(node, child.hidden, child.plan), child)
            case "Union":
                return self._union(node)
        raise TypeError(f"a {node.kind} cannot carry hidden columns")

    def _over(self, plan: Plan, child: Carried) -> Carried:
        return Carried(plan, child.branch, child.columns)

    def _union(self, node: Plan) -> Carried:
        branches = []
        for child in node.children:
            # Below a projection hidden columns may be anywhere; it puts them last.
            columns = [attribute for _, attribute in child.output]
            carried = self.carry(child)
            branches.append(self._nodes.project([*columns, *carried.hidden], carried.plan))
        union = self._nodes.with_children(node, branches)
        hidden = [attribute for _, attribute in union.output[-1 - len(self._names) :]]
        return Carried(union, hidden[0], tuple(hidden[1:]))

    def _project(self, node: Plan, child: Carried) -> Carried:
        columns = [*self._nodes.project_list(node), *child.hidden]
        return self._over(self._nodes.project(columns, child.plan), child)

    def _input(self, node: Plan, branch: int, wanted: Sequence[str]) -> Carried:
        output = dict(node.output)
        if any(name not in output for name in wanted):
            # They are hidden from the query: they are below the projection that hides them.
            return self._project(node, self._input(node.children[0], branch, wanted))
        made = [self._nodes.named(self._nodes.integer(branch), HIDDEN_BRANCH)]
        made += [
            self._nodes.named(output[name], called)
            for name, called in zip(wanted, self._names, strict=True)
        ]
        columns = [attribute for _, attribute in node.output]
        over = self._nodes.project([*columns, *made], node)
        hidden = [attribute for _, attribute in over.output[-len(made) :]]
        return Carried(over, hidden[0], tuple(hidden[1:]))

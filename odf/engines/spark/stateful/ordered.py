"""Order for what depends on it: sorts put into an analysed plan, and who needs one.

Spark gives the rows of a group to an aggregate function in any order. Where the result depends on
that, the rows come in one partition, sorted by a total order (spark-stateful.md §4).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from odf.engines.host.engine import HIDDEN_OFFSET
from odf.engines.spark.catalyst import Plan
from odf.engines.spark.stateful.carry import Carrier, is_row_by_row
from odf.engines.spark.stateful.nodes import AggregateFunction, AggregateParts, Nodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ORDERED_SETTINGS: Final = {
    # Rows that are sorted by key are aggregated one group after the other: no hash map that
    # merges partial results when it runs full, which changes floating sums and lists.
    "spark.sql.execution.replaceHashWithSortAgg": "true",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str((1 << 31) - 1),
}
_SAFE: Final = frozenset(
    {"Count", "BoolAnd", "BoolOr", "BitAndAgg", "BitOrAgg", "BitXorAgg", "CountIf"}
)
_EXTREMES: Final = frozenset({"Min", "Max"})
_COLLATED: Final = "collate"
_FLOATING: Final = ("double", "float")
_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_LIMITS: Final = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Tail"})
_KEEP_ORDER: Final = frozenset({"Project", "SubqueryAlias", "View", "PipeOperator"})


def keep_row_order(spark: "SparkSession") -> None:
    """Have the session give sorted rows to aggregate functions one after the other."""
    for name, value in _ORDERED_SETTINGS.items():
        spark.conf.set(name, value)


def is_exact_number(type_name: str) -> bool:
    """Tell whether sums of a type are the same in any order: integers and decimals."""
    return type_name in _INTEGERS or type_name.startswith("decimal")


def is_order_sensitive(function: AggregateFunction) -> bool:
    """Tell whether a result depends on the order of the rows; functions not known here do."""
    if function.kind in _SAFE:
        return False
    type_name = function.arguments[0].type_name if function.arguments else ""
    match function.kind:
        case kind if kind in _EXTREMES:
            # Texts that are equal for a collation are not the same.
            return _COLLATED in type_name
        case "Sum":
            return not is_exact_number(type_name)
        case "Average":
            # Spark adds integers up as DOUBLE, which is exact for sums up to 2^53.
            return not is_exact_number(type_name) or type_name == "bigint"
    return True


def is_floating_extreme(function: AggregateFunction) -> bool:
    """Tell of a minimum or maximum that could be 0.0 or -0.0, which are equal, by chance."""
    return function.kind in _EXTREMES and any(
        name in function.arguments[0].type_name for name in _FLOATING
    )


def keyed(nodes: Nodes, parts: AggregateParts, child: Plan) -> Plan:
    """Return the rows below an aggregate with its keys as columns after their own.

    Args:
        nodes: Spark's analyser.
        parts: The aggregate.
        child: The rows; they have the columns of the aggregate's child, possibly more.
    """
    known = [attribute for _, attribute in child.output]
    ids = set(child.output_ids)
    made = [key for key in parts.keys if int(key.exprId().id()) not in ids]
    return nodes.project([*known, *made], child)


def group_in_order(nodes: Nodes, parts: AggregateParts, rows: Plan, order: Sequence[Any]) -> Plan:
    """Return an aggregate over sorted rows: the keys and the results of the functions.

    Args:
        nodes: Spark's analyser.
        parts: The aggregate.
        rows: What `keyed` made of its rows.
        order: Attributes by which the rows of a group are ordered.
    """
    keys = [key.toAttribute() for key in parts.keys]
    by = [*keys, *order]
    return _grouped(
        nodes, parts, nodes.gathered([item for item in by if nodes.can_be_sorted(item)], rows)
    )


def _grouped(nodes: Nodes, parts: AggregateParts, rows: Plan) -> Plan:
    """Return the keys and the results of the functions; extremes that are zero are 0.0."""
    keys = [key.toAttribute() for key in parts.keys]
    found = [nodes.named(function.java, function.name) for function in parts.functions]
    grouped = nodes.aggregate(keys, [*keys, *found], rows)
    results = []
    for (_, value), function in zip(grouped.output[len(keys) :], parts.functions, strict=True):
        made = nodes.without_negative_zero(value) if is_floating_extreme(function) else value
        results.append(nodes.as_attribute(made, function.result))
    return nodes.project([*keys, *results], grouped)


def _in_any_order(nodes: Nodes, aggregate: Plan, parts: AggregateParts) -> Plan:
    """Return an aggregate none of whose functions depends on the order of the rows."""
    if not any(is_floating_extreme(function) for function in parts.functions):
        return aggregate
    rows = keyed(nodes, parts, parts.child)
    return nodes.project(parts.outputs, _grouped(nodes, parts, rows))


def order_aggregate(nodes: Nodes, aggregate: Plan, inputs: Mapping[str, str]) -> Plan:
    """Return an aggregate whose functions get their rows by branch of the union, then offset.

    One that depends on no order gets its rows as they come.

    Args:
        nodes: Spark's analyser.
        aggregate: An `Aggregate` over a plan for which `is_row_by_row` holds.
        inputs: Names of the input views, casefolded, each with its offset column.
    """
    parts = nodes.take_apart(aggregate)
    if not any(is_order_sensitive(function) for function in parts.functions):
        return _in_any_order(nodes, aggregate, parts)
    carried = offset_carrier(nodes, inputs).carry(parts.child)
    rows = keyed(nodes, parts, carried.plan)
    grouped = group_in_order(nodes, parts, rows, carried.hidden)
    return nodes.project(parts.outputs, grouped)


def offset_carrier(nodes: Nodes, inputs: Mapping[str, str]) -> Carrier:
    """Return what brings the offsets of the inputs along."""
    return Carrier(nodes, {view: [name] for view, name in inputs.items()}, [HIDDEN_OFFSET])


class TotalOrder:
    """Gives every node of a plan that depends on the order of its rows a total one.

    Rows that map from one row each are in the order of branch and offset; behind a join or an
    aggregate the values themselves decide: rows that are equal in all columns are interchangeable.

    Args:
        nodes: Spark's analyser.
        inputs: Names of the input views, casefolded, each with its offset column.
    """

    def __init__(self, nodes: Nodes, inputs: Mapping[str, str]) -> None:
        self._nodes = nodes
        self._inputs = inputs

    def rewrite(self, node: Plan) -> Plan:
        """Return a plan with sorts where they are needed. Subqueries in expressions stay."""
        if node.kind == "View" and node.view_name.casefold() in self._inputs:
            return node
        match node.kind:
            case "View" | "SubqueryAlias" | "PipeOperator":
                return self.rewrite(node.children[0])
            case "Aggregate":
                return self._aggregate(node)
            case "Window":
                return self._window(node)
            case "Sort":
                child = self.rewrite(node.children[0])
                return self._nodes.sorted_by(
                    [*self._nodes.order_of(node), *self._columns(child)], child, total=True
                )
            case kind if kind in _LIMITS:
                child = self.rewrite(node.children[0])
                if not _is_sorted(node.children[0], self._inputs):
                    child = self._nodes.sorted_by(self._columns(child), child, total=True)
                return self._nodes.with_child(node, child)
        children = [self.rewrite(child) for child in node.children]
        return self._nodes.with_children(node, children) if children else node

    def _aggregate(self, node: Plan) -> Plan:
        child = node.children[0]
        if is_row_by_row(child, self._inputs):
            return order_aggregate(self._nodes, node, self._inputs)
        over = self._nodes.with_child(node, self.rewrite(child))
        parts = self._nodes.take_apart(over)
        if not any(is_order_sensitive(function) for function in parts.functions):
            return _in_any_order(self._nodes, over, parts)
        rows = keyed(self._nodes, parts, parts.child)
        grouped = group_in_order(self._nodes, parts, rows, self._columns(parts.child))
        return self._nodes.project(parts.outputs, grouped)

    def _window(self, node: Plan) -> Plan:
        visible = [attribute for _, attribute in node.output]
        child = node.children[0]
        if is_row_by_row(child, self._inputs):
            carried = offset_carrier(self._nodes, self._inputs).carry(child)
            rows, ties = carried.plan, list(carried.hidden)
        else:
            rows = self.rewrite(child)
            ties = self._columns(rows)
        order = [*self._nodes.partitions_of(node), *self._nodes.order_of(node), *ties]
        # It is sorted as the window wants it, so Spark does not sort again and the ties stay.
        together = self._nodes.gathered(order, rows)
        return self._nodes.project(visible, self._nodes.with_child(node, together))

    def _columns(self, plan: Plan) -> list[Any]:
        found = [attribute for _, attribute in plan.output]
        return [attribute for attribute in found if self._nodes.can_be_sorted(attribute)]


def _is_sorted(node: Plan, inputs: Collection[str]) -> bool:
    while node.kind in _KEEP_ORDER or node.kind in _LIMITS:
        if node.kind == "View" and node.view_name.casefold() in inputs:
            return False
        node = node.children[0]
    return node.kind == "Sort"

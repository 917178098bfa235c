"""Nodes of plans that stateful queries are rebuilt from: the second half of `catalyst`.

Like that module it reaches into Spark's Scala objects; nothing else does.
"""

# ruff: noqa: SLF001  # the parts of Scala's tuples have such names

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from odf.engines.spark.catalyst import Catalyst, Expression, Plan


@dataclass(frozen=True, slots=True)
class AggregateParts:
    """What an `Aggregate` computes, taken apart.

    Attributes:
        keys: The grouping expressions, each with a name. The outputs mention them as attributes.
        functions: The aggregate functions, each of them once.
        outputs: The result as named expressions over the keys and the results of the functions.
        child: The rows that are grouped.
    """

    keys: tuple[Any, ...]
    functions: tuple["AggregateFunction", ...]
    outputs: tuple[Any, ...]
    child: Plan


class AggregateFunction:
    """An aggregate function with its arguments, as a query calls it.

    Args:
        java: The Scala object, an `AggregateExpression`.
    """

    def __init__(self, java: Any) -> None:
        self.java = java
        self._function = java.aggregateFunction()
        self.kind = str(self._function.getClass().getSimpleName()).rstrip("$")
        """Name of its class, without the package."""
        self.name = str(self._function.prettyName())
        """Name of the function, for example `sum` or `try_sum`."""
        self.is_distinct = bool(java.isDistinct())

    def __str__(self) -> str:
        return str(self.java.sql())

    @property
    def arguments(self) -> list[Expression]:
        """What it is applied to."""
        return [Expression(child) for child in _items(self._function.children())]

    @property
    def condition(self) -> Expression | None:
        """What `FILTER (WHERE …)` says."""
        found = self.java.filter()
        return Expression(found.get()) if found.isDefined() else None

    @property
    def result(self) -> Any:
        """The attribute by which outputs mention its result."""
        return self.java.resultAttribute()

    @property
    def buffers(self) -> list[Any]:
        """The attributes of its partial result, as Spark keeps it."""
        return _items(self._function.aggBufferAttributes())

    @property
    def evaluation(self) -> Any:
        """The expression over `buffers` that gives its result."""
        return self._function.evaluateExpression()


class Nodes(Catalyst):
    """Spark's analyser, with what is needed to build aggregates, sorts and joins."""

    @classmethod
    def of(cls, catalyst: Catalyst) -> Self:
        """Return the nodes of the session of an analyser."""
        return cls(catalyst._spark)

    def take_apart(self, aggregate: Plan) -> AggregateParts:
        """Return what an `Aggregate` or a `Distinct` consists of."""
        if aggregate.kind == "Distinct":
            columns = [attribute for _, attribute in aggregate.output]
            aggregate = self.aggregate(columns, columns, aggregate.children[0])
        found = self._module("planning", "PhysicalAggregation").unapply(aggregate.java).get()
        return AggregateParts(
            keys=tuple(_items(found._1())),
            functions=tuple(AggregateFunction(item) for item in _items(found._2())),
            outputs=tuple(_items(found._3())),
            child=Plan(found._4()),
        )

    def gathered(self, attributes: Sequence[Any], child: Plan) -> Plan:
        """Return rows in one partition, in the ascending order of some attributes."""
        return self.sorted_by(attributes, self.in_one_partition(child), total=False)

    def sorted_by(self, expressions: Sequence[Any], child: Plan, *, total: bool) -> Plan:
        """Return rows in ascending order, nulls first.

        Args:
            expressions: What to sort by; a `SortOrder` is taken as it is.
            child: The rows.
            total: Whether all of them are sorted, not each partition by itself.
        """
        orders = self.sequence([self._ascending(item) for item in expressions])
        return Plan(self._logical("Sort")(orders, total, child.java, self._nothing()))

    def expand(self, node: Plan, columns: Sequence[Any], child: Plan) -> Plan:
        """Return an `Expand` over another child, with attributes of that handed on."""
        projections = [
            self.sequence([*_items(projection), *columns])
            for projection in _items(node.java.projections())
        ]
        output = [*_items(node.java.output()), *columns]
        made = self._logical("Expand")
        return Plan(made(self.sequence(projections), self.sequence(output), child.java))

    def semi_join(self, left: Plan, right: Plan, pairs: Sequence[tuple[Any, Any]]) -> Plan:
        """Return the rows of the left side that have an equal on the right; null equals null.

        Args:
            left: The rows.
            right: What they are looked for in.
            pairs: Attributes of both sides that have to be equal; at least one.
        """
        expressions = self._expressions()
        condition = None
        for one, other in pairs:
            equal = expressions.EqualNullSafe(one, other)
            condition = equal if condition is None else expressions.And(condition, equal)
        hint = self._jvm.org.apache.spark.sql.catalyst.plans.logical.JoinHint.NONE()
        kind = self._module("plans", "LeftSemi")
        node = self._logical("Join")
        some = self._jvm.scala.Some(condition)
        return Plan(node(left.java, right.java, kind, some, hint))

    def call(self, function: str, arguments: Sequence[Any]) -> Any:
        """Return a call of a built-in function, as its parser would have written it.

        The analyser resolves it when a plan that has it is made a frame.
        """
        analysis = self._jvm.org.apache.spark.sql.catalyst.analysis
        made = getattr(analysis, "UnresolvedFunction$")
        return getattr(made, "MODULE$").apply(function, self.sequence(list(arguments)), False)

    def without_negative_zero(self, expression: Any) -> Any:
        """Return an expression with 0.0 for each -0.0 in its value, inside of structures too."""
        return self._module("optimizer", "NormalizeFloatingNumbers").normalize(expression)

    def order_of(self, sort: Plan) -> list[Any]:
        """Return the order of a `Sort` or `Window`, as `SortOrder` objects."""
        return _items(sort.java.order() if sort.kind == "Sort" else sort.java.orderSpec())

    def partitions_of(self, window: Plan) -> list[Any]:
        """Return the PARTITION BY expressions of a `Window`."""
        return _items(window.java.partitionSpec())

    def can_be_sorted(self, attribute: Any) -> bool:
        """Tell whether values of a type have an order; maps have none."""
        ordering = self._module("expressions", "RowOrdering")
        return bool(ordering.isOrderable(self.sequence([attribute])))

    def _ascending(self, expression: Any) -> Any:
        if expression.getClass().getSimpleName() == "SortOrder":
            return expression
        expressions = self._expressions()
        return expressions.SortOrder(
            expression,
            self._module("expressions", "Ascending"),
            self._module("expressions", "NullsFirst"),
            self.sequence([]),
        )

    def _expressions(self) -> Any:
        return self._jvm.org.apache.spark.sql.catalyst.expressions

    def _module(self, package: str, name: str) -> Any:
        parent = getattr(self._jvm.org.apache.spark.sql.catalyst, package)
        return getattr(getattr(parent, f"{name}$"), "MODULE$")

    def _nothing(self) -> Any:
        return self._jvm.scala.Option.empty()


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(position) for position in range(sequence.size())]

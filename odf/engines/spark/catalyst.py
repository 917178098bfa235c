"""The only module that reaches into Spark's Scala objects: query plans, through py4j.

Everything else asks `Plan` and `Expression` objects. Names of classes are Catalyst's own.
"""

# ruff: noqa: SLF001  # what PySpark keeps private is where the Scala objects are

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from odf.errors import InvalidQueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLANS: Final = "org.apache.spark.sql.catalyst.plans.logical."
_WITH_PLAN: Final = frozenset(
    {
        "ScalarSubquery",
        "Exists",
        "ListQuery",
        "LateralSubquery",
        "FunctionTableSubqueryArgumentExpression",
    }
)


class Expression:
    """An expression of a plan.

    Args:
        java: The Scala object.
    """

    def __init__(self, java: Any) -> None:
        self.java = java
        self.kind: str = _class_name(java)
        """Name of its class, without the package."""

    @property
    def children(self) -> list["Expression"]:
        """The expressions that it is made of."""
        return [Expression(child) for child in _items(self.java.children())]

    @property
    def plan(self) -> "Plan | None":
        """The plan inside a subquery expression, else None."""
        return Plan(self.java.plan()) if self.kind in _WITH_PLAN else None

    @property
    def is_deterministic(self) -> bool:
        """What Catalyst thinks of it; unresolved expressions are not asked."""
        return bool(self.java.deterministic())

    @property
    def is_resolved(self) -> bool:
        """Whether its type is known."""
        return bool(self.java.resolved())

    @property
    def function_name(self) -> list[str]:
        """Parts of the name of an `UnresolvedFunction`."""
        return [str(part) for part in _items(self.java.nameParts())]

    @property
    def argument_count(self) -> int:
        """Number of arguments of an `UnresolvedFunction`."""
        return int(self.java.arguments().size())

    def walk(self) -> Iterator["Expression"]:
        """Yield this expression and all that it is made of, subqueries not entered."""
        yield self
        for child in self.children:
            yield from child.walk()

    def __str__(self) -> str:
        return str(self.java.sql())


class Plan:
    """A node of a logical plan, with everything below it.

    Args:
        java: The Scala object.
    """

    def __init__(self, java: Any) -> None:
        self.java = java
        self.kind: str = _class_name(java)
        """Name of its class, without the package."""

    @property
    def children(self) -> list["Plan"]:
        """The nodes that feed it; those of `WITH` are among them."""
        found = [Plan(child) for child in _items(self.java.children())]
        if self.kind == "UnresolvedWith":
            found += [Plan(relation) for _, relation in self.cte_relations]
        return found

    @property
    def cte_relations(self) -> list[tuple[str, Any]]:
        """Names and plans of an `UnresolvedWith`."""
        return [(str(item._1()), item._2()) for item in _items(self.java.cteRelations())]

    @property
    def is_recursive(self) -> bool:
        """Whether an `UnresolvedWith` says RECURSIVE."""
        return bool(self.java.allowRecursion())

    @property
    def expressions(self) -> list[Expression]:
        """The expressions of this node."""
        return [Expression(item) for item in _items(self.java.expressions())]

    @property
    def relation_name(self) -> list[str]:
        """Parts of the name of an `UnresolvedRelation` or of a table-valued function."""
        names = "name" if self.kind == "UnresolvedTableValuedFunction" else "multipartIdentifier"
        return [str(part) for part in _items(getattr(self.java, names)())]

    @property
    def has_options(self) -> bool:
        """Whether an `UnresolvedRelation` has options or is read as a stream."""
        return bool(self.java.isStreaming()) or not self.java.options().isEmpty()

    @property
    def view_name(self) -> str:
        """Name of a `View`."""
        return str(self.java.desc().identifier().table())

    @property
    def is_by_name(self) -> bool:
        """Whether a `Union` matches its columns by name."""
        return bool(self.java.byName())

    @property
    def output(self) -> list[tuple[str, Any]]:
        """Names and attributes of the columns of a resolved node."""
        return [(str(item.name()), item) for item in _items(self.java.output())]

    def walk(self, views: Collection[str] = ()) -> Iterator["Plan"]:
        """Yield this node, all below it, and those of subqueries in expressions.

        Args:
            views: Names, casefolded, of views that are not entered.
        """
        yield self
        if self.kind == "View" and self.view_name.casefold() in views:
            return
        for expression in self.expressions:
            for part in expression.walk():
                if (plan := part.plan) is not None:
                    yield from plan.walk(views)
        for child in self.children:
            yield from child.walk(views)


class Catalyst:
    """Spark's parser and analyser, and a way to run plans that were changed.

    Args:
        spark: The session whose views queries see.
    """

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark
        self._jvm: Any = spark.sparkContext._jvm
        self._session: Any = spark._jsparkSession

    def parse(self, sql: str, where: str) -> Plan:
        """Parse a query. Nothing is looked up and nothing runs.

        Args:
            sql: The query.
            where: Which query it is, for messages.

        Raises:
            InvalidQueryError: It is not SQL.
        """
        with translated_errors(where):
            return Plan(self._session.sessionState().sqlParser().parsePlan(sql))

    def analysed(self, frame: "DataFrame") -> Plan:
        """Return the analysed plan of a frame, with its `WITH` queries written in place."""
        plan = Plan(frame._jdf.queryExecution().analyzed())
        if any(node.kind == "WithCTE" for node in plan.walk()):
            inline = self._jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE
            return Plan(inline(True, False, False).apply(plan.java))
        return plan

    def frame(self, plan: Plan) -> "DataFrame":
        """Return a frame that runs a plan."""
        from pyspark.sql.classic.dataframe import DataFrame  # noqa: PLC0415

        dataset = getattr(self._jvm.org.apache.spark.sql.classic, "Dataset$")
        frame: DataFrame = DataFrame(
            getattr(dataset, "MODULE$").ofRows(self._session, plan.java), self._spark
        )
        return frame

    def project(self, columns: Sequence[Any], child: Plan) -> Plan:
        """Return a projection of attributes and named expressions."""
        return Plan(self._logical("Project")(self._sequence(columns), child.java))

    def with_child(self, node: Plan, child: Plan) -> Plan:
        """Return a node with one child over another child."""
        return self.with_children(node, [child])

    def with_children(self, node: Plan, children: Sequence[Plan]) -> Plan:
        """Return a node over other children."""
        replaced = self._sequence([child.java for child in children])
        return Plan(node.java.withNewChildren(replaced))

    def project_list(self, node: Plan) -> list[Any]:
        """Return the named expressions of a `Project`."""
        return _items(node.java.projectList())

    def named(self, expression: Any, name: str) -> Any:
        """Return an expression under a new name."""
        catalyst = self._jvm.org.apache.spark.sql.catalyst.expressions
        empty = self._sequence([])
        return catalyst.Alias(
            expression,
            name,
            catalyst.NamedExpression.newExprId(),
            empty,
            self._jvm.scala.Option.empty(),
            empty,
        )

    def integer(self, value: int) -> Any:
        """Return an INT literal."""
        literal = getattr(self._jvm.org.apache.spark.sql.catalyst.expressions, "Literal$")
        return getattr(literal, "MODULE$").apply(value)

    def function_names(self) -> set[str]:
        """Return the names of all functions, those that are used as tables too."""
        state = self._session.sessionState()
        found = set()
        for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
            found |= {str(item.funcName()) for item in _items(registry.listFunction())}
        return found

    def _logical(self, name: str) -> Any:
        found = self._jvm
        for part in (_PLANS + name).split("."):
            found = getattr(found, part)
        return found

    def _sequence(self, items: Sequence[Any]) -> Any:
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(items))


class translated_errors:  # noqa: N801  # used like a function
    """Turns what Spark says about a query into `InvalidQueryError`.

    Args:
        where: Which query it is, for messages.
        hint: What to do about it.
    """

    def __init__(self, where: str, hint: str | None = None) -> None:
        self._where = where
        self._hint = hint

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from pyspark.errors import PySparkException  # noqa: PLC0415

        if isinstance(error, PySparkException):
            condition = error.getCondition() or ""
            if condition and not condition.startswith("INTERNAL_ERROR"):
                message = plain_message(str(error))
                raise InvalidQueryError(f"{self._where}: {message}", hint=self._hint) from error


def plain_message(text: str) -> str:
    """Return what Spark says as one line, without the plan, the query and the state code."""
    text = text.strip().split("\n\n")[0]
    line = " ".join(part.strip() for part in text.split(";\n")[0].splitlines())
    before, mark, after = line.partition(" SQLSTATE: ")
    if not mark:
        return line
    place = after.partition("(")[2].partition(")")[0] or after.partition("; ")[2]
    return f"{before} ({place})" if place else before


def _class_name(java: Any) -> str:
    return str(java.getClass().getSimpleName()).rstrip("$")


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(position) for position in range(sequence.size())]

"""The only module that reaches into Spark's Scala objects: query plans, through py4j.

Everything else asks `Plan` and `Expression` objects. Names of classes are Catalyst's own.
"""

# ruff: noqa: SLF001  # what PySpark keeps private is where the Scala objects are

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from odf.errors import InvalidQueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LEAVES: Final = frozenset({"AttributeReference", "Literal", "UnresolvedAttribute"})
# Most parts of expressions; every question to the JVM takes its time.
_WITH_PLAN: Final = frozenset(
    {
        "ScalarSubquery",
        "Exists",
        "ListQuery",
        "LateralSubquery",
        "FunctionTableSubqueryArgumentExpression",
    }
)

AS_OF_HINT: Final = (
    "write for example: SELECT l.event_time, l.amount, r.price FROM l LEFT ASOF JOIN r "
    "MATCH_CONDITION (l.event_time >= r.event_time) ON l.symbol = r.symbol"
)
"""What to write to find the version that was valid at a row's event time."""

_HINTS: Final = {
    # FOR SYSTEM_TIME AS OF with a column.
    "_LEGACY_ERROR_TEMP_0056": AS_OF_HINT,
    # Windows of months.
    "_LEGACY_ERROR_TEMP_3231": "write the window in days or weeks, or GROUP BY date_trunc('MONTH', "
    "event_time), whose groups change while rows come",
}
# What to do about conditions of Spark.


class Expression:
    """An expression of a plan. What was asked once is kept: each question to Java takes its time.

    Args:
        java: The Scala object.
    """

    def __init__(self, java: Any) -> None:
        self.java = java
        self.kind: str = _class_name(java)
        """Name of its class, without the package."""

    @cached_property
    def children(self) -> list["Expression"]:
        """The expressions that it is made of."""
        if self.kind in _LEAVES:
            return []
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

    @cached_property
    def attribute_id(self) -> int | None:
        """What tells a column from all others of the plan, if this is the mention of one."""
        return int(self.java.exprId().id()) if self.kind == "AttributeReference" else None

    @cached_property
    def output_id(self) -> int:
        """The id that a named expression has above its node."""
        return int(self.java.exprId().id())

    @cached_property
    def type_name(self) -> str:
        """Name of the type of a resolved expression, as SQL writes it in small letters."""
        return str(self.java.dataType().simpleString())

    @property
    def mentioned(self) -> set[int]:
        """The ids of all columns that it is made of."""
        return {part.attribute_id for part in self.walk() if part.attribute_id is not None}

    @cached_property
    def name(self) -> str:
        """Name of a named expression."""
        return str(self.java.name())

    @cached_property
    def is_constant(self) -> bool:
        """Whether its value depends on no row."""
        return bool(self.java.foldable())

    @property
    def value(self) -> Any:
        """The value of a constant expression, in Catalyst's own representation."""
        return self.java.eval(None)

    @property
    def place(self) -> str:
        """Where it stands in the query, as Spark's own messages say it."""
        return _place(self.java)

    def walk(self) -> Iterator["Expression"]:
        """Yield this expression and all that it is made of, subqueries not entered."""
        yield self
        for child in self.children:
            yield from child.walk()

    def __str__(self) -> str:
        return str(self.java.sql())


class Plan:
    """A node of a logical plan, with everything below it. What was asked once is kept.

    Args:
        java: The Scala object.
    """

    def __init__(self, java: Any) -> None:
        self.java = java
        self.kind: str = _class_name(java)
        """Name of its class, without the package."""

    @cached_property
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

    @cached_property
    def expressions(self) -> list[Expression]:
        """The expressions of this node."""
        return [Expression(item) for item in _items(self.java.expressions())]

    @cached_property
    def relation_name(self) -> list[str]:
        """Parts of the name of an `UnresolvedRelation` or of a table-valued function."""
        names = "name" if self.kind == "UnresolvedTableValuedFunction" else "multipartIdentifier"
        return [str(part) for part in _items(getattr(self.java, names)())]

    @property
    def place(self) -> str:
        """Where it stands in the query, as Spark's own messages say it."""
        return _place(self.java)

    @property
    def span(self) -> tuple[int, int] | None:
        """Where the text of a parsed node begins and ends in the query, if that is known."""
        origin = self.java.origin()
        if origin.startIndex().isEmpty() or origin.stopIndex().isEmpty():
            return None
        return int(origin.startIndex().get()), int(origin.stopIndex().get()) + 1

    @property
    def has_options(self) -> bool:
        """Whether an `UnresolvedRelation` has options or is read as a stream."""
        return bool(self.java.isStreaming()) or not self.java.options().isEmpty()

    @cached_property
    def view_name(self) -> str:
        """Name of a `View`."""
        return str(self.java.desc().identifier().table())

    @property
    def is_by_name(self) -> bool:
        """Whether a `Union` matches its columns by name."""
        return bool(self.java.byName())

    @property
    def join_type(self) -> str:
        """Kind of a `Join` or `AsOfJoin`, for example `Inner` or `LeftOuter`."""
        return str(self.java.joinType().toString())

    @property
    def condition(self) -> Expression | None:
        """What `ON` says in a `Join` or `AsOfJoin`, or the condition of a `Filter`."""
        found = self.java.condition()
        if self.kind == "Filter":
            return Expression(found)
        return None if found.isEmpty() else Expression(found.get())

    @cached_property
    def grouping(self) -> list[Expression]:
        """The keys of an `Aggregate`."""
        return [Expression(item) for item in _items(self.java.groupingExpressions())]

    @cached_property
    def aggregates(self) -> list[Expression]:
        """The columns of an `Aggregate`, each an attribute or an alias."""
        return [Expression(item) for item in _items(self.java.aggregateExpressions())]

    @cached_property
    def expand_lists(self) -> list[list[Expression]]:
        """The lists of values of an `Expand`: each row of its input becomes one row of each."""
        return [
            [Expression(item) for item in _items(values)]
            for values in _items(self.java.projections())
        ]

    @property
    def match_condition(self) -> Expression:
        """What `MATCH_CONDITION` says in an `AsOfJoin`; the left side's operand comes first."""
        return Expression(self.java.asOfCondition())

    @cached_property
    def output_ids(self) -> list[int]:
        """Ids of the columns of a resolved node, in their order."""
        return [int(item.exprId().id()) for item in _items(self.java.output())]

    @cached_property
    def projected(self) -> list[Any]:
        """The columns of a `Project`, each an attribute or an alias."""
        return _items(self.java.projectList())

    @cached_property
    def attributes(self) -> list[Expression]:
        """The columns of a resolved node, as mentions of them."""
        return [Expression(item) for item in _items(self.java.output())]

    @cached_property
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
        patterns = self._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
        if plan.java.containsPattern(patterns.CTE()):
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
        return Plan(self._logical("Project")(self.sequence(columns), child.java))

    def with_child(self, node: Plan, child: Plan) -> Plan:
        """Return a node with one child over another child."""
        return self.with_children(node, [child])

    def with_children(self, node: Plan, children: Sequence[Plan]) -> Plan:
        """Return a node over other children."""
        replaced = self.sequence([child.java for child in children])
        return Plan(node.java.withNewChildren(replaced))

    def project_list(self, node: Plan) -> list[Any]:
        """Return the named expressions of a `Project`."""
        return _items(node.java.projectList())

    def named(self, expression: Any, name: str) -> Any:
        """Return an expression under a new name."""
        catalyst = self._jvm.org.apache.spark.sql.catalyst.expressions
        empty = self.sequence([])
        return catalyst.Alias(
            expression,
            name,
            catalyst.NamedExpression.newExprId(),
            empty,
            self._jvm.scala.Option.empty(),
            empty,
        )

    def as_attribute(self, expression: Any, attribute: Any) -> Any:
        """Return an expression in the place of an attribute: with its name, id and all."""
        catalyst = self._jvm.org.apache.spark.sql.catalyst.expressions
        some = self._jvm.scala.Option.apply(attribute.metadata())
        empty = self.sequence([])
        return catalyst.Alias(
            expression,
            attribute.name(),
            attribute.exprId(),
            attribute.qualifier(),
            some,
            empty,
        )

    def aggregate(self, keys: Sequence[Any], columns: Sequence[Any], child: Plan) -> Plan:
        """Return an aggregate with these keys and named expressions over a child."""
        none = self._jvm.scala.Option.empty()
        make = self._logical("Aggregate")
        return Plan(make(self.sequence(keys), self.sequence(columns), child.java, none))

    def in_one_partition(self, child: Plan) -> Plan:
        """Return a child with all its rows in one partition."""
        return Plan(self._logical("Repartition")(1, True, child.java))

    def literal(self, sql: str) -> Any:
        """Return a literal that is written in SQL, for example `1L` or `INTERVAL '1' DAY`."""
        return self._session.sessionState().sqlParser().parseExpression(sql)

    def cast_like(self, expression: Expression, other: Expression) -> Expression:
        """Return an expression as the type of another; days begin at midnight UTC."""
        cast = getattr(self._jvm.org.apache.spark.sql.catalyst.expressions, "Cast$")
        zone = self._jvm.scala.Option.apply("UTC")
        made = getattr(cast, "MODULE$").apply(expression.java, other.java.dataType(), zone, True)
        return Expression(made)

    def as_of_join(self, join: Plan, left_time: Expression, right_time: Expression) -> Plan:
        """Return what a `Join` becomes if the right side's rows are versions.

        Args:
            join: The join.
            left_time: When rows of its left side look for a version.
            right_time: Since when versions are valid, of the same type.
        """
        as_of = getattr(self._logical_package(), "AsOfJoin$")
        direction = getattr(self._jvm.org.apache.spark.sql.catalyst.plans, "AsOfJoinDirection$")
        left, right = join.children
        return Plan(
            getattr(as_of, "MODULE$").apply(
                left.java,
                right.java,
                left_time.java,
                right_time.java,
                join.java.condition(),
                join.java.joinType(),
                self._jvm.scala.Option.empty(),
                True,
                getattr(direction, "MODULE$").apply("backward"),
            )
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
        return getattr(self._logical_package(), name)

    def _logical_package(self) -> Any:
        return self._jvm.org.apache.spark.sql.catalyst.plans.logical

    def sequence(self, items: Sequence[Any]) -> Any:
        """Return a Scala sequence."""
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
                hint = _HINTS.get(condition, self._hint)
                raise InvalidQueryError(f"{self._where}: {message}", hint=hint) from error


def plain_message(text: str) -> str:
    """Return what Spark says as one line, without the plan, the query and the state code."""
    text, mark, query = text.strip().split("\n\n")[0].partition("\n== SQL ")
    if mark:
        text += f" {query.partition(' ==')[0]}"
    line = " ".join(part.strip() for part in text.split(";\n")[0].splitlines())
    before, mark, after = line.partition(" SQLSTATE: ")
    if not mark:
        return line
    place = after.partition("(")[2].partition(")")[0] or after.partition("; ")[2]
    return f"{before} ({place})" if place else before


def _class_name(java: Any) -> str:
    return str(java.getClass().getSimpleName()).rstrip("$")


def _place(java: Any) -> str:
    origin = java.origin()
    if origin.line().isEmpty() or origin.startPosition().isEmpty():
        return ""
    return f" (line {origin.line().get()}, pos {origin.startPosition().get()})"


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(position) for position in range(sequence.size())]

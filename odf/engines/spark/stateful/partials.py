"""Partial results of aggregate functions: a few numbers for each group instead of its rows.

They are exact however the rows come in runs: counts and sums of integers and decimals, which a
retraction takes off again, and extremes. Spark's own functions make the result of them, so that it
is what a single run over all rows gives.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from odf.engines.spark.catalyst import Plan
from odf.engines.spark.required import has_required_parts
from odf.engines.spark.stateful.grouped import GroupedQuery
from odf.engines.spark.stateful.nodes import AggregateFunction, Nodes
from odf.engines.spark.stateful.ordered import is_exact_number, is_floating_extreme
from odf.engines.spark.stateful.tables import can_be_kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WEIGHT: Final = "w"
"""Column of the number of rows of a group: a retraction counts as -1."""

_EXTREMES: Final = frozenset({"min", "max"})
_SMALL_INTEGERS: Final = frozenset({"tinyint", "smallint", "int"})


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the partial results.

    Attributes:
        name: Its name.
        made: SQL aggregate that makes it of rows.
        merged: SQL aggregate that makes it of partial results.
        is_sum: Whether it is zero for a group without rows.
    """

    name: str
    made: str
    merged: str
    is_sum: bool = True


@dataclass(frozen=True, slots=True)
class Partial:
    """How the result of an aggregate function is kept.

    Attributes:
        columns: What is kept for each group.
        buffers: SQL over these columns for what Spark's function keeps itself.
        transient: What is known about the rows of a run only; first the extreme of those that were
            retracted. None of it where a retraction just counts as less.
        lost: SQL over all these columns: whether the extreme of a group is not known any more.
        over_rows: What the columns need to know of a group before: name, and SQL over its rows.
        over_partials: The same, and SQL over its partial results.
    """

    columns: tuple[Column, ...]
    buffers: tuple[str, ...]
    transient: tuple[Column, ...] = ()
    lost: str = ""
    over_rows: tuple[tuple[str, str], ...] = ()
    over_partials: tuple[tuple[str, str], ...] = ()


class Partials:
    """The partial results of all functions of an aggregate.

    Args:
        query: The query.

    Attributes:
        columns: What is kept for each group beside its keys, the weight first.
        has_extremes: Whether a retraction can be one that they cannot follow.
    """

    def __init__(self, query: GroupedQuery) -> None:
        self._query = query
        found = [
            _partial(number, function) for number, function in enumerate(query.parts.functions)
        ]
        self._partials = [partial for partial in found if partial is not None]
        self._complete = len(self._partials) == len(found)
        weight = Column(WEIGHT, f"sum({WEIGHT})", f"sum({WEIGHT})")
        self.columns = [weight] + [
            column for partial in self._partials for column in partial.columns
        ]
        self.has_extremes = any(partial.transient for partial in self._partials)

    @property
    def are_exact(self) -> bool:
        """Whether each function has partial results, of types that can be kept."""
        if not self._complete or not self.has_extremes:
            return self._complete
        nodes = self._query.nodes
        values = [
            nodes.named(function.arguments[0].java, f"a{number}")
            for number, function in enumerate(self._query.parts.functions)
            if function.name in _EXTREMES
        ]
        extremes = nodes.frame(nodes.project(values, self._query.child))
        # What is kept comes back with other types, which functions do not take for their own.
        return can_be_kept(extremes) and not any(
            has_required_parts(field.dataType) for field in extremes.schema
        )

    @property
    def names(self) -> list[str]:
        """Names of the columns that are kept, the keys first."""
        return [*self._query.key_columns, *[column.name for column in self.columns]]

    def of_rows(self, rows: Plan, weight: Any) -> "DataFrame":
        """Return the partial results of rows: the columns and, behind them, what was retracted.

        Args:
            rows: Rows with the columns of the query's `child`.
            weight: Attribute of their weights: 1, or -1 for a retraction.
        """
        nodes = self._query.nodes
        values: list[Any] = [*self._query.parts.keys, weight]
        names = [*self._query.key_columns, WEIGHT]
        for number, function in enumerate(self._query.parts.functions):
            for name, expression in _arguments(nodes, number, function):
                values.append(nodes.named(expression, name))
                names.append(name)
        frame = nodes.frame(nodes.project(values, rows)).toDF(*names)
        made = [f"{column.made} AS {column.name}" for column in self.columns]
        before = [known for partial in self._partials for known in partial.over_rows]
        return self._grouped(frame, before, [*made, *self._transient("made")])

    def merged(self, new: "DataFrame", kept: "DataFrame | None") -> "DataFrame":
        """Return the partial results of groups after a run.

        Args:
            new: What `of_rows` made of the rows of the run.
            kept: What was kept of the same groups, or None.
        """
        if kept is not None:
            new = new.unionByName(kept.select(*self.names), allowMissingColumns=True)
        merged = [f"{column.merged} AS {column.name}" for column in self.columns]
        before = [known for partial in self._partials for known in partial.over_partials]
        grouped = self._grouped(new, before, [*merged, *self._transient("merged")])
        return self._without_negative_zeros(grouped)

    @property
    def is_lost(self) -> str:
        """SQL over `merged`: whether the extreme of a group is not known any more."""
        found = [partial.lost for partial in self._partials if partial.lost]
        return f"{WEIGHT} > 0 AND ({' OR '.join(found)})" if found else "false"

    @property
    def sums(self) -> list[str]:
        """Names of the columns that are all zero where nothing needs to be kept of a group."""
        return [column.name for column in self.columns if column.is_sum]

    @property
    def retracted(self) -> list[str]:
        """Names of the columns of `of_rows` with extremes of retracted rows."""
        return [partial.transient[0].name for partial in self._partials if partial.transient]

    @property
    def labels(self) -> list[str]:
        """What the columns behind the keys are, in words that a state can be compared by."""
        found = ["rows"]
        for partial, function in zip(self._partials, self._query.parts.functions, strict=True):
            found += [f"{function} {column.name}" for column in partial.columns]
        return found

    def results(self, partials: "DataFrame") -> "DataFrame":
        """Return what the query makes of the groups that have rows.

        Args:
            partials: Keys and partial results.
        """
        nodes, parts = self._query.nodes, self._query.parts
        keys = [key.toAttribute() for key in parts.keys]
        buffers = [buffer for function in parts.functions for buffer in function.buffers]
        sources = [source for partial in self._partials for source in partial.buffers]
        types = [str(buffer.dataType().sql()) for buffer in buffers]
        frame = partials.where(f"{WEIGHT} > 0").selectExpr(
            *self._query.key_columns,
            *[
                f"CAST({source} AS {dtype}) AS b{number}"
                for number, (source, dtype) in enumerate(zip(sources, types, strict=True))
            ],
        )
        plan = nodes.analysed(frame)
        made = [
            nodes.as_attribute(attribute, wanted)
            for (_, attribute), wanted in zip(plan.output, [*keys, *buffers], strict=True)
        ]
        evaluated = [
            nodes.as_attribute(function.evaluation, function.result) for function in parts.functions
        ]
        values = nodes.project([*keys, *evaluated], nodes.project(made, plan))
        return self._query.results(values)

    def _without_negative_zeros(self, merged: "DataFrame") -> "DataFrame":
        """Return partial results whose extremes are 0.0 for -0.0, whatever a state has."""
        nodes = self._query.nodes
        functions = enumerate(self._query.parts.functions)
        floating = {_kept(number) for number, one in functions if is_floating_extreme(one)}
        if not floating:
            return merged
        plan = nodes.analysed(merged)
        values = [
            nodes.named(nodes.without_negative_zero(value), name) if name in floating else value
            for name, value in plan.output
        ]
        return nodes.frame(nodes.project(values, plan))

    def _transient(self, how: str) -> list[str]:
        found = [column for partial in self._partials for column in partial.transient]
        return [f"{getattr(column, how)} AS {column.name}" for column in found]

    def _grouped(
        self, frame: "DataFrame", before: Sequence[tuple[str, str]], columns: Sequence[str]
    ) -> "DataFrame":
        from pyspark.sql import functions  # noqa: PLC0415

        keys = self._query.key_columns
        if before:
            window = f"OVER (PARTITION BY {', '.join(keys)})"
            known = [f"{aggregate} {window} AS {name}" for name, aggregate in before]
            frame = frame.selectExpr("*", *known)
        return frame.groupBy(*keys).agg(*[functions.expr(column) for column in columns])


def _arguments(nodes: Nodes, number: int, function: AggregateFunction) -> list[tuple[str, Any]]:
    found = [
        (f"a{number}_{position}", argument.java)
        for position, argument in enumerate(function.arguments)
    ]
    if is_floating_extreme(function):
        found = [(name, nodes.without_negative_zero(value)) for name, value in found]
    if function.condition is not None:
        found.append((f"f{number}", function.condition.java))
    return found


def _partial(number: int, function: AggregateFunction) -> Partial | None:
    if function.is_distinct:
        return None
    types = [argument.type_name for argument in function.arguments]
    match function.name:
        case "count":
            return _count(number, function)
        case "sum" | "avg" if is_exact_number(types[0]):
            return _sum(number, function, types[0])
        case name if name in _EXTREMES:
            return _extreme(number, function)
    return None


def _count(number: int, function: AggregateFunction) -> Partial:
    count = _counted(number, function)
    return Partial((count,), (count.name,))


def _sum(number: int, function: AggregateFunction, type_name: str) -> Partial:
    count = _counted(number, function)
    name = f"s{number}"
    if type_name in _SMALL_INTEGERS:
        inner = kept = "BIGINT"
    elif type_name == "bigint":
        # The sum may leave the range of the type for a while.
        inner, kept = "DECIMAL(19,0)", "DECIMAL(38,0)"
    else:
        scale = type_name.partition(",")[2].rstrip(")")
        inner, kept = type_name, f"DECIMAL(38,{scale})"
    value = f"CAST(a{number}_0 AS {inner})"
    signed = f"CASE WHEN {WEIGHT} > 0 THEN {value} ELSE -{value} END"
    if function.condition is not None:
        signed = f"CASE WHEN f{number} THEN {signed} END"
    total = Column(
        name,
        f"CAST(coalesce(sum({signed}), 0) AS {kept})",
        f"CAST(sum({name}) AS {kept})",
    )
    present = f"CASE WHEN {count.name} <> 0 THEN {name} END"
    other = count.name if function.name == "avg" else f"{count.name} = 0"
    sources = (present, other)[: len(function.buffers)]
    return Partial((count, total), sources)


def _extreme(number: int, function: AggregateFunction) -> Partial:
    """Keep an extreme, and how many rows have it: so many may be retracted."""
    kept = _kept(number)
    times, gone, gone_times = (f"{letter}{number}" for letter in "crq")
    most, most_gone = f"x{number}", f"y{number}"
    count, of = _counted(number, function), function.name
    where = f" AND f{number}" if function.condition is not None else ""

    def value(sign: str) -> str:
        return f"CASE WHEN {WEIGHT} {sign} 0{where} THEN a{number}_0 END"

    def matching(sign: str, extreme: str) -> str:
        return (
            f"sum(CASE WHEN {WEIGHT} {sign} 0{where} AND a{number}_0 = {extreme} THEN 1 ELSE 0 END)"
        )

    left = f"sum({count.name}) <> 0"
    here = f"sum(CASE WHEN {kept} = {most} THEN {times} ELSE 0 END)"
    less = f"sum(CASE WHEN {gone} = {most} THEN {gone_times} ELSE 0 END)"
    columns = (
        count,
        Column(
            kept, f"{of}({value('>')})", f"CASE WHEN {left} THEN {of}({kept}) END", is_sum=False
        ),
        Column(times, matching(">", most), f"CASE WHEN {left} THEN {here} - {less} ELSE 0 END"),
    )
    transient = (
        Column(gone, f"{of}({value('<')})", f"{of}({gone})", is_sum=False),
        Column(gone_times, matching("<", most_gone), f"sum({gone_times})", is_sum=False),
    )
    beyond = ">" if of == "max" else "<"
    lost = f"({count.name} <> 0 AND ({times} <= 0 OR coalesce({gone} {beyond} {kept}, false)))"
    over_rows = ((most, f"{of}({value('>')})"), (most_gone, f"{of}({value('<')})"))
    over_partials = ((most, f"{of}({kept})"),)
    return Partial(columns, (kept,), transient, lost, over_rows, over_partials)


def _kept(number: int) -> str:
    """Return the name of the column of an extreme."""
    return f"m{number}"


def _counted(number: int, function: AggregateFunction) -> Column:
    conditions = [
        f"a{number}_{position} IS NOT NULL" for position in range(len(function.arguments))
    ]
    if function.condition is not None:
        conditions.append(f"f{number}")
    name = f"n{number}"
    made = f"sum(CASE WHEN {' AND '.join(conditions)} THEN {WEIGHT} ELSE 0 END)"
    return Column(name, made, f"sum({name})")

"""As-of joins in linear form: a union of rows and versions, and one window over it.

Spark's own operator looks at every earlier version of a key for each row (spark-stateful.md §2).
Here rows and versions of a key are sorted together once. The join is replaced inside the analysed
plan and keeps the ids of its columns, so that whatever stands above it stays as it was analysed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from odf.engines.host.engine import HIDDEN_OFFSET
from odf.engines.spark.catalyst import Catalyst, Plan
from odf.engines.spark.query.rewrite import with_origins
from odf.engines.spark.stateful.asof_plan import AsOfNode, has_as_of_join, take_apart
from odf.engines.spark.stateful.lineage import views_below

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

POSITION: Final = "__odf_position"
"""Hidden Int64 column of the views: twice the offset, and one more if the row is a retraction.

A retraction says that its version is absent; rows that were retracted are not in the views.
"""

_TIME: Final = "__odf_time"
_WRAPPERS: Final = frozenset({"PipeOperator", "SubqueryAlias", "View"})


@dataclass(frozen=True, slots=True)
class Span:
    """Which rows leave: those with an event time in (after, upto].

    Attributes:
        after: Milliseconds since 1970; None if nothing has left yet.
        upto: The same; None if nothing may leave.
    """

    after: int | None
    upto: int | None


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one as-of join that are valid up to the end of the span.

    Attributes:
        frame: Columns `k0`, `k1`, …, `t`, `present`, `branch` and `position`.
        keys: How many key columns there are.
        views: Name of the view, casefolded, that each branch comes from.
    """

    frame: "DataFrame"
    keys: int
    views: tuple[str, ...]

    def newest(self) -> "DataFrame":
        """Return `branch` and `position` of the version of each key that is valid last.

        Keys whose last version is absent are left out.
        """
        from pyspark.sql import functions as f  # noqa: PLC0415

        order = f.struct("t", "present", "branch", "position")
        newest = self.frame.groupBy(*_names("k", self.keys)).agg(f.max(order).alias("newest"))
        return newest.where("newest.present").select("newest.branch", "newest.position")


class LinearForm:
    """Replaces the as-of joins of one plan.

    Args:
        catalyst: Spark's analyser.
        inputs: Names of the input views, casefolded, each with its event time column. The files
            below the views have the column `POSITION`.
        span: Which rows leave.
    """

    def __init__(self, catalyst: Catalyst, inputs: Mapping[str, str], span: Span) -> None:
        self._catalyst = catalyst
        self._inputs = inputs
        self._positions = dict.fromkeys(inputs, POSITION)
        self._span = span
        self.versions: list[Versions] = []
        """The versions of the joins that were replaced."""

    def rewrite(self, plan: Plan) -> Plan:
        """Return the plan without as-of joins, with the same columns.

        Args:
            plan: A plan that `asof_plan.chain_nodes` accepts.
        """
        if plan.kind == "AsOfJoin":
            return self._joined(take_apart(plan, self._inputs))
        if plan.kind in _WRAPPERS:
            return self.rewrite(plan.children[0])
        children = [self.rewrite(child) for child in plan.children]
        return self._catalyst.with_children(plan, children)

    def _joined(self, join: AsOfNode) -> Plan:
        from pyspark.sql import Window  # noqa: PLC0415
        from pyspark.sql import functions as f  # noqa: PLC0415

        rows, versions = self._rows(join), self._versions(join)
        self.versions.append(versions)
        keys = _names("k", versions.keys)
        version = f.struct("present", *_names("r", len(join.right.output)))
        right = versions.frame.select(
            *keys, "t", f.lit(0).alias("side"), "present", "branch", "position",
            f.lit(None).cast(_struct_type(rows, "l")).alias("row"), version.alias("version"),
        )  # fmt: skip
        side = f.lit(1 if join.inclusive else -1)  # Whether the version of the moment counts.
        left = rows.select(
            *keys, "t", side.alias("side"), f.lit(True).alias("present"),
            f.lit(0).alias("branch"), f.lit(0).cast("bigint").alias("position"),
            f.struct(*_names("l", len(join.left.output))).alias("row"),
            f.lit(None).cast(right.schema["version"].dataType).alias("version"),
        )  # fmt: skip
        order = Window.partitionBy(*keys).orderBy("t", "side", "present", "branch", "position")
        before = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        valid = f.last("version", ignorenulls=True).over(before)
        found = left.unionAll(right).select("row", "side", valid.alias("version"))
        found = found.where(f.col("side") != 0)
        if not join.outer:
            found = found.where("version.present")
        return self._in_place(found, join)

    def _in_place(self, found: "DataFrame", join: AsOfNode) -> Plan:
        """Give the columns of a joined frame the ids that the join's columns have above it."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        left = [f"row.{name}" for name in _names("l", len(join.left.output))]
        right = _names("r", len(join.right.output))
        present = f.col("version.present")
        values = [f.when(present, f.col(f"version.{name}")).alias(name) for name in right]
        plan = self._catalyst.analysed(found.select(*left, *values))
        wanted = [attribute for _, attribute in (*join.left.output, *join.right.output)]
        columns = [
            self._catalyst.as_attribute(made, attribute)
            for (_, made), attribute in zip(plan.output, wanted, strict=True)
        ]
        return self._catalyst.project(columns, plan)

    def _rows(self, join: AsOfNode) -> "DataFrame":
        """Return the rows that leave: `l0`, `l1`, …, `k0`, `k1`, … and `t`."""
        catalyst = self._catalyst
        left = join.left
        source = self.rewrite(left) if has_as_of_join(left, self._inputs) else self._due(join)
        columns = [
            *_renamed(catalyst, [attribute for _, attribute in left.output], "l"),
            *_renamed(catalyst, [pair.left.java for pair in join.keys], "k"),
            catalyst.named(join.left_time.java, "t"),
        ]
        return catalyst.frame(catalyst.project(columns, source))

    def _due(self, join: AsOfNode) -> Plan:
        """Return the left side without retractions and without rows that are not to leave."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        catalyst = self._catalyst
        tracked = with_origins(catalyst, join.left, self._positions)
        attributes = [attribute for _, attribute in tracked.output]
        timed = catalyst.project([*attributes, catalyst.named(join.left_time.java, _TIME)], tracked)
        due = catalyst.frame(timed).where(f.col(HIDDEN_OFFSET) % 2 == 0)
        due = due.where(_upto(f.col(_TIME), self._span.upto))
        if self._span.after is not None:
            due = due.where(~_upto(f.col(_TIME), self._span.after))
        visible = [attribute for _, attribute in join.left.output]
        return catalyst.project(visible, catalyst.analysed(due))

    def _versions(self, join: AsOfNode) -> Versions:
        """Return the versions that are valid up to the end of the span, and can be found."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        catalyst = self._catalyst
        tracked = with_origins(catalyst, join.right, self._positions)
        branch, position = (tracked.output[-2][1], tracked.output[-1][1])
        columns = [
            *_renamed(catalyst, [attribute for _, attribute in join.right.output], "r"),
            *_renamed(catalyst, [pair.right.java for pair in join.keys], "k"),
            catalyst.named(join.right_time.java, "t"),
            catalyst.named(branch, "branch"),
            catalyst.named(position, "position"),
        ]
        frame = catalyst.frame(catalyst.project(columns, tracked))
        for number, pair in enumerate(join.keys):
            if not pair.null_safe:
                frame = frame.where(f.col(f"k{number}").isNotNull())
        frame = frame.where(_upto(f.col("t"), self._span.upto))
        frame = frame.withColumn("present", f.col("position") % 2 == 0)
        views = tuple(views_below(join.right, self._inputs))
        return Versions(frame, len(join.keys), views)


def _upto(time: "Column", limit: int | None) -> "Column":
    """Whether a time, a day counting from midnight UTC, is not after a limit."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    if limit is None:
        return f.lit(False)
    return time.cast("timestamp") <= f.timestamp_millis(f.lit(limit).cast("bigint"))


def _renamed(catalyst: Catalyst, expressions: list[object], letter: str) -> list[object]:
    return [
        catalyst.named(expression, f"{letter}{number}")
        for number, expression in enumerate(expressions)
    ]


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


def _struct_type(frame: "DataFrame", letter: str) -> object:
    from pyspark.sql.types import StructType  # noqa: PLC0415

    return StructType([field for field in frame.schema.fields if field.name.startswith(letter)])

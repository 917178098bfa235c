"""Takes the steps of a query to a frame: parse, refuse, analyse, refuse.

Nothing is analysed before the parsed query is known to be one, since analysing already opens
files and runs commands (spark-stateful.md §7).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from odf.engines.host.queries import check_column_names, query_steps, step_name
from odf.engines.spark.catalyst import Catalyst, Plan, translated_errors
from odf.engines.spark.merge.frames import quoted
from odf.engines.spark.query.plans import (
    check_analysed,
    check_parsed,
    is_stateless,
    is_stateless_text,
    refuse_constant_rows,
    without_final_order,
)
from odf.engines.spark.stateful.temporal import check_tables
from odf.metadata.model import TransformSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ENGINE: Final = "Spark"


@dataclass(frozen=True, slots=True)
class Analysed:
    """A query whose every part is known and allowed.

    Attributes:
        frame: Its result, not computed yet.
        plan: The analysed plan of that.
        stateless: Whether each row of the inputs is mapped by itself.
        drops_order: Whether it ended with an ORDER BY, which has no effect.
    """

    frame: "DataFrame"
    plan: Plan
    stateless: bool
    drops_order: bool = False


def check_steps(
    spark: "SparkSession", transform: TransformSql, inputs: Collection[str], *, incremental: bool
) -> bool:
    """Check what the parsed steps show, for inputs whose columns are not known yet.

    Args:
        spark: A session.
        transform: The query.
        inputs: Names of the inputs.
        incremental: Whether it is the query of a transform, which runs again and again.

    Returns:
        Whether each row of the inputs is mapped by itself.

    Raises:
        InvalidQueryError: Something is not allowed.
    """
    catalyst = Catalyst(spark)
    known = list(inputs)
    stateless = True
    steps = query_steps(transform, inputs, _ENGINE, temporal_tables=incremental)
    for number, step in enumerate(steps, 1):
        where = step_name(number, steps)
        plan = catalyst.parse(step.query, where)
        check_parsed(plan, where, known, incremental=incremental)
        if incremental:
            refuse_constant_rows(plan, where)
        stateless = stateless and is_stateless_text(plan)
        if step.alias:
            known.append(step.alias)
    check_tables(transform.temporal_tables or (), dict.fromkeys(known))
    return stateless


def analyse_steps(
    spark: "SparkSession", transform: TransformSql, inputs: Collection[str], *, incremental: bool
) -> Analysed:
    """Analyse all steps over the views that the session has.

    Args:
        spark: A session with a view for each input.
        transform: The query.
        inputs: Names of the inputs.
        incremental: Whether it is the query of a transform, which runs again and again.

    Raises:
        InvalidQueryError: Something is not allowed or does not resolve.
    """
    catalyst = Catalyst(spark)
    known = list(inputs)
    views = {name.casefold() for name in inputs}
    steps = query_steps(transform, inputs, _ENGINE, temporal_tables=incremental)
    for number, step in enumerate(steps, 1):
        where = step_name(number, steps)
        parsed = catalyst.parse(step.query, where)
        check_parsed(parsed, where, known, incremental=incremental)
        with translated_errors(where):
            frame = spark.sql(step.query)
            plan = catalyst.analysed(frame)
        check_analysed(plan, where, views, incremental=incremental)
        if incremental:
            refuse_constant_rows(plan, where, views)
        if step.alias:
            with translated_errors(where):
                # The checked plan, in which each WITH is written in place, and nothing else.
                catalyst.frame(plan).createOrReplaceTempView(quoted(step.alias))
            known.append(step.alias)
    check_column_names(frame.columns)
    found = Analysed(frame, plan, is_stateless(plan, views))
    return _without_order(catalyst, found, views) if incremental else found


def analyse_again(
    spark: "SparkSession", transform: TransformSql, inputs: Collection[str]
) -> Analysed:
    """Analyse a query that was checked, over other rows of the same columns.

    Args:
        spark: A session with a view for each input; views of steps are replaced.
        transform: The query, which `analyse_steps` has accepted.
        inputs: Names of the inputs.
    """
    catalyst = Catalyst(spark)
    for step in query_steps(transform, inputs, _ENGINE, temporal_tables=True):
        frame = spark.sql(step.query)
        plan = catalyst.analysed(frame)
        if step.alias:
            catalyst.frame(plan).createOrReplaceTempView(quoted(step.alias))
    return _without_order(catalyst, Analysed(frame, plan, stateless=False), ())


def _without_order(catalyst: Catalyst, found: Analysed, inputs: Collection[str]) -> Analysed:
    plan = without_final_order(catalyst, found.plan)
    if plan is None:
        return found
    stateless = bool(inputs) and is_stateless(plan, inputs)
    return Analysed(catalyst.frame(plan), plan, stateless, drops_order=True)

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
    refuse_constant_rows,
)
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
    """

    frame: "DataFrame"
    plan: Plan
    stateless: bool


def check_steps(
    spark: "SparkSession", transform: TransformSql, inputs: Collection[str], *, stateless_only: bool
) -> None:
    """Check what the parsed steps show, for inputs whose columns are not known yet.

    Args:
        spark: A session.
        transform: The query.
        inputs: Names of the inputs.
        stateless_only: Whether constructs that look at more than one row are refused.

    Raises:
        InvalidQueryError: Something is not allowed.
    """
    catalyst = Catalyst(spark)
    known = list(inputs)
    steps = query_steps(transform, inputs, _ENGINE)
    for number, step in enumerate(steps, 1):
        where = step_name(number, steps)
        plan = catalyst.parse(step.query, where)
        check_parsed(plan, where, known, stateless_only=stateless_only)
        if stateless_only:
            refuse_constant_rows(plan, where)
        if step.alias:
            known.append(step.alias)


def analyse_steps(
    spark: "SparkSession", transform: TransformSql, inputs: Collection[str], *, stateless_only: bool
) -> Analysed:
    """Analyse all steps over the views that the session has.

    Args:
        spark: A session with a view for each input.
        transform: The query.
        inputs: Names of the inputs.
        stateless_only: Whether constructs that look at more than one row are refused.

    Raises:
        InvalidQueryError: Something is not allowed or does not resolve.
    """
    catalyst = Catalyst(spark)
    known = list(inputs)
    views = {name.casefold() for name in inputs}
    steps = query_steps(transform, inputs, _ENGINE)
    for number, step in enumerate(steps, 1):
        where = step_name(number, steps)
        parsed = catalyst.parse(step.query, where)
        check_parsed(parsed, where, known, stateless_only=stateless_only)
        with translated_errors(where):
            frame = spark.sql(step.query)
            plan = catalyst.analysed(frame)
        check_analysed(plan, where, views, stateless_only=stateless_only)
        if stateless_only:
            refuse_constant_rows(plan, where, views)
        if step.alias:
            with translated_errors(where):
                # The checked plan, in which each WITH is written in place, and nothing else.
                catalyst.frame(plan).createOrReplaceTempView(quoted(step.alias))
            known.append(step.alias)
    check_column_names(frame.columns)
    return Analysed(frame, plan, is_stateless(plan, views))

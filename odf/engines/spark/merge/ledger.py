"""The ledger strategy: a row whose key was never seen is new, all others are known.

Of several rows with one key the first in input order counts, within a batch as across batches.
"""

from typing import TYPE_CHECKING

from odf.engines.host.engine import IngestedRows, Rows
from odf.engines.spark.collect import collect
from odf.engines.spark.merge.checks import refuse_null_keys
from odf.engines.spark.merge.context import MergeContext
from odf.engines.spark.merge.event_time import filled
from odf.engines.spark.merge.frames import OFFSET, ROW, history_frame, names_of, new_frame
from odf.engines.spark.merge.layout import PRIMARY_KEY, MergeLayout
from odf.engines.spark.merge.small import merge_in_task
from odf.metadata.model import MergeStrategyLedger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_APPEND = 0


def ledger(merge: MergeContext, strategy: MergeStrategyLedger) -> IngestedRows:
    """Merge rows into a ledger (merge-strategies.md "Ledger", design §7).

    Args:
        merge: The rows and where they go.
        strategy: The primary key.

    Raises:
        BadInputError: A key column is missing or null.
    """
    spark, new, layout = merge.spark, merge.new, merge.layout
    keys = layout.positions(strategy.primary_key, PRIMARY_KEY)
    refuse_null_keys(new, layout, keys)
    schema = layout.output_schema(
        layout.vocab.operation_type_column, keeps_not_null=range(len(layout.columns))
    )
    merged = merge_in_task(merge, strategy, keys, _values(layout, keys))
    if merged is not None:
        found, result = merged
        rows = Rows(schema, found.batches(schema))
        return _ingested(merge, rows, found.rows, result.revised, result.known)
    key_names = [f"c{key}" for key in keys]
    new_frame(spark, new, layout).createOrReplaceTempView("odf_new")
    first = spark.sql(
        f"SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {', '.join(key_names)} "  # noqa: S608
        f"ORDER BY {ROW}) AS n FROM odf_new) WHERE n = 1"
    ).drop("n")
    if merge.history:
        known = history_frame(spark, merge.history, layout, keys).select(*key_names)
        first = first.join(known, key_names, "left_anti")
    frame = (
        first.selectExpr(
            f"{_APPEND} AS op",
            f"{filled('c0', layout, merge.event_time)} AS c0",
            *names_of(layout)[1:],
            ROW,
        )
        .sort("c0", ROW)
        .drop(ROW)
    )
    found = collect(frame, merge.scratch / "merged", small=merge.small)
    revised = known_keys = 0
    if found.rows < new.parts.rows:
        revised = _count_revised(spark, layout, keys, merge.history)
        by_key = ", ".join(key_names)
        distinct = spark.sql(f"SELECT count(DISTINCT {by_key}) AS n FROM odf_new")  # noqa: S608
        known_keys = int(distinct.collect()[0]["n"]) - found.rows
    rows = Rows(schema, found.batches(schema))
    return _ingested(merge, rows, found.rows, revised, known_keys)


def _ingested(merge: MergeContext, rows: Rows, kept: int, revised: int, known: int) -> IngestedRows:
    read = merge.new.parts.rows
    return IngestedRows(
        rows,
        rows_read=read,
        keys_revised_ignored=revised,
        rows_unchanged=read - kept - revised,
        keys_known=known,
    )


def _values(layout: MergeLayout, keys: tuple[int, ...]) -> list[int]:
    """Return the columns whose change is a revision."""
    return [
        position
        for position, column in enumerate(layout.columns)
        if position not in keys and column.in_new
    ]


def _count_revised(
    spark: "SparkSession", layout: MergeLayout, keys: tuple[int, ...], history: tuple[str, ...]
) -> int:
    """Count the keys that come with other values than when they were first seen.

    A value that is not there is not another one: columns come and go between exports.
    """
    values = _values(layout, keys)
    if not values:
        return 0
    by_key = ", ".join(f"c{key}" for key in keys)
    packed = "struct(" + ", ".join(f"c{position}" for position in values) + ")"
    spark.sql(
        f"SELECT *, first_value({packed}) OVER (PARTITION BY {by_key} ORDER BY {ROW}) AS f "  # noqa: S608
        "FROM odf_new"
    ).createOrReplaceTempView("odf_all")
    reference = "f"
    source = "odf_all a"
    if history:
        _first_seen(spark, layout, keys, values, history).createOrReplaceTempView("odf_seen")
        on = " AND ".join(f"a.c{key} = s.c{key}" for key in keys)
        reference = "CASE WHEN s.known THEN s.f ELSE a.f END"
        source += f" LEFT JOIN odf_seen s ON {on}"
    differs = " OR ".join(
        f"NOT (c{position} <=> f.c{position}) AND c{position} IS NOT NULL "
        f"AND f.c{position} IS NOT NULL"
        for position in values
    )
    columns = ", ".join(f"a.c{position}" for position in (*keys, *values))
    found = spark.sql(
        f"SELECT count(DISTINCT {by_key}) AS n FROM "  # noqa: S608
        f"(SELECT {columns}, {reference} AS f FROM {source}) WHERE {differs}"
    ).collect()
    return int(found[0]["n"])


def _first_seen(
    spark: "SparkSession",
    layout: MergeLayout,
    keys: tuple[int, ...],
    values: list[int],
    history: tuple[str, ...],
) -> "DataFrame":
    by_key = ", ".join(f"c{key}" for key in keys)
    packed = "struct(" + ", ".join(f"c{position}" for position in values) + ")"
    history_frame(spark, history, layout, (*keys, *values)).createOrReplaceTempView("odf_history")
    return spark.sql(
        f"SELECT {by_key}, true AS known, min_by({packed}, {OFFSET}) AS f "  # noqa: S608
        f"FROM odf_history GROUP BY {by_key}"
    )

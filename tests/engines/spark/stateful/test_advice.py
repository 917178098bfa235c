"""What is said about queries that have to be computed anew from all rows: what to write instead."""

import pytest

from odf.engines.host.engine import QueryValidation, ValidatedInput
from odf.engines.spark.engine import SparkEngine
from odf.errors import InvalidQueryError
from odf.metadata.model import DEFAULT_VOCAB, SqlQueryStep, TransformSql
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.changelogs import COLUMNS
from tests.engines.spark.stateful.replay import Shape

pytestmark = pytest.mark.spark

HOURLY = (
    "SELECT window.end AS event_time, k, count(*) AS n FROM t "
    "GROUP BY window(event_time, '1 hour'), k"
)
JOINED = (
    "SELECT greatest(l.event_time, r.event_time) AS event_time, l.k, r.v FROM t l JOIN u r "
    "ON l.k = r.k AND r.event_time BETWEEN l.event_time AND l.event_time + INTERVAL 1 HOUR"
)
DAILY = (
    "SELECT window.end AS event_time, count(*) AS m FROM {} GROUP BY window(event_time, '1 day')"
)


def validated(engine: SparkEngine, query: TransformSql) -> QueryValidation:
    inputs = [
        ValidatedInput(name, Shape(COLUMNS).schema, has_retractions=False) for name in ("t", "u")
    ]
    return engine.validate(query, inputs, DEFAULT_VOCAB, preprocess=False)


def advice(engine: SparkEngine, query: str) -> str:
    found = validated(engine, sql(query))
    assert found.query_class == "whole history"
    (said,) = found.warnings
    return said


def test_a_window_over_a_join_is_two_datasets(engine: SparkEngine) -> None:
    said = advice(engine, DAILY.format(f"(\n{JOINED}\n) x"))
    assert f"`first` with {JOINED} (inner join within 1 hour, keeps 1 hour of rows)" in said
    assert f"over it with {DAILY.format('first x')} (windowed aggregate, keeps 1 day" in said
    # What is said can be done.
    assert validated(engine, sql(JOINED)).query_class == "bounded"


def test_a_query_of_a_with_clause_is_a_dataset_of_its_own(engine: SparkEngine) -> None:
    query = f"WITH h AS ({HOURLY}) SELECT event_time, max(n) AS n FROM h GROUP BY event_time"
    said = advice(engine, query)
    assert f"`h` with {HOURLY} (" in said
    assert "over it with SELECT event_time, max(n) AS n FROM h GROUP BY event_time (" in said


def test_steps_are_told_by_their_names(engine: SparkEngine) -> None:
    steps = (
        SqlQueryStep("SELECT event_time, k FROM t WHERE v > 0", alias="some"),
        SqlQueryStep(HOURLY.replace("FROM t", "FROM some"), alias="hours"),
        SqlQueryStep("SELECT max(event_time) AS event_time, sum(n) AS n FROM hours"),
    )
    found = validated(engine, TransformSql("spark", queries=steps))
    assert found.query_class == "whole history"
    (said,) = found.warnings
    assert said == (
        "make two datasets of it: one of the queries up to `hours` (windowed aggregate, keeps 1 "
        "hour of rows), and one of the rest, which reads it as `hours` (aggregate of all rows, "
        "keeps partial results for each group)"
    )


def test_the_name_of_the_first_part_is_no_other_one(engine: SparkEngine) -> None:
    given = [ValidatedInput("FIRST", Shape(COLUMNS).schema, has_retractions=False)]
    hourly = HOURLY.replace("FROM t", "FROM first")
    found = engine.validate(sql(DAILY.format(f"({hourly}) x")), given, DEFAULT_VOCAB,
                            preprocess=False)  # fmt: skip
    (said,) = found.warnings
    assert f"`first2` with {hourly} (windowed aggregate" in said
    assert f"over it with {DAILY.format('first2 x')} (windowed aggregate" in said


def test_a_query_that_hides_an_input_is_not_taken_for_it(engine: SparkEngine) -> None:
    query = f"WITH t AS ({HOURLY}) SELECT event_time, max(n) AS n FROM t GROUP BY event_time"
    assert "`t`" not in advice(engine, query)


def test_a_refusal_keeps_its_own_hint_where_two_queries_do_not_help(engine: SparkEngine) -> None:
    query = (
        "SELECT max(event_time) AS event_time, d, count(*) AS op FROM "
        "(SELECT DISTINCT event_time, d FROM t) GROUP BY d"
    )
    with pytest.raises(InvalidQueryError, match="has a column `op`") as refused:
        validated(engine, sql(query))
    assert "rename it with AS" in (refused.value.hint or "")


def test_what_stands_over_an_as_of_join_is_a_dataset_of_its_own(engine: SparkEngine) -> None:
    inner = (
        "SELECT t.event_time, t.v, u.v AS w FROM t ASOF JOIN u "
        "MATCH_CONDITION (t.event_time >= u.event_time) ON t.k = u.k"
    )
    with pytest.raises(InvalidQueryError, match="together with an as-of join") as refused:
        validated(engine, sql(DAILY.format(f"({inner})")))
    hint = refused.value.hint or ""
    assert f"`first` with {inner} (as-of join" in hint
    assert f"over it with {DAILY.format('first')} (windowed aggregate" in hint


NEWEST = (
    "SELECT event_time, k FROM (SELECT event_time, k, row_number() OVER (PARTITION BY k "
    "ORDER BY event_time DESC) AS r FROM t) WHERE r = 1"
)
LATERAL = (
    "SELECT t.event_time, x.v FROM t, LATERAL (SELECT v FROM u WHERE u.k = t.k "
    "ORDER BY event_time DESC LIMIT 1) x"
)
TIMELESS = (
    "SELECT max(t) AS event_time, sum(n) AS n FROM "
    "(SELECT max(event_time) AS t, count(*) AS n FROM t GROUP BY k)"
)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (NEWEST, "max_by"),
        ("SELECT event_time, k FROM t ORDER BY v LIMIT 3", "who read the dataset"),
        ("SELECT event_time, k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)", "SEMI"),
        ("SELECT event_time, k FROM t WHERE k NOT IN (SELECT k FROM u)", "LEFT ANTI JOIN"),
        (LATERAL, "ASOF JOIN"),
    ],
)
def test_single_constructs_have_another_way(query: str, said: str, engine: SparkEngine) -> None:
    assert said in advice(engine, query)


def test_an_inner_query_without_an_event_time_needs_one(engine: SparkEngine) -> None:
    assert "which needs an event time of its own" in advice(engine, TIMELESS)


def test_where_nothing_is_known_nothing_is_said(engine: SparkEngine) -> None:
    query = "SELECT event_time, k FROM t EXCEPT SELECT event_time, k FROM u"
    found = validated(engine, sql(query))
    assert found.query_class == "whole history"
    assert found.warnings == ()


def test_a_condition_on_a_window_function(engine: SparkEngine) -> None:
    query = "SELECT event_time FROM t QUALIFY row_number() OVER (ORDER BY event_time) = 1"
    with pytest.raises(InvalidQueryError, match="QUALIFY is not allowed") as refused:
        validated(engine, sql(query))
    assert "into a subquery" in (refused.value.hint or "")


def test_rows_of_a_function_beside_a_table(engine: SparkEngine) -> None:
    with pytest.raises(InvalidQueryError, match="LATERAL with a function") as refused:
        validated(engine, sql("SELECT event_time, x.col FROM t, LATERAL explode(array(v)) AS x"))
    assert "LATERAL VIEW explode" in (refused.value.hint or "")


def test_windows_of_months(engine: SparkEngine) -> None:
    query = "SELECT window.end AS event_time FROM t GROUP BY window(event_time, '1 month')"
    with pytest.raises(InvalidQueryError, match="greater than a month") as refused:
        validated(engine, sql(query))
    assert "date_trunc('MONTH'" in (refused.value.hint or "")


def test_joins_of_three_tables_are_two_datasets(engine: SparkEngine) -> None:
    query = (
        "SELECT a.event_time FROM t a JOIN u b ON a.event_time = b.event_time "
        "JOIN t c ON a.event_time = c.event_time"
    )
    assert "one with the inner part (a join)" in advice(engine, query)

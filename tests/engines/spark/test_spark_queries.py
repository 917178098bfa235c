"""Which queries are accepted, what refusals say, and what accepted ones give in which order."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.engines.host.engine import InputView, TransformJob, ValidatedInput
from odf.engines.host.queries import ORDER_WARNING
from odf.engines.spark.catalyst import Catalyst, plain_message
from odf.engines.spark.engine import RELEASE, SparkEngine
from odf.engines.spark.query.functions import ALLOWED, REFUSED
from odf.errors import InvalidQueryError
from odf.metadata.model import (
    DEFAULT_VOCAB,
    DatasetVocabulary,
    MergeStrategyLedger,
    ReadStepCsv,
    TransformSql,
)
from tests.engines.spark.spark_ingestor import Ingestor, sql

pytestmark = pytest.mark.spark

MOMENT = pa.timestamp("ms", "UTC")
SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("op", pa.int32()),
        ("system_time", MOMENT),
        ("event_time", MOMENT),
        ("k", pa.string()),
        ("v", pa.float64()),
        ("xs", pa.list_(pa.int64())),
    ]
)


def check(
    engine: SparkEngine,
    query: TransformSql,
    schema: pa.Schema | None = SCHEMA,
    *,
    preprocess: bool = False,
    has_retractions: bool = False,
) -> Any:
    alias = "input" if preprocess else "t"
    given = [ValidatedInput(alias, schema, has_retractions)]
    return engine.validate(query, given, DEFAULT_VOCAB, preprocess=preprocess)


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT event_time, k, op FROM t WHERE v > 1", ["event_time", "k", "op"]),
        ("SELECT event_time, explode(xs) AS x FROM t", ["event_time", "x"]),
        ("SELECT event_time, x FROM t LATERAL VIEW explode(xs) AS x", ["event_time", "x"]),
        ("FROM t |> WHERE op = 0 |> SELECT event_time, k", ["event_time", "k"]),
        (
            (
                "WITH c AS (SELECT * FROM t) "
                "SELECT event_time FROM c UNION ALL SELECT event_time FROM c"
            ),
            ["event_time"],
        ),
        ("SELECT event_time, aggregate(xs, 0L, (a, b) -> a + b) AS s FROM t", ["event_time", "s"]),
        ("SELECT CAST(event_time AS DATE) AS event_time FROM T", ["event_time"]),
    ],
)
def test_accepted(query: str, columns: list[str], engine: SparkEngine) -> None:
    found = check(engine, sql(query))
    assert found.query_class == "stateless"
    assert found.output_schema.names == columns
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        ("NULL", "VOID"),
        ("array()", "ARRAY<VOID>"),
        ("map(k, v)", "MAP<STRING,DOUBLE>"),
        ("struct(map(k, v))", "STRUCT<COL1:MAP<STRING,DOUBLE>>"),
        ("INTERVAL 1 DAY", "INTERVAL DAY"),
        ("INTERVAL '1' MONTH", "INTERVAL MONTH"),
        ("make_interval(1)", "INTERVAL"),
        ("parse_json(k)", "VARIANT"),
        ("array(struct(parse_json(k)))", "ARRAY<STRUCT<COL1:VARIANT>>"),
        ("array(struct(k))", "ARRAY<STRUCT<K:STRING>>"),
    ],
)
def test_types_that_no_slice_holds_are_named_before_anything_runs(
    column: str, dtype: str, engine: SparkEngine
) -> None:
    said = f"the column `z` of the result has the type {dtype}, which a slice cannot hold"
    for query in (
        f"SELECT event_time, {column} AS z FROM t",
        f"SELECT event_time, first({column}) OVER (ORDER BY v) AS z FROM t",
    ):
        with pytest.raises(InvalidQueryError) as caught:
            check(engine, sql(query))
        assert caught.value.message == said
        assert "CAST" in (caught.value.hint or "")
    with pytest.raises(InvalidQueryError, match="which a slice cannot hold"):
        check(engine, sql(f"SELECT {column} AS z FROM input"), preprocess=True)
    assert check(engine, sql("SELECT event_time, struct(1 AS variant) AS z FROM t"))


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("SELECT event_time, k FROM t ORDER BY k", "stateless"),
        ("SELECT event_time FROM t ORDER BY k DESC, v SORT BY v", None),
        ("SELECT event_time AS event_time FROM (SELECT * FROM t) ORDER BY k", "stateless"),
        ("SELECT event_time FROM t SORT BY k", "stateless"),
        ("SELECT max(event_time) AS event_time, k FROM t GROUP BY k ORDER BY k", "changing"),
        ("SELECT event_time, k FROM t ORDER BY k LIMIT 1", "whole history"),
        ("SELECT event_time, k FROM (SELECT * FROM t ORDER BY k) LIMIT 1", "whole history"),
    ],
)
def test_an_order_at_the_end_changes_nothing(
    query: str, kind: str | None, engine: SparkEngine
) -> None:
    if kind is None:
        with pytest.raises(InvalidQueryError):
            check(engine, sql(query))
        return
    found = check(engine, sql(query))
    assert found.query_class == kind
    leave_it = "leave ORDER BY and LIMIT to those who read the dataset"
    assert found.warnings == ((leave_it,) if "LIMIT" in query else (ORDER_WARNING,))


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("SELECT event_time, count(*) AS n FROM t GROUP BY event_time", "bounded"),
        ("SELECT DISTINCT event_time FROM t", "bounded"),
        ("SELECT event_time FROM t UNION SELECT event_time FROM t", "bounded"),
        ("SELECT max(event_time) AS event_time FROM t", "changing"),
        ("SELECT event_time, sum(v) OVER (PARTITION BY k) AS s FROM t", "whole history"),
        ("SELECT event_time FROM t ORDER BY 1 LIMIT 1", "whole history"),
        ("SELECT a.event_time FROM t a JOIN t b ON a.k = b.k", "whole history"),
        ("SELECT a.event_time FROM t a, t b", "whole history"),
        ("SELECT event_time FROM t EXCEPT SELECT event_time FROM t", "whole history"),
        ("SELECT event_time FROM t WHERE k IN (SELECT k FROM t)", "whole history"),
        ("SELECT event_time, (SELECT max(k) FROM t) AS m FROM t", "whole history"),
        (
            (
                "SELECT t.event_time FROM t ASOF JOIN t u "
                "MATCH_CONDITION (t.event_time >= u.event_time)"
            ),
            "as-of",
        ),
    ],
)
def test_what_needs_state_is_of_some_kind(query: str, kind: str, engine: SparkEngine) -> None:
    found = check(engine, sql(query))
    assert found.query_class == kind
    assert found.description
    # Before the columns of the input are known, no more is known than that it needs state.
    early = check(engine, sql(query), None)
    assert (early.query_class, early.output_schema) == ("unknown", None)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC 1", "Syntax error at or near 'SELEC'. (line 1, pos 0)"),
        ("SELECT 1; SELECT 2", "Syntax error"),
        ("SELECT event_time FROM csv.`/etc/passwd`", "reads `csv./etc/passwd`"),
        ("SELECT event_time FROM other", "reads `other`, which is no input of the query"),
        ("SELECT event_time FROM range(3)", "table function range"),
        ("SELECT event_time FROM t TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT /*+ broadcast(t) */ event_time FROM t", "a hint"),
        ("SELECT TRANSFORM(k) USING 'cat' AS (z) FROM t", "running a script"),
        ("SET x = 1", "the statement SET"),
        ("DROP TABLE t", "the statement DROP TABLE"),
        ("CREATE TEMPORARY VIEW z AS SELECT 1", "the statement CREATE VIEW"),
        ("ADD JAR 'x.jar'", "the statement ADD JARS"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "EXECUTE IMMEDIATE"),
        ("BEGIN SELECT 1; END", "a script"),
        ("WITH RECURSIVE r AS (SELECT 1 AS n) SELECT * FROM r", "WITH RECURSIVE"),
        ("SELECT event_time, rand() AS r FROM t", "function rand"),
        ("SELECT event_time, uuid() AS r FROM t", "function uuid"),
        ("SELECT event_time, now() AS r FROM t", "function now"),
        ("SELECT event_time, unix_timestamp() AS r FROM t", "function unix_timestamp"),
        (
            "SELECT event_time, reflect('java.lang.System', 'exit', 1) AS r FROM t",
            "function reflect",
        ),
        ("SELECT event_time, input_file_name() AS r FROM t", "function input_file_name"),
        ("SELECT event_time, nothing_like_it(k) AS r FROM t", "no function nothing_like_it"),
        ("SELECT event_time, a.b.c(k) AS r FROM t", "a.b.c is not built in"),
        ("SELECT timestamp'2020-01-01' AS event_time", "come from no input"),
        ("SELECT event_time FROM t UNION ALL SELECT timestamp'2020-01-01'", "come from no input"),
        ("VALUES (1)", "come from no input"),
    ],
)
def test_refused_without_looking_at_columns(query: str, message: str, engine: SparkEngine) -> None:
    for schema in (SCHEMA, None):
        with pytest.raises(InvalidQueryError) as caught:
            check(engine, sql(query), schema)
        assert message in caught.value.message
        assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("query", "place", "hint"),
    [
        ("SELECT event_time, uper(k) AS u FROM t", "line 1, pos 19", "did you mean upper?"),
        ("SELECT event_time,\n  UPER(k) AS u FROM t", "line 2, pos 2", "did you mean upper?"),
        ("SELECT event_time FROM tt", "line 1, pos 23", "did you mean t?"),
        ("SELECT event_time, now() AS n FROM t", "line 1, pos 19", "results have to be"),
        ("SELECT event_time FROM explod(array(1))", "line 1, pos 23", "did you mean explode?"),
        ("SELECT event_time FROM t TABLESAMPLE (10 PERCENT)", "line 1, pos 25", "one query"),
    ],
)
def test_refusals_say_where_and_what_instead(
    query: str, place: str, hint: str, engine: SparkEngine
) -> None:
    with pytest.raises(InvalidQueryError) as caught:
        check(engine, sql(query))
    assert f"({place})" in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT event_time, nope FROM t", "`nope` cannot be resolved"),
        ("SELECT event_time, current_date AS d FROM t", "function current_date"),
        ("SELECT event_time, current_user AS d FROM t", "function current_user"),
        ("SELECT event_time, k, v AS K FROM t", "`k` and `K`"),
        ("SELECT event_time, k AS __odf_offset FROM t", "keeps for itself"),
        ("SELECT k FROM t", "no event time column `event_time`; it has `k`"),
        ("SELECT * FROM t", "system column `offset`"),
        ("SELECT event_time, v AS System_Time FROM t", "system column `system_time`"),
        (
            "SELECT CAST(event_time AS STRING) AS event_time FROM t",
            "has to be a DATE or a TIMESTAMP",
        ),
        ("SELECT event_time, k AS op FROM t", "`op` of the result has to be an INT"),
    ],
)
def test_refused_by_columns(query: str, message: str, engine: SparkEngine) -> None:
    with pytest.raises(InvalidQueryError) as caught:
        check(engine, sql(query))
    assert message in caught.value.message


def test_steps_name_each_other_and_errors_name_steps(engine: SparkEngine) -> None:
    query = sql("SELECT event_time, k FROM Two", one="SELECT * FROM t", two="SELECT * FROM one")
    assert check(engine, query).output_schema.names == ["event_time", "k"]
    with pytest.raises(InvalidQueryError, match=r"query 2 \(`two`\): .* function rand"):
        check(engine, sql("SELECT 1", one="SELECT * FROM t", two="SELECT rand() FROM t"), None)
    with pytest.raises(InvalidQueryError, match="reads `two`"):
        check(engine, sql("SELECT 1", one="SELECT * FROM two", two="SELECT * FROM t"))
    with pytest.raises(InvalidQueryError, match="the name `T` of query 1 is taken"):
        check(engine, sql("SELECT event_time FROM t", T="SELECT * FROM t"))
    with pytest.raises(InvalidQueryError, match="asks for the engine 'flink'"):
        check(engine, TransformSql("flink", queries=sql("SELECT 1").queries))


def test_dropping_op_over_retractions_is_warned_of(engine: SparkEngine) -> None:
    found = check(engine, sql("SELECT event_time, k FROM t"), has_retractions=True)
    assert len(found.warnings) == 1
    assert "`t` has retractions" in found.warnings[0]
    kept = check(engine, sql("SELECT op, event_time FROM t"), has_retractions=True)
    assert kept.warnings == ()


def test_every_function_of_this_spark_is_decided_on(engine: SparkEngine) -> None:
    with engine._runtime.operation() as spark:
        known = Catalyst(spark).function_names()
    assert known - ALLOWED - set(REFUSED) == set()
    assert set(REFUSED) - known == set()
    assert ALLOWED & set(REFUSED) == set()
    spelled_otherwise = {"!=", "<>", "||", "case", "between"}
    assert ALLOWED - known <= spelled_otherwise


# Results


def write_slice(path: Path, first: int, rows: Sequence[dict[str, Any]]) -> str:
    columns = {name: [row.get(name) for row in rows] for name in SCHEMA.names}
    columns["offset"] = list(range(first, first + len(rows)))
    columns["system_time"] = [0] * len(rows)
    pq.write_table(pa.table(columns, SCHEMA), path)
    return str(path)


@pytest.fixture
def slices(tmp_path: Path) -> tuple[str, str]:
    first = [{"op": 0, "event_time": 9 - i, "k": f"a{i}", "v": i, "xs": [i, -i]} for i in range(4)]
    second = [{"op": 2 + i % 2, "event_time": i, "k": f"b{i}", "v": i, "xs": []} for i in range(4)]
    return (
        write_slice(tmp_path / "one.parquet", 0, first),
        write_slice(tmp_path / "two.parquet", 4, second),
    )


def run(
    engine: SparkEngine,
    scratch: Path,
    query: TransformSql,
    paths: tuple[str, ...],
    start: int | None = 0,
    end: int | None = 100,
    alias: str = "t",
) -> list[tuple[Any, ...]]:
    view = InputView(alias, paths, paths[0], DEFAULT_VOCAB, start, end)
    rows = engine.transform(TransformJob(query, (view,), DEFAULT_VOCAB, scratch))
    found = [row for batch in rows.batches for row in batch.to_pylist()]
    assert rows.schema.names[-2:] == ["__odf_branch", "__odf_offset"]
    return [(row["k"], row["__odf_branch"], row["__odf_offset"]) for row in found]


def test_rows_come_by_branch_then_offset(
    engine: SparkEngine, slices: tuple[str, str], tmp_path: Path
) -> None:
    query = sql(
        "SELECT event_time, concat(k, '!') AS k FROM s WHERE v > 2 UNION ALL "
        "SELECT event_time, concat(k, x) FROM t LATERAL VIEW explode(xs) AS x WHERE v = 1",
        s="WITH c AS (SELECT * FROM t) SELECT event_time, k, v FROM c "
        "UNION ALL SELECT event_time, upper(k), v FROM c",
    )
    assert run(engine, tmp_path / "x", query, slices) == [
        ("a3!", 0, 3),
        ("b3!", 0, 7),
        ("A3!", 1, 3),
        ("B3!", 1, 7),
        ("a11", 2, 1),
        ("a1-1", 2, 1),
    ]


def test_only_the_interval_is_read(
    engine: SparkEngine, slices: tuple[str, str], tmp_path: Path
) -> None:
    query = sql("SELECT event_time, k FROM `my.in-put`")
    found = run(engine, tmp_path / "x", query, slices, 3, 5, alias="my.in-put")
    assert [row[2] for row in found] == [3, 4, 5]
    assert run(engine, tmp_path / "y", query, slices, None, None, alias="my.in-put") == []


def test_slices_of_different_ages_and_makers(engine: SparkEngine, tmp_path: Path) -> None:
    old = pa.table(
        {
            "offset": pa.array([0, 1], pa.uint64()),
            "op": pa.array([0, 1], pa.uint8()),
            "system_time": pa.array([0, 0], pa.timestamp("us", "UTC")),
            "event_time": pa.array([1, 2], pa.timestamp("ns", "UTC")),
        }
    )
    pq.write_table(old, tmp_path / "old.parquet")
    new = write_slice(tmp_path / "new.parquet", 2, [{"op": 0, "event_time": 0, "k": "x"}])
    view = InputView("t", (str(tmp_path / "old.parquet"), new), new, DEFAULT_VOCAB, 0, 2)
    query = sql("SELECT op, event_time, k, `offset` AS o FROM t")
    rows = engine.transform(TransformJob(query, (view,), DEFAULT_VOCAB, tmp_path / "x"))
    found = [row for batch in rows.batches for row in batch.to_pylist()]
    assert [(row["op"], row["k"], row["o"]) for row in found] == [
        (0, None, 0),
        (1, None, 1),
        (0, "x", 2),
    ]


def test_the_system_columns_may_have_other_names(engine: SparkEngine, tmp_path: Path) -> None:
    vocab = DatasetVocabulary("nr", "what", "noted", "at")
    table = pa.table(
        {"nr": [0, 1], "what": pa.array([0, 0], pa.int32()), "noted": pa.array([0, 0], MOMENT),
         "at": pa.array([0, 1], MOMENT), "offset": ["x", "y"]}
    )  # fmt: skip
    pq.write_table(table, tmp_path / "s.parquet")
    path = str(tmp_path / "s.parquet")
    view = InputView("t", (path,), path, vocab, 1, 1)
    query = sql("SELECT at AS event_time, `offset` AS text FROM t")
    rows = engine.transform(TransformJob(query, (view,), DEFAULT_VOCAB, tmp_path / "x"))
    (row,) = [row for batch in rows.batches for row in batch.to_pylist()]
    assert (row["text"], row["__odf_offset"]) == ("y", 1)


def test_a_query_that_fails_on_a_value(
    engine: SparkEngine, slices: tuple[str, str], tmp_path: Path
) -> None:
    with pytest.raises(InvalidQueryError, match="'a0' of the type \"STRING\" cannot be cast"):
        run(engine, tmp_path / "x", sql("SELECT event_time, CAST(k AS INT) AS k FROM t"), slices)


def test_large_results_are_the_same(
    engine: SparkEngine, slices: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = sql("SELECT event_time, k FROM t WHERE v > 0 UNION ALL SELECT event_time, k FROM t")
    want = run(engine, tmp_path / "small", query, slices)
    monkeypatch.setattr("odf.engines.spark.query.run.SMALL_ROWS", 0)
    assert run(engine, tmp_path / "large", query, slices) == want


def test_raw_queries(engine: SparkEngine, slices: tuple[str, str], tmp_path: Path) -> None:
    query = sql("SELECT op, count(*) AS n, sum(v) AS s FROM input GROUP BY op")
    rows = engine.raw_query(query, slices, tmp_path / "raw")
    assert pa.Table.from_batches(list(rows.batches), rows.schema).to_pylist() == [
        {"op": 0, "n": 4, "s": 6.0},
        {"op": 2, "n": 2, "s": 2.0},
        {"op": 3, "n": 2, "s": 4.0},
    ]
    rows = engine.raw_query(sql("SELECT k FROM input WHERE v < 2"), slices[::-1], tmp_path / "r2")
    found = [row["k"] for batch in rows.batches for row in batch.to_pylist()]
    assert found == ["b0", "b1", "a0", "a1"]


# Preprocess queries

CSV = ReadStepCsv(schema=("k STRING", "v DOUBLE"), header=True)
Make = Callable[..., Ingestor]


def test_preprocess_may_aggregate_and_is_then_sorted_by_value(ingestor: Make) -> None:
    dataset = ingestor(
        read=CSV, preprocess=sql("SELECT k, sum(v) AS s, count(*) AS n FROM input GROUP BY k")
    )
    found = dataset.text("k,v\nz,1\na,2\nz,3\n,4\n")
    assert [(row["k"], row["s"], row["n"]) for row in found.rows] == [
        (None, 4.0, 1),
        ("a", 2.0, 1),
        ("z", 4.0, 2),
    ]


def test_preprocess_by_row_keeps_the_order(ingestor: Make) -> None:
    dataset = ingestor(
        read=CSV,
        preprocess=sql("SELECT upper(k) AS k FROM s WHERE v <> 2", s="SELECT * FROM input"),
    )
    found = dataset.text("k,v\nz,1\nb,2\na,3\n", "k,v\nc,1\n")
    assert [row["k"] for row in found.rows] == ["Z", "A", "C"]


def test_first_and_floating_sums_follow_the_order_of_all_files(ingestor: Make) -> None:
    query = sql("SELECT sum(v) AS s, first(k) AS f, collect_list(k) AS l FROM input")
    values = [("a", "1e16"), ("b", "1"), ("c", "-1e16"), ("d", "1")]
    text = "k,v\n" + "".join(f"{k},{v}\n" for k, v in values)
    files = [f"k,v\n{k},{v}\n" for k, v in values]
    whole = ingestor(read=CSV, preprocess=query).text(text).rows
    assert ingestor(read=CSV, preprocess=query).text(*files).rows == whole
    assert whole[0]["l"] == ["a", "b", "c", "d"]


def test_constants_in_preprocess(ingestor: Make) -> None:
    query = sql("SELECT k FROM input UNION ALL SELECT 'b'")
    assert [r["k"] for r in ingestor(read=CSV, preprocess=query).text("k,v\nc,1\na,1\n").rows] == [
        "a",
        "b",
        "c",
    ]


def test_preprocess_refusals(ingestor: Make, engine: SparkEngine) -> None:
    for query, message in (
        ("SELECT k, rand() AS r FROM input", "function rand"),
        ("SELECT k FROM other", "reads `other`"),
        ("SELECT CAST(k AS INT) AS k FROM input", "the preprocess query failed"),
        (
            "SELECT map(k, v) AS m FROM input",
            "column `m` of the result has the type MAP<STRING,DOUBLE>",
        ),
        ("SELECT k, v AS K FROM input", "`k` and `K`"),
    ):
        with pytest.raises(InvalidQueryError) as caught:
            ingestor(read=CSV, preprocess=sql(query)).text("k,v\na,1\n")
        assert message in caught.value.message
    assert check(
        engine, sql("SELECT k, count(*) AS n FROM input GROUP BY k"), preprocess=True
    ).output_schema.names == ["k", "n"]


def test_preprocess_without_rows(ingestor: Make) -> None:
    dataset = ingestor(
        read=CSV,
        merge=MergeStrategyLedger(("k",)),
        preprocess=sql("SELECT k FROM input WHERE v > 9"),
    )
    found = dataset.text("k,v\na,1\n")
    assert found.rows == []
    assert found.schema.names[-1] == "k"
    assert found.ingested.rows_read == 0


def test_messages_of_spark_become_one_line() -> None:
    text = "\n[X.Y] Bad thing. SQLSTATE: 42601 (line 1, pos 7)\n\n== SQL ==\nselect\n"
    assert plain_message(text) == "[X.Y] Bad thing. (line 1, pos 7)"
    assert plain_message("[X] No.\nReally. SQLSTATE: 1; line 1 pos 2;\n'Project") == (
        "[X] No. Really. (line 1 pos 2)"
    )


def test_who_the_engine_says_it_is(engine: SparkEngine) -> None:
    assert (engine.name, engine.release) == ("spark", RELEASE)
    assert set(engine.versions) == {"java", "spark", "pyarrow", "odf"}
    assert engine.versions["spark"].startswith("4.3.")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT event_time, row_number() OVER (ORDER BY k) AS r FROM t", "a window function"),
        ("SELECT event_time FROM t ORDER BY k LIMIT 3", "LIMIT"),
        ("SELECT event_time FROM t EXCEPT SELECT event_time FROM t", "EXCEPT"),
    ],
)
def test_why_a_query_needs_the_whole_history(query: str, reason: str, engine: SparkEngine) -> None:
    assert f"because it has {reason}" in check(engine, sql(query)).description

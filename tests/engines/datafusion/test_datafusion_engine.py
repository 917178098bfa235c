"""What is particular to the DataFusion engine; what all engines do is in the behaviour suite."""

import re
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.engines.datafusion.engine import DataFusionEngine
from odf.engines.datafusion.functions import (
    ALLOWED,
    REFUSED,
    SPARK_EQUIVALENTS,
    TABLE_FUNCTIONS,
)
from odf.engines.datafusion.json_functions import JSON_FUNCTIONS
from odf.engines.datafusion.session import DataFusionSettings, builtin_functions
from odf.engines.host.engine import (
    HIDDEN_BRANCH,
    HIDDEN_OFFSET,
    InputView,
    QueryValidation,
    TransformJob,
    ValidatedInput,
)
from odf.engines.host.queries import ORDER_WARNING, checked_order
from odf.errors import InvalidQueryError
from odf.metadata.model import DEFAULT_VOCAB, DatasetVocabulary, SqlQueryStep, TransformSql
from tests.conftest import PROJECT
from tests.engines.datafusion.datafusion_cases import JSON, NEW_YEAR, OTHERS, TIMES

TIME = pa.timestamp("ms", "UTC")
COLUMNS = pa.schema(
    [("offset", pa.int64()), ("op", pa.int32()), ("system_time", TIME), ("event_time", TIME)]
)


class Tables:
    """Runs queries over the inputs `a` and `b`.

    Args:
        folder: Where files go.
        slice_by_slice: How the engine is started.
    """

    def __init__(self, folder: Path, *, slice_by_slice: bool = False) -> None:
        self.folder = folder
        self.engine = DataFusionEngine(
            DataFusionSettings(folder / "scratch", slice_by_slice=slice_by_slice)
        )
        self.views: list[InputView] = []
        self._numbers = count()

    def give(self, alias: str = "a", *slices: pa.Table, **columns: pa.Array) -> "Tables":
        """Add an input: slices as they are, or one slice with these data columns."""
        tables = slices or (slice_of(**columns),)
        paths = []
        for table in tables:
            paths.append(str(self.folder / f"slice-{next(self._numbers)}"))
            pq.write_table(table, paths[-1])
        last = sum(table.num_rows for table in tables) - 1
        self.views.append(InputView(alias, tuple(paths), paths[-1], DEFAULT_VOCAB, 0, last))
        return self

    def run(self, query: str) -> pa.Table:
        folder = self.folder / f"run-{next(self._numbers)}"
        folder.mkdir()
        rows = self.engine.transform(
            TransformJob(sql(query), tuple(self.views), DEFAULT_VOCAB, folder)
        )
        return pa.Table.from_batches(list(rows.batches), rows.schema)

    def raw(self, query: str) -> pa.Table:
        folder = self.folder / f"run-{next(self._numbers)}"
        folder.mkdir()
        rows = self.engine.raw_query(sql(query), self.views[0].paths, folder)
        return pa.Table.from_batches(list(rows.batches), rows.schema)

    def check(self, query: str, *, preprocess: bool = False) -> QueryValidation:
        inputs = [
            ValidatedInput(view.alias, pq.read_schema(view.schema_path), has_retractions=False)
            for view in self.views
        ]
        return self.engine.validate(sql(query), inputs, DEFAULT_VOCAB, preprocess=preprocess)


def slice_of(**columns: pa.Array) -> pa.Table:
    rows = len(next(iter(columns.values()))) if columns else 1
    system = {
        "offset": pa.array(range(rows), pa.int64()),
        "op": pa.array([0] * rows, pa.int32()),
        "system_time": pa.array([0] * rows, TIME),
        "event_time": pa.array([1000 * i for i in range(rows)], TIME),
    }
    return pa.table({**system, **columns})


def sql(query: str) -> TransformSql:
    return TransformSql(engine="datafusion", queries=(SqlQueryStep(alias=None, query=query),))


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


@pytest.fixture
def replaying(tmp_path: Path) -> Tables:
    return Tables(tmp_path, slice_by_slice=True)


def test_every_function_of_the_registry_was_decided_on() -> None:
    assert builtin_functions() == ALLOWED | set(REFUSED)
    assert not ALLOWED & set(REFUSED)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_functions_say_why(tables: Tables, name: str) -> None:
    tables.give(n=pa.array([1]))
    with pytest.raises(InvalidQueryError, match=re.escape(REFUSED[name])):
        tables.check(f"SELECT event_time, {name}(n) AS x FROM a")
    with pytest.raises(InvalidQueryError, match=re.escape(REFUSED[name])):
        tables.check(f"SELECT {name}(n) AS x FROM a", preprocess=True)


@pytest.mark.parametrize("name", TABLE_FUNCTIONS)
def test_table_functions_are_refused(tables: Tables, name: str) -> None:
    tables.give(n=pa.array([1]))
    with pytest.raises(InvalidQueryError, match="come from no input"):
        tables.check(f"SELECT value FROM {name}(1, 3)", preprocess=True)


@pytest.mark.parametrize("table", [TIMES, JSON, OTHERS], ids=["times", "json", "others"])
def test_what_the_documentation_says_works(tables: Tables, table: dict[str, Any]) -> None:
    tables.give(n=pa.array([1]))
    # One query for all of them would be folded; each stands alone, as in a manifest.
    for expression, wanted in table.items():
        result = tables.run(f"SELECT event_time, {expression} AS x FROM a")
        assert result.column("x").to_pylist() == [wanted], expression


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("to_timestamp(t)", "2020-01-01"),
        ("to_timestamp(t)", "2020-01-01T02:00:00+02:00"),
        ("to_timestamp(t, '%d/%m/%Y')", "01/01/2020"),
        ("to_timestamp_millis(t)", "2020-01-01T00:00:00Z"),
        ("to_timestamp_seconds(CAST(t AS BIGINT))", "1577836800"),
        ("to_timestamp_millis(CAST(t AS BIGINT))", "1577836800000"),
        ("CAST(t AS TIMESTAMP)", "2020-01-01 00:00:00"),
        ("CAST(t AS TIMESTAMP WITH TIME ZONE)", "2019-12-31T19:00:00-05:00"),
        ("date_trunc('day', to_timestamp(t))", "2020-01-01 03:04:05"),
        ("date_trunc('month', to_date(t, '%d.%m.%Y'))", "17.01.2020"),
        ("CASE WHEN t = '' THEN NULL ELSE to_timestamp(t) END", "2020-01-01"),
    ],
)
def test_times_of_columns(tables: Tables, expression: str, text: str) -> None:
    tables.give(t=pa.array([text, None]))
    result = tables.run(f"SELECT event_time, {expression} AS x FROM a")
    assert result.schema.field("x").type == TIME
    assert result.column("x").to_pylist() == [NEW_YEAR, None]


@pytest.mark.parametrize(
    "condition",
    [
        "event_time >= to_timestamp('1970-01-01T00:00:01Z')",
        "event_time >= TIMESTAMP '1970-01-01 00:00:01'",
        "event_time >= to_timestamp(t)",
        "event_time > '1970-01-01T00:00:00Z'",
        "CAST(event_time AS VARCHAR) LIKE '%:01%'",
        "event_time - INTERVAL '1 second' >= to_timestamp(0)",
    ],
)
def test_times_compare_with_those_of_inputs(tables: Tables, condition: str) -> None:
    tables.give(t=pa.array(["1970-01-01T00:00:01"] * 2))
    result = tables.run(f"SELECT event_time FROM a WHERE {condition}")
    assert result.column("event_time").cast(pa.int64()).to_pylist() == [1000]


def test_the_documentation_shows_what_is_tested() -> None:
    text = (PROJECT / "docs" / "engines.md").read_text().replace("\\|", "|")
    for expression in (*TIMES, *JSON, *OTHERS):
        assert f"| `{expression}` |" in text
    for name in (*JSON_FUNCTIONS, *SPARK_EQUIVALENTS, *REFUSED, *TABLE_FUNCTIONS):
        assert f"`{name}`" in text, name


def test_json_is_read_row_by_row(tables: Tables) -> None:
    texts = pa.array(['{"k": 1, "u": "x"}', None, "[]", '{"k": 2}'])
    tables.give(j=texts)
    result = tables.run("SELECT event_time, json_get_int(j, 'k') k, json_get_str(j,'u') u FROM a")
    assert result.column("k").to_pylist() == [1, None, None, 2]
    assert result.column("u").to_pylist() == ["x", None, None, None]


def test_json_that_is_nested_without_end_is_null(tables: Tables) -> None:
    deep = '{"a":' + "[" * 200 + "]" * 200 + "}"
    deeper = "[" * 100_000
    tables.give(j=pa.array([deep, deeper]))
    result = tables.run("SELECT event_time, json_as_text(j, 'a') AS x FROM a")
    assert result.column("x").to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        ("SELECT j ->> 'a' FROM a", "operator ->>", "get_json_object"),
        ("SELECT j -> 'a' FROM a", "operator ->", "json_get_str"),
        ("SELECT get_json_object(j, '$.a') FROM a", "no function get_json_object", "json_get_str"),
        ("SELECT json_get_strings(j) FROM a", "no function json_get_strings", "json_as_text"),
        ("SELECT year(event_time) FROM a", "no function year", "date_part"),
        ("SELECT eth_decode_event(j) FROM a", "no function eth_decode_event", "signature"),
        ("SELECT uper(j) FROM a", "no function uper", "did you mean upper?"),
        ("SELECT json_get_str(j, 'a', 'b') FROM a", "No function matches", "by nesting"),
        ("SELECT j ? 'a' FROM a", "operator ?", "json_contains"),
        ("SELECT j #> 'a' FROM a", "operator #>", "json_get_json"),
        ("SELECT current_timestamp AS t FROM a", "current_timestamp is not allowed", "reproduc"),
        ("SELECT approx_distinct(j) AS n FROM a", "approx_distinct is not", "count(DISTINCT"),
        ("SELECT J FROM a", "No field named", "case"),
        ("SELECT j FROM A", "reads `A`", "case"),
        ("SELECT j FROM x.a", "reads `x", "quotes"),
        ("SELECT CAST(j AS LONG) FROM a", "Unsupported SQL type", "BIGINT"),
        ("SELECT CAST(j AS INTERVALS) FROM a", "Unsupported SQL type", None),
        ("SELECT j FROM a; SELECT j FROM a", "more than one statement", "one query"),
        ("CREATE TABLE x AS SELECT j FROM a", "CREATE MEMORY TABLE", "one query"),
        ("COPY (SELECT j FROM a) TO 'x.parquet'", "COPY", "one query"),
        ("SET datafusion.execution.batch_size = 1", "SET VARIABLE", "one query"),
        ("EXPLAIN SELECT j FROM a", "EXPLAIN", "one query"),
        ("DESCRIBE a", "DESCRIBE TABLE", "one query"),
        ("SHOW TABLES", "SHOW TABLES", None),
        ("SELECT * FROM information_schema.tables", "information_schema", None),
        ("SELECT upper(j, j) AS x FROM a", "No function matches", None),
        ("SELECT sum(j) AS x FROM a", "No function matches", None),
        ("SELECT * FROM __odf_input_0", "__odf_input_0", None),
        ("SELECT j FROM a WHERE j = $1", "Placeholder", None),
        ("SELECT j FROM a TABLESAMPLE (10 PERCENT)", "TABLESAMPLE", None),
        ("SELECT j FROM a PREWHERE j = 'x'", "PREWHERE", None),
        ("SELECT j, count(*) AS n FROM a GROUP BY j WITH ROLLUP", "WITH ROLLUP", None),
        ("SELECT j FROM a CONNECT BY j = 'x'", "CONNECT BY", None),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r) SELECT n FROM r",
            "ecursive",
            None,
        ),
        ("SELECT j AS __odf_offset FROM a", "keeps for itself", None),
        ("SELECT NULL AS x FROM a", "`x`", "CAST"),
        ("SELECT INTERVAL '1 day' AS x FROM a", "`x`", "CAST"),
        (
            "SELECT event_time, make_array(named_struct('a', j)) AS x FROM a",
            "the column `x` of the result: column 'x': no logical hash",
            "CAST",
        ),
    ],
)
def test_refusals_say_what_to_do(
    tables: Tables, query: str, message: str, hint: str | None
) -> None:
    tables.give(j=pa.array(["{}"]))
    with pytest.raises(InvalidQueryError, match=re.escape(message)) as refused:
        tables.check(query, preprocess=True)
    assert "datafusion." not in refused.value.message
    assert hint is None or hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    "expression",
    [
        "CAST(j AS INT)",
        "1 / (length(j) - 1)",
        "regexp_replace('a', j || '(', '')",
        "j @> 'a'",
    ],
)
def test_values_that_cannot_be_taken_are_the_querys_fault(tables: Tables, expression: str) -> None:
    tables.give(j=pa.array(["x"]))
    with pytest.raises(InvalidQueryError, match="the query failed") as failed:
        tables.run(f"SELECT event_time, {expression} AS x FROM a")
    assert "\n" not in failed.value.message


def test_messages_do_not_repeat_whole_values(tables: Tables) -> None:
    tables.give(j=pa.array(["x" * 10_000]))
    with pytest.raises(InvalidQueryError) as failed:
        tables.run("SELECT event_time, CAST(j AS INT) AS x FROM a")
    assert len(failed.value.message) < 1_000


def test_words_in_quotes_are_no_clauses(tables: Tables) -> None:
    tables.give(j=pa.array(["tablesample", "x"]))
    query = "SELECT event_time, j AS `prewhere` FROM a WHERE j = 'tablesample' -- connect by"
    assert tables.run(query).num_rows == 1


def test_lists_are_unnested_in_order(tables: Tables) -> None:
    tables.give(l=pa.array([[1, 2], [], None, [3]], pa.list_(pa.int64())))
    result = tables.run("SELECT event_time, UNNEST(l) AS e FROM a")
    assert result.column("e").to_pylist() == [1, 2, 3]


def test_unnesting_corrections_is_refused(tables: Tables) -> None:
    tables.give(l=pa.array([[1]]))
    for use in (tables.check, tables.run):
        with pytest.raises(InvalidQueryError, match="UNNEST"):
            use("SELECT op, event_time, UNNEST(l) AS e FROM a")


def test_an_input_without_columns_yet(tmp_path: Path) -> None:
    engine = Tables(tmp_path).engine
    unknown = [ValidatedInput("a", None, has_retractions=False)]

    def check(query: str) -> QueryValidation:
        return engine.validate(sql(query), unknown, DEFAULT_VOCAB, preprocess=False)

    found = check("SELECT event_time, n FROM a")
    assert (found.query_class, found.output_schema) == ("unknown", None)
    for wrong in ("SELECT FROM WHERE", "SELECT * FROM b", "DROP TABLE a"):
        with pytest.raises(InvalidQueryError):
            check(wrong)


def test_unsigned_system_columns_of_an_input_with_its_own_names(tmp_path: Path) -> None:
    schema = pa.schema(
        [("nr", pa.uint64()), ("what", pa.uint8()), ("noted", TIME), ("happened", TIME)]
    )
    vocab = DatasetVocabulary("nr", "what", "noted", "happened")
    given = [ValidatedInput("a", schema, has_retractions=False, vocab=vocab)]
    query = sql("SELECT happened AS event_time, nr AS n, what AS op FROM a")
    found = Tables(tmp_path).engine.validate(query, given, DEFAULT_VOCAB, preprocess=False)
    assert found.output_schema is not None
    assert found.output_schema.field("n").type == pa.int64()
    assert found.output_schema.field("op").type == pa.int32()


def test_slices_that_others_wrote_are_evened_out(tables: Tables) -> None:
    theirs = pa.table(
        {
            "offset": pa.array([0, 1], pa.uint64()),
            "op": pa.array([0, 0], pa.uint8()),
            "system_time": pa.array([0, 0], TIME),
            "event_time": pa.array([-1, 1], pa.timestamp("us", "UTC")),
            "u": pa.array([1, 4_000_000_000], pa.uint32()),
            "d": pa.array(["p", "q"]).dictionary_encode(),
        }
    )
    ours = slice_of(u=pa.array([7], pa.int64())).set_column(0, "offset", pa.array([2], pa.int64()))
    tables.give("a", theirs, ours)
    result = tables.run("SELECT op, event_time, u, d, `offset` AS o FROM a")
    assert result.schema.field("op").type == pa.int32()
    # A microsecond before 1970 lies in the millisecond before it.
    assert result.column("event_time").cast(pa.int64()).to_pylist() == [-1, 0, 0]
    assert result.column("u").to_pylist() == [1, 4_000_000_000, 7]
    assert result.column("d").to_pylist() == ["p", "q", None]
    assert result.column(HIDDEN_OFFSET).to_pylist() == [0, 1, 2]


def test_uuids_and_times_pass_through(tables: Tables) -> None:
    uuids = pa.array([b"0123456789abcdef", None], pa.uuid())
    times = pa.array([1, None], pa.time64("us"))
    tables.give(u=uuids, t=times)
    result = tables.run("SELECT event_time, u, t AS moment FROM a")
    assert result.schema.field("u").type == pa.uuid()
    assert result.column("u").to_pylist() == uuids.to_pylist()
    assert result.column("moment").to_pylist() == times.to_pylist()


def test_integers_that_are_written_are_long(tables: Tables) -> None:
    tables.give(n=pa.array([1], pa.int32()))
    result = tables.run("SELECT event_time, n + 1 AS m, CAST(n + 1 AS INT) AS i FROM a")
    assert result.schema.field("m").type == pa.int64()
    assert result.schema.field("i").type == pa.int32()


def test_wide_unions_work_and_endless_ones_are_refused(tables: Tables) -> None:
    tables.give(n=pa.array([1]))
    branch = "SELECT event_time, n FROM a"
    assert tables.run(" UNION ALL ".join([branch] * 40)).num_rows == 40
    with pytest.raises(InvalidQueryError):
        tables.run(" UNION ALL ".join([branch] * 800))


def test_rows_in_another_order_are_noticed() -> None:
    def batches(*pairs: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        for branch, offset in pairs:
            yield pa.record_batch(
                {
                    HIDDEN_BRANCH: pa.array([branch], pa.int32()),
                    HIDDEN_OFFSET: pa.array([offset], pa.int64()),
                }
            )

    assert len(list(checked_order(batches((0, 1), (0, 1), (0, 5), (1, 0)), "it"))) == 4
    for wrong in [((0, 1), (0, 0)), ((1, 0), (0, 5))]:
        with pytest.raises(RuntimeError, match="another order"):
            list(checked_order(batches(*wrong), "it"))


def test_replays_of_others_run_stateful_queries_slice_by_slice(replaying: Tables) -> None:
    replaying.give(k=pa.array(["b", "a", "b", None]), n=pa.array([1, 2, 3, 4]))
    result = replaying.run(
        "SELECT min(event_time) AS event_time, k, sum(n) AS total FROM a GROUP BY k"
    )
    assert result.column("k").to_pylist() == ["b", "a", None]
    assert result.column("total").to_pylist() == [4, 2, 4]


def test_their_order_is_event_time_then_values_then_operation(replaying: Tables) -> None:
    replaying.give(n=pa.array([3, 1, 2, 1]))
    result = replaying.run(
        "SELECT CAST(o AS INT) AS op, TIMESTAMP '2020-01-01 00:00:00' AS event_time, n FROM "
        "(SELECT n, unnest([3, 1]) AS o FROM a) GROUP BY n, o ORDER BY n DESC"
    )
    pairs = list(zip(result.column("n").to_pylist(), result.column("op").to_pylist(), strict=True))
    assert pairs == sorted(pairs)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT event_time, n + 1 AS m FROM a UNION ALL SELECT event_time, n FROM a ORDER BY m",
        (
            "SELECT event_time, m FROM (SELECT event_time, n AS k, n + 1 AS m FROM a UNION ALL "
            "SELECT event_time, n AS k, n AS m FROM a) ORDER BY k DESC NULLS LAST, m"
        ),
    ],
)
@pytest.mark.parametrize("replays", [False, True])
def test_an_order_at_the_end_changes_nothing(query: str, replays: bool, tmp_path: Path) -> None:
    given = Tables(tmp_path, slice_by_slice=replays).give(n=pa.array([3, 1, 2]))
    result = given.run(query)
    assert result.column_names[:2] == ["event_time", "m"]
    assert result.column("m").to_pylist() == [4, 2, 3, 3, 1, 2]
    found = given.check(query)
    assert (found.query_class, found.warnings) == ("stateless", (ORDER_WARNING,))


def test_what_would_depend_on_timing_is_refused(replaying: Tables) -> None:
    replaying.give("a", n=pa.array([1.5])).give("b", n=pa.array([2.5]))
    query = (
        "SELECT max(event_time) AS event_time, sum(n) AS s FROM "
        "(SELECT event_time, n FROM a UNION ALL SELECT event_time, n FROM b)"
    )
    with pytest.raises(InvalidQueryError, match="no fixed order"):
        replaying.run(query)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT n FROM input WHERE n < 3", [2, 1]),
        ("SELECT n FROM input UNION ALL SELECT n + 10 FROM input", [3, 2, 1, 13, 12, 11]),
        ("SELECT DISTINCT n FROM input", [1, 2, 3]),
        ("SELECT n FROM input ORDER BY n DESC", [1, 2, 3]),
        ("SELECT n FROM input LIMIT 1", [3]),
    ],
)
def test_raw_rows_keep_their_order_or_get_that_of_their_values(
    tables: Tables, query: str, wanted: list[int]
) -> None:
    tables.give("input", pa.table({"n": [3, 2, 1]}))
    assert tables.raw(query).column("n").to_pylist() == wanted


def test_memory_is_bounded_and_files_take_the_rest(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.engine = DataFusionEngine(DataFusionSettings(tmp_path / "scratch", memory=24 << 20))
    numbers = pa.array(range(400_000), pa.int64())
    wide = pa.array([f"{i % 1000:060d}" for i in range(400_000)])
    tables.give("input", pa.table({"n": numbers, "w": wide}))
    result = tables.raw("SELECT DISTINCT w, n FROM input")
    assert result.num_rows == 400_000
    assert result.column("w").to_pylist()[0] == f"{0:060d}"


@pytest.mark.parametrize("use", ["check", "run"])
def test_temporal_tables_are_refused(tables: Tables, use: str) -> None:
    tables.give(n=pa.array([1]))
    run: Callable[[str], object] = getattr(tables, use)
    with pytest.raises(InvalidQueryError):
        run("SELECT a.event_time FROM a FOR SYSTEM_TIME AS OF a.event_time")

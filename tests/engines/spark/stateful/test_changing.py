"""Aggregates without a time window: which rows they give out, and what they keep."""

import json
import tarfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.engines.host.engine import ValidatedInput
from odf.engines.spark.engine import SparkEngine
from odf.errors import BadInputError, InvalidQueryError
from odf.metadata.model import DEFAULT_VOCAB, DatasetVocabulary, SqlQueryStep, TransformSql
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.changelogs import (
    COLUMNS,
    Changelog,
    Knowing,
    Row,
    computed,
    folded,
    net,
    one_input,
    row,
    run,
    time,
    visible,
)
from tests.engines.spark.stateful.replay import MOMENT, Block, Replay, Shape

pytestmark = pytest.mark.spark

TOTALS = "SELECT max(event_time) AS event_time, k, count(*) AS n, sum(v) AS s FROM t GROUP BY k"
LISTS = (
    "SELECT max(event_time) AS event_time, k, sum(d) AS s, collect_list(v) AS vs FROM t GROUP BY k"
)
SUMS = "SELECT timestamp'2020-01-01' AS event_time, k, count(*) AS n, sum(v) AS s FROM t GROUP BY k"


def short(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(found[name] for name in ("op", *names)) for found in rows]


def kept(replay: Replay) -> dict[str, Any]:
    """What the last state says, with the numbers of rows of its tables."""
    assert replay.checkpoint is not None
    with tarfile.open(replay.checkpoint) as archive:
        found: dict[str, Any] = {}
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            if member.name == "state.json":
                found |= json.loads(content.read())["class"]
            else:
                found[member.name] = pq.read_table(pa.BufferReader(content.read())).num_rows
        return found


def test_groups_appear_change_and_vanish(engine: SparkEngine, tmp_path: Path) -> None:
    replay = one_input(engine, tmp_path / "d", sql(TOTALS))
    first = run(replay, row(1, "b", 1), row(2, "a", 2), row(3, None, 3))
    assert short(first, "k", "n", "s") == [(0, None, 1, 3), (0, "a", 1, 2), (0, "b", 1, 1)]
    second = run(replay, row(4, "a", 5), row(1, "b", 1, op=1), row(4, "c", None))
    assert short(second, "k", "n", "s", "event_time") == [
        (2, "a", 1, 2, time(2)),
        (3, "a", 2, 7, time(4)),
        (1, "b", 1, 1, time(1)),
        (0, "c", 1, None, time(4)),
    ]
    assert run(replay) == []
    assert short(run(replay, row(0, "b", 9)), "k", "n", "s") == [(0, "b", 1, 9)]


@pytest.mark.parametrize("query", [TOTALS, LISTS])
def test_a_group_that_stays_equal_gives_nothing(
    query: str, engine: SparkEngine, tmp_path: Path
) -> None:
    counts = "SELECT max(event_time) AS event_time, k, sum(v) AS s FROM t GROUP BY k"
    replay = one_input(engine, tmp_path / "d", sql(counts if query == TOTALS else query))
    run(replay, row(5, "a", 1), row(5, "b", 1))
    # Sums and lists leave nulls out.
    assert run(replay, row(4, "a", None, None)) == []
    assert short(run(replay, row(4, "b", 2, 1.0)), "k") == [(2, "b"), (3, "b")]


def test_digits_that_a_slice_does_not_hold_are_no_change(
    engine: SparkEngine, tmp_path: Path
) -> None:
    query = (
        "SELECT timestamp'2020-01-01' + make_interval(0,0,0,0,0,0, sum(v) / 1000000) AS event_time,"
        " k FROM t GROUP BY k"
    )
    replay = one_input(engine, tmp_path / "d", sql(query))
    run(replay, row(1, "a", 5))
    assert run(replay, row(1, "a", 7)) == []
    assert len(run(replay, row(1, "a", 2000))) == 2


def test_order_of_keys(engine: SparkEngine, tmp_path: Path) -> None:
    query = "SELECT timestamp'2020-01-01' AS event_time, k, d, count(*) AS n FROM t GROUP BY d, k"
    replay = one_input(engine, tmp_path / "d", sql(query))
    nan = float("nan")
    keys = [
        ("é", 1.0),
        ("z", nan),
        ("a", nan),
        ("Z", -1.0),
        (None, 1.0),
        ("\U00010348", 1.0),
        ("\uffee", 1.0),
    ]
    found = run(replay, *[row(1, k, 1, d) for k, d in [*keys, ("n", None)]])
    assert [found_row["k"] for found_row in found] == [
        *["n", "Z", None, "é", "\uffee", "\U00010348"],  # by d, then by bytes
        *["a", "z"],
    ]
    again = run(replay, row(2, "z", 1, nan), row(2, "n", 1, None))
    assert short(again, "k", "n") == [(2, "n", 1), (3, "n", 2), (2, "z", 1), (3, "z", 2)]


def test_keys_that_the_query_does_not_show(engine: SparkEngine, tmp_path: Path) -> None:
    query = "SELECT timestamp'2020-01-01' AS event_time, sum(v) % 2 AS s FROM t GROUP BY upper(k)"
    replay = one_input(engine, tmp_path / "d", sql(query))
    changelog = Changelog()
    changelog.take(run(replay, row(1, "a", 1), row(1, "b", 1), row(1, "c", 2)))
    assert sorted(changelog.current.values()) == [1, 2]
    found = run(replay, row(2, "B", 1))
    assert short(found, "s") == [(2, 1), (3, 0)]
    changelog.take(found)
    assert sorted(changelog.current.values()) == [1, 2]


@pytest.mark.parametrize("extra", ["", ", collect_list(v) AS vs"])
def test_having(extra: str, engine: SparkEngine, tmp_path: Path) -> None:
    # The division fails for the groups that HAVING leaves out.
    query = (
        f"SELECT max(event_time) AS event_time, k, sum(v) / (count(*) - 1) AS s{extra} FROM t "
        "GROUP BY k HAVING count(*) > 1"
    )
    replay = one_input(engine, tmp_path / "d", sql(query))
    assert run(replay, row(1, "a", 1), row(1, "b", 1)) == []
    assert short(run(replay, row(2, "a", 3)), "k", "s") == [(0, "a", 4.0)]
    assert short(run(replay, row(1, "a", 1, op=1)), "k", "s") == [(1, "a", 4.0)]
    assert short(run(replay, row(3, "a", 4)), "k", "s") == [(0, "a", 7.0)]


@pytest.mark.parametrize("value", ["sum(v) AS s", "collect_list(v) AS s"])
def test_an_aggregate_of_everything_is_there_while_it_has_rows(
    value: str, engine: SparkEngine, tmp_path: Path
) -> None:
    query = f"SELECT max(event_time) AS event_time, {value} FROM t WHERE k <> 'x'"
    replay = one_input(engine, tmp_path / "d", sql(query))
    assert run(replay, row(9, "x", 9)) == []
    assert short(run(replay, row(1, "a", 1)), "event_time") == [(0, time(1))]
    assert short(run(replay, row(2, "b", 2)), "event_time") == [(2, time(1)), (3, time(2))]
    gone = run(replay, row(1, "a", 1, op=1), row(2, "b", 2, op=1))
    assert short(gone, "event_time") == [(1, time(2))]


@pytest.mark.parametrize("sets", ["ROLLUP (k, v)", "CUBE (k, v)", "GROUPING SETS ((k), (v), ())"])
def test_grouping_sets_give_what_duckdb_gives(
    sets: str, engine: SparkEngine, tmp_path: Path
) -> None:
    template = (
        "SELECT max(event_time) AS event_time, k, v, count(*) AS n, grouping(k) AS gk FROM {} "
        f"GROUP BY {sets}"
    )
    replay = one_input(engine, tmp_path / "d", sql(template.format("t")))
    parts = [
        [row(1, "a", 1), row(2, "b", 1)],
        [row(3, None, 1), row(3, "a", None), row(4, "a", 2)],
        [row(2, "b", 1, op=2), row(2, "b", 3, op=3), row(5, "c", 3)],
    ]
    changelog = folded(run(replay, *part) for part in parts)
    rows = pa.Table.from_pylist(net([found for part in parts for found in part]))
    connection = duckdb.connect()
    connection.register("rows", rows)
    wanted = connection.sql(template.format("rows")).arrow().read_all().to_pylist()
    assert changelog.current == Counter(map(visible, wanted))


def test_distinct_lists_and_filters_follow_retractions(engine: SparkEngine, tmp_path: Path) -> None:
    query = (
        "SELECT max(event_time) AS event_time, k, count(DISTINCT v) AS vs, first(v) AS f, "
        "collect_list(v) FILTER (WHERE v > 1) AS big, median(v) AS m FROM t GROUP BY k"
    )
    replay = one_input(engine, tmp_path / "d", sql(query))
    run(replay, row(1, "a", 1), row(2, "a", 1), row(3, "a", 2), row(9, "b", 4))
    assert kept(replay)["way"] == "rows"
    found = run(replay, row(1, "a", 1, op=1), row(3, "a", 2, op=1), row(0, "a", 5))
    assert short(found, "k", "vs", "f", "big", "m", "event_time") == [
        (2, "a", 2, 1, [2], 1.0, time(3)),
        (3, "a", 2, 1, [5], 3.0, time(2)),
    ]


def test_a_chain_of_steps_with_a_filter_above(engine: SparkEngine, tmp_path: Path) -> None:
    query = TransformSql(
        "spark",
        queries=(
            SqlQueryStep(alias="some", query="SELECT * FROM t WHERE v IS NOT NULL"),
            SqlQueryStep(alias="sums", query=SUMS.replace("FROM t", "FROM some")),
            SqlQueryStep(
                query="WITH c AS (SELECT *, s * 2 AS twice FROM sums) "
                "SELECT event_time, k, twice FROM c WHERE twice > 4"
            ),
        ),
    )
    replay = one_input(engine, tmp_path / "d", query)
    assert short(run(replay, row(1, "a", 3), row(1, "b", 1), row(1, "c", None)), "k", "twice") == [
        (0, "a", 6)
    ]
    assert short(run(replay, row(1, "b", 2), row(1, "a", -2)), "k", "twice") == [
        (1, "a", 6),
        (0, "b", 6),
    ]


def test_distinct_without_an_event_time(engine: SparkEngine, tmp_path: Path) -> None:
    query = "SELECT DISTINCT date_trunc('DAY', event_time) AS event_time, k FROM t"
    replay = one_input(engine, tmp_path / "d", sql(query))
    assert short(run(replay, row(1, "a"), row(2, "a"), row(30, "a")), "event_time") == [
        (0, time(0)),
        (0, time(24)),
    ]
    assert run(replay, row(3, "a"), row(1, "a", op=1)) == []
    assert short(run(replay, row(30, "a", op=1)), "event_time") == [(1, time(24))]


def test_own_names_of_system_columns(engine: SparkEngine, tmp_path: Path) -> None:
    theirs = DatasetVocabulary("nr", "what", "noted", "happened")
    ours = DatasetVocabulary("o", "kind", "at", "moment")
    columns = pa.schema([("happened", MOMENT), ("k", pa.string())])
    query = "SELECT max(happened) AS moment, k, count(*) AS op FROM t WHERE what = 0 GROUP BY k"
    replay = Replay(engine, tmp_path / "d", sql(query), {"t": Shape(columns, theirs)}, vocab=ours)
    first = run(replay, {"happened": time(1), "k": "a"}, {"happened": time(2), "k": "a"})
    assert [(found["kind"], found["op"]) for found in first] == [(0, 2)]
    second = run(replay, {"happened": time(1), "k": "a", "op": 1})
    assert [(found["kind"], found["op"]) for found in second] == [(2, 2), (3, 1)]


def test_sums_may_leave_their_type_on_the_way(engine: SparkEngine, tmp_path: Path) -> None:
    big = (1 << 63) - 1
    replay = one_input(engine, tmp_path / "d", sql(SUMS))
    found = run(replay, row(1, "a", big), row(1, "a", big), row(1, "a", -big))
    assert short(found, "s") == [(0, big)]
    with pytest.raises(InvalidQueryError, match=r"OVERFLOW|out of range"):
        run(replay, row(2, "a", 1))


@pytest.mark.parametrize(
    ("has_retractions", "way", "words"),
    [
        (False, "partial results", "aggregate by k, keeps partial results for each group"),
        (True, "rows", "aggregate by k, keeps all rows of its inputs"),
    ],
)
def test_what_is_kept(
    *, has_retractions: bool, way: str, words: str, engine: SparkEngine, tmp_path: Path
) -> None:
    schema = Shape(COLUMNS).schema
    given = [ValidatedInput("t", schema, has_retractions)]
    found = engine.validate(sql(TOTALS), given, DEFAULT_VOCAB, preprocess=False)
    assert (found.query_class, found.description) == ("changing", words)
    replay = Knowing(engine, tmp_path / "d", sql(TOTALS), {"t": Shape(COLUMNS)})
    replay.has_retractions = has_retractions
    run(replay, row(1, "a"), row(2, "a"), row(3, "b"))
    assert kept(replay) == {
        "way": way,
        "columns": kept(replay)["columns"],
        "groups.parquet": 2,
        **({"rows-0.parquet": 3} if has_retractions else {}),
    }


def test_a_state_of_partial_results_does_not_grow_with_runs(
    engine: SparkEngine, tmp_path: Path
) -> None:
    replay = one_input(engine, tmp_path / "d", sql(TOTALS))
    sizes = []
    for number in range(8):
        run(replay, *[row(number, key, number) for key in "abcdefghij"])
        assert replay.checkpoint is not None
        sizes.append(replay.checkpoint.stat().st_size)
    assert kept(replay)["groups.parquet"] == 10
    assert sizes[-1] <= 1.1 * sizes[1]
    run(replay, *[row(number, "a", number, op=1) for number in range(8)])
    assert kept(replay)["groups.parquet"] == 9


def test_extremes_follow_retractions_as_long_as_they_can(
    engine: SparkEngine, tmp_path: Path
) -> None:
    replay = one_input(engine, tmp_path / "d", sql(TOTALS))
    run(replay, row(1, "a"), row(5, "a", 1), row(5, "a", 7), row(6, "b"), row(6, "b"))
    # Another row has the extreme as well, or a new one has it, or no row is left.
    found = run(replay, row(5, "a", 1, op=1), row(6, "b", op=1), row(6, "b", op=1))
    assert short(found, "k", "n", "event_time")[1:] == [(3, "a", 2, time(5)), (1, "b", 2, time(6))]
    run(replay, row(5, "a", 7, op=2), row(5, "a", 2, op=3), row(9, "a"), row(9, "a", op=1))
    found = run(replay, row(1, "a", op=1), row(4, "a"), row(4, "b"))
    assert short(found, "k", "n", "event_time") == [(0, "b", 1, time(4))]
    assert kept(replay)["way"] == "partial results"
    with pytest.raises(
        BadInputError, match=r"takes away the row that min or max found.*k = a"
    ) as no:
        run(replay, row(5, "a", 2, op=1))
    assert "reset" in (no.value.hint or "")
    # What a reset does: everything in one run.
    again = one_input(engine, tmp_path / "again", sql(TOTALS))
    found = run(again, row(1, "a"), row(5, "a", 2), row(4, "a"), row(5, "a", 2, op=1))
    assert kept(again)["way"] == "rows"
    assert short(found, "event_time", "n") == [(0, time(4), 2)]


@pytest.mark.parametrize(
    ("select", "kind", "words"),
    [
        ("count(*) AS n FROM t GROUP BY ALL", "changing", "aggregate of all rows, keeps partial"),
        ("count(*) AS n FROM t GROUP BY d, v % 2", "changing", "by d, (t.v % CAST(2 AS BIGINT)),"),
        ("sum(d) AS n FROM t GROUP BY k", "changing", "by k, keeps all rows of its inputs"),
        ("try_sum(v) AS n FROM t GROUP BY k", "changing", "keeps all rows"),
        ("count(DISTINCT v) AS n FROM t GROUP BY k", "changing", "keeps all rows"),
        (
            "extract(DAY FROM min(INTERVAL 1 DAY * v)) AS n FROM t GROUP BY k",
            "changing",
            "keeps all rows",
        ),
        (
            "count(*) AS n FROM t GROUP BY k COLLATE UTF8_LCASE",
            "whole history",
            "or that cannot be kept",
        ),
        (
            "count(*) AS n FROM t GROUP BY map(k, v)",
            "whole history",
            "by values that have no order",
        ),
        ("k FROM t GROUP BY k ORDER BY k", "changing", "by k"),
    ],
)
def test_kinds(select: str, kind: str, words: str, engine: SparkEngine) -> None:
    query = sql(f"SELECT max(event_time) AS event_time, {select}")
    given = [ValidatedInput("t", Shape(COLUMNS).schema, has_retractions=False)]
    found = engine.validate(query, given, DEFAULT_VOCAB, preprocess=False)
    assert found.query_class == kind
    assert words in found.description


def test_what_cannot_be_kept_is_refused(engine: SparkEngine) -> None:
    query = sql("SELECT max(event_time) AS event_time, min(k COLLATE UTF8_LCASE) AS l FROM t")
    given = [ValidatedInput("t", Shape(COLUMNS).schema, has_retractions=False)]
    with pytest.raises(InvalidQueryError, match="column `l` STRING COLLATE UTF8_LCASE, a type"):
        engine.validate(query, given, DEFAULT_VOCAB, preprocess=False)


def test_a_result_cannot_have_operations_of_its_own(engine: SparkEngine) -> None:
    query = "SELECT max(event_time) AS event_time, count(*) AS OP FROM t GROUP BY k"
    given = [ValidatedInput("t", Shape(COLUMNS).schema, has_retractions=False)]
    with pytest.raises(InvalidQueryError, match="get their operations from the engine"):
        engine.validate(sql(query), given, DEFAULT_VOCAB, preprocess=False)


def test_an_input_that_gains_a_column(engine: SparkEngine, tmp_path: Path) -> None:
    query = (
        "SELECT DISTINCT timestamp'2020-01-01' AS event_time, "
        "* EXCEPT (offset, system_time, op, event_time, m) FROM t"
    )
    replay = one_input(engine, tmp_path / "d", sql(query))
    run(replay, row(1, "a", 1), row(1, "b", 2))
    replay.shapes["t"] = Shape(COLUMNS.append(pa.field("more", pa.int64())))
    found = run(replay, row(2, "a", 1), row(2, "b", 2, more=5), row(1, "b", 2, op=1))
    assert short(found, "k", "more") == [(1, "b", None), (0, "b", 5)]


def damaged(path: Path, change: str) -> None:
    """Break a state in one way."""
    with tarfile.open(path) as archive:
        members = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    state = json.loads(members["state.json"])
    match change:
        case "way":
            state["class"]["way"] = "magic"
        case "columns":
            state["class"]["columns"] = state["class"]["columns"][:-1]
        case "other columns":
            state["class"]["columns"][-1] = "max(x) m9"
        case "no columns":
            del state["class"]["columns"]
        case "no table":
            del members["groups.parquet"]
            state["tables"] = []
        case "no parquet":
            members["groups.parquet"] = b"PAR1 nothing PAR1"
        case "types":
            table = pq.read_table(pa.BufferReader(members["groups.parquet"]))
            sink = pa.BufferOutputStream()
            pq.write_table(table.set_column(0, "k0", pa.array([1] * table.num_rows)), sink)
            members["groups.parquet"] = sink.getvalue().to_pybytes()
    members["state.json"] = json.dumps(state).encode()
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, pa.BufferReader(content))


@pytest.mark.parametrize(
    "change", ["way", "columns", "other columns", "no columns", "no table", "no parquet", "types"]
)
def test_damaged_states_are_refused(change: str, engine: SparkEngine, tmp_path: Path) -> None:
    replay = one_input(engine, tmp_path / "d", sql(SUMS))
    run(replay, row(1, "a", 1))
    assert replay.checkpoint is not None
    damaged(replay.checkpoint, change)
    with pytest.raises(BadInputError, match="checkpoint"):
        run(replay, row(1, "a", 1))
    assert not (tmp_path / "d" / "run-2" / "checkpoint").exists()


def test_averages_are_those_of_spark(engine: SparkEngine, tmp_path: Path) -> None:
    select = (
        "SELECT timestamp'2020-01-01' AS event_time, k, avg(v) AS av, avg(m) AS am, sum(m) AS sm, "
        "avg(CAST(v AS SMALLINT)) AS small, sum(CAST(v AS TINYINT)) AS tiny, count(v, k) AS both, "
        "avg(m) FILTER (WHERE v > 1) AS some, min(k) AS least, max(d) AS most FROM {} GROUP BY k"
    )
    replay = one_input(engine, tmp_path / "d", sql(select.format("t")))
    parts = [
        [row(1, "a", 1, 0.5), row(2, "a", 2, float("nan")), row(3, "b", None, None)],
        [row(4, None, 7), row(5, "a", 4), row(5, None, None)],
        [row(4, None, 7, op=1), row(9, "a", 3), row(9, "b", 3)],
    ]
    changelog = folded(run(replay, *part) for part in parts)
    assert kept(replay)["way"] == "partial results"
    rows = net([found for part in parts for found in part])
    wanted = computed(engine, select.format("input"), rows, tmp_path / "once")
    assert changelog.current == wanted
    assert any(found["am"] == Decimal("0.625000") for found in changelog.rows)


def test_a_retraction_before_its_row_is_made_up_for(engine: SparkEngine, tmp_path: Path) -> None:
    replay = one_input(engine, tmp_path / "d", sql(SUMS))
    assert run(replay, row(1, "a", 5, op=1)) == []
    assert kept(replay)["groups.parquet"] == 1
    assert run(replay, row(1, "a", 5)) == []
    assert kept(replay)["groups.parquet"] == 0
    assert short(run(replay, row(1, "a", 5)), "n", "s") == [(0, 1, 5)]


def test_many_groups_keep_the_order_of_their_rows(engine: SparkEngine, tmp_path: Path) -> None:
    # More groups than Spark's hash map of lists holds before it starts to merge.
    select = (
        "SELECT max(event_time) AS event_time, k, collect_list(v) AS vs, sum(d) AS s FROM t "
        "GROUP BY k"
    )
    rows = [row(n % 24, f"k{n * 7 % 500}", n, (n % 13) * 0.1) for n in range(4000)]
    once = one_input(engine, tmp_path / "once", sql(select))
    whole = folded([run(once, *rows)])
    split = one_input(engine, tmp_path / "split", sql(select))
    assert folded([run(split, *rows[:1500]), run(split, *rows[1500:])]).current == whole.current
    lists: dict[str | None, list[int]] = {}
    sums: dict[str | None, float] = {}
    for one in rows:
        lists.setdefault(one["k"], []).append(one["v"])
        sums[one["k"]] = sums.get(one["k"], 0.0) + one["d"]
    assert {one["k"]: one["vs"] for one in whole.rows} == lists
    assert {one["k"]: one["s"] for one in whole.rows} == sums


def test_blocks_of_two_inputs(engine: SparkEngine, tmp_path: Path) -> None:
    query = (
        "SELECT max(event_time) AS event_time, k, collect_list(v) AS vs FROM "
        "(SELECT * FROM u UNION ALL SELECT * FROM t) GROUP BY k"
    )
    shapes = {"t": Shape(COLUMNS), "u": Shape(COLUMNS)}
    replay = Replay(engine, tmp_path / "d", sql(query), shapes)
    replay.run([(1, Block("t", (row(1, "a", 1),)))])
    found = replay.run([(2, Block("u", (row(1, "a", 2),))), (2, Block("t", (row(2, "a", 3),)))])
    # The branch that is written first comes first, whenever its rows came.
    assert short(found, "vs") == [(2, [1]), (3, [2, 1, 3])]


def test_more_retractions_than_rows_are_told(engine: SparkEngine, tmp_path: Path) -> None:
    replay = one_input(engine, tmp_path / "r", sql(SUMS))
    run(replay, row(1, "a", 3), row(2, "b", 3))
    assert replay.log == []
    run(replay, row(1, "b", 3, op=1), row(2, "b", 3, op=1))
    assert len(replay.log) == 1
    assert "in 1 groups more rows were retracted than there were" in replay.log[0]
    run(replay, row(9, "a", 3))
    assert len(replay.log) == 1


@pytest.mark.parametrize("has_retractions", [False, True], ids=["partial results", "rows"])
@pytest.mark.parametrize(
    "query",
    [
        """
        SELECT max(event_time) AS event_time, IF(v > 0, struct(v, 1 AS o), NULL) AS z,
            count(*) AS c FROM t GROUP BY IF(v > 0, struct(v, 1 AS o), NULL)
        """,
        """
        SELECT max(event_time) AS event_time, k, count(*) AS c,
            min(struct(v, 1 AS o)) FILTER (WHERE v > 0) AS z FROM t GROUP BY k
        """,
    ],
    ids=["key", "value"],
)
def test_structures_whose_parts_are_never_null(
    query: str, has_retractions: bool, engine: SparkEngine, tmp_path: Path
) -> None:
    """They are null themselves now and then, and come back from a state as other types."""
    rows = [row(1, "a", 0), row(2, "a", 3), row(3, "b", -1), row(4, "b", 3), row(5, "a", 0)]
    found = []
    for name, parts in {"once": [rows], "split": [rows[:1], rows[1:3], rows[3:]]}.items():
        replay = Knowing(engine, tmp_path / name, sql(query), {"t": Shape(COLUMNS)})
        replay.has_retractions = has_retractions
        found.append(folded([run(replay, *part) for part in parts]).current)
    assert found[0] == found[1]
    assert len(found[0]) == 2

"""Queries with a bounded state: which they are, what is kept of them, what is refused."""

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.engines.host.engine import ValidatedInput
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.stateful.checkpoint import StateMismatchError
from odf.errors import BadInputError, InvalidQueryError
from odf.metadata.model import DEFAULT_VOCAB, DatasetVocabulary
from tests.engines.spark.spark_ingestor import sql
from tests.engines.spark.stateful.histories import DAY, HOUR, D, T, U
from tests.engines.spark.stateful.replay import MOMENT, Block, Replay, Shape

pytestmark = pytest.mark.spark

SHAPES = {"t": T, "s": T, "u": U, "d": D}
DAILY = (
    "SELECT window.end AS event_time, k, sum(v) AS s FROM t GROUP BY window(event_time, '1 day'), k"
)


def validate(
    engine: SparkEngine, query: str, *, has_retractions: bool = False, **steps: str
) -> Any:
    inputs = [
        ValidatedInput(alias, shape.schema, has_retractions, shape.vocab)
        for alias, shape in SHAPES.items()
    ]
    return engine.validate(sql(query, **steps), inputs, DEFAULT_VOCAB, preprocess=False)


@pytest.fixture
def replay(engine: SparkEngine, tmp_path: Path) -> Callable[..., Replay]:
    numbers = count()

    def make(query: str = DAILY, shape: Shape = T, **steps: str) -> Replay:
        folder = tmp_path / f"dataset-{next(numbers)}"
        return Replay(engine, folder, sql(query, **steps), {"t": shape})

    return make


def rows(*values: tuple[int, str, float]) -> tuple[dict[str, Any], ...]:
    return tuple({"event_time": at, "k": k, "v": v} for at, k, v in values)


def count_rows(checkpoint: Path | None) -> int:
    assert checkpoint is not None
    with tarfile.open(checkpoint) as archive:
        member = archive.extractfile("input-0.parquet")
        assert member is not None
        found: int = pq.read_metadata(io.BytesIO(member.read())).num_rows
    return found


def description(checkpoint: Path | None) -> dict[str, Any]:
    assert checkpoint is not None
    with tarfile.open(checkpoint) as archive:
        member = archive.extractfile("state.json")
        assert member is not None
        found: dict[str, Any] = json.load(member)
    return found


SESSIONS = (
    "SELECT session_window.end AS event_time, k FROM t "
    "GROUP BY session_window(event_time, '1 hour'), k"
)
KEPT = "keeps the rows after the watermark"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (DAILY, "windowed aggregate, keeps 1 day of rows"),
        (SESSIONS, "aggregate over sessions, keeps the rows of open sessions"),
        (
            (
                "SELECT w.end AS event_time, count(*) AS n "
                "FROM (SELECT window(event_time, '90 minutes', '15 minutes') w FROM t) GROUP BY w"
            ),
            "windowed aggregate, keeps 1 hour 30 minutes of rows",
        ),
        (
            (
                "SELECT window.end AS event_time, k, sum(v) AS s FROM d "
                "GROUP BY window(event_time, '7 days'), ROLLUP(k)"
            ),
            "windowed aggregate, keeps 7 days of rows",
        ),
        (
            "SELECT happened AS event_time, k, max(v) AS m FROM u GROUP BY happened, k",
            f"aggregate by event time, {KEPT}",
        ),
        ("SELECT DISTINCT event_time FROM t", f"distinct rows by event time, {KEPT}"),
        (
            "SELECT a.event_time FROM t a, d b WHERE date(a.event_time) = b.event_time",
            "inner join within 1 day, keeps 1 day of rows",
        ),
        (
            (
                "SELECT a.event_time FROM t a LEFT JOIN d b ON a.k = b.k AND b.event_time "
                "BETWEEN date_sub(a.event_time, 3) AND a.event_time"
            ),
            "left join within 4 days, keeps 4 days of rows",
        ),
        (
            (
                "SELECT a.event_time FROM t a JOIN s b ON abs(a.v) < 1 AND "
                "datediff(b.event_time, a.event_time) <= 3 AND b.event_time >= a.event_time"
            ),
            "inner join within 4 days, keeps 4 days of rows",
        ),
        (
            (
                "SELECT a.event_time FROM t a LEFT SEMI JOIN s b ON a.k = b.k AND "
                "b.event_time - a.event_time < INTERVAL '2' HOUR AND b.event_time >= a.event_time"
            ),
            "semi join within 2 hours, keeps 2 hours of rows",
        ),
        (
            (
                "SELECT a.event_time FROM t a JOIN s b ON b.event_time > a.event_time - "
                "INTERVAL 1 MONTH AND date_trunc('hour', b.event_time) <= a.event_time"
            ),
            "inner join within 31 days 1 hour, keeps 31 days of rows",
        ),
        (
            (
                "SELECT at AS event_time FROM (SELECT *, now AS later FROM (SELECT a.event_time AS "
                "at, b.event_time AS now FROM t a JOIN s b ON a.k = b.k)) "
                "WHERE later BETWEEN at AND at + INTERVAL 1 HOUR"
            ),
            "inner join within 1 hour, keeps 1 hour of rows",
        ),
        (
            (
                "SELECT a.event_time FROM t a JOIN s b ON b.event_time BETWEEN a.event_time AND "
                "add_months(a.event_time, 2)"
            ),
            "inner join within 62 days, keeps 62 days of rows",
        ),
        (
            (
                "SELECT a.event_time FROM t a JOIN s b ON b.event_time <= a.event_time AND "
                "b.event_time >= add_months(a.event_time, -1)"
            ),
            "inner join within 32 days, keeps 32 days of rows",
        ),
        (
            "SELECT a.event_time FROM t a FULL JOIN t b ON a.event_time = b.event_time",
            f"full join by equal event time, {KEPT}",
        ),
    ],
)
def test_what_they_keep_in_words(query: str, words: str, engine: SparkEngine) -> None:
    found = validate(engine, query)
    assert (found.query_class, found.description) == ("bounded", words)


@pytest.mark.parametrize(
    ("query", "advice"),
    [
        (DAILY, None),
        (SESSIONS, None),
        (DAILY.replace("window.end", "window.start"), "window.end AS event_time"),
        (DAILY.replace("window.end", "date(window.end)"), "window.end AS event_time"),
        (("SELECT at AS event_time FROM (SELECT w.end AS at, count(*) AS n FROM "
         "(SELECT window(event_time, '1 hour') AS w FROM t) GROUP BY w)"), None),
        (("SELECT w.end AS event_time FROM (SELECT window(event_time, '1 hour') AS w, "
         "count(*) AS n FROM t GROUP BY w)"), None),
        (("SELECT w.start AS event_time FROM (SELECT window(event_time, '1 hour') AS w, "
         "count(*) AS n FROM t GROUP BY w)"), "window.end AS event_time"),
        ("SELECT event_time, count(*) AS n FROM t GROUP BY event_time", None),
        ("SELECT min(event_time) AS event_time FROM t GROUP BY event_time", "event_time AS"),
        ("SELECT DISTINCT event_time, k FROM t", None),
        ("SELECT a.event_time FROM t a JOIN s b ON a.event_time = b.event_time", None),
        ("SELECT event_time FROM t a FULL JOIN s b USING (event_time)", None),
        (("SELECT a.event_time FROM t a JOIN s b ON b.event_time BETWEEN a.event_time AND "
         "a.event_time + INTERVAL 1 HOUR"), "greatest(l.event_time, r.event_time)"),
        (("SELECT greatest(a.event_time, b.event_time) AS event_time FROM t a JOIN s b ON "
         "b.event_time BETWEEN a.event_time AND a.event_time + INTERVAL 1 HOUR"), None),
        (("SELECT greatest(a.event_time, b.event_time) AS event_time FROM t a LEFT JOIN s b ON "
         "b.event_time BETWEEN a.event_time AND a.event_time + INTERVAL 1 HOUR"), "greatest("),
    ],
)  # fmt: skip
def test_an_event_time_before_completion_is_warned_of(
    query: str, advice: str | None, engine: SparkEngine
) -> None:
    warnings = validate(engine, query).warnings
    if advice is None:
        assert warnings == ()
    else:
        assert len(warnings) == 1
        assert "take rows for late" in warnings[0]
        assert advice in warnings[0]


@pytest.mark.parametrize(
    "query",
    [
        # Half of a range, a range of something else, a window of something else.
        "SELECT a.event_time FROM t a JOIN s b ON a.k = b.k AND b.event_time > a.event_time",
        (
            "SELECT a.event_time FROM t a JOIN s b ON a.k = b.k AND "
            "(b.event_time = a.event_time OR a.v = b.v)"
        ),
        "SELECT a.event_time FROM t a JOIN s b ON hour(a.event_time) = hour(b.event_time)",
        "SELECT a.event_time FROM t a LEFT JOIN s b ON a.k = b.k WHERE a.event_time = b.event_time",
        (
            "SELECT window.end AS event_time, count(*) AS n FROM t "
            "GROUP BY window(date_trunc('day', event_time), '1 hour')"
        ),
        (
            "SELECT window.end AS event_time, count(*) AS n FROM t "
            "GROUP BY window(timestamp_seconds(v), '1 hour')"
        ),
        (
            "SELECT window.end AS event_time, count(*) AS n FROM "
            "(SELECT event_time AS x FROM t UNION ALL SELECT timestamp_seconds(v) FROM t) "
            "GROUP BY window(x, '1 hour')"
        ),
        "SELECT max(event_time) AS event_time FROM t GROUP BY ROLLUP(event_time, k)",
        "SELECT DISTINCT CAST(event_time AS DATE) AS event_time FROM t",
    ],
)
def test_what_has_no_bound_is_no_such_query(query: str, engine: SparkEngine) -> None:
    try:
        found = validate(engine, query)
    except InvalidQueryError as error:
        assert error.hint is not None  # noqa: PT017  # which of both depends on other kinds
    else:
        assert found.query_class != "bounded"


def test_only_the_rows_of_open_sessions_stay(replay: Callable[..., Replay]) -> None:
    dataset = replay(
        "SELECT session_window.end AS event_time, k, count(*) AS n FROM t "
        "GROUP BY session_window(event_time, '2 hours'), k"
    )
    # One session goes on for days, the other ended long ago.
    long = rows(*((hour * HOUR, "long", 1.0) for hour in range(50)))
    dataset.run([(1, Block("t", (*long, *rows((HOUR, "short", 1.0))), 49 * HOUR))])
    assert count_rows(dataset.checkpoint) == 50
    assert dataset.run([(2, Block("t", rows((60 * HOUR, "long", 1.0)), 50 * HOUR))]) == []
    (row,) = dataset.run([(3, Block("t", (), 51 * HOUR))])
    assert (row["k"], row["n"]) == ("long", 50)
    assert count_rows(dataset.checkpoint) == 1


def test_retractions_are_warned_of_in_words_that_fit(engine: SparkEngine) -> None:
    warnings = validate(engine, DAILY, has_retractions=True).warnings
    assert any("`t` has retractions" in line and "late" in line for line in warnings)
    assert not any("as if they were new rows" in line for line in warnings)


def test_steps_and_nodes_around_the_window(replay: Callable[..., Replay]) -> None:
    dataset = replay(
        "SELECT w.end AS event_time, k, s, x FROM summed "
        "LATERAL VIEW explode(array(1, 2)) e AS x WHERE s > 1",
        cleaned="WITH c AS (SELECT * FROM t WHERE v > 0) SELECT event_time AS at, k, v FROM c",
        summed="SELECT window(at, '1 day') AS w, k, sum(v) AS s FROM cleaned GROUP BY 1, 2",
    )
    dataset.run([(1, Block("t", rows((HOUR, "a", 1.5), (HOUR, "b", 0.5), (HOUR, "a", -9.0))))])
    found = dataset.run([(2, Block("t", rows((2 * HOUR, "a", 1.0)), DAY))])
    assert [(row["k"], row["s"], row["x"]) for row in found] == [("a", 2.5, 1), ("a", 2.5, 2)]


def test_results_come_by_event_time_then_values(replay: Callable[..., Replay]) -> None:
    dataset = replay(
        "SELECT op, v, k, event_time, n FROM (SELECT 0 AS op, v, k, event_time, count(*) AS n "
        "FROM t GROUP BY event_time, k, v)"
    )
    nan = float("nan")
    given = rows((2, "ü", 1.0), (2, "z", 1.0), (1, "b", nan), (1, "b", 3.0), (1, "b", -3.0))
    given += ({"event_time": 1, "k": None, "v": None}, {"event_time": 1, "k": None, "v": -3.0})
    found = dataset.run([(1, Block("t", given, 10))])
    shown = [(row["event_time"].microsecond // 1000, str(row["v"]), row["k"]) for row in found]
    assert shown == [
        (1, "None", None),
        (1, "-3.0", None),
        (1, "-3.0", "b"),
        (1, "3.0", "b"),
        (1, "nan", "b"),
        (2, "1.0", "z"),
        (2, "1.0", "ü"),
    ]


def test_averages_of_large_integers_are_added_up_in_order(
    engine: SparkEngine, tmp_path: Path
) -> None:
    shape = Shape(pa.schema([("event_time", MOMENT), ("v", pa.int64())]))
    query = (
        "SELECT window.end AS event_time, avg(v) AS a FROM "
        "(SELECT event_time, v FROM t UNION ALL SELECT event_time, v FROM s) "
        "GROUP BY window(event_time, '1 day')"
    )
    dataset = Replay(engine, tmp_path / "d", sql(query), {"t": shape, "s": shape})
    large = ({"event_time": HOUR, "v": 1 << 53},)
    small = ({"event_time": HOUR, "v": 1}, {"event_time": HOUR, "v": 1})
    (found,) = dataset.run([(1, Block("t", large, DAY)), (1, Block("s", small, DAY))])
    # In DOUBLE 2^53 + 1 is 2^53; the two small ones together would make a difference.
    assert found["a"] == 2.0**53 / 3


def test_results_too_large_for_memory_are_the_same(
    replay: Callable[..., Replay], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = rows(*((n * HOUR, f"k{n % 7}", n * 0.1) for n in range(100)))
    blocks = [(1, Block("t", given, 3 * DAY))]
    want = replay().run(blocks)
    monkeypatch.setattr("odf.engines.spark.stateful.bounded.SMALL_ROWS", 0)
    assert replay().run(blocks) == want
    assert len(want) == 21


def test_the_state_does_not_grow_with_the_number_of_runs(replay: Callable[..., Replay]) -> None:
    dataset = replay()
    sizes, members = [], set()
    for day in range(12):
        block = rows(*((day * DAY + hour * HOUR, f"k{hour}", hour * 0.1) for hour in range(24)))
        dataset.run([(day + 1, Block("t", block, day * DAY + 12 * HOUR))])
        assert dataset.checkpoint is not None
        sizes.append(dataset.checkpoint.stat().st_size)
        members.add(tuple(description(dataset.checkpoint)["tables"]))
    assert members == {("input-0",)}
    assert max(sizes[2:]) <= 1.05 * sizes[2]


def test_a_complete_history_leaves_no_rows_behind(replay: Callable[..., Replay]) -> None:
    dataset = replay()
    dataset.run([(1, Block("t", rows((0, "a", 1.0)), 2 * DAY))])
    assert description(dataset.checkpoint)["tables"] == []
    assert description(dataset.checkpoint)["watermarks"] == {
        "reached": 2 * DAY,
        "inputs": [{"alias": "t", "highest": 2 * DAY, "reached_at": 1, "before": None}],
    }


def test_a_watermark_alone_completes_and_late_rows_are_counted(
    replay: Callable[..., Replay],
) -> None:
    dataset = replay()
    assert dataset.run([(1, Block("t", rows((HOUR, "a", 1.0))))]) == []
    (row,) = dataset.run([(2, Block("t", (), DAY))])
    assert row["s"] == 1.0
    assert dataset.log == []
    late = (*rows((DAY, "a", 1.0), (DAY + 1, "a", 1.0)), {"event_time": None, "k": "a", "v": 1.0})
    assert dataset.run([(3, Block("t", late))]) == []
    assert "input 't': 1 of 3 rows came late" in dataset.log[0]
    assert "input 't': 1 of 3 rows have no event time" in dataset.log[1]


def test_an_input_that_gained_a_column(replay: Callable[..., Replay]) -> None:
    dataset = replay(
        "SELECT * EXCEPT (offset, op, system_time, at) FROM "
        "(SELECT *, event_time AS at FROM t) GROUP BY ALL"
    )
    dataset.run([(1, Block("t", rows((DAY, "a", 1.0)), 0))])
    wider = pa.schema([*T.columns, ("extra", pa.int32())])
    dataset.shapes["t"] = replace(T, columns=wider)
    new = ({"event_time": DAY, "k": "b", "v": 2.0, "extra": 7},)
    found = dataset.run([(2, Block("t", new, 2 * DAY))])
    assert [(row["k"], row["extra"]) for row in found] == [("a", None), ("b", 7)]


@pytest.mark.parametrize("change", ["query", "vocabulary", "input", "column"])
def test_a_state_of_another_query_is_never_used(change: str, replay: Callable[..., Replay]) -> None:
    dataset = replay()
    dataset.run([(1, Block("t", rows((HOUR, "a", 1.0))))])
    match change:
        case "query":
            dataset.query = sql(DAILY.replace("1 day", "2 days"))
        case "vocabulary":
            dataset.vocab = DatasetVocabulary("offset", "operation", "system_time", "event_time")
        case "input":
            vocab = DatasetVocabulary("nr", "op", "system_time", "event_time")
            dataset.shapes["t"] = replace(T, vocab=vocab)
        case "column":
            columns = T.columns.set(2, pa.field("v", pa.int64()))
            dataset.shapes["t"] = replace(T, columns=columns)
    with pytest.raises(StateMismatchError, match="belongs to another query"):
        dataset.run([(2, Block("t", (), DAY))])


def test_comments_and_blanks_do_not_make_another_query(replay: Callable[..., Replay]) -> None:
    dataset = replay()
    dataset.run([(1, Block("t", rows((HOUR, "a", 1.0))))])
    dataset.query = sql(f"-- daily\n{DAILY.replace(',', ' ,  ')}")
    assert len(dataset.run([(2, Block("t", (), DAY))])) == 1


def test_rows_of_a_damaged_table(replay: Callable[..., Replay], tmp_path: Path) -> None:
    dataset = replay()
    given = rows(*((n * HOUR, f"k{n}", n * 0.1) for n in range(1000)))
    dataset.run([(1, Block("t", given))])
    assert dataset.checkpoint is not None
    content = bytearray(dataset.checkpoint.read_bytes())
    start = content.index(b"PAR1", 512)
    # The footer stays as it is; the pages do not.
    content[start + 100 : start + 3000] = bytes(2900)
    dataset.checkpoint.write_bytes(content)
    with pytest.raises(BadInputError, match="the checkpoint is damaged: its rows"):
        dataset.run([(2, Block("t", (), DAY))])
    assert not list(tmp_path.glob("dataset-0/run-2/checkpoint"))


# Migration.


def migrate(engine: SparkEngine, dataset: Replay, query: str, shape: Shape = T) -> Any:
    assert dataset.checkpoint is not None
    given = [ValidatedInput("t", shape.schema, has_retractions=False, vocab=shape.vocab)]
    return engine.migrate(sql(query), given, DEFAULT_VOCAB, dataset.checkpoint)


def test_a_state_goes_on_with_what_is_the_same_query(
    engine: SparkEngine, replay: Callable[..., Replay]
) -> None:
    dataset = replay()
    dataset.run([(1, Block("t", rows((HOUR, "a", 1.0), (HOUR, "b", 1.0))))])
    assert migrate(engine, dataset, f"{DAILY} -- the same").reason is None
    wider = replace(T, columns=pa.schema([*T.columns, ("extra", pa.int32())]))
    assert migrate(engine, dataset, DAILY, wider).reason is None


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (DAILY.replace("sum", "avg"), "its query is"),
        ("SELECT DISTINCT event_time FROM t", "its query is"),
        ("SELECT event_time, k FROM t", "needs no state"),
    ],
)
def test_a_state_of_something_else_is_given_up_with_its_rows_counted(
    query: str, reason: str, engine: SparkEngine, replay: Callable[..., Replay]
) -> None:
    dataset = replay()
    dataset.run([(1, Block("t", rows((HOUR, "a", 1.0), (HOUR, "b", 1.0))))])
    found = migrate(engine, dataset, query)
    assert reason in found.reason
    assert found.discarded == {"input-0": 2}


@pytest.mark.parametrize("content", ["savepoint", "text", ""])
def test_the_state_of_another_engine_is_given_up(
    content: str, engine: SparkEngine, tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint"
    if content == "savepoint":
        (tmp_path / "savepoint-1").mkdir()
        with tarfile.open(path, "w") as archive:
            archive.add(tmp_path / "savepoint-1", "savepoint-1")
    else:
        path.write_text(content)
    given = [ValidatedInput("t", T.schema, has_retractions=False, vocab=T.vocab)]
    found = engine.migrate(sql(DAILY), given, DEFAULT_VOCAB, path)
    assert (found.reason, found.discarded) == ("it is the state of another engine", {})


def test_migration_refuses_what_a_run_refuses(
    engine: SparkEngine, replay: Callable[..., Replay]
) -> None:
    dataset = replay()
    dataset.run([(1, Block("t", rows((HOUR, "a", 1.0))))])
    with pytest.raises(InvalidQueryError, match="nope"):
        migrate(engine, dataset, "SELECT nope FROM t")
    unread = [ValidatedInput("t", None, has_retractions=False)]
    assert dataset.checkpoint is not None
    found = engine.migrate(sql(DAILY), unread, DEFAULT_VOCAB, dataset.checkpoint)
    assert (found.reason, found.discarded) == (
        "some of its inputs have no data yet",
        {"input-0": 1},
    )

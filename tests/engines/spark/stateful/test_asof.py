"""As-of joins: which version a row meets, when it leaves, what is kept, what is refused."""

import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.engines.host.engine import ValidatedInput
from odf.engines.spark.engine import SparkEngine
from odf.errors import InvalidQueryError
from odf.metadata.model import DatasetVocabulary
from tests.engines.spark.stateful.asof_runs import (
    MS,
    VOCAB,
    Block,
    Ran,
    Source,
    rows_of,
    run,
    transform,
)

pytestmark = pytest.mark.spark

TRADES = {"k": pa.string(), "n": pa.int64()}
PRICES = {"k": pa.string(), "p": pa.float64()}
QUERY = transform(
    "SELECT l.event_time, l.k, l.n, r.p, r.event_time AS since FROM l LEFT ASOF JOIN r"
    " MATCH_CONDITION (l.event_time >= r.event_time) ON l.k = r.k"
)


def trades(*blocks: Block) -> Source:
    return Source("l", TRADES, blocks)


def prices(*blocks: Block) -> Source:
    return Source("r", PRICES, blocks)


def kept(state: Path) -> dict[str, list[tuple[object, ...]]]:
    """The tables of a checkpoint without their system columns."""
    found = {}
    with tarfile.open(state) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None and member.name.endswith(".parquet"):
                table = pq.read_table(pa.BufferReader(content.read()))
                names = [n for n in table.schema.names if n not in {"offset", "op", "system_time"}]
                found[member.name.removesuffix(".parquet")] = rows_of(table.select(names))
    return found


@pytest.fixture
def ran(engine: SparkEngine, tmp_path: Path) -> Ran:
    """Trades and prices in two runs."""
    left = trades(
        Block(1, ((0, 5, "a", 1), (0, 20, "a", 2), (0, 12, "b", 3), (0, 15, None, 4)), 16),
        Block(3, ((0, 16, "a", 5), (0, 31, "a", 6), (0, 29, "a", 7)), 40),
    )
    right = prices(
        Block(1, ((0, 10, "a", 1.5), (0, 10, "a", 1.25), (0, 11, None, 9.0)), 15),
        Block(2, ((0, 20, "a", 2.0), (0, 30, "a", 3.0)), 30),
    )
    return run(engine, tmp_path, QUERY, [left, right], cuts=[[1, 1]])


def test_a_row_leaves_when_all_inputs_have_passed_it(ran: Ran) -> None:
    first, second = map(rows_of, ran.tables)
    assert first == [(5, "a", 1, None, None), (12, "b", 3, None, None), (15, None, 4, None, None)]
    assert second == [(20, "a", 2, 2.0, 20), (29, "a", 7, 2.0, 20)]
    assert ran.tables[0].schema.field("since").type == MS


def test_late_rows_are_left_out_and_counted(ran: Ran) -> None:
    (line,) = ran.log
    assert line.startswith("input 'l': 1 of 3 rows came late")


def test_what_is_kept_is_bounded_by_what_can_still_be_asked_for(ran: Ran) -> None:
    assert kept(ran.checkpoints[0]) == {
        "rows-0": [(20, "a", 2)],
        "rows-1": [(10, "a", 1.25)],  # the last of two with one event time, without that of no key
        "gaps-1": [],
    }
    assert kept(ran.checkpoints[1]) == {
        "rows-0": [(31, "a", 6)],
        "rows-1": [(30, "a", 3.0)],
        "gaps-1": [],
    }


def test_a_watermark_alone_completes_rows(engine: SparkEngine, tmp_path: Path) -> None:
    left = trades(Block(1, ((0, 10, "a", 1),), 5), Block(2, (), 20))
    right = prices(Block(1, ((0, 7, "a", 1.5),), 8), Block(3, (), 12))
    ran = run(engine, tmp_path, QUERY, [left, right], cuts=[[1, 1], [2, 1]])
    assert [rows_of(table) for table in ran.tables] == [[], [], [(10, "a", 1, 1.5, 7)]]


def test_nothing_leaves_without_a_watermark(engine: SparkEngine, tmp_path: Path) -> None:
    left, right = trades(Block(1, ((0, 10, "a", 1),), 50)), prices(Block(1, ((0, 7, "a", 1.5),)))
    ran = run(engine, tmp_path, QUERY, [left, right])
    assert ran.rows == []
    assert kept(ran.checkpoints[0])["rows-0"] == [(10, "a", 1)]


def test_a_retracted_version_leaves_a_gap(engine: SparkEngine, tmp_path: Path) -> None:
    right = prices(
        Block(1, ((0, 10, "a", 1.0), (0, 20, "a", 2.0), (0, 20, "b", 5.0), (0, 20, "b", 6.0))),
        Block(2, ((1, 20, "a", 2.0), (2, 20, "b", 6.0), (3, 20, "b", 7.0), (0, 30, "a", 3.0))),
        Block(3, ((1, 20, "b", 7.0),), 100),
    )
    left = trades(
        Block(1, tuple((0, t, k, t) for k in "ab" for t in (15, 20, 25, 30))), Block(4, (), 100)
    )
    wanted = [
        (15, "a", 1.0), (15, "b", None), (20, "a", None), (20, "b", 5.0),
        (25, "a", None), (25, "b", 5.0), (30, "a", 3.0), (30, "b", 5.0),
    ]  # fmt: skip
    for number, cuts in enumerate(([], [[1, 1]], [[1, 2], [1, 3]])):
        ran = run(engine, tmp_path / str(number), QUERY, [left, right], cuts=cuts)
        assert [(t, k, p) for t, k, _, p, _ in ran.rows] == wanted


def test_a_retracted_row_does_not_leave(engine: SparkEngine, tmp_path: Path) -> None:
    left = trades(
        Block(1, ((0, 10, "a", 1), (0, 11, "a", 2), (0, 11, "a", 2)), 5),
        Block(2, ((1, 10, "a", 1), (1, 11, "a", 2), (1, 11, "a", 3)), 20),
    )
    ran = run(engine, tmp_path, QUERY, [left, prices(Block(1, (), 20))], cuts=[[1, 1]])
    assert ran.rows == [(11, "a", 2, None, None)]
    assert "1 retractions are of rows that are not there" in ran.log[-1]


def test_inner_and_strict(engine: SparkEngine, tmp_path: Path) -> None:
    query = transform(
        "SELECT l.event_time, p FROM l ASOF JOIN r MATCH_CONDITION (r.event_time < l.event_time)"
    )
    left = trades(Block(1, tuple((0, t, None, 0) for t in (-10, 0, 10, 20)), 100))
    right = prices(Block(1, ((0, -10, "x", 1.0), (0, 10, "y", 2.0)), 100))
    ran = run(engine, tmp_path, query, [left, right])
    assert ran.rows == [(0, 1.0), (10, 1.0), (20, 2.0)]


def test_null_safe_and_composite_keys(engine: SparkEngine, tmp_path: Path) -> None:
    query = transform(
        "SELECT l.event_time, l.n, r.p FROM l LEFT ASOF JOIN r"
        " MATCH_CONDITION (l.event_time >= r.event_time) ON l.k <=> r.k AND l.n = r.p * 2"
    )
    left = trades(Block(1, ((0, 10, "a", 2), (0, 11, None, 4), (0, 12, None, None)), 100))
    right = prices(Block(1, ((0, 1, "a", 1.0), (0, 2, None, 2.0), (0, 3, None, None)), 100))
    assert run(engine, tmp_path, query, [left, right]).rows == [
        (10, 2, 1.0), (11, 4, 2.0), (12, None, None),
    ]  # fmt: skip


def test_enriched_from_one_table_after_the_other(engine: SparkEngine, tmp_path: Path) -> None:
    query = transform(
        ("named", "SELECT k, n AS m, event_time AS t FROM m WHERE n > 0"),
        ("priced", ("SELECT l.*, r.p FROM l ASOF JOIN r"
         " MATCH_CONDITION (l.event_time >= r.event_time) ON l.k = r.k WHERE l.n <> 13")),
        "SELECT event_time, priced.k, m, p FROM priced LEFT ASOF JOIN named"
        " MATCH_CONDITION (priced.event_time >= named.t) USING (k)",
    )  # fmt: skip
    left = trades(
        Block(1, ((0, 10, "a", 1), (0, 11, "a", 13)), 10), Block(2, ((0, 30, "a", 3),), 40)
    )
    right = prices(Block(1, ((0, 5, "a", 1.0),), 40))
    names = Source("m", TRADES, (Block(1, ((0, 6, "a", 7), (0, 7, "a", -1)), 40),))
    ran = run(engine, tmp_path, query, [left, right, names], cuts=[[1, 1, 1]])
    assert ran.rows == [(10, "a", 7, 1.0), (30, "a", 7, 1.0)]


def test_a_series_joined_with_itself(engine: SparkEngine, tmp_path: Path) -> None:
    query = transform(
        "SELECT a.event_time, a.p, b.p AS before FROM r a LEFT ASOF JOIN r b"
        " MATCH_CONDITION (a.event_time > b.event_time) ON a.k = b.k"
    )
    source = prices(
        Block(1, ((0, 1, "a", 1.0), (0, 2, "a", 2.0)), 1),
        Block(2, ((1, 2, "a", 2.0), (0, 3, "a", 3.0)), 2),
        Block(3, ((0, 4, "a", 4.0),), 9),
    )
    wanted = [(1, 1.0, None), (3, 3.0, None), (4, 4.0, 3.0)]
    for number, cuts in enumerate(([], [[1]], [[1], [2]])):
        assert run(engine, tmp_path / str(number), query, [source], cuts=cuts).rows == wanted


def test_days_other_names_and_years_before_1970(engine: SparkEngine, tmp_path: Path) -> None:
    vocab = DatasetVocabulary("nr", "kind", "written", "day")
    query = transform(
        "SELECT l.event_time, r.rate FROM l ASOF JOIN rates r"
        " MATCH_CONDITION (l.event_time >= r.day) ON l.k = r.code"
    )
    day = 86_400_000
    columns = {"code": pa.string(), "rate": pa.decimal128(9, 2)}
    rates = Source(
        "rates", columns, (Block(1, ((0, -400, "a", 1), (0, -399, "a", 2)), 0),), vocab, pa.date32()
    )
    times = (-400 * day, -399 * day - 1, -399 * day, -398 * day)
    left = trades(Block(1, tuple((0, t, "a", 0) for t in times), -399 * day), Block(2, (), 0))
    ran = run(engine, tmp_path, query, [left, rates], cuts=[[1, 1]])
    assert [rows_of(table) for table in ran.tables] == [
        [(t, rate) for t, rate in zip(times[:3], (1, 1, 2), strict=True)],
        [(times[3], 2)],
    ]


def test_an_input_gains_a_column(engine: SparkEngine, tmp_path: Path) -> None:
    query = transform(
        "SELECT l.event_time, r.* EXCEPT (offset, op, system_time, event_time)"
        " FROM l ASOF JOIN r MATCH_CONDITION (l.event_time >= r.event_time) ON l.k = r.k"
    )
    left = trades(Block(1, ((0, 5, "a", 1), (0, 15, "a", 2), (0, 25, "a", 3)), 5), Block(2, (), 99))
    blocks = (Block(1, ((0, 4, "a", 1.0, "-"), (0, 14, "a", 2.0, "-")), 6),)
    blocks += (Block(2, ((0, 20, "a", 3.0, "x"),), 99),)
    right = Source("r", {**PRICES, "note": pa.string()}, blocks, grown=1)
    ran = run(engine, tmp_path, query, [left, right], cuts=[[1, 1]])
    assert [table.schema.names[1:] for table in ran.tables] == [["k", "p"], ["k", "p", "note"]]
    assert ran.rows == [(5, "a", 1.0), (15, "a", 2.0, None), (25, "a", 3.0, "x")]


def test_versions_from_several_inputs(engine: SparkEngine, tmp_path: Path) -> None:
    """Of versions with one event time that of the later branch counts."""
    query = transform(
        "SELECT l.event_time, p, place FROM l ASOF JOIN (SELECT event_time AS t, p, 'r' AS place"
        " FROM r UNION ALL SELECT event_time, p, 's' FROM s) v MATCH_CONDITION (l.event_time >= t)"
    )
    left = trades(Block(1, tuple((0, t, "a", 0) for t in (1, 2, 3, 4)), 2), Block(2, (), 9))
    right = prices(Block(1, ((0, 1, "a", 1.0), (0, 3, "a", 3.0)), 9))
    other = Source("s", PRICES, (Block(1, ((0, 1, "a", 1.5), (0, 2, "a", 2.5)), 9),))
    wanted = [(1, 1.5, "s"), (2, 2.5, "s"), (3, 3.0, "r"), (4, 3.0, "r")]
    for number, cuts in enumerate(([], [[1, 1, 1]])):
        ran = run(engine, tmp_path / str(number), query, [left, right, other], cuts=cuts)
        assert ran.rows == wanted
    assert kept(ran.checkpoints[0])["rows-2"] == [(2, "a", 2.5)]


def test_operations_are_those_of_appended_rows(engine: SparkEngine, tmp_path: Path) -> None:
    query = transform(
        "SELECT l.event_time, l.op, r.op AS r_op, p FROM l ASOF JOIN"
        " (SELECT * FROM r WHERE op = 0) r MATCH_CONDITION (l.event_time >= r.event_time)"
    )
    right = prices(Block(1, ((0, 1, "a", 1.0), (2, 1, "a", 1.0), (3, 2, "a", 2.0)), 9))
    left = trades(Block(1, ((0, 1, "a", 1), (3, 2, "a", 2)), 9))
    assert run(engine, tmp_path, query, [left, right]).rows == [(2, 0, 0, 2.0)]


def test_temporal_tables(engine: SparkEngine, tmp_path: Path) -> None:
    left = trades(Block(1, ((0, 5, "a", 1), (0, 15, "a", 2)), 16), Block(2, ((0, 20, "A", 3),), 40))
    right = prices(Block(1, ((0, 10, "a", 1.0), (0, 12, "A", 2.0)), 50))
    query = transform(
        "SELECT l.event_time, l.n, R.p FROM l LEFT JOIN R USING (k) WHERE n < 99",
        tables={"R": ["K"]},
    )
    ran = run(engine, tmp_path, query, [left, right], cuts=[[1, 1]])
    assert ran.rows == [(5, 1, None), (15, 2, 1.0), (20, 3, 2.0)]


def test_temporal_table_with_a_composite_key_of_days(engine: SparkEngine, tmp_path: Path) -> None:
    rates = Source(
        "rates",
        {"bank": pa.int32(), "code": pa.string(), "rate": pa.float64()},
        (
            Block(
                1, ((0, 0, 1, "a", 1.0), (0, 1, 1, "a", 2.0), (0, 0, 2, "a", 3.0)), 2 * 86_400_000
            ),
        ),
        time=pa.date32(),
    )
    query = transform(
        ("today", "SELECT event_time, bank, code, rate FROM rates"),
        "SELECT l.event_time, rate FROM l JOIN today ON today.code = k AND today.bank = l.n",
        tables={"today": ["code", "bank"]},
    )
    times = (0, 86_399_999, 86_400_000)
    left = trades(Block(1, tuple((0, t, "a", 1) for t in times), 2 * 86_400_000))
    ran = run(engine, tmp_path, query, [left, rates])
    assert ran.rows == [(0, 1.0), (86_399_999, 1.0), (86_400_000, 2.0)]


def test_temporal_table_of_a_constant_key(engine: SparkEngine, tmp_path: Path) -> None:
    query = transform(
        "SELECT l.event_time, r.p FROM l LEFT JOIN r ON r.k = 'a'", tables={"r": ["k"]}
    )
    left = trades(Block(1, ((0, 5, None, 1), (0, 15, "b", 2)), 20))
    right = prices(Block(1, ((0, 10, "a", 1.0), (0, 12, "b", 2.0)), 20))
    assert run(engine, tmp_path, query, [left, right]).rows == [(5, None), (15, 1.0)]


def test_what_is_told_of_it_when_it_is_added(engine: SparkEngine) -> None:
    inputs = [
        ValidatedInput("l", trades().schema, has_retractions=True, vocab=VOCAB),
        ValidatedInput("r", prices().schema, has_retractions=True, vocab=VOCAB),
    ]
    found = engine.validate(QUERY, inputs, VOCAB, preprocess=False)
    assert found.query_class == "as-of"
    assert found.description.startswith("as-of join, complete up to the watermark; keeps the rows")
    assert found.output_schema is not None
    assert found.output_schema.names == ["event_time", "k", "n", "p", "since"]
    of_rows, of_versions = found.warnings
    assert of_rows.startswith("the input `l` has retractions")
    assert of_rows.endswith("are late; what they correct stays as it is")
    assert of_versions.startswith("the input `r` has retractions")
    assert of_versions.endswith("stays valid until the next one")
    never_pulled = [ValidatedInput("l", None, has_retractions=False), inputs[1]]
    assert engine.validate(QUERY, never_pulled, VOCAB, preprocess=False).output_schema is None
    mistyped = transform("SELECT event_time FROM l", tables={"rr": ["k"]})
    with pytest.raises(InvalidQueryError, match="`rr` is no input of the query"):
        engine.validate(mistyped, never_pulled, VOCAB, preprocess=False)


def test_only_transforms_have_a_rule_for_ties(engine: SparkEngine, tmp_path: Path) -> None:
    path = tmp_path / "plain.parquet"
    pq.write_table(prices().schema.empty_table(), path)
    query = transform(
        "SELECT a.p FROM input a ASOF JOIN input b MATCH_CONDITION (a.event_time >= b.event_time)"
    )
    with pytest.raises(InvalidQueryError, match="an as-of join is not allowed"):
        engine.raw_query(query, [str(path)], tmp_path / "scratch")
    given = [ValidatedInput("input", prices().schema, has_retractions=False)]
    with pytest.raises(InvalidQueryError, match="an as-of join is not allowed"):
        engine.validate(query, given, VOCAB, preprocess=True)


AS_OF = "SELECT l.event_time, p FROM l ASOF JOIN r MATCH_CONDITION ({}) {}"


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        (AS_OF.format("l.event_time <= r.event_time", ""), "a version that comes later", "ASOF"),
        (AS_OF.format("l.n >= r.p", ""), "not the event time of an input", "ASOF JOIN"),
        (
            AS_OF.format("date(l.event_time) >= date(r.event_time)", ""),
            "not the event time of an input",
            "MATCH_CONDITION",
        ),
        (
            AS_OF.format("l.event_time >= r.event_time", "ON l.k = r.k AND l.n > 1"),
            "equalities",
            "in WHERE",
        ),
        (
            (
                "SELECT l.event_time, count(*) FROM l ASOF JOIN r MATCH_CONDITION"
                " (l.event_time >= r.event_time) GROUP BY 1"
            ),
            "GROUP BY or an aggregate function stands together with an as-of join",
            "a derivative of its own",
        ),
        (
            (
                "SELECT l.event_time FROM l ASOF JOIN (SELECT max(event_time) AS t FROM r) r"
                " MATCH_CONDITION (l.event_time >= r.t)"
            ),
            "the versions of an as-of join come from GROUP BY",
            "a derivative of its own",
        ),
        (
            (
                "SELECT l.event_time FROM l ASOF JOIN (SELECT event_time, explode(array(1)) FROM r)"
                " r MATCH_CONDITION (l.event_time >= r.event_time)"
            ),
            "several versions of one row",
            "a derivative of its own",
        ),
        (
            (
                "SELECT event_time FROM l UNION ALL SELECT l.event_time FROM l ASOF JOIN r"
                " MATCH_CONDITION (l.event_time >= r.event_time)"
            ),
            "without an as-of join",
            "a derivative of its own",
        ),
        (
            (
                "SELECT a.event_time FROM l a ASOF JOIN r b MATCH_CONDITION"
                " (a.event_time >= b.event_time) ASOF JOIN r c MATCH_CONDITION"
                " (b.event_time >= c.event_time)"
            ),
            "not the event time of an input",
            "ASOF JOIN",
        ),
        (
            "SELECT l.event_time FROM l JOIN r FOR SYSTEM_TIME AS OF l.event_time ON l.k = r.k",
            "timestamp expression cannot refer to any columns",
            "LEFT ASOF JOIN r MATCH_CONDITION",
        ),
        (
            "SELECT event_time FROM l FOR SYSTEM_TIME AS OF TIMESTAMP '2020-01-01'",
            "FOR SYSTEM_TIME",
            "LEFT ASOF JOIN r MATCH_CONDITION",
        ),
    ],
)
def test_refused_as_of_joins(
    engine: SparkEngine, tmp_path: Path, query: str, message: str, hint: str
) -> None:
    with pytest.raises(InvalidQueryError) as refused:
        run(engine, tmp_path, transform(query), [trades(), prices()])
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")


TABLE = {"r": ["k"]}


@pytest.mark.parametrize(
    ("query", "tables", "message"),
    [
        ("SELECT l.event_time FROM l JOIN r ON l.k = r.k AND l.n = r.p", TABLE, "ON compares"),
        ("SELECT l.event_time FROM l JOIN r ON l.k = r.k AND l.n > 1", TABLE, "more than equal"),
        ("SELECT l.event_time FROM l JOIN r ON l.k = upper(r.k)", TABLE, "ON compares `upper"),
        ("SELECT l.event_time FROM l, r", TABLE, "ON compares nothing"),
        ("SELECT l.event_time FROM l RIGHT JOIN r ON l.k = r.k", TABLE, "by a RightOuter join"),
        ("SELECT l.event_time FROM l SEMI JOIN r ON l.k = r.k", TABLE, "by a LeftSemi join"),
        ("SELECT l.event_time FROM r JOIN l ON l.k = r.k", TABLE, "read in another way"),
        ("SELECT event_time FROM r", TABLE, "read in another way"),
        ("SELECT event_time FROM l", TABLE, "does not read it"),
        ("SELECT event_time FROM l WHERE k IN (SELECT k FROM r)", TABLE, "read in another way"),
        (
            "SELECT l.event_time FROM l JOIN (SELECT DISTINCT k FROM r) r ON l.k = r.k",
            TABLE,
            "more than the table",
        ),
        (
            "SELECT l.event_time FROM l JOIN (SELECT k FROM r) r ON l.k = r.k",
            TABLE,
            "event time of the table is not among",
        ),
        (
            "SELECT r.event_time FROM (SELECT k FROM l) l JOIN r ON l.k = r.k",
            TABLE,
            "left side of the join has no event time",
        ),
        (
            "SELECT l.event_time, count(*) FROM l JOIN r ON l.k = r.k GROUP BY 1",
            TABLE,
            "stands together with an as-of join",
        ),
        ("SELECT event_time FROM l", {"x": ["k"]}, "`x` is no input of the query"),
        ("SELECT event_time FROM l", {"r": []}, "has no primary key"),
        ("SELECT event_time FROM l", {"r": ["z"]}, "has no column `z`"),
        ("SELECT event_time FROM l", {"r": ["k"], "R": ["k"]}, "declared twice"),
    ],
)
def test_refused_temporal_tables(
    engine: SparkEngine, tmp_path: Path, query: str, tables: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(InvalidQueryError) as refused:
        run(engine, tmp_path, transform(query, tables=tables), [trades(), prices()])
    assert message in refused.value.message

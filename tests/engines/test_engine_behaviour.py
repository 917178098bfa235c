"""What every engine does alike: one suite over Spark and DataFusion, as processes and in sandboxes.

Queries use back-quotes, which both dialects take for names.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.data.arrow_fields import arrow_schema_to_fields, fields_to_arrow_schema
from odf.data.slices import SliceWriter, inspect_slice, slice_schema
from odf.errors import EngineError, InvalidQueryError, NotFoundError
from odf.metadata.arrow_schema import decode_schema, encode_schema
from odf.metadata.model import (
    DEFAULT_VOCAB,
    DatasetVocabulary,
    OffsetInterval,
    SqlQueryStep,
    Timestamp,
    TransformSql,
)
from odf.protocol.calls import (
    QueryInput,
    QueryOutcome,
    RawQueryCall,
    TransformCallInput,
    TransformOutcome,
)
from odf.runtimes.base import EngineHandle, Runtime, python_command
from odf.runtimes.bubblewrap import BubblewrapRuntime
from odf.runtimes.process import ProcessRuntime
from tests.runtimes.conftest import idle, one_input, transform_call, with_watermarks

OWN_VOCAB = DatasetVocabulary("Nr", "Kind", "Written", "When it was")
ENGINES = [
    pytest.param(("datafusion", "process"), id="datafusion-process"),
    pytest.param(
        ("datafusion", "bubblewrap"), id="datafusion-bubblewrap", marks=pytest.mark.sandbox
    ),
    pytest.param(("spark", "process"), id="spark-process", marks=pytest.mark.spark),
    pytest.param(
        ("spark", "bubblewrap"),
        id="spark-bubblewrap",
        marks=(pytest.mark.spark, pytest.mark.sandbox),
    ),
]
SAME_QUERIES = {
    "map": "SELECT event_time, upper(v) AS w, n + n AS m, CAST(n + 1 AS INT) AS o FROM a",
    "filter": "SELECT event_time, v FROM a WHERE n > 1",
    "union": "SELECT event_time, v FROM a UNION ALL SELECT event_time, v FROM b",
    "operations": "SELECT op, event_time, v, n FROM a",
    "case": "SELECT event_time, CASE WHEN n > 1 THEN 'many' ELSE 'one' END AS c FROM a",
    "casts": "SELECT event_time, CAST(n AS DOUBLE) AS d, CAST(event_time AS DATE) AS day FROM a",
}
NOT_QUERIES = {
    "two statements": "SELECT event_time FROM a; SELECT event_time FROM a",
    "a command": "DROP TABLE a",
    "another table": "SELECT event_time FROM elsewhere",
    "a file": "SELECT event_time FROM `/etc/passwd`",
    "an unknown column": "SELECT event_time, nothing FROM a",
    "an unknown function": "SELECT event_time, frobnicate(v) AS x FROM a",
    "bad syntax": "SELECT event_time FRM a",
    "the clock": "SELECT event_time, now() AS t FROM a",
    "today": "SELECT event_time, current_date AS t FROM a",
    "chance": "SELECT event_time, random() AS r FROM a",
    "chance again": "SELECT event_time, uuid() AS r FROM a",
    "no event time": "SELECT v FROM a",
    "an event time that is none": "SELECT v AS event_time FROM a",
    "a system column": "SELECT * FROM a",
    "the system time": "SELECT event_time, system_time FROM a",
    "a system column in capitals": "SELECT event_time, n AS `OFFSET` FROM a",
    "an operation that is none": "SELECT event_time, v AS op FROM a",
    "one name twice": "SELECT event_time, v, n AS V FROM a",
    "rows of its own": "SELECT event_time FROM a UNION ALL SELECT TIMESTAMP '2020-01-01 00:00:00'",
}
STATEFUL = {
    "group": "SELECT max(event_time) AS event_time, v FROM a GROUP BY v",
    "aggregate": "SELECT max(event_time) AS event_time FROM a",
    "distinct": "SELECT DISTINCT event_time FROM a",
    "union": "SELECT event_time FROM a UNION SELECT event_time FROM b",
    "join": "SELECT x.event_time FROM a AS x JOIN b AS y ON x.n = y.n",
    "window": "SELECT event_time, row_number() OVER (ORDER BY n) AS r FROM a",
    "limit": "SELECT event_time FROM a LIMIT 1",
    "order": "SELECT event_time FROM a ORDER BY n",
    "subquery": "SELECT event_time FROM a WHERE n IN (SELECT n FROM b)",
    "exists": "SELECT event_time FROM a WHERE EXISTS (SELECT n FROM b)",
}


@dataclass(frozen=True)
class Subject:
    """An engine under test; `name` is what transforms call it."""

    name: str
    handle: EngineHandle
    folder: Path
    numbers: Iterator[int]

    def derive(
        self, *queries: str | tuple[str, str], inputs: tuple[TransformCallInput, ...], **more: Any
    ) -> tuple[TransformOutcome, list[dict[str, Any]]]:
        output = self.folder / f"result-{next(self.numbers)}"
        call = replace(transform_call("", output, *inputs), transform=self.sql(*queries), **more)
        outcome = self.handle.client.execute_transform(call)
        rows = pq.read_table(output).to_pylist() if outcome.slice_path else []
        return outcome, rows

    def validate(
        self, *queries: str | tuple[str, str], inputs: tuple[TransformCallInput, ...], **more: Any
    ) -> QueryOutcome:
        views = [
            QueryInput(view.query_alias, schema_bytes(pq.read_schema(view.schema_file)), **more)
            for view in inputs
        ]
        return self.handle.client.validate_query(self.sql(*queries), views, DEFAULT_VOCAB)

    def sql(self, *queries: str | tuple[str, str]) -> TransformSql:
        steps = [
            SqlQueryStep(alias=step[0], query=step[1])
            if isinstance(step, tuple)
            else SqlQueryStep(alias=None, query=step)
            for step in queries
        ]
        return TransformSql(engine=self.name, queries=tuple(steps))


def make_runtime(engine: str, runtime: str) -> Runtime:
    command = python_command(f"odf.engines.{engine}")
    if runtime == "process":
        return ProcessRuntime(command)
    sandbox = BubblewrapRuntime(command)
    if (reason := sandbox.why_not()) is not None:
        pytest.skip(f"bubblewrap does not work here: {reason}")
    return sandbox


@pytest.fixture(scope="session", params=ENGINES)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, EngineHandle]]:
    engine, runtime = request.param
    with make_runtime(engine, runtime).start(tmp_path_factory.mktemp(engine)) as handle:
        yield engine, handle


@pytest.fixture
def subject(running: tuple[str, EngineHandle], tmp_path: Path) -> Subject:
    name, handle = running
    return Subject(name, handle, tmp_path, count())


MakeInput = Callable[..., TransformCallInput]


@pytest.fixture
def given(tmp_path: Path) -> MakeInput:
    """Make an input: rows of (op, v, n); event times count up by a day from the first offset."""

    def make(
        rows: list[tuple[int, str | None, int | None]],
        *,
        alias: str = "a",
        start: int = 0,
        vocab: DatasetVocabulary = DEFAULT_VOCAB,
        extra: dict[str, pa.Array] | None = None,
    ) -> TransformCallInput:
        path = tmp_path / f"input-{len(list(tmp_path.iterdir()))}"
        write_slice(path, rows, start, vocab, extra or {})
        view = one_input(path, start, start + len(rows) - 1, alias="x")
        return replace(view, query_alias=alias, vocab=vocab)

    return make


def write_slice(
    path: Path,
    rows: list[tuple[int, str | None, int | None]],
    start: int,
    vocab: DatasetVocabulary,
    extra: dict[str, pa.Array],
) -> None:
    time = pa.timestamp("ms", "UTC")
    when = [86_400_000 * (start + i) for i in range(len(rows))]
    columns = {
        vocab.offset_column: pa.array(range(start, start + len(rows)), pa.int64()),
        vocab.operation_type_column: pa.array([row[0] for row in rows], pa.int32()),
        vocab.system_time_column: pa.array([0] * len(rows), time),
        vocab.event_time_column: pa.array(when, time),
        "v": pa.array([row[1] for row in rows], pa.string()),
        "n": pa.array([row[2] for row in rows], pa.int32()),
        **extra,
    }
    event_and_data = list(columns)[3:]
    schema = slice_schema(
        pa.schema([pa.field(name, columns[name].type) for name in event_and_data]), vocab
    )
    arrays = [columns[field.name] for field in schema]
    with SliceWriter(path, schema) as writer:
        writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))


def schema_bytes(schema: pa.Schema) -> bytes:
    return encode_schema(arrow_schema_to_fields(schema))


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


THREE: list[tuple[int, str | None, int | None]] = [(0, "x", 1), (0, "y", 2), (0, None, None)]


def test_says_who_it_is(subject: Subject) -> None:
    found = subject.handle.client.describe()
    assert found.engine == subject.name
    assert found.release.startswith(f"odf-{subject.name}/")
    assert found.versions["pyarrow"] == pa.__version__


def test_maps_rows_and_adds_the_system_columns(subject: Subject, given: MakeInput) -> None:
    outcome, rows = subject.derive(
        "SELECT v, event_time, n * 10 AS m FROM a", inputs=(given(THREE),), next_offset=7
    )
    assert outcome.offset_interval == OffsetInterval(7, 9)
    assert list(rows[0]) == ["offset", "op", "system_time", "event_time", "v", "m"]
    assert column(rows, "offset") == [7, 8, 9]
    assert column(rows, "op") == [0, 0, 0]
    assert column(rows, "v") == ["x", "y", None]
    assert column(rows, "m") == [10, 20, None]
    assert outcome.slice_path is not None
    assert inspect_slice(outcome.slice_path, DEFAULT_VOCAB).problems == ()


def test_filters_rows(subject: Subject, given: MakeInput) -> None:
    _, rows = subject.derive("SELECT event_time, v FROM a WHERE n = 2", inputs=(given(THREE),))
    assert column(rows, "v") == ["y"]


def test_rows_outside_the_interval_are_not_seen(subject: Subject, given: MakeInput) -> None:
    inside = replace(given(THREE), offset_interval=OffsetInterval(1, 1))
    _, rows = subject.derive("SELECT event_time, v FROM a", inputs=(inside,))
    assert column(rows, "v") == ["y"]


def test_a_union_gives_its_branches_as_written(subject: Subject, given: MakeInput) -> None:
    many: list[tuple[int, str | None, int | None]] = [(0, str(i), i) for i in range(20_000)]
    a, b = given(many), given([(0, "b", 1)], alias="b")
    query = (
        "SELECT event_time, n FROM a WHERE n % 2 = 1 UNION ALL SELECT event_time, n + 1 FROM b "
        "UNION ALL SELECT event_time, n FROM a WHERE n < 3"
    )
    _, rows = subject.derive(query, inputs=(a, b))
    assert column(rows, "n") == [*range(1, 20_000, 2), 2, 0, 1, 2]


def test_several_slices_are_read_in_chain_order(
    subject: Subject, given: MakeInput, tmp_path: Path
) -> None:
    first = given(THREE)
    later, last = tmp_path / "aaa", tmp_path / "zzz"
    write_slice(later, [(0, "z", 9)], 3, DEFAULT_VOCAB, {})
    write_slice(last, [(0, "w", 8)], 4, DEFAULT_VOCAB, {"added": pa.array([1.5])})
    view = replace(
        first,
        data=(*first.data, later, last),
        offset_interval=OffsetInterval(1, 4),
        schema_file=last,
    )
    _, rows = subject.derive("SELECT event_time, v, added FROM a", inputs=(view,))
    assert column(rows, "v") == ["y", None, "z", "w"]
    assert column(rows, "added") == [None, None, None, 1.5]


def test_steps_read_the_results_of_steps_before(subject: Subject, given: MakeInput) -> None:
    _, rows = subject.derive(
        ("some", "SELECT event_time, v, n FROM a WHERE n > 0"),
        ("more", "SELECT event_time, n + 1 AS n FROM some UNION ALL SELECT event_time, n FROM a"),
        "SELECT event_time, n AS result FROM more",
        inputs=(given(THREE),),
    )
    assert column(rows, "result") == [2, 3, 1, 2, None]


def test_with_clauses(subject: Subject, given: MakeInput) -> None:
    query = "WITH q AS (SELECT event_time, v FROM a) SELECT q.event_time, q.v FROM q WHERE v = 'x'"
    _, rows = subject.derive(query, inputs=(given(THREE),))
    assert column(rows, "v") == ["x"]


@pytest.mark.parametrize(
    "alias", ["com.example.some-name", "MixedCase", "account/name", 'with "quotes"', "select"]
)
def test_names_of_inputs_can_be_anything_in_quotes(
    subject: Subject, given: MakeInput, alias: str
) -> None:
    query = f"SELECT event_time, v AS `V` FROM `{alias}`"
    _, rows = subject.derive(query, inputs=(given(THREE, alias=alias),))
    assert column(rows, "V") == ["x", "y", None]


def test_names_of_columns_keep_their_case(subject: Subject, given: MakeInput) -> None:
    query = "SELECT event_time, v AS camelCase, n AS `with blank` FROM a"
    _, rows = subject.derive(query, inputs=(given(THREE),))
    assert list(rows[0])[4:] == ["camelCase", "with blank"]


def test_a_vocabulary_of_its_own(subject: Subject, given: MakeInput) -> None:
    view = given([(1, "x", 1), (0, "y", 2)], vocab=OWN_VOCAB)
    query = "SELECT `Kind`, `When it was`, v FROM a"
    outcome, rows = subject.derive(query, inputs=(view,), vocab=OWN_VOCAB)
    assert list(rows[0]) == ["Nr", "Kind", "Written", "When it was", "v"]
    assert column(rows, "Kind") == [1, 0]
    assert outcome.offset_interval == OffsetInterval(0, 1)


def test_an_input_of_another_vocabulary(subject: Subject, given: MakeInput) -> None:
    view = given(THREE, vocab=OWN_VOCAB)
    query = "SELECT `When it was` AS event_time, `Nr` AS origin FROM a"
    _, rows = subject.derive(query, inputs=(view,))
    assert column(rows, "origin") == [0, 1, 2]


def test_types_pass_through(subject: Subject, given: MakeInput) -> None:
    moment = pa.array([-1, None, 1_700_000_000_123], pa.timestamp("ms", "UTC"))
    extra = {
        "bool": pa.array([True, False, None]),
        "long": pa.array([1 << 40, None, -1], pa.int64()),
        "float": pa.array([1.5, None, float("nan")], pa.float32()),
        "double": pa.array([0.1, None, float("inf")], pa.float64()),
        "decimal": pa.array([None, Decimal("1.10"), Decimal(-2)], pa.decimal128(10, 2)),
        "date": pa.array([0, None, -1], pa.date32()),
        "moment": moment,
        "bytes": pa.array([b"\x00\xff", None, b""], pa.binary()),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
        "struct": pa.array(
            [{"p": "x", "q": 1}, None, {"p": None, "q": 2}],
            pa.struct([("p", pa.string()), ("q", pa.int64())]),
        ),
    }
    names = ", ".join(f"`{name}`" for name in extra)
    query = f"SELECT event_time, {names} FROM a"
    outcome, _ = subject.derive(query, inputs=(given(THREE, extra=extra),))
    assert outcome.slice_path is not None
    found = pq.read_table(outcome.slice_path)
    for name, wanted in extra.items():
        assert found.schema.field(name).type == wanted.type, name
        # Compared as text, in which a NaN is one.
        assert str(found.column(name).to_pylist()) == str(wanted.to_pylist()), name


def test_timestamps_become_milliseconds_cut_towards_the_past(
    subject: Subject, given: MakeInput
) -> None:
    query = (
        "SELECT event_time, CAST('1969-12-31 23:59:59.9994' AS TIMESTAMP) AS before, "
        "CAST('1970-01-01 00:00:00.0009' AS TIMESTAMP) AS after FROM a"
    )
    outcome, _ = subject.derive(query, inputs=(given(THREE[:1]),))
    assert outcome.slice_path is not None
    table = pq.read_table(outcome.slice_path)
    assert table.schema.field("before").type == pa.timestamp("ms", "UTC")
    assert table.column("before").cast(pa.int64()).to_pylist() == [-1]
    assert table.column("after").cast(pa.int64()).to_pylist() == [0]


def test_an_event_time_can_be_a_date(subject: Subject, given: MakeInput) -> None:
    query = "SELECT CAST(event_time AS DATE) AS event_time, v FROM a"
    outcome, _ = subject.derive(query, inputs=(given(THREE),))
    assert outcome.slice_path is not None
    assert pq.read_schema(outcome.slice_path).field("event_time").type == pa.date32()


def test_no_rows_give_no_slice(subject: Subject, given: MakeInput) -> None:
    outcome, rows = subject.derive(
        "SELECT event_time, v FROM a WHERE n > 100", inputs=(given(THREE),)
    )
    assert rows == []
    assert (outcome.slice_path, outcome.offset_interval) == (None, None)


def test_an_idle_input_has_its_columns_and_no_rows(subject: Subject, given: MakeInput) -> None:
    a, b = given(THREE), idle(given([(0, "never", 1)], alias="b"))
    query = "SELECT event_time, v FROM b UNION ALL SELECT event_time, v FROM a"
    _, rows = subject.derive(query, inputs=(a, b))
    assert column(rows, "v") == ["x", "y", None]


def test_nothing_but_idle_inputs(subject: Subject, given: MakeInput) -> None:
    outcome, rows = subject.derive("SELECT event_time FROM a", inputs=(idle(given(THREE)),))
    assert (rows, outcome.offset_interval) == ([], None)


def test_the_watermark_is_that_of_the_slowest_input(subject: Subject, given: MakeInput) -> None:
    a = with_watermarks(given(THREE), "2024-01-03T00:00:00Z", "2024-01-05T00:00:00Z")
    b = with_watermarks(idle(given(THREE, alias="b")), "2024-01-04T00:00:00Z")
    outcome, _ = subject.derive("SELECT event_time FROM a", inputs=(a, b))
    assert outcome.watermark == Timestamp.parse("2024-01-04T00:00:00Z")


def test_an_input_without_a_watermark_holds_it_back(subject: Subject, given: MakeInput) -> None:
    a = with_watermarks(given(THREE), "2024-01-03T00:00:00Z")
    outcome, _ = subject.derive("SELECT event_time FROM a", inputs=(a, given(THREE, alias="b")))
    assert outcome.watermark is None


def test_operations_pass_through(subject: Subject, given: MakeInput) -> None:
    view = given([(0, "x", 1), (2, "x", 1), (3, "y", 1), (1, "y", 1)])
    _, rows = subject.derive("SELECT op, event_time, v FROM a", inputs=(view,))
    assert column(rows, "op") == [0, 2, 3, 1]


def test_operations_that_are_dropped_are_appends(subject: Subject, given: MakeInput) -> None:
    view = given([(0, "x", 1), (1, "x", 1)])
    _, rows = subject.derive("SELECT event_time, v FROM a", inputs=(view,))
    assert column(rows, "op") == [0, 0]


def test_half_a_correction_becomes_a_retraction_or_an_append(
    subject: Subject, given: MakeInput
) -> None:
    view = given([(2, "keep", 1), (3, "drop", 1), (2, "drop", 2), (3, "keep", 2)])
    _, rows = subject.derive("SELECT op, event_time, n FROM a WHERE v = 'keep'", inputs=(view,))
    # The halves are of two pairs, though they have become neighbours.
    assert column(rows, "op") == [1, 0]


def test_corrections_stay_pairs_in_each_branch(subject: Subject, given: MakeInput) -> None:
    view = given([(2, "p", 1), (3, "q", 2)])
    query = (
        "SELECT op, event_time, v FROM a WHERE v = 'p' "
        "UNION ALL SELECT op, event_time, v FROM a UNION ALL "
        "SELECT op, event_time, v FROM a WHERE v = 'q'"
    )
    _, rows = subject.derive(query, inputs=(view,))
    assert column(rows, "op") == [1, 2, 3, 0]


def test_dropping_operations_is_warned_of(subject: Subject, given: MakeInput) -> None:
    a = given(THREE)
    dropped = subject.validate("SELECT event_time FROM a", inputs=(a,), has_retractions=True)
    passed = subject.validate("SELECT op, event_time FROM a", inputs=(a,), has_retractions=True)
    assert len(dropped.warnings) == 1
    assert "retractions" in dropped.warnings[0]
    assert passed.warnings == ()


def test_a_valid_query_says_what_it_gives(subject: Subject, given: MakeInput) -> None:
    outcome = subject.validate(
        "SELECT event_time, v, n AS m FROM `a`", inputs=(given(THREE), given(THREE, alias="b"))
    )
    assert outcome.query_class == "stateless"
    assert outcome.output_schema is not None
    schema = fields_to_arrow_schema(decode_schema(outcome.output_schema))
    assert schema.names == ["event_time", "v", "m"]
    assert schema.field("m").type == pa.int32()


@pytest.mark.parametrize("query", NOT_QUERIES.values(), ids=NOT_QUERIES)
def test_what_is_no_acceptable_query_is_refused(
    subject: Subject, given: MakeInput, query: str
) -> None:
    inputs = (given(THREE),)
    with pytest.raises(InvalidQueryError) as checked:
        subject.validate(query, inputs=inputs)
    with pytest.raises(InvalidQueryError):
        subject.derive(query, inputs=inputs)
    assert "\n" not in checked.value.message.strip()


@pytest.mark.parametrize("query", STATEFUL.values(), ids=STATEFUL)
def test_queries_that_need_state_are_refused(
    subject: Subject, given: MakeInput, query: str
) -> None:
    inputs = (given(THREE), given(THREE, alias="b"))
    with pytest.raises(InvalidQueryError, match="needs state"):
        subject.validate(query, inputs=inputs)
    with pytest.raises(InvalidQueryError, match="needs state"):
        subject.derive(query, inputs=inputs)


def test_values_that_do_not_fit_are_the_querys_fault(subject: Subject, given: MakeInput) -> None:
    with pytest.raises(InvalidQueryError, match="x"):
        subject.derive("SELECT event_time, CAST(v AS INT) AS i FROM a", inputs=(given(THREE),))


def test_another_engines_query_is_refused(subject: Subject, given: MakeInput) -> None:
    output = subject.folder / "none"
    call = replace(
        transform_call("SELECT 1", output, given(THREE)),
        transform=replace(subject.sql("SELECT event_time FROM a"), engine="flink"),
    )
    with pytest.raises(InvalidQueryError, match="flink"):
        subject.handle.client.execute_transform(call)
    assert not output.exists()


def test_a_missing_slice_is_said_at_once(subject: Subject, given: MakeInput) -> None:
    view = given(THREE)
    gone = replace(view, data=(subject.folder / "gone",))
    with pytest.raises(NotFoundError):
        subject.derive("SELECT event_time FROM a", inputs=(gone,))


def test_a_file_that_is_no_slice_is_an_error(subject: Subject, given: MakeInput) -> None:
    view = given(THREE)
    broken = subject.folder / "broken"
    broken.write_bytes(b"no Parquet at all")
    with pytest.raises(EngineError):
        subject.derive("SELECT event_time FROM a", inputs=(replace(view, data=(broken,)),))
    _, rows = subject.derive("SELECT event_time FROM a", inputs=(view,))
    assert len(rows) == 3


def test_the_same_step_gives_the_same_bytes(subject: Subject, given: MakeInput) -> None:
    view = given([(0, str(i), i) for i in range(30_000)])
    query = "SELECT event_time, v, n FROM a UNION ALL SELECT event_time, v, -n FROM a"
    hashes = set()
    for _ in range(3):
        outcome, _ = subject.derive(query, inputs=(view,))
        assert outcome.slice_path is not None
        hashes.add(inspect_slice(outcome.slice_path, DEFAULT_VOCAB).physical_hash)
    assert len(hashes) == 1


def test_a_raw_query_over_plain_files(subject: Subject) -> None:
    paths = []
    for number in range(2):
        paths.append(subject.folder / f"plain-{number}.parquet")
        pq.write_table(pa.table({"k": [number * 2, number * 2 + 1], "T": ["p", "q"]}), paths[-1])
    output = subject.folder / "raw"
    outcome = subject.handle.client.execute_raw_query(
        RawQueryCall(tuple(paths), subject.sql("SELECT k, `T` AS t FROM input WHERE k > 0"), output)
    )
    assert outcome.num_records == 3
    assert pq.read_table(output).to_pydict() == {"k": [1, 2, 3], "t": ["q", "p", "q"]}


def test_a_raw_query_may_look_at_all_rows(subject: Subject) -> None:
    path, output = subject.folder / "plain.parquet", subject.folder / "raw"
    pq.write_table(pa.table({"k": ["b", "a", "b", None], "n": [1, 2, 3, 4]}), path)
    query = "SELECT k, sum(n) AS total FROM input GROUP BY k"
    outcome = subject.handle.client.execute_raw_query(
        RawQueryCall((path,), subject.sql(query), output)
    )
    assert outcome.num_records == 3
    assert pq.read_table(output).to_pydict() == {"k": [None, "a", "b"], "total": [4, 2, 4]}


_HASHES: dict[str, dict[str, object]] = {}


@pytest.mark.parametrize("name", SAME_QUERIES)
def test_all_engines_give_the_same_logical_hash(
    subject: Subject, given: MakeInput, name: str
) -> None:
    a = given([(0, "x", 1), (2, "y", 2), (3, "Y", 3), (1, None, None)])
    b = given([(0, "z", 5)], alias="b")
    outcome, _ = subject.derive(SAME_QUERIES[name], inputs=(a, b))
    assert outcome.slice_path is not None
    found = _HASHES.setdefault(name, {})
    found[subject.name] = inspect_slice(outcome.slice_path, DEFAULT_VOCAB).logical_hash
    # Whoever comes second compares; the order of the parameters does not matter.
    assert len(set(found.values())) == 1, found

"""Checks of which rows come, in which order, and that they come again."""

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.coordinator.engine_checks.base import (
    SYSTEM_TIME,
    THREE,
    Check,
    Row,
    Subject,
    column,
    expect,
    expect_sound,
    idle,
    with_watermarks,
)
from odf.data.inspector import inspect_slice
from odf.errors import EngineError
from odf.metadata.model import DEFAULT_VOCAB, OffsetInterval, Timestamp
from odf.protocol.calls import RawQueryCall

_MANY: Final = 20_000


def _map(subject: Subject) -> None:
    outcome, rows = subject.derive(
        "SELECT v, event_time, n * 10 AS m FROM a", inputs=(subject.given(THREE),), next_offset=7
    )
    expect(outcome.offset_interval, OffsetInterval(7, 9), "offsets")
    expect(set(rows[0]), {"offset", "op", "system_time", "event_time", "v", "m"}, "columns")
    expect(column(rows, "offset"), [7, 8, 9], "offset")
    expect(column(rows, "op"), [0, 0, 0], "op")
    expect(column(rows, "v"), ["x", "y", None], "v")
    expect(column(rows, "m"), [10, 20, None], "m")
    expect(
        {str(time)[:19] for time in column(rows, "system_time")}, {"2024-01-31 12:00:00"}, "time"
    )
    expect_sound(outcome)


def _order_of_columns(subject: Subject) -> None:
    _, rows = subject.derive("SELECT v, event_time FROM a", inputs=(subject.given(THREE),))
    expect(list(rows[0]), ["offset", "op", "system_time", "event_time", "v"], "columns")


def _filter(subject: Subject) -> None:
    _, rows = subject.derive(
        "SELECT event_time, v FROM a WHERE n = 2", inputs=(subject.given(THREE),)
    )
    expect(column(rows, "v"), ["y"], "v")


def _interval(subject: Subject) -> None:
    inside = replace(subject.given(THREE), offset_interval=OffsetInterval(1, 1))
    _, rows = subject.derive("SELECT event_time, v FROM a", inputs=(inside,))
    expect(column(rows, "v"), ["y"], "v")


def _union(subject: Subject) -> None:
    many: list[Row] = [(0, str(i), i) for i in range(_MANY)]
    a, b = subject.given(many), subject.given([(0, "b", 1)], alias="b")
    query = (
        "SELECT event_time, n FROM a WHERE n % 2 = 1 UNION ALL SELECT event_time, n + 1 FROM b "
        "UNION ALL SELECT event_time, n FROM a WHERE n < 3"
    )
    _, rows = subject.derive(query, inputs=(a, b))
    expect(column(rows, "n"), [*range(1, _MANY, 2), 2, 0, 1, 2], "n")


def _several_slices(subject: Subject) -> None:
    first = subject.given(THREE)
    later = subject.slice([(0, "z", 9)], start=3)
    last = subject.slice([(0, "w", 8)], start=4, extra={"added": pa.array([1.5])})
    view = replace(
        first,
        data=(*first.data, later, last),
        offset_interval=OffsetInterval(1, 4),
        schema_file=last,
    )
    _, rows = subject.derive("SELECT event_time, v, added FROM a", inputs=(view,))
    expect(column(rows, "v"), ["y", None, "z", "w"], "v")
    expect(column(rows, "added"), [None, None, None, 1.5], "added")


def _steps(subject: Subject) -> None:
    _, rows = subject.derive(
        ("some", "SELECT event_time, v, n FROM a WHERE n > 0"),
        ("more", "SELECT event_time, n + 1 AS n FROM some UNION ALL SELECT event_time, n FROM a"),
        "SELECT event_time, n AS result FROM more",
        inputs=(subject.given(THREE),),
    )
    expect(column(rows, "result"), [2, 3, 1, 2, None], "result")


def _with(subject: Subject) -> None:
    query = "WITH q AS (SELECT event_time, v FROM a) SELECT q.event_time, q.v FROM q WHERE v = 'x'"
    _, rows = subject.derive(query, inputs=(subject.given(THREE),))
    expect(column(rows, "v"), ["x"], "v")


def _no_rows(subject: Subject) -> None:
    outcome, rows = subject.derive(
        "SELECT event_time, v FROM a WHERE n > 100", inputs=(subject.given(THREE),)
    )
    expect(rows, [], "rows")
    expect((outcome.slice_path, outcome.offset_interval), (None, None), "slice and offsets")


def _idle_input(subject: Subject) -> None:
    a, b = subject.given(THREE), idle(subject.given([(0, "never", 1)], alias="b"))
    query = "SELECT event_time, v FROM b UNION ALL SELECT event_time, v FROM a"
    _, rows = subject.derive(query, inputs=(a, b))
    expect(column(rows, "v"), ["x", "y", None], "v")


def _all_idle(subject: Subject) -> None:
    outcome, rows = subject.derive("SELECT event_time FROM a", inputs=(idle(subject.given(THREE)),))
    expect((rows, outcome.offset_interval), ([], None), "rows and offsets")


def _slowest_watermark(subject: Subject) -> None:
    a = with_watermarks(subject.given(THREE), "2024-01-03T00:00:00Z", "2024-01-05T00:00:00Z")
    b = with_watermarks(subject.given(THREE, alias="b"), "2024-01-04T00:00:00Z")
    query = "SELECT event_time FROM a UNION ALL SELECT event_time FROM b"
    outcome, _ = subject.derive(query, inputs=(a, b))
    expect(outcome.watermark, Timestamp.parse("2024-01-04T00:00:00Z"), "watermark")


def _watermark_of_idle_input(subject: Subject) -> None:
    a = with_watermarks(subject.given(THREE), "2024-01-05T00:00:00Z")
    b = with_watermarks(idle(subject.given(THREE, alias="b")), "2024-01-04T00:00:00Z")
    outcome, _ = subject.derive("SELECT event_time FROM a", inputs=(a, b))
    expect(outcome.watermark, Timestamp.parse("2024-01-04T00:00:00Z"), "watermark")


def _input_without_watermark(subject: Subject) -> None:
    a = with_watermarks(subject.given(THREE), "2024-01-03T00:00:00Z")
    b = subject.given(THREE, alias="b")
    outcome, _ = subject.derive("SELECT event_time FROM a", inputs=(a, b))
    expect(outcome.watermark, None, "watermark")


def _again(subject: Subject) -> None:
    view = subject.given([(0, str(i), i) for i in range(30_000)])
    query = "SELECT event_time, v, n FROM a UNION ALL SELECT event_time, v, -n AS n FROM a"
    hashes = set()
    for _ in range(3):
        outcome, _ = subject.derive(query, inputs=(view,), system_time=SYSTEM_TIME)
        if outcome.slice_path is None:
            raise EngineError("there is no slice")
        hashes.add(inspect_slice(outcome.slice_path, DEFAULT_VOCAB).logical_hash)
    expect(len(hashes), 1, "different logical hashes of three runs")


def _raw(subject: Subject) -> None:
    paths = []
    for number in range(2):
        paths.append(subject.folder / f"plain-{next(subject.numbers)}.parquet")
        pq.write_table(pa.table({"k": [number * 2, number * 2 + 1], "T": ["p", "q"]}), paths[-1])
    output = subject.folder / f"raw-{next(subject.numbers)}"
    query = subject.sql("SELECT k, `T` AS t FROM input WHERE k > 0")
    outcome = subject.client.execute_raw_query(RawQueryCall(tuple(paths), query, output))
    expect(outcome.num_records, 3, "rows")
    expect(sorted(pq.read_table(output).column("k").to_pylist()), [1, 2, 3], "k")


def _raw_of_all_rows(subject: Subject) -> None:
    path = subject.folder / f"plain-{next(subject.numbers)}.parquet"
    output = subject.folder / f"raw-{next(subject.numbers)}"
    pq.write_table(pa.table({"k": ["b", "a", "b", None], "n": [1, 2, 3, 4]}), path)
    query = "SELECT k, sum(n) AS total FROM input GROUP BY k"
    outcome = subject.client.execute_raw_query(RawQueryCall((path,), subject.sql(query), output))
    expect(outcome.num_records, 3, "rows")
    wanted = {"k": [None, "a", "b"], "total": [4, 2, 4]}
    expect(pq.read_table(output).to_pydict(), wanted, "the result, ordered by its columns")


CHECKS: Final = (
    Check("a map keeps the rows in order and gets the system columns", _map),
    Check("the system columns come first, then the event time", _order_of_columns, ours=True),
    Check("a filter drops rows", _filter),
    Check("rows outside of the interval are not seen", _interval),
    Check("a union gives its branches as they are written", _union),
    Check("several slices are read in the order of the chain", _several_slices),
    Check("steps read the results of steps before", _steps),
    Check("WITH clauses", _with),
    Check("no rows give no slice", _no_rows),
    Check("an idle input has its columns and no rows", _idle_input),
    Check("nothing but idle inputs", _all_idle),
    Check("the watermark is that of the slowest input", _slowest_watermark),
    Check("the watermark of an idle input counts", _watermark_of_idle_input),
    Check("an input without a watermark holds it back", _input_without_watermark, ours=True),
    Check("the same step gives the same rows in the same order", _again),
    Check("a raw query over plain files", _raw),
    Check("a raw query sees all rows; its result has an order", _raw_of_all_rows, ours=True),
)
"""Checks of rows."""

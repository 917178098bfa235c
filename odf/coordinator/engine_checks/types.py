"""Checks of types: that values arrive as they left, and the same from every engine."""

from decimal import Decimal
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.coordinator.engine_checks.base import (
    THREE,
    Check,
    CheckFailedError,
    Subject,
    expect,
)
from odf.data.inspector import inspect_slice
from odf.metadata.model import DEFAULT_VOCAB

COLUMNS: Final[dict[str, pa.Array]] = {
    "bool": pa.array([True, False, None]),
    "long": pa.array([1 << 40, None, -1], pa.int64()),
    "float": pa.array([1.5, None, float("nan")], pa.float32()),
    "double": pa.array([0.1, None, float("inf")], pa.float64()),
    "decimal": pa.array([None, Decimal("1.10"), Decimal(-2)], pa.decimal128(10, 2)),
    "date": pa.array([0, None, -1], pa.date32()),
    "moment": pa.array([-1, None, 1_700_000_000_123], pa.timestamp("ms", "UTC")),
    "bytes": pa.array([b"\x00\xff", None, b""], pa.binary()),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "struct": pa.array(
        [{"p": "x", "q": 1}, None, {"p": None, "q": 2}],
        pa.struct([("p", pa.string()), ("q", pa.int64())]),
    ),
}
"""A column of each type; null among them."""

SAME_QUERIES: Final = {
    "a map": (
        "SELECT event_time, upper(v) AS w, n + n AS m, CAST(n + 1 AS INT) AS o FROM a",
        "f9680c00120ddc75252e460148948dd04779f3f6f5bee4437ec7345deafbbc3ee2ff4ab99a9",
    ),
    "a filter": (
        "SELECT event_time, v FROM a WHERE n > 1",
        "f9680c00120205b35c2f58b9b3bc35bf2a3d4c3ef3e8acfc5405f0c5efb1da642fd6869c656",
    ),
    "a union": (
        "SELECT event_time, v FROM a UNION ALL SELECT event_time, v FROM b",
        "f9680c00120b1070770cb1d5cc4ad439c8c9d8a28c043d073b11432015f0bfa603633d95f96",
    ),
    "operations": (
        "SELECT op, event_time, v, n FROM a",
        "f9680c00120a7c2406340975ada50d8df6fe45b0109ec090b7aaaf126fd39089ded3a4a5d20",
    ),
    "a case": (
        "SELECT event_time, CASE WHEN n > 1 THEN 'many' ELSE 'one' END AS c FROM a",
        "f9680c00120acd33022821dc6e1d7fe1af1a424bb3dbf3aa11fdde7b43cd9807e2547192484",
    ),
    "casts": (
        "SELECT event_time, CAST(n AS DOUBLE) AS d, CAST(event_time AS DATE) AS day FROM a",
        "f9680c0012042767aba542020d0c00a729c75033cfd8317d76260487ebec67820e396294208",
    ),
}
"""Queries that every dialect has, each with the logical hash of its result."""


def _type(name: str, subject: Subject) -> None:
    wanted = COLUMNS[name]
    view = subject.given(THREE, extra={name: wanted})
    outcome, _ = subject.derive(f"SELECT event_time, `{name}` FROM a", inputs=(view,))  # noqa: S608  # of this module's own names
    if outcome.slice_path is None:
        raise CheckFailedError("there is no slice")
    found = pq.read_table(outcome.slice_path)
    expect(found.schema.field(name).type, wanted.type, "type")
    # Compared as text, in which a NaN is one.
    expect(str(found.column(name).to_pylist()), str(wanted.to_pylist()), "values")


def _milliseconds(subject: Subject) -> None:
    query = (
        "SELECT event_time, CAST('1969-12-31 23:59:59.9994' AS TIMESTAMP) AS before, "
        "CAST('1970-01-01 00:00:00.0009' AS TIMESTAMP) AS after FROM a"
    )
    outcome, _ = subject.derive(query, inputs=(subject.given(THREE[:1]),))
    if outcome.slice_path is None:
        raise CheckFailedError("there is no slice")
    table = pq.read_table(outcome.slice_path)
    expect(table.schema.field("before").type, pa.timestamp("ms", "UTC"), "type")
    expect(table.column("before").cast(pa.int64()).to_pylist(), [-1], "before")
    expect(table.column("after").cast(pa.int64()).to_pylist(), [0], "after")


def _date(subject: Subject) -> None:
    query = "SELECT CAST(event_time AS DATE) AS event_time, v FROM a"
    outcome, _ = subject.derive(query, inputs=(subject.given(THREE),))
    if outcome.slice_path is None:
        raise CheckFailedError("there is no slice")
    expect(pq.read_schema(outcome.slice_path).field("event_time").type, pa.date32(), "type")


def _same_hash(query: str, wanted: str, subject: Subject) -> None:
    a = subject.given([(0, "x", 1), (2, "y", 2), (3, "Y", 3), (1, None, None)])
    b = subject.given([(0, "z", 5)], alias="b")
    outcome, _ = subject.derive(query, inputs=(a, b))
    if outcome.slice_path is None:
        raise CheckFailedError("there is no slice")
    found = inspect_slice(outcome.slice_path, DEFAULT_VOCAB).logical_hash
    expect(str(found), wanted, "logical hash")


CHECKS: Final = (
    *(Check(f"{name} values pass through", partial(_type, name)) for name in COLUMNS),
    Check("timestamps become milliseconds, cut towards the past", _milliseconds, ours=True),
    Check("an event time can be a date", _date),
    *(
        Check(f"{name}: the logical hash of all engines", partial(_same_hash, query, digest), True)
        for name, (query, digest) in SAME_QUERIES.items()
    ),
)
"""Checks of types."""

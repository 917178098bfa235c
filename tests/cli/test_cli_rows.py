import datetime as dt
import io
import json
import uuid
from decimal import Decimal

import pytest

from odf.cli.output import Output, Terminal

pa = pytest.importorskip("pyarrow")


def values(array: object) -> list[object]:
    from odf.cli.rows import rows_to_json

    return [row["x"] for row in rows_to_json(pa.table({"x": array}), "op")]


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (
            lambda: pa.array([0, -1, None], pa.timestamp("ms", "UTC")),
            ["1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", None],
        ),
        (lambda: pa.array([1], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001Z"]),
        (lambda: pa.array([2**62], pa.timestamp("s")), [f"{2**62} s since 1970"]),
        (lambda: pa.array([dt.date(2024, 2, 29), None]), ["2024-02-29", None]),
        (lambda: pa.array([2**31 - 1], pa.date32()), ["2147483647 days since 1970"]),
        (lambda: pa.array([dt.date(2024, 2, 29)], pa.date64()), ["2024-02-29"]),
        (lambda: pa.array([3_723_000_001], pa.time64("us")), ["01:02:03.000001"]),
        (lambda: pa.array([0], pa.time32("s")), ["00:00:00"]),
        (
            lambda: pa.array([Decimal("1E+3"), Decimal("0.10")], pa.decimal128(10, 2)),
            ["1000.00", "0.10"],
        ),
        (
            lambda: pa.array([0.1, float("nan"), float("inf"), float("-inf"), -0.0]),
            [0.1, "NaN", "Infinity", "-Infinity", -0.0],
        ),
        (lambda: pa.array([0.1, 3.4e38], pa.float32()), [0.1, 3.4e38]),
        (lambda: pa.array([2**63 - 1, -(2**63)]), [2**63 - 1, -(2**63)]),
        (lambda: pa.array([b"\x00\xff", b""]), ["00ff", ""]),
        (lambda: pa.array([True, None]), [True, None]),
        (lambda: pa.array([[1, None]]), [[1, None]]),
        (
            lambda: pa.array([{"a": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "b": b"\x01"}]),
            [{"a": "2024-01-01T00:00:00Z", "b": "01"}],
        ),
        (lambda: pa.array(["", None, "x"]).dictionary_encode(), ["", None, "x"]),
    ],
)
def test_every_type_becomes_exact_json(array, wanted):
    got = values(array())
    assert got == wanted
    assert json.loads(json.dumps(got, allow_nan=False)) == wanted


def test_uuids():
    found = values(
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"\x01" * 16], pa.binary(16)))
    )
    assert found == [str(uuid.UUID(bytes=b"\x01" * 16))]


def printed(table: object, width: int = 80, *, tty: bool = False) -> tuple[list[str], str]:
    from odf.cli.rows import print_rows

    out, err = io.StringIO(), io.StringIO()
    print_rows(Output(Terminal(out, err, tty, tty, width)), table, "op", "system_time")
    return out.getvalue().splitlines(), err.getvalue()


def test_operations_nulls_and_texts_are_told_apart():
    table = pa.table(
        {"op": pa.array([0, 1, 2, 3, 0], pa.int32()), "t": ["", None, "NULL", ' "a', "b\nc"]}
    )
    lines, _ = printed(table)
    assert [line.split(None, 1) for line in lines] == [
        ["op", "t"],
        ["+A", '""'],
        ["-R", "NULL"],
        ["-C", '"NULL"'],
        ["+C", '" \\"a"'],
        ["+A", "b\\nc"],
    ]


def test_columns_without_room_are_named():
    table = pa.table({f"column_{n}": ["some text"] for n in range(20)})
    lines, err = printed(table, 60, tty=True)
    assert all(len(line) <= 60 for line in lines)
    assert err.startswith("not shown, for lack of room: column_5, column_6")
    assert printed(table, 60)[1] == ""


def table_of(millis: int, text: str) -> object:
    time = pa.array([1_714_564_800_000 + millis], pa.timestamp("ms", "UTC"))
    return pa.table(
        {
            "offset": pa.array([1234567], pa.int64()),
            "op": pa.array([0], pa.int32()),
            "system_time": time,
            "event_time": time,
            "text": [text],
        }
    )


SECOND = "2024-05-01T12:00:00Z"
MILLI = "2024-05-01T12:00:00.123Z"
CUT = "not shown, for lack of room: system_time; -o json has everything\n"


@pytest.mark.parametrize(
    ("millis", "text", "width", "shown", "said"),
    [
        (0, "abc", 80, ["1234567", "+A", SECOND, SECOND, "abc"], ""),
        (123, "abc", 80, ["1234567", "+A", MILLI, MILLI, "abc"], ""),
        (123, "a" * 16, 80, ["1234567", "+A", SECOND, SECOND, "a" * 16], ""),
        (123, "a" * 30, 80, ["1234567", "+A", SECOND, "a" * 30], CUT),
        (0, "a" * 80, 80, ["1234567", "+A", SECOND, "a" * 44 + "…"], CUT),
        (0, "a" * 80, 45, ["1234567", "+A", SECOND, "a" * 9 + "…"], CUT),
        (0, "a" * 80, 34, ["1234567", "+A", SECOND], CUT.replace("time;", "time, text;")),
    ],
)
def test_times_are_never_cut(millis, text, width, shown, said):
    lines, err = printed(table_of(millis, text), width, tty=True)
    assert lines[1].split() == shown
    assert err == said
    assert (
        printed(table_of(millis, text), width)[0][1].split()[2:4]
        == [MILLI if millis else SECOND] * 2
    )


def test_numbers_are_never_cut():
    table = pa.table({"a_number_with_a_long_name": [12345678901234], "t": ["x" * 60]})
    lines, _ = printed(table, 30, tty=True)
    assert lines[1] == "12345678901234  xxxxxxxxxxxxx…"

"""What texts mean in typed fields: by hand, quick against slow, and against Spark's own reader."""

import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from odf.data.ddl import parse_ddl
from odf.engines.spark.engine import SparkEngine
from odf.engines.spark.readers import texts
from odf.engines.spark.readers.convert import (
    Converted,
    convert_slowly,
    converter,
    only_bytes,
)
from odf.engines.spark.readers.csv_format import read_type
from tests.engines.spark.odd_texts import TYPES

BAD = object()


def arrow_type(ddl: str) -> pa.DataType:
    return read_type(parse_ddl([f"x {ddl}"])[0].type)


def convert(ddl: str, values: list[str]) -> list[Any]:
    found = converter(arrow_type(ddl))
    assert found is not None
    return plain(found(pa.array(values, pa.string())))


def plain(converted: Converted) -> list[Any]:
    """Values as comparable Python objects: ticks of times, a text for what is not a number."""
    values = converted.values
    if pa.types.is_timestamp(values.type) or pa.types.is_time64(values.type):
        values = values.cast(pa.int64())
    elif pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    bad = set(converted.bad)
    return [BAD if i in bad else comparable(value) for i, value in enumerate(values.to_pylist())]


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    return value


@pytest.mark.parametrize(
    ("ddl", "text", "value"),
    [
        ("INT", "+1", 1),
        ("INT", "007", 7),
        ("INT", "-2147483648", -(2**31)),
        ("INT", "2147483648", BAD),
        ("INT", " 1", BAD),
        ("INT", "1 ", BAD),
        ("INT", "0x10", BAD),
        ("INT", "1.0", BAD),
        ("INT", "1e3", BAD),
        ("INT", "1_000", BAD),
        ("INT", "", BAD),
        ("INT UNSIGNED", "-1", BAD),
        ("INT UNSIGNED", "4294967295", 2**32 - 1),
        ("BIGINT UNSIGNED", "18446744073709551615", 2**64 - 1),
        ("DOUBLE", "1e3", (1000.0, 1.0)),
        ("DOUBLE", "-0", (0.0, -1.0)),
        ("DOUBLE", "1.5d", (1.5, 1.0)),
        ("DOUBLE", "0x1p3", (8.0, 1.0)),
        ("DOUBLE", "NaN", "NaN"),
        ("DOUBLE", "-Inf", (-math.inf, -1.0)),
        ("DOUBLE", "nan", BAD),
        ("DOUBLE", "inf", BAD),
        ("DOUBLE", "0x10", BAD),
        ("DOUBLE", " 1.5", BAD),
        ("DOUBLE", "1.5 ", BAD),
        ("DOUBLE", "", BAD),
        ("FLOAT", "16777217", (16777216.0, 1.0)),
        ("FLOAT", "1e39", (math.inf, 1.0)),
        ("DECIMAL(10,2)", "1,234.5", Decimal("1234.50")),
        ("DECIMAL(10,2)", "1.005", Decimal("1.01")),
        ("DECIMAL(10,2)", "-1.005", Decimal("-1.01")),
        ("DECIMAL(10,2)", "1e3", Decimal("1000.00")),
        ("DECIMAL(10,2)", "99999999.995", BAD),
        ("DECIMAL(10,2)", " 1", BAD),
        ("DECIMAL(10,2)", ",", BAD),
        ("BOOLEAN", "tRuE", True),
        ("BOOLEAN", "1", BAD),
        ("BOOLEAN", "0", BAD),
        ("BOOLEAN", "yes", BAD),
        ("DATE", "1969-12-31", -1),
        ("DATE", "2024-1-2", 19724),
        ("DATE", "2024-02-30", BAD),
        ("DATE", "01/02/2024", BAD),
        ("TIMESTAMP", "1970-01-01", 0),
        ("TIMESTAMP", "1969-12-31T23:59:59.999999", -1),
        ("TIMESTAMP", "1970-01-01 00:00:01.1234567", 1_123_456),
        ("TIMESTAMP", "1970-01-01T01:00:00+01:00", 0),
        ("TIMESTAMP", "1970-01-01T00:00:00Z", 0),
        ("TIMESTAMP", "1970-01-01T01:00:00 Europe/Rome", BAD),
        ("TIMESTAMP", "03:04:05", BAD),
        ("TIME", "03:04:05.5", (3 * 3600 + 4 * 60 + 5) * 1_000_000 + 500_000),
        ("TIME", "24:00", BAD),
        ("UUID", "00112233-4455-6677-8899-AABBCCDDEEFF", bytes(range(0, 256, 17))),
        ("UUID", "00112233445566778899aabbccddeeff", BAD),
    ],
)
def test_values(ddl: str, text: str, value: object) -> None:
    assert convert(ddl, [text]) == [value]
    # Beside an odd text a plain one takes the slow way too.
    assert convert(ddl, [text, "?"]) == [value, BAD]


def test_nulls_stay_null_and_are_not_bad() -> None:
    for ddl in (*TYPES, "TIME", "UUID", "STRING"):
        found = converter(arrow_type(ddl))
        assert found is not None
        converted = found(pa.array([None, None], pa.string()))
        assert (converted.values.null_count, converted.bad) == (2, ())


def test_types_that_no_text_can_be() -> None:
    for ddl in ("BINARY", "ARRAY<INT>", "STRUCT<a INT>"):
        assert converter(arrow_type(ddl)) is None


def test_only_bytes_looks_at_its_slice_only() -> None:
    column = pa.array(["x", "12", None, "3", "y"])
    assert not only_bytes(column, b"0123456789")
    assert only_bytes(column.slice(1, 3), b"0123456789")
    assert only_bytes(pa.array([], pa.string()), b"")


PARSERS: dict[str, texts.Parse] = {
    "TINYINT": texts.integer(-128, 127),
    "BIGINT": texts.integer(-(2**63), 2**63 - 1),
    "BOOLEAN": texts.boolean,
    "FLOAT": texts.single,
    "DOUBLE": texts.double,
    "DATE": texts.days,
    "TIMESTAMP": texts.micros,
}
digits = st.text("0123456789", min_size=1, max_size=12)
numbers = st.builds(
    lambda sign, whole, rest, exponent: sign + whole + rest + exponent,
    st.sampled_from(["", "-", "+"]),
    st.one_of(digits, st.just("")),
    st.one_of(st.just(""), digits.map(lambda d: "." + d), st.just(".")),
    st.one_of(st.just(""), st.integers(-400, 400).map(lambda e: f"e{e}")),
)
times = st.builds(
    lambda year, month, day, rest, zone: f"{year}-{month}-{day}{rest}{zone}",
    st.one_of(st.integers(1, 9999).map(lambda y: f"{y:04}"), st.integers(0, 12000).map(str)),
    st.one_of(st.integers(1, 12).map(lambda m: f"{m:02}"), st.integers(0, 13).map(str)),
    st.one_of(st.integers(1, 31).map(lambda d: f"{d:02}"), st.integers(0, 32).map(str)),
    st.one_of(
        st.just(""),
        st.builds(
            lambda sep, h, m, s, f: f"{sep}{h:02}:{m:02}:{s:02}{f}",
            st.sampled_from("T "),
            st.integers(0, 24),
            st.integers(0, 60),
            st.integers(0, 60),
            st.one_of(st.just(""), st.text("0123456789", max_size=10).map(lambda f: "." + f)),
        ),
        st.text("0123456789:T .", max_size=12),
    ),
    st.sampled_from(["", "", "Z", "+01:00", "-0130", "+1", " UTC", "+19:00", "z", "+05:60"]),
)
mess = st.text("0123456789-+:.TZeE ,dfxINaninfty/\u0661\u00a0\t", max_size=24)
words = st.one_of(
    st.sampled_from(["true", "TRUE", "tRuE", "false", "False", "fal\u017fe"]),
    st.text("truefalsTRUEFALS01 \u017f", max_size=6),
)
anything = st.one_of(numbers, times, words, mess)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(PARSERS)), st.lists(anything, min_size=1, max_size=5))
@example("BOOLEAN", ["fal\u017fe"])
@example("BOOLEAN", ["True", "fALSE"])
@example("BOOLEAN", ["true", "1"])
@example("TIMESTAMP", ["2024-01-02T0304"])
@example("TIMESTAMP", ["2024-01-02 03", "2024-01-02 03:04"])
@example("DATE", ["0000-01-01"])
@example("DOUBLE", ["1e400", "-1e400", "1e-400", "4.9e-324"])
@example("FLOAT", ["3.4028235677973366e38", "3.4028235e38", "1.00000017881393432617187499"])
@example("FLOAT", ["1e-46", "7.006492321624085e-46", "7.006492321624086e-46"])
def test_the_quick_way_is_the_slow_way(ddl: str, values: list[str]) -> None:
    slow = convert_slowly(arrow_type(ddl), pa.array(values), PARSERS[ddl])
    assert convert(ddl, values) == plain(slow)


IN_TIMES = "0123456789-: T.Z+tz/x,\t\0\xa0\u0661"


@settings(max_examples=300, deadline=None)
@given(
    st.from_regex(r"\A2024-0[12]-(0|3)[019][ T][012][0459]:[05]0:(00|59|60)(\.\d{1,7})?Z\Z"),
    st.data(),
)
@example("2024-01-02T03:04:05.123456Z", None)
@example("2024-01-02T03:04-05:00Z", None)
@example("2024-01-02T03:04:05-1Z", None)
@example("2024-01-02T03:04:5ZZ", None)
@example("2024-01-02t03:04:05Z", None)
@example("2024-01-02T03:04:05,1Z", None)
@example("2024-01-02T03:04:05.\u0661Z", None)
@example("\t024-01-02T03:04:05Z", None)
def test_times_that_end_with_z(text: str, draw: st.DataObject | None) -> None:
    if draw is not None and draw.draw(st.booleans()):
        place = draw.draw(st.integers(0, len(text) - 1))
        text = text[:place] + draw.draw(st.sampled_from(IN_TIMES)) + text[place + 1 :]
    values = [text, "2024-01-02T03:04:05Z"]
    slow = convert_slowly(arrow_type("TIMESTAMP"), pa.array(values), PARSERS["TIMESTAMP"])
    assert convert("TIMESTAMP", values) == plain(slow)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(numbers, mess), min_size=1, max_size=5))
@example(["12345678901234567890123456789012345678901"])
def test_decimals_both_ways(values: list[str]) -> None:
    target = pa.decimal128(20, 4)
    parse = texts.decimal(20, 4)
    want: list[Any] = []
    for value in values:
        try:
            want.append(Decimal(parse(value)).scaleb(-4))
        except ValueError:
            want.append(BAD)
    found = converter(target)
    assert found is not None
    assert plain(found(pa.array(values))) == want


# Against Spark itself


def ask_spark(engine: SparkEngine, folder: Path, ddl: str, values: list[str]) -> list[Any]:
    """Read texts with Spark's CSV reader under its defaults."""
    path = folder / "odd.csv"
    lines = "".join(f"{i}\x1f{value}\n" for i, value in enumerate(values))
    path.write_bytes(lines.encode())
    as_text = {
        "DATE": "CAST(unix_date(v) AS STRING)",
        "TIMESTAMP": "CAST(unix_micros(v) AS STRING)",
        "FLOAT": "hex(CAST(v AS STRING))",
    }.get(ddl, "CAST(v AS STRING)")
    with engine._runtime.operation() as spark:
        spark.conf.set("spark.sql.ansi.enabled", "false")
        frame = (
            spark.read.option("sep", "\x1f")
            .option("quote", "")
            .option("mode", "PERMISSIVE")
            .option("columnNameOfCorruptRecord", "bad")
            .schema(f"i INT, v {ddl}, bad STRING")
            .csv(str(path))
        )
        rows = {row["i"]: row for row in frame.selectExpr("i", f"{as_text} AS v", "bad").collect()}
    return [BAD if rows[i]["bad"] is not None else read_back(ddl, rows[i]["v"]) for i in rows]


def read_back(ddl: str, text: str) -> Any:
    if ddl == "FLOAT":
        number = float(bytes.fromhex(text).decode())
        return comparable(number if math.isnan(number) or math.isinf(number) else as_single(number))
    if ddl == "DOUBLE":
        return comparable(float(text))
    if ddl.startswith("DECIMAL"):
        return Decimal(text)
    if ddl == "BOOLEAN":
        return text == "true"
    return int(text)


def as_single(number: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return found


def is_ours(ddl: str, text: str, theirs: object) -> bool:
    """Tell whether this is one of the texts that Spark takes and we refuse on purpose."""
    if theirs is BAD:
        return False
    if ddl in ("FLOAT", "DOUBLE"):
        return text != text.strip("".join(map(chr, range(0x21))))
    if ddl == "TIMESTAMP":
        time_only = ":" in text[:4] or text.lstrip().startswith("T")
        named_zone = any(letter.isalpha() and letter not in "TZUCGM" for letter in text)
        return time_only or named_zone or "GMT0" in text
    return False


def compare(engine: SparkEngine, folder: Path, ddl: str, values: list[str]) -> None:
    theirs = ask_spark(engine, folder, ddl, values)
    assert len(theirs) == len(values)
    ours = convert(ddl, values)
    differ = [
        (text, our, their)
        for text, our, their in zip(values, ours, theirs, strict=True)
        if our != their and not (our is BAD and is_ours(ddl, text, their))
    ]
    assert differ == []


@pytest.mark.spark
@pytest.mark.parametrize("ddl", TYPES)
def test_odd_texts_mean_what_spark_says(ddl: str, engine: SparkEngine, tmp_path: Path) -> None:
    compare(engine, tmp_path, ddl, list(TYPES[ddl]))


@pytest.mark.spark
@pytest.mark.parametrize("ddl", ["INT", "DOUBLE", "FLOAT", "DECIMAL(20,4)", "DATE", "TIMESTAMP"])
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    # Each try is a Spark job; the list of differences says enough without making it shorter.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_text_means_what_spark_says(
    ddl: str, data: st.DataObject, engine: SparkEngine, tmp_path: Path
) -> None:
    kind = times if ddl in ("DATE", "TIMESTAMP") else numbers
    strategy = st.lists(st.one_of(kind, mess), min_size=60, max_size=60)
    values = [text for text in data.draw(strategy) if text]
    compare(engine, tmp_path, ddl, values)

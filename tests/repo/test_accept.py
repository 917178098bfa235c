"""What an engine proposes and is not taken: refused with the reason, and removed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from odf.data.arrow_fields import arrow_schema_to_fields
from odf.data.slices import SliceWriter
from odf.errors import BadInputError, EngineError, OdfError
from odf.metadata.arrow_schema import encode_schema
from odf.metadata.chain import EMPTY_STATE, ChainState
from odf.metadata.model import SetDataSchema, SetVocab, Timestamp
from odf.repo.accept import accept_slice, unseen_schema

NOW = Timestamp.parse("2026-01-01T12:00:00.123456Z")
MS = pa.timestamp("ms", "UTC")
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("op", pa.int32(), nullable=False),
        pa.field("system_time", MS, nullable=False),
        pa.field("event_time", MS),
        pa.field("city", pa.string()),
        pa.field("people", pa.int64()),
    ]
)
Write = Callable[..., Path]


def recorded(schema: pa.Schema) -> SetDataSchema:
    return SetDataSchema(encode_schema(arrow_schema_to_fields(schema)))


KNOWN = ChainState(schema=recorded(SCHEMA), last_offset=9)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a slice of three rows; what is given is other than it should be."""

    def go(schema: pa.Schema = SCHEMA, **other: list[object]) -> Path:
        values: dict[str, list[object]] = {
            "offset": [10, 11, 12],
            "op": [0, 0, 0],
            "system_time": [NOW.epoch_ms] * 3,
            "event_time": [0, 1, 2],
            "city": ["Oslo", "Rome", None],
            "people": [1, 2, 3],
        } | other
        arrays = [
            pa.array(values.get(name, [None] * 3), schema.field(name).type) for name in schema.names
        ]
        with SliceWriter(tmp_path / "slice", schema) as writer:
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
        return tmp_path / "slice"

    return go


def refused(path: Path, kind: type[OdfError], match: str, state: ChainState = KNOWN) -> OdfError:
    """Offer a file and see that it is refused and removed."""
    with pytest.raises(kind, match=match) as caught:
        accept_slice(path, state, NOW)
    assert caught.value.exit_code == 1
    assert not path.exists()
    return caught.value


def test_what_is_right_is_described(write: Write) -> None:
    path = write(op=[0, 2, 3])
    accepted = accept_slice(path, KNOWN, NOW)
    assert path.exists()
    assert (accepted.data.offset_interval.start, accepted.data.offset_interval.end) == (10, 12)
    assert accepted.data.size == path.stat().st_size
    assert (accepted.staged.path, accepted.staged.hash) == (path, accepted.data.physical_hash)
    assert accepted.schema_event is None
    fresh = accept_slice(path, replace(KNOWN, schema=None), NOW)
    assert fresh.schema_event == recorded(SCHEMA)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"offset": [10, 11, 13]}, "wanted offset 12, got 13"),
        ({"offset": [10, 11, 11]}, "wanted offset 12, got 11"),
        ({"offset": [12, 11, 10]}, "wanted offset 13, got 11"),
        ({"offset": [9, 10, 11]}, "offsets from 9, wanted 10"),
        ({"offset": [11, 12, 13]}, "offsets from 11, wanted 10"),
        ({"offset": [0, 1, 2]}, "offsets from 0, wanted 10"),
        (
            {"system_time": [NOW.epoch_ms, NOW.epoch_ms, NOW.epoch_ms - 1]},
            r"12:00:00\.122Z, wanted",
        ),
        (
            {"system_time": [NOW.epoch_ms, NOW.epoch_ms + 1, NOW.epoch_ms]},
            r"12:00:00\.124Z, wanted",
        ),
        ({"op": [0, 0, 2]}, r"-C at offset 12 has no \+C"),
        ({"op": [3, 0, 0]}, r"\+C at offset 10 has no -C"),
        ({"op": [2, 0, 3]}, r"-C at offset 10 has no \+C"),
        ({"op": [3, 2, 0]}, r"\+C at offset 10 has no -C"),
        ({"op": [0, 4, 0]}, "do not exist in 1 rows: got 4"),
    ],
)
def test_rows_that_break_the_contract(
    other: dict[str, list[object]], said: str, write: Write
) -> None:
    refused(write(**other), EngineError, said)


def test_the_first_rows_begin_at_zero(write: Write) -> None:
    empty = replace(KNOWN, last_offset=None)
    refused(write(), EngineError, "offsets from 10, wanted 0", empty)
    assert accept_slice(write(offset=[0, 1, 2]), empty, NOW).data.offset_interval.end == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"offset,op\n10,0\n"],
    ids=["empty", "magic", "zeros", "csv"],
)
def test_a_file_that_is_no_slice(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "slice"
    path.write_bytes(content)
    refused(path, EngineError, "a file that is no slice")


def test_a_file_that_is_cut(write: Write) -> None:
    path = write()
    path.write_bytes(path.read_bytes()[:-20])
    refused(path, EngineError, "a file that is no slice")


def test_a_file_without_rows(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = tmp_path / "slice"
    pq.write_table(SCHEMA.empty_table(), path)
    refused(path, EngineError, "no rows")


def without(name: str) -> pa.Schema:
    return SCHEMA.remove(SCHEMA.get_field_index(name))


def retyped(name: str, dtype: pa.DataType) -> pa.Schema:
    return SCHEMA.set(SCHEMA.get_field_index(name), pa.field(name, dtype))


@pytest.mark.parametrize("name", ["offset", "op", "system_time", "event_time"])
def test_system_columns_that_are_missing(name: str, write: Write) -> None:
    refused(write(without(name)), EngineError, f"there is no column {name!r}")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (without("people"), r"column people \(Int\(64\)\) is gone$"),
        (retyped("people", pa.string()), r"column people was Int\(64\) and is Utf8$"),
        (retyped("people", pa.int32()), r"column people was Int\(64\) and is Int\(32\)$"),
        (
            without("people").append(pa.field("inhabitants", pa.int64())),
            r"column people \(Int\(64\)\) is gone",
        ),
        (
            SCHEMA.append(pa.field("area", pa.int64(), nullable=False)),
            r"new column area \(Int\(64\)\) is NOT NULL",
        ),
        (
            without("city").append(pa.field("city", pa.string())),
            "in another order: .*people, city; they were .*city, people$",
        ),
    ],
    ids=["removed", "retyped", "narrowed", "renamed", "added-not-null", "moved"],
)
def test_columns_that_do_not_go_on(schema: pa.Schema, said: str, write: Write) -> None:
    values: dict[str, list[object]] = {"area": [1, 2, 3]}
    if schema == retyped("people", pa.string()):
        values["people"] = ["1", "2", "3"]
    error = refused(write(schema, **values), BadInputError, said)
    assert isinstance(error, BadInputError)
    assert error.reason == "schema"


def test_columns_that_are_added(write: Write) -> None:
    wider = SCHEMA.append(pa.field("area", pa.int64()))
    assert accept_slice(write(wider), KNOWN, NOW).schema_event == recorded(wider)


def test_the_names_of_system_columns_are_the_vocabularys(write: Write) -> None:
    other = replace(KNOWN, set_vocab=SetVocab(event_time_column="when"))
    refused(write(), EngineError, "there is no column 'when'", other)


@pytest.mark.parametrize(
    ("encoded", "said"),
    [
        (b"nonsense", "schema that is none"),
        (encode_schema(arrow_schema_to_fields(without("offset"))), "offset"),
        (encode_schema(arrow_schema_to_fields(retyped("op", pa.string()))), "op"),
        (encode_schema(arrow_schema_to_fields(retyped("event_time", pa.string()))), "event_time"),
    ],
    ids=["garbage", "no offset", "text as op", "text as time"],
)
def test_a_schema_without_rows_that_is_not_a_slices(encoded: bytes, said: str) -> None:
    with pytest.raises(EngineError, match=said):
        unseen_schema(encoded, EMPTY_STATE)


def test_a_schema_without_rows() -> None:
    encoded = encode_schema(arrow_schema_to_fields(SCHEMA))
    assert unseen_schema(encoded, EMPTY_STATE) == recorded(SCHEMA)

"""The inspector: facts of good slices, words about bad ones, and errors over hostile files."""

import hashlib
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odf.data import parquet
from odf.data.digest import UnsupportedTypeError, logical_hash
from odf.data.slices import MalformedSliceError, inspect_slice, physical_hash, schema_from_file
from odf.data.types import TIMESTAMP_MS_UTC
from odf.errors import NotFoundError, OdfError
from odf.metadata.model import DEFAULT_VOCAB, DatasetVocabulary, OperationType
from odf.metadata.timestamp import Timestamp
from tests.data import slicing


def inspect_table(tmp_path, columns, vocab=DEFAULT_VOCAB, **options):
    """Write any columns as a foreign writer would, and inspect the file."""
    pq.write_table(pa.table(columns), tmp_path / "slice", **options)
    return inspect_slice(tmp_path / "slice", vocab)


def good(rows=3):
    offset, op, system_time, event_time = slicing.system_columns([0] * rows, 4, None)
    return {"offset": offset, "op": op, "system_time": system_time, "event_time": event_time}


def test_facts_of_a_good_slice(tmp_path):
    rows = [(0, "A", 1), (1, "B", 2), (2, "C", 3), (3, "C", 4)]
    path = slicing.write(tmp_path / "s", rows, start=9, times=[5_000, 9_000, -1, 3])
    info = inspect_slice(path, DEFAULT_VOCAB)
    assert (info.num_records, info.offset_start, info.offset_end) == (4, 9, 12)
    assert info.size == path.stat().st_size
    assert str(info.physical_hash) == "f1620" + hashlib.sha3_256(path.read_bytes()).hexdigest()
    assert info.logical_hash == logical_hash(info.schema, pq.read_table(path).to_batches())
    assert info.max_event_time == Timestamp.parse("1970-01-01T00:00:09Z")
    assert info.ops == dict.fromkeys(OperationType, 1)
    assert (info.problems, info.unpaired) == ((), ())
    assert info.schema == schema_from_file(path)


def test_unsigned_and_date_forms_of_others_are_taken(tmp_path):
    vocab = DatasetVocabulary("o", "p", "s", "day")
    columns = {
        "o": pa.array([0, 1], pa.uint64()),
        "p": pa.array([0, 1], pa.uint8()),
        "s": pa.array([1, 1], TIMESTAMP_MS_UTC),
        "day": pa.array([1, 3], pa.date32()),
    }
    info = inspect_table(tmp_path, columns, vocab)
    assert info.problems == ()
    assert str(info.max_event_time) == "1970-01-04T00:00:00Z"
    assert [str(t) for t in info.schema.types[:2]] == ["uint64", "uint8"]
    assert info.logical_hash == logical_hash(info.schema, pa.table(columns).to_batches())


@pytest.mark.parametrize("compression", ["none", "zstd", "gzip"])
@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_the_logical_hash_does_not_depend_on_the_encoding(tmp_path, compression, version):
    columns = good(100) | {"city": pa.array(["Wien", None, "Graz", ""] * 25)}
    wanted = logical_hash(pa.table(columns).schema, pa.table(columns).to_batches())
    for dictionary in (True, False):
        for rows in (7, 1000):
            info = inspect_table(
                tmp_path, columns, compression=compression, version=version,
                use_dictionary=dictionary, row_group_size=rows,
            )  # fmt: skip
            assert info.logical_hash == wanted
            assert info.problems == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"offset": pa.array([4, 5, 7])}, "wanted offset 6, got 7"),
        ({"offset": pa.array([4, 4, 5])}, "wanted offset 5, got 4"),
        ({"offset": pa.array([6, 5, 4])}, "wanted offset 7, got 5"),
        ({"offset": pa.array([-1, 0, 1])}, "negative offset -1"),
        ({"offset": pa.array([4, None, 6])}, "'offset' is null in 1 rows"),
        ({"offset": pa.array([4, 5, 6], pa.int32())}, "'offset' has the type int32, wanted int64"),
        ({"op": pa.array([0, 4, -2], pa.int32())}, "operations that do not exist in 2 rows"),
        ({"op": pa.array([0, 1, None], pa.int32())}, "'op' is null in 1 rows"),
        ({"op": pa.array(["a", "b", "c"])}, "'op' has the type string"),
        ({"system_time": pa.array([1, 1, None], TIMESTAMP_MS_UTC)}, "'system_time' is null"),
        ({"system_time": pa.array([1] * 3, pa.timestamp("us", "UTC"))}, "'system_time' has"),
        ({"event_time": pa.array([1] * 3, pa.timestamp("ms"))}, "'event_time' has the type"),
        ({"event_time": pa.array([1] * 3, pa.timestamp("ms", "+00:00"))}, "'event_time' has"),
        ({"event_time": pa.array([2**62, 0, 0], TIMESTAMP_MS_UTC)}, "outside years 1 to 9999"),
        ({"at": pa.array([1] * 3, pa.timestamp("ns"))}, "column 'at' has the type timestamp[ns]"),
        ({"OP": pa.array([1] * 3)}, "columns 'op' and 'OP' differ by case only"),
    ],
)  # fmt: skip
def test_breaches_of_the_contract_are_told(tmp_path, change, problem):
    info = inspect_table(tmp_path, good() | change)
    assert len(info.problems) == 1
    assert problem in info.problems[0]


def test_missing_and_misplaced_columns(tmp_path):
    columns = good()
    del columns["event_time"]
    assert inspect_table(tmp_path, columns).problems == ("there is no column 'event_time'",)
    swapped = {name: good()[name] for name in ("op", "offset", "system_time", "event_time")}
    problems = inspect_table(tmp_path, swapped).problems
    assert problems == (
        "column 'offset' is at position 2, wanted 1",
        "column 'op' is at position 1, wanted 2",
    )


def test_two_columns_of_one_name(tmp_path):
    arrays = [*good().values(), pa.array([9, 9, 9])]
    pq.write_table(
        pa.table(arrays, ["offset", "op", "system_time", "event_time", "op"]), tmp_path / "s"
    )
    assert (
        "there are 2 columns 'op', wanted one"
        in inspect_slice(tmp_path / "s", DEFAULT_VOCAB).problems
    )


def test_a_file_without_rows(tmp_path):
    info = inspect_table(tmp_path, good(0))
    assert (info.num_records, info.offset_start, info.offset_end) == (0, None, None)
    assert "no rows" in info.problems[0]


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("ops", "unpaired"),
    [
        ([2, 3, 0, 2, 3], []),
        ([2, 0], ["-C at offset 4 has no +C directly after it"]),
        ([0, 3], ["+C at offset 5 has no -C directly before it"]),
        ([3], ["+C at offset 4 has no -C directly before it"]),
        ([0, 2], ["-C at offset 5 has no +C directly after it"]),
        ([2, 2, 3], ["-C at offset 4 has no +C directly after it"]),
        ([2, 3, 3], ["+C at offset 6 has no -C directly before it"]),
        ([3, 2], ["+C at offset 4 has no -C directly before it", "-C at offset 5 has no +C"]),
        ([3] * 9, [*(f"+C at offset {n} has" for n in range(4, 9)), "and 4 more"]),
    ],
)
def test_halves_of_corrections_must_meet(tmp_path, monkeypatch, ops, unpaired, batch_rows):
    monkeypatch.setattr(parquet, "_MAX_BATCH_ROWS", batch_rows)
    info = inspect_table(tmp_path, good(len(ops)) | {"op": pa.array(ops, pa.int32())})
    assert info.problems == ()
    assert len(info.unpaired) == len(unpaired)
    for got, wanted in zip(info.unpaired, unpaired, strict=True):
        assert got.startswith(wanted)


def test_breaks_are_found_across_batches_and_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_MAX_BATCH_ROWS", 3)
    columns = good(20) | {"offset": pa.array([*range(10), *range(11, 21)])}
    info = inspect_table(tmp_path, columns, row_group_size=5)
    assert info.problems == ("column 'offset' does not count up by one: wanted offset 10, got 11",)
    assert (info.offset_start, info.offset_end) == (0, 20)


def test_batches_stay_small_where_a_dictionary_hides_long_texts(tmp_path):
    rows = 400
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 1] * (rows // 2)), ["x" * 1_000_000, "y"])
    path = tmp_path / "s"
    pq.write_table(pa.table(good(rows) | {"text": texts.cast(pa.string())}), path)
    assert path.stat().st_size < 2_000_000
    with parquet.open_parquet(path) as file:
        sizes = [batch.nbytes for batch in parquet.batches(path, file)]
    assert max(sizes) < 3 * parquet._BATCH_BYTES
    assert sum(sizes) > 200_000_000


def test_types_without_a_hash_are_an_error_that_names_the_column(tmp_path):
    columns = good() | {"m": pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int8()))}
    with pytest.raises(UnsupportedTypeError, match="column 'm'"):
        inspect_table(tmp_path, columns)


def test_a_missing_file(tmp_path):
    for read in (schema_from_file, physical_hash, lambda p: inspect_slice(p, DEFAULT_VOCAB)):
        with pytest.raises(NotFoundError, match="no slice file nothing"):
            read(tmp_path / "nothing")
        with pytest.raises(NotFoundError):
            read(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + b"\xff" * 8 + b"PAR1", b"offset,op\n0,0\n", bytes(1000)],
)
def test_files_that_are_not_parquet(tmp_path, content):
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(MalformedSliceError, match="slice file s cannot be read"):
        inspect_slice(tmp_path / "s", DEFAULT_VOCAB)
    with pytest.raises(MalformedSliceError):
        schema_from_file(tmp_path / "s")


def test_text_that_is_not_unicode(tmp_path):
    broken = pa.array([b"\xff\xfe"] * 3).view(pa.string())
    with pytest.raises(MalformedSliceError, match="UTF8"):
        inspect_table(tmp_path, good() | {"text": broken})


def test_deeply_nested_schemas_are_refused(tmp_path):
    column = pa.array([1, 2, 3])
    for _ in range(40):
        column = pa.StructArray.from_arrays([column], ["x"])
    with pytest.raises(OdfError):
        inspect_table(tmp_path, good() | {"deep": column})


def test_damaged_files_never_raise_anything_else_nor_pass_unseen(tmp_path):
    rows = [(op, city, n) for n, (op, city) in enumerate([(0, "A"), (2, "B"), (3, None)] * 8)]
    path = slicing.write(tmp_path / "good", rows)
    raw, whole = path.read_bytes(), inspect_slice(path, DEFAULT_VOCAB)
    chance = random.Random(7)
    outcomes = set()
    for _ in range(1_500):
        damaged = damage(chance, raw)
        if damaged == raw:
            continue
        (tmp_path / "bad").write_bytes(damaged)
        try:
            info = inspect_slice(tmp_path / "bad", DEFAULT_VOCAB)
        except OdfError as error:
            outcomes.add(type(error))
        else:
            assert info.physical_hash != whole.physical_hash
            outcomes.add(info.logical_hash == whole.logical_hash)
    assert {MalformedSliceError, True, False} <= outcomes


def damage(chance, raw):
    data = bytearray(raw)
    match chance.randrange(3):
        case 0:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case 1:
            for _ in range(chance.randrange(1, 6)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        case 2:
            del data[chance.randrange(len(data)) :]
            data += raw[-chance.randrange(1, len(raw)) :]
    return bytes(data)

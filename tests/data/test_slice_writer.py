"""The writer of slices: schema, settings of the file, what is refused, what other readers see."""

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf.data.digest import logical_hash
from odf.data.slices import (
    SliceWriter,
    compare_schemas,
    inspect_slice,
    physical_hash,
    schema_from_file,
    slice_schema,
)
from odf.data.types import TIMESTAMP_MS_UTC, arrow_schema, conform, parse_ddl
from odf.errors import BadInputError, ConflictError, TransportError
from odf.metadata.model import DEFAULT_VOCAB, DatasetVocabulary
from odf.metadata.multiformats import Multihash
from tests.data import slicing, tables

EVERY_TYPE = """b BOOL, i1 TINYINT, i2 SMALLINT, i4 INT NOT NULL, i8 BIGINT, u1 TINYINT UNSIGNED,
    u2 SMALLINT UNSIGNED, u4 INT UNSIGNED, u8 BIGINT UNSIGNED, f FLOAT, d DOUBLE,
    dec DECIMAL(20, 3), s TEXT, bin BYTEA, day DATE, t TIME, ts TIMESTAMP, id UUID,
    l ARRAY<TEXT>, st STRUCT<x INT, "y z" ARRAY<INT>>"""


def test_columns_of_a_slice_are_in_order_and_of_the_types_that_everyone_writes():
    data = arrow_schema(
        parse_ddl(["a TIMESTAMP NOT NULL", "event_time TIMESTAMP", "op INT", "b TEXT"])
    )
    schema = slice_schema(data, DEFAULT_VOCAB)
    assert [(f.name, str(f.type), f.nullable) for f in schema] == [
        ("offset", "int64", False),
        ("op", "int32", False),
        ("system_time", "timestamp[ms, tz=UTC]", False),
        ("event_time", "timestamp[ms, tz=UTC]", True),
        ("a", "timestamp[ms, tz=UTC]", False),
        ("b", "string", True),
    ]


def test_event_time_takes_its_type_from_the_data_or_the_dataset():
    vocab = DatasetVocabulary(event_time_column="day")
    given_date = slice_schema(pa.schema([("day", pa.date64())]), vocab)
    assert given_date.field("day").type == pa.date32()
    assert slice_schema(pa.schema([]), vocab, pa.date32()).field("day").type == pa.date32()
    assert slice_schema(pa.schema([]), vocab).field("day").type == TIMESTAMP_MS_UTC
    required = pa.schema([pa.field("day", pa.timestamp("s"), nullable=False)])
    assert not slice_schema(required, vocab).field("day").nullable


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([("event_time", pa.string())], "wanted a timestamp or a date"),
        ([("Offset", pa.int64())], "differ by case only"),
        ([("a", pa.int8()), ("A", pa.int8())], "differ by case only"),
        ([("a", pa.int8()), ("a", pa.int8())], "two columns 'a'"),
        ([("m", pa.map_(pa.string(), pa.int8()))], "no column type"),
        ([("l", pa.list_(pa.struct([("x", pa.int8())])))], "column 'l': no logical hash"),
    ],
)
def test_columns_that_no_slice_can_have(fields, message):
    with pytest.raises(BadInputError, match=message):
        slice_schema(pa.schema(fields), DEFAULT_VOCAB)


@pytest.fixture(scope="module")
def every_type(tmp_path_factory):
    """A slice with a column of every type, and its schema."""
    schema = slice_schema(arrow_schema(parse_ddl([EVERY_TYPE])), DEFAULT_VOCAB)
    path = tmp_path_factory.mktemp("slices") / "every"
    rows = 3
    columns = slicing.system_columns([0] * rows, 0, None)
    for field in list(schema)[4:]:
        columns.append(some_values(field))
    with SliceWriter(path, schema) as writer:
        writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
    return path, schema


def some_values(field):
    if field.name == "id":
        return pa.array([b"0123456789abcdef", None, bytes(16)], pa.binary(16)).cast(field.type)
    if field.name == "st":
        return pa.array([{"x": 1, "y z": [1, None]}, None, {"x": None, "y z": None}], field.type)
    if field.name == "l":
        return pa.array([["a", None], None, []], field.type)
    if field.name == "b":
        return pa.array([True, None, False])
    if field.name == "bin":
        return pa.array([b"\0", None, b""], field.type)
    numbers = [1, None if field.nullable else 5, 3]
    ticks = pa.int64() if field.name in ("t", "ts") else pa.int32()
    return pa.array(numbers, ticks).cast(field.type)


def test_settings_of_the_file(every_type):
    path, _ = every_type
    file = pq.ParquetFile(path)
    assert file.metadata.format_version == "1.0"
    assert list(file.metadata.metadata) == [b"ARROW:schema"]
    chunks = {
        c.path_in_schema: c
        for c in map(file.metadata.row_group(0).column, range(file.metadata.num_columns))
    }
    assert {c.compression for c in chunks.values()} == {"SNAPPY"}
    plain = {name for name, chunk in chunks.items() if not chunk.has_dictionary_page}
    assert plain == {"offset", "b"}
    leaves = {file.schema.column(i).path: file.schema.column(i) for i in range(len(file.schema))}
    assert [str(leaves[n].logical_type) for n in ("id", "s", "day", "offset")] == [
        "UUID",
        "String",
        "Date",
        "None",
    ]
    assert leaves["id"].length == 16
    for name in ("system_time", "event_time", "ts"):
        text = str(leaves[name].logical_type)
        assert "isAdjustedToUTC=true" in text
        assert "milliseconds" in text
    assert [leaves[n].max_definition_level for n in ("offset", "op", "system_time", "i4")] == [
        0
    ] * 4
    assert leaves["event_time"].max_definition_level == 1


def test_every_type_comes_back_with_its_own_type(every_type):
    path, schema = every_type
    got = schema_from_file(path)
    assert compare_schemas(schema, got) == ()
    assert [f.nullable for f in got] == [f.nullable for f in schema]
    assert str(got.field("system_time").type.tz) == "UTC"
    info = inspect_slice(path, DEFAULT_VOCAB)
    assert (info.problems, info.num_records) == ((), 3)
    assert info.logical_hash == logical_hash(schema, pq.read_table(path).to_batches())


def test_duckdb_reads_the_same_values(every_type):
    path, _ = every_type
    table = pq.read_table(path)
    connection = duckdb.connect()
    times = ("system_time", "event_time", "ts")
    millis = ", ".join(f"epoch_ms({name}) as {name}" for name in times)
    relation = connection.execute(
        f"select * replace ({millis}) from read_parquet('{path}') order by \"offset\""
    )
    names = [column[0] for column in relation.description]
    rows = relation.fetchall()
    assert names == table.column_names
    types = dict(
        connection.execute(
            f"select column_name, column_type from (describe select * from read_parquet('{path}'))"
        ).fetchall()
    )
    assert types["id"] == "UUID"
    assert types["event_time"] == "TIMESTAMP WITH TIME ZONE"
    for index, name in enumerate(names):
        column = table.column(name)
        ours = (column.cast(pa.int64()) if name in times else column).to_pylist()
        assert [row[index] for row in rows] == ours, name


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_what_is_written_is_what_is_inspected(tmp_path_factory, data):
    table = data.draw(tables.tables(max_columns=3).filter(lambda t: t.num_rows > 0))
    schema = slice_schema(table.schema, DEFAULT_VOCAB)
    columns = slicing.system_columns([0] * table.num_rows, 5, None)
    columns += [
        conform(c.combine_chunks(), f.type)
        for c, f in zip(table.columns, list(schema)[4:], strict=True)
    ]
    whole = pa.Table.from_batches([pa.RecordBatch.from_arrays(columns, schema=schema)])
    path = tmp_path_factory.mktemp("round") / "slice"
    with SliceWriter(path, schema) as writer:
        for part in data.draw(tables.split(whole)):
            writer.write(part)
    info = inspect_slice(path, DEFAULT_VOCAB)
    assert info.problems == info.unpaired == ()
    assert (info.offset_start, info.num_records) == (5, table.num_rows)
    assert compare_schemas(schema, info.schema) == ()
    assert info.logical_hash == logical_hash(schema, whole.to_batches())
    assert info.physical_hash == Multihash.sha3_256(path.read_bytes())
    assert (info.physical_hash, info.size) == physical_hash(path)


def test_row_groups_do_not_follow_batches(tmp_path, monkeypatch):
    from odf.data import slices

    monkeypatch.setattr(slices, "_ROW_GROUP_ROWS", 5)
    rows = slicing.batch([(0, f"c{i}", i) for i in range(12)])
    hashes = set()
    for size in (1, 3, 12):
        with SliceWriter(tmp_path / str(size), rows.schema) as writer:
            for start in range(0, 12, size):
                writer.write(rows.slice(start, size))
        meta = pq.ParquetFile(tmp_path / str(size)).metadata
        assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [5, 5, 2]
        hashes.add(physical_hash(tmp_path / str(size)))
    assert len(hashes) == 1


ENOUGH = 8192  # rows that tell how a column is to be encoded


def with_dictionary(path):
    """Return the paths of the columns that have a dictionary in all row groups."""
    meta = pq.ParquetFile(path).metadata
    groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
    return {
        group.column(i).path_in_schema
        for i in range(meta.num_columns)
        for group in groups
        if all(other.column(i).has_dictionary_page for other in groups)
    }


def repeating(path, rows, distinct):
    """Write a slice with so many different values in its columns of data."""
    made = slicing.batch([(0, f"c{i % distinct}", i % distinct) for i in range(rows)])
    with SliceWriter(path, made.schema) as writer:
        writer.write(made)
    return with_dictionary(path), made


@pytest.mark.parametrize(
    ("rows", "distinct", "wanted"),
    [
        (ENOUGH, ENOUGH, set()),
        (ENOUGH, ENOUGH // 2 + 1, set()),
        (ENOUGH, ENOUGH // 2, {"city", "population"}),
        (ENOUGH, 1, {"city", "population"}),
        (ENOUGH - 1, ENOUGH - 1, {"city", "population"}),
    ],
)
def test_only_values_that_repeat_are_written_as_dictionaries(tmp_path, rows, distinct, wanted):
    found, made = repeating(tmp_path / "slice", rows, distinct)
    assert found == {"op", "system_time", "event_time"} | wanted
    assert pq.read_table(tmp_path / "slice").equals(pa.Table.from_batches([made]))
    info = inspect_slice(tmp_path / "slice", DEFAULT_VOCAB)
    assert info.problems == ()
    assert info.logical_hash == logical_hash(made.schema, [made])


def test_the_first_rows_decide_for_all_row_groups(tmp_path, monkeypatch):
    from odf.data import slices

    monkeypatch.setattr(slices, "_ROW_GROUP_ROWS", ENOUGH)
    first = [(0, f"c{i}", 1) for i in range(ENOUGH)]
    made = slicing.batch([*first, *[(0, "c", i) for i in range(ENOUGH)]])
    with SliceWriter(tmp_path / "slice", made.schema) as writer:
        writer.write(made)
    assert with_dictionary(tmp_path / "slice") & {"city", "population"} == {"population"}
    assert pq.read_table(tmp_path / "slice").equals(pa.Table.from_batches([made]))


def test_columns_of_every_type_tell_how_they_are_encoded(every_type, tmp_path):
    few = pq.read_table(every_type[0], schema=every_type[1])
    rows = pa.concat_tables([few] * (ENOUGH // len(few) + 1))
    offsets = pa.arange(0, len(rows))
    rows = rows.set_column(0, every_type[1].field(0), offsets).combine_chunks()
    with SliceWriter(tmp_path / "slice", every_type[1]) as writer:
        writer.write(rows)
    assert with_dictionary(tmp_path / "slice") == with_dictionary(every_type[0])
    assert pq.read_table(tmp_path / "slice", schema=every_type[1]).equals(rows)


def test_without_rows_there_is_no_file(tmp_path):
    rows = slicing.batch([])
    with SliceWriter(tmp_path / "none", rows.schema) as writer:
        writer.write(rows)
    assert (writer.num_records, list(tmp_path.iterdir())) == (0, [])


def test_a_failure_leaves_no_file(tmp_path, monkeypatch):
    from odf.data import slices

    monkeypatch.setattr(slices, "_ROW_GROUP_ROWS", 1)
    rows = slicing.batch([(0, "a", 1), (0, "b", 2)])
    sizes = []

    def write_and_fail():
        with SliceWriter(tmp_path / "x", rows.schema) as writer:
            writer.write(rows)
            sizes.append((tmp_path / "x").stat().st_size)
            writer.write(rows.select(["offset"]))

    with pytest.raises(BadInputError):
        write_and_fail()
    assert sizes
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_left_alone(tmp_path):
    path = slicing.write(tmp_path / "x", [(0, "a", 1)])
    before = path.read_bytes()
    with pytest.raises(ConflictError, match="exists already"):
        slicing.write(path, [(0, "b", 1)])
    assert path.read_bytes() == before


def test_a_disk_that_does_not_take_it_is_an_error_of_ours(tmp_path):
    with pytest.raises(TransportError, match="cannot be written"):
        slicing.write(tmp_path / "no such folder" / "x", [(0, "a", 1)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.rename_columns(["offset", "op", "system_time", "event_time", "town", "p"]),
            "wanted",
        ),
        (
            lambda t: t.set_column(5, "population", pa.array([1.5])),
            "column 'population' has the type",
        ),
        (lambda t: t.set_column(1, "op", pa.array([None], pa.int32())), "NOT NULL and has 1 null"),
        (
            lambda t: t.set_column(3, "event_time", pa.array([1], pa.timestamp("us", "UTC"))),
            "'event_time'",
        ),
    ],
)
def test_rows_of_another_schema_are_refused(tmp_path, change, message):
    good = slicing.batch([(0, "a", 1)])
    with pytest.raises(BadInputError, match=message), SliceWriter(tmp_path / "x", good.schema) as w:
        w.write(change(pa.Table.from_batches([good])))


def test_types_that_a_file_would_change_are_refused(tmp_path):
    for dtype in (pa.uint32(), pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.large_string()):
        with pytest.raises(BadInputError, match="in a slice that is"):
            SliceWriter(tmp_path / "x", pa.schema([("a", dtype)]))


def test_large_and_view_forms_are_taken(tmp_path):
    good = slicing.batch([(0, "a", 1)])
    for index, dtype in enumerate((pa.large_string(), pa.string_view())):
        table = pa.Table.from_batches([good])
        table = table.set_column(4, "city", table["city"].cast(dtype))
        with SliceWriter(tmp_path / str(index), good.schema) as writer:
            writer.write(table)
        assert schema_from_file(tmp_path / str(index)) == good.schema


RECORDED = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("city", pa.string()),
        pa.field("tags", pa.list_(pa.string())),
    ]
)


@pytest.mark.parametrize(
    ("got", "differences"),
    [
        (RECORDED, []),
        (RECORDED.set(0, pa.field("offset", pa.int64())), []),
        (RECORDED.set(1, pa.field("city", pa.large_string())), []),
        (RECORDED.set(1, pa.field("city", pa.dictionary(pa.int8(), pa.string()))), []),
        (RECORDED.set(2, pa.field("tags", pa.list_(pa.field("element", pa.string_view())))), []),
        (RECORDED.with_metadata({"a": "b"}), []),
        (RECORDED.append(pa.field("new", pa.int8())), []),
        (
            RECORDED.append(pa.field("new", pa.int8(), nullable=False)),
            ["new column new (Int(8)) is NOT NULL, and older rows lack it"],
        ),
        (
            RECORDED.append(pa.field("City", pa.string())),
            ["column City differs from city by case only"],
        ),
        (RECORDED.remove(1), ["column city (Utf8) is gone"]),
        (RECORDED.set(1, pa.field("town", pa.string())), ["city (Utf8) is gone"]),
        (
            RECORDED.set(0, pa.field("offset", pa.uint64())),
            ["column offset was Int(64) and is Int(64, unsigned)"],
        ),
        (
            RECORDED.set(2, pa.field("tags", pa.list_(pa.int8()))),
            ["column tags.item was Utf8 and is Int(8)"],
        ),
        (RECORDED.append(pa.field("city", pa.string())), ["there are 2 columns city"]),
        (pa.schema([RECORDED.field(i) for i in (1, 0, 2)]), ["in another order"]),
        (RECORDED.insert(1, pa.field("new", pa.int8())), ["in another order"]),
    ],
)
def test_differences_of_schemas_in_words(got, differences):
    words = compare_schemas(RECORDED, got)
    assert len(words) == len(differences)
    for word, wanted in zip(words, differences, strict=True):
        assert wanted in word

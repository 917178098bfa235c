"""Reading a dataset's rows back: the newest ones, and the state they add up to."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odf.data.projection import current_state, read_tail
from odf.data.types import TIMESTAMP_MS_UTC
from odf.errors import BadInputError, IntegrityError, NotFoundError
from odf.metadata.model import DEFAULT_VOCAB, DatasetVocabulary
from odf.metadata.timestamp import Timestamp
from tests.data import slicing


@pytest.fixture
def history(tmp_path):
    """Three slices: A, B; then A corrected, C; then B retracted."""
    first = slicing.write(
        tmp_path / "1", [(0, "A", 1), (0, "B", 2)], 0, times=[10, 20], system_time=1
    )
    second = slicing.write(
        tmp_path / "2",
        [(2, "A", 1), (3, "A", 5), (0, "C", 3)],
        2,
        times=[10, 30, 40],
        system_time=2,
    )
    third = slicing.write(tmp_path / "3", [(1, "B", 2)], 5, times=[20], system_time=3)
    return [first, second, third]


def cities(table):
    return [(r["city"], r["population"]) for r in table.select(["city", "population"]).to_pylist()]


@pytest.mark.parametrize("n", range(8))
def test_the_tail_is_the_last_rows_in_order(history, n):
    offsets = read_tail(history, n)["offset"].to_pylist()
    assert offsets == list(range(6))[6 - min(n, 6) :]


def test_the_tail_reads_only_what_it_needs(history):
    history[0].unlink()
    assert read_tail(history, 4).num_rows == 4
    with pytest.raises(NotFoundError):
        read_tail(history, 5)


def test_the_tail_of_several_row_groups(tmp_path, monkeypatch):
    from odf.data import slices

    monkeypatch.setattr(slices, "_ROW_GROUP_ROWS", 3)
    path = slicing.write(tmp_path / "s", [(0, str(i), i) for i in range(10)])
    assert read_tail([path], 5)["population"].to_pylist() == [5, 6, 7, 8, 9]


def test_columns_that_were_added_later_are_null_before(tmp_path):
    old = slicing.write(tmp_path / "1", [(0, "A", 1)])
    wider = pa.schema([*slicing.CITIES, ("mayor", pa.string())])
    new = slicing.write(tmp_path / "2", [(0, "B", 2, "Eva")], 1, data=wider)
    table = read_tail([old, new], 9)
    assert table.column_names[-1] == "mayor"
    assert table["mayor"].to_pylist() == [None, "Eva"]
    assert current_state([old, new], ["city"], DEFAULT_VOCAB)["mayor"].to_pylist() == [None, "Eva"]


def test_slices_that_do_not_fit_together(tmp_path):
    old = slicing.write(tmp_path / "1", [(0, "A", 1)])
    other = pa.schema([("city", pa.string()), ("population", pa.list_(pa.int8()))])
    new = slicing.write(tmp_path / "2", [(0, "B", [2])], 1, data=other)
    with pytest.raises(IntegrityError, match="do not fit together"):
        read_tail([old, new], 2)


def test_nothing_at_all():
    assert read_tail([], 5).num_rows == 0
    assert current_state([], ["city"], DEFAULT_VOCAB).num_rows == 0


def test_damaged_files_are_an_error_of_ours(tmp_path):
    (tmp_path / "bad").write_bytes(b"PAR1 no PAR1")
    with pytest.raises(IntegrityError):
        read_tail([tmp_path / "bad"], 1)
    with pytest.raises(IntegrityError):
        current_state([tmp_path / "bad"], ["city"], DEFAULT_VOCAB)


def test_state_is_what_retractions_and_corrections_leave(history):
    assert cities(current_state(history, ["city"], DEFAULT_VOCAB)) == [("A", 5), ("C", 3)]
    assert cities(current_state(history[:1], ["city"], DEFAULT_VOCAB)) == [("A", 1), ("B", 2)]


def test_state_as_at_a_system_time(history):
    def at(millis):
        as_at = Timestamp.from_epoch_ms(millis)
        return cities(current_state(history, ["city"], DEFAULT_VOCAB, as_at=as_at))

    assert at(0) == []
    assert at(1) == [("A", 1), ("B", 2)]
    assert at(2) == [("B", 2), ("A", 5), ("C", 3)]
    assert at(3) == [("A", 5), ("C", 3)]


def test_state_as_of_an_event_time(history):
    as_of = Timestamp.from_epoch_ms(30)
    got = current_state(history[:2], ["city"], DEFAULT_VOCAB, as_of=as_of)
    assert cities(got) == [("B", 2), ("A", 5)]


@pytest.mark.parametrize("key", ["nobody", "population_list"])
def test_keys_that_are_none(tmp_path, key):
    data = pa.schema([("city", pa.string()), ("population_list", pa.list_(pa.int8()))])
    path = slicing.write(tmp_path / "1", [(0, "A", [1])], data=data)
    with pytest.raises(BadInputError):
        current_state([path], [key], DEFAULT_VOCAB)


def test_uuid_and_null_keys(tmp_path):
    data = pa.schema([("id", pa.uuid()), ("n", pa.int8())])
    rows = [(0, bytes(16), 1), (0, None, 2), (1, bytes(16), 1)]
    path = slicing.write(tmp_path / "1", rows, data=data)
    assert current_state([path], ["id"], DEFAULT_VOCAB)["n"].to_pylist() == [2]


def test_reference_vectors(vectors, tmp_path):
    vocab = DatasetVocabulary(event_time_column="year")
    cases = [c for c in vectors("merge_cases")["cases"] if c.get("function") == "project_state"]
    assert cases
    for case in cases:
        paths = []
        for start, row in enumerate(case["history"]):
            op, year, *values = row
            schema = slicing.slice_schema(slicing.CITIES, vocab)
            columns = slicing.system_columns([op], start, [year])
            columns += [pa.array([v], f.type) for v, f in zip(values, slicing.CITIES, strict=True)]
            paths.append(tmp_path / f"{case['id']}-{start}")
            with slicing.SliceWriter(paths[-1], schema) as writer:
                writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        state = current_state(paths, case["primaryKey"], vocab)
        got = []
        if paths:
            years = state["year"].cast(pa.int64())
            state = state.set_column(state.column_names.index("year"), "year", years)
            got = [list(r.values()) for r in state.select(case["output_columns"]).to_pylist()]
        assert sorted(got) == sorted(case["expected"]), case["id"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), max_size=20))
def test_state_agrees_with_applying_the_log_row_by_row(tmp_path_factory, steps):
    state, rows = {}, []
    for key, value, remove in steps:
        if remove and key in state:
            rows.append((1, key, state.pop(key)))
        elif key in state:
            rows += [(2, key, state[key]), (3, key, value)]
            state[key] = value
        elif not remove:
            rows.append((0, key, value))
            state[key] = value
    folder = tmp_path_factory.mktemp("log")
    cut = len(rows) // 2
    paths = [
        slicing.write(folder / str(start), part, start)
        for start, part in ((0, rows[:cut]), (cut, rows[cut:]))
        if part
    ]
    got = current_state(paths, ["city"], DEFAULT_VOCAB)
    assert dict(cities(got) if paths else []) == state


def test_dates_as_event_times(tmp_path):
    schema = slicing.slice_schema(slicing.CITIES, DEFAULT_VOCAB, pa.date32())
    columns = [
        *slicing.system_columns([0, 0], 0, None)[:3],
        pa.array([1, 2], pa.date32()),
        pa.array(["A", "B"]),
        pa.array([1, 2]),
    ]
    assert columns[2].type == TIMESTAMP_MS_UTC
    with slicing.SliceWriter(tmp_path / "s", schema) as writer:
        writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
    as_of = Timestamp.parse("1970-01-02T23:00:00Z")
    assert cities(current_state([tmp_path / "s"], ["city"], DEFAULT_VOCAB, as_of=as_of)) == [
        ("A", 1)
    ]

"""From rows to slices: columns, types, offsets, pairs."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.data.slices import inspect_slice
from odf.engines.host.engine import HIDDEN_BRANCH, HIDDEN_OFFSET, Rows
from odf.engines.host.finish import FinishedSlice, SliceOrder, _settle_pairs, finish
from odf.errors import BadInputError
from odf.metadata.model import DEFAULT_VOCAB, DatasetVocabulary, Timestamp

TIME = Timestamp.parse("2024-01-31T12:00:00.000999999Z")
UTC_MS = pa.timestamp("ms", "UTC")


def run(
    table: pa.Table,
    path: Path,
    *,
    vocab: DatasetVocabulary = DEFAULT_VOCAB,
    next_offset: int = 0,
    from_query: bool = True,
    chunk: int | None = None,
    warnings: list[str] | None = None,
) -> FinishedSlice:
    rows = Rows(table.schema, iter(table.to_batches(max_chunksize=chunk)))
    order = SliceOrder(vocab, next_offset, TIME, path, from_query)
    return finish(rows, order, None if warnings is None else warnings.append)


def times(values: Sequence[int | None], unit: str = "ms", zone: str | None = "UTC") -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone))


def test_columns_types_and_values(tmp_path: Path) -> None:
    table = pa.table(
        {
            "v": pa.array(["a", "b"], pa.large_string()),
            "event_time": times([-1, 1_999_999], "ns"),
            "op": pa.array([0, 1], pa.int64()),
            "t": times([-1, 1500], "us", None),
            HIDDEN_OFFSET: [1, 2],
        }
    )
    warnings: list[str] = []
    finished = run(table, tmp_path / "slice", next_offset=40, warnings=warnings)

    written = pq.read_table(tmp_path / "slice")
    assert written.schema.names == ["offset", "op", "system_time", "event_time", "v", "t"]
    assert written.schema.types == [pa.int64(), pa.int32(), UTC_MS, UTC_MS, pa.string(), UTC_MS]
    assert written.schema.equals(finished.schema)
    assert written["offset"].to_pylist() == [40, 41]
    # Cut towards the past, before 1970 too.
    assert written["event_time"].cast(pa.int64()).to_pylist() == [-1, 1]
    assert written["t"].cast(pa.int64()).to_pylist() == [-1, 1]
    assert set(written["system_time"].cast(pa.int64()).to_pylist()) == {TIME.epoch_ms}
    assert (finished.counts.append, finished.counts.retract) == (1, 1)
    assert len(warnings) == 2
    assert inspect_slice(tmp_path / "slice", DEFAULT_VOCAB).problems == ()


def test_the_vocabulary_names_the_system_columns(tmp_path: Path) -> None:
    vocab = DatasetVocabulary("o", "p", "s", "e")
    table = pa.table({"offset": [7], "op": ["text"], "e": pa.array([0], pa.date32())})
    run(table, tmp_path / "slice", vocab=vocab)
    written = pq.read_table(tmp_path / "slice")
    assert written.schema.names == ["o", "p", "s", "e", "offset", "op"]
    assert written["op"].to_pylist() == ["text"]
    assert written.schema.field("e").type == pa.date32()


def test_no_rows_give_a_schema_but_no_file(tmp_path: Path) -> None:
    table = pa.table({"event_time": times([]), "v": pa.array([], pa.int32())})
    finished = run(table, tmp_path / "slice")
    assert finished.schema.names == ["offset", "op", "system_time", "event_time", "v"]
    assert finished.counts.total == 0
    assert not (tmp_path / "slice").exists()


def test_nullability_is_declared_by_sources_and_not_guessed_from_queries(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("event_time", UTC_MS, nullable=False), pa.field("v", pa.int32(), nullable=False)]
    )
    table = pa.table([times([0]), pa.array([1], pa.int32())], schema=schema)
    source = run(table, tmp_path / "a", from_query=False).schema
    query = run(table, tmp_path / "b", from_query=True).schema
    assert [source.field(name).nullable for name in ("event_time", "v")] == [False, False]
    assert [query.field(name).nullable for name in ("event_time", "v")] == [True, True]
    assert not any(query.field(name).nullable for name in ("offset", "op", "system_time"))


@pytest.mark.parametrize(
    ("columns", "message", "reason"),
    [
        ({"v": [1]}, "no event time column 'event_time'; it has 'v'", "event_time"),
        ({"event_time": times([0]), "offset": [1]}, "'offset' conflicts", "system_column"),
        ({"event_time": times([0]), "system_time": [1]}, "'system_time' conf", "system_column"),
        ({"event_time": times([0]), "op": ["x"]}, "'op' has the type string", "system_column"),
        ({"event_time": times([0]), "op": [4]}, "'op' holds 4 to 4", "system_column"),
        ({"event_time": times([0]), "op": [-1]}, "'op' holds -1 to -1", "system_column"),
        (
            {"event_time": times([0]), "op": pa.array([None], pa.int32())},
            "'op' holds null",
            "system_column",
        ),
        ({"event_time": times([0]), "v": [1], "V": [1]}, "'v' and 'V'", None),
        ({"event_time": times([0]), "Offset": [1]}, "'offset' and 'Offset'", None),
        ({"event_time": ["2024"]}, "'event_time' has the type string", None),
    ],
)
def test_what_cannot_be_a_slice(
    columns: dict[str, object], message: str, reason: str | None, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match=message) as caught:
        run(pa.table(columns), tmp_path / "slice")
    if reason is not None:
        assert caught.value.reason == reason
    assert not (tmp_path / "slice").exists()


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    for name in ("op", "event_time", "v"):
        columns = {"event_time": times([0]), "op": pa.array([0], pa.int32()), "v": pa.array([1])}
        names = [*columns, name]
        table = pa.table([*columns.values(), columns[name]], names=names)
        with pytest.raises(BadInputError, match=f"two columns '{name}'"):
            run(table, tmp_path / "slice")


def test_an_error_in_the_middle_leaves_no_file(tmp_path: Path) -> None:
    table = pa.table({"event_time": times([0]), "v": [1]})

    def batches() -> object:
        yield from table.to_batches()
        raise RuntimeError("the engine broke")

    rows = Rows(table.schema, batches())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError):
        finish(rows, SliceOrder(DEFAULT_VOCAB, 0, TIME, tmp_path / "slice", True))
    assert list(tmp_path.iterdir()) == []


A, R, F, T = range(4)


@pytest.mark.parametrize(
    ("ops", "origin", "expected"),
    [
        ([F, T], [4, 5], [F, T]),
        ([F], [4], [R]),
        ([T], [5], [A]),
        ([T, F], [5, 6], [A, R]),
        # A filter left the halves of two different corrections side by side.
        ([F, T], [4, 7], [R, A]),
        # One input row became two.
        ([F, F, T, T], [4, 4, 5, 5], [R, F, T, A]),
        ([F, A, T], [4, 5, 6], [R, A, A]),
        ([F, T], [None, None], [R, A]),
    ],
)
def test_halves_without_their_other_half(
    ops: list[int], origin: list[int], expected: list[int], tmp_path: Path
) -> None:
    table = pa.table(
        {
            "event_time": times([0] * len(ops)),
            "op": pa.array(ops, pa.int32()),
            HIDDEN_OFFSET: pa.array(origin, pa.int64()),
            HIDDEN_BRANCH: pa.array([0] * len(ops), pa.int32()),
        }
    )
    run(table, tmp_path / "slice")
    assert pq.read_table(tmp_path / "slice")["op"].to_pylist() == expected


def test_halves_of_different_branches_are_no_pair(tmp_path: Path) -> None:
    table = pa.table(
        {
            "event_time": times([0, 0]),
            "op": pa.array([F, T], pa.int8()),
            HIDDEN_OFFSET: [4, 5],
            HIDDEN_BRANCH: pa.array([0, 1], pa.int32()),
        }
    )
    run(table, tmp_path / "slice")
    assert pq.read_table(tmp_path / "slice")["op"].to_pylist() == [R, A]


@given(
    st.lists(st.tuples(st.sampled_from([A, R, F, T]), st.integers(0, 3)), max_size=30),
    st.integers(1, 7),
)
def test_pairs_do_not_depend_on_batches(rows: list[tuple[int, int]], chunk: int) -> None:
    """The law: in the result every half has its other half, and batches change nothing."""
    table = pa.table(
        {
            "op": pa.array([op for op, _ in rows], pa.int32()),
            HIDDEN_OFFSET: pa.array([origin for _, origin in rows], pa.int64()),
        }
    )

    def settled(size: int | None) -> list[int]:
        batches = _settle_pairs(iter(table.to_batches(max_chunksize=size)), "op")
        return [op for batch in batches for op in batch.column("op").to_pylist()]

    whole = settled(None)
    assert settled(chunk) == whole
    assert len(whole) == len(rows)
    for index, op in enumerate(whole):
        if op == F:
            assert whole[index + 1] == T
            assert rows[index + 1][1] == rows[index][1] + 1
        if op == T:
            assert whole[index - 1] == F

"""What the golden merge cases leave open: ties, nulls, duplicates, guards, older slices."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from odf.errors import BadInputError
from odf.metadata.model import (
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepCsv,
    Timestamp,
)
from tests.engines.spark.spark_ingestor import Ingestor, sql

pytestmark = pytest.mark.spark

Make = Callable[..., Ingestor]
KV = ReadStepCsv(schema=("k STRING", "v INT"), header=True)
TIMED = ReadStepCsv(schema=("event_time DATE", "k STRING"), header=True)


@pytest.fixture
def ingestor(either_way: Make) -> Make:
    """Merges go both ways."""
    return either_way


def short(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("op", *(names or ("k", "v")))) for row in rows]


def test_append_sorts_by_event_time_then_position(ingestor: Make) -> None:
    found = ingestor(read=TIMED, merge=MergeStrategyAppend()).text(
        "e,k\n2021-01-02,b\n2021-01-01,a\n2021-01-02,a\n,n\n1969-01-01,o\n"
    )
    assert [(row["event_time"], row["k"]) for row in found.rows] == [
        (date(1969, 1, 1), "o"),
        (date(2020, 1, 1), "n"),
        (date(2021, 1, 1), "a"),
        (date(2021, 1, 2), "b"),
        (date(2021, 1, 2), "a"),
    ]


def test_append_of_sorted_rows_equals_append_of_others(ingestor: Make) -> None:
    ordered = ingestor(read=TIMED).text("e,k\n2021-01-01,a\n2021-01-02,b\n2021-01-02,c\n")
    mixed = ingestor(read=TIMED).text("e,k\n2021-01-02,b\n2021-01-02,c\n2021-01-01,a\n")
    assert ordered.rows == mixed.rows
    assert ordered.schema == mixed.schema


def test_ledger_keeps_the_first_of_a_key_and_counts_revisions(ingestor: Make) -> None:
    dataset = ingestor(read=KV, merge=MergeStrategyLedger(("k",)))
    found = dataset.text("k,v\na,1\nb,2\na,3\nb,2\n")
    assert short(found.rows) == [(0, "a", 1), (0, "b", 2)]
    assert (found.ingested.keys_revised_ignored, found.ingested.rows_unchanged) == (1, 1)
    found = dataset.text("k,v\na,1\nb,9\nc,\nd,4\nd,\n")
    assert short(found.rows) == [(0, "c", None), (0, "d", 4)]
    assert (found.ingested.keys_revised_ignored, found.ingested.rows_unchanged) == (1, 2)
    assert found.ingested.keys_known == 2


def test_ledger_of_keys_only(ingestor: Make) -> None:
    dataset = ingestor(
        read=ReadStepCsv(schema=("k STRING",), header=True), merge=MergeStrategyLedger(("k",))
    )
    dataset.text("k\na\n")
    found = dataset.text("k\nb\na\n")
    assert short(found.rows, "k") == [(0, "b")]
    assert found.ingested.keys_revised_ignored == 0


def test_snapshot_orders_by_key_then_operation(ingestor: Make) -> None:
    dataset = ingestor(read=KV, merge=MergeStrategySnapshot(("k",)))
    found = dataset.text("k,v\nz,1\né,2\nZ,3\na,4\n")
    assert short(found.rows) == [(0, "Z", 3), (0, "a", 4), (0, "z", 1), (0, "é", 2)]
    found = dataset.text("k,v\na,5\nz,1\nb,6\né,\n")
    assert short(found.rows) == [
        (1, "Z", 3),
        (2, "a", 4),
        (3, "a", 5),
        (0, "b", 6),
        (2, "é", 2),
        (3, "é", None),
    ]
    assert found.ops == (1, 1, 2, 2)
    assert dataset.text("k,v\né,\nb,6\na,5\nz,1\n").rows == []


def test_snapshot_of_keys_only_and_of_rows_of_nulls(ingestor: Make) -> None:
    keys = ingestor(
        read=ReadStepCsv(schema=("k STRING",), header=True), merge=MergeStrategySnapshot(("k",))
    )
    keys.text("k\na\nb\n")
    assert short(keys.text("k\nb\nc\n").rows, "k") == [(1, "a"), (0, "c")]
    nulls = ingestor(read=KV, merge=MergeStrategySnapshot(("k",)))
    nulls.text("k,v\na,\n")
    assert short(nulls.text("k,v\nb,\na,\n").rows) == [(0, "b", None)]
    assert short(nulls.text("k,v\na,\n").rows) == [(1, "b", None)]


def test_snapshot_compares_chosen_columns_only(ingestor: Make) -> None:
    read = ReadStepCsv(schema=("k STRING", "v INT", "seen INT"), header=True)
    dataset = ingestor(read=read, merge=MergeStrategySnapshot(("k",), ("V",)))
    dataset.text("k,v,s\na,1,1\nb,1,1\n")
    found = dataset.text("k,v,s\na,1,2\nb,2,2\n")
    assert short(found.rows, "k", "v", "seen") == [(2, "b", 1, 1), (3, "b", 2, 2)]
    with pytest.raises(BadInputError, match="compared column `w`"):
        ingestor(read=read, merge=MergeStrategySnapshot(("k",), ("w",))).text("k,v,s\n")


def test_snapshot_with_event_times_of_its_own(ingestor: Make) -> None:
    dataset = ingestor(read=TIMED, merge=MergeStrategySnapshot(("k",)))
    dataset.text(
        "e,k\n2021-01-01,a\n,b\n", source_event_time=Timestamp.parse("2020-05-05T00:00:00Z")
    )
    found = dataset.text(
        "e,k\n2021-01-02,a\n,b\n", source_event_time=Timestamp.parse("2022-05-05T00:00:00Z")
    )
    assert short(found.rows, "event_time", "k") == [
        (2, date(2021, 1, 1), "a"),
        (3, date(2021, 1, 2), "a"),
    ]


def test_a_retracted_key_comes_back_as_new(ingestor: Make) -> None:
    dataset = ingestor(read=KV, merge=MergeStrategySnapshot(("k",)))
    dataset.text("k,v\na,1\nb,1\n")
    assert short(dataset.text("k,v\nb,1\n").rows) == [(1, "a", 1)]
    assert short(dataset.text("k,v\na,1\nb,1\n").rows) == [(0, "a", 1)]


@pytest.mark.parametrize("strategy", [MergeStrategyLedger, MergeStrategySnapshot])
def test_null_and_missing_keys(strategy: Any, ingestor: Make) -> None:
    with pytest.raises(BadInputError, match=r"data\.csv:3: key column `k` is null") as caught:
        ingestor(read=KV, merge=strategy(("v", "k"))).text("k,v\na,1\n,2\n")
    assert caught.value.reason == "null_key"
    with pytest.raises(BadInputError, match="primary key column `nope`") as caught:
        ingestor(read=KV, merge=strategy(("k", "nope"))).text("k,v\na,1\n")
    assert caught.value.reason == "missing_key"


def test_duplicate_keys_in_a_snapshot(ingestor: Make) -> None:
    text = 'k,v\na,1\n"b\nb",2\na,3\n"b\nb",2\na,4\n'
    with pytest.raises(BadInputError, match=r"data\.csv:2 and data\.csv:8: the same key") as found:
        ingestor(read=KV, merge=MergeStrategySnapshot(("k",))).text(text)
    assert found.value.reason == "duplicate_key"
    assert "`k` = 'a', 3 times" in found.value.problems[0]
    assert len(found.value.problems) == 2


def test_times_that_are_one_key_once_they_are_stored(ingestor: Make) -> None:
    read = ReadStepCsv(header=True, schema=("t TIMESTAMP", "n INT", "v INT"))
    dataset = ingestor(read=read, merge=MergeStrategySnapshot(("n", "t")))
    with pytest.raises(BadInputError, match=r"data\.csv:2 and data\.csv:4: the same key") as found:
        dataset.text(
            "t,n,v\n1969-12-31T23:59:59.0001,1,1\n2024-01-01,1,2\n1969-12-31T23:59:59.0009,1,3\n"
        )
    assert found.value.reason == "duplicate_key"
    rows = dataset.text("t,n,v\n2024-01-01T00:00:00.0019,1,1\n2024-01-01T00:00:00.0009,1,2\n").rows
    assert [(row["op"], row["v"]) for row in rows] == [(0, 2), (0, 1)]


def test_zero_is_one_key_with_either_sign(ingestor: Make) -> None:
    read = ReadStepCsv(header=True, schema=("k DOUBLE", "v INT"))
    dataset = ingestor(read=read, merge=MergeStrategySnapshot(("k",)))
    with pytest.raises(BadInputError, match=r"data\.csv:2 and data\.csv:4: the same key"):
        dataset.text("k,v\n0.0,1\n1.5,2\n-0.0,3\n")
    with pytest.raises(BadInputError, match=r"data\.csv:2 and data\.csv:3: the same key `k` = nan"):
        dataset.text("k,v\nNaN,1\nNaN,2\n")


def test_null_keys_after_preprocessing(ingestor: Make) -> None:
    dataset = ingestor(
        read=KV,
        merge=MergeStrategyLedger(("k",)),
        preprocess=sql("SELECT nullif(k, 'b') k FROM input"),
    )
    with pytest.raises(BadInputError, match="row 2 of the preprocess query's result"):
        dataset.text("k,v\na,1\nb,2\n")


def rows_of(count: int, start: int = 0) -> str:
    return "k,v\n" + "".join(f"{i:03},{i}\n" for i in range(start, count))


def test_the_guard_of_snapshots(ingestor: Make) -> None:
    dataset = ingestor(read=KV, merge=MergeStrategySnapshot(("k",)))
    dataset.text(rows_of(20))
    with pytest.raises(BadInputError, match="would retract 11 of the 20 current rows") as caught:
        dataset.text(rows_of(9))
    assert caught.value.reason == "retract_guard"
    assert len(dataset.text(rows_of(9), max_retract_share=0.6).rows) == 11
    # Below the size from which shares count only an empty snapshot is refused.
    assert len(dataset.text(rows_of(1)).rows) == 8
    with pytest.raises(BadInputError, match="the snapshot is empty: it would retract 1 of the 1"):
        dataset.text("k,v\n")
    assert dataset.text("k,v\n", allow_retract=True).ops == (0, 1, 0, 0)
    assert dataset.text("k,v\n").rows == []


def test_half_of_the_rows_may_go_and_corrections_do_not_count(ingestor: Make) -> None:
    dataset = ingestor(read=KV, merge=MergeStrategySnapshot(("k",)))
    dataset.text(rows_of(40))
    changed = "k,v\n" + "".join(f"{i:03},-1\n" for i in range(20))
    assert dataset.text(changed).ops == (0, 20, 20, 20)


def test_an_empty_file_retracts_through_the_columns_of_the_dataset(ingestor: Make) -> None:
    dataset = ingestor(read=ReadStepCsv(header=True), merge=MergeStrategySnapshot(("k",)))
    dataset.text("k,v\na,1\n")
    with pytest.raises(BadInputError, match="the snapshot is empty"):
        dataset.data(b"", allow_empty=True)
    found = dataset.data(b"", allow_empty=True, allow_retract=True)
    assert short(found.rows) == [(1, "a", "1")]


def test_older_slices_lack_new_columns(ingestor: Make) -> None:
    dataset = ingestor(read=KV, merge=MergeStrategySnapshot(("k",)))
    dataset.text("k,v\na,1\nb,2\n")
    dataset.read = ReadStepCsv(schema=("k STRING", "v INT", "w STRING"), header=True)
    assert dataset.schema is not None
    found = dataset.text("k,v,w\na,1,\nb,2,x\n")
    assert short(found.rows, "k", "v", "w") == [(2, "b", 2, None), (3, "b", 2, "x")]
    assert dataset.text("k,v,w\na,1,\nb,2,x\n").rows == []


def test_a_column_keeps_its_type(ingestor: Make) -> None:
    dataset = ingestor(read=KV, merge=MergeStrategyLedger(("k",)))
    dataset.text("k,v\na,1\n")
    dataset.read = ReadStepCsv(schema=("k STRING", "v BIGINT"), header=True)
    with pytest.raises(BadInputError, match="`v` is INT in the dataset, the new data has BIGINT"):
        dataset.text("k,v\nb,1\n")


def test_large_results_go_through_files(ingestor: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ingestor(read=KV, merge=MergeStrategySnapshot(("k",)))
    large = ingestor(read=KV, merge=MergeStrategySnapshot(("k",)))
    texts = [rows_of(500), "k,v\n" + "".join(f"{i:03},{i % 7}\n" for i in range(499, 100, -1))]
    want = [small.text(text).rows for text in texts]
    monkeypatch.setattr("odf.engines.spark.ingest.SMALL_ROWS", 10)
    monkeypatch.setattr("odf.engines.spark.collect.SMALL_ROWS", 10)
    got = [large.text(text) for text in texts]
    assert [found.rows for found in got] == want
    assert got[1].ops[1] == 101
    assert got[1].rows[0]["event_time"] == datetime(2020, 1, 1, tzinfo=UTC)

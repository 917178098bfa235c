"""`verify` and what a dataset retracts."""

from pathlib import Path

import pytest

from odf.metadata.model import (
    AddPushSource,
    DisablePollingSource,
    FetchStepUrl,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    OperationType,
    ReadStepCsv,
    SetPollingSource,
)
from odf.repo.dataset import Dataset
from odf.repo.verify import Severity, verify_integrity
from tests.repo.conftest import NOW

A, R, F, T = OperationType
KEY = ("city",)


def source(merge: MergeStrategy) -> SetPollingSource:
    return SetPollingSource(
        fetch=FetchStepUrl(url="https://example.com/cities.csv"),
        read=ReadStepCsv(schema=("city STRING", "population BIGINT")),
        merge=merge,
    )


def add(maker, dataset: Dataset, rows) -> None:
    """Commit rows of (operation, city, population)."""
    import pyarrow as pa

    start, time = dataset.state().next_offset, maker.next_time(dataset).epoch_ms
    columns = [
        list(range(start, start + len(rows))),
        [int(op) for op, _, _ in rows],
        [time] * len(rows),
        [1_600_000_000_000] * len(rows),
        [city for _, city, _ in rows],
        [people for _, _, people in rows],
    ]
    schema = maker.schema()
    arrays = [pa.array(v, field.type) for v, field in zip(columns, schema, strict=True)]
    event, objects = maker.proposal(dataset, pa.table(arrays, schema=schema))
    before = [] if dataset.state().schema else [maker.schema_event()]
    maker.commit(dataset, *before, event, objects=objects)


def keyed(maker, stores, merge: MergeStrategy | None = None) -> Dataset:
    """Make a dataset of a keyed source with two rows."""
    dataset = maker.seed(stores)
    maker.commit(dataset, source(merge or MergeStrategySnapshot(primary_key=KEY)))
    add(maker, dataset, [(A, "Oslo", 1), (A, "Rome", 2)])
    return dataset


def findings(dataset: Dataset):
    return verify_integrity(dataset, now=NOW).findings


@pytest.mark.parametrize(
    "merge",
    [
        MergeStrategySnapshot(primary_key=KEY),
        MergeStrategyChangelogStream(primary_key=KEY),
        MergeStrategyUpsertStream(primary_key=KEY),
    ],
)
def test_of_every_strategy_with_a_key(maker, stores, merge):
    dataset = keyed(maker, stores, merge)
    add(maker, dataset, [(F, "Oslo", 1), (T, "Oslo", 3), (R, "Rome", 2)])
    assert findings(dataset) == ()
    add(maker, dataset, [(R, "Oslo", 4), (R, "Rome", 2)])
    [finding] = findings(dataset)
    assert finding.severity is Severity.WARNING
    assert finding.message == (
        "what is retracted was not there: -R at offset 5 differs from the row at offset 3; "
        "-R at offset 6 has no row of its key to retract"
    )
    assert finding.sequence_number == 5
    assert verify_integrity(dataset, now=NOW).valid


def test_many_are_counted(maker, local):
    dataset = keyed(maker, local)
    add(maker, dataset, [(R, f"town {number}", 0) for number in range(10)])
    [finding] = findings(dataset)
    assert finding.message.endswith("; and 7 more")


@pytest.mark.parametrize("merge", [MergeStrategyAppend(), MergeStrategyLedger(primary_key=KEY)])
def test_not_of_strategies_that_retract_nothing(maker, local, merge):
    dataset = keyed(maker, local, merge)
    add(maker, dataset, [(R, "Oslo", 9)])
    assert findings(dataset) == ()


def test_the_key_outlives_its_source(maker, local):
    dataset = keyed(maker, local)
    maker.commit(dataset, DisablePollingSource())
    add(maker, dataset, [(R, "Oslo", 9)])
    [finding] = findings(dataset)
    assert "-R at offset 2 differs from the row at offset 0" in finding.message


def test_each_key_in_its_time(maker, local):
    dataset = keyed(maker, local)
    add(maker, dataset, [(R, "Oslo", 9)])
    maker.commit(dataset, source(MergeStrategySnapshot(primary_key=("city", "population"))))
    add(maker, dataset, [(R, "Rome", 3)])
    assert [finding.message for finding in findings(dataset)] == [
        "what is retracted was not there: -R at offset 2 differs from the row at offset 0",
        "what is retracted was not there: -R at offset 3 has no row of its key to retract",
    ]


def test_sources_that_share_no_key(maker, local):
    dataset = maker.seed(local)
    for name, merge in (
        ("a", MergeStrategyUpsertStream(primary_key=KEY)),
        ("b", MergeStrategyAppend()),
    ):
        read = ReadStepCsv(schema=("city STRING", "population BIGINT"))
        maker.commit(dataset, AddPushSource(source_name=name, read=read, merge=merge))
    add(maker, dataset, [(A, "Oslo", 1), (R, "Oslo", 2)])
    assert findings(dataset) == ()


def test_a_damaged_slice_leaves_it_open(maker, local, tmp_path: Path):
    dataset = keyed(maker, local)
    event = dataset.state().last_add_data
    add(maker, dataset, [(R, "Oslo", 9)])
    (tmp_path / "dataset" / "data" / str(event.new_data.physical_hash)).write_bytes(b"x")
    corrupt, unchecked = findings(dataset)
    assert corrupt.severity is Severity.ERROR
    assert unchecked.severity is Severity.UNCHECKED
    assert "retractions" in unchecked.message


def test_a_key_that_no_slice_has(maker, local):
    dataset = keyed(maker, local, MergeStrategySnapshot(primary_key=("town",)))
    add(maker, dataset, [(R, "Oslo", 1)])
    [finding] = findings(dataset)
    assert finding.severity is Severity.UNCHECKED
    assert "'town'" in finding.message

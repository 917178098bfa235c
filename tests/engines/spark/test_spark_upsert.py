"""Streams of new states: what they change against what is known."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from odf.errors import BadInputError
from odf.metadata.model import MergeStrategyUpsertStream, ReadStepCsv
from tests.engines.spark.merge_cases import check_case, golden_cases
from tests.engines.spark.spark_ingestor import SOURCE_TIME, Ingestor

pytestmark = pytest.mark.spark

Make = Callable[..., Ingestor]
KV = ReadStepCsv(schema=("k STRING", "v INT"), header=True)


@pytest.fixture
def ingestor(either_way: Make) -> Make:
    """Merges go both ways."""
    return either_way


def states(ingestor: Make, *schema: str) -> Ingestor:
    read = ReadStepCsv(schema=schema, header=True) if schema else KV
    return ingestor(read=read, merge=MergeStrategyUpsertStream(("k",)))


def short(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("op", *(names or ("k", "v")))) for row in rows]


def test_golden_cases(vectors: Callable[[str], Any], ingestor: Make) -> None:
    cases = golden_cases(vectors, "upsertStream")
    assert len(cases) == 6
    for case in cases:
        check_case(case, ingestor)


def test_states_without_operations(ingestor: Make) -> None:
    dataset = states(ingestor)
    assert short(dataset.text("k,v\nb,1\na,1\nb,2\n").rows) == [(0, "a", 1), (0, "b", 2)]
    found = dataset.text("k,v\nc,\nb,2\na,\nd,4\n")
    assert short(found.rows) == [(2, "a", 1), (3, "a", None), (0, "c", None), (0, "d", 4)]
    assert (found.ingested.rows_read, found.ingested.rows_unchanged) == (4, 1)
    assert dataset.text("k,v\nc,\na,\n").rows == []


def test_deleting(ingestor: Make) -> None:
    dataset = states(ingestor, "op INT", "k STRING", "v INT")
    assert short(dataset.text("op,k,v\n0,a,1\n0,b,1\n1,b,1\n1,x,1\n").rows) == [(0, "a", 1)]
    assert short(dataset.text("op,k,v\n1,a,99\n1,zz,\n").rows) == [(1, "a", 1)]
    assert dataset.text("op,k,v\n1,a,1\n").rows == []
    assert short(dataset.text("op,k,v\n1,a,1\n0,a,\n").rows) == [(0, "a", None)]


def test_tables_of_nothing_but_keys_and_empty_values(ingestor: Make) -> None:
    dataset = states(ingestor, "k STRING")
    dataset.text("k\na\n")
    assert short(dataset.text("k\na\nb\n").rows, "k") == [(0, "b")]
    dataset = states(ingestor)
    dataset.text("k,v\na,\n")
    assert short(dataset.text("k,v\nb,\na,\n").rows) == [(0, "b", None)]
    with pytest.raises(BadInputError, match=r"data\.csv:3: key column `k` is null"):
        dataset.text("k,v\na,1\n,2\n")


def test_event_times(ingestor: Make) -> None:
    dataset = states(ingestor, "event_time TIMESTAMP", "k STRING", "v INT")
    dataset.text("event_time,k,v\n2021-01-01,a,1\n,b,1\n")
    assert dataset.text("event_time,k,v\n,a,1\n,b,1\n").rows == []
    found = dataset.text("event_time,k,v\n,a,2\n2022-01-01,b,1\n")
    moments = [datetime(2021, 1, 1, tzinfo=UTC), SOURCE_TIME.to_datetime()]
    assert short(found.rows, "event_time", "k", "v") == [
        (2, moments[0], "a", 1),
        (3, moments[1], "a", 2),
        (2, moments[1], "b", 1),
        (3, datetime(2022, 1, 1, tzinfo=UTC), "b", 1),
    ]

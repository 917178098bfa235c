"""Streams of changes: rows that say themselves what they do."""

from collections.abc import Callable
from typing import Any

import pytest

from odf.errors import BadInputError
from odf.metadata.model import MergeStrategyChangelogStream, ReadStepCsv, ReadStepNdJson
from tests.engines.spark.merge_cases import check_case, golden_cases
from tests.engines.spark.spark_ingestor import SOURCE_TIME, Ingestor, sql

pytestmark = pytest.mark.spark

Make = Callable[..., Ingestor]
KV = ReadStepCsv(schema=("op INT", "k STRING", "v INT NOT NULL"), header=True)


@pytest.fixture
def ingestor(either_way: Make) -> Make:
    """Merges go both ways."""
    return either_way


def changes(ingestor: Make, *key: str, **options: Any) -> Ingestor:
    options.setdefault("read", KV)
    return ingestor(merge=MergeStrategyChangelogStream(key or ("k",)), **options)


def short(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["op"], row["k"], row["v"]) for row in rows]


def test_golden_cases(vectors: Callable[[str], Any], ingestor: Make) -> None:
    cases = golden_cases(vectors, "changelogStream")
    assert cases
    for case in cases:
        check_case(case, ingestor)


def test_changes_of_a_key_keep_their_order(ingestor: Make) -> None:
    found = changes(ingestor).text(
        "op,k,v\n0,b,1\n0,a,1\n1,b,1\n2,a,1\n3,a,2\n0,b,3\n2,a,2\n3,a,3\n"
    )
    assert short(found.rows) == [
        (0, "a", 1), (2, "a", 1), (3, "a", 2), (2, "a", 2), (3, "a", 3),
        (0, "b", 1), (1, "b", 1), (0, "b", 3),
    ]  # fmt: skip
    assert found.warnings == []
    assert {row["event_time"] for row in found.rows} == {SOURCE_TIME.to_datetime()}
    assert not found.schema.field("v").nullable


def test_halves_of_different_keys_are_no_pair(ingestor: Make) -> None:
    found = changes(ingestor).text("op,k,v\n2,a,1\n3,b,2\n3,c,1\n2,c,1\n2,d,1\n2,d,1\n3,d,2\n")
    assert short(found.rows) == [
        (1, "a", 1), (0, "b", 2), (0, "c", 1), (1, "c", 1), (1, "d", 1), (2, "d", 1), (3, "d", 2),
    ]  # fmt: skip
    assert len(found.warnings) == 1
    assert "5 halves of corrections" in found.warnings[0]


def test_the_history_does_not_matter(ingestor: Make) -> None:
    dataset = changes(ingestor)
    dataset.text("op,k,v\n0,a,1\n")
    assert short(dataset.text("op,k,v\n0,a,1\n").rows) == [(0, "a", 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op,k,v\n0,a,1\n0,,1\n", "data.csv:3: key column `k` is null"),
        ("op,k,v\n0,a,1\n,b,1\n", "data.csv:3: the operation `op` is null"),
        ("op,k,v\n4,a,1\n-1,b,1\n", "data.csv:2: the operation `op` is 4 (2 rows"),
    ],
)
def test_bad_rows(text: str, message: str, ingestor: Make) -> None:
    with pytest.raises(BadInputError) as caught:
        changes(ingestor).text(text)
    assert message in caught.value.message


def test_the_operation_column(ingestor: Make) -> None:
    with pytest.raises(BadInputError, match="needs the column `op`"):
        changes(ingestor, read=ReadStepCsv(header=True)).text("k,v\na,1\n")
    with pytest.raises(BadInputError, match=r"`op` has to be an integer .* it is STRING") as caught:
        changes(ingestor, read=ReadStepCsv(header=True)).text("op,k\n0,1\n")
    assert "`op INT`" in (caught.value.hint or "")
    query = sql("SELECT CASE kind WHEN 'd' THEN 1 ELSE 0 END AS op, k, 1 AS v FROM input")
    found = changes(ingestor, read=ReadStepNdJson(), preprocess=query).text(
        '{"kind":"d","k":"x"}\n{"kind":"c","k":"x"}\n'
    )
    assert sorted(short(found.rows)) == [(0, "x", 1), (1, "x", 1)]

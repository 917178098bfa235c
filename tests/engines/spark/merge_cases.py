"""The golden merge cases of streams, as datasets to ingest into."""

import csv
import io
from collections.abc import Callable
from datetime import date
from typing import Any

from odf.metadata.model import (
    DatasetVocabulary,
    MergeStrategyChangelogStream,
    MergeStrategyUpsertStream,
    ReadStepCsv,
)
from tests.engines.spark.spark_ingestor import Ingestor

COLUMNS = ("op INT", "year DATE", "city STRING", "population BIGINT")


def as_csv(rows: list[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["op", "year", "city", "population"])
    writer.writerows(rows)
    return text.getvalue()


def golden_cases(vectors: Callable[[str], Any], strategy: str) -> list[dict[str, Any]]:
    return [case for case in vectors("merge_cases")["cases"] if case["strategy"] == strategy]


def check_case(case: dict[str, Any], ingestor: Callable[..., Ingestor]) -> None:
    """Ingest the history of a case as it is, then its new rows, and compare what is written."""
    key = tuple(case["primaryKey"])
    dataset = ingestor(
        read=ReadStepCsv(schema=COLUMNS, header=True),
        merge=MergeStrategyChangelogStream(key),
        vocab=DatasetVocabulary(event_time_column=case["eventTimeColumn"]),
    )
    if case["history"]:
        dataset.text(as_csv(case["history"]))
    if case["strategy"] == "upsertStream":
        dataset.merge = MergeStrategyUpsertStream(key)
    found = dataset.text(as_csv(case["new"])).rows
    got = [[row["op"], row["year"].year, row["city"], row["population"]] for row in found]
    assert got == case["expected"], case["id"]
    assert all(row["year"] == date(row["year"].year, 1, 1) for row in found)

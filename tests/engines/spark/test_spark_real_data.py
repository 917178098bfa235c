"""Real series through the engine: after every round the counts of an independent computation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odf.engines.host.engine import InputView, SourceFile, TransformJob
from odf.engines.spark.engine import SparkEngine
from odf.errors import BadInputError
from odf.metadata.model import (
    DEFAULT_VOCAB,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepCsv,
)
from tests.engines.spark.spark_ingestor import Ingestor, sql

pytestmark = pytest.mark.spark

COUNTRIES = (
    "id BIGINT",
    "code STRING",
    "name STRING",
    "continent STRING",
    "wikipedia_link STRING",
    "keywords STRING",
)
VIX = ("DATE STRING", "OPEN DOUBLE", "HIGH DOUBLE", "LOW DOUBLE", "CLOSE DOUBLE")


def expected(folder: Path) -> Any:
    return json.loads((folder / "expected.json").read_text())


def source(path: Path) -> list[SourceFile]:
    return [SourceFile(str(path), path.name)]


@pytest.mark.parametrize(
    ("name", "schema", "key"),
    [("a1", COUNTRIES, "id"), ("a2", None, "ACT Symbol")],
)
def test_snapshots(
    name: str,
    schema: tuple[str, ...] | None,
    key: str,
    ingestor: Callable[..., Ingestor],
    real_data: Callable[[str], Path],
) -> None:
    folder = real_data(name)
    dataset = ingestor(
        read=ReadStepCsv(schema=schema, header=True), merge=MergeStrategySnapshot((key,))
    )
    for step in expected(folder)["transitions"]:
        found = dataset.files(source(folder / step["to"]))
        want = (step["inserted"], step["removed"], step["changed"], step["changed"])
        assert found.ops == want, step["to"]
        if step["from"]:
            assert found.ingested.rows_unchanged == step["unchanged"]
    again = dataset.files(source(folder / step["to"]))
    assert again.rows == []


def test_a_snapshot_that_lost_its_rows_is_refused(
    ingestor: Callable[..., Ingestor], real_data: Callable[[str], Path]
) -> None:
    folder = real_data("a1")
    dataset = ingestor(
        read=ReadStepCsv(schema=COUNTRIES, header=True), merge=MergeStrategySnapshot(("id",))
    )
    dataset.files(source(folder / "countries-2022-11-03.csv"))
    accident = source(folder / "bad" / "countries-2025-01-31-header-only.csv")
    with pytest.raises(BadInputError, match="retract 248 of the 248 current rows") as caught:
        dataset.files(accident)
    assert caught.value.reason == "retract_guard"
    assert "--allow-retract" in (caught.value.hint or "")
    assert dataset.files(accident, allow_retract=True).ops == (0, 248, 0, 0)
    assert dataset.files(source(folder / "countries-2022-11-03.csv")).ops == (248, 0, 0, 0)


def test_vix_ledger_with_a_key_of_text(
    ingestor: Callable[..., Ingestor], real_data: Callable[[str], Path]
) -> None:
    folder = real_data("b1")
    dataset = ingestor(
        read=ReadStepCsv(schema=VIX, header=True), merge=MergeStrategyLedger(("DATE",))
    )
    for export in expected(folder)["exports"]:
        found = dataset.files(source(folder / export["file"]))
        assert len(found.rows) == export["new_keys"]
        revised = export["known_keys_with_other_values_than_first_seen"]
        assert found.ingested.keys_revised_ignored == revised
        assert dataset.next_offset == export["ledger_rows_after"]


def test_vix_ledger_with_a_typed_key(
    ingestor: Callable[..., Ingestor], real_data: Callable[[str], Path]
) -> None:
    folder = real_data("b1")
    query = """
        SELECT coalesce(try_to_date(DATE, 'MM/dd/yyyy'), try_to_date(DATE, 'yyyy-MM-dd'))
                 AS event_time,
               OPEN AS open, HIGH AS high, LOW AS low, CLOSE AS close
        FROM input
    """
    dataset = ingestor(
        read=ReadStepCsv(schema=VIX, header=True),
        merge=MergeStrategyLedger(("event_time",)),
        preprocess=sql(query),
    )
    want = [(8588, 0), (203, 93), (204, 93), (160, 93), (80, 93)]
    files = sorted(folder.glob("*.csv"))
    for path, (new, revised) in zip(files, want, strict=True):
        found = dataset.files(source(path))
        assert (len(found.rows), found.ingested.keys_revised_ignored) == (new, revised)
        times = [row["event_time"] for row in found.rows]
        assert times == sorted(times)


def test_vix_window_ledger(
    ingestor: Callable[..., Ingestor], real_data: Callable[[str], Path]
) -> None:
    folder = real_data("b3")
    dataset = ingestor(
        read=ReadStepCsv(schema=VIX, header=True), merge=MergeStrategyLedger(("DATE",))
    )
    counts = [len(dataset.files(source(path)).rows) for path in sorted(folder.glob("*.csv"))]
    assert counts == [40, 21, 21, 21, 20, 23]


def test_italy_days_appended(
    ingestor: Callable[..., Ingestor], real_data: Callable[[str], Path]
) -> None:
    folder = real_data("b4")
    dataset = ingestor(
        read=ReadStepCsv(header=True),
        merge=MergeStrategyAppend(),
        preprocess=sql(
            "SELECT CAST(data AS TIMESTAMP) AS event_time, denominazione_regione AS region, "
            "CAST(nuovi_positivi AS BIGINT) AS positives, note FROM input"
        ),
    )
    rows = []
    for path in sorted(folder.glob("*.csv"))[:8]:
        rows += dataset.files(source(path)).rows
    rest = [file for path in sorted(folder.glob("*.csv"))[8:] for file in source(path)]
    rows += dataset.files(rest).rows
    assert len(rows) == 630
    assert sum(row["positives"] for row in rows) == 599587
    assert len({(row["event_time"], row["region"]) for row in rows}) == 630
    assert [row["offset"] for row in rows] == list(range(630))


def test_oil_series_and_their_union(
    engine: SparkEngine,
    ingestor: Callable[..., Ingestor],
    real_data: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    folder = real_data("g2")
    rounds: dict[str, list[str]] = {}
    for series, counts in {"wti": (9842, 384), "brent": (9569, 389)}.items():
        dataset = ingestor(
            read=ReadStepCsv(schema=("event_time DATE", "price DOUBLE"), header=True),
            merge=MergeStrategyLedger(("event_time",)),
        )
        for path, count in zip(sorted(folder.glob(f"{series}-*.csv")), counts, strict=True):
            found = dataset.files(source(path))
            assert (len(found.rows), found.ingested.keys_revised_ignored) == (count, 0)
        rounds[series] = dataset.history
    query = sql(
        "SELECT event_time, 'brent' AS series, price FROM brent "
        "UNION ALL SELECT event_time, 'wti' AS series, price FROM `oil.wti`"
    )
    total = 0
    for number in (0, 1):
        views = []
        for alias, series in (("oil.wti", "wti"), ("brent", "brent")):
            path = rounds[series][number]
            offsets = pq.read_table(path, columns=["offset"]).column(0).to_pylist()
            views.append(InputView(alias, (path,), path, DEFAULT_VOCAB, offsets[0], offsets[-1]))
        rows = engine.transform(
            TransformJob(query, tuple(views), DEFAULT_VOCAB, tmp_path / f"union-{number}")
        )
        found_rows = [row for batch in rows.batches for row in batch.to_pylist()]
        assert {row["series"] for row in found_rows} == {"wti", "brent"}
        origins = [(row["__odf_branch"], row["__odf_offset"]) for row in found_rows]
        assert origins == sorted(origins)
        assert all((row["__odf_branch"] == 0) == (row["series"] == "brent") for row in found_rows)
        total += len(found_rows)
    assert total == 9842 + 384 + 9569 + 389

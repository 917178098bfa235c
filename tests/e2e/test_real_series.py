"""Real series through the whole path: every round's counts equal an independent computation."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from odf.coordinator.results import PullStatus
from odf.repo.dataset import Dataset
from tests.e2e.conftest import Person

pytestmark = pytest.mark.spark

ROOT = """
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Root
  metadata:
{vocab}    - kind: SetPollingSource
      fetch: {fetch}
      read:
        kind: Csv
        header: true
        {schema}
{preprocess}      merge: {merge}
"""


def root_manifest(
    name: str,
    *,
    merge: str,
    fetch: str = "{kind: Url, url: 'file://source.csv'}",
    schema: list[str] | None = None,
    preprocess: str | None = None,
    event_time: str | None = None,
) -> str:
    return ROOT.format(
        name=name,
        fetch=fetch,
        merge=merge,
        schema=f"schema: {json.dumps(schema)}" if schema else "",
        preprocess=(
            f"      preprocess: {{kind: Sql, engine: spark, query: {json.dumps(preprocess)}}}\n"
            if preprocess
            else ""
        ),
        vocab=f"    - {{kind: SetVocab, eventTimeColumn: {event_time}}}\n" if event_time else "",
    )


def publish(person: Person, file: Path, at: int, name: str = "source.csv") -> None:
    """Put a version of a source in place, modified at a time of its own (seconds)."""
    target = person.root / name
    shutil.copyfile(file, target)
    os.utime(target, (at, at))


def expected(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "expected.json").read_text())


def counts(inserted: int, removed: int, changed: int) -> dict[str, int]:
    found = {"+A": inserted, "-R": removed, "-C": changed, "+C": changed}
    return {operation: count for operation, count in found.items() if count}


def revised_in(warnings: Sequence[str]) -> int:
    """How many known keys came with other values, as the warnings say."""
    told = [int(text.split(" rows of ")[0]) for text in warnings if "a ledger keeps" in text]
    return sum(told)


@pytest.mark.parametrize(
    ("series", "key"),
    [("a1", "id"), ("a2", "ACT Symbol"), ("a3-snapshot-kev-csv", "cveID")],
    ids=["countries", "listings", "vulnerabilities"],
)
def test_snapshot_series(
    series: str, key: str, person: Person, real_data: Callable[[str], Path]
) -> None:
    folder = real_data(series)
    person.add(
        root_manifest("registry", merge=f"{{kind: Snapshot, primaryKey: [{json.dumps(key)}]}}")
    )
    for number, step in enumerate(expected(folder)["transitions"]):
        publish(person, folder / step["to"], 1_700_000_000 + number)
        result = person.pull("registry")
        wanted = counts(step["inserted"], step["removed"], step["changed"])
        assert dict(result.records) == wanted, step["to"]
    assert person.verify("registry").datasets[0].valid


def test_a_real_accident_is_refused_and_can_be_allowed(
    person: Person, real_data: Callable[[str], Path]
) -> None:
    from odf.errors import BadInputError

    folder = real_data("a1")
    person.add(root_manifest("registry", merge="{kind: Snapshot, primaryKey: [id]}"))
    publish(person, folder / "countries-2022-11-03.csv", 1_700_000_000)
    before = person.pull("registry").new_head
    publish(person, folder / "bad" / "countries-2025-01-31-header-only.csv", 1_700_000_001)
    with pytest.raises(BadInputError, match="248") as refused:
        person.pull("registry")
    assert "--allow-retract" in (refused.value.hint or "")
    assert person.workspace.resolve("registry").dataset.head() == before
    allowed = person.pull("registry", allow_retract=True)
    assert dict(allowed.records) == {"-R": 248}


def test_ledger_series_keyed_by_text(person: Person, real_data: Callable[[str], Path]) -> None:
    folder = real_data("b1")
    person.add(
        root_manifest(
            "vix",
            merge="{kind: Ledger, primaryKey: [DATE]}",
            schema=[
                "DATE STRING",
                *(f"{name} DOUBLE" for name in ("OPEN", "HIGH", "LOW", "CLOSE")),
            ],
        )
    )
    for number, export in enumerate(expected(folder)["exports"]):
        publish(person, folder / export["file"], 1_700_000_000 + number)
        result = person.pull("vix")
        assert dict(result.records) == {"+A": export["new_keys"]}, export["file"]
        revised = export["known_keys_with_other_values_than_first_seen"]
        assert revised_in(result.warnings) == revised
        # The last export writes its dates in another way, so every row is new.
        repeats_none = export["already_known_keys"] == 0 and number > 0
        assert any("none of the" in text for text in result.warnings) is repeats_none
    assert repeats_none
    assert person.verify("vix").datasets[0].valid


def test_exports_in_a_folder_whose_last_has_other_keys(
    person: Person, real_data: Callable[[str], Path]
) -> None:
    """Files of a folder need not repeat each other; one as large as all before it should."""
    (person.root / "exports").mkdir()
    for file in sorted(real_data("b1").glob("*.csv")):
        shutil.copy(file, person.root / "exports")
    person.add(
        root_manifest(
            "vix",
            fetch="{kind: FilesGlob, path: 'exports/*.csv'}",
            merge="{kind: Ledger, primaryKey: [DATE]}",
        )
    )
    result = person.pull("vix")
    [told] = [text for text in result.warnings if text.startswith("none of the")]
    assert "9235 rows" in told
    assert "vix-daily-2026-07-24.csv" in told
    (person.root / "exports" / "z.csv").write_text("DATE,OPEN,HIGH,LOW,CLOSE\n2030-01-01,1,1,1,1\n")
    assert not [text for text in person.pull("vix").warnings if text.startswith("none of the")]


def test_ledger_series_keyed_by_date(person: Person, real_data: Callable[[str], Path]) -> None:
    folder = real_data("b1")
    person.add(
        root_manifest(
            "vix",
            merge="{kind: Ledger, primaryKey: [event_time]}",
            preprocess=(
                "SELECT coalesce(try_to_date(DATE, 'MM/dd/yyyy'), try_to_date(DATE, 'yyyy-MM-dd'))"
                " AS event_time, cast(OPEN AS DOUBLE) AS open, cast(CLOSE AS DOUBLE) AS close"
                " FROM input"
            ),
        )
    )
    added = []
    for number, export in enumerate(expected(folder)["exports"]):
        publish(person, folder / export["file"], 1_700_000_000 + number)
        added.append(person.pull("vix").records["+A"])
    assert added == [8588, 203, 204, 160, 80]


def test_ledger_window(person: Person, real_data: Callable[[str], Path]) -> None:
    folder = real_data("b3")
    person.add(root_manifest("vix", merge="{kind: Ledger, primaryKey: [DATE]}"))
    for number, export in enumerate(expected(folder)["exports"]):
        publish(person, folder / export["file"], 1_700_000_000 + number)
        result = person.pull("vix")
        assert dict(result.records) == {"+A": export["new_keys"]}
        assert not [text for text in result.warnings if text.startswith("none of the")]


def generations(folder: Path) -> list[tuple[Path, list[str]]]:
    """The exports of a series with their columns."""
    exports = sorted(folder.glob("*.csv"))
    return [(file, file.read_text("utf-8-sig").split("\n", 1)[0].split(",")) for file in exports]


def test_ledger_whose_exports_rename_and_drop_columns(
    person: Person, real_data: Callable[[str], Path]
) -> None:
    """A source for each generation of headers, each with all columns that there ever were."""
    folder = real_data("b2")
    typed_counts = expected(folder)["with_typed_key"]["exports"]
    texts = {"stato"}

    def ddl(column: str) -> str:
        return "STRING" if column in texts or column.startswith("note") else "BIGINT"

    known: list[str] = []
    header: list[str] = []
    dataset = None
    steps = zip(generations(folder), typed_counts, strict=True)
    for number, ((file, columns), wanted) in enumerate(steps):
        if columns != header:
            header = columns
            known += [column for column in columns if column not in known]
            kept = ", ".join(
                column if column in columns else f"cast(null as {ddl(column)}) as {column}"
                for column in known
                if column != "data"
            )
            manifest = root_manifest(
                "italy",
                merge="{kind: Ledger, primaryKey: [event_time]}",
                schema=[
                    "data TIMESTAMP" if column == "data" else f"{column} {ddl(column)}"
                    for column in columns
                ],
                preprocess=f"SELECT data AS event_time, {kept} FROM input",
            )
            if dataset is None:
                person.add(manifest)
                dataset = person.workspace.resolve("italy")
            else:
                [changed] = person.update(manifest).added
                assert changed.blocks == 1
        publish(person, file, 1_700_000_000 + number)
        result = person.pull("italy")
        assert dict(result.records) == {"+A": wanted["new_keys"]}, file.name
        assert revised_in(result.warnings) == wanted["revised_values_ignored"], file.name
        assert dataset.dataset.state().num_records == wanted["ledger_rows_after"]
    assert person.workspace.resolve("italy").id == dataset.id
    assert person.verify("italy").datasets[0].valid
    check_columns_of_italy(dataset.dataset, known)


def check_columns_of_italy(dataset: Dataset, known: Sequence[str]) -> None:
    """Rows of every age have all columns; what an export did not have is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from odf.repo.files import slice_paths

    tables = [pq.read_table(path) for path in slice_paths(dataset)]
    table = pa.concat_tables(tables, promote_options="default")
    assert set(known) - {"data"} < set(table.schema.names)
    rows = table.to_pylist()
    assert [row["offset"] for row in rows] == list(range(1781))
    first, last = rows[0], rows[-1]
    assert (first["totale_attualmente_positivi"], first["totale_positivi"]) == (221, None)
    assert last["totale_attualmente_positivi"] is None
    assert last["totale_positivi"] > 0
    times = [row["event_time"] for row in rows]
    assert times == sorted(times)


def test_append_of_a_file_a_day(person: Person, real_data: Callable[[str], Path]) -> None:
    import pyarrow.parquet as pq

    from odf.repo.files import slice_paths

    folder = real_data("b4")
    days = person.root / "days"
    days.mkdir()
    for file in sorted(folder.glob("*.csv")):
        shutil.copy(file, days)
    person.add(
        root_manifest(
            "regions",
            fetch="{kind: FilesGlob, path: 'days/*.csv', order: ByName}",
            merge="{kind: Append}",
            preprocess=(
                "SELECT cast(data AS TIMESTAMP) AS event_time, denominazione_regione,"
                " cast(nuovi_positivi AS BIGINT) AS nuovi_positivi, note FROM input"
            ),
        )
    )
    result = person.pull("regions")
    assert dict(result.records) == {"+A": 630}
    dataset = person.workspace.resolve("regions").dataset
    slices = slice_paths(dataset)
    assert len(slices) == 30
    total = sum(
        sum(pq.read_table(path, columns=["nuovi_positivi"])[0].to_pylist()) for path in slices
    )
    assert total == 599_587
    assert person.pull("regions").status is PullStatus.UP_TO_DATE


def test_union_of_two_ledgers(person: Person, real_data: Callable[[str], Path]) -> None:
    folder = real_data("g2")
    series = {"wti": [], "brent": []}
    for name in series:
        person.add(
            root_manifest(
                name,
                fetch=f"{{kind: Url, url: 'file://{name}.csv'}}",
                merge="{kind: Ledger, primaryKey: [Date]}",
                schema=["Date DATE", "Price DOUBLE"],
                event_time="Date",
            )
        )
    person.add(
        """
kind: DatasetSnapshot
version: 1
content:
  name: oil
  kind: Derivative
  metadata:
    - kind: SetVocab
      eventTimeColumn: day
    - kind: SetTransform
      inputs: [{datasetRef: wti}, {datasetRef: brent}]
      transform:
        kind: Sql
        engine: spark
        query: >
          SELECT Date AS day, 'WTI' AS grade, Price AS price FROM wti
          UNION ALL
          SELECT Date AS day, 'Brent' AS grade, Price AS price FROM brent
"""
    )
    ledger = expected(folder)["ledger"]
    for number, export in enumerate(("2025-02", "2026-08")):
        wanted = 0
        for name in series:
            publish(
                person, folder / f"{name}-daily-{export}.csv", 1_700_000_000 + number, f"{name}.csv"
            )
            rows = ledger[name]["inserted"] if number else ledger[name]["first_rows"]
            assert dict(person.pull(name).records) == {"+A": rows}
            wanted += rows
        assert dict(person.pull("oil").records) == {"+A": wanted}
    report = person.verify("oil", recursive=True)
    assert [(dataset.name, dataset.valid) for dataset in report.datasets] == [
        ("wti", True),
        ("brent", True),
        ("oil", True),
    ]
    assert report.datasets[-1].replayed == 2

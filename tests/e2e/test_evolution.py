"""Datasets whose sources and columns change while they live, through a real engine."""

import json
from collections.abc import Mapping

import pytest

from odf.coordinator.add import AddOptions, Existing, ManifestText, add_manifests
from odf.coordinator.pull import PullRequest, pull
from odf.coordinator.results import PullStatus
from odf.errors import BadInputError, UsageError
from odf.metadata.model import (
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    SetDataSchema,
    SetPollingSource,
)
from tests.e2e.conftest import Person
from tests.e2e.test_bad_input import derivative, refused
from tests.e2e.test_push import push_manifest, push_source, rows_of, write

pytestmark = pytest.mark.spark

LEDGER = {"kind": "Ledger", "primaryKey": ["id"]}
CSV = {"kind": "Csv", "header": True, "schema": ["id BIGINT", "city STRING"]}


def polled(
    name: str,
    fetch: Mapping[str, object],
    *,
    read: Mapping[str, object] = CSV,
    merge: Mapping[str, object] = LEDGER,
    preprocess: str | None = None,
) -> str:
    """The manifest of a dataset that polls."""
    source: dict[str, object] = {
        "kind": "SetPollingSource",
        "fetch": dict(fetch),
        "read": dict(read),
        "merge": dict(merge),
    }
    if preprocess is not None:
        source["preprocess"] = {"kind": "Sql", "engine": "spark", "query": preprocess}
    content = {"name": name, "kind": "Root", "metadata": [source]}
    return json.dumps({"kind": "DatasetSnapshot", "version": 1, "content": content})


def url(path: str) -> dict[str, object]:
    return {"kind": "Url", "url": f"file://{path}"}


def kinds(person: Person, name: str) -> list[str]:
    """The events of a dataset, oldest first."""
    blocks = person.workspace.resolve(name).dataset.blocks()
    return [type(block.event).__name__ for _, block in reversed(list(blocks))]


def test_from_polling_to_pushing_and_back(person: Person) -> None:
    """One dataset, one history: data before, between and after, and nothing is read twice."""
    write(person, "a.csv", "id,city\n1,Rome\n2,Oslo\n")
    person.add(polled("towns", url("a.csv")))
    identity = person.workspace.resolve("towns").id
    assert dict(person.pull("towns").records) == {"+A": 2}

    person.update(push_manifest("towns", push_source("desk", merge=LEDGER), push_source("bulk")))
    assert dict(
        person.ingest("towns", "-", stdin=b"id,city\n2,Oslo\n3,Lima\n", source_name="desk")
        .files[0]
        .records
    ) == {"+A": 1}
    person.ingest("towns", "-", stdin=b"id,city\n4,Bern\n", source_name="bulk")
    assert "odf ingest towns" in (person.pull("towns").reason or "")

    person.update(polled("towns", url("a.csv")))
    with refused(person, UsageError, "polling source", 2):
        person.ingest("towns", "-", stdin=b"id,city\n9,Nice\n")
    assert person.pull("towns").status is PullStatus.UP_TO_DATE
    write(person, "a.csv", "id,city\n1,Rome\n4,Bern\n5,Kyiv\n")
    assert dict(person.pull("towns").records) == {"+A": 1}

    assert person.workspace.resolve("towns").id == identity
    assert [row["id"] for row in rows_of(person, "towns")] == [1, 2, 3, 4, 5]
    changes = {
        kind.__name__
        for kind in (SetPollingSource, DisablePollingSource, AddPushSource, DisablePushSource)
    }
    assert [kind for kind in kinds(person, "towns") if kind in changes] == [
        "SetPollingSource",
        "DisablePollingSource",
        "AddPushSource",
        "AddPushSource",
        "DisablePushSource",
        "DisablePushSource",
        "SetPollingSource",
    ]
    assert person.verify("towns").datasets[0].valid


def test_another_place_for_the_same_data(person: Person) -> None:
    """The file over there has the very time of the one here; it is read all the same."""
    import os

    for name, rows in (("a.csv", "1,Rome\n"), ("b.csv", "1,Rome\n2,Oslo\n")):
        os.utime(write(person, name, f"id,city\n{rows}"), (1_700_000_000, 1_700_000_000))
    person.add(polled("towns", url("a.csv")))
    person.pull("towns")
    person.update(polled("towns", url("b.csv")))
    assert dict(person.pull("towns").records) == {"+A": 1}
    assert person.pull("towns").status is PullStatus.UP_TO_DATE


def test_another_place_under_append_adds_its_rows_to_those_that_are_there(person: Person) -> None:
    append = {"kind": "Append"}
    for name in ("a.csv", "b.csv"):
        write(person, name, "id,city\n1,Rome\n2,Oslo\n")
    person.add(polled("towns", url("a.csv"), merge=append))
    assert person.update(polled("towns", url("b.csv"), merge=append)).added[0].warnings == ()
    person.update(polled("towns", url("a.csv"), merge=append))
    person.pull("towns")

    wider = {**CSV, "separator": ","}
    [same] = person.update(polled("towns", url("a.csv"), read=wider, merge=append)).added
    assert same.warnings == ()
    assert person.pull("towns").status is PullStatus.UP_TO_DATE
    [keyed] = person.update(polled("towns", url("b.csv"))).added
    assert keyed.warnings == ()
    with person.context("add") as ctx:
        options = AddOptions(Existing.UPDATE, dry_run=True)
        text = ManifestText("m.yaml", polled("towns", url("b.csv"), merge=append))
        [planned] = add_manifests(ctx, [text], options=options).added
    [warning] = planned.warnings
    assert "reads its source whole, and Append adds all of it to what is there (rows: 2)" in warning
    assert "odf add --replace" in warning
    [done] = person.update(polled("towns", url("b.csv"), merge=append)).added
    assert done.warnings == (warning,)
    assert dict(person.pull("towns").records) == {"+A": 2}
    assert [row["id"] for row in rows_of(person, "towns")] == [1, 2, 1, 2]


def test_another_merge_strategy_goes_on_with_the_history(person: Person) -> None:
    write(person, "a.csv", "id,city\n1,Rome\n2,Oslo\n")
    person.add(polled("towns", url("a.csv")))
    person.pull("towns")
    person.update(polled("towns", url("a.csv"), merge={"kind": "Snapshot", "primaryKey": ["id"]}))
    write(person, "a.csv", "id,city\n1,Roma\n3,Lima\n")
    assert dict(person.pull("towns").records) == {"-R": 1, "-C": 1, "+C": 1, "+A": 1}
    assert person.verify("towns").datasets[0].valid


def test_a_column_more(person: Person) -> None:
    """Added columns are recorded, older rows have null there, and derivatives go on."""
    write(person, "a.csv", "id,city\n1,Rome\n2,Oslo\n")
    person.add(polled("towns", url("a.csv")))
    person.pull("towns")
    person.add(derivative("select event_time, id, city from towns", inputs="towns"))
    assert dict(person.pull("derived").records) == {"+A": 2}
    wider = {**CSV, "schema": ["id BIGINT", "city STRING", "people BIGINT"]}
    person.update(polled("towns", url("a.csv"), read=wider))
    write(person, "a.csv", "id,city,people\n1,Rome,9\n3,Lima,7\n")
    result = person.pull("towns")
    assert dict(result.records) == {"+A": 1}
    assert not [text for text in result.warnings if "a ledger keeps" in text]
    assert kinds(person, "towns")[-2:] == ["SetDataSchema", "AddData"]
    assert rows_of(person, "towns")[-1]["people"] == 7
    assert dict(person.pull("derived").records) == {"+A": 1}
    assert [row["id"] for row in rows_of(person, "derived")] == [1, 2, 3]
    report = person.verify("derived", recursive=True)
    assert [dataset.valid for dataset in report.datasets] == [True, True]


def test_a_snapshot_with_a_column_more_corrects_every_row(person: Person) -> None:
    """A value where there was none is a change; rows that have none there stay as they are."""
    snapshot = {"kind": "Snapshot", "primaryKey": ["id"]}
    write(person, "a.csv", "id,city\n1,Rome\n2,Oslo\n")
    person.add(polled("towns", url("a.csv"), merge=snapshot))
    person.pull("towns")
    wider = {**CSV, "schema": ["id BIGINT", "city STRING", "people BIGINT"]}
    person.update(polled("towns", url("a.csv"), read=wider, merge=snapshot))
    write(person, "a.csv", "id,city,people\n1,Rome,9\n2,Oslo,\n")
    assert dict(person.pull("towns").records) == {"-C": 1, "+C": 1}
    assert [row.get("people") for row in rows_of(person, "towns")] == [None, None, None, 9]


def test_a_column_that_nobody_declared_before(person: Person) -> None:
    """Without a declared schema the header decides, and a new column in it is an added one."""
    undeclared = {"kind": "Csv", "header": True}
    write(person, "a.csv", "id,city\n1,Rome\n")
    person.add(polled("towns", url("a.csv"), read=undeclared))
    person.pull("towns")
    write(person, "a.csv", "id,city,people\n1,Rome,9\n3,Lima,7\n")
    assert dict(person.pull("towns").records) == {"+A": 1}
    schemas = [kind for kind in kinds(person, "towns") if kind == SetDataSchema.__name__]
    assert len(schemas) == 2


def test_an_export_of_nothing_but_a_header_keeps_the_types_that_were_inferred(
    person: Person,
) -> None:
    inferred = {"kind": "Csv", "header": True, "inferSchema": True}
    write(person, "a.csv", "id,city,people\n1,Rome,9\n")
    person.add(polled("towns", url("a.csv"), read=inferred))
    person.pull("towns")
    write(person, "a.csv", "people,id,city\n")
    assert dict(person.pull("towns").records) == {}
    write(person, "a.csv", "people,id,city\n7,3,Lima\n")
    assert dict(person.pull("towns").records) == {"+A": 1}
    assert [row["id"] for row in rows_of(person, "towns")] == [1, 3]


@pytest.mark.parametrize(
    ("schema", "header", "said"),
    [
        (["id BIGINT"], "id", "city"),
        (["id BIGINT", "town STRING"], "id,town", "city"),
        (["id BIGINT", "city BIGINT"], "id,city", "city"),
        (["id BIGINT", "city STRING", "people BIGINT NOT NULL"], "id,city,people", "people"),
    ],
    ids=["dropped", "renamed", "retyped", "added not null"],
)
def test_columns_that_go_or_change_are_refused_with_the_difference(
    schema: list[str], header: str, said: str, person: Person
) -> None:
    write(person, "a.csv", "id,city\n1,Rome\n")
    person.add(polled("towns", url("a.csv")))
    person.pull("towns")
    person.update(polled("towns", url("a.csv"), read={**CSV, "schema": schema}))
    write(person, "a.csv", header + "\n" + ",".join("7" for _ in schema) + "\n")
    with refused(person, BadInputError, said, 1) as caught:
        person.pull("towns")
    assert isinstance(caught.value, BadInputError)
    assert caught.value.reason == "schema"
    assert caught.value.hint


def test_dropped_columns_are_kept_by_a_preprocess_query(person: Person) -> None:
    write(person, "a.csv", "id,city\n1,Rome\n")
    person.add(polled("towns", url("a.csv")))
    person.pull("towns")
    person.update(
        polled(
            "towns",
            url("a.csv"),
            read={**CSV, "schema": ["id BIGINT", "town STRING"]},
            preprocess="select id, town as city, upper(town) as shouted from input",
        )
    )
    write(person, "a.csv", "id,town\n2,Oslo\n")
    assert dict(person.pull("towns").records) == {"+A": 1}
    assert rows_of(person, "towns", "id", "city")[-1] == {"id": 2, "city": "Oslo"}
    assert person.verify("towns").datasets[0].valid


@pytest.mark.parametrize(
    ("merge", "text"),
    [
        (LEDGER, "id\n1\n2\n"),
        (LEDGER, "id\n"),
        ({"kind": "Snapshot", "primaryKey": ["id"]}, "id\n1\n2\n"),
        ({"kind": "Append"}, "id\n"),
    ],
    ids=["ledger", "ledger without rows", "snapshot", "append without rows"],
)
def test_a_column_that_goes_away_is_told_though_no_row_is_new(
    person: Person, merge: Mapping[str, object], text: str
) -> None:
    read = {"kind": "Csv", "header": True}
    write(person, "a.csv", "id,city\n1,Rome\n2,Oslo\n")
    person.add(polled("towns", url("a.csv"), read=read, merge=merge))
    person.pull("towns")
    write(person, "a.csv", text)
    with refused(person, BadInputError, r"^a\.csv: the columns .* city .* is gone", 1) as found:
        person.pull("towns")
    assert "preprocess" in (found.value.hint or "")
    write(person, "a.csv", "id,city\n1,Rome\n2,Oslo\n")
    assert person.pull("towns").status in (PullStatus.UP_TO_DATE, PullStatus.UPDATED)


def test_nothing_is_said_of_keys_where_nothing_was_taken(person: Person) -> None:
    """All keys seem new where their column is called otherwise, and none of them came in."""
    read = {"kind": "Csv", "header": True}
    write(person, "a.csv", "id,city\n1,Rome\n2,Oslo\n")
    person.add(polled("towns", url("a.csv"), read=read))
    person.pull("towns")
    write(person, "a.csv", "ID,city\n1,Rome\n2,Oslo\n")
    with person.context("pull") as ctx:
        [result] = pull(ctx, PullRequest(refs=("towns",))).datasets
    assert result.error is not None
    assert "differs from id by case only" in result.error.message
    assert result.warnings == ()


def test_a_column_that_comes_without_new_rows_is_recorded_with_the_next_ones(
    person: Person,
) -> None:
    read = {"kind": "Csv", "header": True}
    write(person, "a.csv", "id,city\n1,Rome\n")
    person.add(polled("towns", url("a.csv"), read=read))
    person.pull("towns")
    write(person, "a.csv", "id,city,size\n1,Rome,\n")
    assert dict(person.pull("towns").records) == {}
    assert kinds(person, "towns").count("SetDataSchema") == 1
    write(person, "a.csv", "id,city,size\n1,Rome,\n2,Oslo,7\n")
    assert dict(person.pull("towns").records) == {"+A": 1}
    assert kinds(person, "towns").count("SetDataSchema") == 2


@pytest.mark.parametrize("merge", ["Append", "Ledger", "Snapshot", "UpsertStream"])
def test_columns_are_known_by_their_names_wherever_they_stand(person: Person, merge: str) -> None:
    """An export with another order of columns, and a new one among them, is the same table."""
    read = {"kind": "Csv", "header": True}
    keyed = {} if merge == "Append" else {"primaryKey": ["id"]}
    write(person, "a.csv", "event_time,id,city\n2024-01-01,1,Rome\n")
    query = "select * except (event_time), cast(event_time as date) as event_time from input"
    text = polled(
        "towns", url("a.csv"), read=read, merge={"kind": merge, **keyed}, preprocess=query
    )
    person.add(text)
    person.pull("towns")
    write(person, "a.csv", "city,size,event_time,id\nRome,,2024-01-01,1\nOslo,7,2024-01-02,2\n")
    records = dict(person.pull("towns").records)
    assert records == {"+A": 2 if merge == "Append" else 1}
    [*_, last] = rows_of(person, "towns")
    assert (last["id"], last["city"], last["size"]) == ("2", "Oslo", "7")
    assert list(last)[-3:] == ["id", "city", "size"]
    assert person.verify("towns").datasets[0].valid


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("NdJson", '{"b": 1}\n', '{"b": 1, "a": null}\n{"a": 5, "b": 2}\n'),
        ("Json", '[{"b": 1}]', '[{"b": 1}, {"a": 5, "b": 2}]'),
        (
            "NdGeoJson",
            '{"type": "Feature", "properties": {"b": 1}, "geometry": null}\n',
            '{"type": "Feature", "properties": {"b": 2, "a": 5}, "geometry": null}\n',
        ),
    ],
)
def test_members_that_come_later_are_columns_behind_the_others(
    person: Person, kind: str, first: str, second: str
) -> None:
    merge = {"kind": "Ledger", "primaryKey": ["b"]}
    write(person, "a.json", first)
    person.add(polled("things", url("a.json"), read={"kind": kind}, merge=merge))
    person.pull("things")
    write(person, "a.json", second)
    assert dict(person.pull("things").records) == {"+A": 1}
    [old, new] = rows_of(person, "things")
    assert (old["b"], old.get("a"), new["b"], new["a"]) == (1, None, 2, 5)
    assert list(new)[-1] == "a"
    assert person.verify("things").datasets[0].valid

"""Bad input of every kind: what is said, with which exit code, and that nothing changed."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from odf.coordinator.pull import PullRequest, pull
from odf.coordinator.results import PullStatus
from odf.errors import (
    BadInputError,
    EngineError,
    InvalidQueryError,
    ManifestError,
    NotFoundError,
    OdfError,
)
from odf.runtimes.pool import EnginePool, PoolSettings
from tests.e2e.conftest import Person
from tests.e2e.test_real_series import root_manifest

SNAPSHOT = "{kind: Snapshot, primaryKey: [id]}"
TYPED = ["id BIGINT", "name STRING", "size INT"]


def tree(root: Path) -> dict[str, bytes]:
    """Everything that datasets are made of: names and bytes, without locks and caches."""
    datasets = root / ".odf" / "datasets"
    return {
        str(path.relative_to(datasets)): path.read_bytes()
        for path in sorted(datasets.rglob("*"))
        if path.is_file() and path.parent.name != "info"
    }


@contextlib.contextmanager
def refused(
    person: Person, kind: type[OdfError], match: str | None, exit_code: int
) -> Iterator[pytest.ExceptionInfo[OdfError]]:
    """Expect an error of a kind, and that no dataset is other than before."""
    before = tree(person.root)
    with pytest.raises(kind, match=match) as caught:
        yield caught
    assert caught.value.exit_code == exit_code
    assert tree(person.root) == before


def write(person: Person, text: str, name: str = "source.csv") -> None:
    (person.root / name).write_text(text)


def with_registry(person: Person, rows: str = "1,one,1\n2,two,2\n") -> None:
    person.add(root_manifest("registry", merge=SNAPSHOT, schema=TYPED))
    write(person, "id,name,size\n" + rows)
    person.pull("registry")


def derivative(query: str, name: str = "derived", inputs: str = "registry") -> str:
    return f"""
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs: [{", ".join(f"{{datasetRef: {source}}}" for source in inputs.split())}]
      transform: {{kind: Sql, engine: spark, query: "{query}"}}
"""


def test_source_file_that_is_missing(person: Person) -> None:
    person.add(root_manifest("registry", merge=SNAPSHOT))
    with refused(person, NotFoundError, r"source\.csv", 4):
        person.pull("registry")


def test_unknown_dataset(person: Person) -> None:
    person.add(root_manifest("registry", merge=SNAPSHOT))
    with refused(person, NotFoundError, "registri", 4):
        person.pull("registri")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("kind: [", r"manifest-1\.yaml:1:8: not YAML"),
        ("just words", r"manifest-1\.yaml:1:1: wanted a manifest with `kind`"),
        ("", r"manifest-1\.yaml:1:1: no manifest here"),
        (
            root_manifest("a", merge=SNAPSHOT).replace("header: true", "haeder: true"),
            r"manifest-1\.yaml:\d+:\d+: .*haeder.*header",
        ),
        (root_manifest("a", merge="{kind: Snapshot}"), "primaryKey"),
    ],
    ids=["not yaml", "no manifest", "empty", "unknown field", "missing field"],
)
def test_manifest_that_cannot_be_read(text: str, match: str, person: Person) -> None:
    with refused(person, ManifestError, match, 1):
        person.add(text)


def test_all_problems_of_all_manifests_at_once(person: Person) -> None:
    bad = root_manifest("a", merge=SNAPSHOT).replace("header: true", "haeder: true")
    with refused(person, ManifestError, "2 problems", 1):
        person.add(bad, bad)


def test_input_that_does_not_exist(person: Person) -> None:
    with refused(person, NotFoundError, "derived.*nowhere, elsewhere", 4):
        person.add(derivative("select 1", inputs="nowhere elsewhere"))


def test_inputs_in_a_circle(person: Person) -> None:
    with refused(person, BadInputError, "circle: (a -> b -> a|b -> a -> b)", 1):
        person.add(derivative("select * from b", "a", "b"), derivative("select * from a", "b", "a"))


def test_nothing_is_added_when_one_of_several_is_refused(person: Person) -> None:
    good = root_manifest("good", merge=SNAPSHOT)
    with refused(person, NotFoundError, "nowhere", 4):
        person.add(good, derivative("select 1", inputs="nowhere"))
    assert list(person.workspace.datasets()) == []


def test_key_column_that_is_not_declared(person: Person) -> None:
    merge = "{kind: Snapshot, primaryKey: [key]}"
    with refused(person, BadInputError, "key.*id, name, size", 1):
        person.add(root_manifest("registry", merge=merge, schema=TYPED))


@pytest.mark.parametrize(
    ("merge", "match"),
    [
        ("{kind: Ledger, primaryKey: []}", r"primaryKey names no column"),
        ("{kind: UpsertStream, primaryKey: []}", r"primaryKey names no column"),
        ("{kind: Snapshot, primaryKey: [id, id]}", r"primaryKey names columns more than once: id"),
        (
            "{kind: Snapshot, primaryKey: [id], compareColumns: [n, n]}",
            r"compareColumns names columns more than once: n",
        ),
    ],
)
@pytest.mark.parametrize("preprocess", [None, "SELECT * FROM input"])
def test_keys_that_cannot_work(
    merge: str, match: str, preprocess: str | None, person: Person
) -> None:
    manifest = root_manifest("registry", merge=merge, preprocess=preprocess)
    with pytest.raises(BadInputError, match=f"dataset registry: merge.{match}"):
        person.add(manifest)
    assert list(person.workspace.datasets()) == []


@pytest.mark.spark
class TestSourceData:
    """Source data that cannot be taken."""

    @pytest.fixture(autouse=True)
    def registry(self, person: Person) -> None:
        with_registry(person)

    @pytest.mark.parametrize(
        ("rows", "reason", "said"),
        [
            ("1,one,1\n2,two,many\n", "bad_rows", ["source.csv:3", "size", "many", "INT"]),
            ("1,one,1\n2,two\n", "bad_rows", ["source.csv:3"]),
            ("1,one,1\n,two,2\n", "null_key", ["id"]),
            ("1,one,1\n1,two,2\n", "duplicate_key", ["id", "1"]),
        ],
        ids=["bad number", "ragged row", "null key", "duplicate key"],
    )
    def test_rows(self, rows: str, reason: str, said: list[str], person: Person) -> None:
        write(person, "id,name,size\n" + rows)
        with refused(person, BadInputError, None, 1) as caught:
            person.pull("registry")
        error = caught.value
        assert isinstance(error, BadInputError)
        assert error.reason == reason
        text = "\n".join([error.message, *error.problems])
        assert [word for word in said if word not in text] == [], text

    def test_most_rows_vanished(self, person: Person) -> None:
        rows = [f"{number},name {number},{number}\n" for number in range(40)]
        write(person, "id,name,size\n" + "".join(rows))
        person.pull("registry")
        write(person, "id,name,size\n" + "".join(rows[:15]))
        with refused(person, BadInputError, "25", 1) as caught:
            person.pull("registry")
        assert "--allow-retract" in (caught.value.hint or "")
        assert dict(person.pull("registry", allow_retract=True).records) == {"-R": 25}

    def test_zero_bytes(self, person: Person) -> None:
        write(person, "")
        with refused(person, BadInputError, "0 bytes", 1) as caught:
            person.pull("registry")
        assert "--allow-empty" in (caught.value.hint or "")

    def test_key_column_that_the_file_does_not_have(self, person: Person) -> None:
        person.add(root_manifest("untyped", merge="{kind: Ledger, primaryKey: [nokey]}"))
        with refused(person, BadInputError, "nokey", 1):
            person.pull("untyped")


@pytest.mark.spark
class TestQueries:
    """SQL that is not accepted, by `odf add` already."""

    @pytest.mark.parametrize(
        ("query", "match"),
        [
            ("SELEC 1", "Syntax error at or near 'SELEC'"),
            ("SELECT op, event_time, nosuch FROM registry", "`nosuch` cannot be resolved"),
            (
                "SELECT event_time, name FROM registry ORDER BY id LIMIT 3",
                "has to be computed over the whole history in every run.* LIMIT",
            ),
            (
                "SELECT a.event_time FROM registry a JOIN registry b ON a.id = b.id",
                "whole history in every run.* the join has no range of event times",
            ),
            (
                "SELECT event_time, row_number() OVER (ORDER BY id) AS n FROM registry",
                "has to be computed over the whole history in every run",
            ),
            ("SELECT event_time, rand() AS r FROM registry", "function rand is not allowed"),
            (
                "SELECT event_time, current_timestamp() AS t FROM registry",
                "function current_timestamp is not allowed",
            ),
            ("DROP TABLE registry", "the statement DROP TABLE is not allowed"),
            ("SELECT * FROM csv.`/etc/passwd`", "reads `csv./etc/passwd`, which is no input"),
            ("SELECT name FROM registry", "no event time column `event_time`"),
        ],
    )
    def test_query(self, query: str, match: str, person: Person) -> None:
        with_registry(person)
        with refused(person, InvalidQueryError, f"(?i){match}", 1):
            person.add(derivative(query))

    def test_two_queries_in_one_are_shown_apart(self, person: Person) -> None:
        inner = "SELECT event_time, size, count(*) AS n FROM registry GROUP BY event_time, size"
        query = f"SELECT event_time, max(n) AS n FROM ({inner}) GROUP BY event_time"
        person.add(root_manifest("registry", merge=SNAPSHOT, schema=TYPED))
        person.add(derivative(query, "early"))
        write(person, "id,name,size\n1,one,1\n")
        person.pull("registry")
        with refused(person, InvalidQueryError, "whole history in every run", 1) as added:
            person.add(derivative(query))
        with refused(person, InvalidQueryError, "whole history in every run", 1) as pulled:
            person.pull("early")
        for hint in (added.value.hint or "", pulled.value.hint or ""):
            assert f"`first` with {inner} (aggregate by event time" in hint
            assert hint.endswith("or accept what it costs: odf add --allow-recompute")

    def test_a_bound_is_asked_for_beside_other_warnings(self, person: Person) -> None:
        with_registry(person)
        query = (
            "SELECT a.event_time, a.id FROM registry a JOIN registry b ON a.id = b.id ORDER BY a.id"
        )
        with refused(person, InvalidQueryError, "whole history in every run", 1) as added:
            person.add(derivative(query))
        assert "give it a bound" in (added.value.hint or "")
        assert "ORDER BY has no effect" in (added.value.hint or "")

    def test_query_over_the_whole_history_of_an_input_without_schema(self, person: Person) -> None:
        person.add(root_manifest("registry", merge=SNAPSHOT, schema=TYPED))
        report = person.add(derivative("SELECT event_time, name FROM registry ORDER BY id LIMIT 3"))
        assert any("checked in full when it is first pulled" in w for w in report.added[0].warnings)
        write(person, "id,name,size\n1,one,1\n")
        person.pull("registry")
        with refused(person, InvalidQueryError, "whole history in every run", 1):
            person.pull("derived")

    def test_full_analysis_comes_with_the_first_pull(self, person: Person) -> None:
        person.add(root_manifest("registry", merge=SNAPSHOT, schema=TYPED))
        person.add(derivative("SELECT event_time, nosuch FROM registry"))
        write(person, "id,name,size\n1,one,1\n")
        person.pull("registry")
        with refused(person, InvalidQueryError, "nosuch", 1):
            person.pull("derived")


@pytest.mark.spark
def test_engine_that_dies_in_the_middle(person: Person, tmp_path: Path) -> None:
    """Nothing of its dataset changes, and the next dataset of the same run gets a new one."""
    with_registry(person)
    other = "{kind: Url, url: 'file://other.csv'}"
    person.add(root_manifest("zoo", merge="{kind: Append}", fetch=other))
    write(person, "animal\nape\n", "other.csv")
    write(person, "id,name,size\n1,one,5\n")
    handle = person.workspace.resolve("registry")
    before = {path: path.read_bytes() for path in handle.path.rglob("f1620*")}
    said: list[str] = []
    own = EnginePool(
        PoolSettings(runtime="process"), run_dir=tmp_path / "run", announce=said.append
    )
    person.engines = own
    killed: list[int] = []

    def kill(dataset: str, stage: str) -> None:
        if (dataset, stage) == ("registry", "read"):  # the engine's own word that it has begun
            killed.extend(own.pids)
            for pid in own.pids:
                os.kill(pid, signal.SIGKILL)

    try:
        with person.context("pull", kill) as ctx:
            died, went_on = pull(ctx, PullRequest(refs=("registry", "zoo"))).datasets
        assert (died.name, died.status, died.blocks) == ("registry", PullStatus.FAILED, 0)
        assert isinstance(died.error, EngineError)
        assert died.error.exit_code == 1
        assert died.error.message.startswith(
            "the engine died while it ingested into registry (killed by SIGKILL)"
        )
        assert {path: path.read_bytes() for path in handle.path.rglob("f1620*")} == before
        assert handle.dataset.head() == died.old_head == died.new_head
        assert (went_on.status, dict(went_on.records)) == (PullStatus.UPDATED, {"+A": 1})
        assert len(killed) == len(own.pids) == 1
        assert own.pids != tuple(killed)
        assert [line.split(" (")[0] for line in said] == ["engine spark in process"] * 2
        assert dict(person.pull("registry").records) == {"-R": 1, "-C": 1, "+C": 1}
    finally:
        own.close()

"""Preprocess queries that cannot run: what is said at `add`, what at a pull, and what to do."""

import pytest

from odf.errors import EngineUnavailableError, InvalidQueryError
from tests.e2e.conftest import Person
from tests.e2e.test_bad_input import refused
from tests.e2e.test_evolution import polled, url
from tests.e2e.test_push import push_manifest, push_source, rows_of, write

pytestmark = pytest.mark.spark

GEOMETRY = "select id, st_x(st_geomfromgeojson(city)) as x from input"


def test_an_engine_that_is_not_here(person: Person) -> None:
    """The dataset can be kept and exchanged; a pull says what there is, and how to get more."""
    manifest = polled("towns", url("a.csv"), preprocess="select * from input")
    report = person.add(manifest.replace('"engine": "spark"', '"engine": "flink"'))
    assert any("flink" in warning for warning in report.added[0].warnings)
    write(person, "a.csv", "id,city\n1,Rome\n")
    with refused(person, EngineUnavailableError, "'flink'.*has: spark, datafusion", 9) as caught:
        person.pull("towns")
    assert "engine: {images: {flink: {image:" in (caught.value.hint or "")


def test_an_engine_that_is_not_here_for_pushed_data(person: Person) -> None:
    source = push_source(preprocess="select * from input")
    manifest = push_manifest("towns", source)
    person.add(manifest.replace('"engine": "spark"', '"engine": "flink"'))
    with refused(person, EngineUnavailableError, "'flink'.*has: spark, datafusion", 9):
        person.ingest("towns", "-", stdin=b"id,city\n1,Rome\n")


@pytest.mark.parametrize("engine", ["spark", "datafusion"])
def test_geometry_functions_are_refused_by_name(engine: str, person: Person) -> None:
    manifest = polled("towns", url("a.csv"), preprocess=GEOMETRY)
    with refused(person, InvalidQueryError, "the function st_", 1) as caught:
        person.add(manifest.replace('"engine": "spark"', f'"engine": "{engine}"'))
    assert "GeoJSON" in (caught.value.hint or "")


def test_queries_of_push_sources_are_checked_when_they_are_added(person: Person) -> None:
    bad = push_source("second", preprocess="select town from input")
    with refused(person, InvalidQueryError, "town", 1):
        person.add(push_manifest("towns", push_source("first"), bad))
    person.add(push_manifest("towns", push_source("first")))
    with refused(person, InvalidQueryError, "town", 1):
        person.update(push_manifest("towns", push_source("first"), bad))


def test_several_steps(person: Person) -> None:
    source = push_source()
    source["preprocess"] = {
        "kind": "Sql",
        "engine": "spark",
        "queries": [
            {"alias": "named", "query": "select id, upper(city) as city from input"},
            {"query": "select id, city || '!' as city from named"},
        ],
    }
    person.add(push_manifest("towns", source))
    person.ingest("towns", "-", stdin=b"id,city\n1,Rome\n")
    assert rows_of(person, "towns", "id", "city") == [{"id": 1, "city": "ROME!"}]

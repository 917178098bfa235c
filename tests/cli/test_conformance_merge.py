"""`odf conformance merge`: the golden merge cases through a running engine."""

import json

import pytest

from tests.conftest import PROJECT

pytestmark = pytest.mark.spark

TIMESTAMP = {"timestamp": "ms", "tz": "UTC"}


def own_case(**changes):
    """A small snapshot with times, to vary."""
    case = {
        "id": "own",
        "strategy": "snapshot",
        "eventTimeColumn": "t",
        "primaryKey": ["k"],
        "history_columns": ["op", "t", "k", "v"],
        "new_columns": ["t", "k", "v"],
        "output_columns": ["op", "t", "k", "v"],
        "column_types": {"op": "int32", "t": TIMESTAMP, "k": "string", "v": "float64"},
        "history": [[0, "2020-01-01T00:00:00Z", "a", 1.5], [0, None, 'b "\n', None]],
        "new": [["2020-01-01T00:00:00Z", "a", 2.5], [None, "", None]],
    }
    return {**case, **changes}


def documented_case():
    """The example of the documentation."""
    text = (PROJECT / "docs" / "conformance.md").read_text().partition("\n## merge\n")[2]
    return json.loads(text.partition("```json\n")[2].partition("```")[0])


BROKEN = {
    "no type": {"column_types": {}},
    "bad type": {"column_types": {"op": "int32", "t": "what", "k": "string", "v": "float64"}},
    "bad row": {"new": [[1]]},
    "bad value": {"new": [["2020-01-01T00:00:00Z", 1, 2.5]]},
    "bad time": {"new": [["yesterday", "a", 2.5]]},
    "no strategy": {"strategy": "what"},
    "no key": {"primaryKey": ["x"]},
    "twice": {"new": [[None, "a", 1.0], [None, "a", 2.0]]},
    "no such output": {"output_columns": ["x"]},
    "event time": {"eventTimeColumn": "k"},
    "no history": {"history": None},
    "no op": {"history_columns": ["t", "k", "v"], "history": [[None, "a", 1.5]]},
}


def test_cases(run, vectors):
    data = vectors("merge_cases")
    types = data["column_types"]
    cases = [
        {
            **{key: value for key, value in case.items() if "expected" not in key},
            "column_types": types,
        }
        for case in data["cases"]
        if "history" in case and "new" in case
    ]
    assert len(cases) >= 18
    own = own_case()
    broken = [own_case(id=name, **changes) for name, changes in BROKEN.items()]
    date = own_case(
        id="date",
        strategy="append",
        history=[],
        column_types={**own["column_types"], "t": "DATE", "v": "DECIMAL(9,2)"},
        new=[["2020-01-02", "a", "1.50"], ["2020-01-01", "b", None]],
    )
    documented = {**documented_case(), "id": "documented"}
    lines = "".join(json.dumps(case) + "\n" for case in [*broken, *cases, own, date, documented])
    ran = run("conformance", "merge", stdin=lines + "not a case\n")
    assert (ran.code, ran.err) == (0, "")
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert len(answers) == len(cases) + len(broken) + 4
    found = {answer["id"]: answer for answer in answers}

    expected = {case["id"]: case for case in data["cases"]}
    for case in cases:
        answer = found[case["id"]]
        if "expected" in expected[case["id"]]:
            assert answer.get("result") == {"rows": expected[case["id"]]["expected"]}, answer
        else:
            assert "foo" in answer["error"]
    for name in BROKEN:
        assert not found[name]["ok"], name
        assert "internal" not in found[name]["error"], found[name]
    assert found["own"]["result"]["rows"] == [
        [0, None, "", None],
        [2, "2020-01-01T00:00:00Z", "a", 1.5],
        [3, "2020-01-01T00:00:00Z", "a", 2.5],
        [1, None, 'b "\n', None],
    ]
    assert found["documented"]["result"]["rows"] == [[0, 2020, "odessa", 4]]
    assert found["date"]["result"]["rows"] == [
        [0, "2020-01-01", "b", None],
        [0, "2020-01-02", "a", "1.50"],
    ]


def test_without_an_engine_the_run_fails(run):
    ran = run("conformance", "merge", stdin=b"{}\n", env={"ODF_JAVA_HOME": "/nowhere"})
    assert (ran.code, ran.out) == (9, "")
    assert "no Java at /nowhere" in ran.err
    assert "odf-conformance-" not in ran.err

"""`odf ingest` and `odf pull --set-watermark` on the command line, without any engine."""

import json

import pytest

PUSH = {
    "kind": "AddPushSource",
    "sourceName": "desk",
    "read": {"kind": "Csv", "header": True, "schema": ["fruit STRING"]},
    "merge": {"kind": "Append"},
}


@pytest.fixture
def orders(run, prices):
    """A workspace with `prices`, which polls, and `orders`, which has two push sources."""
    content = {"name": "orders", "kind": "Root", "metadata": [PUSH, {**PUSH, "sourceName": "b"}]}
    manifest = prices / "orders.json"
    manifest.write_text(json.dumps({"kind": "DatasetSnapshot", "version": 1, "content": content}))
    assert run("-C", str(prices), "add", "-q", str(manifest)).code == 0
    return prices


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["orders"], 2, "nothing to ingest\nhint: name files, or write - to read standard input"),
        (["orders", "-"], 2, "dataset orders has 2 push sources: desk, b\nhint: say which"),
        (["orders", "-", "--source-name", "c"], 4, "has no push source 'c'\nhint: it has: desk, b"),
        (["orders", "nowhere.csv"], 4, "nowhere.csv: there is no such file"),
        (["orders", ""], 2, "the name of a file is empty"),
        (["orders", "-", "", "--source-name", "b"], 2, "the name of a file is empty"),
        (["orders", "a" * 300], 1, "a: cannot be read: file name too long\nhint: check the path"),
        (["orders", "-", "--event-time", "now"], 2, "'now' is not a time, wanted RFC 3339"),
        (["orders", "-", "--input-format", "xml"], 2, "'xml' is not one of 'csv', 'json'"),
        (["prices", "-"], 2, "dataset prices fetches its data from a polling source"),
        (["order", "-"], 4, "order"),
        (["repo/orders", "-"], 4, "repo/orders"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_changes(run, orders, arguments, code, said):
    before = run("-C", str(orders), "list", "-o", "json").out
    ran = run("-C", str(orders), "ingest", *arguments)
    assert ran.code == code
    assert ran.out == ""
    assert said in ran.err
    as_json = run("-C", str(orders), "ingest", "-o", "json", *arguments)
    assert (as_json.code, as_json.error["exit_code"]) == (code, code)
    assert run("-C", str(orders), "list", "-o", "json").out == before


def test_the_spelling_of_the_peer_is_understood(run, orders):
    ran = run("-C", str(orders), "ingest", "orders", "x", "--input-format", "EsriShapefile")
    assert (ran.code, "no such file" in ran.err) == (4, True)


def test_a_watermark_is_set_and_told(run, prices):
    root = ["-C", str(prices)]
    ran = run(*root, "pull", "prices", "--set-watermark", "2024-06-01T02:00:00+02:00", "-o", "json")
    assert ran.code == 0
    [dataset] = ran.json["datasets"]
    assert dataset["status"] == "updated"
    assert dataset["watermark"] == "2024-06-01T00:00:00Z"
    assert dataset["blocks"] == 1
    again = run(*root, "pull", "prices", "--set-watermark", "2024-05-31T00:00:00Z")
    assert again.code == 0
    assert "up to date  its watermark is 2024-06-01T00:00:00Z already" in again.out


@pytest.mark.parametrize("text", ["2024-06-01", "yesterday", "2024-06-01T00:00:00", "", "1e9"])
def test_a_watermark_that_is_no_time(run, prices, text):
    ran = run("-C", str(prices), "pull", "prices", "--set-watermark", text)
    assert ran.code == 2
    assert "wanted RFC 3339 such as 2024-01-31T12:00:00Z" in ran.err


def test_a_watermark_of_several_datasets(run, orders):
    for names in (["prices", "orders"], ["--all"]):
        ran = run("-C", str(orders), "pull", *names, "--set-watermark", "2024-06-01T00:00:00Z")
        assert ran.code == 2
        assert "exactly one dataset" in ran.err


def test_show_says_what_kind_a_root_dataset_is(run, prices):
    root = ["-C", str(prices), "show", "prices"]
    assert ["Kind", "root"] in [line.split() for line in run(*root).out.splitlines()]
    assert run(*root, "-o", "json").json["kind"] == "root"

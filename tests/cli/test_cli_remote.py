"""Pulling from folders, repositories and servers: what is remembered, and what goes wrong."""

import socket
from pathlib import Path

import pytest


@pytest.fixture
def shelf(run, prices) -> Path:
    """A folder beside the current one that has the dataset `prices` in it."""
    place = Path.cwd().parent / "shelf"
    assert run("-C", str(prices), "push", "prices", "--to", str(place / "prices")).code == 0
    run("init", "-q")
    return place


def origins(run) -> dict[str, str]:
    return {d["name"]: d["origin"] for d in run("list", "-o", "json").json["datasets"]}


@pytest.mark.parametrize("form", ["../shelf/prices", "{shelf}/prices", "../shelf/./prices/"])
def test_a_folder_is_pulled_by_its_path(run, shelf, form):
    ran = run("pull", form.format(shelf=shelf), "--as", "y")
    assert ran.code == 0
    assert origins(run) == {"y": f"file://{shelf}/prices/"}
    assert "up to date" in run("pull", "y").out
    for again in ("../shelf/prices", f"file://{shelf}/prices", str(shelf / "prices")):
        ran = run("pull", again)
        assert ran.code == 0
        assert "up to date" in ran.out


def test_a_folder_below_and_the_current_one(run, shelf, monkeypatch):
    (shelf / "prices").rename(Path.cwd() / "prices")
    assert run("pull", "./prices", "--as", "below").code == 0
    monkeypatch.chdir("prices")
    ran = run("-C", "..", "pull", ".", "--as", "below")
    assert ran.code == 0
    assert "up to date" in ran.out


def test_the_way_up_is_not_in_the_url_of_a_push(run, prices):
    ran = run("-C", str(prices), "push", "prices", "--to", "../rel", "-o", "json")
    assert ran.code == 0
    assert ran.json["datasets"][0]["url"] == f"file://{Path.cwd().parent}/rel/"
    run("init", "-q")
    added = run("repo", "add", "up", "../rel", "-o", "json")
    assert added.json["repository"]["url"] == f"file://{Path.cwd().parent}/rel/"


def test_the_way_up_through_a_link_is_that_of_the_system(run, shelf, tmp_path):
    (tmp_path / "far" / "off").mkdir(parents=True)
    Path("link").symlink_to(tmp_path / "far" / "off")
    (shelf / "prices").rename(tmp_path / "far" / "prices")
    assert run("pull", "./link/../prices", "--as", "y").code == 0
    assert origins(run) == {"y": f"file://{tmp_path}/far/prices/"}


@pytest.mark.usefixtures("shelf")
def test_a_folder_needs_a_name_here(run):
    ran = run("pull", "../shelf/prices")
    assert ran.code == 2
    assert "hint: odf pull ../shelf/prices --as NAME\n" in ran.err


@pytest.mark.usefixtures("shelf")
def test_a_folder_without_a_dataset(run):
    ran = run("pull", "../shelf", "--as", "y")
    assert ran.code == 4
    assert ran.err.endswith("hint: it holds datasets, each in a folder of its own: prices\n")
    ran = run("pull", "../nowhere", "--as", "y")
    assert ran.code == 4
    assert "nowhere/: there is no dataset\n" in ran.err


def test_a_name_that_is_taken(run, prices, shelf):
    run("-C", str(prices), "repo", "add", "-q", "shelf", str(shelf))
    ran = run("-C", str(prices), "pull", "shelf/prices")
    assert ran.code == 5
    assert ran.err.startswith("error: shelf/prices: there is a dataset named prices already (did:")
    assert "odf pull shelf/prices --as NAME\n" in ran.err


def test_a_dataset_that_is_not_in_the_repository(run, prices, shelf):
    run("repo", "add", "-q", "shelf", str(shelf))
    to = str(shelf / "team" / "fruit")
    assert run("-C", str(prices), "push", "prices", "--to", to).code == 0
    ran = run("pull", "shelf/nosuch")
    assert ran.code == 4
    assert ran.err == (
        f"error: shelf/nosuch: there is no such dataset in file://{shelf}/\n"
        "hint: shelf has prices, team/fruit\n"
    )
    assert "hint: did you mean prices?\n" in run("pull", "shelf/price").err


def test_a_dataset_that_is_not_in_an_empty_repository(run, tmp_path):
    run("init", "-q")
    run("repo", "add", "-q", "shelf", str(tmp_path / "nothing"))
    ran = run("pull", "shelf/nosuch")
    assert ran.code == 4
    assert "hint: odf repo list" in ran.err


def test_damage_to_one_record_does_not_keep_others_from_coming(run, prices, shelf):
    [record] = (prices / ".odf" / "datasets").glob("*/info")
    (record / "config").write_text("nonsense: [")
    other = shelf / "other"
    ran = run("-C", str(prices), "pull", str(other), "--as", "other")
    assert ran.code == 4
    assert "there is no dataset" in ran.err


def test_a_refused_connection(run):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    run("init", "-q")
    ran = run("pull", f"http://127.0.0.1:{port}/x", "--as", "x")
    assert ran.code == 1
    assert f"connection refused: nothing listens at 127.0.0.1, port {port}" in ran.err
    assert "kept" not in ran.err
    assert "Errno" not in ran.err


def test_a_repository_that_nobody_registered(run):
    run("init", "-q")
    ran = run("pull", "shelf/prices")
    assert ran.code == 4
    assert ran.err.endswith("hint: if shelf is a repository, register it: odf repo add shelf URL\n")

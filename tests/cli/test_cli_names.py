"""What names datasets and repositories on a command line, and what does not."""

import pytest

BAD = ["ünï", "a b", "-x-/", "a//b", "did:odf:nothing", "a_b", "x" * 10 + "/"]
COMMANDS = [["log"], ["tail"], ["pull"], ["verify"], ["push", "--to", "r"]]
A_NAME = "a name has letters, digits and dashes, in parts joined by dots: com.example.my-data"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_a_name_is_a_usage_error(run, command, name):
    run("init")
    ran = run(*command, "--", name)
    assert (ran.code, ran.out) == (2, "")
    error, hint = ran.err.splitlines()
    assert error.startswith("error: ")
    assert error.count(repr(name)) == 1
    assert hint.startswith(f"hint: {A_NAME}; or write did:odf:…") or name.startswith("did:")
    assert run("-o", "json", *command, "--", name).error["kind"] == "usage"


@pytest.mark.parametrize("command", ["log", "tail"])
@pytest.mark.parametrize("name", ["./x", "file:///x", "a%"])
def test_looking_needs_one_dataset_of_this_workspace(run, command, name):
    run("init")
    ran = run(command, name)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {name!r} does not name a dataset\n")


@pytest.mark.parametrize("name", ["ünï", "a b", ""])
def test_a_new_name_has_to_be_one(run, name):
    run("init")
    ran = run("pull", "./somewhere", "--as", name)
    assert ran.code == 2
    assert A_NAME in ran.err


@pytest.mark.parametrize("arguments", [["add", "a b", "file:///r"], ["remove", "ünï"]])
def test_what_cannot_be_a_repository_is_a_usage_error(run, arguments):
    run("init")
    ran = run("repo", *arguments)
    assert ran.code == 2
    assert "is not the name of a repository\nhint: a name has letters" in ran.err


def test_push_to_what_is_neither_repository_nor_place(run, prices):
    ran = run("-C", str(prices), "push", "prices", "--to", "a b")
    assert ran.code == 2
    assert "a folder is written ./folder" in ran.err

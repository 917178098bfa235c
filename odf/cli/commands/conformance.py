"""`odf conformance`."""

import sys
from collections.abc import Iterator
from typing import Final

import click

from odf import limits
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand
from odf.errors import UsageError

_KINDS: Final = (
    "block-encode",
    "block-decode",
    "yaml",
    "multihash",
    "did",
    "ref",
    "ddl",
    "digest",
    "merge",
)


@click.command(
    cls=OdfCommand,
    examples=[
        ('echo \'{"id": 1, "text": "did:odf:…"}\' | odf conformance did', "One case"),
        ("cat cases.jsonl | odf conformance block-decode > answers.jsonl", "A file of cases"),
    ],
    exit_codes=[0, 1, 2, 9],
)
@click.argument("kind", type=click.Choice(_KINDS), metavar="KIND")
@pass_app
def command(app: App, kind: str) -> None:
    """Answer test cases of ODF implementations.

    Reads one case a line from standard input, as JSON, and writes one answer a line:
    {"id", "ok": true, "result"} or {"id", "ok": false, "error"}, each as soon as its case came. A
    bad case does not end the run, nor does it change the exit status. No workspace is needed.

    Kinds: block-encode, block-decode, yaml, multihash, did, ref, ddl, digest, and merge, which
    starts the engine. docs/conformance.md has the fields of each.
    """
    from odf.coordinator.conformance import answer, rule_of

    with rule_of(kind, app.environment.settings(app.flags)) as rule:
        for line in _lines():
            app.output.raw(answer(rule, line) + "\n")


def _lines() -> Iterator[bytes]:
    """Read lines from standard input; of one that is too long only the beginning, and too much."""
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    stream = sys.stdin.buffer
    size = limits.MAX_CONFORMANCE_CASE_SIZE + 1
    while line := stream.readline(size):
        yield line
        while len(line) == size and not line.endswith(b"\n"):
            line = stream.readline(size)

"""Whoever reads that their data or source is not accepted is told what to do next."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import odf

ROOT = Path(odf.__file__).parent
PACKAGES = ("ingest", "engines/spark/readers", "engines/spark/merge")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
ERRORS = ("BadInputError", "NotFoundError", "AuthError", "UsageError", "ConflictError")


def without_hint(source: str) -> Iterator[str]:
    """The errors that a module makes without a hint."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in ERRORS and all(given.arg != "hint" for given in node.keywords):
            yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_refusal_has_a_hint(path: Path) -> None:
    assert list(without_hint(path.read_text())) == []


def test_what_this_test_finds() -> None:
    found = list(without_hint("raise BadInputError('x', reason='y')"))
    assert found == ["line 1: BadInputError('x', reason='y')"]
    assert list(without_hint("raise BadInputError('x', hint='y')")) == []
    assert len(FILES) > 50

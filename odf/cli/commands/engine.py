"""`odf engine status`, `odf engine build`."""

from typing import TYPE_CHECKING, Any, Final

import click

from odf.cli.app import App, pass_app
from odf.cli.command import OdfGroup
from odf.cli.output import Output

if TYPE_CHECKING:
    from odf.coordinator.engine_archives import EngineStatus

_MEGABYTE: Final = 1_000_000


@click.group(
    cls=OdfGroup,
    examples=[
        ("odf engine status", "Does Spark start quickly here?"),
        ("odf engine build", "Make it do so; takes a minute, once"),
    ],
    exit_codes=[0, 2],
)
def command() -> None:
    """Manage how the Spark engine starts.

    Java can keep what it learns about Spark's classes in an archive, with which it starts in half
    the time. `make install` makes one. It lies in the cache ($XDG_CACHE_HOME/odf/engines), changes
    no result, and can be deleted at any time.
    """


@command.command(
    "status",
    examples=[
        ("odf engine status", "What it runs on, and whether its archive is taken"),
        ("odf engine status -o json | jq -e .engine.ready", "In a script"),
    ],
    exit_codes=[0, 2, 9],
)
@pass_app
def status(app: App) -> None:
    """Show what Spark runs on, and whether Java takes its archive."""
    from odf.coordinator.engine_archives import engine_status

    found = engine_status(app.environment.settings(app.flags))
    app.output.show(app.command, {"engine": _document(found)}, lambda o: _show(o, found))
    if not found.ready:
        app.output.hint("odf engine build makes the archive")


@command.command(
    "build",
    examples=[
        ("odf engine build", "Only if there is none that fits"),
        ("odf engine build --again", "In place of the one that is there"),
    ],
    exit_codes=[0, 2, 9],
)
@click.option("--again", is_flag=True, help="Make it even if it is there.")
@pass_app
def build(app: App, again: bool) -> None:
    """Make the archive with which Spark starts in half the time.

    Runs Spark on data that it makes up, which takes about a minute. The archives of the last few
    installations are kept.
    """
    from odf.coordinator.engine_archives import build_archive

    app.output.progress("engine", "training Spark and writing its archive; about a minute")
    made = build_archive(app.environment.settings(app.flags), again=again)
    app.output.show(
        app.command, {"engine": _document(made)}, lambda o: None if o.is_quiet else _show(o, made)
    )


def _show(output: Output, status: "EngineStatus") -> None:
    output.line(f"Engine   {status.engine}")
    output.line(f"Java     {status.java}")
    jars = "all of its" if status.all_jars else f"{status.jars}"
    output.line(f"Spark    {status.spark}, {jars} jars")
    output.line(f"Archive  {_archive(status)}")


def _archive(status: "EngineStatus") -> str:
    if not status.ready or status.size is None:
        return f"not in use: {status.reason}"
    made = f"made in {status.seconds:.0f} s" if status.built else "taken by Java"
    return f"{status.size / _MEGABYTE:.0f} MB, {made}: {status.path}"


def _document(status: "EngineStatus") -> dict[str, Any]:
    return {
        "release": status.engine,
        "java": status.java,
        "spark": status.spark,
        "jars": status.jars,
        "ready": status.ready,
        "reason": status.reason,
        "archive": {
            "path": str(status.path),
            "size": status.size,
            "seconds": status.seconds,
            "built": status.built,
        },
    }

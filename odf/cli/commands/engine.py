"""`odf engine list`, `status`, `stop`, `build`, `warmup`, `compat`, `check`."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from odf.cli.app import App, pass_app
from odf.cli.command import OdfGroup, allow_unsandboxed_option, lock_timeout_option
from odf.cli.completion import DatasetArgument
from odf.cli.output import Output
from odf.errors import EngineUnavailableError, NotAWorkspaceError, UsageError

if TYPE_CHECKING:
    from odf.coordinator.context import Context
    from odf.coordinator.engine_archives import EngineStatus
    from odf.coordinator.engine_check import CheckReport
    from odf.coordinator.engine_images import EngineImageStatus
    from odf.coordinator.engine_overview import KnownEngine, RunningEngine, RuntimeStatus

_MEGABYTE: Final = 1_000_000
_ODF_PORT: Final = 5544


@click.group(
    cls=OdfGroup,
    examples=[
        ("odf engine list", "Which engines can manifests ask for here?"),
        ("odf engine status", "What are they run in, and does Spark start quickly?"),
        ("odf engine build", "Make images and Spark's archive; takes minutes, once"),
        ("odf engine check datafusion", "Does an engine behave?"),
    ],
    exit_codes=[0, 1, 2, 9],
)
def command() -> None:
    """Manage engines: what they run in, and how they start.

    Engines run in docker, podman or bubblewrap, whichever works first; docker and podman need the
    images that `odf engine build` makes. The setting engine.runtime chooses one.
    """


@command.command(
    "list",
    examples=[
        ("odf engine list", "Ours, and those of others that the configuration names"),
        ("odf engine list -o json | jq -r '.engines[].name'", "In a script"),
    ],
    exit_codes=[0, 2],
)
@pass_app
def list_engines(app: App) -> None:
    """List the engines that manifests can ask for."""
    from odf.coordinator.engine_overview import known_engines

    found = known_engines(_workspace(app))
    app.output.show(
        app.command,
        {"engines": [_engine_document(engine) for engine in found]},
        lambda output: _show_engines(output, found),
    )


@command.command(
    "status",
    examples=[
        ("odf engine status", "What works here, what runs, whether Spark's archive is taken"),
        ("odf engine status -o json | jq -e .engine.ready", "In a script"),
    ],
    exit_codes=[0, 2, 9],
)
@pass_app
def status(app: App) -> None:
    """Show what engines run in, what runs, and whether Java takes Spark's archive."""
    from odf.coordinator.engine_archives import engine_status
    from odf.coordinator.engine_overview import running_engines, runtime_statuses

    found = engine_status(app.environment.settings(app.flags))
    runtimes, running = runtime_statuses(), running_engines(_workspace(app))
    payload = {
        "engine": _document(found),
        "runtimes": [
            {"name": runtime.name, "works": runtime.works, "reason": runtime.reason}
            for runtime in runtimes
        ],
        "running": [_running_document(engine) for engine in running],
    }
    app.output.show(app.command, payload, lambda o: _show_status(o, found, runtimes, running))
    if not found.ready:
        app.output.hint("odf engine build makes the archive")


@command.command(
    "stop",
    examples=[
        ("odf engine stop", "Before an upgrade, or to have the memory back"),
        ("odf engine stop -o json | jq '.engines | length'", "How many there were"),
    ],
    exit_codes=[0, 2],
)
@pass_app
def stop(app: App) -> None:
    """End engines that wait for the next command, and what killed commands left behind.

    Engines of commands that run are let alone. Stopping one that waits costs the next command the
    time to start another.
    """
    from odf.coordinator.engine_overview import stop_engines

    done = stop_engines(_workspace(app))
    payload = {
        "engines": [_running_document(engine) for engine in done.engines],
        "containers": list(done.containers),
        "sockets": [str(path) for path in done.sockets],
        "in_use": [_running_document(engine) for engine in done.used],
    }

    def show(output: Output) -> None:
        for engine in done.engines:
            output.line(f"stopped {engine.engine} in {engine.runtime} ({_named(engine)})")
        for name in (*done.containers, *map(str, done.sockets)):
            output.line(f"removed {name}")
        for engine in done.used:
            output.line(
                f"left {engine.engine} in {engine.runtime} ({_named(engine)}){_usage(engine)}"
            )
        if not (done.engines or done.containers or done.sockets or done.used):
            output.line("nothing to stop")

    app.output.show(app.command, payload, show)


@command.command(
    "build",
    examples=[
        ("odf engine build", "What is missing"),
        ("odf engine build --again", "In place of what is there"),
        ("odf engine build --only archive", "No images"),
        ("odf engine build --base debian-with-python:12", "Images on a base of one's own"),
    ],
    exit_codes=[0, 2, 9],
)
@click.option("--again", is_flag=True, help="Make it even if it is there.")
@click.option(
    "--only",
    type=click.Choice(["archive", "images"]),
    help="Only Spark's archive, or only the images.",
)
@click.option(
    "--runtime",
    type=click.Choice(["docker", "podman"]),
    help="Which makes the images; else the first that works.",
)
@click.option(
    "--base",
    metavar="IMAGE",
    help="Linux with glibc and Python 3.11 or later to build on; else python:3.11-slim-bookworm.",
)
@pass_app
def build(app: App, again: bool, only: str | None, runtime: Any, base: str | None) -> None:
    """Make what engines start from: Spark's archive, and images for docker and podman.

    The archive lets Spark start in half the time. Making it runs Spark on data that it makes up,
    which takes about a minute; those of the last few installations are kept in the cache
    ($XDG_CACHE_HOME/odf/engines). The images hold the versions that are installed here; the Spark
    one has an archive of its own. Without docker and podman there are no images, and none needed.
    """
    from odf.coordinator.engine_archives import build_archive
    from odf.coordinator.engine_images import build_images

    settings = app.environment.settings(app.flags)
    payload: dict[str, Any] = {}
    made = None
    if only != "images":
        app.output.progress("engine", "training Spark and writing its archive; about a minute")
        made = build_archive(settings, again=again)
        payload["engine"] = _document(made)
    images: tuple[EngineImageStatus, ...] = ()
    if only != "archive":
        images = build_images(
            settings,
            base=base,
            tool=runtime,
            again=again,
            report=lambda text: app.output.progress("engine", text),
        )
        if only == "images" and not images:
            raise EngineUnavailableError(
                "neither docker nor podman works here, so there is nothing to make images with",
                hint="install one of them; or do without: bubblewrap needs no images",
            )
        payload["images"] = [_image_document(image) for image in images]

    def show(output: Output) -> None:
        if output.is_quiet:
            return
        if made is not None:
            _show_archive(output, made)
        for image in images:
            how = "built" if image.built else image.reason or "is there"
            output.line(f"Image    {image.image or image.engine}: {how} ({image.tool})")

    app.output.show(app.command, payload, show)


@command.command(
    "warmup",
    examples=[
        ("odf engine warmup", "Begin to make Spark's archive if it is missing; do not wait"),
        ("odf engine warmup --wait", "In an installation script: until it is there"),
        ("odf engine warmup --wait -o json | jq -e .engine.ready", "In a script"),
    ],
    exit_codes=[0, 2, 9],
)
@click.option("--wait", is_flag=True, help="Until it is there and Java takes it.")
@pass_app
def warmup(app: App, wait: bool) -> None:
    """Have Spark start quickly from now on.

    Makes Spark's archive if it is missing, as 'odf engine build --only archive' does. Without
    --wait that goes on behind this command for a minute or two, with what others leave of the
    processors. Commands at a terminal begin it by themselves when they missed it.
    """
    from odf.coordinator.engine_archives import build_archive, engine_status, make_archive_behind

    settings = app.environment.settings(app.flags)
    if wait:
        app.output.progress("engine", "training Spark and writing its archive; about a minute")
        found = build_archive(settings, again=False)
    else:
        found = engine_status(settings)
    begun = found.possible and not found.ready and not wait
    if begun:
        make_archive_behind(settings)

    def show(output: Output) -> None:
        if begun:
            output.line("making Spark's archive; odf engine status tells when it is there")
        else:
            _show_archive(output, found)

    app.output.show(app.command, {"engine": _document(found), "begun": begun}, show)


@command.command(
    "compat",
    examples=[
        (
            "odf engine compat prices.daily --engine odf-spark/1.1.0",
            "May this release stand in for the pinned one?",
        ),
        (
            "odf engine compat prices.daily --engine odf-spark/1.1.0 -o json | jq .steps",
            "How many steps were run again",
        ),
    ],
    exit_codes=[0, 1, 2, 4, 5, 7, 8, 9, 10],
)
@click.argument("name", type=DatasetArgument(local=True))
@click.option("--engine", "release", metavar="RELEASE", required=True, help="The release to try.")
@allow_unsandboxed_option
@lock_timeout_option
@pass_app
def compat(app: App, name: str, release: str) -> None:
    """Find out whether a release gives what the pinned one gave, and record it.

    Runs the whole history of a derivative dataset again and compares it with the chain. That it
    fits is kept as an attachment of one's own dataset (.odf/engine-compat.json), and in the
    workspace for datasets of others; pulls and 'odf verify' accept it from then on.
    """
    from odf.coordinator.engine_compat import check_compatibility

    found = check_compatibility(app.context(), name, release)
    document = {
        "name": str(found.handle.alias),
        "id": str(found.handle.id),
        "pinned": found.pinned,
        "release": found.release,
        "steps": found.steps,
        "head": None if found.head is None else str(found.head),
        "recorded": found.recorded,
    }
    if found.release == found.pinned:
        end = "; it is pinned to it, so there is nothing to record"
    else:
        end = "; recorded" if found.recorded else "; that was recorded before"
    app.output.show(
        app.command,
        document,
        lambda output: output.line(
            f"{found.release} gives what {found.pinned} gave in all {found.steps} steps of "
            f"{found.handle.alias}{end}"
        ),
    )


@command.command(
    "check",
    examples=[
        ("odf engine check spark", "One of ours, in whatever it would be run in"),
        ("odf engine check spark --runtime bubblewrap", "In another one"),
        ("odf engine check flink", "One of others that the configuration names"),
        ("odf engine check name:tag --engine flink --port 2884", "Any image"),
    ],
    exit_codes=[0, 1, 2, 9],
)
@click.argument("name", metavar="ENGINE|IMAGE")
@click.option(
    "--runtime",
    type=click.Choice(["auto", "docker", "podman", "bubblewrap", "process"]),
    help="What to run it in; else as configured.",
)
@click.option("--engine", metavar="NAME", help="For an image: what transforms call the engine.")
@click.option("--port", type=click.IntRange(1, 65_535), help="For an image: its port; else 5544.")
@pass_app
def check(app: App, name: str, runtime: Any, engine: str | None, port: int | None) -> None:
    """Check that an engine does what engines have to do.

    Runs small queries and looks at what comes back: rows, order, names, types, operations,
    watermarks, errors. What only engines of ours are held to counts as different, not as failed,
    for others. Without a failure the exit status is 0.
    """
    from odf.coordinator.engine_check import CheckTarget, check_engine

    if port is not None and engine is None:
        raise UsageError("--port is for images", hint="say what transforms call it: --engine NAME")
    ctx = _workspace(app)
    settings = app.environment.settings(app.flags)
    chosen = runtime or (ctx.runtime_choice if ctx is not None else settings.runtime or "auto")
    report = check_engine(
        settings,
        CheckTarget(name, engine, port or _ODF_PORT),
        ctx=ctx,
        runtime=chosen,
        report=lambda text: app.output.progress("engine", text),
    )
    app.output.show(
        app.command, _check_document(report), lambda output: _show_checks(output, report)
    )
    if not report.passed:
        raise click.exceptions.Exit(1)


def _workspace(app: App) -> "Context | None":
    """Open the workspace if there is one: engines are there without as well."""
    try:
        return app.context()
    except NotAWorkspaceError:
        return None


def _show_engines(output: Output, engines: "tuple[KnownEngine, ...]") -> None:
    from odf.cli.output import Column

    rows = []
    for engine in engines:
        there = [image.tool for image in engine.images if image.here]
        runs = "yes" if engine.ready else f"no: {engine.reason}"
        images = engine.image or ", ".join(there) or "-"
        rows.append((engine.name, engine.release or "-", images, runs))
    output.table([Column("Name"), Column("Release"), Column("Image"), Column("Ready")], rows)


def _show_checks(output: Output, report: "CheckReport") -> None:
    from odf.cli.output import Column

    rows = [(result.outcome.value, result.name, result.message or "") for result in report.results]
    output.table([Column("Result"), Column("Check"), Column("What was wrong")], rows)
    counts = Counter(result.outcome.value for result in report.results)
    said = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items()))
    output.line(f"{report.release or report.engine} in {report.runtime}: {said}")


def _show_status(
    output: Output,
    archive: "EngineStatus",
    runtimes: "tuple[RuntimeStatus, ...]",
    running: "tuple[RunningEngine, ...]",
) -> None:
    _show_archive(output, archive)
    for runtime in runtimes:
        output.line(f"Runtime  {runtime.name}: {runtime.reason or 'works'}")
    for engine in running:
        output.line(
            f"Running  {engine.engine or 'engine'} in {engine.runtime}: {_named(engine)}"
            f"{_usage(engine)}"
        )


def _named(engine: "RunningEngine") -> str:
    what = "process" if engine.place.isdigit() else "container"
    return f"{what} {engine.place}"


def _usage(engine: "RunningEngine") -> str:
    if not engine.answers:
        return ", does not answer (odf engine stop ends it)"
    match engine.commands:
        case None:
            return ""
        case 0:
            return f", idle for {engine.idle_seconds or 0:.0f} s"
        case 1:
            return ", used by 1 command"
        case many:
            return f", used by {many} commands"


def _show_archive(output: Output, found: "EngineStatus") -> None:
    output.line(f"Engine   {found.engine}")
    output.line(f"Java     {found.java}")
    jars = "all of its" if found.all_jars else f"{found.jars}"
    output.line(f"Spark    {found.spark}, {jars} jars")
    output.line(f"Archive  {_archive(found)}")


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


def _engine_document(engine: "KnownEngine") -> dict[str, Any]:
    return {
        "name": engine.name,
        "release": engine.release,
        "image": engine.image,
        "ready": engine.ready,
        "reason": engine.reason,
        "images": [_image_document(image) for image in engine.images],
    }


def _image_document(image: "EngineImageStatus") -> dict[str, Any]:
    return {
        "engine": image.engine,
        "runtime": image.tool,
        "image": image.image,
        "here": image.here,
        "built": image.built,
        "reason": image.reason,
    }


def _check_document(report: "CheckReport") -> dict[str, Any]:
    return {
        "engine": report.engine,
        "release": report.release,
        "runtime": report.runtime,
        "passed": report.passed,
        "checks": [
            {
                "name": result.name,
                "result": result.outcome.value,
                "message": result.message,
                "seconds": result.seconds,
            }
            for result in report.results
        ],
    }


def _running_document(engine: "RunningEngine") -> dict[str, Any]:
    return {
        "engine": engine.engine,
        "runtime": engine.runtime,
        "place": engine.place,
        "commands": engine.commands,
        "idle_seconds": engine.idle_seconds,
        "answers": engine.answers,
    }

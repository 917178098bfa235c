"""`odf add`."""

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odf import limits
from odf.cli import text
from odf.cli.added import add_to_json, print_added
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand, allow_unsandboxed_option, lock_timeout_option
from odf.cli.losses import confirmation
from odf.cli.output import Output
from odf.errors import BadInputError, NotFoundError, UsageError

if TYPE_CHECKING:
    from odf.coordinator.add import Existing, ManifestText
    from odf.coordinator.consent import ConsentRequest

_STDIN = "-"


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf add prices.yaml", "Make the datasets that a file describes"),
        ("odf add --update *.yaml", "Bring datasets in line with their manifests"),
        ("generate | odf add -", "Read manifests from standard input"),
        ("odf add prices.yaml --allow-env API_KEY", "Agree to what its source reads"),
    ],
    exit_codes=[0, 1, 2, 4, 5, 6, 8, 9, 10],
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option(
    "--if-exists",
    type=click.Choice(["fail", "skip"]),
    help="What to do if a dataset exists: fail (default), or leave it alone.",
)
@click.option(
    "--update", is_flag=True, help="Append to existing datasets what the manifests change."
)
@click.option("--replace", is_flag=True, help="Delete existing datasets and make them anew.")
@click.option("-y", "--yes", is_flag=True, help="Replace without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option(
    "--allow-env",
    multiple=True,
    metavar="NAME",
    help="Let manifests read this variable of the environment; may be repeated.",
)
@click.option(
    "--allow-recompute",
    is_flag=True,
    help="Accept queries that read the whole history in every run.",
)
@click.option("--allow-commands", is_flag=True, help="Let manifests run commands and containers.")
@lock_timeout_option
@allow_unsandboxed_option
@pass_app
def command(
    app: App,
    files: tuple[str, ...],
    *,
    if_exists: str | None,
    update: bool,
    replace: bool,
    yes: bool,
    dry_run: bool,
    allow_env: tuple[str, ...],
    allow_commands: bool,
    allow_recompute: bool,
) -> None:
    """Make datasets from manifests.

    A manifest is a YAML document of kind DatasetSnapshot; a file may hold several, in any order.
    All of them are made, or none: mistakes in all files are reported at once. Nothing is fetched
    yet; that is what 'odf pull' does.

    A dataset that exists is an error, unless one says what to do about it. --update compares the
    manifest with what the dataset's chain says now, shows the difference and appends it; what the
    manifest does not mention stays. --replace deletes the dataset with its data and makes a new
    one of the same name; nothing may be derived from it.

    Where a source would read variables of the environment or run commands, you are asked first;
    off a terminal --allow-env and --allow-commands say it. The answer holds for every pull.
    """
    from odf.coordinator.add import AddOptions, add_manifests
    from odf.coordinator.consent import Grants

    existing = _existing(if_exists, update=update, replace=replace)
    ctx = app.context()
    can_ask = app.output.can_ask(sys.stdin)
    grants = Grants(
        environment=frozenset(allow_env),
        commands=allow_commands,
        ask=partial(_ask, app.output) if can_ask else None,
    )
    options = AddOptions(
        existing=existing,
        dry_run=dry_run,
        confirm=confirmation(app.output, yes=yes, question="Replace all of this?"),
        allow_recompute=allow_recompute,
    )
    report = add_manifests(ctx, _read(files), grants, options)
    for added in report.added:
        for warning in added.warnings:
            app.output.warn(f"{added.alias}: {warning}")
    app.output.show(app.command, add_to_json(report), lambda output: print_added(output, report))
    if report.dry_run:
        app.output.note("dry run: nothing was written")
        return
    new = [added for added in report.added if added.action.value in ("added", "replaced")]
    if new:
        app.output.hint(f"fetch its data with: odf pull {new[-1].alias}")


def _existing(if_exists: str | None, *, update: bool, replace: bool) -> "Existing":
    from odf.coordinator.add import Existing

    chosen = [
        flag
        for flag, given in (
            ("--if-exists", if_exists is not None),
            ("--update", update),
            ("--replace", replace),
        )
        if given
    ]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} contradict each other: say one of them")
    if update:
        return Existing.UPDATE
    return Existing.REPLACE if replace else Existing(if_exists or "fail")


def _ask(output: Output, requests: "Sequence[ConsentRequest]") -> bool:
    """Show what manifests would read and run, and ask whether they may."""
    facts: list[str] = []
    for request in requests:
        needs = request.needs
        facts.append(f"{request.name} would, whenever it is pulled,")
        if needs.environment:
            facts.append(f"  read from your environment: {', '.join(needs.environment)}")
            facts.append(f"    to fetch {needs.place}")
        facts += [f"  run: {shlex.join(command)}" for command in needs.commands]
    return output.ask(facts, "Do you allow this?", sys.stdin)


def _read(files: tuple[str, ...]) -> "list[ManifestText]":
    from odf.coordinator.add import ManifestText

    if files.count(_STDIN) > 1:
        raise UsageError("standard input ('-') can be read only once")
    return [ManifestText(source=file, text=_read_one(file)) for file in files]


def _read_one(file: str) -> str:
    """Read a manifest's text, bounded, as UTF-8."""
    limit = limits.MAX_MANIFEST_SIZE
    try:
        if file == _STDIN:
            if sys.stdin is None:
                raise UsageError("standard input is closed")
            content = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(file).open("rb") as stream:
                content = stream.read(limit + 1)
    except FileNotFoundError:
        raise NotFoundError(f"{file}: there is no such file") from None
    except OSError as e:
        raise BadInputError(
            f"{file}: cannot be read: {e.strerror}", reason="unreadable_file"
        ) from None
    if len(content) > limit:
        raise BadInputError(
            f"{file}: larger than a manifest may be ({text.size(limit)})", reason="too_large"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = content[: e.start].count(b"\n") + 1
        raise BadInputError(
            f"{file}:{line}: is not UTF-8 text (byte 0x{content[e.start]:02x})", reason="not_text"
        ) from None

"""`odf push`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from odf.cli import text
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand, lock_timeout_option
from odf.cli.completion import DatasetArgument, RepositoryArgument
from odf.cli.outcome import Failure, asks_for_one, raise_failures
from odf.cli.output import Cell, Column, Output
from odf.errors import OdfError

if TYPE_CHECKING:
    from odf.coordinator.results import PushedDataset

_STYLES = {"updated": "green", "failed": "red"}


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf push prices --to partner", "Send what the repository does not have yet"),
        ("odf push prices index --to partner", "Several datasets"),
        ("odf push prices --to /mnt/share/prices", "To a folder, as a single dataset"),
    ],
    exit_codes=[0, 1, 2, 3, 4, 5, 6, 8, 10, 130],
)
@click.argument("refs", nargs=-1, required=True, metavar="NAME...", type=DatasetArgument())
@click.option(
    "--to",
    "target",
    required=True,
    metavar="REPO",
    type=RepositoryArgument(place=True),
    help="A repository; or for a single dataset a URL or folder.",
)
@click.option("-f", "--force", is_flag=True, help="Replace a different history over there.")
@lock_timeout_option
@pass_app
def command(app: App, refs: tuple[str, ...], target: str, *, force: bool) -> None:
    """Send datasets to a repository.

    Only what is missing there travels; the head moves last, so readers never see half a dataset.
    A dataset whose history differs from the one there is refused (exit status 5) unless forced.
    """
    from odf.cli.plain import to_plain
    from odf.coordinator.push import push

    report = push(app.context(), refs, target, force=force)
    app.output.show(
        app.command,
        {"datasets": to_plain(report.datasets)},
        lambda output: _print(output, report.datasets),
    )
    failures = [
        Failure(dataset.name, dataset.error or OdfError("failed"))
        for dataset in report.datasets
        if dataset.status.value == "failed"
    ]
    raise_failures(
        app.output,
        failures,
        total=len(report.datasets),
        one=asks_for_one(refs, everything=False),
    )


def _print(output: Output, datasets: Sequence["PushedDataset"]) -> None:
    # The error of a single dataset says it all.
    shown = [entry for entry in datasets if len(datasets) > 1 or entry.error is None]
    if output.is_quiet or not shown:
        return
    output.table(
        [
            Column("Dataset", style="bold", shrink=True, shrink_last=True),
            Column("Result"),
            Column("Blocks", align="right"),
            Column("Objects", align="right"),
            Column("Size", align="right"),
            Column("To", shrink=True),
        ],
        [
            (
                dataset.name,
                Cell(dataset.status.value.replace("-", " "), _STYLES.get(dataset.status.value, "")),
                text.count(dataset.blocks),
                text.count(dataset.objects),
                text.size(dataset.bytes),
                dataset.url,
            )
            for dataset in shown
        ],
    )

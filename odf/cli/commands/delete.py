"""`odf delete`."""

from typing import TYPE_CHECKING

import click

from odf.cli import text
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand, lock_timeout_option
from odf.cli.completion import DatasetArgument
from odf.cli.losses import confirmation, lost_to_json
from odf.cli.output import Column, Output

if TYPE_CHECKING:
    from odf.coordinator.results import DeleteReport


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf delete prices", "Asks first, and says what is lost"),
        ("odf delete -r prices --dry-run", "What would go with it"),
        ("odf delete -y 'test.%'", "By a pattern, in a script"),
    ],
    exit_codes=[0, 1, 2, 4, 5, 6, 8, 10],
)
@click.argument("refs", nargs=-1, required=True, metavar="NAME...", type=DatasetArgument())
@click.option("-r", "--recursive", is_flag=True, help="Delete what is derived from them too.")
@click.option("-y", "--yes", is_flag=True, help="Delete without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@lock_timeout_option
@pass_app
def command(app: App, refs: tuple[str, ...], *, recursive: bool, yes: bool, dry_run: bool) -> None:
    """Delete datasets with all of their data.

    A dataset from which others in the workspace are derived is not deleted, unless these go too:
    -r takes them along. Copies elsewhere are not touched, and the dataset's private key stays in
    the key store ('odf key list').
    """
    from odf.coordinator.delete import delete

    report = delete(
        app.context(),
        refs,
        recursive=recursive,
        dry_run=dry_run,
        confirm=confirmation(app.output, yes=yes, question="Delete all of this?"),
    )
    app.output.show(
        app.command,
        {
            "dry_run": report.dry_run,
            "datasets": [lost_to_json(dataset) for dataset in report.datasets],
        },
        lambda output: _print(output, report),
    )
    if report.dry_run:
        app.output.note("dry run: nothing was deleted")


def _print(output: Output, report: "DeleteReport") -> None:
    if output.is_quiet:
        return
    output.table(
        [
            Column("Would delete" if report.dry_run else "Deleted", style="bold", shrink=True),
            Column("Kind"),
            Column("Blocks", align="right"),
            Column("Rows", align="right"),
            Column("Size", align="right"),
            Column("Copies", shrink=True),
        ],
        [
            (
                str(dataset.alias),
                "broken" if dataset.kind is None else dataset.kind.name.lower(),
                text.count(dataset.blocks),
                text.count(dataset.records),
                text.size(dataset.size),
                ", ".join(dataset.elsewhere) or "-",
            )
            for dataset in report.datasets
        ],
    )

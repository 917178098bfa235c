"""`odf drop-data`."""

from typing import TYPE_CHECKING

import click

from odf.cli import text
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand, lock_timeout_option
from odf.cli.completion import DatasetArgument
from odf.cli.output import Column, Output

if TYPE_CHECKING:
    from odf.coordinator.results import DroppedDataset


@click.command(
    "drop-data",
    cls=OdfCommand,
    examples=[
        ("odf drop-data prices.daily", "Keep the chain, free the space"),
        ("odf pull prices.daily", "Make the same rows again"),
        ("odf drop-data '%.daily' -o json", "By a pattern, in a script"),
    ],
    exit_codes=[0, 1, 2, 4, 5, 7, 8, 9, 10],
)
@click.argument("refs", nargs=-1, required=True, metavar="NAME...", type=DatasetArgument())
@click.option(
    "-f", "--force", is_flag=True, help="Also where the engine that made the data is not here."
)
@lock_timeout_option
@pass_app
def command(app: App, refs: tuple[str, ...], *, force: bool) -> None:
    """Free the space of data that can be derived again.

    Removes the slices of derivative datasets and keeps their chains, which say what the rows were.
    Reading such a dataset, or 'odf pull', makes the rows again from its inputs and compares them
    with the chain. Until then 'odf verify' says that the data was dropped, and 'odf push' stops.
    Nothing is removed if an input, or the release of an engine that made the data, is not here.
    """
    from odf.coordinator.drop_data import drop_data

    dropped = drop_data(app.context(), refs, force=force)
    app.output.show(
        app.command,
        {
            "datasets": [
                {"name": one.name, "id": str(one.id), "slices": one.slices, "bytes": one.size}
                for one in dropped
            ]
        },
        lambda output: _print(output, dropped),
    )


def _print(output: Output, dropped: "tuple[DroppedDataset, ...]") -> None:
    if output.is_quiet:
        return
    output.table(
        [
            Column("Dropped", style="bold", shrink=True),
            Column("Slices", align="right"),
            Column("Freed", align="right"),
        ],
        [(one.name, text.count(one.slices), text.size(one.size)) for one in dropped],
    )

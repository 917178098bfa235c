"""`odf tail`."""

from typing import TYPE_CHECKING

import click

from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand
from odf.cli.completion import DatasetArgument

if TYPE_CHECKING:
    from odf.coordinator.tail import Tail

_DEFAULT_ROWS = 10


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf tail prices", "The last ten rows"),
        ("odf tail prices -n 100", "The last hundred"),
        ("odf tail prices -o json | jq '.rows[].price'", "One column of them"),
    ],
    exit_codes=[0, 1, 2, 4, 7, 10],
)
@click.argument("name", type=DatasetArgument(local=True))
@click.option(
    "-n",
    "--rows",
    type=click.IntRange(min=1, max=1_000_000),
    default=_DEFAULT_ROWS,
    show_default=True,
    metavar="N",
    help="How many rows.",
)
@pass_app
def command(app: App, name: str, rows: int) -> None:
    """Show the last rows of a dataset.

    Rows are in the order of their offsets, the newest last. The operation is +A (append),
    -R (retract), -C and +C (a row before and after its correction). NULL is a missing value, ""
    an empty text; text that could be taken for something else is quoted. Times are UTC.
    """
    from odf.coordinator.tail import tail

    found = tail(app.context(), name, rows)
    if found.table is None or found.table.num_rows == 0:
        app.output.note(f"{found.dataset.alias} has no rows yet; odf pull fetches them")
    if app.output.is_json:
        app.output.document(app.command, _to_json(found))
    elif found.table is not None:
        from odf.cli.rows import print_rows

        vocab = found.vocab
        print_rows(app.output, found.table, vocab.operation_type_column, vocab.system_time_column)


def _to_json(found: "Tail") -> dict[str, object]:
    from odf.cli.rows import columns_to_json, rows_to_json

    operation = found.vocab.operation_type_column
    return {
        "name": str(found.dataset.alias),
        "id": str(found.dataset.id),
        "columns": [] if found.table is None else columns_to_json(found.table),
        "rows": [] if found.table is None else rows_to_json(found.table, operation),
    }

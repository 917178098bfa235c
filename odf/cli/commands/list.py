"""`odf list`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from odf.cli import text
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand
from odf.cli.output import Cell, Column, Output

if TYPE_CHECKING:
    from odf.coordinator.results import ListedDataset


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf list", "A table of all datasets"),
        ("odf list -o json | jq -r '.datasets[].name'", "Only the names"),
        ("odf list --wide", "With identities, heads and watermarks"),
    ],
    exit_codes=[0, 2, 10],
)
@click.option("-w", "--wide", is_flag=True, help="More columns.")
@pass_app
def command(app: App, wide: bool) -> None:
    """List the datasets of the workspace.

    Datasets that cannot be read, or only in part, are listed with their problem, and do not make
    the command fail. Sizes are those of the data slices. JSON always has every column; a terminal
    that is too narrow gets those that fit.
    """
    from odf.coordinator.listing import list_datasets

    datasets = list_datasets(app.context())
    app.output.show(
        app.command,
        {"datasets": [_to_json(dataset) for dataset in datasets]},
        lambda output: _print(output, datasets, wide=wide),
    )
    if not datasets:
        app.output.note("there are no datasets yet; odf add FILE makes one")


def _to_json(dataset: "ListedDataset") -> dict[str, object]:
    from odf.cli.plain import to_plain

    return {
        "name": str(dataset.alias),
        "id": str(dataset.id),
        "kind": to_plain(dataset.kind),
        "origin": dataset.origin,
        "head": to_plain(dataset.head),
        "blocks": dataset.blocks,
        "records": dataset.records,
        "size": dataset.size,
        "updated": to_plain(dataset.last_update),
        "watermark": to_plain(dataset.watermark),
        "problem": dataset.problem,
    }


def _print(output: Output, datasets: Sequence["ListedDataset"], *, wide: bool) -> None:
    if not datasets:
        return
    columns = [
        Column("Name", style="bold", shrink=True, shrink_last=True, least=16),
        Column("Kind"),
        Column("Records", align="right", drop=4),
        Column("Size", align="right", drop=6),
        Column("Updated (UTC)", drop=5),
        Column("Origin", shrink=True, drop=8),
    ]
    if wide:
        columns += [
            Column("Blocks", align="right", drop=7),
            Column("Watermark (UTC)", drop=3),
            Column("Head", drop=2),
            Column("ID", shrink=True, shrink_last=True, least=24, drop=1),
        ]
    output.table(columns, [_row(dataset, wide=wide) for dataset in datasets])
    for dataset in datasets:
        if dataset.problem:
            output.warn(f"{dataset.alias}: {dataset.problem}")


def _row(dataset: "ListedDataset", *, wide: bool) -> list[str | Cell]:
    broken = dataset.kind is None
    row: list[str | Cell] = [
        str(dataset.alias),
        _kind(dataset),
        "-" if broken else text.count(dataset.records),
        "-" if broken else text.size(dataset.size),
        text.seconds(dataset.last_update),
        dataset.origin,
    ]
    if wide:
        row += [
            "-" if broken else text.count(dataset.blocks),
            text.seconds(dataset.watermark),
            dataset.head.short if dataset.head else "-",
            str(dataset.id),
        ]
    return row


def _kind(dataset: "ListedDataset") -> str | Cell:
    """Return the kind: red where nothing could be read, yellow where only a part was understood."""
    if dataset.kind is None:
        return Cell("broken", "red")
    kind = dataset.kind.name.lower()
    return Cell(kind, "yellow") if dataset.problem else kind

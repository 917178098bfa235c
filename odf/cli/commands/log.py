"""`odf log`."""

from typing import TYPE_CHECKING

import click

from odf.cli import text
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand
from odf.cli.completion import DatasetArgument

if TYPE_CHECKING:
    from odf.coordinator.log import LogEntry

_KIND_WIDTH = len("ExecuteTransform")


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf log prices", "All blocks, newest first"),
        ("odf log prices --limit 5", "The five newest"),
        ("odf log prices -o json | jq '.blocks[0].block.event'", "The newest event in full"),
    ],
    exit_codes=[0, 1, 2, 4, 7, 10],
)
@click.argument("name", type=DatasetArgument(local=True))
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), metavar="N", help="Only the N newest blocks."
)
@pass_app
def command(app: App, name: str, limit: int | None) -> None:
    """Show the metadata chain of a dataset.

    One line for each block, newest first: its number, the end of its hash, its system time, the
    kind of its event, and what the event says. JSON has the hashes and events in full.
    """
    from odf.coordinator.log import read_log

    dataset, entries = read_log(app.context(), name, limit=limit)
    if app.output.is_json:
        app.output.document(
            app.command,
            {
                "name": str(dataset.alias),
                "id": str(dataset.id),
                "blocks": [_to_json(entry) for entry in entries],
            },
        )
        return
    number_width = 0
    for entry in entries:
        number_width = number_width or len(str(entry.number))
        app.output.line(_line(entry, number_width, app.output.width))


def _to_json(entry: "LogEntry") -> dict[str, object]:
    from odf.metadata.yaml import to_json

    return {
        "number": entry.number,
        "hash": str(entry.hash),
        "system_time": str(entry.system_time),
        "kind": entry.kind,
        "summary": entry.summary,
        "block": to_json(entry.block),
    }


def _line(entry: "LogEntry", number_width: int, width: int) -> str:
    line = text.clean(
        f"{entry.number:>{number_width}}  {entry.hash.short}  {text.seconds(entry.system_time)}  "
        f"{entry.kind:<{_KIND_WIDTH}}  {entry.summary}".rstrip()
    )
    return line if len(line) <= width else line[: width - 1] + "…"

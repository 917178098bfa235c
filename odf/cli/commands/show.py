"""`odf show`."""

from typing import TYPE_CHECKING

import click

from odf.cli import text
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand
from odf.cli.completion import DatasetArgument
from odf.cli.output import Column, Output

if TYPE_CHECKING:
    from odf.coordinator.show import ShownDataset


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf show prices", "Where it comes from, what it holds, how far it is"),
        ("odf show prices -o json | jq -r '.columns[].name'", "Its columns, in a script"),
    ],
    exit_codes=[0, 1, 2, 4, 7, 10],
)
@click.argument("name", type=DatasetArgument(local=True))
@pass_app
def command(app: App, name: str) -> None:
    """Show what a dataset is and holds, and how far it is.

    That is its source or query, its columns, its rows and its watermark. Of a query it says what
    kind it is, and what the engine keeps between runs for it. Nothing is fetched or computed; 'odf
    log' shows the history.
    """
    from odf.coordinator.show import show

    shown = show(app.context(), name)
    app.output.show(app.command, _to_json(shown), lambda output: _print(output, shown))


def _to_json(shown: "ShownDataset") -> dict[str, object]:
    state = shown.state
    transform = state.transform.transform if state.transform else None
    return {
        "name": str(shown.handle.alias),
        "id": str(shown.handle.id),
        "kind": None if state.kind is None else state.kind.name.lower(),
        "head": str(state.head) if state.head else None,
        "blocks": state.num_blocks,
        "records": state.num_records,
        "slices": state.num_slices,
        "bytes": state.data_size,
        "dropped_slices": shown.dropped,
        "watermark": str(state.watermark) if state.watermark else None,
        "last_update": str(state.last_data_time) if state.last_data_time else None,
        "description": state.info.description if state.info else None,
        "keywords": list(state.info.keywords or ()) if state.info else [],
        "license": state.license.short_name if state.license else None,
        "pulled_from": list(shown.handle.pull_aliases),
        "sources": list(shown.sources),
        "inputs": list(shown.inputs),
        "query": None
        if transform is None or shown.query is None
        else {
            "engine": transform.engine,
            "version": transform.version,
            "class": shown.query.query_class,
            "description": shown.query.description or None,
            "allow_recompute": shown.query.allow_recompute,
        },
        "problem": state.opaque,
        "columns": None
        if shown.columns is None
        else [
            {"name": column.name, "type": column.type, "nullable": column.nullable}
            for column in shown.columns
        ],
    }


def _print(output: Output, shown: "ShownDataset") -> None:
    facts = [(what, said) for what, said in _facts(shown) if said]
    width = max(len(what) for what, _ in facts)
    for what, said in facts:
        output.line(text.one_line(f"{what:<{width}}  {said}"))
    if shown.columns:
        output.line("")
        output.table(
            [Column("Column", style="bold", shrink=True), Column("Type"), Column("Nulls")],
            [
                (column.name, column.type, "may be null" if column.nullable else "never null")
                for column in shown.columns
            ],
        )


def _facts(shown: "ShownDataset") -> list[tuple[str, str]]:
    state = shown.state
    rows = "no data yet"
    if state.num_slices:
        slices = text.counted(state.num_slices, "slice")
        rows = f"{text.count(state.num_records)} in {slices}, {text.size(state.data_size)}"
        if shown.dropped:
            rows += f"; the data of {shown.dropped} was dropped"
    return [
        ("Name", str(shown.handle.alias)),
        ("Identity", str(shown.handle.id)),
        ("Kind", "unknown" if state.kind is None else state.kind.name.lower()),
        ("About", (state.info.description or "") if state.info else ""),
        ("Licence", state.license.short_name if state.license else ""),
        ("Pulled from", ", ".join(shown.handle.pull_aliases)),
        *(("Source", source) for source in shown.sources),
        ("Inputs", ", ".join(shown.inputs)),
        ("Query", _query(shown)),
        ("Rows", rows),
        ("Watermark", str(state.watermark) if state.watermark else ""),
        ("Updated", text.seconds(state.last_data_time) if state.last_data_time else ""),
        ("Blocks", text.count(state.num_blocks)),
        ("Head", str(state.head) if state.head else ""),
        ("Problem", state.opaque or ""),
    ]


def _query(shown: "ShownDataset") -> str:
    if shown.state.transform is None or shown.query is None:
        return ""
    transform = shown.state.transform.transform
    engine = transform.version or transform.engine
    kind = shown.query.words or "of a kind that is seen when it is first pulled"
    return f"{kind} ({engine})"

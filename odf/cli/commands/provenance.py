"""`odf provenance`."""

from typing import TYPE_CHECKING, Final

import click

from odf.cli import text
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand, allow_unsandboxed_option
from odf.cli.completion import DatasetArgument
from odf.cli.output import Output
from odf.cli.ranges import number_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from odf.coordinator.provenance import ExplainedDataset, ExplainedStep

_SHOWN: Final = 8


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf provenance index --offset 42", "The rows of its inputs that row 42 comes from"),
        ("odf provenance index --offset 40..49 -r", "Ten rows, down to the root datasets"),
        (
            "odf provenance index --offset 42 -o json | jq '.datasets[0].rows[0].inputs'",
            "In a script",
        ),
    ],
    exit_codes=[0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 130],
)
@click.argument("name", type=DatasetArgument(local=True))
@click.option("--offset", "offsets", metavar="N[..M]", required=True, help="Which rows.")
@click.option("-r", "--recursive", is_flag=True, help="Down to the root datasets.")
@allow_unsandboxed_option
@pass_app
def command(app: App, name: str, offsets: str, *, recursive: bool) -> None:
    """Show where rows of a derivative dataset come from.

    For each row it names the rows of the inputs. The steps that made the rows are run again with
    the offsets of their inputs carried along. That works for queries that map, filter and unite
    rows, for windowed aggregates and for joins by event time; for others it says why not. 'odf
    tail' shows rows with their offsets.
    """
    first, last = number_range(offsets, "--offset")
    from odf.coordinator.provenance import provenance

    found = provenance(app.context(), name, first, last, recursive=recursive)
    app.output.show(
        app.command,
        {"datasets": [_to_json(dataset) for dataset in found]},
        lambda output: _print(output, found),
    )


def _to_json(dataset: "ExplainedDataset") -> dict[str, object]:
    return {
        "name": str(dataset.handle.alias),
        "id": str(dataset.handle.id),
        "kind": "derivative" if dataset.steps else "root",
        "offsets": list(dataset.offsets),
        "steps": [
            {
                "block": str(step.block),
                "how": step.how,
                "columns": [
                    {
                        "column": origin.column,
                        "sources": [
                            {"input": source.input, "column": source.column}
                            for source in origin.sources
                        ],
                    }
                    for origin in step.columns
                ],
            }
            for step in dataset.steps
        ],
        "rows": [
            {
                "offset": row.offset,
                "block": str(step.block),
                "how": step.how,
                "inputs": _inputs(step, row.sources),
            }
            for step in dataset.steps
            for row in step.rows
        ],
    }


def _inputs(step: "ExplainedStep", sources: "Sequence[tuple[int, int]]") -> list[dict[str, object]]:
    return [
        {
            "name": str(handle.alias),
            "id": str(handle.id),
            "offsets": [offset for at, offset in sources if at == number],
        }
        for number, handle in enumerate(step.inputs)
        if any(at == number for at, _ in sources)
    ]


def _print(output: Output, datasets: "Sequence[ExplainedDataset]") -> None:
    for dataset in datasets:
        name = dataset.handle.alias
        if not dataset.steps:
            rows = text.counted(len(dataset.offsets), "row")
            output.line(f"{name}: {rows} from outside, {_shortened(dataset.offsets)}")
        for step in dataset.steps:
            output.line(f"{name}: {step.how}, block {step.block.short}")
            for row in step.rows:
                parts = [
                    f"{step.inputs[number].alias} "
                    + _shortened([offset for at, offset in row.sources if at == number])
                    for number in sorted({at for at, _ in row.sources})
                ]
                output.line(f"  {row.offset} from {'; '.join(parts)}")


def _shortened(offsets: "Sequence[int]") -> str:
    shown = ", ".join(map(str, offsets[:_SHOWN]))
    return shown if len(offsets) <= _SHOWN else f"{shown} and {len(offsets) - _SHOWN} more"

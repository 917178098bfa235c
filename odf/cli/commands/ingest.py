"""`odf ingest`."""

import io
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

import click

from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand, allow_unsandboxed_option, lock_timeout_option
from odf.cli.completion import DatasetArgument
from odf.cli.output import Cell, Column, Output
from odf.cli.text import begins_with
from odf.cli.times import Time
from odf.cli.updates import STYLES, details
from odf.errors import OdfError, in_context

if TYPE_CHECKING:
    from odf.coordinator.results import IngestReport
    from odf.metadata.model import Timestamp

_FORMATS = ("csv", "json", "ndjson", "geojson", "ndgeojson", "parquet", "shapefile")


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf ingest orders monday.csv tuesday.csv", "Two files, one commit each"),
        ("curl -fsS https://example.org/a | odf ingest orders -", "What a program writes"),
        ("odf ingest orders - --input-format ndjson", "Rows in another format than declared"),
        ("odf ingest readings day.csv --source-name attic", "One of several push sources"),
    ],
    exit_codes=[0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 130],
)
@click.argument("ref", metavar="NAME", type=DatasetArgument(local=True))
@click.argument("files", nargs=-1, metavar="[FILE | -]...", type=click.Path())
@click.option("--source-name", metavar="NAME", help="The push source; needed if there are several.")
@click.option(
    "--event-time",
    type=Time(),
    metavar="TIME",
    help="Event time of rows that have none, such as 2024-01-31T12:00:00Z (default: now).",
)
@click.option(
    "--input-format",
    type=click.Choice([*_FORMATS, "esrishapefile"], case_sensitive=False),
    metavar="FORMAT",
    help=f"What the files are written in ({', '.join(_FORMATS)}) if not what the source says.",
)
@click.option("--allow-retract", is_flag=True, help="Accept snapshots that lose most rows.")
@click.option("--allow-empty", is_flag=True, help="Accept files without any content.")
@click.option(
    "--on-bad-rows",
    type=click.Choice(["stop", "quarantine"]),
    default="stop",
    help="Stop at rows that cannot be read (default), or set them aside in a file.",
)
@lock_timeout_option
@allow_unsandboxed_option
@pass_app
def command(
    app: App,
    ref: str,
    files: tuple[str, ...],
    *,
    source_name: str | None,
    event_time: "Timestamp | None",
    input_format: str | None,
    allow_retract: bool,
    allow_empty: bool,
    on_bad_rows: str,
) -> None:
    """Push files or standard input into a root dataset.

    Rows are read, preprocessed and merged as the dataset's push source says (AddPushSource in its
    manifest). Each file becomes one commit, in the order given; the first one that fails ends the
    run, and those before it stay committed. '-' is standard input, which is read to its end first.
    """
    from odf.cli.plain import to_plain
    from odf.coordinator.ingest import IngestRequest, ingest
    from odf.metadata.input_formats import InputFormat

    wanted = input_format.removeprefix("esri") if input_format else None
    request = IngestRequest(
        ref=ref,
        files=files,
        source_name=source_name,
        event_time=event_time,
        input_format=InputFormat(wanted) if wanted else None,
        allow_retract=allow_retract,
        allow_empty=allow_empty,
        quarantine=on_bad_rows == "quarantine",
    )
    # A process that was started without standard input has none to read.
    stdin = io.BytesIO() if sys.stdin is None else sys.stdin.buffer
    report = ingest(app.context(), request, stdin)
    for file in report.files:
        for warning in file.warnings:
            app.output.warn(f"{report.name}: {warning}")
    document = {field.name: to_plain(getattr(report, field.name)) for field in fields(report)}
    app.output.show(app.command, document, lambda output: _print(output, report))
    _raise_failure(report)


def _print(output: Output, report: "IngestReport") -> None:
    # The error of a single file says it all.
    shown = [file for file in report.files if len(report.files) > 1 or file.error is None]
    if output.is_quiet or not shown:
        return
    output.table(
        [
            Column("File", style="bold", shrink=True, shrink_last=True),
            Column("Result"),
            Column("", shrink=True),
        ],
        [
            (
                file.name,
                Cell(file.status.value.replace("-", " "), STYLES[file.status.value]),
                details(file),
            )
            for file in shown
        ],
    )


def _raise_failure(report: "IngestReport") -> None:
    failed = next((file for file in report.files if file.status.value == "failed"), None)
    if failed is None:
        return
    error = failed.error or OdfError("failed")
    raise error if begins_with(error.message, report.name) else in_context(error, report.name)

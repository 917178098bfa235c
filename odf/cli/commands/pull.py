"""`odf pull`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand, allow_unsandboxed_option, lock_timeout_option
from odf.cli.completion import DatasetArgument
from odf.cli.outcome import Failure, asks_for_one, raise_failures
from odf.cli.output import Cell, Column, Output
from odf.cli.times import Time
from odf.cli.updates import STYLES, details
from odf.errors import OdfError, UsageError

if TYPE_CHECKING:
    from odf.coordinator.results import PulledDataset
    from odf.metadata.model import Timestamp


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf pull --all", "Bring every dataset up to date, inputs first"),
        ("odf pull -r index", "One dataset, and everything that it is derived from"),
        ("odf pull partner/prices --as prices", "Fetch a dataset from a registered repository"),
        (
            "odf pull prices --set-watermark 2024-01-31T00:00:00Z",
            "Say that nothing older is still to come; fetch nothing",
        ),
    ],
    exit_codes=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 130],
)
@click.argument(
    "refs", nargs=-1, metavar="[NAME | REPO/NAME | URL | DIR]...", type=DatasetArgument()
)
@click.option("-a", "--all", "everything", is_flag=True, help="All datasets of the workspace.")
@click.option("-r", "--recursive", is_flag=True, help="The inputs of what is named, too.")
@click.option("--as", "as_name", metavar="NAME", help="What to call the dataset that is fetched.")
@click.option("-f", "--force", is_flag=True, help="Take the other side's history when they differ.")
@click.option("--allow-retract", is_flag=True, help="Accept snapshots that lose most rows.")
@click.option("--allow-empty", is_flag=True, help="Accept source files without any content.")
@click.option(
    "--take-late-files",
    is_flag=True,
    help="Take files of a FilesGlob source that came after their turn, too.",
)
@click.option(
    "--reread-reorganised",
    is_flag=True,
    help="Read the blocks again that an EthereumLogs source has in place of others.",
)
@click.option(
    "--reset-derivatives-on-diverged-input",
    "reset_diverged",
    is_flag=True,
    help="Begin a derivative anew when an input has become another one.",
)
@click.option(
    "--set-watermark",
    type=Time(),
    metavar="TIME",
    help="Only say that one root dataset is complete up to TIME (RFC 3339).",
)
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
    refs: tuple[str, ...],
    *,
    everything: bool,
    recursive: bool,
    as_name: str | None,
    force: bool,
    allow_retract: bool,
    allow_empty: bool,
    on_bad_rows: str,
    take_late_files: bool,
    reread_reorganised: bool,
    reset_diverged: bool,
    set_watermark: "Timestamp | None",
) -> None:
    """Bring datasets up to date, or fetch them from elsewhere.

    A root dataset reads its source, a derivative runs its query over what is new in its inputs,
    a fetched dataset takes what is new where it came from. Each dataset is committed by itself:
    when one fails, only what is derived from it is skipped. A name may be a pattern: 'org.%'. A
    folder is written with a slash in front: /mnt/share/prices, ./prices or ../prices.
    """
    if bool(refs) == everything:
        what = "both datasets and --all were given" if everything else "nothing to pull"
        raise UsageError(what, hint="odf pull NAME, or odf pull --all")
    if as_name is not None and len(refs) != 1:
        raise UsageError("--as names one dataset, so exactly one REPO/NAME or URL is needed")
    from odf.cli.plain import to_plain
    from odf.coordinator.pull import PullRequest, pull

    request = PullRequest(
        refs=refs,
        all=everything,
        recursive=recursive,
        as_name=as_name,
        allow_retract=allow_retract,
        allow_empty=allow_empty,
        quarantine=on_bad_rows == "quarantine",
        take_late=take_late_files,
        reread_reorganised=reread_reorganised,
        force=force,
        reset_diverged=reset_diverged,
        set_watermark=set_watermark,
    )
    report = pull(app.context(), request)
    for dataset in report.datasets:
        for warning in dataset.warnings:
            app.output.warn(f"{dataset.name}: {warning}")
    one = asks_for_one(refs, everything=everything, recursive=recursive)
    app.output.show(
        app.command,
        {"datasets": to_plain(report.datasets)},
        lambda output: _print(output, report.datasets),
    )
    if not report.datasets:
        app.output.note("there are no datasets yet; odf add FILE makes one")
    _raise_failures(app.output, report.datasets, one=one)


def _print(output: Output, datasets: Sequence["PulledDataset"]) -> None:
    if output.is_quiet:
        return
    # The error of a single dataset says it all.
    shown = [entry for entry in datasets if len(datasets) > 1 or entry.error is None]
    if not shown:
        return
    output.table(
        [
            Column("Dataset", style="bold", shrink=True, shrink_last=True),
            Column("Result"),
            Column("", shrink=True),
        ],
        [
            (
                dataset.name,
                Cell(dataset.status.value.replace("-", " "), STYLES[dataset.status.value]),
                details(dataset, seconds=dataset.seconds),
            )
            for dataset in shown
        ],
    )
    if len(datasets) > 1:
        output.line(_summary(datasets))


def _summary(datasets: Sequence["PulledDataset"]) -> str:
    counts: dict[str, int] = {}
    for dataset in datasets:
        counts[dataset.status.value] = counts.get(dataset.status.value, 0) + 1
    return ", ".join(f"{number} {status.replace('-', ' ')}" for status, number in counts.items())


def _raise_failures(output: Output, datasets: Sequence["PulledDataset"], *, one: bool) -> None:
    failures = [
        Failure(dataset.name, dataset.error or OdfError("failed"))
        for dataset in datasets
        if dataset.status.value == "failed"
    ]
    raise_failures(output, failures, total=len(datasets), one=one)

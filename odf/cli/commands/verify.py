"""`odf verify`."""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import click

from odf.cli import text
from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand, allow_unsandboxed_option
from odf.cli.completion import DatasetArgument
from odf.cli.outcome import Failure, asks_for_one, raise_failures
from odf.cli.output import Cell, Column, Output
from odf.cli.ranges import number_range
from odf.errors import IntegrityError, OdfError, UsageError

if TYPE_CHECKING:
    from odf.coordinator.results import VerifiedDataset, VerifyFinding


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf verify prices", "Hash everything, check every rule, run every transform again"),
        ("odf verify -r index", "The dataset and everything that it is derived from"),
        ("odf verify --integrity --all", "Only hashes and rules: quick, needs no engine"),
        ("odf verify prices --blocks 40..60", "Only the data and the steps of these blocks"),
    ],
    exit_codes=[0, 1, 2, 3, 4, 7, 9, 10, 130],
)
@click.argument("refs", nargs=-1, metavar="[NAME]...", type=DatasetArgument())
@click.option("-a", "--all", "everything", is_flag=True, help="All datasets of the workspace.")
@click.option("-r", "--recursive", is_flag=True, help="The inputs of what is named, too.")
@click.option("--integrity", is_flag=True, help="Hashes and rules only; transforms are not run.")
@click.option("--blocks", metavar="N[..M]", help="Only the data and steps of these blocks.")
@allow_unsandboxed_option
@pass_app
def command(
    app: App,
    refs: tuple[str, ...],
    *,
    everything: bool,
    recursive: bool,
    integrity: bool,
    blocks: str | None,
) -> None:
    """Check that datasets are what their chains say.

    Every block is hashed and held against the rules, every slice against its physical and
    logical hash, and every transform is run again on the same inputs: its result must have the
    recorded logical hash. Nothing is changed. A dataset of which something could not be checked
    is "partly checked": nothing is wrong with the rest, and what is missing is said.
    """
    if bool(refs) == everything:
        what = "both datasets and --all were given" if everything else "nothing to verify"
        raise UsageError(what, hint="odf verify NAME, or odf verify --all")
    from odf.coordinator.verify import verify

    report = verify(
        app.context(),
        refs,
        everything=everything,
        recursive=recursive,
        integrity_only=integrity,
        blocks=_range(blocks),
    )
    app.output.show(
        app.command,
        {"datasets": [_to_json(dataset) for dataset in report.datasets]},
        lambda output: _print(output, report.datasets),
    )
    if not report.datasets:
        app.output.note("there are no datasets yet; odf add FILE makes one")
    one = asks_for_one(refs, everything=everything, recursive=recursive)
    _raise_failures(app.output, report.datasets, one=one)


def _range(text: str | None) -> range | None:
    if text is None:
        return None
    first, last = number_range(text, "--blocks")
    return range(first, last + 1)


def _to_json(dataset: "VerifiedDataset") -> dict[str, object]:
    from odf.cli.plain import to_plain

    told = {field.name: to_plain(getattr(dataset, field.name)) for field in fields(dataset)}
    return told | {"complete": dataset.complete}


def _print(output: Output, datasets: Sequence["VerifiedDataset"]) -> None:
    if datasets and not output.is_quiet:
        output.table(
            [
                Column("Dataset", style="bold", shrink=True, shrink_last=True),
                Column("Result"),
                Column("Blocks", align="right"),
                Column("Objects", align="right"),
                Column("Replayed", align="right"),
                Column("Time", align="right"),
            ],
            [
                (
                    dataset.name,
                    _result(dataset),
                    text.count(dataset.blocks),
                    text.count(dataset.objects),
                    text.count(dataset.replayed),
                    text.duration(dataset.seconds),
                )
                for dataset in datasets
            ],
        )
    for dataset in datasets:
        for finding in dataset.findings:
            if finding.severity == "error" or not output.is_quiet:
                output.line(f"{dataset.name}: {finding.severity}: {describe(finding)}")


def _result(dataset: "VerifiedDataset") -> Cell:
    if any(finding.severity == "error" for finding in dataset.findings):
        return Cell("INVALID", "bold red")
    if dataset.error is not None:
        return Cell("not verified", "red")
    return Cell("valid", "green") if dataset.complete else Cell("partly checked", "yellow")


def describe(finding: "VerifyFinding") -> str:
    """Say what was found and where, in one line.

    Args:
        finding: What was found.
    """
    where = []
    if finding.sequence_number is not None:
        where.append(f"block {finding.sequence_number}")
    if finding.block is not None:
        where.append(str(finding.block))
    if finding.object is not None:
        where.append(finding.object)
    return f"{' '.join(where)}: {finding.message}" if where else finding.message


def _raise_failures(output: Output, datasets: Sequence["VerifiedDataset"], *, one: bool) -> None:
    failures = [
        Failure(dataset.name, _failure(dataset))
        for dataset in datasets
        if dataset.error is not None or not dataset.valid
    ]
    raise_failures(output, failures, total=len(datasets), one=one)


def _failure(dataset: "VerifiedDataset") -> OdfError:
    """Return why a dataset failed; what was found wins over what kept the rest from being checked.

    A forger could otherwise add a step that no engine runs, and hide behind its error.
    """
    if dataset.error is not None and all(one.severity != "error" for one in dataset.findings):
        return dataset.error
    return _invalid(dataset)


def _invalid(dataset: "VerifiedDataset") -> OdfError:
    """Make the error of a dataset that is wrong; what is wrong is in the result already."""
    from odf.cli.plain import to_plain

    errors = [finding for finding in dataset.findings if finding.severity == "error"]
    return IntegrityError(
        f"{dataset.name} is not valid, {text.counted(len(errors), 'problem')}",
        hint=f"fetch intact copies with odf pull if {dataset.name} came from elsewhere, "
        "or restore the workspace from a backup",
        details={"findings": to_plain(errors)},
    )

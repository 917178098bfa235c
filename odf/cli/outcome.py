"""From the results of several datasets to one exit code."""

from collections.abc import Sequence
from dataclasses import dataclass

from odf.cli.output import Output
from odf.cli.text import begins_with
from odf.errors import IntegrityError, OdfError, PartialFailureError, in_context


@dataclass(frozen=True, slots=True)
class Failure:
    """One dataset that failed.

    Attributes:
        name: What it was asked for by.
        error: Why.
    """

    name: str
    error: OdfError


def asks_for_one(refs: Sequence[str], *, everything: bool, recursive: bool = False) -> bool:
    """Tell whether a person asked for one dataset: its error is then the run's error.

    Args:
        refs: What was typed.
        everything: Whether all datasets were asked for.
        recursive: Whether the inputs were asked for, too.
    """
    return not everything and not recursive and len(refs) == 1 and "%" not in refs[0]


def overall_error(failures: Sequence[Failure], *, total: int, one: bool) -> OdfError | None:
    """Return the error that the run ends with.

    Args:
        failures: The datasets that failed, in order.
        total: How many were worked on.
        one: Whether a person asked for one dataset.

    Returns:
        None when nothing failed; the only error when one dataset was asked for, with the
        dataset's name; else an error with exit code 7 if a verification failed, and 3 for
        everything else.
    """
    if not failures:
        return None
    if one or total == 1:
        return _named(failures[0])
    names = [failure.name for failure in failures]
    message = f"{len(failures)} of {total} datasets failed: {', '.join(names)}"
    kind = (
        IntegrityError
        if any(failure.error.exit_code == IntegrityError.exit_code for failure in failures)
        else PartialFailureError
    )
    return kind(message, details={"failed": names})


def raise_failures(output: Output, failures: Sequence[Failure], *, total: int, one: bool) -> None:
    """End the run with the error of its datasets, each of which is told in full.

    Args:
        output: Where to print.
        failures: The datasets that failed, in order.
        total: How many were worked on.
        one: Whether a person asked for one dataset.

    Raises:
        OdfError: See `overall_error`; nothing when there are no failures.
    """
    error = overall_error(failures, total=total, one=one)
    if error is None:
        return
    if not output.is_json and not (one or total == 1):
        for failure in failures:
            output.report(failure.error, subject=failure.name)
    raise error


def _named(failure: Failure) -> OdfError:
    """Return the error of a dataset with its name in front, unless it begins with it."""
    if begins_with(failure.error.message, failure.name):
        return failure.error
    return in_context(failure.error, failure.name)

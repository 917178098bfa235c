"""What is lost when datasets go, and asking whether that is wanted."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odf.cli import text
from odf.cli.output import Output

if TYPE_CHECKING:
    from odf.coordinator.results import DeletedDataset


def confirmation(
    output: Output, *, yes: bool, question: str
) -> "Callable[[Sequence[DeletedDataset]], bool] | None":
    """Make what asks a person whether datasets may go.

    Args:
        output: Where to ask.
        yes: The answer was given in advance.
        question: What to ask.

    Returns:
        None where nobody can be asked.
    """
    if yes:
        return lambda _: True
    if not output.can_ask(sys.stdin):
        return None
    return lambda lost: output.ask([describe(dataset) for dataset in lost], question, sys.stdin)


def describe(dataset: "DeletedDataset") -> str:
    """Say in one line what is lost with a dataset."""
    if dataset.problem is not None:
        return f"{dataset.alias}: broken: {dataset.problem}"
    counts = (
        text.counted(dataset.blocks, "block"),
        text.counted(dataset.records, "row"),
        text.size(dataset.size),
    )
    return f"{dataset.alias}: {', '.join(counts)}; {where_else(dataset)}"


def where_else(dataset: "DeletedDataset") -> str:
    """Say whether there may be a copy of a dataset."""
    if not dataset.elsewhere:
        return "no copy elsewhere is known"
    return f"copies may be at {', '.join(dataset.elsewhere)}"


def lost_to_json(dataset: "DeletedDataset") -> dict[str, object]:
    """Return the JSON form of what is lost."""
    return {
        "name": str(dataset.alias),
        "id": str(dataset.id),
        "kind": None if dataset.kind is None else dataset.kind.name.lower(),
        "blocks": dataset.blocks,
        "records": dataset.records,
        "size": dataset.size,
        "elsewhere": list(dataset.elsewhere),
        "key_kept": dataset.key,
        "problem": dataset.problem,
    }

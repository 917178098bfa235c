"""What pulls and pushes say of one dataset or one file."""

from typing import TYPE_CHECKING, Final

from odf.cli import text

if TYPE_CHECKING:  # a help text needs none of it
    from odf.coordinator.results import IngestedFile, PulledDataset

STYLES: Final = {"updated": "green", "up-to-date": "", "failed": "red", "skipped": "yellow"}
"""How results are coloured."""


def details(update: "PulledDataset | IngestedFile", *, seconds: float | None = None) -> str:
    """Say what changed, or why nothing did.

    Args:
        update: What happened.
        seconds: How long it took, if that is to be told.
    """
    if update.error is not None:
        return update.error.message
    said = [f"{text.count(rows)} {op}" for op, rows in update.records.items()]
    aside = sum(rows.rows for rows in update.set_aside)
    said += [f"{text.counted(aside, 'row')} set aside"] if aside else []
    if update.reason:
        said.append(update.reason)
    elif update.blocks:
        said.append(text.counted(update.blocks, "block"))
        said += [text.duration(seconds)] if seconds is not None else []
    return ", ".join(said)

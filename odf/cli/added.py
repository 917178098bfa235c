"""How the result of `odf add` looks."""

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odf.cli import text
from odf.cli.losses import describe, lost_to_json
from odf.cli.output import Column, Output

if TYPE_CHECKING:
    from odf.coordinator.results import AddedDataset, AddReport, EventChange
    from odf.metadata.model import MetadataEvent

_INDENT = "    "
_CONTEXT_LINES = 2
_HEADER_LINES = 2  # of a diff: the names of two files


def add_to_json(report: "AddReport") -> dict[str, object]:
    """Return the JSON form of a report; a dry run gives new datasets no identity."""
    return {
        "dry_run": report.dry_run,
        "datasets": [_to_json(added, dry_run=report.dry_run) for added in report.added],
    }


def _to_json(added: "AddedDataset", *, dry_run: bool) -> dict[str, object]:
    is_imaginary = dry_run and added.action.value in ("added", "replaced")
    is_extended = dry_run and added.action.value == "updated"
    return {
        "name": str(added.alias),
        "id": None if is_imaginary else str(added.id),
        "kind": added.kind.name.lower(),
        "head": None if is_imaginary or is_extended else str(added.head),
        "blocks": added.blocks,
        "query_class": added.query_class,
        "warnings": list(added.warnings),
        "action": added.action.value,
        "changes": [_change_to_json(change) for change in added.changes],
        "lost": None if added.lost is None else lost_to_json(added.lost),
    }


def _change_to_json(change: "EventChange") -> dict[str, object]:
    from odf.metadata.json import to_json

    return {
        "event": to_json(change.event),
        "before": None if change.before is None else to_json(change.before),
        "diff": list(diff(change)),
    }


def print_added(output: Output, report: "AddReport") -> None:
    """Write a report for a person: a table of what is new, then what became of the others."""
    if output.is_quiet:
        return
    new = [added for added in report.added if added.action.value in ("added", "replaced")]
    if new:
        output.table(
            [
                Column("Added", style="bold", shrink=True),
                Column("Kind"),
                Column("Blocks", align="right"),
                Column("Query"),
            ],
            [
                (
                    str(added.alias),
                    added.kind.name.lower(),
                    text.count(added.blocks),
                    added.query_class or "-",
                )
                for added in new
            ],
        )
    for added in report.added:
        for line in _lines(added, dry_run=report.dry_run):
            output.line(line)


def _lines(added: "AddedDataset", *, dry_run: bool) -> Iterator[str]:
    name = str(added.alias)
    match added.action.value:
        case "replaced" if added.lost is not None:
            yield f"{'Would lose' if dry_run else 'Lost'} {describe(added.lost)}"
        case "skipped":
            yield f"{name}: exists already, left alone"
        case "unchanged":
            yield f"{name}: nothing to change"
        case "updated":
            done = "to append" if dry_run else "appended"
            yield f"{name}: {text.counted(added.blocks, 'event')} {done}"
            for change in added.changes:
                yield f"  {_mark(change)} {type(change.event).__name__}"
                yield from (f"{_INDENT}{line}" for line in diff(change))


def _mark(change: "EventChange") -> str:
    if _ends(change):
        return "-"
    return "+" if change.before is None else "~"


def _ends(change: "EventChange") -> bool:
    return change.before is not None and type(change.before) is not type(change.event)


def diff(change: "EventChange") -> Iterator[str]:
    """Yield the lines by which an event differs from what it takes the place of.

    Lines begin with `+`, `-` or a blank, as in any diff of texts. What an event ends is shown
    whole.
    """
    if _ends(change):
        yield from (f"-{line}" for line in _as_lines(change.before))
        return
    found = difflib.unified_diff(
        _as_lines(change.before), _as_lines(change.event), n=_CONTEXT_LINES, lineterm=""
    )
    for line in list(found)[_HEADER_LINES:]:
        if not line.startswith("@@"):
            yield line


def _as_lines(event: "MetadataEvent | None") -> list[str]:
    from odf.metadata.model import SetDataSchema
    from odf.metadata.schema_evolution import schema_fields
    from odf.metadata.yaml import dump_yaml

    if event is None:
        return []
    if isinstance(event, SetDataSchema):  # the bytes that chains hold tell nobody anything
        return [
            f"{field.name} {field.type}{'' if field.nullable else ' NOT NULL'}"
            for field in schema_fields(event)
        ]
    lines = dump_yaml(event).splitlines()
    return lines[1:] if lines and lines[0].startswith("kind: ") else lines

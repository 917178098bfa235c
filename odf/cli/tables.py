"""Tables for people, drawn with rich (which is imported only here)."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from odf.cli.output import Cell, Column
from odf.cli.text import clean

_GAP = 2


@dataclass(frozen=True, slots=True)
class Drawn:
    """A table as it is printed.

    Attributes:
        text: Lines, each ended by a line feed, without blanks at their ends.
        dropped: The titles of the columns that there was no room for.
    """

    text: str
    dropped: tuple[str, ...]


def natural_width(columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]]) -> int:
    """Return how wide a table is when nothing is cut."""
    wanted = _measure(columns, [[_text(cell) for cell in row] for row in rows])
    return sum(column.natural for column in wanted) + _GAP * (len(wanted) - 1)


def render_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]], *, width: int, color: bool
) -> Drawn:
    """Draw a table without frames.

    Args:
        columns: The columns.
        rows: One cell for each column; cleaned here.
        width: Columns available. Cells that may be cut are, with `…`; where that leaves them
            unreadable, whole columns are left out.
        color: Whether styles are written as ANSI codes.
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    measured = _measure(columns, cells)
    shown = _that_fit(columns, measured, width)
    dropped = tuple(c.title for place, c in enumerate(columns) if place not in shown)
    columns = [columns[place] for place in shown]
    cells = [[row[place] for place in shown] for row in cells]
    widths = _widths(columns, [measured[place] for place in shown], width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column, column_width in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.title),
            justify=column.align,
            style=column.style,
            no_wrap=True,
            overflow="ellipsis",
            width=column_width,
        )
    for row in cells:
        table.add_row(*row)
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        color_system="standard" if color else None,
        force_terminal=color,
        no_color=not color,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    console.print(table)
    lines = buffer.getvalue().splitlines()
    return Drawn("".join(f"{line.rstrip()}\n" for line in lines), dropped)


def _text(cell: str | Cell) -> Text:
    if isinstance(cell, Cell):
        return Text(clean(cell.text), style=cell.style)
    return Text(clean(cell))


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a column takes on the screen: all of it, and the least that can still be read."""

    natural: int
    least: int


def _measure(columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> list[_Measured]:
    found = []
    for place, column in enumerate(columns):
        title = cell_len(column.title)
        content = max((row[place].cell_len for row in rows), default=0)
        natural = max(title, content)
        # A heading may be cut over numbers and times, which are whole or not shown.
        least = natural if column.shrink else max(content, min(title, column.least))
        found.append(_Measured(natural, min(least, column.least) if column.shrink else least))
    return found


def _that_fit(columns: Sequence[Column], measured: Sequence[_Measured], width: int) -> list[int]:
    """Return the places of the columns that can be read side by side."""
    shown = dict(enumerate(measured))
    total = sum(column.natural + _GAP for column in measured) - _GAP
    for place, column in enumerate(columns):
        if column.drop_first and total > width and len(shown) > 1:
            total -= shown.pop(place).natural + _GAP
    total = sum(column.least + _GAP for column in shown.values()) - _GAP
    droppable = (place for place in shown if columns[place].drop)
    for place in sorted(droppable, key=lambda place: -columns[place].drop):
        if total > width and len(shown) > 1:
            total -= shown.pop(place).least + _GAP
    return list(shown)


def _widths(columns: Sequence[Column], measured: Sequence[_Measured], width: int) -> list[int]:
    """Share out the terminal's columns: names are cut last, and below their least all alike."""
    available = max(width - _GAP * (len(columns) - 1), len(columns))
    widths = [min(available, column.natural) for column in measured]
    least = [column.least for column in measured]
    places = range(len(columns))
    others = [place for place in places if not columns[place].shrink_last]
    for candidates, floors in ((others, least), (places, least), (places, [1] * len(columns))):
        while sum(widths) > available:
            giving = [place for place in candidates if widths[place] > floors[place]]
            if not giving:
                break
            widths[max(giving, key=lambda place: widths[place])] -= 1
    return widths

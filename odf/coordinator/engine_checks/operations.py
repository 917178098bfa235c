"""Checks of what becomes of retractions and corrections."""

from typing import Final

from odf.coordinator.engine_checks.base import Check, Subject, column, expect


def _pass(subject: Subject) -> None:
    view = subject.given([(0, "x", 1), (2, "x", 1), (3, "y", 1), (1, "y", 1)])
    _, rows = subject.derive("SELECT op, event_time, v FROM a", inputs=(view,))
    expect(column(rows, "op"), [0, 2, 3, 1], "op")


def _dropped(subject: Subject) -> None:
    view = subject.given([(0, "x", 1), (1, "x", 1)])
    _, rows = subject.derive("SELECT event_time, v FROM a", inputs=(view,))
    expect(column(rows, "op"), [0, 0], "op")


def _half(subject: Subject) -> None:
    view = subject.given([(2, "keep", 1), (3, "drop", 1), (2, "drop", 2), (3, "keep", 2)])
    _, rows = subject.derive("SELECT op, event_time, n FROM a WHERE v = 'keep'", inputs=(view,))
    # The halves are of two pairs, though they have become neighbours.
    expect(column(rows, "op"), [1, 0], "op")


def _branches(subject: Subject) -> None:
    view = subject.given([(2, "p", 1), (3, "q", 2)])
    query = (
        "SELECT op, event_time, v FROM a WHERE v = 'p' "
        "UNION ALL SELECT op, event_time, v FROM a UNION ALL "
        "SELECT op, event_time, v FROM a WHERE v = 'q'"
    )
    _, rows = subject.derive(query, inputs=(view,))
    expect(column(rows, "op"), [1, 2, 3, 0], "op")


CHECKS: Final = (
    Check("operations pass through when they are selected", _pass),
    Check("operations that are dropped are appends", _dropped),
    Check("half of a correction becomes a retraction or an append", _half, ours=True),
    Check("corrections stay pairs in each branch of a union", _branches, ours=True),
)
"""Checks of operations."""

"""Checks of names: of inputs, of columns, of vocabularies."""

from functools import partial
from typing import Final

from odf.coordinator.engine_checks.base import (
    OWN_VOCAB,
    THREE,
    Check,
    Subject,
    column,
    expect,
    expect_sound,
)
from odf.metadata.model import OffsetInterval

ALIASES: Final = (
    "com.example.some-name",
    "MixedCase",
    "account/name",
    'with "quotes"',
    "select",
)
"""Names of inputs that work in quotes only."""


def _alias(alias: str, subject: Subject) -> None:
    query = f"SELECT event_time, v AS `V` FROM `{alias}`"  # noqa: S608  # of this module's own names
    _, rows = subject.derive(query, inputs=(subject.given(THREE, alias=alias),))
    expect(column(rows, "V"), ["x", "y", None], "V")


def _case(subject: Subject) -> None:
    query = "SELECT event_time, v AS camelCase, n AS `with blank` FROM a"
    _, rows = subject.derive(query, inputs=(subject.given(THREE),))
    expect(list(rows[0])[-2:], ["camelCase", "with blank"], "columns")


def _own_vocabulary(subject: Subject) -> None:
    view = subject.given([(1, "x", 1), (0, "y", 2)], vocab=OWN_VOCAB)
    query = "SELECT `Kind`, `When it was`, v FROM a"
    outcome, rows = subject.derive(query, inputs=(view,), vocab=OWN_VOCAB)
    expect(set(rows[0]), {"Nr", "Kind", "Written", "When it was", "v"}, "columns")
    expect(column(rows, "Kind"), [1, 0], "Kind")
    expect(outcome.offset_interval, OffsetInterval(0, 1), "offsets")
    expect_sound(outcome, OWN_VOCAB)


def _other_vocabulary(subject: Subject) -> None:
    view = subject.given(THREE, vocab=OWN_VOCAB)
    query = "SELECT `When it was` AS event_time, `Nr` AS origin FROM a"
    _, rows = subject.derive(query, inputs=(view,))
    expect(column(rows, "origin"), [0, 1, 2], "origin")


CHECKS: Final = (
    *(
        Check(f"an input called {alias}", partial(_alias, alias), ours='"' in alias)
        for alias in ALIASES
    ),
    Check("names of columns keep their case and their blanks", _case),
    Check("a vocabulary of its own", _own_vocabulary),
    Check("an input of another vocabulary", _other_vocabulary),
)
"""Checks of names."""

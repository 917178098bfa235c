"""Checks of what an engine says about a query before it runs it."""

from functools import partial
from typing import Final

import pyarrow as pa

from odf.coordinator.engine_checks.base import THREE, Check, Subject, expect, expect_invalid
from odf.coordinator.engine_checks.errors import NOT_OUR_QUERIES, NOT_QUERIES
from odf.data.arrow_fields import fields_to_arrow_schema
from odf.metadata.arrow_schema import decode_schema


def _who_it_is(subject: Subject) -> None:
    found = subject.client.describe()
    expect(found.engine, subject.name, "engine")
    expect(found.release.startswith(f"odf-{subject.name}/"), True, f"release {found.release}")


def _valid(subject: Subject) -> None:
    outcome = subject.validate(
        "SELECT event_time, v, n AS m FROM `a`",
        inputs=(subject.given(THREE), subject.given(THREE, alias="b")),
    )
    expect(outcome.query_class, "stateless", "class")
    schema = fields_to_arrow_schema(decode_schema(outcome.output_schema or b""))
    expect(schema.names, ["event_time", "v", "m"], "columns")
    expect(schema.field("m").type, pa.int32(), "type of m")


def _invalid(query: str, subject: Subject) -> None:
    inputs = (subject.given(THREE),)
    error = expect_invalid(lambda: subject.validate(query, inputs=inputs), query)
    expect("\n" in error.message.strip(), False, "more than one line in the message")


def _warned(subject: Subject) -> None:
    a = subject.given(THREE)
    dropped = subject.validate("SELECT event_time FROM a", inputs=(a,), has_retractions=True)
    passed = subject.validate("SELECT op, event_time FROM a", inputs=(a,), has_retractions=True)
    expect(len(dropped.warnings), 1, f"warnings {dropped.warnings}")
    expect("retractions" in dropped.warnings[0], True, dropped.warnings[0])
    expect(passed.warnings, (), "warnings of a query that passes op")


CHECKS: Final = (
    Check("it says who it is", _who_it_is, ours=True, validates=True),
    Check("a valid query: its class and columns are told", _valid, ours=True, validates=True),
    Check("a query that drops retractions is warned of", _warned, ours=True, validates=True),
    *(
        Check(f"told before it runs: {name}", partial(_invalid, query), ours=True, validates=True)
        for name, query in {**NOT_QUERIES, **NOT_OUR_QUERIES}.items()
    ),
)
"""Checks of validation."""

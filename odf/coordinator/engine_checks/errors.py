"""Checks of what an engine refuses, and that it lives on."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from odf.coordinator.engine_checks.base import (
    SYSTEM_TIME,
    THREE,
    Check,
    CheckFailedError,
    Subject,
    expect,
    expect_invalid,
)
from odf.errors import EngineError, InvalidQueryError, OdfError
from odf.protocol.messages import TransformRequest, TransformRequestInput

NOT_QUERIES: Final = {
    "another table": "SELECT event_time FROM elsewhere",
    "an unknown column": "SELECT event_time, nothing FROM a",
    "an unknown function": "SELECT event_time, frobnicate(v) AS x FROM a",
    "bad syntax": "SELECT event_time FRM a",
    "no event time": "SELECT v FROM a",
    "a system column": "SELECT * FROM a",
    "the system time": "SELECT event_time, system_time FROM a",
}
"""What no engine may take for a query."""

NOT_OUR_QUERIES: Final = {
    "two statements": "SELECT event_time FROM a; SELECT event_time FROM a",
    "a command": "DROP TABLE a",
    "a file": "SELECT event_time FROM `/etc/passwd`",
    "the clock": "SELECT event_time, now() AS t FROM a",
    "today": "SELECT event_time, current_date AS t FROM a",
    "chance": "SELECT event_time, random() AS r FROM a",
    "chance again": "SELECT event_time, uuid() AS r FROM a",
    "an event time that is none": "SELECT v AS event_time FROM a",
    "a system column in capitals": "SELECT event_time, n AS `OFFSET` FROM a",
    "an operation that is none": "SELECT event_time, v AS op FROM a",
    "one name twice": "SELECT event_time, v, n AS V FROM a",
    "rows of its own": "SELECT event_time FROM a UNION ALL SELECT TIMESTAMP '2020-01-01 00:00:00'",
}
"""What would not be reproducible, or not a slice: an engine of ours refuses it."""


def _refused(query: str, subject: Subject) -> None:
    inputs = (subject.given(THREE),)
    expect_invalid(lambda: subject.derive(query, inputs=inputs), query)


def _value_does_not_fit(subject: Subject) -> None:
    query = "SELECT event_time, CAST(v AS INT) AS i FROM a"
    inputs = (subject.given(THREE),)
    expect_invalid(lambda: subject.derive(query, inputs=inputs), query, "x")


def _other_engine(subject: Subject) -> None:
    transform = replace(subject.sql("SELECT event_time FROM a"), engine="another")
    inputs = (subject.given(THREE),)
    expect_invalid(
        lambda: subject.derive(inputs=inputs, transform=transform), "engine another", "another"
    )


def _broken_file(subject: Subject) -> None:
    view = subject.given(THREE)
    broken = subject.folder / f"broken-{next(subject.numbers)}"
    broken.write_bytes(b"no Parquet at all")
    inputs = (replace(view, data=(broken,)),)
    _fails(subject, lambda: subject.derive("SELECT event_time FROM a", inputs=inputs))
    _lives(subject)


def _wrong_path(subject: Subject) -> None:
    view = subject.given(THREE)
    for path in ("/no/such/file.parquet", "../../etc/passwd", ""):
        source = TransformRequestInput(
            dataset_id=view.dataset_id,
            dataset_alias=view.dataset_alias,
            query_alias=view.query_alias,
            vocab=view.vocab,
            offset_interval=view.offset_interval,
            data_paths=(path,),
            schema_file=path,
            explicit_watermarks=(),
        )
        request = TransformRequest(
            dataset_id=view.dataset_id,
            dataset_alias=view.dataset_alias,
            system_time=SYSTEM_TIME,
            vocab=view.vocab,
            transform=subject.sql("SELECT event_time FROM a"),
            query_inputs=(source,),
            next_offset=0,
            prev_checkpoint_path=None,
            new_checkpoint_path="/no/such/folder/checkpoint",
            new_data_path="/no/such/folder/data",
        )
        _fails(subject, partial(subject.client.send_transform, request))
    _lives(subject)


def _fails(subject: Subject, run: Callable[[], object]) -> None:
    try:
        run()
    except (EngineError, InvalidQueryError):
        return
    except OdfError as error:
        raise CheckFailedError(f"{subject.name} failed oddly: {error.message}") from error
    raise CheckFailedError("it was taken for a slice")


def _lives(subject: Subject) -> None:
    _, rows = subject.derive("SELECT event_time FROM a", inputs=(subject.given(THREE),))
    expect(len(rows), 3, "rows after the failure")


CHECKS: Final = (
    *(Check(f"refused: {name}", partial(_refused, query)) for name, query in NOT_QUERIES.items()),
    *(
        Check(f"refused: {name}", partial(_refused, query), ours=True)
        for name, query in NOT_OUR_QUERIES.items()
    ),
    Check("a value that does not fit is the query's fault", _value_does_not_fit, ours=True),
    Check("a query for another engine is refused", _other_engine, ours=True),
    Check("a file that is no slice is an error, and the engine lives on", _broken_file),
    Check("a wrong path is an error, and the engine lives on", _wrong_path),
)
"""Checks of errors."""

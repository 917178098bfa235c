"""What checks are made of: an engine under test, inputs for it, and expectations."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.arrow_fields import arrow_schema_to_fields
from odf.data.inspector import inspect_slice
from odf.data.slices import SliceWriter, slice_schema
from odf.errors import InvalidQueryError, OdfError
from odf.metadata.arrow_schema import encode_schema
from odf.metadata.identity import DatasetAlias, DatasetID
from odf.metadata.model import (
    DEFAULT_VOCAB,
    DatasetVocabulary,
    OffsetInterval,
    SqlQueryStep,
    Timestamp,
    TransformSql,
)
from odf.protocol.calls import (
    QueryInput,
    QueryOutcome,
    TransformCall,
    TransformCallInput,
    TransformOutcome,
)
from odf.protocol.messages import Watermark
from odf.runtimes.client import EngineClient

SYSTEM_TIME: Final = Timestamp.parse("2024-01-31T12:00:00Z")
"""System time of all steps."""

OWN_VOCAB: Final = DatasetVocabulary("Nr", "Kind", "Written", "When it was")
"""A vocabulary that shares no name with the default one."""

Row = tuple[int, str | None, int | None]
"""A row of an input: op, `v`, `n`."""

THREE: Final[Sequence[Row]] = ((0, "x", 1), (0, "y", 2), (0, None, None))
"""Rows for most checks."""

_DAY_MS: Final = 86_400_000
_INPUT_ID: Final = DatasetID(bytes(32))
_OUTPUT_ID: Final = DatasetID(bytes(range(32)))


class CheckFailedError(OdfError):
    """An engine did something else than what a check expects."""

    kind = "check_failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that an engine has to do.

    Attributes:
        name: In words, unique.
        run: Does it; raises `CheckFailedError`, or whatever the engine's failure is.
        ours: Whether it is a rule of ours, beyond the protocol.
        validates: Whether the engine has to be able to check queries.
    """

    name: str
    run: Callable[["Subject"], None]
    ours: bool = False
    validates: bool = False


@dataclass(slots=True)
class Subject:
    """An engine under test.

    Attributes:
        name: What transforms call it.
        client: Speaks to it.
        folder: Where inputs and results go.
        numbers: Makes names of files.
    """

    name: str
    client: EngineClient
    folder: Path
    numbers: Iterator[int] = field(default_factory=count)

    def given(
        self,
        rows: Sequence[Row],
        *,
        alias: str = "a",
        start: int = 0,
        vocab: DatasetVocabulary = DEFAULT_VOCAB,
        extra: dict[str, pa.Array] | None = None,
    ) -> TransformCallInput:
        """Write a slice and return it as an input.

        Args:
            rows: Its rows; event times count up by a day from the first offset.
            alias: What queries call it.
            start: Its first offset.
            vocab: Names of its system columns.
            extra: Further columns.
        """
        path = self.slice(rows, start=start, vocab=vocab, extra=extra)
        return TransformCallInput(
            dataset_id=_INPUT_ID,
            dataset_alias=DatasetAlias.parse("x"),
            query_alias=alias,
            vocab=vocab,
            offset_interval=OffsetInterval(start, start + len(rows) - 1),
            data=(path,),
            schema_file=path,
            explicit_watermarks=(),
        )

    def slice(
        self,
        rows: Sequence[Row],
        *,
        start: int = 0,
        vocab: DatasetVocabulary = DEFAULT_VOCAB,
        extra: dict[str, pa.Array] | None = None,
    ) -> Path:
        """Write a slice; see `given`."""
        path = self.folder / f"input-{next(self.numbers)}"
        time = pa.timestamp("ms", "UTC")
        when = [_DAY_MS * (start + i) for i in range(len(rows))]
        columns = {
            vocab.offset_column: pa.array(range(start, start + len(rows)), pa.int64()),
            vocab.operation_type_column: pa.array([row[0] for row in rows], pa.int32()),
            vocab.system_time_column: pa.array([0] * len(rows), time),
            vocab.event_time_column: pa.array(when, time),
            "v": pa.array([row[1] for row in rows], pa.string()),
            "n": pa.array([row[2] for row in rows], pa.int32()),
            **(extra or {}),
        }
        event_and_data = list(columns)[3:]
        fields = [pa.field(name, columns[name].type) for name in event_and_data]
        schema = slice_schema(pa.schema(fields), vocab)
        arrays = [columns[name] for name in schema.names]
        with SliceWriter(path, schema) as writer:
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
        return path

    def derive(
        self, *queries: str | tuple[str, str], inputs: tuple[TransformCallInput, ...], **more: Any
    ) -> tuple[TransformOutcome, list[dict[str, Any]]]:
        """Run a step.

        Args:
            queries: Its steps; with an alias, or the last one.
            inputs: Its inputs.
            more: Fields of the call that are not as usual.

        Returns:
            What came back, and the rows of the slice.
        """
        output = self.folder / f"result-{next(self.numbers)}"
        call = TransformCall(
            dataset_id=_OUTPUT_ID,
            dataset_alias=DatasetAlias.parse("derived"),
            system_time=SYSTEM_TIME,
            vocab=DEFAULT_VOCAB,
            transform=self.sql(*queries),
            inputs=inputs,
            next_offset=0,
            output=output,
            new_checkpoint=self.folder / f"checkpoint-{next(self.numbers)}",
        )
        outcome = self.client.execute_transform(replace(call, **more))
        rows = pq.read_table(output).to_pylist() if outcome.slice_path else []
        return outcome, rows

    def validate(
        self, *queries: str, inputs: tuple[TransformCallInput, ...], **more: Any
    ) -> QueryOutcome:
        """Have a query checked; `more` are fields of its inputs."""
        views = [
            QueryInput(view.query_alias, schema_bytes(pq.read_schema(view.schema_file)), **more)
            for view in inputs
        ]
        return self.client.validate_query(self.sql(*queries), views, DEFAULT_VOCAB)

    def sql(self, *queries: str | tuple[str, str]) -> TransformSql:
        """Make a transform for this engine."""
        steps = [
            SqlQueryStep(alias=step[0], query=step[1])
            if isinstance(step, tuple)
            else SqlQueryStep(alias=None, query=step)
            for step in queries
        ]
        return TransformSql(engine=self.name, queries=tuple(steps))


def schema_bytes(schema: pa.Schema) -> bytes:
    """Return a schema as it travels."""
    return encode_schema(arrow_schema_to_fields(schema))


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    """Return a column of a result.

    Raises:
        CheckFailedError: There is none.
    """
    if rows and name not in rows[0]:
        raise CheckFailedError(f"there is no column {name!r}; there are {', '.join(rows[0])}")
    return [row[name] for row in rows]


def idle(view: TransformCallInput) -> TransformCallInput:
    """Return an input as it is when it has nothing new."""
    return replace(view, offset_interval=None, data=())


def with_watermarks(view: TransformCallInput, *times: str) -> TransformCallInput:
    """Return an input with explicit watermarks."""
    marks = tuple(Watermark(SYSTEM_TIME, Timestamp.parse(time)) for time in times)
    return replace(view, explicit_watermarks=marks)


def expect(found: object, wanted: object, what: str) -> None:
    """Compare.

    Raises:
        CheckFailedError: They differ.
    """
    if found != wanted:
        raise CheckFailedError(f"{what}: wanted {wanted!r:.300}, got {found!r:.300}")


def expect_invalid(run: Callable[[], object], what: str, *words: str) -> InvalidQueryError:
    """Run what has to be refused as an invalid query, with some words in the message.

    Raises:
        CheckFailedError: It was accepted, failed in another way, or lacks a word.
    """
    try:
        run()
    except InvalidQueryError as error:
        for word in words:
            if word not in error.message:
                raise CheckFailedError(f"{what}: no {word!r} in {error.message!r}") from error
        return error
    except OdfError as error:
        raise CheckFailedError(
            f"{what}: wanted it refused as an invalid query, got {type(error).__name__}: "
            f"{error.message}"
        ) from error
    raise CheckFailedError(f"{what}: wanted it refused as an invalid query, it was accepted")


def expect_sound(outcome: TransformOutcome, vocab: DatasetVocabulary = DEFAULT_VOCAB) -> None:
    """Look at a slice as one does before it is committed.

    Raises:
        CheckFailedError: It is not as slices are.
    """
    if outcome.slice_path is None:
        raise CheckFailedError("there is no slice")
    expect(inspect_slice(outcome.slice_path, vocab).problems, (), "problems of the slice")

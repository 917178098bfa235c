"""The kind `merge` of `odf conformance`: how new rows meet those of a dataset, in the real engine.

A case becomes what an ingestion is: the history a slice file, the new rows a CSV file, and one
`Ingest` call of a running engine, whose slice is read back. Two things stand in for each other:

* an event time of a whole-number type travels as that many milliseconds since 1970;
* a null event time is what the merge makes it until the source's event time is filled in. The
  call gives a source event time that no row has, before all others, and where it turns up the
  answer has null again.
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.coordinator.conformance import Case, Rule, list_of, object_of, text_of, texts_of
from odf.coordinator.conformance_types import read_type, read_values, written
from odf.coordinator.context import Settings
from odf.data.arrow_fields import arrow_schema_to_fields
from odf.data.slices import SliceWriter, slice_schema
from odf.data.types import (
    TIMESTAMP_MS_UTC,
    describe_column,
    from_arrow,
    parse_ddl,
    to_arrow,
)
from odf.data.types import Column as DeclaredColumn
from odf.errors import BadInputError, EngineError, EngineUnavailableError
from odf.metadata.arrow_schema import encode_schema
from odf.metadata.model import (
    DEFAULT_VOCAB,
    DatasetVocabulary,
    MergeStrategy,
    ReadStepCsv,
    Timestamp,
)
from odf.metadata.yaml import from_json
from odf.protocol.calls import CallFile, IngestCall
from odf.runtimes.pool import SPARK, EnginePool, PoolSettings

if TYPE_CHECKING:
    from odf.runtimes.client import EngineClient

_SYSTEM_TIME: Final = Timestamp.parse("2050-01-01T00:00:00Z")
_MILLIS_PER_DAY: Final = 86_400_000
_FIRST_MILLIS: Final = Timestamp.parse("0001-01-01T00:00:00Z").epoch_ms
_NAME: Final = "conformance"
# The vectors explain a type in brackets behind it: "int32 (stands in for event time)".
_REMARK: Final = re.compile(r"^(\w+) \(.*\)$", re.DOTALL)
# All others have a primary key alone. A case may say more than its strategy asks for.
_STRATEGY_FIELDS: Final = {"append": (), "snapshot": ("primaryKey", "compareColumns")}


@contextmanager
def merging(settings: Settings) -> Iterator[Rule]:
    """Start the engine for merges, and end it on leaving.

    Args:
        settings: How engines are run.

    Raises:
        EngineUnavailableError: None starts.
    """
    with tempfile.TemporaryDirectory(prefix="odf-conformance-") as folder:
        engines = EnginePool(
            PoolSettings(
                runtime=settings.runtime or "auto",
                java_home=settings.java_home,
                allow_unsandboxed=settings.allow_unsandboxed,
            ),
            run_dir=Path(folder) / "engine",
        )
        merger = _Merger(engines, Path(folder))
        try:
            _start(merger)
            yield merger.merge
        finally:
            engines.close()


def _start(merger: "_Merger") -> None:
    try:
        merger.engine()
    except EngineUnavailableError as error:
        # The log that it would name is gone with the temporary folder.
        raise EngineUnavailableError(
            error.message, hint="odf pull and odf verify keep the engine's log"
        ) from error


class _Merger:
    """Runs one case after the other.

    Args:
        engines: Where the engine comes from.
        folder: For files.
    """

    def __init__(self, engines: EnginePool, folder: Path) -> None:
        self._engines = engines
        self._folder = folder

    def engine(self) -> "EngineClient":
        """Return the running engine. No code of anybody runs in it, only data is merged."""
        return self._engines.client(SPARK, dataset=_NAME, trusted=True)

    def merge(self, case: Case) -> object:
        """Answer a case."""
        given = _read_case(case)
        with tempfile.TemporaryDirectory(prefix="case-", dir=self._folder) as folder:
            call = _call(given, Path(folder))
            try:
                outcome = self.engine().ingest(call)
            except EngineError:
                # It may be dead; the next case gets a new one.
                self._engines.close()
                raise
            if outcome.slice_path is None:
                return {"rows": []}
            return {"rows": _rows(given, pq.read_table(outcome.slice_path))}


@dataclass(frozen=True, slots=True)
class _Given:
    """A case, read.

    Attributes:
        vocab: Names of the system columns.
        types: Types of the columns as the case has them.
        strategy: How to merge.
        history: Rows that are there, by column.
        new: Rows that come, by column.
        output: Columns of the answer.
    """

    vocab: DatasetVocabulary
    types: dict[str, pa.DataType]
    strategy: MergeStrategy
    history: dict[str, pa.Array]
    new: dict[str, pa.Array]
    output: list[str]

    @property
    def event_time(self) -> str:
        """Name of the event time column."""
        return self.vocab.event_time_column

    def stored_type(self, name: str) -> pa.DataType:
        """Return the type with which a column travels."""
        found = self.types[name]
        if name == self.event_time and pa.types.is_integer(found):
            return TIMESTAMP_MS_UTC
        return found

    def stored(self, name: str, values: pa.Array) -> pa.Array:
        """Return a column as it travels."""
        wanted = self.stored_type(name)
        if values.type == wanted:
            return values
        try:
            return values.cast(pa.int64()).cast(wanted)
        except pa.ArrowException as error:
            raise BadInputError(f"the event time {name!r} is out of range: {error}") from error

    def null_stand_in(self) -> int:
        """Return the source's event time in milliseconds: earlier than all that rows have."""
        name = self.event_time
        found = [
            value
            for rows in (self.history, self.new)
            if name in rows
            for value in _millis(self.stored(name, rows[name]))
        ]
        earliest = min(found, default=0)
        day = earliest - earliest % _MILLIS_PER_DAY - _MILLIS_PER_DAY
        return day if day >= _FIRST_MILLIS else max(found) + _MILLIS_PER_DAY


def _read_case(case: Case) -> _Given:
    types = {name: _type(spec) for name, spec in object_of(case, "column_types").items()}
    event_time = text_of(case, "eventTimeColumn")
    vocab = DatasetVocabulary(
        offset_column=DEFAULT_VOCAB.offset_column,
        operation_type_column=DEFAULT_VOCAB.operation_type_column,
        system_time_column=DEFAULT_VOCAB.system_time_column,
        event_time_column=event_time,
    )
    new_columns = texts_of(case, "new_columns")
    default = [vocab.operation_type_column, *new_columns]
    return _Given(
        vocab=vocab,
        types=types,
        strategy=_strategy(case),
        history=_columns(case, "history", types),
        new=_columns(case, "new", types),
        output=texts_of(case, "output_columns") if "output_columns" in case else default,
    )


def _type(spec: Any) -> pa.DataType:
    """Read the type of a column: as in `digest`, or as a column declaration has it."""
    if not isinstance(spec, str):
        return read_type(spec)
    remark = _REMARK.match(spec)
    text = remark[1] if remark else spec
    try:
        return read_type(text)
    except BadInputError:
        columns = parse_ddl([f"c {text}"])
    if len(columns) > 1:
        raise BadInputError(f"{text!r} is more than one type")
    return to_arrow(columns[0].type)


def _strategy(case: Case) -> MergeStrategy:
    kind = text_of(case, "strategy")
    known = _STRATEGY_FIELDS.get(kind.lower(), ("primaryKey",))
    fields = {key: case[key] for key in known if case.get(key) is not None}
    found: MergeStrategy = from_json(MergeStrategy, {"kind": kind, **fields}, "strategy")
    return found


def _columns(case: Case, key: str, types: dict[str, pa.DataType]) -> dict[str, pa.Array]:
    """Turn rows into columns."""
    names = texts_of(case, f"{key}_columns")
    if len(set(names)) < len(names):
        raise BadInputError(f"`{key}_columns` has a name twice")
    rows = list_of(case, key)
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(names):
            raise BadInputError(f"`{key}[{number}]` is not a list of {len(names)} values")
    unknown = [name for name in names if name not in types]
    if unknown:
        raise BadInputError(f"`column_types` has no type of {unknown[0]!r}")
    return {
        name: read_values(types[name], [row[place] for row in rows])
        for place, name in enumerate(names)
    }


def _call(given: _Given, folder: Path) -> IngestCall:
    source = folder / "new.csv"
    _write_csv(given, source)
    rows = _length(given.history)
    schema = _slice_schema(given)
    if rows:
        _write_history(given, schema, folder / "history.parquet")
    declared = tuple(
        describe_column(DeclaredColumn(name, from_arrow(given.stored_type(name))))
        for name in given.new
    )
    return IngestCall(
        dataset_alias=_NAME,
        files=(CallFile(source, "new"),),
        read=ReadStepCsv(schema=declared, header=True),
        preprocess=None,
        merge=given.strategy,
        vocab=given.vocab,
        system_time=_SYSTEM_TIME,
        source_event_time=Timestamp.from_epoch_ms(given.null_stand_in()),
        next_offset=rows,
        dataset_schema=encode_schema(arrow_schema_to_fields(schema)) if rows else None,
        history=(folder / "history.parquet",) if rows else (),
        output=folder / "merged.parquet",
        # The case is the merge alone; whether so much may be retracted is asked elsewhere.
        allow_retract=True,
        allow_empty=True,
    )


def _slice_schema(given: _Given) -> pa.Schema:
    fields = [pa.field(name, given.stored_type(name)) for name in given.history]
    return slice_schema(pa.schema(fields), given.vocab)


def _write_history(given: _Given, schema: pa.Schema, path: Path) -> None:
    """Write the history as one slice; offsets, if it has none, are the places of its rows."""
    rows = _length(given.history)
    columns: list[pa.Array] = []
    for field in schema:
        if field.name in given.history:
            values = given.stored(field.name, given.history[field.name])
        elif field.name == given.vocab.offset_column:
            values = pa.array(range(rows), pa.int64())
        elif field.name == given.vocab.system_time_column:
            values = pa.array([0] * rows, field.type)
        elif field.name == given.event_time:
            values = pa.nulls(rows, field.type)
        else:
            raise BadInputError(f"`history_columns` has no {field.name!r}")
        columns.append(values if values.type == field.type else values.cast(field.type))
    with SliceWriter(path, schema) as writer:
        writer.write(pa.table(columns, schema=schema))


def _write_csv(given: _Given, path: Path) -> None:
    """Write the new rows: text always in quotes, so that only null is an empty field."""
    columns = {name: given.stored(name, values) for name, values in given.new.items()}
    for name, values in columns.items():
        if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
            raise BadInputError(f"column {name!r} of the new rows has a type that CSV cannot hold")
        if len(columns) == 1 and values.null_count:
            raise BadInputError(f"the only column {name!r} is null, which CSV cannot hold")
    rows = zip(*(written(values) for values in columns.values()), strict=True)
    lines = (",".join(map(_csv_field, row)) + "\n" for row in ([*columns], *rows))
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(lines)


def _csv_field(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return '"' + value.replace('"', '""') + '"'
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def _rows(given: _Given, table: pa.Table) -> list[list[object]]:
    """Return the rows of the answer, from the slice."""
    missing = [name for name in given.output if name not in table.column_names]
    if missing:
        raise BadInputError(
            f"the merged rows have no column {missing[0]!r} of `output_columns`; they have "
            f"{', '.join(table.column_names)}"
        )
    columns = [_output(given, name, table.column(name).combine_chunks()) for name in given.output]
    return [list(row) for row in zip(*columns, strict=True)]


def _output(given: _Given, name: str, values: pa.Array) -> Sequence[object]:
    if name != given.event_time:
        return written(values)
    stand_in = given.null_stand_in()
    is_number = name in given.types and pa.types.is_integer(given.types[name])
    millis = _millis(values, keep_null=True)
    texts: Sequence[object] = millis if is_number else written(values)
    return [
        None if moment == stand_in else text for moment, text in zip(millis, texts, strict=True)
    ]


def _millis(values: pa.Array, *, keep_null: bool = False) -> list[Any]:
    """Return times or dates as milliseconds since 1970."""
    if pa.types.is_date32(values.type):
        days = values.cast(pa.int32()).to_pylist()
        found = [None if day is None else day * _MILLIS_PER_DAY for day in days]
    elif pa.types.is_timestamp(values.type) or pa.types.is_date64(values.type):
        found = values.cast(TIMESTAMP_MS_UTC, safe=False).cast(pa.int64()).to_pylist()
    else:
        return []  # no time at all: the engine says so
    return found if keep_null else [value for value in found if value is not None]


def _length(columns: dict[str, pa.Array]) -> int:
    return next((len(values) for values in columns.values()), 0)

"""The columns that take part in a merge, checked against the dataset and its vocabulary."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from odf.data.types import TIMESTAMP_MS_UTC, describe, from_arrow, slice_type
from odf.engines.spark.parts import Parts
from odf.errors import BadInputError
from odf.metadata.model import DatasetVocabulary

PRIMARY_KEY: Final = "primary key"
"""The role of the columns by which a merge strategy tells rows apart."""


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows that were read and preprocessed, and are to be merged.

    Attributes:
        parts: The rows.
        stored: Name, type in the slice and nullability of each column of the parts.
        label: Says where some rows came from, given their values of the hidden row column.
        notes: What there is to tell a person about the files that they were read from.
    """

    parts: Parts
    stored: pa.Schema
    label: Callable[[Sequence[int]], list[str]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeColumn:
    """A column of the merge's result, the operation excepted.

    Attributes:
        name: Its name in the files.
        field: Its field in the slice.
        in_new: Whether the new rows have it. Only an event time column may be missing.
        in_history: Whether the dataset has it already.
    """

    name: str
    field: pa.Field
    in_new: bool
    in_history: bool


@dataclass(frozen=True, slots=True)
class MergeLayout:
    """What a merge knows about columns.

    Attributes:
        columns: The event time column first, then those of the dataset in its order, then the
            others in the order of the new rows.
        vocab: Names of the system columns.
        has_op: Whether the new rows say which operation each of them is.
    """

    columns: tuple[MergeColumn, ...]
    vocab: DatasetVocabulary
    has_op: bool = False

    @property
    def event_time(self) -> MergeColumn:
        """The event time column."""
        return self.columns[0]

    def positions(self, names: Sequence[str], role: str) -> tuple[int, ...]:
        """Return where columns with these names are.

        Args:
            names: As the merge strategy writes them.
            role: What they are there, for messages: `PRIMARY_KEY` or `compared`.

        Raises:
            BadInputError: There is no such column in the new rows, or a key column is nested.
        """
        known = {
            column.name.casefold(): position
            for position, column in enumerate(self.columns)
            if column.in_new
        }
        missing = [name for name in names if name.casefold() not in known]
        if missing:
            raise BadInputError(
                f"the {role} column `{missing[0]}` is not in the data; it has "
                f"{', '.join(f'`{c.name}`' for c in self.columns if c.in_new)}",
                reason="missing_key",
                hint="check `primaryKey` and `compareColumns` of the merge strategy",
            )
        found = tuple(known[name.casefold()] for name in names)
        for field in (self.columns[position].field for position in found):
            if pa.types.is_nested(field.type) and role == PRIMARY_KEY:
                raise BadInputError(
                    f"the primary key column `{field.name}` is "
                    f"{describe(from_arrow(field.type))}; a key cannot have parts of its own",
                    reason="missing_key",
                    hint="choose another primary key, or take the parts out in the preprocess "
                    "query",
                )
        return found

    def output_schema(self, op_column: str, *, keeps_not_null: Sequence[int]) -> pa.Schema:
        """Return the schema of the merged rows: the operation, event time, the other columns.

        Args:
            op_column: Name of the operation column.
            keeps_not_null: Positions of columns in which the merge makes no nulls.
        """
        fields = [
            column.field if position in keeps_not_null else column.field.with_nullable(True)
            for position, column in enumerate(self.columns)
        ]
        return pa.schema([pa.field(op_column, pa.int32(), nullable=False), *fields])


def make_layout(
    new: NewRows,
    vocab: DatasetVocabulary,
    dataset_schema: pa.Schema | None,
    *,
    takes_op: bool = False,
) -> MergeLayout:
    """Check the columns of new rows and lay out the merge.

    Args:
        new: The rows.
        vocab: Names of the system columns.
        dataset_schema: Schema of the slices so far, if there are any.
        takes_op: Whether the rows may have the operation column.

    Raises:
        BadInputError: A column has the name of a system column or the name of another one, the
            event time is neither a date nor a timestamp, or a column changed its type.
    """
    op = vocab.operation_type_column
    has_op = takes_op and op in new.stored.names
    if has_op:
        _check_op(new.stored.field(op))
    data = [field for field in new.stored if not (has_op and field.name == op)]
    _check_names([field.name for field in data], vocab)
    old = {field.name: field for field in dataset_schema or ()}
    event_name = vocab.event_time_column
    columns = []
    for field in data:
        if field.name == event_name:
            _check_event_time(field)
        if field.name in old:
            _check_type(field, old[field.name])
        columns.append(MergeColumn(field.name, field, True, field.name in old))
    found = [column for column in columns if column.name == event_name]
    if not found:
        default = pa.field(event_name, TIMESTAMP_MS_UTC)
        known = old.get(event_name, default)
        found = [
            MergeColumn(
                event_name, default.with_type(slice_type(known.type)), False, event_name in old
            )
        ]
    others = [column for column in columns if column.name != event_name]
    # Columns are known by their names: those of the dataset keep their order, new ones follow.
    places = {name: place for place, name in enumerate(old)}
    others.sort(key=lambda column: places.get(column.name, len(places)))
    return MergeLayout((*found, *others), vocab, has_op)


def without_columns(new: NewRows, dataset_schema: pa.Schema, vocab: DatasetVocabulary) -> NewRows:
    """Give rows of files that were empty to the last byte the columns of the dataset."""
    system = {
        vocab.offset_column,
        vocab.operation_type_column,
        vocab.system_time_column,
        vocab.event_time_column,
    }
    fields = [field for field in dataset_schema if field.name not in system]
    schema = pa.schema(fields)
    return replace(new, parts=Parts((), schema, 0), stored=schema)


def _check_names(names: Sequence[str], vocab: DatasetVocabulary) -> None:
    reserved = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
    seen: dict[str, str] = {}
    for name in names:
        for system in reserved:
            if name.casefold() == system.casefold():
                raise BadInputError(
                    f"the data has a column `{name}`, which is the name of the system column "
                    f"`{system}`",
                    reason="system_column",
                    hint="rename it in the preprocess query, or change the vocabulary (SetVocab)",
                )
        other = seen.setdefault(name.casefold(), name)
        if other is not name:
            raise BadInputError(
                f"the data has the columns `{other}` and `{name}`, which are the same name",
                reason="schema",
                hint="rename one of them",
            )
        event_time = vocab.event_time_column
        if name.casefold() == event_time.casefold() and name != event_time:
            raise BadInputError(
                f"the data has a column `{name}`; the event time column is `{event_time}`",
                reason="system_column",
                hint="write the name in the same case, or rename the column",
            )


def _check_op(field: pa.Field) -> None:
    if not pa.types.is_integer(field.type):
        raise BadInputError(
            f"the operation column `{field.name}` has to be an integer (0 append, 1 retract, "
            f"2 correct from, 3 correct to), it is {describe(from_arrow(field.type))}",
            reason="system_column",
            hint=f"declare `{field.name} INT` in the read schema, or convert it in the "
            "preprocess query",
        )


def _check_event_time(field: pa.Field) -> None:
    if not (pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)):
        raise BadInputError(
            f"the event time column `{field.name}` has to be a DATE or a TIMESTAMP, "
            f"it is {describe(from_arrow(field.type))}",
            reason="event_time",
            hint="declare its type in the read schema, or convert it in the preprocess query",
        )


def _check_type(new: pa.Field, old: pa.Field) -> None:
    got, wanted = from_arrow(slice_type(new.type)), from_arrow(slice_type(old.type))
    if got != wanted:
        raise BadInputError(
            f"the column `{new.name}` is {describe(wanted)} in the dataset, "
            f"the new data has {describe(got)}",
            reason="schema",
            hint="convert it in the preprocess query; columns of a dataset keep their types",
        )

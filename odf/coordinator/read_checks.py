"""Checking a read step when a dataset is added: what can never be read is told before any pull."""

from collections.abc import Sequence
from typing import Final

from odf.data.datatypes import Column, Kind
from odf.data.read_options import check_read_step, describe_type
from odf.errors import BadInputError, in_context
from odf.metadata.identity import DatasetAlias
from odf.metadata.model import (
    AddPushSource,
    DatasetVocabulary,
    MergeStrategyChangelogStream,
    MergeStrategyUpsertStream,
    ReadStep,
    ReadStepCsv,
    SetPollingSource,
)

_TIMES: Final = (Kind.DATE, Kind.TIMESTAMP)
_INTEGERS: Final = frozenset(kind for kind in Kind if kind.value.split()[0].endswith("INT"))


def check_read(
    name: DatasetAlias, source: SetPollingSource | AddPushSource, vocab: DatasetVocabulary
) -> tuple[Column, ...] | None:
    """Look for what no data could be read with.

    Args:
        name: The dataset.
        source: Whose read step it is.
        vocab: Names of the system columns.

    Returns:
        The declared columns; None if none are declared.

    Raises:
        BadInputError: The read step can never work, or the columns that it declares cannot be
            those of the dataset.
    """
    try:
        columns = check_read_step(source.read)
        if columns is not None and source.preprocess is None:
            takes_op = isinstance(
                source.merge, MergeStrategyChangelogStream | MergeStrategyUpsertStream
            )
            _check_system_columns(columns, vocab, takes_op=takes_op)
    except BadInputError as error:
        raise in_context(error, f"dataset {name}: read") from error
    return columns


def read_warnings(name: DatasetAlias, read: ReadStep) -> tuple[str, ...]:
    """Say which options of a read step do nothing."""
    if isinstance(read, ReadStepCsv) and read.infer_schema and (read.schema or read.data_schema):
        return (f"dataset {name}: inferSchema does nothing beside a schema: its types hold",)
    return ()


def _check_system_columns(
    columns: Sequence[Column], vocab: DatasetVocabulary, *, takes_op: bool
) -> None:
    """Refuse columns that the merge would refuse whatever is in them."""
    event_time, op = vocab.event_time_column, vocab.operation_type_column
    reserved = {one.casefold(): one for one in (vocab.offset_column, op, vocab.system_time_column)}
    for column in columns:
        kind = column.type.kind
        if takes_op and column.name == op:
            if kind not in _INTEGERS:
                raise _misfit(column, "system_column", "the operation column has to be an integer")
        elif (system := reserved.get(column.name.casefold())) is not None:
            raise BadInputError(
                f"column `{column.name}` has the name of the system column `{system}`",
                reason="system_column",
                hint="give it another name in the schema, or change the vocabulary (SetVocab)",
            )
        elif column.name != event_time and column.name.casefold() == event_time.casefold():
            raise BadInputError(
                f"column `{column.name}`; the event time column is `{event_time}`",
                reason="system_column",
                hint="write the name in the same case, or rename the column",
            )
        elif column.name == event_time and kind not in _TIMES:
            raise _misfit(
                column, "event_time", "the event time column has to be a DATE or a TIMESTAMP"
            )


def _misfit(column: Column, reason: str, wanted: str) -> BadInputError:
    return BadInputError(
        f"column `{column.name}` is {describe_type(column.type)}; {wanted}",
        reason=reason,
        hint="declare it so, or convert it in a preprocess query",
    )

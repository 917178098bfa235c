"""What holds for the queries of every engine: their steps, their result, the order of its rows."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.host.engine import HIDDEN_BRANCH, HIDDEN_OFFSET, HIDDEN_PREFIX, ValidatedInput
from odf.errors import InvalidQueryError
from odf.metadata.model import DatasetVocabulary, SqlQueryStep, TransformSql

STATELESS: Final = "stateless"
"""Class of the queries that map each row by itself."""

PREPROCESS: Final = "preprocess"
"""Class of preprocess queries that look at more than one row."""

UNKNOWN: Final = "unknown"
"""Class of the queries over inputs that have no columns yet."""

RAW_INPUT: Final = "input"
"""Name of the view that plain queries and preprocess queries read (ingest.md §7)."""

_GEOMETRY_PREFIX: Final = "st_"


def refuse_geometry(name: str, where: str) -> None:
    """Refuse the functions of geometry extensions, which none of our engines has.

    Args:
        name: The function, in lower case.
        where: Which query calls it, for messages.

    Raises:
        InvalidQueryError: It is one of them.
    """
    if name.startswith(_GEOMETRY_PREFIX):
        raise InvalidQueryError(
            f"{where}: the function {name} is not available: this engine has no geometry functions",
            hint="a geometry is a column of GeoJSON text, whose parts are taken by functions for "
            "JSON; for st_ functions name the image of an engine that has them "
            "(docs/engines.md, Engines of others)",
            details={"function": name},
        )


def query_steps(
    transform: TransformSql,
    inputs: Collection[str],
    engine: str,
    fold: Callable[[str], str] = str.casefold,
    *,
    temporal_tables: bool = False,
) -> Sequence[SqlQueryStep]:
    """Return the steps of a query, after a check of their aliases.

    Args:
        transform: The query.
        inputs: Names of its inputs.
        engine: What the engine is called in messages.
        fold: Makes names that the engine takes for the same equal.
        temporal_tables: Whether the engine knows what to do with temporal tables.

    Raises:
        InvalidQueryError: There is no step, one that nothing reads, or a name is taken.
    """
    if transform.temporal_tables and not temporal_tables:
        raise InvalidQueryError(f"temporal tables are not supported by the {engine} engine")
    steps = transform.queries or ()
    if not steps:
        raise InvalidQueryError("the transform has no query")
    taken = {fold(name) for name in inputs}
    for number, step in enumerate(steps, 1):
        is_last = number == len(steps)
        if is_last and step.alias:
            raise InvalidQueryError(
                f"the last query has the alias `{step.alias}`: nothing could read it",
                hint="remove the alias; the last query is the result",
            )
        if not is_last and not step.alias:
            raise InvalidQueryError(
                f"query {number} of {len(steps)} has no alias, so that nothing reads it"
            )
        if step.alias:
            if fold(step.alias) in taken:
                raise InvalidQueryError(f"the name `{step.alias}` of query {number} is taken")
            taken.add(fold(step.alias))
    return steps


def step_name(number: int, steps: Sequence[SqlQueryStep]) -> str:
    """Say which query of a transform is meant; `number` counts from 1."""
    if len(steps) == 1:
        return "query"
    alias = steps[number - 1].alias
    return f"query {number} (`{alias}`)" if alias else f"query {number} (the last)"


def check_column_names(names: Sequence[str]) -> None:
    """Refuse a result whose columns could be confused with each other or with hidden ones.

    Raises:
        InvalidQueryError: They could.
    """
    seen: dict[str, str] = {}
    for name in names:
        folded = name.casefold()
        if folded.startswith(HIDDEN_PREFIX):
            raise InvalidQueryError(
                f"the result has a column `{name}`, a name that the engine keeps for itself",
                hint="rename it with AS",
            )
        if folded in seen:
            raise InvalidQueryError(
                f"the result has the columns `{seen[folded]}` and `{name}`, which are the same "
                "name",
                hint="rename one of them with AS",
            )
        seen[folded] = name


def check_result(schema: pa.Schema, vocab: DatasetVocabulary) -> None:
    """Check that the result of a transform can become a slice.

    Args:
        schema: Its columns.
        vocab: Names of the system columns.

    Raises:
        InvalidQueryError: The event time is missing or no time, or a system column is there.
    """
    for name in (vocab.offset_column, vocab.system_time_column):
        clash = next((c for c in schema.names if c.casefold() == name.casefold()), None)
        if clash is not None:
            raise InvalidQueryError(
                f"the result has a column `{clash}`, which is the name of the system column "
                f"`{name}`",
                hint="name the wanted columns instead of *, or rename it with AS",
            )
    event_time = vocab.event_time_column
    if event_time not in schema.names:
        listed = ", ".join(f"`{name}`" for name in schema.names)
        raise InvalidQueryError(
            f"the result has no event time column `{event_time}`; it has {listed}",
            hint=f"select the event time of an input: SELECT {event_time}, …",
        )
    found = schema.field(event_time).type
    if not (pa.types.is_timestamp(found) or pa.types.is_date(found)):
        raise InvalidQueryError(
            f"the event time column `{event_time}` of the result has to be a DATE or a TIMESTAMP, "
            f"it is {found}"
        )
    operation = vocab.operation_type_column
    if operation in schema.names and not pa.types.is_integer(schema.field(operation).type):
        raise InvalidQueryError(
            f"the operation column `{operation}` of the result has to be an INT, "
            f"it is {schema.field(operation).type}",
            hint="pass the column of an input through as it is",
        )


ORDER_WARNING: Final = (
    "ORDER BY has no effect: rows of a slice have an order of their own, the same for everyone"
)
"""Told of a query whose last clause is ORDER BY, without LIMIT (design §7, "Order")."""


def retraction_warnings(
    schema: pa.Schema, inputs: Sequence[ValidatedInput], vocab: DatasetVocabulary
) -> tuple[str, ...]:
    """Warn of each input whose retractions a query would turn into new rows."""
    operation = vocab.operation_type_column
    if operation in schema.names:
        return ()
    return tuple(
        f"the input `{given.alias}` has retractions and corrections, and the query drops "
        f"`{operation}`: they will be added as if they were new rows; select `{operation}` to "
        "pass them on"
        for given in inputs
        if given.has_retractions
    )


def checked_order(batches: Iterator[pa.RecordBatch], engine: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stateless query, making sure that they come by branch, then offset.

    Args:
        batches: The rows, with the hidden columns.
        engine: What the engine is called in messages.

    Raises:
        RuntimeError: They do not; the engine has a defect.
    """
    last = (-1, -1)
    for batch in batches:
        if batch.num_rows:
            branch, offset = batch.column(HIDDEN_BRANCH), batch.column(HIDDEN_OFFSET)
            first = (branch[0].as_py(), offset[0].as_py())
            if first < last or not _ascends(branch, offset):
                raise RuntimeError(f"{engine} gave the rows of a stateless query in another order")
            last = (branch[-1].as_py(), offset[-1].as_py())
        yield batch


def _ascends(branch: pa.Array, offset: pa.Array) -> bool:
    same = pc.equal(branch[1:], branch[:-1])
    fine = pc.or_(
        pc.greater(branch[1:], branch[:-1]),
        pc.and_(same, pc.greater_equal(offset[1:], offset[:-1])),
    )
    return pc.all(fine).as_py() is not False

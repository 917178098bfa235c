"""Checks and runs queries, with the rows of the result in a reproducible order."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from odf.data.slices import check_type
from odf.data.types import conform, slice_type
from odf.engines.datafusion.errors import is_unknown_column, planning_errors, running_errors
from odf.engines.datafusion.inputs import (
    register_empty,
    register_raw,
    register_view,
)
from odf.engines.datafusion.plans import (
    check_plan,
    check_stateless,
    check_text,
    is_trackable,
    state_construct,
    track,
    without_final_order,
)
from odf.engines.datafusion.session import DataFusionSettings, make_session, query, quoted
from odf.engines.host.engine import (
    HIDDEN_BRANCH,
    HIDDEN_OFFSET,
    QueryValidation,
    Rows,
    TransformJob,
    ValidatedInput,
)
from odf.engines.host.queries import (
    ORDER_WARNING,
    PREPROCESS,
    RAW_INPUT,
    STATELESS,
    UNKNOWN,
    check_column_names,
    check_result,
    checked_order,
    query_steps,
    retraction_warnings,
    step_name,
)
from odf.engines.host.views import even_schema
from odf.errors import BadInputError, InvalidQueryError
from odf.metadata.model import DatasetVocabulary, TransformSql

if TYPE_CHECKING:
    from datafusion import DataFrame, SessionContext

_ENGINE: Final = "DataFusion"


@dataclass(frozen=True, slots=True)
class _Planned:
    """A query whose every part is known and allowed.

    Attributes:
        frame: Its result, not computed yet.
        construct: What of it needs state, if anything does.
        drops_order: Whether it ended with an ORDER BY, which has no effect.
    """

    frame: "DataFrame"
    construct: str | None
    drops_order: bool = False


def transform(settings: DataFusionSettings, job: TransformJob) -> Rows:
    """Run the query of a derivative dataset (see `Engine.transform`)."""
    inputs, vocab = job.inputs, job.vocab
    context = make_session(settings, job.scratch)
    for number, view in enumerate(inputs):
        register_view(context, number, view, job.scratch / f"input-{number}")
    names = [view.alias for view in inputs]
    planned = _plan(context, job.transform, names, not_stateful=not settings.slice_by_slice)
    schema = _result_schema(planned.frame)
    check_result(schema, vocab)
    if planned.construct is not None:
        first = vocab.event_time_column
        others = [name for name in schema.names if name not in (first, vocab.operation_type_column)]
        last = [name for name in schema.names if name == vocab.operation_type_column]
        return _sorted(planned.frame, [first, *others, *last], schema)
    plan = planned.frame.logical_plan()
    if not is_trackable(plan):
        _refuse_untracked_operations(schema, vocab)
        return Rows(schema, _batches(planned.frame, schema))
    offsets = tuple(view.vocab.offset_column for view in inputs)
    tracked = track(context, plan, offsets)
    hidden = [pa.field(HIDDEN_BRANCH, pa.int32()), pa.field(HIDDEN_OFFSET, pa.int64())]
    with_hidden = pa.schema([*schema, *hidden])
    return Rows(with_hidden, checked_order(_batches(tracked, with_hidden), _ENGINE))


def raw_query(
    settings: DataFusionSettings, transform_sql: TransformSql, paths: Sequence[str], scratch: Path
) -> Rows:
    """Run a query over plain Parquet files, the table `input` (see `Engine.raw_query`).

    Rows that are mapped one by one keep their order; any other result is put into the order of
    its values, column by column.
    """
    context = make_session(settings, scratch)
    register_raw(context, paths, scratch / "input")
    planned = _plan(context, transform_sql, [RAW_INPUT], is_transform=False)
    schema = _result_schema(planned.frame)
    if planned.construct is not None:
        return _sorted(planned.frame, schema.names, schema)
    return Rows(schema, _batches(planned.frame, schema))


def validate(
    settings: DataFusionSettings,
    transform_sql: TransformSql,
    inputs: Sequence[ValidatedInput],
    vocab: DatasetVocabulary,
    scratch: Path,
    *,
    preprocess: bool,
) -> QueryValidation:
    """Check a query without running it (see `Engine.validate`)."""
    context = make_session(settings, scratch)
    for number, given in enumerate(inputs):
        names_in_it = given.vocab or vocab
        schema = pa.schema([]) if given.schema is None else even_schema(given.schema, names_in_it)
        register_empty(context, number, given.alias, schema)
    names = [given.alias for given in inputs]
    is_known = all(given.schema is not None for given in inputs)
    try:
        planned = _plan(
            context,
            transform_sql,
            names,
            is_transform=not preprocess,
            not_stateful=not preprocess,
        )
    except InvalidQueryError as error:
        if is_known or not is_unknown_column(error):
            raise
        return QueryValidation(UNKNOWN, None)
    if not is_known:
        return QueryValidation(UNKNOWN, None)
    schema = _result_schema(planned.frame)
    if preprocess:
        query_class = STATELESS if planned.construct is None else PREPROCESS
        return QueryValidation(query_class, schema)
    check_result(schema, vocab)
    if not is_trackable(planned.frame.logical_plan()):
        _refuse_untracked_operations(schema, vocab)
    warnings = retraction_warnings(schema, inputs, vocab)
    if planned.drops_order:
        warnings = (*warnings, ORDER_WARNING)
    return QueryValidation(STATELESS, schema, warnings)


def _plan(
    context: "SessionContext",
    transform_sql: TransformSql,
    inputs: Collection[str],
    *,
    is_transform: bool = True,
    not_stateful: bool = False,
) -> _Planned:
    known = list(inputs)
    steps = query_steps(transform_sql, inputs, _ENGINE, fold=str)
    construct, ordered = None, None
    for number, step in enumerate(steps, 1):
        where = step_name(number, steps)
        check_text(step.query, where)
        with planning_errors(where, known):
            frame = query(context, step.query)
        plan = frame.logical_plan()
        check_plan(plan, where)
        if is_transform and number == len(steps):
            ordered = without_final_order(context, plan)
            frame = frame if ordered is None else ordered
            plan = frame.logical_plan()
        if not_stateful:
            check_stateless(plan, where)
        construct = state_construct(plan)
        if step.alias:
            context.register_view(quoted(step.alias), frame)
            known.append(step.alias)
    check_column_names(frame.schema().names)
    with planning_errors("query", known):
        # Types are found to fit or not only here.
        frame.execution_plan()
    return _Planned(frame, construct, drops_order=ordered is not None)


def _result_schema(frame: "DataFrame") -> pa.Schema:
    """Return the columns of a result as they are stored."""
    fields = []
    for field in frame.schema():
        stored = slice_type(field.type)
        try:
            check_type(pa.field(field.name, stored))
        except BadInputError as error:
            raise InvalidQueryError(
                f"the column `{field.name}` of the result: {error.message}",
                hint="give it a type with CAST",
            ) from error
        fields.append(pa.field(field.name, stored))
    return pa.schema(fields)


def _refuse_untracked_operations(schema: pa.Schema, vocab: DatasetVocabulary) -> None:
    operation = vocab.operation_type_column
    if operation in schema.names:
        raise InvalidQueryError(
            f"UNNEST and the operation column `{operation}` do not go together: it would not be "
            "known which corrections belong together",
            hint="leave the column out, or write the query for Spark (engine: spark)",
        )


def _sorted(frame: "DataFrame", names: Sequence[str], schema: pa.Schema) -> Rows:
    """Return rows that have no order of their own in the order of their values."""
    from datafusion import col  # noqa: PLC0415

    _refuse_unordered(frame)
    keys = [col(quoted(name)).sort(ascending=True, nulls_first=True) for name in names]
    return Rows(schema, _batches(frame.sort(*keys), schema))


def _refuse_unordered(frame: "DataFrame") -> None:
    """Refuse to bring the branches of a union together in the order in which they get ready.

    Sums of floating numbers, `array_agg` and LIMIT would give other values each time.
    """
    if "CoalescePartitionsExec" in frame.execution_plan().display_indent():
        raise InvalidQueryError(
            "grouping, joining or limiting the rows of a UNION ALL has no fixed order in the "
            "DataFusion engine",
            hint="put the UNION ALL into a dataset of its own, or write the query for Spark "
            "(engine: spark)",
        )


def _batches(frame: "DataFrame", schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Compute a result, partition after partition: branches of a union as they are written."""
    with running_errors():
        for stream in frame.execute_stream_partitioned():
            for found in stream:
                batch = found.to_pyarrow()
                columns = [
                    conform(column, field.type)
                    for column, field in zip(batch.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

"""Runs the query of a derivative dataset, and plain queries, in a reproducible order."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.engines.host.engine import (
    InputView,
    Migration,
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
    check_result,
    checked_order,
    retraction_warnings,
)
from odf.engines.spark.catalyst import Catalyst, translated_errors
from odf.engines.spark.collect import SMALL_ROWS, collect
from odf.engines.spark.merge.frames import read_parquet
from odf.engines.spark.query.advice import advice, advised
from odf.engines.spark.query.inputs import (
    PreparedInput,
    prepare_empty,
    prepare_input,
    register,
)
from odf.engines.spark.query.known import KnownQueries
from odf.engines.spark.query.results import (
    in_order,
    keep_order,
    result_schema,
    sorted_by_all_columns,
    stored_schema,
    stored_type,
)
from odf.engines.spark.query.rewrite import with_origins
from odf.engines.spark.query.validate import (
    Analysed,
    analyse_again,
    analyse_steps,
    check_steps,
)
from odf.engines.spark.stateful.base import StatefulRun, state_key
from odf.engines.spark.stateful.checkpoint import is_state, read_state
from odf.engines.spark.stateful.classify import classify
from odf.engines.spark.stateful.dispatch import run_stateful
from odf.engines.spark.stateful.kinds import Classified, QueryInput, QueryKind, Question
from odf.metadata.model import DatasetVocabulary, TransformSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RUN_HINT: Final = "for values that do not fit use try_cast, try_divide and the like"
_OWN_VIEWS: Final = frozenset({QueryKind.BOUNDED, QueryKind.CHANGING, QueryKind.AS_OF})
"""Kinds that make views of their own before they analyse the query, and need no others."""


@dataclass(frozen=True, slots=True)
class OpenedQuery:
    """A query over views of the new rows, of a known kind.

    Attributes:
        new: The new rows of each input.
        question: The query, analysed.
        classified: Its kind.
        schema: Schema of its result.
    """

    new: tuple[PreparedInput, ...]
    question: Question
    classified: Classified
    schema: pa.Schema


def transform(spark: "SparkSession", job: TransformJob, known: KnownQueries) -> Rows:
    """Run the query of a derivative dataset (see `Engine.transform`).

    Args:
        spark: A session.
        job: The step.
        known: The queries that were accepted before.
    """
    new = _prepare(spark, job)
    found = known.find(job, new)
    if found is None:
        opened = _opened(spark, job, new)
        known.remember(job, new, opened.classified, opened.schema)
        return run_opened(spark, job, opened)
    if found.classified.kind not in _OWN_VIEWS:
        _register(spark, new)
    with translated_errors("the query failed", _RUN_HINT):
        if found.classified.kind is QueryKind.STATELESS:
            names = [view.alias for view in job.inputs]
            analysed = analyse_again(spark, job.transform, names)
            return _mapped(spark, analysed, job, sum(given.rows for given in new))
        schema = stored_schema(found.schema)
        return run_stateful(StatefulRun(spark, job, new, found.classified, schema))


def open_query(spark: "SparkSession", job: TransformJob) -> OpenedQuery:
    """Make views of the new rows of the inputs, and look at what the query is.

    Raises:
        InvalidQueryError: It cannot be accepted.
    """
    return _opened(spark, job, _prepare(spark, job))


def _prepare(spark: "SparkSession", job: TransformJob) -> tuple[PreparedInput, ...]:
    """Bring the new rows of each input into one file."""
    job.scratch.mkdir(parents=True, exist_ok=True)
    keep_order(spark)
    return tuple(
        prepare_input(view, job.scratch / f"input-{number}.parquet")
        for number, view in enumerate(job.inputs)
    )


def _register(spark: "SparkSession", new: Sequence[PreparedInput]) -> None:
    for prepared in new:
        register(spark, prepared)


def _opened(
    spark: "SparkSession", job: TransformJob, new: tuple[PreparedInput, ...]
) -> OpenedQuery:
    _register(spark, new)
    names = [view.alias for view in job.inputs]
    analysed = analyse_steps(spark, job.transform, names, incremental=True)
    schema = result_schema(analysed.frame)
    check_result(schema, job.vocab)
    inputs = tuple(QueryInput(view.alias, view.vocab, view.has_retractions) for view in job.inputs)
    question = Question(Catalyst(spark), analysed, inputs, job.vocab, job.transform)
    return OpenedQuery(new, question, classify(question), schema)


def run_opened(spark: "SparkSession", job: TransformJob, opened: OpenedQuery) -> Rows:
    """Run a query that was opened in the same session."""
    with translated_errors("the query failed", _RUN_HINT):
        if opened.classified.kind is QueryKind.STATELESS:
            rows = sum(given.rows for given in opened.new)
            return _mapped(spark, opened.question.analysed, job, rows)
        return run_stateful(stateful_run(spark, job, opened))


def stateful_run(spark: "SparkSession", job: TransformJob, opened: OpenedQuery) -> StatefulRun:
    """Return the run of a stateful query; its state is read."""
    schema = stored_schema(opened.schema)
    return StatefulRun(spark, job, opened.new, opened.classified, schema)


def _mapped(spark: "SparkSession", analysed: Analysed, job: TransformJob, rows: int) -> Rows:
    """Run a query that maps each row by itself."""
    frame = _with_origins(spark, analysed, job.inputs)
    found = collect(frame, job.scratch / "result", small=rows <= SMALL_ROWS)
    schema = pa.schema(
        [pa.field(field.name, stored_type(field), nullable=True) for field in found.schema]
    )
    return Rows(schema, checked_order(found.batches(schema), "Spark"))


def validate(
    spark: "SparkSession",
    query: TransformSql,
    inputs: Sequence[ValidatedInput],
    vocab: DatasetVocabulary,
    scratch: Path,
    *,
    preprocess: bool,
) -> QueryValidation:
    """Check a query without running it (see `Engine.validate`)."""
    names = [given.alias for given in inputs]
    if any(given.schema is None for given in inputs):
        stateless = check_steps(spark, query, names, incremental=not preprocess)
        if preprocess:
            return QueryValidation(PREPROCESS, None)
        if stateless and not query.temporal_tables:
            return QueryValidation(STATELESS, None)
        return QueryValidation(UNKNOWN, None)
    _register_empty(spark, inputs, vocab, scratch)
    analysed = analyse_steps(spark, query, names, incremental=not preprocess)
    schema = result_schema(analysed.frame)
    if preprocess:
        return QueryValidation(STATELESS if analysed.stateless else PREPROCESS, schema)
    check_result(schema, vocab)
    question = _question(spark, query, analysed, inputs, vocab)
    with advised(question):
        classified = classify(question)
    warnings = classified.warnings
    if classified.kind is QueryKind.STATELESS:
        warnings = retraction_warnings(schema, inputs, vocab)
    elif classified.kind is QueryKind.WHOLE_HISTORY:
        instead = advice(question)
        warnings = (*warnings, instead) if instead else warnings
    if analysed.drops_order:
        warnings = (*warnings, ORDER_WARNING)
    return QueryValidation(str(classified.kind), schema, warnings, classified.words)


def migrate(
    spark: "SparkSession",
    query: TransformSql,
    inputs: Sequence[ValidatedInput],
    vocab: DatasetVocabulary,
    checkpoint: Path,
    scratch: Path,
) -> Migration:
    """Say whether the state of another query goes on with this one (see `Engine.migrate`)."""
    if not is_state(checkpoint):
        return Migration("it is the state of another engine", {})
    owner, state = read_state(checkpoint, scratch / "state")
    lost = {name: pq.read_metadata(path).num_rows for name, path in state.tables.items()}
    if any(given.schema is None for given in inputs):
        return Migration("some of its inputs have no data yet", lost)
    prepared = _register_empty(spark, inputs, vocab, scratch)
    analysed = analyse_steps(spark, query, [given.alias for given in inputs], incremental=True)
    schema = result_schema(analysed.frame)
    check_result(schema, vocab)
    question = _question(spark, query, analysed, inputs, vocab)
    classified = classify(question)
    if classified.kind is QueryKind.STATELESS:
        return Migration("the query needs no state", lost)
    schemas = tuple(given.schema for given in prepared)
    key = state_key(query, question.inputs, vocab, classified, schemas, stored_schema(schema))
    reason = key.difference(owner)
    return Migration(reason, {} if reason is None else lost)


def _register_empty(
    spark: "SparkSession",
    inputs: Sequence[ValidatedInput],
    vocab: DatasetVocabulary,
    scratch: Path,
) -> list[PreparedInput]:
    """Make views without rows of inputs whose columns are known."""
    found = []
    for number, given in enumerate(inputs):
        if given.schema is not None:
            path = scratch / f"validate-{number}.parquet"
            found.append(prepare_empty(given.alias, given.schema, given.vocab or vocab, path))
            register(spark, found[-1])
    return found


def _question(
    spark: "SparkSession",
    query: TransformSql,
    analysed: Analysed,
    inputs: Sequence[ValidatedInput],
    vocab: DatasetVocabulary,
) -> Question:
    facts = tuple(
        QueryInput(given.alias, given.vocab or vocab, given.has_retractions) for given in inputs
    )
    return Question(Catalyst(spark), analysed, facts, vocab, query)


def raw_query(
    spark: "SparkSession", query: TransformSql, paths: Sequence[str], scratch: Path
) -> Rows:
    """Run a query over plain Parquet files, the view `input` (see `Engine.raw_query`).

    A query that maps each row by itself keeps the order of the files and of the rows in them; any
    other result is put into the order of its values.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    keep_order(spark)
    files = [read_parquet(spark, [path], pq.read_schema(path)) for path in paths]
    in_order(files).createOrReplaceTempView(RAW_INPUT)
    analysed = analyse_steps(spark, query, [RAW_INPUT], incremental=False)
    with translated_errors("the query failed", _RUN_HINT):
        frame = analysed.frame if analysed.stateless else sorted_by_all_columns(analysed.frame)
        found = collect(frame, scratch / "result", small=_count(paths) <= SMALL_ROWS)
    schema = stored_schema(found.schema)
    return Rows(schema, found.batches(schema))


def _with_origins(
    spark: "SparkSession", analysed: Analysed, inputs: Sequence[InputView]
) -> "DataFrame":
    catalyst = Catalyst(spark)
    offsets = {view.alias.casefold(): view.vocab.offset_column for view in inputs}
    return catalyst.frame(with_origins(catalyst, analysed.plan, offsets))


def _count(paths: Sequence[str]) -> int:
    return sum(pq.read_metadata(path).num_rows for path in paths)

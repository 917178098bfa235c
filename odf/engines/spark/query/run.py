"""Runs the query of a derivative dataset, and plain queries, in a reproducible order."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from odf.data.types import slice_type
from odf.engines.host.engine import (
    HIDDEN_BRANCH,
    HIDDEN_OFFSET,
    InputView,
    QueryValidation,
    Rows,
    ValidatedInput,
)
from odf.engines.host.queries import (
    PREPROCESS,
    RAW_INPUT,
    STATELESS,
    check_result,
    checked_order,
    retraction_warnings,
)
from odf.engines.spark.catalyst import Catalyst, translated_errors
from odf.engines.spark.collect import SMALL_ROWS, collect
from odf.engines.spark.merge.frames import read_parquet
from odf.engines.spark.query.inputs import prepare_empty, prepare_input, register
from odf.engines.spark.query.rewrite import Rewriter
from odf.engines.spark.query.validate import Analysed, analyse_steps, check_steps
from odf.metadata.model import DatasetVocabulary, TransformSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ONE_PARTITION: Final = {
    # One split for each file, so that its rows stay in order.
    "spark.sql.files.maxPartitionBytes": str(1 << 60),
    "spark.sql.files.minPartitionNum": "1",
}
_RUN_HINT: Final = "for values that do not fit use try_cast, try_divide and the like"


def transform(
    spark: "SparkSession",
    query: TransformSql,
    inputs: Sequence[InputView],
    vocab: DatasetVocabulary,
    scratch: Path,
) -> Rows:
    """Run the query of a derivative dataset (see `Engine.transform`)."""
    scratch.mkdir(parents=True, exist_ok=True)
    keep_order(spark)
    rows = 0
    for number, view in enumerate(inputs):
        prepared = prepare_input(view, scratch / f"input-{number}.parquet")
        register(spark, prepared)
        rows += prepared.rows
    names = [view.alias for view in inputs]
    analysed = analyse_steps(spark, query, names, stateless_only=True)
    check_result(result_schema(analysed.frame), vocab)
    frame = _with_origins(spark, analysed, inputs)
    with translated_errors("the query failed", _RUN_HINT):
        found = collect(frame, scratch / "result", small=rows <= SMALL_ROWS)
    schema = pa.schema(
        [pa.field(field.name, _stored(field), nullable=True) for field in found.schema]
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
    schemas = [given.schema for given in inputs]
    known = [schema for schema in schemas if schema is not None]
    if len(known) < len(schemas):
        check_steps(spark, query, names, stateless_only=not preprocess)
        return QueryValidation(PREPROCESS if preprocess else STATELESS, None)
    for number, (name, schema) in enumerate(zip(names, known, strict=True)):
        empty = prepare_empty(name, schema, vocab, scratch / f"validate-{number}.parquet")
        register(spark, empty)
    analysed = analyse_steps(spark, query, names, stateless_only=not preprocess)
    schema = result_schema(analysed.frame)
    if preprocess:
        return QueryValidation(STATELESS if analysed.stateless else PREPROCESS, schema)
    check_result(schema, vocab)
    return QueryValidation(STATELESS, schema, retraction_warnings(schema, inputs, vocab))


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
    analysed = analyse_steps(spark, query, [RAW_INPUT], stateless_only=False)
    with translated_errors("the query failed", _RUN_HINT):
        frame = analysed.frame if analysed.stateless else sorted_by_all_columns(analysed.frame)
        found = collect(frame, scratch / "result", small=_count(paths) <= SMALL_ROWS)
    schema = pa.schema([pa.field(field.name, _stored(field)) for field in found.schema])
    return Rows(schema, found.batches(schema))


def in_order(frames: Sequence["DataFrame"]) -> "DataFrame":
    """Return the rows of frames one after the other, each frame in partitions of its own."""
    result = frames[0]
    for other in frames[1:]:
        result = result.unionAll(other)
    return result


def keep_order(spark: "SparkSession") -> None:
    """Have the session read each file in one partition."""
    for name, value in _ONE_PARTITION.items():
        spark.conf.set(name, value)


def sorted_by_all_columns(frame: "DataFrame") -> "DataFrame":
    """Return a frame in the one order that its values alone decide: column by column."""
    from pyspark.sql import functions  # noqa: PLC0415

    columns = [frame[position] for position in range(len(frame.columns))]
    return frame.sort(*[functions.asc_nulls_first(column) for column in columns])


def result_schema(frame: "DataFrame") -> pa.Schema:
    """Return the Arrow schema of a frame without computing anything."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    schema: pa.Schema = to_arrow_schema(frame.schema, timezone="UTC")
    return pa.schema([field.with_nullable(True) for field in schema])


def _with_origins(
    spark: "SparkSession", analysed: Analysed, inputs: Sequence[InputView]
) -> "DataFrame":
    catalyst = Catalyst(spark)
    offsets = {view.alias.casefold(): view.vocab.offset_column for view in inputs}
    return catalyst.frame(Rewriter(catalyst, offsets).rewrite(analysed.plan))


def _stored(field: pa.Field) -> pa.DataType:
    return field.type if field.name in (HIDDEN_BRANCH, HIDDEN_OFFSET) else slice_type(field.type)


def _count(paths: Sequence[str]) -> int:
    return sum(pq.read_metadata(path).num_rows for path in paths)

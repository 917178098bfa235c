"""As-of joins: each row meets the version that was valid at its event time.

A row leaves when the watermark of all inputs has passed its event time, since no version that
could be valid for it is still to come. Kept are the rows that wait for that, the versions that
are newer than the watermark, and of each key the one version that is valid at it. What is kept
are rows of the inputs as they came, so the query runs over them again as it is written.

A version that was retracted is gone, and leaves a gap: nothing is valid from its event time to
that of the next version. Of several versions with the same key and event time the last counts.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.engines.host.engine import Rows
from odf.engines.host.views import fit_batch
from odf.engines.spark.catalyst import Plan
from odf.engines.spark.collect import SMALL_ROWS, collect
from odf.engines.spark.merge.frames import quoted, read_parquet
from odf.engines.spark.parts import PartWriter
from odf.engines.spark.stateful.asof_linear import POSITION, LinearForm, Span, Versions
from odf.engines.spark.stateful.asof_plan import chain_nodes, left_and_right, take_apart
from odf.engines.spark.stateful.base import StatefulRun
from odf.engines.spark.stateful.kinds import Derived, Question, Stateful
from odf.engines.spark.stateful.lateness import as_milliseconds
from odf.engines.spark.stateful.net import Net, current, is_retraction
from odf.engines.spark.stateful.order import by_time_then_values, sorted_in_one_partition
from odf.engines.spark.stateful.temporal import as_of_joins, check_tables
from odf.metadata.model import DatasetVocabulary

_WORDS: Final = (
    "as-of join, complete up to the watermark; keeps the rows that wait for it, newer versions, "
    "and one version of each key"
)
_ROWS: Final = "rows-{}"
_GAPS: Final = "gaps-{}"


@dataclass(frozen=True, slots=True)
class AsOfDetail:
    """What each input is to an as-of join; some can be both.

    Attributes:
        rows: Positions of the inputs whose rows look for versions.
        versions: Positions of the inputs whose rows are versions.
    """

    rows: frozenset[int]
    versions: frozenset[int]


def derive_as_of(question: Question, found: Stateful | str) -> Derived | str:  # noqa: ARG001
    """Tell whether a query is an as-of join; see `classify.Derive`.

    Raises:
        InvalidQueryError: It is one that cannot be run bit by bit, or a temporal table is used in
            another way.
    """
    plan = with_as_of_joins(question)
    times = _event_times(question)
    if not any(node.kind == "AsOfJoin" for node in plan.walk(times)):
        return "it has no as-of join"
    for node in chain_nodes(plan, times):
        take_apart(node, times)
    rows, versions = left_and_right(plan, times)
    detail = AsOfDetail(
        frozenset(map(question.number_of, rows)), frozenset(map(question.number_of, versions))
    )
    return Derived(detail, _WORDS, _warnings(question, detail))


def with_as_of_joins(question: Question) -> Plan:
    """Return the plan of a query, with joins with temporal tables turned into as-of joins.

    Raises:
        InvalidQueryError: A temporal table is not declared well, or used in another way.
    """
    plan = question.analysed.plan
    tables = question.transform.temporal_tables or ()
    if not tables:
        return plan
    steps = [step.alias for step in question.transform.queries or () if step.alias]
    views = [given.alias for given in question.inputs] + steps
    session = question.analysed.frame.sparkSession
    check_tables(tables, {name: session.table(quoted(name)).columns for name in views})
    return as_of_joins(question.catalyst, plan, tables, _event_times(question))


def run_as_of(run: StatefulRun) -> Rows:
    """Run an as-of join; see `dispatch.Runner`."""
    detail: AsOfDetail = run.classified.detail
    paths = {number: _prepare(run, number, detail) for number in range(len(run.inputs))}
    if run.watermark_ms is None or run.watermark_ms == run.previous_watermark_ms:
        # Nothing is complete that was not complete before, and nothing can be given up.
        run.save({}, dict(_kept(run, detail, paths, {})))
        return Rows(run.result, iter(()))
    question = run.question(run.analyse())
    span = Span(run.previous_watermark_ms, run.watermark_ms)
    linear = LinearForm(run.catalyst, _event_times(question), span)
    frame = run.catalyst.frame(linear.rewrite(with_as_of_joins(question)))
    vocab = run.job.vocab
    names = by_time_then_values(frame, vocab.event_time_column, vocab.operation_type_column)
    small = sum(pq.read_metadata(path).num_rows for path in paths.values()) <= SMALL_ROWS
    result = collect(sorted_in_one_partition(frame, names), run.job.scratch / "result", small=small)
    newest = _newest(question, linear.versions)
    run.save({}, dict(_kept(run, detail, paths, newest)))
    return Rows(run.result, result.batches(run.result))


def _event_times(question: Question) -> dict[str, str]:
    return {given.view: given.vocab.event_time_column for given in question.inputs}


def _warnings(question: Question, detail: AsOfDetail) -> tuple[str, ...]:
    late = "has retractions and corrections: those that come when their event time is not after its"
    return tuple(
        f"the input `{given.alias}` {late} watermark are late; "
        + (
            "a version that was deleted or corrected so late stays valid until the next one"
            if number in detail.versions
            else "what they correct stays as it is"
        )
        for number, given in enumerate(question.inputs)
        if given.has_retractions
    )


def _prepare(run: StatefulRun, number: int, detail: AsOfDetail) -> Path:
    """Make the view of an input: its current rows, and the gaps that retractions leave."""
    given, vocab = run.new[number], run.inputs[number].vocab
    live = run.live_view(number, run.retained(number, _ROWS.format(number)), drop_late=True)
    path = run.job.scratch / f"as-of-{number}.parquet"
    schema = given.schema.append(pa.field(POSITION, pa.int64()))
    with PartWriter(str(path), schema) as writer:
        for batch in _batches(Path(live.path), given.schema):
            writer.write(_positioned(batch, schema, vocab, gap=False))
        if number in detail.versions:
            for batch in _gaps(run, number):
                writer.write(_positioned(batch, schema, vocab, gap=True))
    frame = read_parquet(run.spark, [str(path)], schema)
    visible = frame.select(*[quoted(name) for name in given.schema.names])
    visible.createOrReplaceTempView(quoted(given.alias))
    return path


def _gaps(run: StatefulRun, number: int) -> Iterator[pa.RecordBatch]:
    """Yield the retractions that are kept, and the new ones, all as if they were appended."""
    schema, vocab = run.new[number].schema, run.inputs[number].vocab
    yield from _batches(run.retained(number, _GAPS.format(number)), schema)
    for batch in _batches(run.timely(number), schema):
        yield current(batch.filter(is_retraction(batch, vocab)), Net(), vocab)


def _positioned(
    batch: pa.RecordBatch, schema: pa.Schema, vocab: DatasetVocabulary, *, gap: bool
) -> pa.RecordBatch:
    offsets = batch.column(vocab.offset_column)
    position = pc.add(pc.multiply(offsets, 2), int(gap))
    return pa.RecordBatch.from_arrays([*batch.columns, position], schema=schema)


def _newest(question: Question, versions: list[Versions]) -> dict[int, pa.Array]:
    """Return the offsets of the versions that are valid last, by the number of the input."""
    found: defaultdict[int, list[pa.Array]] = defaultdict(list)
    for one in versions:
        table = one.newest().toArrow()
        for branch, view in enumerate(one.views):
            here = table.filter(pc.equal(table["branch"], branch))["position"]
            offsets = pc.divide(here.combine_chunks(), 2)
            found[question.number_of(view)].append(offsets)
    return {number: pa.concat_arrays(offsets) for number, offsets in found.items()}


def _kept(
    run: StatefulRun, detail: AsOfDetail, paths: dict[int, Path], newest: dict[int, pa.Array]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield what later runs need, by the name of the table."""
    for number, path in paths.items():
        schema = run.new[number].schema
        rows, gaps = [], []
        for batch in _batches(path, pq.read_schema(path)):
            is_gap = pc.equal(pc.bit_wise_and(batch.column(POSITION), 1), 1)
            waits = _waits(run, number, batch)
            needed = waits
            if number in newest:
                offsets = batch.column(run.inputs[number].vocab.offset_column)
                needed = pc.or_(waits, pc.is_in(offsets, value_set=newest[number]))
            columns = batch.select(schema.names)
            rows.append(columns.filter(pc.and_(needed, pc.invert(is_gap))))
            gaps.append(columns.filter(pc.and_(waits, is_gap)))
        yield _ROWS.format(number), pa.Table.from_batches(rows, schema).combine_chunks()
        if number in detail.versions:
            yield _GAPS.format(number), pa.Table.from_batches(gaps, schema).combine_chunks()


def _waits(run: StatefulRun, number: int, batch: pa.RecordBatch) -> pa.Array:
    """Tell for each row whether it is newer than the watermark.

    While the watermark stands still everything is taken to be: what is older is only there because
    it is needed.
    """
    if run.watermark_ms is None or run.watermark_ms == run.previous_watermark_ms:
        return pa.repeat(pa.scalar(value=True), batch.num_rows)
    column = batch.column(run.inputs[number].vocab.event_time_column)
    return pc.greater(as_milliseconds(column), run.watermark_ms)


def _batches(path: Path | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if path is not None:
        with pq.ParquetFile(path, memory_map=True) as file:
            for batch in file.iter_batches(batch_size=128 * 1024):
                yield fit_batch(batch, schema)

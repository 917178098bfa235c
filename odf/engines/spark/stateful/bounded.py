"""Queries whose results are complete at some event time (design §6, spark-stateful.md §3).

Rows that a result which is not complete yet can need are kept, and go with the new rows through
the user's query in batch. Of its results those leave whose completion time was passed by the
watermark in this run. So every row leaves once, at a moment that watermarks alone decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odf.engines.host.engine import HIDDEN_PREFIX, Rows
from odf.engines.spark.catalyst import Plan
from odf.engines.spark.collect import SMALL_ROWS, collect
from odf.engines.spark.parts import PartWriter
from odf.engines.spark.query.inputs import PreparedInput
from odf.engines.spark.stateful.base import StatefulRun, read_rows
from odf.engines.spark.stateful.eventtime import event_time_of, time_window_of
from odf.engines.spark.stateful.joins import derive_join
from odf.engines.spark.stateful.kinds import Derived, Question, Stateful, carry
from odf.engines.spark.stateful.lateness import as_milliseconds
from odf.engines.spark.stateful.nodes import Nodes
from odf.engines.spark.stateful.order import by_time_then_values, sorted_in_one_partition
from odf.engines.spark.stateful.ordered import keep_row_order, order_aggregate
from odf.engines.spark.stateful.sessions import merged_first, open_rows
from odf.engines.spark.stateful.shape import find_stateful
from odf.engines.spark.stateful.timely import join_warnings, key_warnings, window_warnings
from odf.engines.spark.stateful.words import kept_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIME: Final = f"{HIDDEN_PREFIX}time"


@dataclass(frozen=True, slots=True)
class Bounded:
    """When the results of a query are complete, and which rows it can need until then.

    Attributes:
        hidden: Columns of the stateful node that tell it: names, and attributes of the node's
            child (of an aggregate) or of the node itself.
        completion: The completion time over these columns, in SQL, in milliseconds.
        kept_ms: For each input how long its rows are kept: those stay whose event time is later
            than the watermark less this. None if the query does not read the input.
        session: The attribute of the session window, if there is one.
        has_sessions: Whether the rows of sessions that are still open stay as well.
    """

    hidden: tuple[tuple[str, Any], ...]
    completion: str
    kept_ms: tuple[int | None, ...]
    session: Any = None
    has_sessions: bool = False

    def without_plan(self) -> "Bounded":
        """Return what holds for the query in every session."""
        return replace(self, hidden=(), session=None)


def derive_bounded(question: Question, found: Stateful | str) -> Derived | str:
    """Tell when the results of a query are complete, from its plan alone.

    Args:
        question: The query.
        found: Its only stateful node, or why it has none.

    Returns:
        A `Bounded` and words, or why that cannot be told.
    """
    if isinstance(found, str):
        return found
    if found.node.kind == "Join":
        return _join(question, found)
    if found.node.kind == "Aggregate":
        return _aggregate(question, found)
    return _distinct(question, found)


def run_bounded(run: StatefulRun) -> Rows:
    """Run a query of this kind.

    Args:
        run: The run.
    """
    live = live_rows(run)
    total = sum(given.rows for given in live)
    reached, before = run.watermark_ms, run.previous_watermark_ms
    rows, still_open = Rows(run.result, iter(())), None
    moves = reached is not None and reached != before
    if reached is not None and total and (moves or run.classified.detail.has_sessions):
        query = LiveQuery(run, _ripe(run, live, reached))
        if moves:
            rows = query.complete(before, reached)
        still_open = query.still_open(reached)
    run.save({}, _kept_tables(run, live, still_open))
    return rows


def live_rows(run: StatefulRun) -> list[PreparedInput]:
    """Return the rows of each input that can still matter, retained and new ones."""
    return [
        run.live_view(number, run.retained(number, f"input-{number}"), drop_late=True)
        for number in range(len(run.inputs))
    ]


def _ripe(run: StatefulRun, live: Sequence[PreparedInput], reached: int) -> Sequence[PreparedInput]:
    """Return the rows that complete results can have to do with.

    No result is complete before all rows are that it is made of, or is known to lack. So rows that
    are later than the watermark, as most of those that are kept often are, need not be looked at;
    except by session windows, for which sessions have to be found that are still open.
    """
    if run.classified.detail.has_sessions:
        return live
    found = []
    for number, given in enumerate(live):
        path = run.job.scratch / f"ripe-{number}.parquet"
        rows = 0
        with PartWriter(str(path), given.schema) as writer:
            for batch in read_rows(Path(given.path), given.schema):
                times = batch.column(run.inputs[number].vocab.event_time_column)
                ripe = batch.filter(pc.less_equal(as_milliseconds(times), reached))
                writer.write(ripe)
                rows += ripe.num_rows
        found.append(replace(given, path=str(path), rows=rows) if rows < given.rows else given)
    return found


class LiveQuery:
    """The query over rows that can still matter.

    Args:
        run: The run.
        live: These rows of each input.
    """

    def __init__(self, run: StatefulRun, live: Sequence[PreparedInput]) -> None:
        keep_row_order(run.spark)
        run.register_views(*live)
        self._run = run
        self._rows = sum(given.rows for given in live)
        self._nodes = Nodes(run.spark)
        analysed = run.analyse()
        self._frame = analysed.frame
        self._question = run.question(analysed)
        found = find_stateful(analysed.plan, self._question.views)
        derived = derive_bounded(self._question, found)
        if isinstance(found, str) or isinstance(derived, str):
            raise TypeError(f"the query is of another kind than before: {derived}")
        self._found = found
        self._detail: Bounded = derived.detail

    def complete(self, before: int | None, reached: int) -> Rows:
        """Return the results that became complete since an earlier watermark."""
        run, small = self._run, self._rows <= SMALL_ROWS
        found = collect(self.due(before, reached), run.job.scratch / "result", small=small)
        if found.schema.names != run.result.names:
            wanted = run.result.names
            raise RuntimeError(f"the result has the columns {found.schema.names}, wanted {wanted}")
        return Rows(run.result, found.batches(run.result))

    def exposed(self) -> tuple[Plan, list[Any]]:
        """Return the stateful node with hidden columns after its own, and their attributes."""
        return _expose(self._nodes, self._question, self._found, self._detail)

    def due(self, before: int | None, reached: int) -> "DataFrame":
        """Return the results that became complete, in their order, with what else is exposed."""
        vocab = self._run.job.vocab
        node, hidden = self.exposed()
        plan, _ = carry(self._nodes, self._found, node, hidden)
        completion = f"({self._detail.completion})"
        due = f"{completion} <= {reached}L"
        if before is not None:
            due += f" AND {completion} > {before}L"
        ready = self._nodes.frame(plan).where(due)
        ready = ready.drop(*[name for name, _ in self._detail.hidden])
        names = by_time_then_values(
            self._frame, vocab.event_time_column, vocab.operation_type_column
        )
        return sorted_in_one_partition(ready, names)

    def still_open(self, reached: int) -> Mapping[int, pa.Array] | None:
        """Return the offsets of rows of open sessions; None if there are no session windows."""
        session = self._detail.session
        if session is None:
            return None
        return open_rows(self._nodes, self._question, self._found, session, reached)


def _expose(
    nodes: Nodes, question: Question, found: Stateful, detail: Bounded
) -> tuple[Plan, list[Any]]:
    """Return the stateful node with the hidden columns after its own, and their attributes."""
    named = [nodes.named(attribute, name) for name, attribute in detail.hidden]
    node = found.node
    if node.kind == "Aggregate":
        columns = [*(column.java for column in node.aggregates), *named]
        # Sessions are merged in the order of keys and time; other keys first, it is sorted so.
        session = None if detail.session is None else int(detail.session.exprId().id())
        keys = [key.java for key in node.grouping if key.attribute_id != session]
        keys += [key.java for key in node.grouping if key.attribute_id == session]
        offsets = {given.view: given.vocab.offset_column for given in question.inputs}
        exposed = order_aggregate(nodes, nodes.aggregate(keys, columns, found.below[0]), offsets)
        if session is not None:
            exposed = merged_first(nodes, exposed)
    else:
        exposed = nodes.project([*(own for _, own in node.output), *named], node)
    return exposed, [attribute for _, attribute in exposed.output[-len(named) :]]


def _aggregate(question: Question, found: Stateful) -> Derived | str:
    child = found.below[0]
    window = None
    for key in found.node.grouping:
        if key.attribute_id is None:
            continue
        inputs = event_time_of(question, child, key.attribute_id)
        if inputs:
            return _by_time(question, found, key.java, inputs, "aggregate by event time")
        made = time_window_of(question, child, key.attribute_id)
        if made is not None:
            window = (key.java, made)
    if window is None:
        return "its groups have no time window"
    attribute, made = window
    completion = f"unix_millis(CAST({_TIME}.end AS TIMESTAMP))"
    warnings = window_warnings(question, found, int(attribute.exprId().id()))
    kept = dict.fromkeys(made.inputs, made.length_ms or 0)
    if made.length_ms is None:
        kept_ms = _per_input(question, kept)
        detail = Bounded(((_TIME, attribute),), completion, kept_ms, attribute, has_sessions=True)
        words = "aggregate over sessions, keeps the rows of open sessions"
        return Derived(detail, words, (*warnings, *_warnings(question)))
    return _derived(question, attribute, completion, kept, "windowed aggregate", warnings)


def _distinct(question: Question, found: Stateful) -> Derived | str:
    for name, attribute in found.node.output:
        del name
        number = int(attribute.exprId().id())
        inputs = event_time_of(question, found.below[0], number)
        if inputs:
            return _by_time(question, found, attribute, inputs, "distinct rows by event time")
    return "its distinct rows have no event time of an input"


def _join(question: Question, found: Stateful) -> Derived | str:
    times = derive_join(question, found)
    if isinstance(times, str):
        return times
    kept = dict.fromkeys(times.left_inputs, times.kept_left_ms)
    for number in times.right_inputs:
        kept[number] = max(kept.get(number, 0), times.kept_right_ms)
    detail = Bounded(times.hidden, times.completion, _per_input(question, kept))
    warnings = join_warnings(question, found, equal=times.equal)
    words = f"{times.words}, {kept_rows(detail.kept_ms)}"
    return Derived(detail, words, (*warnings, *_warnings(question)))


def _by_time(
    question: Question, found: Stateful, attribute: Any, inputs: frozenset[int], words: str
) -> Derived:
    completion = f"unix_millis(CAST({_TIME} AS TIMESTAMP))"
    warnings = key_warnings(question, found, int(attribute.exprId().id()))
    return _derived(question, attribute, completion, dict.fromkeys(inputs, 0), words, warnings)


def _derived(
    question: Question,
    attribute: Any,
    completion: str,
    kept: dict[int, int],
    words: str,
    warnings: tuple[str, ...],
) -> Derived:
    detail = Bounded(((_TIME, attribute),), completion, _per_input(question, kept))
    words = f"{words}, {kept_rows(detail.kept_ms)}"
    return Derived(detail, words, (*warnings, *_warnings(question)))


def _per_input(question: Question, kept: dict[int, int]) -> tuple[int | None, ...]:
    return tuple(kept.get(number) for number in range(len(question.inputs)))


def _warnings(question: Question) -> tuple[str, ...]:
    return tuple(
        f"the input `{given.alias}` has retractions and corrections: those that come when their "
        "event time is not after its watermark are late, and what they correct stays as it is"
        for given in question.inputs
        if given.has_retractions
    )


def _kept_tables(
    run: StatefulRun, live: Sequence[PreparedInput], still_open: Mapping[int, pa.Array] | None
) -> dict[str, Path]:
    """Write the rows that results which are not complete yet can need."""
    tables = {}
    for number, kept_ms in enumerate(run.classified.detail.kept_ms):
        if kept_ms is None:
            continue
        more = None if still_open is None else still_open.get(number)
        path = _keep(run, number, live[number], kept_ms, more)
        if path is not None:
            tables[f"input-{number}"] = path
    return tables


def _keep(
    run: StatefulRun, number: int, live: PreparedInput, kept_ms: int, more: pa.Array | None
) -> Path | None:
    """Write rows of an input: those after some time, and more by offset; None if there are none."""
    vocab = run.inputs[number].vocab
    path = run.job.scratch / f"kept-{number}.parquet"
    rows = 0
    with (
        pq.ParquetFile(live.path, memory_map=True) as file,
        pq.ParquetWriter(path, live.schema, compression="zstd") as writer,
    ):
        for batch in file.iter_batches(batch_size=128 * 1024):
            left = batch
            if run.watermark_ms is not None:
                times = as_milliseconds(batch.column(vocab.event_time_column))
                wanted = pc.greater(times, run.watermark_ms - kept_ms)
                if more is not None:
                    offsets = batch.column(vocab.offset_column)
                    wanted = pc.or_(wanted, pc.is_in(offsets, value_set=more))
                left = batch.filter(wanted)
            if left.num_rows:
                writer.write_batch(left)
                rows += left.num_rows
    return path if rows else None

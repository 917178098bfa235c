"""Where the rows of a step come from (spec "DeriveProvenance"): by running it once more.

The offsets of the input rows are carried through the query as hidden columns. That works for what
maps rows one by one, and for the one windowed aggregate or join by event time of a bounded query;
other plans say why not.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from odf.engines.host.engine import (
    HIDDEN_BRANCH,
    HIDDEN_OFFSET,
    HIDDEN_PREFIX,
    ORIGINS,
    Provenance,
    TransformJob,
)
from odf.engines.host.origins import one_origin_each
from odf.engines.spark.catalyst import Expression, Plan
from odf.engines.spark.collect import SMALL_ROWS, collect
from odf.engines.spark.query import run
from odf.engines.spark.stateful.base import StatefulRun
from odf.engines.spark.stateful.bounded import LiveQuery, live_rows
from odf.engines.spark.stateful.carry import Carrier
from odf.engines.spark.stateful.kinds import QueryKind
from odf.engines.spark.stateful.lineage import views_below
from odf.engines.spark.stateful.nodes import Nodes
from odf.engines.spark.stateful.ordered import group_in_order, keyed, offset_carrier
from odf.errors import InvalidQueryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ORIGINS: Final = f"{HIDDEN_PREFIX}origins"


def derive_provenance(spark: "SparkSession", job: TransformJob) -> Provenance:
    """Say where the rows of a step come from (see `Engine.provenance`).

    Args:
        spark: A session.
        job: The step.

    Raises:
        InvalidQueryError: That cannot be told for this kind of query.
    """
    opened = run.open_query(spark, job)
    question, classified = opened.question, opened.classified
    branches = views_below(question.analysed.plan, question.views)
    inputs = [question.number_of(view) for view in branches]
    aliases = {given.view: given.alias for given in question.inputs}
    columns = _column_sources(question.analysed.plan, aliases)
    how = classified.words or str(classified.kind)
    if classified.kind is QueryKind.STATELESS:
        rows = run.run_opened(spark, job, opened)
        return Provenance(how, columns, one_origin_each(rows.batches, inputs))
    node = classified.stateful.node.kind if classified.stateful else ""
    if classified.kind is not QueryKind.BOUNDED or node not in {"Aggregate", "Join"}:
        raise InvalidQueryError(
            f"where the rows of this query come from cannot be told: it is {how}",
            hint="it can be told for maps, filters, unions, windowed aggregates and joins by "
            "event time",
        )
    return Provenance(how, columns, _bounded_origins(run.stateful_run(spark, job, opened), inputs))


class _ExplainedQuery(LiveQuery):
    """A bounded query whose results have a list of the rows that they come from."""

    def exposed(self) -> tuple[Plan, list[Any]]:
        """Return the stateful node with hidden columns, the origins last among them."""
        nodes, node = self._nodes, self._found.node
        named = [nodes.named(attribute, name) for name, attribute in self._detail.hidden]
        offsets = {given.view: given.vocab.offset_column for given in self._question.inputs}
        if node.kind == "Join":
            carrier = offset_carrier(nodes, offsets)
            sides = [carrier.carry(_with_own_columns(nodes, side)) for side in node.children]
            joined = nodes.with_children(node, [side.plan for side in sides])
            # A side that may be missing has other attributes above the join than below.
            above = dict(zip(joined.output_ids, (one for _, one in joined.output), strict=True))
            origins = nodes.call(
                "array",
                [
                    nodes.call("struct", [above[int(one.exprId().id())] for one in side.hidden])
                    for side in sides
                ],
            )
            own = [attribute for _, attribute in node.output]
            plan = nodes.project([*own, *named, nodes.named(origins, _ORIGINS)], joined)
        else:
            plan = self._aggregate(nodes, node, named, offset_carrier(nodes, offsets))
        return plan, [attribute for _, attribute in plan.output[-len(named) - 1 :]]

    def _aggregate(self, nodes: Nodes, node: Plan, named: list[Any], carrier: Carrier) -> Plan:
        carried = carrier.carry(self._found.below[0])
        gathered = nodes.literal(f"collect_list(struct({HIDDEN_BRANCH}, {HIDDEN_OFFSET}))")
        columns = [*(column.java for column in node.aggregates), *named]
        keys = [key.java for key in node.grouping]
        plan = nodes.aggregate(keys, [*columns, nodes.named(gathered, _ORIGINS)], carried.plan)
        parts = nodes.take_apart(nodes.analysed(nodes.frame(plan)))
        # Lists, and sums whose last digits decide on the order of the result, in the step's order.
        rows = keyed(nodes, parts, parts.child)
        grouped = group_in_order(nodes, parts, rows, carried.hidden)
        return nodes.project(parts.outputs, grouped)


def _bounded_origins(stateful: StatefulRun, inputs: list[int]) -> Iterator[pa.RecordBatch]:
    live = live_rows(stateful)
    total = sum(given.rows for given in live)
    reached, before = stateful.watermark_ms, stateful.previous_watermark_ms
    if reached is None or reached == before or not total:
        return
    frame = _ExplainedQuery(stateful, live).due(before, reached).select(_ORIGINS)
    found = collect(frame, stateful.job.scratch / "origins", small=total <= SMALL_ROWS)
    numbers = pa.array(inputs, pa.int32())
    row = 0
    for batch in found.batches(found.schema):
        lists = batch.column(_ORIGINS)
        values = lists.flatten()
        known = pc.is_valid(values.field(1))
        columns = [
            pc.add(pc.list_parent_indices(lists).cast(pa.int64()), row),
            numbers.take(values.field(0)),
            values.field(1).cast(pa.int64()),
        ]
        yield pa.RecordBatch.from_arrays(
            [column.filter(known) for column in columns], schema=ORIGINS
        )
        row += batch.num_rows


def _with_own_columns(nodes: Nodes, side: Plan) -> Plan:
    """Return a side of a join as a projection, below which hidden columns may be anywhere."""
    return nodes.project([attribute for _, attribute in side.output], side)


def _column_sources(
    plan: Plan, aliases: Mapping[str, str]
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Say for each column of a result which columns of inputs it is computed from."""
    found = {}
    for (name, _), number in zip(plan.output, plan.output_ids, strict=True):
        sources = _sources(plan, number, aliases)
        found[name] = tuple(sorted(sources))
    return found


def _sources(plan: Plan, number: int, aliases: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the columns of inputs that a column of a plan is computed from."""
    if plan.kind == "View" and plan.view_name.casefold() in aliases:
        name = plan.output[plan.output_ids.index(number)][0]
        return {(aliases[plan.view_name.casefold()], name)}
    if plan.kind == "Union":
        position = plan.output_ids.index(number)
        branches = [_sources(one, one.output_ids[position], aliases) for one in plan.children]
        return set().union(*branches)
    mentioned = {number}
    if plan.kind == "Generate" and number not in _ids_below(plan):
        # A column that a generator made comes from all that the generator was given.
        mentioned = set().union(*(expression.mentioned for expression in plan.expressions))
    for named in _named(plan):
        if named.output_id == number:
            mentioned = named.mentioned
    below: set[tuple[str, str]] = set()
    for child in plan.children:
        for other in mentioned & set(child.output_ids):
            below |= _sources(child, other, aliases)
    return below


def _named(plan: Plan) -> list[Expression]:
    """Return the columns that a node computes or hands on by name."""
    if plan.kind == "Project":
        return plan.expressions
    return plan.aggregates if plan.kind == "Aggregate" else []


def _ids_below(plan: Plan) -> set[int]:
    return {number for child in plan.children for number in child.output_ids}

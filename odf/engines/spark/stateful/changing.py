"""Aggregates without a time window: a row for each group, corrected whenever it changes.

Two ways lead to the same result. Where the functions allow it, partial results are kept for each
group. Otherwise all current rows are kept, and the groups that new rows or retractions touch are
computed again from their rows in order (spark-stateful.md §1, A2 and A1).
"""

from typing import Final

from odf.engines.host.engine import InputView, Rows
from odf.engines.spark.stateful.base import StatefulRun
from odf.engines.spark.stateful.by_partials import BY_PARTIALS, run_by_partials
from odf.engines.spark.stateful.by_rows import BY_ROWS, run_by_rows
from odf.engines.spark.stateful.grouped import GroupedQuery
from odf.engines.spark.stateful.groups import GroupTable, register_weighted
from odf.engines.spark.stateful.kinds import Derived, Question, Stateful
from odf.engines.spark.stateful.nodes import Nodes
from odf.engines.spark.stateful.partials import Partials
from odf.engines.spark.stateful.tables import column_not_kept
from odf.errors import BadInputError, InvalidQueryError

_GROUPING: Final = frozenset({"Aggregate", "Distinct"})


def derive_changing(question: Question, found: Stateful | str) -> Derived | str:
    """Tell whether a query is one aggregate whose groups change (see `classify`).

    Args:
        question: The query.
        found: Its only stateful node, or why there is none.

    Raises:
        InvalidQueryError: It is, but has a column that the engine makes itself.
    """
    if isinstance(found, str):
        return found
    if found.node.kind not in _GROUPING:
        return f"a {found.node.kind} does not group rows"
    if any(node.kind == "Generate" for node in found.above):
        return "LATERAL VIEW over groups makes several rows of each"
    query = GroupedQuery(Nodes.of(question.catalyst), question, found)
    if not query.has_plain_keys:
        return "it groups by values that have no order, or that cannot be kept"
    column = column_not_kept(question.analysed.frame)
    if column is not None:
        return f"its result has the column {column}, a type that cannot be kept"
    _check_columns(query, question.vocab.operation_type_column)
    can_retract = any(given.has_retractions for given in question.inputs)
    return Derived(None, _words(query, _way(query, can_retract=can_retract)))


def run_changing(run: StatefulRun) -> Rows:
    """Run an aggregate without a time window; the new state is written when this returns.

    Args:
        run: The run.

    Raises:
        BadInputError: The state is damaged, or a retraction cannot be followed.
    """
    retracts = register_weighted(run)
    query = GroupedQuery.of(run)
    schema = query.result_schema(run.job.vocab.operation_type_column)
    if not any(given.rows for given in run.new):
        if run.state is not None:
            run.save(run.state.meta, run.state.tables)
        return Rows(schema, iter(()))
    kept = GroupTable.of(run)
    way = kept.way if kept else _first_way(run, query, retracts=retracts)
    if way == BY_PARTIALS and retracts and query.reads_places:
        raise BadInputError(
            "rows are retracted from groups that depend on the offset or system time of rows, and "
            "the rows were not kept",
            reason="retraction",
            hint="reset the dataset and pull it again: a first run that sees retractions keeps "
            "the rows",
        )
    if way == BY_PARTIALS:
        changes = run_by_partials(run, query, kept)
    elif way == BY_ROWS:
        changes = run_by_rows(run, query, kept, retracts=retracts)
    else:
        raise BadInputError(f"the checkpoint is damaged: {way!r}", reason="checkpoint")
    return Rows(schema, changes.rows(schema))


def _first_way(run: StatefulRun, query: GroupedQuery, *, retracts: bool) -> str:
    """Choose what is kept from the first run on; `retracts`: whether it sees a retraction."""
    if any(map(_may_retract_what_was_not_read, run.inputs)):
        return BY_ROWS
    can_retract = retracts or any(view.has_retractions for view in run.inputs)
    return _way(query, can_retract=can_retract)


def _may_retract_what_was_not_read(view: InputView) -> bool:
    """Tell whether rows of an input that were there before the query can still be retracted.

    Such a retraction has to be left out, and only kept rows tell which it is.
    """
    if view.has_retractions is None:
        return view.offset_start not in (0, None)
    return view.has_retractions and view.offset_start != 0


def _way(query: GroupedQuery, *, can_retract: bool) -> str:
    """Choose what is kept: both ways give the same rows."""
    partials = Partials(query)
    if not partials.are_exact:
        return BY_ROWS
    if can_retract and (partials.has_extremes or query.reads_places):
        return BY_ROWS
    return BY_PARTIALS


def _words(query: GroupedQuery, way: str) -> str:
    what = (
        f"aggregate by {', '.join(query.key_names)}" if query.has_keys else "aggregate of all rows"
    )
    if way == BY_PARTIALS:
        return f"{what}, keeps partial results for each group"
    return f"{what}, keeps all rows of its inputs"


def _check_columns(query: GroupedQuery, operation: str) -> None:
    for name in query.columns:
        if name.casefold() == operation.casefold():
            raise InvalidQueryError(
                f"the result has a column `{name}`, but the rows of an aggregate get their "
                "operations from the engine",
                hint="leave it out, or rename it with AS",
            )

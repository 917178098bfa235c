"""What a plan may consist of, and the hidden columns through a plan that keeps rows apart.

White lists, because a statement that is not known here could do anything.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odf.engines.datafusion.inputs import SCAN_PREFIX
from odf.engines.datafusion.session import quoted
from odf.engines.host.engine import HIDDEN_BRANCH, HIDDEN_OFFSET
from odf.errors import InvalidQueryError

if TYPE_CHECKING:
    from datafusion import DataFrame, LogicalPlan, SessionContext

_TRACKED: Final = frozenset({"Projection", "Filter", "SubqueryAlias", "TableScan", "Union"})
_UNTRACKED: Final = frozenset({"Unnest"})
_CONSTANT: Final = frozenset({"EmptyRelation", "Values"})
_STATEFUL: Final = {
    "Aggregate": "GROUP BY or an aggregate function",
    "Distinct": "DISTINCT, or UNION without ALL",
    "Join": "a join, EXCEPT or INTERSECT",
    "WindowExpr": "a window function",
    "Sort": "ORDER BY",
    "Limit": "LIMIT or OFFSET",
    "Subquery": "a subquery in an expression",
}
_ALLOWED: Final = _TRACKED | _UNTRACKED | _CONSTANT | frozenset(_STATEFUL)
_SUBQUERY: Final = re.compile(r"^\s*Subquery:", re.MULTILINE)
_ONE_QUERY_HINT: Final = "a step is one query: SELECT …, with WITH if needed"
_STATE_HINT: Final = (
    "this engine keeps no state: use only SELECT, WHERE and UNION ALL here, or write the query "
    "for Spark (engine: spark)"
)

_QUOTED: Final = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | --[^\n]* | /\*.*?\*/""",
    re.VERBOSE | re.DOTALL,
)
_PASSED_OVER: Final = re.compile(
    r"\b(?:TABLESAMPLE | PREWHERE | CONNECT\s+BY | WITH\s+(?:ROLLUP|CUBE|TOTALS))\b",
    re.VERBOSE | re.IGNORECASE,
)


def check_text(sql: str, where: str) -> None:
    """Refuse clauses that DataFusion parses and then forgets, which would give other rows.

    Raises:
        InvalidQueryError: There is one.
    """
    found = _PASSED_OVER.search(_QUOTED.sub("''", sql))
    if found is not None:
        raise InvalidQueryError(
            f"{where}: {' '.join(found[0].upper().split())} is not supported",
            hint="quote it if it is a name",
        )


def check_plan(plan: "LogicalPlan", where: str) -> None:
    """Refuse what is no query over inputs.

    Args:
        plan: The plan, not optimised.
        where: Which query it is, for messages.

    Raises:
        InvalidQueryError: It does what is not allowed.
    """
    for kind, node in _walk(plan):
        if kind not in _ALLOWED or (
            kind == "TableScan" and not node.table_name().startswith(SCAN_PREFIX)
        ):
            raise InvalidQueryError(f"{where}: {_words(kind)} is not allowed", hint=_ONE_QUERY_HINT)


def check_stateless(plan: "LogicalPlan", where: str) -> None:
    """Refuse what looks at more than one row, and rows that come from no input.

    Raises:
        InvalidQueryError: There is some of it.
    """
    construct = state_construct(plan)
    if construct is not None:
        raise InvalidQueryError(
            f"{where}: {construct} needs state between runs, because rows of earlier runs can "
            "change its result",
            hint=_STATE_HINT,
            details={"construct": construct},
        )
    if any(kind in _CONSTANT for kind, _ in _walk(plan)):
        raise InvalidQueryError(
            f"{where}: VALUES, or a SELECT without FROM, gives rows that come from no input",  # noqa: S608
            hint="each run would add them again; put them into a dataset of their own",
        )


def state_construct(plan: "LogicalPlan") -> str | None:
    """Return what of a plan looks at more than one row, in words; None if nothing does."""
    for kind, _ in _walk(plan):
        if kind in _STATEFUL:
            return _STATEFUL[kind]
    # Only the text of a plan shows queries within expressions.
    return _STATEFUL["Subquery"] if _SUBQUERY.search(plan.display_indent()) else None


def without_final_order(context: "SessionContext", plan: "LogicalPlan") -> "DataFrame | None":
    """Return a query without the ORDER BY that it ends with; None if it has none.

    Rows of a slice are in an order that does not depend on the query (design §7), so it changes
    nothing. Under a LIMIT it decides on rows and stays.

    Args:
        context: The session.
        plan: The plan, not optimised.
    """
    from datafusion import Expr  # noqa: PLC0415

    node = plan.to_variant()
    match type(node).__name__:
        case "Sort":
            return context.create_dataframe_from_logical_plan(plan.inputs()[0])
        case "Projection":
            below = without_final_order(context, plan.inputs()[0])
            columns = [Expr(column) for column in node.projections()]
            return None if below is None else below.select(*columns)
    return None


def is_trackable(plan: "LogicalPlan") -> bool:
    """Tell whether `track` can follow rows through a stateless plan."""
    return all(kind in _TRACKED for kind, _ in _walk(plan))


def track(
    context: "SessionContext", plan: "LogicalPlan", offset_columns: tuple[str, ...]
) -> "DataFrame":
    """Return the rows of a stateless plan with `HIDDEN_BRANCH` and `HIDDEN_OFFSET` at the end.

    The plan is built anew with two more columns in every node, so that the order of the result
    and the pairs of corrections are known whatever the query does with the visible columns.
    Branches count the inputs as the query names them, from left to right.

    Args:
        context: The session.
        plan: The plan, not optimised; see `is_trackable`.
        offset_columns: The offset column of each input, by the number of the input.

    Raises:
        InvalidQueryError: The plan is nested too deep.
    """
    try:
        return _Tracker(context, offset_columns).track(plan)
    except RecursionError as error:
        raise InvalidQueryError(
            "the query is nested too deep", hint="make it several steps, or several datasets"
        ) from error


class _Tracker:
    def __init__(self, context: "SessionContext", offset_columns: tuple[str, ...]) -> None:
        self._context = context
        self._offset_columns = offset_columns
        self._branches = 0

    def track(self, plan: "LogicalPlan") -> "DataFrame":
        from datafusion import Expr, col  # noqa: PLC0415

        node = plan.to_variant()
        kind = type(node).__name__
        if kind == "TableScan":
            return self._scan(plan, node.table_name())
        below = [self.track(child) for child in plan.inputs()]
        match kind:
            case "Projection":
                columns = [Expr(column) for column in node.projections()]
                return below[0].select(*columns, col(HIDDEN_BRANCH), col(HIDDEN_OFFSET))
            case "Filter":
                return below[0].filter(Expr(node.predicate()))
            case "SubqueryAlias":
                return below[0].alias(quoted(node.alias()))
            case "Union":
                united = below[0]
                for branch in below[1:]:
                    united = united.union(branch)
                return united
        raise TypeError(f"a {kind} cannot carry hidden columns")

    def _scan(self, plan: "LogicalPlan", name: str) -> "DataFrame":
        from datafusion import col, lit  # noqa: PLC0415

        column = self._offset_columns[int(name.removeprefix(SCAN_PREFIX))]
        branch = lit(pa.scalar(self._branches, pa.int32()))
        self._branches += 1
        frame = self._context.create_dataframe_from_logical_plan(plan)
        return frame.with_column(HIDDEN_BRANCH, branch).with_column(
            HIDDEN_OFFSET, col(quoted(column))
        )


def _walk(plan: "LogicalPlan") -> Iterator[tuple[str, Any]]:
    """Yield each node from the top with the name of its kind; queries in expressions excepted."""
    waiting = [plan]
    while waiting:
        current = waiting.pop()
        try:
            node = current.to_variant()
        except Exception as error:  # nodes that Python has no class for
            raise InvalidQueryError(
                f"the query has a part that is not allowed: {current.display()}",
                hint=_ONE_QUERY_HINT,
            ) from error
        yield type(node).__name__, node
        waiting += reversed(current.inputs())


def _words(kind: str) -> str:
    if kind == "TableScan":
        return "reading anything but the inputs"
    return "the statement " + re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).upper()

"""What a plan may consist of: lists of node classes, and the words for what is refused.

White lists, because a statement that is not known here could do anything.
"""

import difflib
from collections.abc import Collection, Iterator
from typing import Final

from odf.engines.host.queries import refuse_geometry
from odf.engines.spark.catalyst import AS_OF_HINT, Catalyst, Expression, Plan
from odf.engines.spark.query.functions import (
    AGGREGATES,
    ALLOWED,
    GENERATORS,
    REFUSED,
    REFUSED_EXPRESSIONS,
)
from odf.errors import InvalidQueryError

_STATELESS_PARSED: Final = frozenset(
    {
        "Filter",
        "Generate",
        "LocalRelation",
        "OneRowRelation",
        "PipeOperator",
        "Project",
        "SubqueryAlias",
        "Union",
        "UnresolvedInlineTable",
        "UnresolvedRelation",
        "UnresolvedSubqueryColumnAliases",
        "UnresolvedTableValuedFunction",
        "UnresolvedTVFAliases",
        "UnresolvedWith",
    }
)
STATELESS_ANALYSED: Final = frozenset(
    {"Filter", "Generate", "PipeOperator", "Project", "SubqueryAlias", "Union", "View"}
)
"""Nodes whose result for some rows does not depend on other rows. The leaves are views."""

_CONSTANT_LEAVES: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})
# Leaves that hold rows of the query itself.
_STATEFUL: Final = {
    "Aggregate": "GROUP BY or an aggregate function",
    "UnresolvedHaving": "HAVING",
    "Distinct": "DISTINCT, or UNION without ALL",
    "Deduplicate": "DISTINCT",
    "Join": "a join",
    "AsOfJoin": "an as-of join",
    "LateralJoin": "a lateral join",
    "Except": "EXCEPT",
    "Intersect": "INTERSECT",
    "Window": "a window function",
    "WithWindowDefinition": "a window function",
    "Sort": "ORDER BY, SORT BY, DISTRIBUTE BY or CLUSTER BY",
    "RepartitionByExpression": "DISTRIBUTE BY or CLUSTER BY",
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Limit": "LIMIT",
    "Offset": "OFFSET",
    "Tail": "LIMIT",
    "Pivot": "PIVOT",
    "Unpivot": "UNPIVOT",
    "UnresolvedPivot": "PIVOT",
    "Expand": "GROUPING SETS, ROLLUP, CUBE, UNPIVOT or overlapping windows",
}
_STATEFUL_EXPRESSIONS: Final = {
    "WindowExpression": "a window function",
    "UnresolvedWindowExpression": "a window function",
    "AggregateExpression": "an aggregate function",
    "ScalarSubquery": "a subquery in an expression",
    "Exists": "EXISTS",
    "ListQuery": "IN with a subquery",
    "InSubquery": "IN with a subquery",
    "LateralSubquery": "a lateral join",
}
# Which version an as-of join finds among equal ones is not defined, and transforms alone have a
# rule for it.
_BATCH: Final = frozenset(_STATEFUL) - {"AsOfJoin"}
_ALLOWED_PARSED: Final = _STATELESS_PARSED | _BATCH
_ALLOWED_ANALYSED: Final = STATELESS_ANALYSED | _CONSTANT_LEAVES | _BATCH
_INCREMENTAL: Final = frozenset({"AsOfJoin"})

_COMMANDS: Final = {
    "ScriptTransformation": "running a script (TRANSFORM … USING)",
    "AsOfJoin": "an as-of join",
    "Sample": "TABLESAMPLE",
    "UnresolvedHint": "a hint",
    "ResolvedHint": "a hint",
    "UnresolvedQualify": "QUALIFY",
    "RelationTimeTravel": "FOR SYSTEM_TIME or VERSION AS OF",
    "UnresolvedExecuteImmediate": "EXECUTE IMMEDIATE",
    "CompoundBody": "a script (BEGIN … END)",
    "UnresolvedSubqueryAlias": "this kind of subquery",
}
_INSTEAD: Final = {
    "RelationTimeTravel": AS_OF_HINT,
    "UnresolvedQualify": "put the window function into a subquery, and its condition into WHERE",
}
_VERBS: Final = (
    "Add",
    "Alter",
    "Analyze",
    "Cache",
    "Call",
    "Clear",
    "Comment",
    "Create",
    "Declare",
    "Delete",
    "Describe",
    "Drop",
    "Insert",
    "List",
    "Load",
    "Merge",
    "Refresh",
    "Rename",
    "Repair",
    "Replace",
    "Reset",
    "Set",
    "Show",
    "Truncate",
    "Uncache",
    "Update",
    "Use",
)


def check_parsed(plan: Plan, where: str, relations: Collection[str], *, incremental: bool) -> None:
    """Refuse what a parsed query shows to be impossible. Looks nothing up.

    Args:
        plan: The parsed query.
        where: Which query it is, for messages.
        relations: Names of the views that it may read.
        incremental: Whether it is the query of a transform, which runs again and again.

    Raises:
        InvalidQueryError: It is no query, reads something else, or does what is not allowed.
    """
    known = {name.casefold() for name in relations}
    ctes = {
        name.casefold()
        for node in plan.walk()
        if node.kind == "UnresolvedWith"
        for name, _ in node.cte_relations
    }
    allowed = _ALLOWED_PARSED | _INCREMENTAL if incremental else _ALLOWED_PARSED
    for node in plan.walk():
        _check_node_kind(node, where, allowed)
        if node.kind == "UnresolvedWith" and node.is_recursive:
            raise InvalidQueryError(f"{where}: WITH RECURSIVE is not allowed")
        if node.kind == "UnresolvedRelation":
            _check_relation(node, where, known | ctes, relations)
        if node.kind == "UnresolvedTableValuedFunction":
            _check_table_function(node, where)
        for expression in _all_expressions(node):
            _check_function(expression, where)


def check_analysed(plan: Plan, where: str, inputs: Collection[str], *, incremental: bool) -> None:
    """Refuse what only the analysed query shows.

    Args:
        plan: The analysed query.
        where: Which query it is, for messages.
        inputs: Names of the input views, casefolded; what is in them is not the query's.
        incremental: Whether it is the query of a transform, which runs again and again.

    Raises:
        InvalidQueryError: It does what is not allowed.
    """
    allowed = _ALLOWED_ANALYSED | _INCREMENTAL if incremental else _ALLOWED_ANALYSED
    for node in plan.walk(inputs):
        _check_node_kind(node, where, allowed)
        for expression in node.expressions:
            _check_determinism(expression, where)


def is_stateless(plan: Plan, inputs: Collection[str]) -> bool:
    """Tell whether an analysed query maps each row of its inputs by itself.

    Args:
        plan: The analysed query.
        inputs: Names of the input views, casefolded.
    """
    nodes = list(plan.walk(inputs))
    if not all(node.kind in STATELESS_ANALYSED for node in nodes):
        return False
    parts = (part for node in nodes for found in node.expressions for part in found.walk())
    return not any(part.kind in _STATEFUL_EXPRESSIONS for part in parts)


def without_final_order(catalyst: Catalyst, plan: Plan) -> Plan | None:
    """Return an analysed query without the ORDER BY that it ends with; None if it has none.

    Rows of a slice are in an order that does not depend on the query (design §7), so it changes
    nothing. Under a LIMIT it decides on rows and stays.

    Args:
        catalyst: Spark's analyser.
        plan: The analysed query.
    """
    if plan.kind == "Sort":
        return plan.children[0]
    if plan.kind not in {"Project", "SubqueryAlias"}:
        return None
    below = without_final_order(catalyst, plan.children[0])
    return None if below is None else catalyst.with_child(plan, below)


def stateful_construct(node: Plan) -> str | None:
    """Say what makes a node look at more than one row, in words; None if it does not.

    Args:
        node: A node of a parsed or analysed plan; what is below it does not count.
    """
    if node.kind in _STATEFUL:
        return _STATEFUL[node.kind]
    for expression in node.expressions:
        for part in expression.walk():
            if part.kind in _STATEFUL_EXPRESSIONS:
                return _STATEFUL_EXPRESSIONS[part.kind]
    return None


def is_stateless_text(plan: Plan) -> bool:
    """Tell whether a parsed query shows nothing that looks at more than one row.

    Args:
        plan: The parsed query.
    """
    return not any(
        stateful_construct(node) is not None or _calls_aggregate(node) for node in plan.walk()
    )


def refuse_constant_rows(plan: Plan, where: str, inputs: Collection[str] = ()) -> None:
    """Refuse rows that are written into the query of a transform.

    They come from no input, so they would be added again by each run.

    Args:
        plan: The parsed or analysed query.
        where: Which query it is, for messages.
        inputs: Names of the input views, casefolded.

    Raises:
        InvalidQueryError: There are some.
    """
    kinds = {node.kind for node in plan.walk(inputs)}
    if "LateralJoin" in kinds and "Generate" in kinds and kinds & _CONSTANT_LEAVES:
        raise InvalidQueryError(
            f"{where}: LATERAL with a function that makes rows is not supported",
            hint="write LATERAL VIEW explode(list) name AS column",
        )
    if kinds & _CONSTANT_LEAVES:
        raise InvalidQueryError(
            f"{where}: VALUES, or a SELECT without FROM, gives rows that come from no input",  # noqa: S608
            hint="each run would add them again; put them into a dataset of their own",
        )


def _check_node_kind(node: Plan, where: str, allowed: Collection[str]) -> None:
    if node.kind in allowed:
        return
    what = _COMMANDS.get(node.kind)
    if what is None and (
        node.kind.startswith(_VERBS) or node.kind.endswith(("Command", "Statement"))
    ):
        what = f"the statement {_words(node.kind)}"
    raise InvalidQueryError(
        f"{where}: {what or 'the construct ' + node.kind} is not allowed{node.place}",
        hint=_INSTEAD.get(node.kind, "a step is one query: SELECT …, with WITH if needed"),
    )


def _words(kind: str) -> str:
    name = kind.removesuffix("Command").removesuffix("Statement")
    return "".join(f" {letter}" if letter.isupper() else letter for letter in name).strip().upper()


def _check_relation(
    node: Plan, where: str, known: Collection[str], relations: Collection[str]
) -> None:
    parts = node.relation_name
    name = ".".join(parts)
    if len(parts) != 1 or parts[0].casefold() not in known:
        listed = ", ".join(f"`{relation}`" for relation in relations)
        raise InvalidQueryError(
            f"{where}: reads `{name}`, which is no input of the query{node.place}; inputs are "
            f"{listed}",
            hint="a name with dots or dashes goes in back-quotes"
            if len(parts) > 1
            else _did_you_mean(name, known),
        )
    if node.has_options:
        raise InvalidQueryError(
            f"{where}: `{name}` is read with options, which are not allowed{node.place}"
        )


def _check_table_function(node: Plan, where: str) -> None:
    name = ".".join(node.relation_name).casefold()
    if name not in GENERATORS:
        raise InvalidQueryError(
            f"{where}: the table function {name} is not allowed{node.place}",
            hint=_did_you_mean(name, GENERATORS),
        )


def _calls_aggregate(node: Plan) -> bool:
    return any(
        part.kind == "UnresolvedFunction" and part.function_name[-1].casefold() in AGGREGATES
        for part in _all_expressions(node)
    )


def _all_expressions(node: Plan) -> Iterator[Expression]:
    for expression in node.expressions:
        yield from expression.walk()


def _check_function(expression: Expression, where: str) -> None:
    if expression.kind != "UnresolvedFunction":
        return
    parts = expression.function_name
    name = parts[-1].casefold()
    if len(parts) > 1:
        raise InvalidQueryError(
            f"{where}: the function {'.'.join(parts)} is not built in{expression.place}"
        )
    refuse_geometry(name, where)
    if name in REFUSED:
        raise _refused_function(where, name, REFUSED[name], expression.place)
    if name == "unix_timestamp" and expression.argument_count == 0:
        reason = "it depends on when the query runs"
        raise _refused_function(where, name, reason, expression.place)
    if name not in ALLOWED:
        raise InvalidQueryError(
            f"{where}: there is no function {name}{expression.place}",
            hint=_did_you_mean(name, ALLOWED),
        )


def _check_determinism(expression: Expression, where: str) -> None:
    for part in expression.walk():
        if part.kind in REFUSED_EXPRESSIONS:
            raise _refused_function(where, *REFUSED_EXPRESSIONS[part.kind], part.place)
    if expression.is_resolved and not expression.is_deterministic:
        raise InvalidQueryError(
            f"{where}: {expression} gives other values each time{expression.place}",
            hint="results have to be reproducible; take such values from an input",
        )


def _did_you_mean(name: str, known: Collection[str]) -> str | None:
    near = difflib.get_close_matches(name.casefold(), sorted(known), n=1)
    return f"did you mean {near[0]}?" if near else None


def _refused_function(where: str, name: str, reason: str, place: str) -> InvalidQueryError:
    return InvalidQueryError(
        f"{where}: the function {name} is not allowed{place}: {reason}",
        hint="results have to be reproducible; take such values from an input, for example from "
        "its event time",
        details={"function": name},
    )

"""`temporalTables` of a transform: plain joins with such a table are read as as-of joins.

The author of a transform names inputs, each with a primary key, whose rows are versions of what
the key names. `l [LEFT] JOIN table ON` the whole key then means `l [LEFT] ASOF JOIN table` by the
event times of both sides. Any other use of such a table would see all its versions at once, which
is hardly meant, and is refused.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from odf.engines.spark.catalyst import Catalyst, Expression, Plan
from odf.engines.spark.query.plans import is_stateless
from odf.engines.spark.stateful.asof_plan import is_event_time, key_pairs
from odf.engines.spark.stateful.lineage import origins_of, views_below, without_casts
from odf.errors import InvalidQueryError
from odf.metadata.model import TemporalTable

_OUTERNESS: Final = frozenset({"Inner", "LeftOuter"})


def check_tables(
    tables: Sequence[TemporalTable], views: Mapping[str, Collection[str] | None]
) -> None:
    """Check what is declared, before the query is looked at.

    Args:
        tables: The temporal tables of a transform.
        views: Names of the inputs and of the steps, each with its columns if they are known.

    Raises:
        InvalidQueryError: A table is not one of these, has no key, or is declared twice.
    """
    known = {name.casefold(): columns for name, columns in views.items()}
    seen = set()
    for table in tables:
        name = table.name.casefold()
        if name not in known:
            listed = ", ".join(f"`{view}`" for view in views)
            raise InvalidQueryError(
                f"the temporal table `{table.name}` is no input of the query; inputs are {listed}"
            )
        if name in seen:
            raise InvalidQueryError(f"the temporal table `{table.name}` is declared twice")
        seen.add(name)
        if not table.primary_key:
            raise InvalidQueryError(
                f"the temporal table `{table.name}` has no primary key",
                hint="give the columns that name what its rows are versions of, or write "
                "ASOF JOIN … MATCH_CONDITION without ON for one series of versions",
            )
        columns = known[name]
        if columns is not None:
            _check_key_columns(table, columns)


def as_of_joins(
    catalyst: Catalyst,
    plan: Plan,
    tables: Sequence[TemporalTable],
    inputs: Mapping[str, str],
) -> Plan:
    """Turn the joins with temporal tables into as-of joins.

    Args:
        catalyst: Spark's analyser.
        plan: An analysed plan.
        tables: The temporal tables of the transform, as `check_tables` accepts them.
        inputs: Names of the input views, casefolded, each with its event time column.

    Raises:
        InvalidQueryError: A table is used in another way, or not at all.
    """
    if not tables:
        return plan
    rewriting = _Rewriting(catalyst, tables, inputs)
    return rewriting.run(plan)


class _Rewriting:
    def __init__(
        self, catalyst: Catalyst, tables: Sequence[TemporalTable], inputs: Mapping[str, str]
    ) -> None:
        self._catalyst = catalyst
        self._tables = {table.name.casefold(): table for table in tables}
        self._inputs = inputs
        self._joined: list[str] = []

    def run(self, plan: Plan) -> Plan:
        result = self._rewrite(plan)
        used = views_below(plan, self._tables)
        for name, table in self._tables.items():
            if used.count(name) != self._joined.count(name):
                raise _misused(table, "it is read in another way")
            if name not in used:
                raise _misused(table, "the query does not read it")
        return result

    def _rewrite(self, node: Plan) -> Plan:
        if node.kind == "View" and node.view_name.casefold() in self._inputs:
            return node
        children = node.children
        if node.kind != "Join" or not views_below(children[1], self._tables):
            replaced = [self._rewrite(child) for child in children]
            if all(new is old for new, old in zip(replaced, children, strict=True)):
                return node
            return self._catalyst.with_children(node, replaced)
        left, right = self._rewrite(children[0]), children[1]
        return self._as_of(self._catalyst.with_children(node, [left, right]))

    def _as_of(self, join: Plan) -> Plan:
        left, right = join.children
        name, *others = views_below(right, self._tables)
        table = self._tables[name]
        if others or not is_stateless(right, self._inputs):
            raise _misused(table, "what is joined is more than the table")
        if join.join_type not in _OUTERNESS:
            raise _misused(table, f"it is joined by a {join.join_type} join")
        self._check_key(join, table)
        left_time = self._event_time(left)
        right_time = self._event_time(right)
        if left_time is None:
            raise _misused(table, "the left side of the join has no event time")
        if right_time is None:
            raise _misused(table, "the event time of the table is not among what is joined")
        self._joined.append(name)
        if left_time.type_name == "date" != right_time.type_name:
            left_time = self._catalyst.cast_like(left_time, right_time)
        elif right_time.type_name == "date" != left_time.type_name:
            right_time = self._catalyst.cast_like(right_time, left_time)
        return self._catalyst.as_of_join(join, left_time, right_time)

    def _check_key(self, join: Plan, table: TemporalTable) -> None:
        """Make sure that a join compares the whole primary key, and nothing else."""
        right = join.children[1]
        try:
            pairs = list(key_pairs(join))
        except InvalidQueryError as error:
            raise _misused(table, "ON says more than equalities") from error
        compared = []
        for pair in pairs:
            found = origins_of(right, without_casts(pair.right), self._tables)
            compared += [origin.column.casefold() for origin in found] or [str(pair.right)]
        if sorted(compared) != sorted(column.casefold() for column in table.primary_key):
            said = ", ".join(f"`{column}`" for column in sorted(compared)) or "nothing"
            raise _misused(table, f"ON compares {said}")

    def _event_time(self, side: Plan) -> Expression | None:
        for _, attribute in side.output:
            expression = Expression(attribute)
            if is_event_time(side, expression, self._inputs):
                return expression
        return None


def _check_key_columns(table: TemporalTable, columns: Collection[str]) -> None:
    folded = {column.casefold() for column in columns}
    missing = [column for column in table.primary_key if column.casefold() not in folded]
    if missing:
        raise InvalidQueryError(
            f"the temporal table `{table.name}` has no column `{missing[0]}`; it has "
            + ", ".join(f"`{column}`" for column in columns)
        )


def _misused(table: TemporalTable, why: str) -> InvalidQueryError:
    key = " AND ".join(f"l.{column} = {table.name}.{column}" for column in table.primary_key)
    return InvalidQueryError(
        f"the query: `{table.name}` is a temporal table, which can only be joined by its whole "
        f"primary key; {why}",
        hint=f"write FROM l [LEFT] JOIN {table.name} ON {key}, or take it off temporalTables",
    )

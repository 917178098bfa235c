"""The query with one aggregate, as the classes of changing results see it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from odf.data.types import slice_type
from odf.engines.spark.catalyst import Expression, Plan
from odf.engines.spark.stateful.base import StatefulRun
from odf.engines.spark.stateful.kinds import Question, Stateful, carry
from odf.engines.spark.stateful.lineage import Origin, columns_read
from odf.engines.spark.stateful.nodes import AggregateParts, Nodes
from odf.engines.spark.stateful.shape import find_stateful
from odf.engines.spark.stateful.tables import arrow_schema_of, can_be_kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY: Final = "k"
"""Group keys are `k0`, `k1`, … in frames, whether the query selects them or not."""

VALUE: Final = "c"
"""The columns of the query are `c0`, `c1`, …"""


class GroupedQuery:
    """A query with one aggregate, analysed over the views that are registered.

    An aggregate without keys is one with a constant key: so its group, too, is there only while
    it has rows.

    Args:
        nodes: Spark's analyser.
        question: The query.
        stateful: Its aggregate with what is around it.

    Attributes:
        nodes: Spark's analyser.
        parts: The aggregate, taken apart.
        child: The rows that are grouped.
        has_keys: Whether the query itself says by what it groups.
        columns: Names of the columns of the result.
    """

    def __init__(self, nodes: Nodes, question: Question, stateful: Stateful) -> None:
        self.nodes = nodes
        self._stateful = stateful
        parts = nodes.take_apart(stateful.node)
        self.has_keys: bool = bool(parts.keys)
        if not self.has_keys:
            parts = replace(parts, keys=(nodes.named(nodes.integer(0), "everything"),))
        self.parts: AggregateParts = parts
        self.child: Plan = parts.child
        self._frame = question.analysed.frame
        self.columns: tuple[str, ...] = tuple(self._frame.columns)
        self._inputs = question.inputs

    @classmethod
    def of(cls, run: StatefulRun) -> "GroupedQuery":
        """Analyse the query of a run over the views that are registered now."""
        question = run.question(run.analyse())
        stateful = find_stateful(question.analysed.plan, question.views)
        if isinstance(stateful, str):
            raise TypeError(f"the query changed its kind: {stateful}")
        return cls(Nodes(run.spark), question, stateful)

    @property
    def offsets(self) -> Mapping[str, str]:
        """The offset columns of the inputs by the names of their views, casefolded."""
        return {given.view: given.vocab.offset_column for given in self._inputs}

    @property
    def key_columns(self) -> list[str]:
        """Names of the keys in frames."""
        return [f"{KEY}{number}" for number in range(len(self.parts.keys))]

    @property
    def value_columns(self) -> list[str]:
        """Names of the result's columns in frames."""
        return [f"{VALUE}{number}" for number in range(len(self.columns))]

    @property
    def key_names(self) -> list[str]:
        """What the query calls its keys; expressions are called after their text."""
        return _unique(_text(key) for key in self.parts.keys)

    @property
    def has_plain_keys(self) -> bool:
        """Whether the keys can be compared, sorted and kept."""
        if not all(self.nodes.can_be_sorted(key.toAttribute()) for key in self.parts.keys):
            return False
        frame = self.nodes.frame(self.nodes.project(self.parts.keys, self.child))
        return can_be_kept(frame.toDF(*self.key_columns))

    @cached_property
    def reads_places(self) -> bool:
        """Whether the groups depend on where in its input a row stands, and when it came there.

        A retraction has an offset and a system time of its own: by them it belongs to another group
        than the row that it retracts.
        """
        parts = [Expression(key) for key in self.parts.keys]
        parts += [Expression(function.java) for function in self.parts.functions]
        wanted: set[int] = set().union(*(part.mentioned for part in parts))
        read = columns_read(self.child, wanted, self.offsets)
        return any(
            Origin(given.view, name) in read
            for given in self._inputs
            for name in (given.vocab.offset_column, given.vocab.system_time_column)
        )

    def result_schema(self, operation: str) -> pa.Schema:
        """Return the columns of the result as a slice has them, the operation last.

        Args:
            operation: Name of the operation column.
        """
        found = arrow_schema_of(self._frame)
        fields = [pa.field(field.name, slice_type(field.type)) for field in found]
        return pa.schema([*fields, pa.field(operation, pa.int32())])

    def keys_of(self, rows: Plan) -> "DataFrame":
        """Return the keys of the groups that rows belong to, each group once.

        Args:
            rows: Rows with the columns of `child`.
        """
        plan = self.nodes.project(self.parts.keys, rows)
        return self.nodes.frame(plan).toDF(*self.key_columns).distinct()

    def results(self, values: Plan) -> "DataFrame":
        """Return what the query makes of the groups: its columns, then their keys.

        Args:
            values: The keys and the results of the functions, as attributes of `parts`.
        """
        hidden = [
            self.nodes.named(key.toAttribute(), name)
            for key, name in zip(self.parts.keys, self.key_columns, strict=True)
        ]
        node = self.nodes.project([*self.parts.outputs, *hidden], values)
        attributes = [attribute for _, attribute in node.output[-len(hidden) :]]
        plan, _ = carry(self.nodes, self._stateful, node, attributes)
        return self.nodes.frame(plan).toDF(*self.value_columns, *self.key_columns)


def _text(key: Any) -> str:
    """Return a key as the query writes it; a name made up by Spark changes from run to run."""
    named = Expression(key)
    return str(named.children[0]) if named.kind == "Alias" else str(key.name())


def _unique(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        taken = sum(other.partition("#")[0] == name for other in found)
        found.append(f"{name}#{taken}" if taken else name)
    return found

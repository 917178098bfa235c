"""The kinds of queries, and what is known about the one stateful node of a query."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from odf.engines.spark.catalyst import Catalyst, Plan
from odf.engines.spark.query.validate import Analysed
from odf.metadata.model import DatasetVocabulary, TransformSql


class QueryKind(StrEnum):
    """How a query gives the same result for any grouping of its input into runs."""

    STATELESS = "stateless"
    """Each row of the inputs is mapped by itself."""
    BOUNDED = "bounded"
    """Results are complete at some event time, and rows are kept until then."""
    CHANGING = "changing"
    """One row for each group, corrected whenever it changes."""
    AS_OF = "as-of"
    """Each row meets the version that was valid at its event time."""
    WHOLE_HISTORY = "whole history"
    """Computed anew from all rows, compared with what was there."""


@dataclass(frozen=True, slots=True)
class QueryInput:
    """An input as far as classification is concerned.

    Attributes:
        alias: Name of the view.
        vocab: Names of the system columns in it, all four filled.
        has_retractions: Whether its rows can hold operations other than append; None if that is
            not known, or was asked before.
    """

    alias: str
    vocab: DatasetVocabulary
    has_retractions: bool | None = None

    @property
    def view(self) -> str:
        """Name of the view, casefolded, as plans are searched for it."""
        return self.alias.casefold()


@dataclass(frozen=True, slots=True)
class Question:
    """A query that is to be classified.

    Attributes:
        catalyst: Spark's analyser.
        analysed: The query.
        inputs: Its inputs, in the order of the transform.
        vocab: Names of the system columns of the result.
        transform: The query as it is written.
    """

    catalyst: Catalyst
    analysed: Analysed
    inputs: tuple[QueryInput, ...]
    vocab: DatasetVocabulary
    transform: TransformSql

    @property
    def views(self) -> frozenset[str]:
        """Names of the views that are inputs, casefolded."""
        return frozenset(given.view for given in self.inputs)

    def number_of(self, view: str) -> int:
        """Return the position of an input by the casefolded name of its view."""
        return next(n for n, given in enumerate(self.inputs) if given.view == view)


@dataclass(frozen=True, slots=True)
class Stateful:
    """The only node of a plan that looks at more than one row, and what is around it.

    Attributes:
        above: The nodes from the root down to just above the node; each maps rows by itself and
            has one child.
        node: The node.
        below: Its children; nothing in them looks at more than one row.
    """

    above: tuple[Plan, ...]
    node: Plan
    below: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class Derived:
    """What a class of queries found out about a query that belongs to it.

    Attributes:
        detail: What its runner needs besides the plan.
        words: The query in words: what it is, and what is kept between runs.
        warnings: One line each, for the person who adds the dataset.
    """

    detail: Any
    words: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Classified:
    """A query of a known kind.

    Attributes:
        kind: The kind.
        words: The query in words: what it is, and what is kept between runs.
        stateful: The stateful node with its surroundings, if the query has one and no more.
        detail: What the runner of its kind needs besides.
        warnings: One line each, for the person who adds the dataset.
    """

    kind: QueryKind
    words: str
    stateful: Stateful | None = None
    detail: Any = None
    warnings: tuple[str, ...] = ()


def carry(
    catalyst: Catalyst, stateful: Stateful, node: Plan, hidden: Sequence[Any]
) -> tuple[Plan, tuple[Any, ...]]:
    """Put hidden columns of the stateful node through the nodes above it.

    Args:
        catalyst: Spark's analyser.
        stateful: The node and its surroundings.
        node: The node as it is to be, with the hidden columns among its output.
        hidden: The attributes of the hidden columns.

    Returns:
        The plan with the query's own columns first and the hidden ones last, and the attributes.
    """
    visible = [attribute for _, attribute in (*stateful.above, stateful.node)[0].output]
    plan = node
    for upper in reversed(stateful.above):
        match upper.kind:
            case "Project":
                plan = catalyst.project([*upper.projected, *hidden], plan)
            case "Filter" | "Generate":
                plan = catalyst.with_child(upper, plan)
            case "View" | "SubqueryAlias" | "PipeOperator":
                pass
            case _:
                raise TypeError(f"a {upper.kind} cannot carry hidden columns")
    return catalyst.project([*visible, *hidden], plan), tuple(hidden)

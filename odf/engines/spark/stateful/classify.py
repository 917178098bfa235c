"""Decides of which kind a query is, from its analysed plan (spark-stateful.md §8)."""

from collections.abc import Callable
from typing import Final

from odf.engines.spark.query.plans import stateful_construct
from odf.engines.spark.stateful.asof import derive_as_of
from odf.engines.spark.stateful.bounded import derive_bounded
from odf.engines.spark.stateful.changing import derive_changing
from odf.engines.spark.stateful.kinds import (
    Classified,
    Derived,
    QueryKind,
    Question,
    Stateful,
)
from odf.engines.spark.stateful.recompute import derive_whole_history
from odf.engines.spark.stateful.shape import find_stateful
from odf.errors import InvalidQueryError

Derive = Callable[[Question, Stateful | str], Derived | str]
"""Tells whether a query belongs to a kind: what its runner needs, or why it does not belong."""

_DERIVE: Final[dict[QueryKind, Derive]] = {
    QueryKind.BOUNDED: derive_bounded,
    QueryKind.CHANGING: derive_changing,
    QueryKind.AS_OF: derive_as_of,
    QueryKind.WHOLE_HISTORY: derive_whole_history,
}
_IN_ORDER: Final = {
    "Aggregate": (QueryKind.BOUNDED, QueryKind.CHANGING),
    "Distinct": (QueryKind.BOUNDED, QueryKind.CHANGING),
    "Join": (QueryKind.BOUNDED,),
    "AsOfJoin": (QueryKind.AS_OF,),
}


def classify(question: Question) -> Classified:
    """Decide of which kind a query is.

    Args:
        question: The query and its inputs.

    Raises:
        InvalidQueryError: It is of no kind that can be run; the hint says what to write instead.
    """
    if question.analysed.stateless and not question.transform.temporal_tables:
        return Classified(QueryKind.STATELESS, "")
    found = find_stateful(question.analysed.plan, question.views)
    why: list[str] = [found] if isinstance(found, str) else []
    if isinstance(found, Stateful) and found.node.kind not in _IN_ORDER:
        why.append(f"it has {stateful_construct(found.node)}")
    for kind in _candidates(question, found):
        derived = _DERIVE[kind](question, found)
        if isinstance(derived, Derived):
            stateful = None if isinstance(found, str) else found
            words = derived.words
            if kind is QueryKind.WHOLE_HISTORY and why:
                words = f"{words}, because {_listed(why)}"
            return Classified(kind, words, stateful, derived.detail, derived.warnings)
        why.append(derived)
    raise InvalidQueryError(
        f"the query needs state between runs that this engine does not keep: {_listed(why)}",
        hint="add a time window or a range of event times, or use only SELECT, WHERE, UNION ALL "
        "and LATERAL VIEW",
    )


def _listed(reasons: list[str]) -> str:
    return "; ".join(dict.fromkeys(reasons))


def _candidates(question: Question, found: Stateful | str) -> list[QueryKind]:
    kinds: list[QueryKind] = []
    nodes = question.analysed.plan.walk(question.views)
    if question.transform.temporal_tables or any(node.kind == "AsOfJoin" for node in nodes):
        kinds.append(QueryKind.AS_OF)
    if isinstance(found, Stateful):
        kinds += [kind for kind in _IN_ORDER.get(found.node.kind, ()) if kind not in kinds]
    return [*kinds, QueryKind.WHOLE_HISTORY]
